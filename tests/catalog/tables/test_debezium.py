"""Tables of changes through SQL: streams as Debezium Server's sink writes them, scaled in the middle."""

from __future__ import annotations

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from pyspark_pravega.catalog.protocol.message_codec import decode, encode
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.routing import SegmentRouter, hash_keys
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.datasource.changes.group_planning import group_by_lineage
from pyspark_pravega.datasource.changes.truncations import TruncationMemory
from pyspark_pravega.datasource.kinds.event_table import Changelog
from pyspark_pravega.datasource.kinds.opening import load
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.tables.stream_table import KindName, StreamTable
from tests.catalog.queries.test_bad_event_modes import metrics_in_the_ui
from tests.datasource.scans import rows, scan
from tests.debezium import Record, Table, records, tables
from tests.formats.changes.test_debezium_capture import assert_equal
from tests.formats.changes.test_debezium_encodings import AVRO_TABLE, FIELDS, avro_row, avro_schema, confluent, envelope
from tests.streams import into_memory


def at_length(*values: Any) -> list[Any]:
    """Parameters for `make long`."""
    return [pytest.param(each, marks=pytest.mark.long) for each in values]


def write(pravega: Pravega, stream: Stream, events: Iterable[Record]) -> None:
    """Append events in order, each to the segment of its key; those without key by turns."""
    current = pravega.controller.current_segments(stream)
    router = SegmentRouter(current)
    turns = itertools.cycle(segment.segment_id for segment in current)
    blocks: dict[int, list[bytes]] = {segment.segment_id: [] for segment in current}
    for each in events:
        segment = (
            next(turns) if each.key is None else router.segment_ids[router.places(hash_keys(pa.array([each.key])))[0]]
        )
        blocks[segment].append(bytes(4) + len(each.value).to_bytes(4, "big") + each.value)
    for segment, frames in blocks.items():
        if frames:
            with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
                appender.append(b"".join(frames), len(frames))
                appender.flush()


def create_stream(pravega: Pravega, stream: Stream, segments: int) -> None:
    pravega.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy("fixed", 0, 2, segments)))


def write_scaled(pravega: Pravega, stream: Stream, events: Sequence[Record]) -> None:
    """A third of the events in two segments, a third after a split of one, a third after a merge of two."""
    create_stream(pravega, stream, 2)
    third = len(events) // 3
    write(pravega, stream, events[:third])
    first = min(pravega.controller.current_segments(stream), key=lambda each: each.min_key)
    half = (first.min_key + first.max_key) / 2
    pravega.controller.scale_stream(stream, [first.segment_id], [(first.min_key, half), (half, first.max_key)])
    write(pravega, stream, events[third : 2 * third])
    ordered = sorted(pravega.controller.current_segments(stream), key=lambda each: each.min_key)
    merged = ordered[1:]
    pravega.controller.scale_stream(
        stream, [each.segment_id for each in merged], [(merged[0].min_key, merged[-1].max_key)]
    )
    write(pravega, stream, events[2 * third :])


def declare(spark: SparkSession, stream: Stream, table: Table, extra: str = "") -> str:
    name = f"pravega.`{stream.scope}`.`{stream.name}`"
    columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in table.schema)
    key = f", 'primary-key'='{','.join(table.key)}'" if table.key else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ('format'='debezium-json'{key}{extra})")
    return name


def rows_of(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    found = []
    for row in spark.sql(query).collect():
        values = row.asDict(recursive=True)
        for name, value in values.items():
            if isinstance(value, bytearray):
                values[name] = bytes(value)
        found.append(values)
    return found


def test_segments_that_share_keys_are_read_together_predecessors_first(client_config: ClientConfig, scope: str) -> None:
    stream = Stream(scope, "s")
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 4)
        quarters = sorted(pravega.controller.current_segments(stream), key=lambda each: each.min_key)
        ids = [each.segment_id for each in quarters]
        # The first is split, and what was its upper half merged with the second; the others stay alone.
        pravega.controller.scale_stream(stream, ids[:1], [(0.0, 0.125), (0.125, 0.25)])
        low, high = sorted(pravega.controller.current_segments(stream), key=lambda each: each.min_key)[:2]
        pravega.controller.scale_stream(stream, [high.segment_id, ids[1]], [(0.125, 0.5)])
        merged = sorted(pravega.controller.current_segments(stream), key=lambda each: each.min_key)[1]
        # The segment between both has no events in the scan.
        present = [merged.segment_id, ids[3], ids[1], ids[2], low.segment_id, ids[0]]
        groups = group_by_lineage(pravega, stream, [SegmentSlice(each, 0, 10) for each in present])
    found = sorted([each.segment_id for each in group] for group in groups)
    assert found == sorted([[*sorted([ids[0], ids[1]]), low.segment_id, merged.segment_id], [ids[2]], [ids[3]]])


