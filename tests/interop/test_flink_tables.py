"""Tables that Flink reads and writes by Pravega's own connector, beside what Spark reads and writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.interop.debezium_readers import convert, show_floats
from tests.interop.flink import Flink, FlinkSession
from tests.interop.java_process import JavaError

pytestmark = pytest.mark.flink

TYPES = {
    "a": ("TINYINT", "CAST(-128 AS TINYINT)", "CAST(127 AS TINYINT)"),
    "b": ("SMALLINT", "CAST(-32768 AS SMALLINT)", "CAST(7 AS SMALLINT)"),
    "c": ("INT", "-2147483648", "2147483647"),
    "d": ("BIGINT", "CAST(9223372036854775807 AS BIGINT)", "CAST(-1 AS BIGINT)"),
    "e": ("FLOAT", "CAST(0.5 AS FLOAT)", "CAST(-1.5E30 AS FLOAT)"),
    "f": ("DOUBLE", "CAST(0.1 AS DOUBLE)", "CAST(-1E300 AS DOUBLE)"),
    "g": ("DECIMAL(10, 2)", "CAST(-1.23 AS DECIMAL(10, 2))", "CAST(99999999.99 AS DECIMAL(10, 2))"),
    "h": ("STRING", "'größe, \"日本\"'", "''"),
    "i": ("BOOLEAN", "TRUE", "FALSE"),
    "j": ("DATE", "DATE '1969-12-31'", "DATE '2024-02-29'"),
    "k": ("TIMESTAMP(3)", "TIMESTAMP '1969-12-31 23:59:59.999'", "TIMESTAMP '2024-01-31 12:00:00.120'"),
    "l": ("BYTES", "X'ff00'", "X''"),
    "m": ("ARRAY<INT>", "ARRAY[1, 2]", "ARRAY[CAST(NULL AS INT)]"),
    "n": ("MAP<STRING, INT>", "MAP['x', 1]", "MAP['y', CAST(NULL AS INT)]"),
    "o": (
        "ROW<x INT, y STRING>",
        "CAST(ROW(1, 'x') AS ROW<x INT, y STRING>)",
        "CAST(ROW(2, '') AS ROW<x INT, y STRING>)",
    ),
    "p": ("TIMESTAMP(6)", "TIMESTAMP '2024-01-31 12:00:00.123456'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "q": ("TIMESTAMP_LTZ(3)", "TO_TIMESTAMP_LTZ(-1, 3)", "TO_TIMESTAMP_LTZ(1706702400120, 3)"),
}
"""Types of Flink with two values each."""
ROWS = 3
CSV = "'format' = 'csv', 'csv.null-literal' = 'n/a'"
JSON = "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"


@dataclass(frozen=True)
class Tables:
    """Streams of a scope as tables of Flink, and as the tables of Spark that `translate` makes of them."""

    spark: SparkSession
    flink: FlinkSession
    cluster: ClusterInfo
    scope: str

    def declare(self, stream: str, columns: str, format: str) -> None:
        """Create the stream by Spark's statement, and declare it in Flink."""
        statement = f"""CREATE TABLE {stream} ({columns}) WITH ('connector' = 'pravega', 'scope' = '{self.scope}',
            'controller-uri' = '{self.cluster.controller_uri}', 'scan.event-read.timeout.interval' = '100 ms',
            'scan.streams' = '{stream}', 'sink.stream' = '{stream}', {format})"""
        self.flink.run(statement)
        for each in split_script(translate(statement).script):
            self.spark.sql(each.text)

    def use_catalog(self) -> None:
        """Let Flink look names up in its own catalog of the scope."""
        controller, registry = self.cluster.controller_uri, self.cluster.registry_uri
        addresses = f"'controller-uri' = '{controller}', 'schema-registry-uri' = '{registry}'"
        self.flink.run(f"CREATE CATALOG pc WITH ('type' = 'pravega', 'default-database' = '{self.scope}', {addresses})")
        self.flink.run("USE CATALOG pc")

    def registry(self, stream: str) -> str:
        """Return the options of the format that uses the schema registry."""
        return f"""'format' = 'pravega-registry', 'pravega-registry.uri' = '{self.cluster.registry_uri}',
            'pravega-registry.namespace' = '{self.scope}', 'pravega-registry.group-id' = '{stream}'"""

    def name(self, stream: str) -> str:
        """Return the name of a stream as Spark's table."""
        return f"pravega.`{self.scope}`.{stream}"

    def read_by_spark(self, stream: str) -> list[dict[str, Any]]:
        """Return the rows, in the order of their texts."""
        rows = self.spark.table(self.name(stream)).toArrow().to_pylist()
        return sorted(map(show_floats, rows), key=repr)

    def read_by_flink(self, stream: str, count: int) -> list[dict[str, Any]]:
        """Return the first rows in types of Spark's table, in the order of their texts."""
        schema = self.spark.table(self.name(stream)).schema
        changes = self.flink.changes(f"SELECT * FROM {stream}", count)
        assert {kind for kind, _ in changes} == {"+I"}
        return sorted((convert(row, schema) for _, row in changes), key=repr)

    def fold(self, stream: str, key: str) -> dict[Any, Any]:
        """Return the rows of a table of changes in Spark, by their keys."""
        return {row[key]: tuple(row) for row in self.spark.table(self.name(stream)).collect()}


