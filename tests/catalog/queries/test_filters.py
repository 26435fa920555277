"""Conditions that tasks evaluate instead of Spark: the answers are those of Spark alone, and fewer rows go to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.queries.test_bad_event_modes import nodes
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

ROWS = 600

VALUES = {
    "i": ["0", "-1", "7", "2147483647", "-2147483648"],
    "l": ["0L", "-1L", "7L", "9223372036854775807L", "-9223372036854775807L - 1L"],
    "f": ["float(0)", "float('-0.0')", "float('NaN')", "float('Infinity')", "float(0.1)", "float('1e-45')"],
    "d": ["0d", "-0.0d", "double('NaN')", "double('-Infinity')", "0.1d", "4.9e-324d", "1.7976931348623157e308d"],
    "t": ["''", "'a'", "'A'", "'ab%'", "'ż'", "'\\uffff'", "'😀'", "'😀a'", "' a'", "'\\u0000'"],
    "b": ["true", "false"],
    "dt": ["DATE'1970-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1969-12-31'"],
    "at": [
        "TIMESTAMP'1970-01-01 00:00:00Z'",
        "TIMESTAMP'0001-01-01 00:00:00Z'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    ],
    "n": ["TIMESTAMP_NTZ'1970-01-01 00:00:00'", "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'"],
    "p": ["0.00BD", "1.10BD", "-99999999.99BD"],
}
"""Of each column, some values."""
TYPES = {"i": "INT", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE", "t": "STRING", "b": "BOOLEAN"}
TYPES |= {"dt": "DATE", "at": "TIMESTAMP", "n": "TIMESTAMP_NTZ", "p": "DECIMAL(10, 2)"}
COLUMNS = ", ".join(
    f"CAST(element_at(array({', '.join([*values, 'NULL'])}), int(pmod(hash(id, {place}), {len(values) + 1})) + 1) "
    f"AS {TYPES[name]}) AS {name}"
    for place, (name, values) in enumerate(VALUES.items())
)
SOURCE = f"SELECT id, {COLUMNS}, IF(id % 3 = 0, NULL, array(id)) AS a FROM range({ROWS})"


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the rows as Parquet; the table pravega.filters.t has the same."""
    directory = tmp_path_factory.mktemp("filters") / "rows"
    spark.sql(SOURCE).repartition(1).write.parquet(str(directory))
    spark.sql("CREATE NAMESPACE pravega.filters")
    spark.sql(f"CREATE TABLE pravega.filters.t USING pravega TBLPROPERTIES ('format'='avro') AS {SOURCE}")
    yield directory
    spark.sql("DROP NAMESPACE pravega.filters CASCADE")


def scan(frame: DataFrame) -> JavaObject:
    [found] = [node for node in nodes(frame._jdf.queryExecution().executedPlan()) if "Scan" in node.nodeName()]
    return found


def test_rows_that_are_dropped_stay_in_the_worker(spark: SparkSession, rows: Path) -> None:
    for text, shown, left in (
        ("id < 40", "(id < ?)", False),
        ("id IN (1, 2, 3, 1000) AND b IS NULL", "id IN (4 values), IS NULL b", False),
        ("id >= 590 OR NOT (id > 9)", "((id >= ?) OR (id <= ?))", False),
        ("id <> 5 AND d < 0", "NOT (id = ?), (d < ?)", False),
        ("t LIKE 'a%' AND id % 2 = 0", "(t STARTS WITH ?)", True),
        ("_offset < 5000 AND _segment LIKE 'filters/t/%'", "(_offset < ?), (_segment STARTS WITH ?)", False),
    ):
        reader = spark.read.option("push-down-filters", "false")
        on, off = (
            table.where(text).select("id", "t", "b", "_offset")
            for table in (spark.table("pravega.filters.t"), reader.table("pravega.filters.t"))
        )
        assert sorted(on.collect()) == sorted(off.collect()) != [], text
        assert int(scan(on).metrics().apply("numOutputRows").value()) < ROWS / 2, text
        assert int(scan(off).metrics().apply("numOutputRows").value()) == ROWS
        assert shown in scan(on).toString().partition("; filters: ")[2]
        assert "filters:" not in scan(off).toString()
        assert ("Filter (" in on._jdf.queryExecution().executedPlan().toString()) == left, text


def test_columns_that_only_conditions_need_stay_in_the_worker(spark: SparkSession, rows: Path) -> None:
    table = spark.table("pravega.filters.t")
    for columns in (["id"], ["t", "_segment"], []):
        found = table.where("l > 0 AND _offset >= 0 AND f IS NOT NULL").select(*columns)
        wanted = spark.read.parquet(str(rows)).where("l > 0 AND f IS NOT NULL")
        assert f"columns: {', '.join(columns) or 'none'}; " in scan(found).toString()
        assert len(found.collect()) == wanted.count() > 0


def test_conditions_that_may_fail_are_not_overtaken(spark: SparkSession, rows: Path) -> None:
    """Spark evaluates conditions in their order: what follows one that raises an error drops no rows before it."""
    table = spark.table("pravega.filters.t")
    for text, shown in (
        ("1 / i > 0 AND id = 5", ""),
        ("id = 5 AND 1 / i > 0", "(id = ?)"),
        ("year(dt) = 1970 AND id = 5", "(id = ?)"),
    ):
        filters = scan(table.where(text).select("id")).toString().partition("; filters: ")[2]
        assert shown in filters and ("id = ?" in filters) == bool(shown), text
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        table.where("1 / i > 0 AND id = 5").collect()
    long = table.where(f"id IN ({', '.join(map(str, range(0, 2000, 2)))}) AND b IS NULL").select("id")
    assert "filters: IS NULL b" in scan(long).toString()
    assert 0 < len(long.collect()) == spark.read.parquet(str(rows)).where("id % 2 = 0 AND b IS NULL").count()