@pytest.mark.parametrize("name", ["customers", "types", *at_length("orders", "staging", "scratch", "Mixed Case")])
def test_current_rows_of_captured_streams_that_were_scaled(
    spark: SparkSession, client_config: ClientConfig, scope: str, name: str
) -> None:
    table = tables()[name]
    # Pravega's clients take no names with _.
    stream = Stream(scope, table.topic.replace("_", "-"))
    with connect(client_config) as pravega:
        write_scaled(pravega, stream, records()[table.topic])
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    units = ", 'debezium.time-units'='ts3=ms,ts0=ms'" if name == "types" else ""
    shown = declare(spark, stream, table, units)
    found = rows_of(spark, f"SELECT * FROM {shown}")
    for row in found:
        for column, value in row.items():
            kind = table.schema[column].dataType.simpleString()
            if kind == "timestamp" and value is not None:
                row[column] = value.astimezone(UTC)
            if kind == "array<timestamp>" and value is not None:
                row[column] = [None if each is None else each.astimezone(UTC) for each in value]
    assert_equal(table, found)
    assert spark.sql(f"SELECT count(*) FROM {shown}").first()[0] == len(table.rows)
    key = table.key[0]
    assert sorted(row[0] for row in spark.sql(f"SELECT `{key}` FROM {shown} WHERE `{key}` > 3").collect()) == sorted(
        row[key] for row in found if row[key] > 3
    )


@pytest.mark.parametrize("name", ["staging", *at_length("customers", "scratch")])
def test_truncations_clear_the_rows_of_segments_that_share_no_key(
    spark: SparkSession, client_config: ClientConfig, scope: str, name: str
) -> None:
    table = tables()[name]
    stream = Stream(scope, table.topic)
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 3)
        write(pravega, stream, records()[table.topic])
    shown = declare(spark, stream, table)
    key = table.key[0]
    found = sorted(row[0] for row in spark.sql(f"SELECT {key} FROM {shown}").collect())
    assert found == sorted(int(str(row[key])) for row in table.rows)


def test_queries_alone_search_for_truncations_and_tasks_do_where_there_is_much(
    spark: SparkSession, client_config: ClientConfig, scope: str
) -> None:
    """EXPLAIN does not; what was found is remembered."""
    stream, shown = Stream(scope, "large"), f"pravega.`{scope}`.large"

    def event(op: str, key: int | None, ts: int, v: str = "") -> Record:
        envelope = {"op": op, "before": None, "after": None if key is None else {"id": key, "v": v}, "ts_ms": ts}
        return Record(None if key is None else str(key), json.dumps(envelope).encode())

    with connect(client_config) as pravega:
        create_stream(pravega, stream, 3)
        spark.sql(
            f"CREATE TABLE {shown} (id INT, v STRING) USING pravega "
            "TBLPROPERTIES ('format'='debezium-json', 'framing'='none', 'primary-key'='id')"
        )
        large = "x" * (6 << 20)
        write(pravega, stream, [event("c", key, 1, large) for key in range(6)])
        write(pravega, stream, [event("t", None, 2), *(event("c", key, 3) for key in range(6, 9))])
        table = load(pravega, stream).table
        (plan,) = spark.sql(f"EXPLAIN SELECT id FROM {shown}").first()
        assert "bytes: 3" in plan
        assert not TruncationMemory(pravega, table).recall().ranges
        assert sorted(row.id for row in spark.sql(f"SELECT id FROM {shown}").collect()) == [6, 7, 8]
        assert len(TruncationMemory(pravega, table).recall().truncations) == 1
        write(pravega, stream, [event("c", 9, 4, large), event("c", 10, 4, large), event("c", 11, 4, large)])
        write(pravega, stream, [Record(None, b'{"op":"t", ?}')])
        spark.sql(f"EXPLAIN SELECT id FROM {shown}").collect()
        with pytest.raises(PySparkException, match=r"PRAVEGA_MALFORMED_EVENT.*cannot be decoded"):
            spark.sql(f"SELECT id FROM {shown}").collect()


