"""What INSERT, UPDATE, DELETE and MERGE write leads to the same rows elsewhere, in Flink and in Debezium's sinks."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.debezium_readers import DebeziumReaders, ReadTable, Rows, describe_events, show_floats
from tests.interop.foreign import Foreign

COLUMNS = (
    "id BIGINT NOT NULL, code STRING NOT NULL, flag BOOLEAN, small SMALLINT, number INT, ratio FLOAT, level DOUBLE, "
    "amount DECIMAL(20,4), total DECIMAL(38,10), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, image BINARY, "
    "tags ARRAY<STRING>, inner STRUCT<p: INT, q: STRUCT<r: STRING, s: DECIMAL(5,2)>>, counts MAP<STRING, INT>"
)
KEY = ("id", "code")
TEXTS = ("plain", "", r"it\'s q", r"\"back\\slash\"", r"line\nbreak\ttab", r"größe 😀 \u2028 \u0001", "null", "{}")
"""Parts of keys and values, as SQL writes them."""

ROWS = ", ".join(
    f"({id}L, '{text}', {id % 2 == 0}, {id}S, {id} - 4, {id} / 7, {level}D, {id} * -1234.5678, "
    f"{id} * 1234567890123456789.0123456789, DATE'{1969 + id}-02-28', TIMESTAMP'1969-12-31 23:59:5{id}.00000{id}Z', "
    f"TIMESTAMP_NTZ'{year}-01-01 00:00:00.123456', X'00FF0{id}', array('{text}', NULL, ''), "
    f"named_struct('p', {id}, 'q', named_struct('r', '{text}', 's', {id}.25)), map('{text}', {id}, 'none', NULL))"
    for id, (text, level, year) in enumerate(
        zip(TEXTS, ("0.1", "-0.25", "1e300", "5e-324", "0", "1", "2", "3"), range(1000, 9000, 1000), strict=True)
    )
)
STATEMENTS = (
    "INSERT INTO {t} VALUES " + ROWS,
    "INSERT INTO {t} (id, code, level) VALUES (100, 'only keys', DOUBLE('NaN')), (101, 'ends', DOUBLE('-Infinity'))",
    "INSERT INTO {t} (id, code, number) VALUES (1, '', 42)",  # replaces a row
    "UPDATE {t} SET amount = -amount, at = at + INTERVAL 1 SECOND, tags = array_append(tags, 'more') WHERE number < 2",
    "UPDATE {t} SET total = -total, inner = named_struct('p', 7, 'q', NULL) WHERE flag",
    "UPDATE {t} SET flag = NULL, day = NULL, image = NULL, tags = NULL, inner = NULL, counts = NULL WHERE id = 4",
    "UPDATE {t} SET id = id + 1000, number = 5 WHERE code LIKE '%slash%' OR id = 5",  # other keys
    "UPDATE {t} SET id = 6, code = 'null' WHERE id = 7",  # the key of another row
    "UPDATE {t} SET level = 0.5 WHERE id = 2",
    "DELETE FROM {t} WHERE id = 2",
    "INSERT INTO {t} SELECT 2, code, flag, small, number, ratio, level, amount, total, day, at, local, image, tags, "
    "inner, counts FROM {t} VERSION AS OF 1 WHERE id = 2",
    "MERGE INTO {t} t USING (SELECT * FROM VALUES (0, 'plain', 1), (2, '{quoted}', 2), (100, 'only keys', 3), "
    "(500, 'new', 4) AS s(id, code, todo)) s ON t.id = s.id AND t.code = s.code "
    "WHEN MATCHED AND todo = 1 THEN UPDATE SET counts = map('merged', todo), local = NULL "
    "WHEN MATCHED AND todo = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET id = 300, code = 'moved' "
    "WHEN NOT MATCHED THEN INSERT (id, code, number) VALUES (s.id, s.code, todo) "
    "WHEN NOT MATCHED BY SOURCE AND t.id = 101 THEN DELETE",
    "DELETE FROM {t} WHERE number IS NULL AND id = 300",
)

UNFIT = ("inner", "counts")
"""Columns that Debezium's JDBC sink does not write: structs, and maps of others than strings."""

PRECISE = {"debezium.decimal": "precise"}
"""Decimals as Kafka Connect's converter of JSON reads them."""

SINK = {
    "connection.username": "postgres",
    "insert.mode": "upsert",
    "delete.enabled": "true",
    "primary.key.mode": "record_key",
    "schema.evolution": "basic",
    "field.exclude.list": ",".join(UNFIT),
}
"""Settings of the connector: it makes the table, and writes all columns that fit."""