@pytest.fixture
def tables(spark: SparkSession, flink_jobs: Flink, cluster: ClusterInfo, scope: str) -> Tables:
    return Tables(spark, flink_jobs.begin(), cluster, scope)


def declare(columns: str) -> str:
    return ", ".join(f"{name} {TYPES[name][0]}" for name in columns)


def values(columns: str) -> str:
    """Two rows of values, and one of NULLs."""
    chosen = [TYPES[name] for name in columns]
    rows = [", ".join(one[number] for one in chosen) for number in (1, 2)]
    rows.append(", ".join(f"CAST(NULL AS {one[0]})" for one in chosen))
    return f"VALUES {', '.join(f'({row})' for row in rows)}"


def insert_by_spark(tables: Tables, stream: str, columns: str) -> None:
    """Insert the values of Flink, translated."""
    [statement] = split_script(translate(f"SET 'execution.runtime-mode' = 'batch'; {values(columns)};").script)
    tables.spark.sql(f"INSERT INTO {tables.name(stream)} {statement.text}")


@pytest.mark.parametrize(
    ("columns", "format"),
    [
        ("abcdefghijklmnopq", JSON),
        ("abcdefghij", CSV),
        ("abcdefghijlmno", "'format' = 'avro'"),
    ],
    ids=["json", "csv", "avro"],
)
def test_each_reads_every_type_of_the_other(tables: Tables, columns: str, format: str) -> None:
    for stream in ("ours", "theirs"):
        tables.declare(stream, declare(columns), format)
    insert_by_spark(tables, "ours", columns)
    tables.flink.run(f"INSERT INTO theirs {values(columns)}")
    rows = tables.read_by_spark("ours")
    assert len(rows) == ROWS
    assert tables.read_by_spark("theirs") == rows
    assert tables.read_by_flink("ours", ROWS) == rows
    assert tables.read_by_flink("theirs", ROWS) == rows


@pytest.mark.parametrize(
    ("columns", "format"),
    [
        ("cdefghijklmno", ""),
        (
            "abcdefghijklmnop",
            ", 'pravega-registry.format' = 'Json', 'pravega-registry.timestamp-format.standard' = 'ISO-8601'",
        ),
    ],
    ids=["avro", "json"],
)
def test_flink_reads_every_type_with_a_header_of_the_registry(tables: Tables, columns: str, format: str) -> None:
    tables.declare("ours", declare(columns), tables.registry("ours") + format)
    insert_by_spark(tables, "ours", columns)
    assert tables.read_by_flink("ours", ROWS) == tables.read_by_spark("ours")


def test_flink_does_not_write_by_a_schema_of_spark(tables: Tables) -> None:
    tables.declare("ours", declare("ch"), tables.registry("ours"))
    with pytest.raises(JavaError, match="not registered"):
        tables.flink.run(f"INSERT INTO ours {values('ch')}")
    assert tables.read_by_spark("ours") == []


def test_timestamps_of_csv_are_read_by_spark_alone(tables: Tables) -> None:
    for stream in ("ours", "theirs"):
        tables.declare(stream, declare("kp"), CSV)
    insert_by_spark(tables, "ours", "kp")
    tables.flink.run(f"INSERT INTO theirs {values('kp')}")
    assert tables.read_by_spark("theirs") == tables.read_by_spark("ours")
    with pytest.raises(JavaError, match="could not be parsed"):
        tables.flink.changes("SELECT * FROM ours", ROWS)


