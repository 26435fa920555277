"""Debezium's envelopes read natively: what comes out is what the reference reads, and most events never see it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType, TimestampType, TimeType

from pyspark_pravega.formats.changes.debezium.json import _EnvelopeReader
from pyspark_pravega.formats.changes.feed import MARKS, POSITION_TYPE, changelog_schema
from pyspark_pravega.formats.changes.source_positions import SOURCE_TYPE, make_position_arrays, read_positions
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.debezium import records, tables
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.changes.test_debezium_encodings import FIELDS, MYSQL, MYSQL_ROW, columns, envelope, mysql
from tests.formats.fuzzing import COUNT, SEED, damaged

PIECE = 500


def folded(table: StructType, *names: str) -> StructType:
    """The columns of a changelog that current rows are folded from; of the table only these, if any are named."""
    image = StructType([field for field in table if not names or field.name in names])
    return StructType([*(field for field in changelog_schema(image) if field.name != "source"), MARKS])


def both_paths(table: StructType, wanted: StructType, **settings: str) -> BothPaths:
    format = find_format("debezium-json")
    options = {key.replace("__", ".").replace("_", "-"): text for key, text in settings.items()}
    return BothPaths("debezium-json", wanted, format.schema_text(Layout(table), "t", "s"), None, options)


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each call of the reference had."""
    counts: list[int] = []
    real = _EnvelopeReader.arrays

    def counted(self: _EnvelopeReader, payloads: EventBuffer, *more: Any) -> list[pa.Array]:
        counts.append(len(payloads))
        return real(self, payloads, *more)

    monkeypatch.setattr(_EnvelopeReader, "arrays", counted)
    return counts


def events_of(name: str) -> list[bytes]:
    return [record.value for record in records()[tables()[name].topic]]


@needs_native
@pytest.mark.parametrize("name", list(tables()))
def test_captured_events(name: str) -> None:
    table = tables()[name].schema
    units = {"debezium__time_units": "ts3=ms,ts0=ms"} if "ts3" in table.names else {}
    events = EventBuffer.of(events_of(name))
    first, last = table.names[0], table.names[-1]
    for wanted in (folded(table), folded(table, first), folded(table, last), StructType(list(folded(table))[1:0:-1])):
        both_paths(table, wanted, **units).check(events)


@needs_native
@pytest.mark.parametrize("name", ["customers", "orders"])
def test_changes_without_doubt_never_see_the_reference(name: str, by_reference: list[int]) -> None:
    table = tables()[name].schema
    format = find_format("debezium-json")
    events = [event for event in events_of(name) if event]  # no tombstones
    placeholders = sum(b"__debezium_unavailable_value" in event for event in events)
    decoder = format.decoder(Layout(folded(table), format.schema_text(Layout(table), "t", "s"), {}))
    by_reference.clear()
    decoder.decode(EventBuffer.of(events))
    assert sum(by_reference) == placeholders < len(events) / 9


@needs_native
def test_the_shapes_of_mysql(by_reference: list[int]) -> None:
    events = [
        mysql("r", None, MYSQL_ROW, 154),
        *(
            mysql("u", MYSQL_ROW, MYSQL_ROW | {"id": number, "flag": 0}, 200 + number, number % 3)
            for number in range(50)
        ),
        mysql("d", MYSQL_ROW, None, 900, file="binlog.000004"),
        mysql("c", None, MYSQL_ROW | {"price": "12.509"}, 901),
        mysql("c", None, MYSQL_ROW | {"flag": 2}, 902),
    ]
    both = both_paths(MYSQL, folded(MYSQL), debezium__time_units="at6=us")
    _, bad = both.check(EventBuffer.of(events))
    assert [event.index for event in bad] == [52, 53]
    by_reference.clear()
    both.native.decode_valid(EventBuffer.of(events))
    assert by_reference == [2]


@needs_native
def test_timestamps_of_rfc_3339() -> None:
    """Letters of either case; a leap second is the instant after it, and a 60th second elsewhere is none."""
    table = columns(id=LongType(), at=TimestampType())
    texts = ["2024-01-31t12:00:00z", "2016-12-31T23:59:60Z", "2016-12-31T22:59:60.5-01:00", "2016-12-30T23:59:60Z"]
    source = {"connector": "postgresql", "name": "dbz"}
    events = [
        json.dumps({"op": "c", "before": None, "after": {"id": 1, "at": text}, "source": source | {"lsn": 5}}).encode()
        for text in texts
    ]
    batch, bad = both_paths(table, folded(table)).check(EventBuffer.of(events))
    read = [row["after"]["at"] for row in batch.to_pylist()]
    assert [at.timestamp() for at in read] == [
        1706702400, 1483228800, 1483228800.5,
    ]  # fmt: skip
    assert [(event.index, "not a time of day" in event.reason) for event in bad] == [(3, True)]


