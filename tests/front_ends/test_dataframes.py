"""What a DataFrame writes: tables that are missing are made, and refusals say what to write in Python."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

APPEND = (
    "DataFrames add rows by df.writeTo('<table>').append(), in place of createOrReplace() and of mode('overwrite') "
    "with saveAsTable."
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "CAST(id AS STRING) AS text")


def refused(error: pytest.ExceptionInfo[AnalysisException]) -> str:
    return re.sub(r" SQLSTATE: \w+$", "", str(error.value).partition("\n\nJVM stacktrace")[0].strip())


@pytest.mark.parametrize("way", ["createOrReplace", "saveAsTable"])
def test_a_missing_table_is_made_and_another_is_not_replaced(
    spark: SparkSession, scope: str, rows: DataFrame, way: str
) -> None:
    def write() -> None:
        if way == "createOrReplace":
            rows.writeTo(f"pravega.`{scope}`.made").using("pravega").createOrReplace()
        else:
            rows.write.format("pravega").mode("overwrite").saveAsTable(f"pravega.`{scope}`.made")

    write()
    assert sorted(row.id for row in spark.table(f"pravega.`{scope}`.made").collect()) == [0, 1, 2]
    with pytest.raises(AnalysisException) as error:
        write()
    assert refused(error) == (
        f"[PRAVEGA_UNSUPPORTED_OPERATION] CREATE OR REPLACE TABLE is not possible on pravega.`{scope}`.made: a "
        f"stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first. {APPEND}"
    )
    assert spark.table(f"pravega.`{scope}`.made").count() == 3
    with pytest.raises(AnalysisException, match="INSERT OVERWRITE is not possible"):
        rows.write.mode("overwrite").insertInto(f"pravega.`{scope}`.made")


def test_a_query_that_fails_leaves_no_table(spark: SparkSession, scope: str) -> None:
    broken = spark.sql("SELECT CAST(raise_error('broken') AS STRING) AS text")
    with pytest.raises(Exception, match="broken"):
        broken.writeTo(f"pravega.`{scope}`.made").using("pravega").createOrReplace()
    assert not spark.catalog.tableExists(f"pravega.`{scope}`.made")


def test_partitions_are_named_as_python_names_them(scope: str, rows: DataFrame) -> None:
    with pytest.raises(AnalysisException) as error:
        rows.write.format("pravega").partitionBy("id").saveAsTable(f"pravega.`{scope}`.made")
    assert refused(error) == (
        "[PRAVEGA_UNSUPPORTED_OPERATION] PARTITIONED BY, CLUSTERED BY, CLUSTER BY and partitionBy are not possible on "
        f"pravega.`{scope}`.made (id): a stream has a routing key instead. Set the table property 'routing-key', as in "
        "df.writeTo(table).tableProperty('routing-key', '<column>').create()."
    )
    rows.writeTo(f"pravega.`{scope}`.made").tableProperty("routing-key", "id").create()
    shown = rows.sparkSession.sql(f"SHOW TBLPROPERTIES pravega.`{scope}`.made").collect()
    assert ("routing-key", "id") in [tuple(row) for row in shown]


def test_text_among_the_events_of_another_table_is_refused(spark: SparkSession, scope: str) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.avro (id INT) USING pravega TBLPROPERTIES ('format'='avro')")
    written = spark.sql("""SELECT '{"id":1}' AS value""").write.format("pravega").mode("append")
    written = written.option("catalog", "pravega").option("scope", scope).option("stream", "avro")
    with pytest.raises(AnalysisException) as error:
        written.option("format", "text").save()
    assert refused(error) == (
        f"[PRAVEGA_INVALID_OPTION] 'format'='text' is given, but stream {scope}/avro is a table of 'format'='avro', "
        "and each SELECT on it would fail at such an event. Leave 'format' out, to write 'avro'; or add "
        "'framing'='none', if other programs than that table read these events."
    )
    assert spark.table(f"pravega.`{scope}`.avro").count() == 0
    written.option("framing", "none").save()
    texts = spark.read.format("pravega").option("catalog", "pravega").option("scope", scope).option("stream", "avro")
    assert [row.value for row in texts.option("format", "text").load().collect()] == ['{"id":1}']


def test_a_provider_that_is_mistyped(spark: SparkSession, scope: str) -> None:
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"CREATE TABLE pravega.`{scope}`.made (id INT) USING pravga")
    assert refused(error) == (
        f"[PRAVEGA_INVALID_OPTION] Table pravega.`{scope}`.made: There is no provider 'pravga'. Did you mean USING "
        "pravega?"
    )


def test_a_format_in_a_query_says_which_statement_gives_columns(spark: SparkSession, scope: str) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.others USING pravega TBLPROPERTIES ('format'='raw')")
    with pytest.raises(AnalysisException, match=r"gets columns by CREATE TABLE .* TBLPROPERTIES \('format'='json'\)\."):
        spark.sql(f"SELECT * FROM pravega.`{scope}`.others WITH ('format'='json')").collect()