def change(spark: SparkSession, scope: str, format: str, **properties: str) -> str:
    """Make a table by all the statements."""
    table = f"pravega.`{scope}`.t"
    given = {"format": format, "primary-key": ",".join(KEY), "scaling.min-segments": "3", **properties}
    shown = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING pravega TBLPROPERTIES ({shown})")
    for statement in STATEMENTS:
        spark.sql(statement.replace("{t}", table).replace("{quoted}", TEXTS[2]))
    assert len(spark.sql(f"SELECT * FROM {table}.history").collect()) == len(STATEMENTS)
    return table


def events(spark: SparkSession, cluster: ClusterInfo, scope: str) -> list[bytes]:
    """The events as they are, segment by segment, each in its order."""
    read = spark.read.format("pravega").option("scope", scope).option("stream", "t").option("format", "raw")
    read = read.option("controller-uri", cluster.controller_uri).option("framing", "none")
    found = read.load().select("*", "_segment", "_offset").orderBy("_segment", "_offset").collect()
    assert len({row._segment for row in found}) > 1
    return [bytes(row[0]) for row in found]


def rows(spark: SparkSession, table: str) -> Rows:
    """What SELECT finds."""
    found: list[dict[str, Any]] = show_floats(spark.table(table).toArrow().to_pylist())
    for row in found:
        row["counts"] = row["counts"] and sorted(row["counts"])
    assert len(found) == 7
    return {tuple(row[name] for name in KEY): row for row in found}


def fitting_rows(spark: SparkSession, table: str) -> Rows:
    """What SELECT finds in the columns that Debezium's JDBC sink writes."""
    return {
        key: {name: value for name, value in row.items() if name not in UNFIT}
        for key, row in rows(spark, table).items()
    }


def test_flink_reads_json(
    spark: SparkSession, cluster: ClusterInfo, scope: str, debezium_readers: DebeziumReaders
) -> None:
    table = change(spark, scope, "debezium-json")
    read = ReadTable(spark.table(table).schema, KEY)
    assert debezium_readers.flink(read, events(spark, cluster, scope), "json") == rows(spark, table)


def test_flink_and_sinks_of_debezium_and_of_kafka_connect_read_avro(
    spark: SparkSession, cluster: ClusterInfo, pravega: Pravega, scope: str, debezium_readers: DebeziumReaders
) -> None:
    table = change(spark, scope, "debezium-avro")
    (schema,) = pravega.registry(scope).latest_schemas("t")
    read, written = ReadTable(spark.table(table).schema, KEY, schema.schema.text), events(spark, cluster, scope)
    expected = rows(spark, table)
    assert debezium_readers.flink(read, written, "avro") == expected
    assert debezium_readers.connect(read, written, "sink") == expected
    assert debezium_readers.connect(read, written, "unwrap") == expected


@pytest.mark.parametrize("format", ["json", pytest.param("avro", marks=pytest.mark.long)])
def test_debeziums_jdbc_sink_fills_a_database_with_the_same_rows(
    spark: SparkSession,
    cluster: ClusterInfo,
    pravega: Pravega,
    scope: str,
    postgres: str,
    debezium_readers: DebeziumReaders,
    format: Literal["json", "avro"],
) -> None:
    table = change(spark, scope, f"debezium-{format}", **PRECISE if format == "json" else {})
    columns = T.StructType([field for field in spark.table(table).schema if field.name not in UNFIT])
    (schema,) = pravega.registry(scope).latest_schemas("t")
    read = ReadTable(columns, KEY, schema.schema.text if format == "avro" else describe_events(columns))
    sink = {**SINK, "connection.url": postgres, "collection.name.format": format}
    written, expected = events(spark, cluster, scope), fitting_rows(spark, table)
    assert debezium_readers.jdbc(read, written, format, sink) == expected
    assert debezium_readers.jdbc(read, written, format, sink) == expected  # delivered again
    assert debezium_readers.jdbc(read, written, format, sink | {"use.reduction.buffer": "true"}) == expected

    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        catalog.load_table(f"{scope}.t").upsert(pa.table({"id": [6], "code": ["null"], "day": [dt.date(1582, 10, 4)]}))
    spark.sql(f"CALL pravega.system.compact_changes(table => '`{scope}`.t')")
    newer, changed = events(spark, cluster, scope), fitting_rows(spark, table)
    assert len(newer) > len(written)
    assert changed != expected
    assert debezium_readers.jdbc(read, newer, format, sink) == changed


def test_serializers_of_the_registry_read_avro(
    spark: SparkSession, cluster: ClusterInfo, scope: str, foreign: Foreign
) -> None:
    table = change(spark, scope, "debezium-avro", framing="registry")
    found: set[tuple[int, str]] = set()
    for event in foreign.connect(cluster).read(scope, "t", "avro"):
        (row,) = (event.value["after"] or event.value["before"]).values()
        (found.discard if event.value["op"] == "d" else found.add)((row["id"], row["code"]))
    assert found == rows(spark, table).keys()
