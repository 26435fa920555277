"""Fields within columns that change: in structs, in elements of arrays and in values of maps."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from tests.catalog.altering.test_changed_columns import FORMATS, JSON_AT_LENGTH, created, refused

COLUMNS = """
    id INT, s STRUCT<a: INT NOT NULL COMMENT 'first', b: STRUCT<x: FLOAT>, d: VARCHAR(3)>,
    l ARRAY<STRUCT<e: INT>>, m MAP<STRING, STRUCT<v: SMALLINT NOT NULL>>, n ARRAY<INT>, k MAP<STRING, INT>
"""
FIRST = """
    SELECT 1, named_struct('a', 10, 'b', named_struct('x', 0.5F), 'd', 'abc'), array(named_struct('e', 1), NULL),
      map('one', named_struct('v', 1S)), array(1, 2), map('k', 7)
"""


def rows(spark: SparkSession, query: str) -> list[str]:
    """The rows as JSON, in which a field that is null does not stand."""
    return [str(row[0]) for row in spark.sql(f"SELECT to_json(struct(*)) FROM ({query})").collect()]


@pytest.mark.parametrize("format", FORMATS)
def test_events_of_all_versions_are_rows(spark: SparkSession, pravega: Pravega, scope: str, format: str) -> None:
    table = created(spark, scope, format, COLUMNS)
    spark.sql(f"INSERT INTO {table} {FIRST}")
    for number, change in enumerate(
        (
            "ADD COLUMNS (s.c BIGINT COMMENT 'new' AFTER a, l.element.f STRING FIRST, m.value.w STRUCT<q: INT>, "
            "s.b.y INT)",
            "ALTER COLUMN s.a TYPE BIGINT, s.b.x TYPE DOUBLE, m.value.v TYPE INT, k.value TYPE BIGINT",
            "ALTER COLUMN n.element TYPE BIGINT",
            "ALTER COLUMN s.a DROP NOT NULL",
            "ALTER COLUMN m.value.v DROP NOT NULL",
            "ALTER COLUMN s.b.x COMMENT 'inner'",
            "ALTER COLUMN s.d FIRST",
            "DROP COLUMN s.b.y",
        ),
        start=2,
    ):
        spark.sql(f"ALTER TABLE {table} {change}")
        assert len(pravega.registry(scope).versions("t")) == number, change
    assert spark.table(table).schema.simpleString() == (
        "struct<id:int,s:struct<d:string,a:bigint,c:bigint,b:struct<x:double>>,l:array<struct<f:string,e:int>>,"
        "m:map<string,struct<v:int,w:struct<q:int>>>,n:array<bigint>,k:map<string,bigint>>"
    )
    s = spark.table(table).schema["s"].dataType
    assert isinstance(s, StructType)
    comments = {each.name: each.metadata.get("comment") for each in s}
    assert comments == {"d": None, "a": "first", "c": "new", "b": None}
    spark.sql(
        f"INSERT INTO {table} SELECT 2, named_struct('d', 'xyz', 'a', NULL, 'c', 3000000000, 'b', NULL), "
        "array(named_struct('f', 'g', 'e', 2)), map('two', named_struct('v', NULL, 'w', named_struct('q', 5))), "
        "array(NULL, 3000000000), map('k', 3000000000)"
    )
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [
        '{"id":1,"s":{"d":"abc","a":10,"b":{"x":0.5}},"l":[{"e":1},null],"m":{"one":{"v":1}},"n":[1,2],"k":{"k":7}}',
        '{"id":2,"s":{"d":"xyz","c":3000000000},"l":[{"f":"g","e":2}],"m":{"two":{"w":{"q":5}}},'
        '"n":[null,3000000000],"k":{"k":3000000000}}',
    ]
    assert rows(spark, f"SELECT s.c, l[0].f AS f, m['two'].w.q AS q FROM {table} WHERE s.a IS NULL") == [
        '{"c":3000000000,"f":"g","q":5}'
    ]


def test_a_renamed_field_has_the_values_of_old_events(spark: SparkSession, scope: str) -> None:
    table = created(spark, scope, "avro", COLUMNS)
    spark.sql(f"INSERT INTO {table} {FIRST}")
    for change in ("s.a TO one", "s.b.x TO y", "l.element.e TO f", "m.value.v TO w", "s TO t", "t.one TO two"):
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN {change}")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN t DROP NOT NULL")
    assert rows(spark, f"SELECT t, l, m FROM {table}") == [
        '{"t":{"two":10,"b":{"y":0.5},"d":"abc"},"l":[{"f":1},null],"m":{"one":{"w":1}}}'
    ]
    # Of whatever name the field or what is around it was, its old names are not given to another one.
    for name in ("t.a", "t.b.x", "l.element.e", "m.value.v", "t.one"):
        message = refused(spark, f"ALTER TABLE {table} ADD COLUMN {name} INT")
        assert "cannot be used again" in message and "version" in message, name


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_old_events_read_as_the_default_of_a_field(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, COLUMNS)
    spark.sql(f"INSERT INTO {table} {FIRST}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN s.c INT NOT NULL DEFAULT 5")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN l.element.g STRING DEFAULT 'x'")
    assert rows(spark, f"SELECT s.c, l FROM {table}") == ['{"c":5,"l":[{"e":1,"g":"x"},null]}']


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_what_is_refused_names_the_field(spark: SparkSession, pravega: Pravega, scope: str, format: str) -> None:
    table = created(spark, scope, format, COLUMNS, ", 'compatibility'='full-transitive'")
    for change, condition, *words in (
        ("ADD COLUMN s.e INT NOT NULL", "UNSUPPORTED_OPERATION", "Column s.e", "NOT NULL out"),
        ("DROP COLUMN s.b.x", "UNSUPPORTED_OPERATION", "Column s.b.x", "Drop s.b"),
        ("DROP COLUMN n.element", "", "n.element"),
        ("ALTER COLUMN s.a TYPE STRING", "UNSUPPORTED_OPERATION", "Column s.a", "int to string"),
        ("ALTER COLUMN s.a TYPE BIGINT", "INCOMPATIBLE_SCHEMA", "s.a", "'compatibility'"),
        ("ALTER COLUMN n.element TYPE BIGINT", "INCOMPATIBLE_SCHEMA", "n.element", "'compatibility'"),
        ("DROP COLUMN s.a", "INCOMPATIBLE_SCHEMA", "s.a", "'compatibility'"),
        ("ALTER COLUMN m.value.v DROP NOT NULL", "INCOMPATIBLE_SCHEMA", "m.value.v", "'compatibility'"),
        ("ADD COLUMN s.A INT", "FIELD_ALREADY_EXISTS", "`s`.`A`"),
        ("ADD COLUMN id.a INT", "INVALID_FIELD_NAME", "`id`"),
        ("ADD COLUMN nothing.a INT", "UNRESOLVED_COLUMN", "`nothing`"),
        ("ADD COLUMN s.v INTERVAL DAY", "UNSUPPORTED_TYPE", "interval day"),
    ):
        message = refused(spark, f"ALTER TABLE {table} {change}")
        assert condition in message and not [word for word in words if word not in message], (change, message)
    if format == "json":
        assert "Column s.d cannot be renamed" in refused(spark, f"ALTER TABLE {table} RENAME COLUMN s.d TO z")
    assert len(pravega.registry(scope).versions("t")) == 1


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_an_insert_may_bring_fields(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT, s STRUCT<a: INT>, l ARRAY<STRUCT<e: INT>>")
    spark.sql(f"INSERT INTO {table} VALUES (1, named_struct('a', 1), array(named_struct('e', 1)))")
    spark.sql(
        f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME "
        "SELECT 2 AS id, named_struct('a', 3000000000, 'b', 'x') AS s, "
        "array(named_struct('e', 2, 'f', DATE'2026-01-02')) AS l"
    )
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [
        '{"id":1,"s":{"a":1},"l":[{"e":1}]}',
        '{"id":2,"s":{"a":3000000000,"b":"x"},"l":[{"e":2,"f":"2026-01-02"}]}',
    ]


def test_a_schema_of_another_program(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """It keeps what it says; a type that has several places, or several types in one place, is not changed."""
    pravega.controller.create_stream(Stream(scope, "t"), StreamConfiguration())
    point = {"type": "record", "name": "Point", "doc": "a place", "fields": [{"name": "x", "type": "int"}]}
    kept = {
        "type": "record",
        "name": "In",
        "namespace": "a.b",
        "fields": [{"name": "y", "type": "int", "order": "ignore"}],
    }
    fields = [
        {"name": "p", "type": point},
        {"name": "q", "type": "Point"},
        {"name": "i", "type": [kept, "null"]},
        {"name": "u", "type": ["int", "string"]},
    ]
    record = {"type": "record", "name": "R", "namespace": "org.plant", "fields": fields}
    registry = pravega.registry(scope)
    registry.create_group("t", GroupProperties("Avro", Compatibility("Backward")))
    registry.add_schema("t", SchemaInfo.of_text("org.plant.R", "Avro", json.dumps(record)))
    table = f"pravega.`{scope}`.t"
    for name in ("p.z", "q.z", "u.member9"):
        assert "made by another program" in refused(spark, f"ALTER TABLE {table} ADD COLUMN {name} INT")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN i.z STRUCT<h: INT> FIRST")
    [newest] = registry.latest_schemas("t")
    found = json.loads(newest.schema.text)["fields"]
    added, *old = found[2]["type"][0]["fields"]
    assert (added["type"][1]["namespace"], old) == ("a.b.In", kept["fields"])
    assert [*found[:2], found[3]] == [*fields[:2], fields[3]]
