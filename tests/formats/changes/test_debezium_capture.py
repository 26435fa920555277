"""The events that Debezium 3.6.1 wrote on PostgreSQL 15, folded to the tables that the database had in the end."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.datasource.changes.rows.current import CurrentRows
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.keyless.rows import KeylessRows
from pyspark_pravega.formats.changes.feed import MARKS, changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.debezium import Record, Table, records, tables

SETTINGS = {"debezium.time-units": "ts3=ms,ts0=ms"}
KEYED = [name for name, table in tables().items() if table.key]


def changelog(table: Table, events: list[Record], schema: StructType | None = None) -> pa.RecordBatch:
    """All changes of a table, decoded."""
    format = find_format("debezium-json")
    columns = schema or table.schema
    settings = {key: text for key, text in SETTINGS.items() if "ts3" in columns.names}
    wanted = StructType([*changelog_schema(columns), MARKS])
    decoder = format.decoder(Layout(wanted, format.schema_text(Layout(columns), "t", "s"), settings))
    return decoder.decode(EventBuffer.of([event.value for event in events]))


def fold(
    table: Table, batches: list[pa.RecordBatch], memory: int = 1 << 28, columns: list[str] | None = None
) -> list[dict[str, Any]]:
    """The current rows after these changes, all in one segment."""
    names = columns or [column.name for column in table.columns]
    rest = [name for name in names if name not in table.key]
    offset = 0
    with CurrentRows(table.key, rest, memory) as rows:
        for batch in batches:
            offsets = np.arange(offset, offset + len(batch))
            rows.feed(batch, EventLocations(0, offsets, np.ones(len(batch), np.int64)))
            offset += len(batch)
        found = [row for part in rows.rows() for row in part.to_pylist()]
        assert (rows._files is not None) == (memory < 1 << 28)
    return [{name: row[name_value(name)] for name in names} for row in found]


def by_key(table: Table, rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {tuple(row[name] for name in table.key): row for row in rows}
    assert len(found) == len(rows)
    return found


def known(table: Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The expected rows, as far as the events tell (the notice beside the data says where they do not)."""
    rows = by_key(table, table.expected())
    if table.name == "customers":
        rows[(1005,)]["notes"] = None  # only the former key ever had it
    if table.name == "staging":
        for key in (2, 3):
            rows[(key,)]["body"] = None  # written when the column was called `payload`
    if table.name == "accounts":
        told = {
            change["after"]["id"]
            for record in records()[table.topic]
            if record.value and (change := json.loads(record.value))["after"] and "currency" in change["after"]
        }
        for identity, row in rows.items():
            if identity[0] not in told:
                row["currency"] = None  # the column's default, which no event brought
        assert len(told & {key[0] for key in rows}) == 4
    return rows


def assert_equal(table: Table, found: list[dict[str, Any]]) -> None:
    expected = known(table)
    rows = by_key(table, found)
    assert rows.keys() == expected.keys()
    differences = [
        (key, name, value, expected[key][name])
        for key, row in rows.items()
        for name, value in row.items()
        if value != expected[key][name] and not (value != value and math.isnan(expected[key][name]))
    ]
    assert differences == []


def shown(row: dict[str, Any]) -> str:
    """A row as a text that is the same for equal rows."""
    return repr([str(value) if isinstance(value, datetime) else value for value in row.values()])


@pytest.mark.parametrize("name", [name for name in KEYED if name != "edge"])
def test_tables_with_a_primary_key_fold_to_what_the_database_had(name: str) -> None:
    table = tables()[name]
    assert_equal(table, fold(table, [changelog(table, records()[table.topic])]))


ORDERS = pytest.param("orders", marks=pytest.mark.long)


@pytest.mark.parametrize("name", ["customers", ORDERS, "staging"])
@pytest.mark.parametrize("size", [3, 100])
def test_the_size_of_batches_does_not_matter(name: str, size: int) -> None:
    table = tables()[name]
    changes = changelog(table, records()[table.topic])
    batches = [changes.slice(begin, size) for begin in range(0, len(changes), size)]
    assert_equal(table, fold(table, batches))


@pytest.mark.parametrize("name", ["customers", ORDERS, "staging", "scratch", "types"])
def test_a_small_memory_gives_the_same_by_files(name: str) -> None:
    table = tables()[name]
    changes = changelog(table, records()[table.topic])
    assert_equal(table, fold(table, [changes.slice(at, 10) for at in range(0, len(changes), 10)], memory=1000))