@pytest.mark.parametrize(
    "text",
    [
        "f IN (float(0), float('NaN'))",
        "d IN (-0.0d, 0.1d, double('NaN')) OR i IN (7, -1)",
        "NOT (d IN (0d, 0.1d)) AND NOT (i IN (7))",
        "i <=> 7 OR t <=> 'a'",
        "NOT (f <=> float('NaN'))",
        "d < double('NaN') OR f > float(0.1)",
        "NOT (f >= float(0.1)) AND d <= 0.1d",
        "NOT (b = true OR i > 0 AND t <> 'a')",
    ],
)
def test_nulls_zeros_and_nan_are_compared_as_spark_does(spark: SparkSession, rows: Path, text: str) -> None:
    found = spark.table("pravega.filters.t").where(text).select("id")
    wanted = spark.read.parquet(str(rows)).where(text).select("id")
    assert sorted(found.collect()) == sorted(wanted.collect()) != []
    assert "filters: " in scan(found).toString()


def test_two_columns_without_values_are_equal(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.pairs"
    spark.sql(f"CREATE TABLE {table} (id INT, a INT, b INT) USING pravega")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 1, NULL), (3, NULL, 1), (4, NULL, NULL), (5, 1, 2)")
    found = spark.table(table).where("a <=> b").select("id")
    assert sorted(row.id for row in found.collect()) == [1, 4]
    assert "filters: " in scan(found).toString()


def bad_events(frame: DataFrame) -> int:
    return int(scan(frame).metrics().apply("badEvents").value())


def test_bad_events_are_bad_whatever_a_condition_drops(
    spark: SparkSession, rows: Path, client_config: ClientConfig, scope: str
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (k INT, v STRING) TBLPROPERTIES ('format'='json', 'framing'='none')")
    payloads = [b'{"k":%d,"v":"%d"}' % (n, n) for n in range(90)] + [b"?"] * 9
    with connect(client_config) as pravega:
        batch = pa.record_batch([pa.array(payloads, pa.binary())], names=["event"])
        insert(pravega, raw_table(Stream(scope, "t")), batch)
    for mode, text, count in (
        ("permissive", "k = 5", 1),
        ("permissive", "k IS NULL", 9),
        ("permissive", "NOT (k < 85)", 5),
        ("permissive", "_error IS NULL AND k < 3", 3),
        ("dropmalformed", "k = 5", 1),
        ("dropmalformed", "k > 100", 0),
        ("dropmalformed", "k IS NULL", 0),
    ):
        frame = spark.read.option("mode", mode).table(f"pravega.`{scope}`.t").where(text)
        assert len(frame.collect()) == count, (mode, text)
        assert bad_events(frame) == 9, (mode, text)
        assert "filters: " in scan(frame).toString()
    with pytest.raises(PySparkException, match="PRAVEGA_MALFORMED_EVENT"):
        spark.table(f"pravega.`{scope}`.t").where("k = 5").collect()
    lettered = spark.read.option("dead-letter", "letters").table(f"pravega.`{scope}`.t").where("k = 5")
    assert len(lettered.collect()) == 1
    assert spark.table(f"pravega.`{scope}`.letters").count() == 9


def test_a_limit_counts_the_rows_that_a_condition_keeps(spark: SparkSession, rows: Path) -> None:
    table = "pravega.filters.t"
    for text, pushed in (
        ("id >= 590", True),
        ("id >= 590 AND id % 2 = 0", False),
        ("_offset >= 0 AND id >= 590", True),
        ("a IS NOT NULL AND id > 590", True),
        ("id > 2000", True),
    ):
        wanted = min(4, spark.read.parquet(str(rows)).where(text.replace("_offset >= 0 AND", "")).count())
        found = spark.sql(f"SELECT id FROM {table} WHERE {text} LIMIT 4")
        assert len(found.collect()) == wanted, text
        assert ("; limit: 4" in scan(found).toString()) == pushed
        assert not pushed or int(scan(found).metrics().apply("numOutputRows").value()) <= 4
    assert len(spark.sql(f"SELECT id FROM (SELECT * FROM {table} LIMIT 300) WHERE id < 1000").collect()) == 300


def test_current_rows_and_changes_are_filtered_when_they_are_made(spark: SparkSession, rows: Path) -> None:
    """A condition is one on the rows that events lead to, not on events: an older state is no row."""
    spark.sql(
        "CREATE TABLE pravega.filters.states (k INT, v STRING) "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='k')"
    )
    spark.sql("INSERT INTO pravega.filters.states VALUES (1, 'old'), (2, 'old'), (3, 'old')")
    spark.sql("INSERT INTO pravega.filters.states VALUES (1, 'new'), (2, 'new')")
    assert spark.sql("SELECT k FROM pravega.filters.states WHERE v = 'old'").collect() == [(3,)]
    assert spark.sql("SELECT count(*) FROM pravega.filters.states WHERE v <> 'old'").collect() == [(2,)]
    assert spark.sql("SELECT id FROM pravega.filters.t CHANGES FROM VERSION 1 WHERE id = 7").count() == 1
    found = spark.sql("SELECT id FROM pravega.filters.t CHANGES FROM VERSION 1 WHERE id < 9 AND _commit_version = 1")
    assert found.count() == 9
    assert "filters: " in scan(found).toString()
    assert len(found.limit(5).collect()) == 5 and found.limit(100).count() == 9
