"""append: one transaction, seen by Spark, atomic, of Arrow data of all sorts; and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.errors import (
    InvalidOptionError,
    InvalidRowError,
    InvalidSchemaError,
    PravegaError,
    StreamNotFoundError,
)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("text", pa.string(), metadata={"comment": "what it says"}),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
ROW = {"id": 1, "text": "a", "price": Decimal("1.50"), "at": datetime(2024, 2, 29, tzinfo=UTC), "tags": ["x", None]}


@pytest.mark.parametrize("format", ["avro", "json"])
def test_spark_sees_what_is_appended(spark: SparkSession, api: PravegaCatalog, scope: str, format: str) -> None:
    properties = {"format": format, "routing-key": "id", "scaling.min-segments": "3"}
    table = api.create_table(f"`{scope}`.orders", SCHEMA, comment="Orders", properties=properties)
    rows = [{**ROW, "id": number} for number in range(30_000)]
    assert table.append(pa.Table.from_pylist(rows, SCHEMA)) == 30_000
    shown = spark.table(table.name)
    assert shown.schema == table.spark_schema
    assert shown.toArrow().sort_by("id").to_pylist() == rows
    # A version of its own, where Spark's CHANGES find it too.
    assert [(each.operation, each.rows) for each in table.history()] == [("INSERT", 30_000)]
    changes = spark.sql(f"SELECT count(*), max(_commit_version) FROM {table.name} CHANGES FROM VERSION 1 TO VERSION 1")
    assert changes.collect() == [(30_000, 1)]
    # Rows of a key keep their order.
    table.append(pa.Table.from_pylist([{**ROW, "id": 7, "text": str(number)} for number in range(50)], SCHEMA))
    texts = table.scan(["text"], pc.field("id") == 7, start=2).to_arrow()["text"].to_pylist()
    assert texts == [str(number) for number in range(50)]


def test_columns_are_found_by_name_and_values_are_cast(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.orders", SCHEMA)
    reader = pa.table(
        {
            "at": pa.array([ROW["at"]], pa.timestamp("ns", "Asia/Kolkata")),
            "id": pa.array([1], pa.uint64()),
            "tags": pa.array([["x"]], pa.large_list(pa.large_string())),
            "text": pa.array(["a"]).dictionary_encode(),
        }
    ).to_reader()
    assert table.append(reader) == 1
    assert table.scan().to_arrow().to_pylist() == [{**ROW, "price": None, "tags": ["x"]}]
    assert table.append(pa.record_batch({"id": pa.array([2], pa.int8()), "price": [Decimal("2")]})) == 1
    assert table.append(SCHEMA.empty_table()) == 0
    assert table.scan().count() == 2 and len(table.history()) == 2


def test_fractions_are_rounded_as_an_insert_does(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    columns = "id INT, f FLOAT, d DECIMAL(5,2), l ARRAY<DECIMAL(5,2)>"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.amounts ({columns}) USING pravega")
    table = api.load_table(f"`{scope}`.amounts")
    values = [1.239, 0.125, 1.005, 2.675, -0.125, -1.005, 999.994, 0.1]
    rows = ", ".join(f"({id}, {value}D, {value}D, array(NULL, {value}D))" for id, value in enumerate(values))
    spark.sql(f"INSERT INTO {table.name} VALUES {rows}, (99, 1e300D, 1D, NULL)")
    lists = [*([None, value] for value in values), None]
    table.append(pa.table({"id": [*range(len(values)), 99], "f": [*values, 1e300], "d": [*values, 1.0], "l": lists}))
    inserted, appended = (table.scan(start=at, end=at).to_arrow().sort_by("id").to_pylist() for at in (1, 2))
    assert inserted == appended and [str(row["d"]) for row in appended[:3]] == ["1.24", "0.13", "1.01"]
    for value in (999.995, 1e300, float("nan")):
        with pytest.raises(InvalidRowError, match=r"Column d is decimal128\(5, 2\)"):
            table.append(pa.table({"d": [value]}))
        with pytest.raises(InvalidRowError, match="Column l is list<"):
            table.append(pa.table({"l": [[value]]}))


def test_numbers_become_decimals_where_they_fit(api: PravegaCatalog, scope: str) -> None:
    columns = pa.schema([("small", pa.decimal128(5, 2)), ("large", pa.decimal128(38, 18))])
    table = api.create_table(f"`{scope}`.amounts", columns)
    large = pa.array([10**19, 7], pa.decimal128(38, 0))
    table.append(pa.table({"small": pa.array([-999, None], pa.int64()), "large": large}))
    table.append(pa.table({"small": pa.array([7], pa.uint8()).dictionary_encode(), "large": [2**63 - 1]}))
    rows = {(row["small"], row["large"]) for row in table.scan().to_arrow().to_pylist()}
    assert rows == {(-999, 10**19), (None, 7), (7, 2**63 - 1)}
    for column, values in (("small", [1, 1000]), ("small", [2**63 - 1]), ("large", pa.array([10**30], large.type))):
        with pytest.raises(InvalidRowError, match=f"Column {column} is decimal128.* does not fit in precision"):
            table.append(pa.table({column: values}))
    assert table.scan().count() == 3


PLAIN = pa.decimal128(38, 0)
NESTED: list[tuple[str, pa.DataType, list[object]]] = [
    ("list", pa.list_(PLAIN), [[1, None], None, [], [2, 3]]),
    ("list", pa.large_list(pa.int64()), [[1], None, [], [2, None]]),
    ("list", pa.list_(pa.uint8(), 2), [[1, 2], None, [3, None], [4, 5]]),
    ("list", pa.list_(pa.dictionary(pa.int8(), pa.int64())), [[1], None, [], [2]]),
    ("map", pa.map_(pa.string(), PLAIN), [[("a", 1), ("b", None)], None, [], [("c", 3)]]),
    ("parts", pa.struct([("a", PLAIN), ("b", pa.list_(pa.int64()))]), [None, {"a": 1, "b": [2, None]}]),
]
"""Columns, types that rows have for them, and values."""


def test_decimals_within_others_are_checked_alike(api: PravegaCatalog, scope: str) -> None:
    decimal = pa.decimal128(38, 10)
    types = {
        "list": pa.list_(decimal),
        "map": pa.map_(pa.string(), decimal),
        "parts": pa.struct([("a", decimal), ("b", pa.list_(decimal))]),
    }
    table = api.create_table(f"`{scope}`.nested", pa.schema([("id", pa.int64()), *types.items()]))
    far = {"list": [[7 * 10**28]], "map": [[("x", 7 * 10**28)]], "parts": [{"a": 7 * 10**28, "b": None}]}
    for version, (column, given, values) in enumerate(NESTED, 1):
        array = pa.array([values[-1], *values], given)[1:]  # a slice, whose rows are not the first ones
        table.append(pa.table({"id": range(len(values)), column: array}))
        found = table.scan(["id", column], start=version).to_arrow().sort_by("id")
        assert found[column].to_pylist() == values, given
    for column, given in {each: given for each, given, _ in reversed(NESTED) if "128" in str(given)}.items():
        with pytest.raises(InvalidRowError, match=f"Column {column} is .* does not fit in precision 38"):
            table.append(pa.table({column: pa.array(far[column], given)}))
    with pytest.raises(InvalidRowError, match="nested: Row 1 has the key 'x' twice in a map of column map"):
        table.append(pa.table({"map": pa.array([[], [("x", 1), ("x", 2)]], pa.map_(pa.string(), pa.int64()))}))
    assert len(table.history()) == len(NESTED)


REFUSED: list[tuple[object, type[PravegaError], str]] = [
    ({"text": ["a"]}, InvalidSchemaError, "The rows lack NOT NULL columns: id"),
    ({"id": [1], "size": [2]}, InvalidSchemaError, "The rows have size, which is no column of the table"),
    ({"id": [1], "a": [2], "b": [2]}, InvalidSchemaError, "The rows have a, b, which are no columns of the table"),
    ({"id": ["1"]}, InvalidSchemaError, "Column id is int32, but the rows have string for it. Cast it"),
    ({"id": [1], "at": [datetime(2024, 1, 1)]}, InvalidSchemaError, "Column at is timestamp.*Cast it first"),
    ({"id": [1 << 40]}, InvalidRowError, "Column id is int32, but a value of type int64 does not fit"),
    ({"id": [1.5]}, InvalidRowError, "Column id is int32, but a value of type double does not fit"),
    ({"id": [1, None]}, InvalidRowError, "Row 1 has no value in column id, which is NOT NULL"),
    ("no rows", InvalidSchemaError, "'rows' is a str; give a pyarrow Table"),
]


def test_what_does_not_fit_is_refused(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.orders", SCHEMA)
    for rows, error, message in REFUSED:
        with pytest.raises(error, match=message) as caught:
            table.append(pa.table(rows) if isinstance(rows, dict) else rows)
        assert "orders: " in str(caught.value)
    assert table.scan().count() == 0 and table.history() == []


def test_a_write_that_fails_in_the_middle_leaves_nothing(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.orders", SCHEMA, properties={"scaling.min-segments": "2"})

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.RecordBatch.from_pylist([ROW] * 1000, SCHEMA)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, rows()))
    assert table.scan().count() == 0 and table.history() == []
    assert table.append(pa.RecordBatch.from_pylist([ROW], SCHEMA)) == 1


def test_texts_are_as_long_as_their_columns_say(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.codes (c CHAR(3), v VARCHAR(2)) USING pravega")
    table = api.load_table(f"`{scope}`.codes")
    table.append(pa.table({"c": ["a", None], "v": ["ßß", "b"]}))
    assert [tuple(row) for row in spark.table(table.name).collect()] == [("a  ", "ßß"), (None, "b")]
    table.append(pa.table({"c": ["abc  "], "v": ["de "]}))
    assert table.scan(filter=pc.field("v") == "de").to_arrow().to_pylist() == [{"c": "abc", "v": "de"}]
    with pytest.raises(InvalidRowError, match=r"row 1 .* column 'v' is a text of 3 characters, but varchar\(2\)"):
        table.append(pa.table({"c": ["a", "b"], "v": ["b", "abc"]}))


def test_defaults_that_sql_evaluates_are_asked_for(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.marks (a INT, b INT DEFAULT 7) USING pravega")
    table = api.load_table(f"`{scope}`.marks")
    with pytest.raises(InvalidSchemaError, match="The rows have no b, whose DEFAULT 7 only SQL evaluates"):
        table.append(pa.table({"a": [1]}))
    assert table.append(pa.table({"a": [1], "b": [2]})) == 1


def test_a_repeated_write_is_done_once(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.orders", SCHEMA)
    rows = pa.RecordBatch.from_pylist([ROW], SCHEMA)
    for version in ("1", "1", "2", "1"):
        table.append(rows, options={"txn-app-id": "loader", "txn-version": version})
    assert table.scan().count() == 2
    with pytest.raises(InvalidOptionError, match="needs 'txn-version' too"):
        table.append(rows, options={"txn-app-id": "loader"})
    # Without a transaction, where that is asked for.
    assert table.append(rows, options={"write-mode": "at-least-once"}) == 1
    assert table.scan().count() == 3 and len(table.history()) == 2


def test_appended_rows_of_a_table_of_changes_are_states(api: PravegaCatalog, scope: str) -> None:
    columns = pa.schema([("id", pa.int32()), ("name", pa.string())])
    table = api.create_table(f"`{scope}`.users", columns, properties={"format": "debezium-json", "primary-key": "id"})
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    table.append(pa.table({"id": [2], "name": ["c"]}))
    assert sorted(map(tuple, (row.values() for row in table.scan().to_arrow().to_pylist()))) == [(1, "a"), (2, "c")]


def test_tables_that_are_gone(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.orders", SCHEMA)
    api.drop_table(table.name)
    with pytest.raises(StreamNotFoundError):
        table.append(pa.RecordBatch.from_pylist([ROW], SCHEMA))
    with pytest.raises(StreamNotFoundError):
        table.scan().to_arrow()
