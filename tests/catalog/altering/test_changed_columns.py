"""Columns that change: ALTER TABLE makes new versions of a schema, and events of all versions are rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog.altering.schema_edits import change_columns
from pyspark_pravega.catalog.protocol import TableChange
from pyspark_pravega.catalog.storage.catalogs import Connections
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.errors import UnsupportedOperationError

FORMATS = ("avro", "json")
JSON_AT_LENGTH = ("avro", pytest.param("json", marks=pytest.mark.long))


def created(spark: SparkSession, scope: str, format: str, columns: str, more: str = "") -> str:
    table = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ('format'='{format}'{more})")
    return table


def rows(spark: SparkSession, table: str) -> list[Row]:
    return spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement)
    return str(caught.value)


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_events_of_all_versions_are_rows(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT NOT NULL, name VARCHAR(3) COMMENT 'who', v SMALLINT")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'abc', 1)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (at DATE COMMENT 'when' AFTER id, s STRUCT<a: INT, b: ARRAY<STRING>>)")
    assert rows(spark, table) == [Row(id=1, at=None, name="abc", v=1, s=None)]
    spark.sql(f"INSERT INTO {table} VALUES (2, DATE'2026-01-02', 'x', 2, named_struct('a', 7, 'b', array('y')))")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN name TYPE STRING")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v TYPE DOUBLE")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v FIRST")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v COMMENT 'value'")
    spark.sql(f"INSERT INTO {table} VALUES (0.5D, 3000000000, NULL, 'longer', NULL)")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN at")
    assert [tuple(row) for row in rows(spark, table)] == [
        (1.0, 1, "abc", None),
        (2.0, 2, "x", (7, ["y"])),
        (0.5, 3000000000, "longer", None),
    ]
    described = spark.sql(f"DESCRIBE {table}").collect()
    assert [tuple(row) for row in described] == [
        ("v", "double", "value"),
        ("id", "bigint", None),
        ("name", "string", "who"),
        ("s", "struct<a:int,b:array<string>>", None),
    ]


def test_a_renamed_column_has_the_values_of_old_events(spark: SparkSession, scope: str) -> None:
    table = created(spark, scope, "avro", "id INT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN title TO heading")
    assert rows(spark, table) == [Row(id=1, heading="a"), Row(id=2, heading="b")]
    assert "The name name cannot be used again" in refused(spark, f"ALTER TABLE {table} ADD COLUMN name STRING")
    assert "The name title cannot be used again" in refused(spark, f"ALTER TABLE {table} RENAME COLUMN id TO title")


def test_a_column_of_json_keeps_its_name(spark: SparkSession, scope: str) -> None:
    table = created(spark, scope, "json", "id INT, name STRING")
    message = refused(spark, f"ALTER TABLE {table} RENAME COLUMN name TO title")
    assert "PRAVEGA_UNSUPPORTED_OPERATION" in message and "Column name cannot be renamed" in message


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_the_columns_of_before_can_come_back_as_a_new_version(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN extra INT")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN extra")
    assert spark.table(table).columns == ["id"]
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT 'one'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT 'two'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT 'one'")
    assert [row.comment for row in spark.sql(f"DESCRIBE {table}").collect()] == ["one"]


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_the_policy_of_the_group_judges(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT NOT NULL, name STRING", ", 'compatibility'='full-transitive'")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN extra INT")
    for change, column in (
        ("ALTER COLUMN id TYPE BIGINT", "id"),
        ("ALTER COLUMN id DROP NOT NULL", "id"),
        ("DROP COLUMN id", "id"),
    ):
        message = refused(spark, f"ALTER TABLE {table} {change}")
        assert "PRAVEGA_INCOMPATIBLE_SCHEMA" in message and "'compatibility'" in message and column in message, change
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('compatibility'='deny-all')")
    assert "'deny-all'" in refused(spark, f"ALTER TABLE {table} ADD COLUMN more INT")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('compatibility'='backward')")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    assert spark.table(table).schema.simpleString() == "struct<id:bigint,name:string,extra:int>"


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_columns_that_the_table_needs_stay(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT, name STRING", ", 'routing-key'='name'")
    assert "'routing-key' names 'name'" in refused(spark, f"ALTER TABLE {table} DROP COLUMN name")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('routing-key')")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN name")
    assert "no column would be left" in refused(spark, f"ALTER TABLE {table} DROP COLUMN id")


def test_tables_whose_events_do_not_tell_their_version(spark: SparkSession, scope: str) -> None:
    unframed = created(spark, scope, "avro", "id INT", ", 'framing'='none'")
    assert "'framing'='none'" in refused(spark, f"ALTER TABLE {unframed} ADD COLUMN x INT")
    for format, columns in (("raw", ""), ("csv", "(id INT)")):
        table = f"pravega.`{scope}`.{format}"
        spark.sql(f"CREATE TABLE {table} {columns} USING pravega TBLPROPERTIES ('format'='{format}')")
        assert f"'format'='{format}'" in refused(spark, f"ALTER TABLE {table} ADD COLUMN x INT")


def test_a_key_of_auto_cdc_stays_as_it_is(spark: SparkSession, scope: str) -> None:
    """Each run of Spark's pipelines asks for the columns of its query."""
    columns = "age INT, id INT, __spark_autocdc_metadata STRUCT<upsertSequence: INT>"
    table = created(spark, scope, "debezium-json", columns, ", 'primary-key'='id'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL")
    assert not spark.table(table).schema["id"].nullable
    for change in ("ALTER COLUMN age DROP NOT NULL", "ALTER COLUMN id COMMENT 'key'", "ADD COLUMN x INT"):
        assert "'format'='debezium-json'" in refused(spark, f"ALTER TABLE {table} {change}")