def test_inserted_rows_are_changes_beside_debeziums(
    spark: SparkSession, client_config: ClientConfig, scope: str
) -> None:
    table = tables()["accounts"]
    stream = Stream(scope, table.topic)
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 4)
        write(pravega, stream, records()[table.topic])
    shown = declare(spark, stream, table)
    before = spark.sql(f"SELECT count(*) FROM {shown}").first()[0]
    there = int(str(table.rows[0]["id"]))
    spark.sql(
        f"INSERT INTO {shown} VALUES ({there}, 'new owner', 12.5, 'text', DATE'2024-02-29', 'CHF'), "
        "(9999, NULL, NULL, NULL, NULL, NULL)"
    )
    found = {row["id"]: row for row in rows_of(spark, f"SELECT *, _segment FROM {shown} WHERE id IN ({there}, 9999)")}
    assert before + 1 == spark.sql(f"SELECT count(*) FROM {shown}").first()[0]
    segment = found[there].pop("_segment")
    assert found[there] == {
        "id": there,
        "owner": "new owner",
        "amount": Decimal("12.5000"),
        "doc": "text",
        "opened": date(2024, 2, 29),
        "currency": "CHF",
    }
    with connect(client_config) as pravega:
        current = pravega.controller.current_segments(stream)
        router = SegmentRouter(current)
        where = router.segment_ids[router.places(hash_keys(pa.array([f'{{"id":{there}}}'])))[0]]
    # Where Debezium's own events of this key are, so that their order tells which is later.
    assert segment.rpartition("/")[2].partition(".")[0] == str(where & 0xFFFFFFFF)
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {shown}").collect()}
    assert properties["format"] == "debezium-json"
    assert properties["primary-key"] == "id"
    assert properties["framing"] == "none"


def test_columns_are_taken_from_the_schemas_of_events(
    spark: SparkSession, client_config: ClientConfig, scope: str
) -> None:
    stream = Stream(scope, "db.shop.t")
    table = f"pravega.`{scope}`.`db.shop.t`"
    after = {name: value for name, _, value, _, _ in FIELDS}
    schemas = [(name, schema) for name, schema, _, _, _ in FIELDS]
    payload = {"before": None, "after": after, "source": {"connector": "postgresql"}, "op": "c", "ts_ms": 5}
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 1)
    with pytest.raises(PySparkException, match="no event of its stream has a schema"):
        spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    with connect(client_config) as pravega:
        write(pravega, stream, [Record('{"id":7}', envelope(payload, schemas)), Record('{"id":7}', b"")])
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    types = {field.name: field.dataType.simpleString() for field in spark.table(table).schema}
    assert list(types) == [name for name, *_ in FIELDS]
    assert (types["id"], types["fixed"], types["us"], types["zoned"]) == ("int", "string", "timestamp_ntz", "timestamp")
    assert (types["day"], types["clock"], types["store"]) == ("date", "string", "map<string,string>")
    row = spark.sql(f"SELECT id, fixed, free, us, clock, decimals FROM {table}").first()
    assert tuple(row) == (
        7,
        "-123.4500",
        "98765432109876543210.0123456789",
        datetime(2024, 2, 29, 13, 14, 15, 123456),
        "13:14:15.123456",
        ["1.10", None],
    )