@needs_native
def test_times_of_day(by_reference: list[int]) -> None:
    """Counts, and texts of databases; what is no time of day is bad for both."""
    table = columns(id=LongType(), at=TimeType(6))
    micro = {"type": "int64", "name": "io.debezium.time.MicroTime"}
    source = {"connector": "postgresql", "name": "dbz", "lsn": 5}

    def event(schema: Any, value: Any) -> bytes:
        payload = {"before": None, "after": {"id": 1, "at": value}, "op": "c", "ts_ms": 5, "source": source}
        return envelope(payload, [("id", {"type": "int64"}), ("at", schema)])

    for schema, good, wrong in (
        (micro, [0, 45_296_000_001, None], [-1, 86_400_000_000]),
        ({"type": "string"}, ["12:34:56.000001", "00:00"], ["12:34:56.0000001", "12:34:56Z", "noon"]),
    ):
        both = both_paths(table, folded(table))
        both.check(EventBuffer.of([event(schema, value) for value in [*good, *wrong]]))
        by_reference.clear()
        _, bad = both.native.decode_valid(EventBuffer.of([event(schema, value) for value in good]))
        assert bad == [] and by_reference == [], schema


ENVELOPED = columns(**{name: data_type for name, _, _, data_type, _ in FIELDS if data_type.simpleString() != "string"})


def enveloped(operation: str = "c", names: Sequence[str] | None = None, lsn: int = 5) -> bytes:
    """An event with its schema, of some of the columns."""
    chosen = [(name, schema, value) for name, schema, value, _, _ in FIELDS if names is None or name in names]
    after = {name: value for name, _, value in chosen}
    payload = {"before": None, "after": after, "op": operation, "ts_ms": 5}
    payload["source"] = {"connector": "postgresql", "name": "dbz", "lsn": lsn}
    return envelope(payload, [(name, schema) for name, schema, _ in chosen])


@needs_native
def test_events_with_schemas(by_reference: list[int]) -> None:
    both = both_paths(ENVELOPED, folded(ENVELOPED))
    other = [enveloped(names=[name for name, *_ in FIELDS][:4], lsn=number) for number in range(20)]
    both.check(EventBuffer.of([enveloped(lsn=number) for number in range(100)]))
    # The reference reads decimals of any scale, which are objects, and maps as texts.
    plain = [name for name, *_ in FIELDS if not name.startswith("free") and name != "store_text"]
    events = [enveloped(names=plain, lsn=number) for number in range(100)]
    both.check(EventBuffer.of(events))
    both.check(EventBuffer.of(other + events))
    by_reference.clear()
    both.native.decode(EventBuffer.of(events))
    assert sum(by_reference) == 0
    both.native.decode(EventBuffer.of(events + other))
    assert sum(by_reference) == 20
    # Followed by something, begun with another property, or with the schema behind the payload.
    turned = json.loads(events[0])
    unusual = [
        events[0] + b" ",
        events[0][:-1] + b',"x":1}',
        json.dumps({"payload": turned["payload"], **turned}).encode(),
    ]
    both.check(EventBuffer.of([*events[:3], *unusual, b"\xef\xbb\xbf" + events[0], b'{"schema":null}', b'{"schema":{']))
    both.check(EventBuffer.of([b'{"schema":', *events[:3]]))
    nested = events[0].replace(b'"op":', b'"x":' + b"[" * 510 + b"]" * 510 + b',"op":', 1)
    both.check(EventBuffer.of([events[0], nested, nested.replace(b"[[", b"[").replace(b"]]", b"]")]))


@needs_native
def test_events_with_a_schema_among_others() -> None:
    table = tables()["customers"].schema
    bare = json.loads(events_of("customers")[0])
    odd = [
        {"schema": None, **bare},
        {"schema": None, **bare, "payload": {"op": "d", "before": bare["after"], "source": bare["source"]}},
        {**bare, "schema": {}, "payload": bare},
        {"payload": bare},
    ]
    events = [json.dumps(document, separators=(",", ":")).encode() for document in (bare, *odd, bare)]
    both = both_paths(table, folded(table))
    both.check(EventBuffer.of(events))
    for event in events:
        both.check(EventBuffer.of([event]))