def test_a_batch_of_flink_finds_no_rows(tables: Tables) -> None:
    tables.declare("ours", "id INT", JSON + ", 'scan.execution.type' = 'batch'")
    tables.spark.sql(f"INSERT INTO {tables.name('ours')} VALUES (1)")
    assert tables.flink.changes("SELECT * FROM ours", 1) == []


def test_both_catalogs_have_the_tables_of_the_other(tables: Tables) -> None:
    tables.spark.sql(f"CREATE TABLE {tables.name('ours')} (id INT, name STRING)")
    tables.spark.sql(f"INSERT INTO {tables.name('ours')} VALUES (1, 'a')")
    tables.use_catalog()
    assert tables.flink.changes("SHOW TABLES", 9) == [("+I", ["ours"])]
    assert tables.flink.changes("SELECT * FROM ours", 1) == [("+I", ["1", "a"])]
    tables.flink.run("CREATE TABLE theirs (id INT, name STRING)")
    tables.flink.run("INSERT INTO theirs VALUES (2, 'b')")
    names = {row.tableName for row in tables.spark.sql(f"SHOW TABLES IN pravega.`{tables.scope}`").collect()}
    assert names == {"ours", "theirs"}
    assert tables.fold("theirs", "id") == {2: (2, "b")}


def test_each_reads_what_the_other_writes_into_a_table_of_flinks_catalog(tables: Tables) -> None:
    columns = "abcdefhijklmno"
    tables.use_catalog()
    tables.flink.run(f"CREATE TABLE theirs ({declare(columns)})")
    tables.flink.run(f"INSERT INTO theirs {values(columns)}")
    rows = tables.read_by_spark("theirs")
    assert len(rows) == ROWS
    insert_by_spark(tables, "theirs", columns)
    twice = sorted([*rows, *rows], key=repr)
    assert tables.read_by_spark("theirs") == twice
    assert tables.read_by_flink("theirs", 2 * ROWS) == twice


def test_flinks_catalog_has_no_decimals_of_avro(tables: Tables) -> None:
    tables.use_catalog()
    tables.flink.run(f"CREATE TABLE theirs ({declare('g')})")
    with pytest.raises(JavaError, match="cannot be cast to class .*DecimalType"):
        tables.flink.run(f"INSERT INTO theirs {values('g')}")
    assert tables.read_by_spark("theirs") == []


def test_flink_reads_statements_as_changes(tables: Tables) -> None:
    tables.declare("stock", "item STRING, n INT, PRIMARY KEY (item) NOT ENFORCED", "'format' = 'debezium-json'")
    name = tables.name("stock")
    tables.spark.sql(f"INSERT INTO {name} VALUES ('a', 1), ('b', 2)")
    tables.spark.sql(f"UPDATE {name} SET n = n + 10 WHERE item = 'a'")
    tables.spark.sql(f"DELETE FROM {name} WHERE item = 'b'")
    changes = tables.flink.changes("SELECT * FROM stock", 5)
    of_a, of_b = ([change for change in changes if change[1][0] == item] for item in "ab")
    assert of_a == [("+I", ["a", "1"]), ("-U", ["a", "1"]), ("+U", ["a", "11"])]
    assert of_b == [("+I", ["b", "2"]), ("-D", ["b", "2"])]


def test_changes_of_flink_are_folded(tables: Tables) -> None:
    tables.declare("words", "word STRING, n INT", JSON)
    changed = "'format' = 'debezium-json', 'sink.routing-key.field.name' = 'word'"
    tables.declare("totals", "word STRING, n INT, PRIMARY KEY (word) NOT ENFORCED", changed)
    query = "SELECT word, SUM(n) FROM words GROUP BY word HAVING SUM(n) < 10"
    with tables.flink.running(f"INSERT INTO totals {query}"):
        tables.flink.run("INSERT INTO words VALUES ('a', 1), ('b', 2), ('a', 3), ('c', 9), ('c', 5)")
        changes = tables.flink.changes("SELECT * FROM totals", 6)
    assert Counter(kind for kind, _ in changes) == {"+I": 4, "-D": 2}
    assert tables.fold("totals", "word") == {"a": ("a", 4), "b": ("b", 2)}