@pytest.mark.parametrize("segments", [4, *at_length(1)])
def test_columns_are_taken_from_the_newest_schema_of_all_segments(
    spark: SparkSession, client_config: ClientConfig, scope: str, segments: int
) -> None:
    """Of a stream that is longer than what is read of it; the newest event is in one segment only."""
    stream, table = Stream(scope, "db.shop.long"), f"pravega.`{scope}`.`db.shop.long`"
    old = [("id", {"type": "int32"}), ("v", {"type": "string"})]
    new = [("id", {"type": "int64"}), ("v", {"type": "string"}), ("tier", {"type": "string"})]

    def event(number: int, fields: list[tuple[str, dict[str, str]]], **row: Any) -> Record:
        source = {"connector": "postgresql", "name": "db", "lsn": 1000 + number, "ts_ms": 1_700_000_000_000 + number}
        after = {"id": number, "v": "x" * 10_000, **row}
        payload = {"before": None, "after": after, "source": source, "op": "c", "ts_ms": 5}
        return Record(json.dumps({"id": number}), envelope(payload, fields))

    with connect(client_config) as pravega:
        create_stream(pravega, stream, segments)
        for begin in range(0, 2100, 700):
            write(pravega, stream, [event(number, old) for number in range(begin, begin + 700)])
        write(pravega, stream, [event(2100, new, tier="gold")])
        if segments > 1:
            # Delivered again after a restart of the connector, behind and beside the newest event.
            write(pravega, stream, [event(number, old) for number in range(2000, 2100)])
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    types = {field.name: field.dataType.simpleString() for field in spark.table(table).schema}
    assert types == {"id": "bigint", "v": "string", "tier": "string"}
    found = spark.sql(f"SELECT count(*), count(tier), max(tier), max(id) FROM {table}").first()
    assert tuple(found) == (2101, 1, "gold", 2100)


@pytest.mark.parametrize("format", ["debezium-json", "maxwell-json"])
def test_columns_are_taken_from_a_sample_where_asked_for(
    spark: SparkSession, client_config: ClientConfig, scope: str, format: str
) -> None:
    stream = Stream(scope, "dbz.shop")
    rows = [
        {"id": 1, "big": 2**63, "ratio": 1, "name": "a", "ok": None, "tags": [], "at": {"x": 1, "y": None}, "d": None},
        {
            "id": 2,
            "big": 1,
            "ratio": 0.5,
            "name": None,
            "ok": True,
            "tags": [None, 7],
            "at": {"x": 2},
            "free": [1, "a"],
            "ID": 5,
        },
        {"id": 3, "name": "__debezium_unavailable_value", "d": {"scale": 1, "value": "AQ=="}, "added": "x"},
    ]
    events = [
        {"payload": {"op": "c", "after": row}}
        if format == "debezium-json"
        else {"type": "insert", "ts": 1, "data": row}
        for row in rows
    ]
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 1)
        write(pravega, stream, [Record("k", json.dumps(each).encode()) for each in events])
        write(pravega, stream, [Record("k", b"{"), Record("k", b"")])
    table = f"pravega.`{scope}`.`dbz.shop`"
    properties = f"'format'='{format}', 'primary-key'='id'"
    with pytest.raises(PySparkException, match="no event of its stream has a schema.*'infer-columns'='sample'"):
        spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ({properties})")
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ({properties}, 'infer-columns'='sample')")
    types = {field.name: field.dataType.simpleString() for field in spark.table(table).schema}
    assert types == {
        "id": "bigint",
        "big": "string",
        "ratio": "double",
        "name": "string",
        "ok": "boolean",
        "tags": "array<bigint>",
        "at": "struct<x:bigint,y:string>",
        "d": "string",
        "free": "array<string>",
        "added": "string",
    }
    found = spark.read.option("mode", "dropmalformed").table(table).orderBy("id").collect()
    assert [(row.id, row.big, row.ratio, row.ok, row.tags, row.added) for row in found] == [
        (1, "9223372036854775808", 1.0, None, [], None),
        (2, "1", 0.5, True, [None, 7], None),
        (3, None, None, None, None, "x"),
    ]


def test_the_columns_of_a_primary_key_are_the_tables(spark: SparkSession, scope: str) -> None:
    with pytest.raises(PySparkException, match="not a column of the table. Did you mean 'at'"):
        spark.sql(
            f"CREATE TABLE pravega.`{scope}`.log (at DATE) "
            "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='att')"
        )