@needs_native
def test_events_of_several_connectors_and_of_none() -> None:
    postgres = json.loads(events_of("customers")[0])
    plain = {key: value for key, value in postgres.items() if key != "source"}
    events: list[bytes] = []
    for number in range(300):
        kind = number // 50 % 3
        events.append(
            json.dumps(plain).encode()
            if kind == 0
            else json.dumps(postgres).encode()
            if kind == 1
            else mysql("u", None, postgres["after"], number)
        )
    table = tables()["customers"].schema
    both = both_paths(table, folded(table))
    for begin in range(0, 300, 30):
        both.check(EventBuffer.of(events[begin : begin + 30]))
    both.check(EventBuffer.of(events))


def values(chance: random.Random) -> dict[str, Any]:
    """A source block that tells a position in one way or another, or none."""
    block: dict[str, Any] = {
        "connector": chance.choice([None, "mysql", "postgresql", "sqlserver", "oracle"]),
        "name": chance.choice([None, "shop"]),
        "db": chance.choice([None, "a", "b/c"]),
        "ts_ms": chance.choice([None, 0, 17, 2**62, -(2**63), -62_135_596_800_001]),
        "ts_us": chance.choice([None, None, 5, 2**63 - 1]),
        "lsn": chance.choice([None, None, None, 0, 17, 2**63 - 1, -1]),
        "file": chance.choice([None, None, "binlog.000003", "mysql-bin.7", "12", "none", "", "x" * 30 + "9" * 30]),
        "pos": chance.choice([None, 4, 2**40, -1]),
        "row": chance.choice([None, 0, 3, -2]),
        "server_id": chance.choice([None, 0, 223344]),
        "change_lsn": chance.choice([None, None, "00000027:00000758:0003", "ffffffff:00000758:0003", "x"]),
        "event_serial_no": chance.choice([None, 1, 2, -3]),
        "scn": chance.choice([None, "1234", "1" * 19, "x"]),
    }
    return block


def test_positions_are_those_of_the_reference() -> None:
    chance = random.Random(7)
    for count in (0, 1, 2, 3000):
        blocks = [None if chance.random() < 0.05 else values(chance) for _ in range(count)]
        found = make_position_arrays(pa.array(blocks, SOURCE_TYPE))
        wanted = read_positions(blocks)
        for place, member in enumerate(POSITION_TYPE):
            if member.name != "time":
                assert found[member.name].to_pylist() == [position[place] for position in wanted], member.name
        low, high = -62_135_596_800_000_000, 253_402_300_799_999_999
        times = [
            position[-1] if position[-1] is not None and low <= position[-1] <= high else None for position in wanted
        ]
        assert found["time"].view(pa.int64()).to_pylist() == times


def pieces(whole: Sequence[bytes], count: int, kind: str) -> Iterator[EventBuffer]:
    chance = random.Random(f"{SEED} {kind}")
    while count > 0:
        yield EventBuffer.of([damaged(chance.choice(whole), chance) for _ in range(min(PIECE, count))])
        count -= PIECE


@needs_native
@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
@pytest.mark.parametrize("kind", ["captured", "mysql", "enveloped"])
def test_damaged_events(kind: str) -> None:
    if kind == "mysql":
        table, settings = MYSQL, {"debezium__time_units": "at6=us"}
        whole = [mysql("c", None, MYSQL_ROW, 17), mysql("d", MYSQL_ROW, None, 18)]
        whole += [mysql("c", None, {name: value}, 19) for name, value in MYSQL_ROW.items()]
    elif kind == "enveloped":
        table, settings = ENVELOPED, {}
        whole = [enveloped(), *(enveloped("u", [name]) for name, *_ in FIELDS)]
    else:
        table, settings = tables()["types"].schema, {"debezium__time_units": "ts3=ms,ts0=ms"}
        found = [event for event in events_of("types") if event][:12]
        after = json.loads(found[0])["after"]
        short = {"op": "c", "source": {"connector": "postgresql", "lsn": 5, "ts_us": 7}, "ts_ms": 3, "before": None}
        whole = found + [json.dumps({**short, "after": {name: value}}).encode() for name, value in after.items()]
    both = both_paths(table, folded(table), **settings)
    # Together as many as of any other format.
    count = COUNT * {"mysql": 75, "captured": 20, "enveloped": 5}[kind] // 100
    read = refused = 0
    for events in pieces(whole, count, kind):
        batch, bad = both.check(events)
        read += batch.num_rows
        refused += len(bad)
    assert read + refused == count
    assert refused > count // 100
    assert read > count // 100
