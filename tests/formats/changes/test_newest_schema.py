"""Which schema gives a table its columns, where its events carry several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.changes.feed import find_change_format
from pyspark_pravega.formats.core.events import EventBuffer
from tests.formats.changes.test_debezium_encodings import avro_row, avro_schema, confluent, envelope

INT, BIGINT, TEXT = ({"type": kind} for kind in ("int32", "int64", "string"))
OLD = {"id": INT, "v": TEXT}
NEW = {"id": BIGINT, "v": TEXT, "tier": TEXT}
NEW_COLUMNS = {"id": "bigint", "v": "string", "tier": "string"}
BOTH = {"id": "bigint", "tier": "string", "v": "string"}


def change(fields: Mapping[str, Any], lsn: int | None = None, time: int | None = None, name: str = "db") -> bytes:
    """An event with the schema of some columns, at a position in the log of the connector `name`."""
    source = {"connector": "postgresql", "name": name, "db": "shop", "lsn": lsn, "ts_ms": time}
    payload = {"before": None, "after": dict.fromkeys(fields), "source": source, "op": "c", "ts_ms": None}
    return envelope(payload, list(fields.items()))


def columns(*tails: Sequence[bytes], format: str = "debezium-json", **settings: str) -> dict[str, str] | None:
    found = find_change_format(format).infer_columns(
        (EventBuffer.of(list(events_of_tail)) for events_of_tail in tails), settings
    )
    return None if found is None else {field.name: field.dataType.simpleString() for field in found}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (change(OLD, 10, 100), change(NEW, 11, 100)),
        (change(OLD, 10, 100), change(NEW, 10, 101)),
        (change(OLD, 10), change(NEW, 11)),
        (change(OLD, None, 100), change(NEW, None, 101)),
        (change(OLD, 900, 100, "former"), change(NEW, 5, 101)),
    ],
)
def test_the_newest_is_told_by_position_and_time(old: bytes, new: bytes, turned: bool) -> None:
    """In whatever segments they are, in whatever order."""
    both = [new, old] if turned else [old, new]
    assert columns(both) == columns([both[0]], [both[1]]) == NEW_COLUMNS
    assert columns([*both, b"", b"null", b"{", change({}, 99, 999)]) == NEW_COLUMNS


def test_a_column_that_was_dropped_is_none() -> None:
    assert columns([change(NEW, 1, 1)], [change(OLD, 2, 2)]) == {"id": "int", "v": "string"}


def test_the_last_change_of_a_schema_counts() -> None:
    """A schema that comes again, as when an added column is dropped."""
    assert columns([change(OLD, 1, 1), change(NEW, 2, 2)], [change(OLD, 3, 3)]) == {"id": "int", "v": "string"}


def test_the_later_event_counts_where_nothing_else_tells() -> None:
    assert columns([change(OLD), change(NEW)]) == NEW_COLUMNS
    assert columns([change(NEW), change(OLD)]) == {"id": "int", "v": "string"}


@pytest.mark.parametrize(
    "tails",
    [
        [[change({"id": BIGINT, "tier": TEXT})], [change(OLD)]],
        # The database was restored, and its log began again.
        [[change(OLD, 900, 100), change({"id": BIGINT, "tier": TEXT}, 5, 101)]],
    ],
)
def test_all_columns_are_taken_where_none_is_newer(tails: list[list[bytes]]) -> None:
    assert columns(*tails) == BOTH
    assert columns(*reversed(tails)) == BOTH


def test_the_wider_of_two_types() -> None:
    def with_type(kind: Mapping[str, Any]) -> list[bytes]:
        inner = {"type": "struct", "fields": [{"field": "x", **kind}]}
        return [change({"c": {"type": "array", "items": inner}})]

    def decimal(precision: int, scale: int) -> dict[str, Any]:
        parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
        return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}

    for one, other, wide in (
        ({"type": "int8"}, {"type": "int16"}, "smallint"),
        ({"type": "int64"}, {"type": "int32"}, "bigint"),
        ({"type": "float"}, {"type": "double"}, "double"),
        (decimal(10, 2), decimal(6, 4), "decimal(12,4)"),
    ):
        assert columns(with_type(one), with_type(other)) == {"c": f"array<struct<x:{wide}>>"}
    with pytest.raises(UnsupportedTypeError, match=r"column c.element.x is bigint .* and string .*Declare"):
        columns(with_type({"type": "int64"}), with_type({"type": "string"}))


def test_avro_by_the_ids_of_schemas() -> None:
    old, new = avro_schema(), avro_schema({"name": "extra", "type": ["null", "string"], "default": None})
    schemas = json.dumps({"7": new, "300": old})

    def event(number: int, lsn: int) -> bytes:
        source = {"connector": "postgresql", "name": "dbz", "lsn": lsn}
        row = {"before": None, "source": source, "op": "c", "ts_ms": 3}
        after = avro_row(extra="e") if number == 7 else avro_row()
        return confluent(number, new if number == 7 else old, {**row, "after": after})

    settings = {"debezium.avro-schemas": schemas}
    many = [event(300, lsn) for lsn in range(50)]
    for tails in ([[*many, event(7, 60), b"", b"\0", *many]], [[event(7, 60)], many], [many, [event(7, 60)]]):
        found = columns(*tails, format="debezium-avro", **settings)
        assert found is not None and found["extra"] == "string"
    assert columns(many, format="debezium-avro") is None


def test_samples_are_of_all_segments() -> None:
    events = [json.dumps({"op": "c", "after": row}).encode() for row in ({"id": 1}, {"id": 1.5, "v": "a"})]
    assert columns(*([event] for event in events)) is None
    assert columns(*([event] for event in events), **{"infer-columns": "sample"}) == {"id": "double", "v": "string"}