@pytest.mark.parametrize("name", ["measurements", *at_length("audit_log")])
def test_tables_without_a_primary_key(spark: SparkSession, client_config: ClientConfig, scope: str, name: str) -> None:
    """Their events have no key, so that those of a row may lie in any segments."""
    table = tables()[name]
    stream = Stream(scope, table.topic.replace("_", "-"))
    with connect(client_config) as pravega:
        write_scaled(pravega, stream, records()[table.topic])
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    shown = declare(spark, stream, table)

    def value(name: str, found: Any) -> Any:
        # Spark gives a TIMESTAMP in local time.
        return found.astimezone(UTC) if table.schema[name].dataType == TimestampType() and found else found

    def counted(found: Iterable[Mapping[str, Any]]) -> Counter[str]:
        return Counter(repr([value(each.name, row[each.name]) for each in table.columns]) for row in found)

    expected = counted(table.expected())
    assert counted(rows_of(spark, f"SELECT * FROM {shown}")) == expected
    assert spark.sql(f"SELECT count(*) FROM {shown}").first()[0] == len(table.rows)
    column = table.columns[1].name
    values = Counter(value(column, row[column]) for row in table.expected())
    assert Counter(value(column, row[0]) for row in spark.sql(f"SELECT `{column}` FROM {shown}").collect()) == values
    assert spark.sql(f"SELECT * FROM {shown} LIMIT 3").count() == 3
    applied: Counter[str] = Counter()
    changes = rows_of(spark, f"SELECT * FROM {shown} CHANGES FROM VERSION 0")
    for kind, step in (("insert", 1), ("update_postimage", 1), ("delete", -1), ("update_preimage", -1)):
        for row in counted(row for row in changes if row["_change_type"] == kind).elements():
            applied[row] += step
    assert +applied == expected and not -applied
    last = max(row["_commit_version"] for row in changes)
    assert spark.sql(f"SELECT * FROM {shown} CHANGES FROM VERSION {last}").count() >= 1
    with pytest.raises(PySparkException, match="needs their primary key.*'primary-key'"):
        spark.readStream.changes(shown).writeStream.format("noop").start().awaitTermination()
    spark.sql(f"INSERT INTO {shown} SELECT * FROM {shown} LIMIT 1")
    assert spark.sql(f"SELECT * FROM {shown}").count() == len(table.rows) + 1


def in_segments(pravega: Pravega, stream: Stream, changes: Iterable[dict[str, Any]]) -> None:
    """Append changes to the segments of their keys."""
    events = []
    for each in changes:
        image = each["after"] or each["before"]
        event = {**each, "ts_ms": each["source"]["ts_ms"]}
        events.append(Record(json.dumps({"id": image["id"]}), json.dumps(event).encode()))
    write(pravega, stream, events)


@pytest.mark.parametrize("segments", [3, *at_length(1)])
def test_new_logs_and_complete_snapshots(
    spark: SparkSession, client_config: ClientConfig, scope: str, segments: int
) -> None:
    stream = Stream(scope, f"lives{segments}")
    table = f"pravega.`{scope}`.lives{segments}"

    def change(op: str, key: int, v: str, file: int, pos: int, ts: int, mark: str = "false") -> dict[str, Any]:
        source = {"connector": "mysql", "name": "s", "server_id": 1, "file": f"bin.{file:06}", "pos": pos}
        row = {"id": key, "v": v}
        images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
        return {"op": op, **images, "source": {**source, "ts_ms": ts, "snapshot": mark}}

    day = 86_400_000
    with connect(client_config) as pravega:
        create_stream(pravega, stream, segments)
        first = [change("c", 1, "a", 100, 500, 1), change("d", 1, "a", 100, 900, 2)]
        in_segments(pravega, stream, [*first, change("c", 3, "gone", 100, 950, 3)])
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, v STRING) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
        )
        query = f"SELECT id, v FROM {table} ORDER BY id"
        assert [tuple(row) for row in spark.sql(query).collect()] == [(3, "gone")]
        # RESET MASTER, and a snapshot that is interrupted once.
        again = [change("r", 2, "b", 1, 150, day, "first"), change("r", 2, "b", 1, 150, day + 1, "first")]
        in_segments(pravega, stream, again)
        assert [tuple(row) for row in spark.sql(query).collect()] == [(2, "b"), (3, "gone")]
        rest = [change("r", 4, "d", 1, 150, day + 2, "last"), change("c", 1, "back", 1, 200, day + 5)]
        in_segments(pravega, stream, rest)
    rows = [tuple(row) for row in spark.sql(query).collect()]
    assert rows == [(1, "back"), (2, "b"), (4, "d")]
    changes = spark.sql(
        f"SELECT id, _change_type, _commit_version FROM {table} CHANGES FROM VERSION 0 ORDER BY id, _commit_version"
    ).collect()
    assert [(row[0], row[1]) for row in changes] == [
        (1, "insert"),
        (1, "delete"),
        (1, "insert"),
        (2, "insert"),
        (3, "insert"),
        (3, "delete"),
        (4, "insert"),
    ]


