"""Defaults of columns: what INSERT writes, what events without the column read as, what other readers are told."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.formats.json.schemas.schema_references import read_full_schema

FORMATS = ("avro", "json")
JSON_AT_LENGTH = ("avro", pytest.param("json", marks=pytest.mark.long))
DEFAULTS = """
    id INT, a INT DEFAULT 5, b STRING NOT NULL DEFAULT 'x''y', c DECIMAL(6,2) DEFAULT -1.5,
    d DATE DEFAULT DATE'2026-01-02', e TIMESTAMP DEFAULT TIMESTAMP'2026-01-02 03:04:05', f BINARY DEFAULT X'00FF',
    g DOUBLE DEFAULT 0.5,
    h BOOLEAN DEFAULT true, i BIGINT DEFAULT 3 * 7, j TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ'2026-01-02 03:04:05',
    k VARCHAR(3) DEFAULT 'abc', l INT DEFAULT NULL, m TINYINT DEFAULT -1
"""
VALUES = (
    5, "x'y", Decimal("-1.50"), dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5), b"\x00\xff", 0.5, True, 21,
    dt.datetime(2026, 1, 2, 3, 4, 5), "abc", None, -1,
)  # fmt: skip


def created(spark: SparkSession, scope: str, format: str, columns: str, more: str = "") -> str:
    table = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ('format'='{format}'{more})")
    return table


def rows(spark: SparkSession, query: str) -> list[Any]:
    return [tuple(row) for row in spark.sql(query).collect()]


def newest(pravega: Pravega, scope: str, format: str) -> dict[str, Any]:
    """What the newest schema says of each column."""
    [schema] = pravega.registry(scope).latest_schemas("t")
    root = json.loads(schema.schema.text)
    if format == "avro":
        return {field["name"]: field for field in root["fields"]}
    return dict(read_full_schema(root)["properties"])


@pytest.mark.parametrize("format", FORMATS)
def test_defaults_of_all_types(spark: SparkSession, pravega: Pravega, scope: str, format: str) -> None:
    table = created(spark, scope, format, DEFAULTS)
    spark.sql(f"INSERT INTO {table} (id) VALUES (1)")
    spark.sql(f"INSERT INTO {table} (id, a, b) VALUES (2, NULL, DEFAULT)")
    spark.sql(f"INSERT INTO {table} BY NAME SELECT 3 AS id")
    spark.createDataFrame([(4,)], "id INT").writeTo(table).append()
    found = rows(spark, f"SELECT * FROM {table} ORDER BY id")
    assert found == [(1, *VALUES), (2, None, *VALUES[1:]), (3, *VALUES), (4, *VALUES)]
    said = {name: field.get("default") for name, field in newest(pravega, scope, format).items()}
    expected = {"id": None, "l": None, "a": 5, "b": "x'y", "g": 0.5, "h": True, "i": 21, "k": "abc", "m": -1}
    if format == "avro":
        expected |= {"c": "ÿj", "d": 20455, "e": 1767323045000000, "f": "\x00ÿ", "j": 1767323045000000}
    else:
        expected |= {"c": -1.5, "d": "2026-01-02", "e": "2026-01-02T03:04:05.000000Z", "f": "AP8="}
        expected |= {"j": "2026-01-02T03:04:05.000000"}
    assert said == expected
    script: str = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "i BIGINT DEFAULT 3 * 7" in script and "b STRING COLLATE UTF8_BINARY NOT NULL DEFAULT 'x''y'" in script


@pytest.mark.parametrize("format", FORMATS)
def test_old_events_read_as_the_default_of_the_time(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT")
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    added = DEFAULTS.replace("id INT,", "", 1)
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
    spark.sql(f"INSERT INTO {table} (id, a) VALUES (3, NULL)")
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [(1, *VALUES), (2, *VALUES), (3, None, *VALUES[1:])]
    assert rows(spark, f"SELECT count(a), sum(a), min(b) FROM {table} WHERE id < 3") == [(2, 10, "x'y")]
    assert rows(spark, f"SELECT id FROM {table} WHERE a = 5 ORDER BY id") == [(1,), (2,)]
    # Another default is for what comes, and none takes nothing away.
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN a SET DEFAULT 6")
    spark.sql(f"INSERT INTO {table} (id) VALUES (4)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN a DROP DEFAULT")
    spark.sql(f"INSERT INTO {table} (id) VALUES (5)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN a TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN b DROP NOT NULL")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT 100")
    spark.sql(f"INSERT INTO {table} (b) VALUES (NULL)")
    found = [(1, 5, "x'y"), (2, 5, "x'y"), (3, None, "x'y"), (4, 6, "x'y"), (5, None, "x'y"), (100, None, None)]
    assert rows(spark, f"SELECT id, a, b FROM {table} ORDER BY id") == found


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_a_column_that_is_not_null_needs_a_default_that_is_not(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT", ", 'compatibility'='full-transitive'")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    with pytest.raises(PySparkException, match="Column b cannot be added as NOT NULL"):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT NOT NULL")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT NOT NULL DEFAULT 7")
    assert rows(spark, f"SELECT * FROM {table}") == [(1, 7)]


def test_a_default_of_the_moment_is_told_to_nobody_else(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = created(
        spark,
        scope,
        "avro",
        "id INT, at TIMESTAMP DEFAULT current_timestamp(), who STRING DEFAULT 'user', "
        "b STRING DEFAULT concat('it''s now or \\'', r'\\', \"a user\"), "
        "c STRING DEFAULT concat('by ', current_user())",
    )
    before = dt.datetime.now(dt.UTC)
    spark.sql(f"INSERT INTO {table} (id) VALUES (1)")
    [(at,)] = rows(spark, f"SELECT unix_micros(at) FROM {table}")
    assert before.timestamp() <= at / 1e6 + 0.001 <= dt.datetime.now(dt.UTC).timestamp() + 0.001
    said = {name: field.get("default") for name, field in newest(pravega, scope, "avro").items()}
    # A word in a text is no function.
    assert said == {"id": None, "at": None, "who": "user", "b": "it's now or '\\a user", "c": None}


def test_epoch_timestamps_have_defaults_too(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = created(spark, scope, "json", "id INT", ", 'json.timestamp-format'='epoch-millis'")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN at TIMESTAMP DEFAULT TIMESTAMP'2026-01-02 03:04:05.5'")
    assert newest(pravega, scope, "json")["at"]["default"] == 1767323045500
    assert rows(spark, f"SELECT at FROM {table}") == [(dt.datetime(2026, 1, 2, 3, 4, 5, 500_000),)]


def test_a_table_made_by_a_query_has_no_defaults(spark: SparkSession, scope: str) -> None:
    table = created(spark, scope, "avro", "id INT DEFAULT 5")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.c TBLPROPERTIES ('format'='csv') AS SELECT * FROM {table}")
    assert "DEFAULT" not in spark.sql(f"SHOW CREATE TABLE pravega.`{scope}`.c").first()[0]


@pytest.mark.parametrize("format", JSON_AT_LENGTH)
def test_an_insert_may_bring_columns_and_wider_types(spark: SparkSession, scope: str, format: str) -> None:
    table = created(spark, scope, format, "id INT, b STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    evolving = f"INSERT WITH SCHEMA EVOLUTION INTO {table}"
    spark.sql(f"{evolving} BY NAME SELECT 2 AS id, 'b' AS b, 2.5D AS extra")
    spark.sql(f"{evolving} BY NAME SELECT 3000000000 AS id, 'c' AS b")
    spark.sql(f"{evolving} BY NAME SELECT 3S AS id, named_struct('x', 1) AS s")
    spark.sql(f"{evolving} SELECT 4, 'd', 0.5D, named_struct('x', 2), DATE'2026-01-01' AS day")
    assert rows(spark, f"SELECT id, b, extra, s.x, day FROM {table} ORDER BY id") == [
        (1, "a", None, None, None),
        (2, "b", 2.5, None, None),
        (3, None, None, 1, None),
        (4, "d", 0.5, 2, dt.date(2026, 1, 1)),
        (3000000000, "c", None, None, None),
    ]
    assert spark.table(table).schema.simpleString() == (
        "struct<id:bigint,b:string,extra:double,s:struct<x:int>,day:date>"
    )
    with pytest.raises(PySparkException, match="Cannot write extra columns `none`"):
        spark.sql(f"INSERT INTO {table} BY NAME SELECT 1 AS id, 2 AS none")
