"""What a version of Spark lacks is refused; see docs/spark-versions.md. Where nothing is lacking, it works."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.spark.home import CATALOG_CLASS, JARS, find_adapter_jar, read_adapter_manifest
from tests.catalog.streaming.changes_streams import Target
from tests.spark_versions import VERSION


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING) TBLPROPERTIES ('format'='avro')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, NULL)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN added INT")
    return name


def refused_before(version: tuple[int, int], text: str) -> AbstractContextManager[object]:
    """Expect an error with this text from Spark before a version, and none since."""
    return pytest.raises(PySparkException, match=text) if version > VERSION else nullcontext()


def test_the_jar_is_for_this_version(spark: SparkSession) -> None:
    line = spark.version.rpartition(".")[0]
    served = [version for version, jar in JARS.items() if jar == JARS[line]]
    assert line in served and read_adapter_manifest()["Spark-Versions"].split() == served
    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    place = loader.getResource(f"{CATALOG_CLASS.replace('.', '/')}.class").toString()
    loaded = Path(place.removeprefix("jar:file:").partition("!")[0])
    assert loaded.read_bytes() == find_adapter_jar().read_bytes()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT k FROM {} ORDER BY k", [(1,), (2,)]),
        ("SELECT count(k) FROM {}", [(2,)]),
        ("SELECT * FROM {} WHERE k IS NULL", []),
    ],
)
def test_permissive_columns_are_nullable_or_refused(
    spark: SparkSession, table: str, query: str, rows: list[tuple[int, ...]]
) -> None:
    """Spark would else leave out what asks whether a NOT NULL column is null, and take its count for that of rows."""
    with refused_before((4, 3), r"'mode'='permissive' .* only from Spark 4.3 on .* \(k\) nullable"):
        assert spark.sql(query.format(f"{table} WITH ('mode'='permissive')")).collect() == rows
    assert spark.sql(query.format(f"{table} WITH ('mode'='dropmalformed')")).collect() == rows


def test_columns_of_a_schema_version_or_none(spark: SparkSession, table: str) -> None:
    with refused_before((4, 3), "'schema-version'='0' selects a table's columns only from Spark 4.3 on"):
        assert spark.read.option("schema-version", "0").table(table).orderBy("k").collect() == [(1, "a"), (2, None)]
    assert spark.read.option("schema-version", "1").table(table).count() == 2


def test_a_property_says_how_bad_events_are_read(spark: SparkSession, table: str) -> None:
    """Which every version knows when it loads the table."""
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('mode'='permissive')")
    assert spark.table(table).schema["k"].nullable
    assert spark.sql(f"SELECT count(k), count(*) FROM {table} WHERE _error IS NULL").collect() == [(2, 2)]


def test_a_stream_with_an_option_has_hidden_columns(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """Which Spark 4.1 reads by an option of the adapter's own, and analyzes again with it."""
    rows = spark.readStream.option("mode", "dropmalformed").table(table).select("k", "_offset")
    target = Target(spark, tmp_path)
    target.take(rows.where("k > 0").select("k", "_offset"))
    expected = spark.sql(f"SELECT k, _offset FROM {table}").collect()
    assert sorted((row["k"], row["_offset"]) for row in target.rows()) == sorted(map(tuple, expected))


def test_names_of_other_catalogs_are_theirs(spark: SparkSession, scope: str) -> None:
    """Statements that an older Spark lacks are refused for Pravega's names alone, even in its namespace."""
    spark.sql(f"USE pravega.`{scope}`")
    try:
        spark.sql("CREATE VIEW spark_catalog.default.of_others AS SELECT 1 AS x")
        assert spark.table("spark_catalog.default.of_others").collect() == [(1,)]
        spark.sql("DROP VIEW spark_catalog.default.of_others")
        with pytest.raises(PySparkException) as missing:
            spark.table("global_temp.nothing").collect()
        assert "There is no namespace" not in str(missing.value)
    finally:
        spark.sql("USE spark_catalog.default")