LEFT_OUT = "number of changes left out, as newer ones of their rows came first"


def test_what_is_left_out_is_counted(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path
) -> None:
    """In Spark's UI: changes that are delivered again after newer ones, and events that cannot be decoded."""
    table, keyless = f"pravega.`{scope}`.again", f"pravega.`{scope}`.counted"
    properties = "'format'='debezium-json', 'mode'='dropmalformed'"

    def change(op: str, key: int, v: str, lsn: int) -> dict[str, Any]:
        place = {"file": "bin.000001", "pos": lsn, "row": 0, "ts_ms": lsn}
        source = {"connector": "mysql", "name": "s", "server_id": 1, **place, "snapshot": "false"}
        return {"op": op, "before": None, "after": {"id": key, "v": v}, "source": source}

    changes = [change("c", n, "new", 10 + n) for n in range(3)]
    changes += [{**change("u", n, "newer", 20 + n), "before": {"id": n, "v": "new"}} for n in range(3)]
    with connect(client_config) as pravega:
        for name, key in ((table, "'primary-key'='id', "), (keyless, "")):
            stream = Stream(scope, name.rpartition(".")[2])
            create_stream(pravega, stream, 1)
            in_segments(pravega, stream, changes + changes[:3])
            write(pravega, stream, [Record(None, b"?")])
            spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) TBLPROPERTIES ({key}{properties})")

    def counts() -> tuple[str | None, str | None]:
        shown = metrics_in_the_ui(spark)
        return shown[LEFT_OUT], shown["number of events that cannot be decoded"]

    for query, found in (
        (f"SELECT id FROM {table} WHERE v = 'newer'", 3),
        (f"SELECT count(*) FROM {table} GROUP BY v", 1),
        (f"SELECT id FROM {keyless} WHERE v = 'newer'", 3),
        (f"SELECT id, _change_type FROM {table} CHANGES FROM VERSION 0", 9),
        (f"SELECT id FROM {keyless} CHANGES FROM VERSION 0", 9),
    ):
        assert len(spark.sql(query).collect()) == found, query
        assert counts() == ("3", "1"), query
    to = spark.readStream.changes(table).writeStream.format("noop").trigger(availableNow=True)
    to.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert counts() == ("3", "1")