def test_a_schema_of_another_program_keeps_what_it_says(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    pravega.controller.create_stream(Stream(scope, "t"), StreamConfiguration())
    before: list[dict[str, Any]] = [
        {"name": "id", "type": "int", "aliases": ["key"], "order": "ignore", "doc": "the id"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"], "default": "OFF"}},
    ]
    record: dict[str, Any] = {
        "type": "record",
        "name": "Reading",
        "namespace": "org.plant",
        "doc": "a reading",
        "fields": before,
    }
    registry = pravega.registry(scope)
    registry.create_group("t", GroupProperties("Avro", Compatibility("Backward")))
    registry.add_schema("t", SchemaInfo.of_text("org.plant.Reading", "Avro", json.dumps(record)))
    table = f"pravega.`{scope}`.t"
    spark.sql(f"ALTER TABLE {table} ADD COLUMN place STRUCT<hall: INT> FIRST")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    [newest] = registry.latest_schemas("t")
    fields = json.loads(newest.schema.text)["fields"]
    assert json.loads(newest.schema.text) | {"fields": before} == record
    assert fields[0]["type"][1]["name"] == "place" and fields[0]["type"][1]["namespace"] == "org.plant.Reading"
    assert fields[1:] == [before[0] | {"type": "long"}, before[1]]


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_two_changes_at_the_same_time(spark: SparkSession, pravega: Pravega, scope: str, format: str) -> None:
    """One that was planned with columns that are not the newest any more is taken back."""
    table = created(spark, scope, format, "id INT, name STRING")
    loaded = load_table(pravega, Stream(scope, "t"))
    spark.sql(f"ALTER TABLE {table} ADD COLUMN theirs INT")
    conf = {"controller-uri": pravega.config.controller_uri, "schema-registry-uri": str(pravega.config.registry_uri)}
    connections = Connections()
    try:
        with (
            connections.catalog(conf) as catalog,
            pytest.raises(UnsupportedOperationError, match="Another program changed its columns at the same time"),
        ):
            change_columns(catalog, loaded, [TableChange("DeleteColumn", None, None, ("name",))])
    finally:
        connections.close()
    assert spark.table(table).columns == ["id", "name", "theirs"]