def test_events_that_are_delivered_again_change_nothing() -> None:
    for name in ("customers", "orders", "accounts", "scratch", "staging", "Mixed Case"):
        table = tables()[name]
        changes = changelog(table, records()[table.topic])
        streamed = [i for i, operation in enumerate(changes.column("op").to_pylist()) if operation != "r"]
        begin = streamed[len(streamed) // 3]
        again = changes.slice(begin, streamed[len(streamed) * 2 // 3] - begin)
        # A connector that stopped and began again where its offsets were last flushed, seen before it caught up.
        assert_equal(table, fold(table, [changes, again]))


@pytest.mark.parametrize("name", ["measurements", "audit_log"])
@pytest.mark.parametrize("memory", [1 << 28, 10_000])
def test_tables_without_a_primary_key_fold_to_what_the_database_had(name: str, memory: int) -> None:
    table = tables()[name]
    columns = [column.name for column in table.columns]
    changes = changelog(table, records()[table.topic])
    streamed = [place for place, op in enumerate(changes.column("op").to_pylist()) if op != "r"]
    begin = streamed[len(streamed) // 3]
    again = changes.slice(begin, streamed[len(streamed) * 2 // 3] - begin)
    later = pc.add(again.column("ts"), pa.scalar(timedelta(minutes=1)))
    again = again.set_column(again.schema.names.index("ts"), "ts", later)
    for batches in ([changes], [changes, again]):
        with KeylessRows(columns, columns, memory) as keyless:
            offset = 0
            for batch in batches:
                for part in (batch.slice(at, 10) for at in range(0, len(batch), 10)):
                    places = np.arange(offset, offset + len(part))
                    keyless.feed(part, EventLocations(0, places, np.ones(len(part), np.int64)))
                    offset += len(part)
            assert (keyless._files is not None) == (memory < 1 << 28)
            found = [
                row for rows in keyless.results() for row in rows.select(list(map(name_value, columns))).to_pylist()
            ]
        assert Counter(map(shown, found)) == Counter(map(shown, table.expected()))


def test_what_spark_has_no_value_for_is_null() -> None:
    table = tables()["edge"]
    columns = StructType([field for field in table.schema.fields if field.name not in ("ia", "ta")])
    rows = fold(table, [changelog(table, records()[table.topic], columns)], columns=columns.names)
    found = {row["id"]: row for row in rows}
    assert len(found) == len(table.rows)
    seen = set()
    for row in table.rows:
        for name in ("n_fix", "dt", "ts", "tstz"):
            text = row[name]
            if text is not None and re.search("infinity|NaN|BC|^.{5,}-..-..", text, re.IGNORECASE):
                # Of dates BC a snapshot loses the era, and infinite dates are some day or other.
                assert found[int(str(row["id"]))][name] is None or name == "dt"
                seen.add(name)
    assert seen == {"n_fix", "dt", "ts", "tstz"}


def test_any_column_can_be_a_string() -> None:
    for name in ("types", "edge"):
        table = tables()[name]
        columns = StructType(
            [
                StructField(field.name, field.dataType if field.name in table.key else StringType())
                for field in table.schema.fields
            ]
        )
        rows = {row["id"]: row for row in fold(table, [changelog(table, records()[table.topic], columns)])}
        raw = {}
        for record in records()[table.topic]:
            if record.value and (after := json.loads(record.value)["after"]):
                raw[after["id"]] = after
        compared = 0
        for key, row in rows.items():
            for column, value in raw[key].items():
                if column in table.key or value is None or key == 50:  # of row 50 some values were not sent
                    continue
                text = row[column]
                assert text == value or json.loads(text) == value
                compared += 1
        assert compared > 20


def test_columns_cut_down_to_the_wanted_ones() -> None:
    table = tables()["types"]
    format = find_format("debezium-json")
    full = changelog_schema(table.schema)
    after = full["after"].dataType
    assert isinstance(after, StructType)
    point = StructType([StructField("y", after["pt"].dataType["y"].dataType)])  # type: ignore[index]
    wanted = StructType(
        [StructField("after", StructType([after["id"], StructField("pt", point)])), full["unavailable"]]
    )
    decoder = format.decoder(Layout(wanted, format.schema_text(Layout(table.schema), "t", "s"), SETTINGS))
    rows = decoder.decode(EventBuffer.of([record.value for record in records()[table.topic]])).to_pylist()
    images = [row["after"] for row in rows if row["after"] is not None]
    assert {"id": 11, "pt": {"y": -2.25}} in images
    toast = {column for row in rows for column in row["unavailable"] or ()}
    assert toast == {"tx", "by_", "jb", "ia", "ta"}


def test_events_that_change_no_row_have_no_operation() -> None:
    table = tables()["scratch"]
    for topic in ("dbz.transaction", "__debezium-heartbeat.dbz"):
        changes = changelog(table, records()[topic])
        assert len(changes) == len(records()[topic])
        assert set(changes.column("op").to_pylist()) == {None}
    messages = changelog(table, records()["dbz.message"])
    assert messages.column("op").to_pylist() == ["m"] * 8
    assert messages.column("after").null_count == 8