def test_a_forgotten_primary_key_is_told(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    table = tables()["customers"]
    stream = Stream(scope, table.topic)
    with connect(client_config) as pravega:
        write_scaled(pravega, stream, records()[table.topic])
    shown = declare(spark, stream, replace(table, key=[]))
    for query in (f"SELECT * FROM {shown}", f"SELECT * FROM {shown} CHANGES FROM VERSION 1"):
        with pytest.raises(PySparkException, match="changes an unknown row.*'primary-key'"):
            spark.sql(query).collect()
    for changelog in (f"`{stream.name}$changelog`", f"`{stream.name}`.changelog"):
        assert spark.sql(f"SELECT * FROM pravega.`{scope}`.{changelog}").count() == len(records()[table.topic])


@pytest.mark.parametrize(
    ("format", "framing"),
    [
        ("debezium-json", "none"),
        ("debezium-avro", "registry"),
        pytest.param("debezium-json", "registry", marks=pytest.mark.long),
        pytest.param("debezium-avro", "none", marks=pytest.mark.long),
    ],
)
def test_tables_of_changes_hold_all_types(spark: SparkSession, scope: str, format: str, framing: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = f"pravega.`{scope}`.`types-{framing}`"
    spark.sql(
        f"CREATE TABLE {table} (k STRING, n INT, b BOOLEAN, d DECIMAL(20,4), f DOUBLE, r FLOAT, s STRING, x BINARY, "
        "day DATE, t TIMESTAMP, l TIMESTAMP_NTZ, a ARRAY<DECIMAL(8,2)>, p STRUCT<x DOUBLE, y DATE>) "
        f"TBLPROPERTIES ('format'='{format}', 'primary-key'='N,k', 'framing'='{framing}')"
    )
    values = (
        "('k', 1, true, 123.4567, 0.1, 1.5F, 'é', X'00FF', DATE'1969-12-31', TIMESTAMP'2024-02-29 12:00:00.123456Z', "
        "TIMESTAMP_NTZ'1960-01-01 00:00:00.000001', array(1.10, NULL), named_struct('x', 2.5D, 'y', DATE'2020-01-01'))"
    )
    nulls = "('k', 2" + ", NULL" * 11 + ")"
    spark.sql(f"INSERT INTO {table} VALUES {values}, {nulls}")
    spark.sql(f"INSERT INTO {table} VALUES {nulls.replace('2, NULL', '1, false', 1)}")
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    found = {row["n"]: row for row in rows_of(spark, f"SELECT * FROM {table}")}
    assert found[1] == {
        "k": "k",
        "n": 1,
        "b": True,
        "d": Decimal("123.4567"),
        "f": 0.1,
        "r": 1.5,
        "s": "é",
        "x": b"\x00\xff",
        "day": date(1969, 12, 31),
        "t": datetime(2024, 2, 29, 12, 0, 0, 123456),
        "l": datetime(1960, 1, 1, 0, 0, 0, 1),
        "a": [Decimal("1.10"), None],
        "p": {"x": 2.5, "y": date(2020, 1, 1)},
    }
    assert found[2] == dict.fromkeys(found[1]) | {"k": "k", "n": 2}
    assert [tuple(row) for row in spark.sql(f"SELECT p.y FROM {table} WHERE n = 1").collect()] == [(date(2020, 1, 1),)]


def test_a_table_survives_its_json() -> None:
    schema = tables()["scratch"].schema
    table = StreamTable(Stream("s", "t"), "debezium-json", "none", schema, kind=KindName.CHANGES, settings={"a": "b"})
    changelog = Changelog.of(table)
    for each in (table, changelog):
        assert decode(StreamTable, json.loads(encode(each))) == each
    assert changelog.schema.names[:3] == ["op", "before", "after"]


def test_the_changelog_is_an_ordinary_scan(client_config: ClientConfig, scope: str, tmp_path: Path) -> None:
    table, stream = tables()["staging"], Stream(scope, "s")
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps([{"id": 7, "schema": json.dumps(avro_schema())}]))
    row = {"before": None, "source": {"connector": "x", "name": "y", "lsn": 1}, "op": "c", "ts_ms": 3}
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 1)
        write(pravega, stream, records()[table.topic])
        changes = StreamTable(stream, "debezium-json", "none", table.schema, kind=KindName.CHANGES)
        found = [each["op"] for each in rows(scan(pravega, Changelog.of(changes), ["op", "after", "_offset"]))]
        avro = Stream(scope, "avro")
        create_stream(pravega, avro, 1)
        write(pravega, avro, [Record('{"id":1}', confluent(7, avro_schema(), {**row, "after": avro_row()}))])
        given: dict[str, Any] = {"debezium.avro-schemas": str(schemas)}
        avro_table = StreamTable(
            avro, "debezium-avro", "none", AVRO_TABLE, kind=KindName.CHANGES, settings={"primary-key": "id"}
        )
        assert [each["id"] for each in rows(scan(pravega, avro_table, ["id"], **given))] == [1]
        logged = rows(scan(pravega, Changelog.of(avro_table), ["op", "after"], **given))
    assert [(each["op"], each["after"]["id"]) for each in logged] == [("c", 1)]  # type: ignore[index]
    assert found == [json.loads(each.value)["op"] if each.value else None for each in records()[table.topic]]


