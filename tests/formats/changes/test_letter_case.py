"""Changes whose columns are named as the table's but in other letters, as Oracle's are: never silent nulls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.both_paths import BothPaths

pytestmark = pytest.mark.usefixtures("way_of_decoding")

TABLE = t.StructType([t.StructField("id", t.LongType()), t.StructField("name", t.StringType())])
REASON = "it has no column '{}', but '{}', and the case of names matters; name the table's column `{}`"


def event(row: dict[str, Any] | None, operation: str = "c", schema: list[str] | None = None) -> bytes:
    source = {"version": "3.6.1.Final", "connector": "oracle", "name": "s", "ts_ms": 1, "scn": "5"}
    images = {"before": row, "after": None} if operation == "d" else {"before": None, "after": row}
    envelope = {"op": operation, **images, "source": source, "ts_ms": 5}
    if schema is None:
        return json.dumps(envelope).encode()
    kinds = {"ID": "int64", "id": "int64"}
    fields = [{"field": name, "type": kinds.get(name, "string"), "optional": True} for name in schema]
    members = [{"field": image, "type": "struct", "fields": fields} for image in ("before", "after")]
    return json.dumps({"schema": {"type": "struct", "fields": members}, "payload": envelope}).encode()


def decoded(events: list[bytes], table: t.StructType = TABLE, *wanted: str) -> tuple[list[Any], dict[int, str]]:
    """The images `after` (or `before`) of good events, and the reasons of bad ones. Both paths agree on them."""
    image = t.StructType([field for field in table if not wanted or field.name in wanted])
    text = find_format("debezium-json").schema_text(Layout(table), "t", "s")
    changelog = t.StructType([field for field in changelog_schema(image) if field.name != "source"])
    batch, bad = BothPaths("debezium-json", changelog, text).check(EventBuffer.of(events))
    rows = [row["after"] or row["before"] for row in batch.to_pylist()]
    return rows, {event.index: event.reason for event in bad}


@pytest.mark.parametrize("wanted", [(), ("name",), ("id",)])
def test_without_a_schema(wanted: tuple[str, ...]) -> None:
    good, empty = {"id": 1, "name": "x"}, {"id": 2, "name": None}
    upper = {"ID": 3, "NAME": "y"}
    events = [event(row) for row in (good, empty, upper, good)] + [event(upper, "d"), event(None, "t"), event(empty)]
    rows, bad = decoded(events, TABLE, *wanted)
    assert list(bad) == [2, 4]
    assert all(REASON.format("id", "ID", "ID") in reason for reason in bad.values())
    assert len(rows) == 5
    assert rows[0] == {name: good[name] for name in wanted or ("id", "name")}


def test_with_a_schema_one_column_is_enough() -> None:
    events = [
        event({"id": 1, "name": "x"}, schema=["id", "name"]),
        event({"id": 2, "Name": "y"}, schema=["id", "Name"]),
        event({"id": 3}, schema=["id"]),
        event({"ID": None, "NAME": None}, schema=["ID", "NAME"]),
    ]
    for order in (events, events[::-1]):
        rows, bad = decoded(order)
        assert sorted(row["id"] for row in rows) == [1, 3]
        assert len(bad) == 2
        assert any(REASON.format("name", "Name", "Name") in reason for reason in bad.values())


def test_what_is_no_other_spelling() -> None:
    both = t.StructType([*TABLE.fields, t.StructField("ID", t.LongType())])
    # Columns that came later, or that the table does not have; and tables of names that differ in nothing but case.
    assert decoded([event({"other": 1}), event({}), event({"id": None})]) == ([{"id": None, "name": None}] * 3, {})
    assert decoded([event({"ID": 1, "other": 2})], both) == ([{"id": None, "name": None, "ID": 1}], {})
    assert decoded([event({"ID": 1}, schema=["ID"])], both)[1] == {}
    # Without a schema, a row with one known column is one of an older table.
    assert decoded([event({"id": 1, "NAME": "x"})]) == ([{"id": 1, "name": None}], {})


def test_a_table_named_as_the_events_reads_them() -> None:
    upper = t.StructType([t.StructField("ID", t.LongType()), t.StructField("NAME", t.StringType())])
    assert decoded([event({"ID": 1, "NAME": "x"})], upper) == ([{"ID": 1, "NAME": "x"}], {})