@pytest.mark.parametrize("declared", ["", *at_length("(id INT, price DECIMAL(10, 2), extra STRING)")])
def test_envelopes_whose_schemas_are_in_the_registry(
    spark: SparkSession, client_config: ClientConfig, scope: str, declared: str
) -> None:
    """As a producer with Pravega's serializers writes them: each event begins with the id of its schema."""
    stream, name = Stream(scope, "dbz.t"), f"pravega.`{scope}`.`dbz.t`"
    schemas = avro_schema(), avro_schema({"name": "extra", "type": ["null", "string"], "default": None})
    row = {"before": None, "source": {"connector": "postgresql", "name": "dbz", "lsn": 17}, "op": "c", "ts_ms": 3}
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 1)
        registry = pravega.registry(scope)
        registry.create_group(stream.name, GroupProperties("Avro", Compatibility("AllowAny")))
        for number, schema in enumerate(schemas):
            added = registry.add_schema(
                stream.name, SchemaInfo.of_text("dbz.inventory.t.Envelope", "Avro", json.dumps(schema))
            )
            encoding = registry.encoding_id(stream.name, added)
            after = avro_row(id=number, **({"extra": "e"} if number else {}))
            event = confluent(encoding, schema, {**row, "after": after})
            write(pravega, stream, [Record(json.dumps({"id": number}), b"\1" + event[1:])])
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {name} (id INT) USING pravega TBLPROPERTIES ('format'='json')")
    spark.sql(
        f"CREATE TABLE {name} {declared} USING pravega "
        "TBLPROPERTIES ('format'='debezium-avro', 'framing'='registry', 'primary-key'='id')"
    )
    found = spark.sql(f"SELECT id, price, extra FROM {name} ORDER BY id").collect()
    assert [tuple(each) for each in found] == [(0, Decimal("123.45"), None), (1, Decimal("123.45"), "e")]
    assert spark.sql(f"SELECT count(*) FROM {name} CHANGES FROM VERSION 0").first() == (2,)
    with pytest.raises(PySparkException, match="schemas of Debezium's envelopes. Other programs register"):
        spark.sql(f"INSERT INTO {name} (id) VALUES (5)")


def test_a_primary_key_in_the_ddl(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    name = f"pravega.`{scope}`.keyed"
    columns = "a INT, `b c` STRING, v STRING, CONSTRAINT k PRIMARY KEY (a, `b c`) NOT ENFORCED"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING pravega TBLPROPERTIES ('format'='debezium-json')")
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert properties["primary-key"] == "a,b c"
    for value in ("x", "y"):
        spark.sql(f"INSERT INTO {name} VALUES (1, 'k', '{value}')")
    assert [row.v for row in spark.table(name).collect()] == ["y"]
    made = spark.sql(f"SHOW CREATE TABLE {name}").first()[0]
    spark.sql(made.replace(".keyed", ".again"))
    assert spark.table(f"pravega.`{scope}`.again").schema == spark.table(name).schema
    for columns, table_properties, words in (
        ("a INT PRIMARY KEY", "'format'='json'", "PRIMARY KEY .* with 'format'='json': every event is a row"),
        ("a INT UNIQUE", "'format'='debezium-json'", "UNIQUE .*nothing checks the events"),
        ("a INT CHECK (a > 0)", "'format'='json'", "CHECK .*nothing checks the events"),
        ("a INT PRIMARY KEY, b INT", "'format'='debezium-json', 'primary-key'='b'", "are two primary keys"),
    ):
        with pytest.raises(PySparkException, match=words):
            spark.sql(f"CREATE TABLE {name}2 ({columns}) USING pravega TBLPROPERTIES ({table_properties})")


def test_a_stream_is_joined_with_the_rows_of_a_table(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Each micro-batch finds the rows as they are then."""
    orders, people = f"pravega.`{scope}`.orders", f"pravega.`{scope}`.people"
    spark.sql(f"CREATE TABLE {orders} (number INT, id INT) USING pravega")
    properties = "'format'='debezium-json', 'primary-key'='id'"
    spark.sql(f"CREATE TABLE {people} (id INT, name STRING) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {people} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {orders} VALUES (10, 1), (11, 3)")
    joined = spark.readStream.table(orders).join(spark.table(people), "id", "left").select("number", "name")
    with into_memory(joined, tmp_path) as sink:
        assert sorted(sink.rows()) == [(10, "a"), (11, None)]
        spark.sql(f"UPDATE {people} SET name = 'c' WHERE id = 1")
        spark.sql(f"DELETE FROM {people} WHERE id = 2")
        spark.sql(f"INSERT INTO {orders} VALUES (12, 1), (13, 2)")
        assert sorted(sink.rows())[2:] == [(12, "c"), (13, None)]
