"""Routing keys that are put together from columns and texts: `concat(site, '/', sensor)`."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyspark_pravega import catalog
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.datasource.tables.named_columns import RoutingKey
from pyspark_pravega.errors import InvalidOptionError, UnsupportedTypeError
from tests.catalog.queries.test_routing_keys import ids, one_segment, promised, refused, segments

KEY = "concat(site, '/', sensor, '/', day)"
COLUMNS = "id INT, site STRING, sensor BIGINT, day DATE, `a.b` STRING, temp DOUBLE"
ROWS = (
    "CAST(id AS INT) AS id, concat('hall ', id % 5, 'ż') AS site, CAST(id % 3 - 1 AS BIGINT) AS sensor, "
    "date_add(DATE'2026-02-27', CAST(id % 4 AS INT)) AS day, 'x' AS `a.b`, 0.5D AS temp"
)


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.readings"
    key = "SITE || '/' || sensor || '/' || `day`"
    properties = f"'format'='json', 'scaling.min-segments'='8', 'routing-key'=\"{key}\""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING pravega TBLPROPERTIES ({properties})")
    return name


def displaced(spark: SparkSession, table: str) -> int:
    """How many events are not in the segment of the key that Spark computes."""
    return spark.sql(f"SELECT id FROM {table} WHERE _segment <> {table}.segment_of({KEY})").count()


def test_rows_are_where_the_key_that_spark_computes_belongs(
    spark: SparkSession, scope: str, table: str, client_config: ClientConfig, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(300)")
    row = {"id": 300, "site": "hall 0ż", "sensor": -1, "day": date(2026, 2, 27), "a.b": "x", "temp": 1.0}
    uris = {"controller_uri": client_config.controller_uri, "schema_registry_uri": client_config.registry_uri}
    with catalog.connect(**uris) as pravega:
        pravega.load_table(f"{scope}.readings").append(pa.Table.from_pylist([row]))
    copy = f"pravega.`{scope}`.copy"
    spark.sql(f"CREATE TABLE {copy} LIKE {table}")
    query = (
        spark.readStream.table(table)
        .writeStream.option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .toTable(copy)
    )
    query.awaitTermination()
    for written in (table, copy):
        assert spark.table(written).select("_segment").distinct().count() > 3
        assert ids(spark.table(written)) == list(range(301))
        assert displaced(spark, written) == 0
    with pytest.raises(PySparkException, match="promises by 'routing-key.of-all-events'"):
        spark.table(copy).writeTo(table).option("routing-key", "concat(site, '/')").append()
    spark.table(copy).writeTo(table).option("routing-key", KEY.replace("site", "SITE")).append()
    assert displaced(spark, table) == 0


def test_conditions_on_all_columns_choose_segments(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} SELECT {ROWS} FROM range(300)")
    everywhere = spark.read.option("push-down-routing-key", "false").table(table)
    for text in (
        "site = 'hall 1ż' AND sensor = 0 AND day = DATE'2026-02-28'",
        "site = 'hall 1ż' AND sensor IN (0, 1) AND day = DATE'2026-02-28'",
        "site = 'hall 9' AND sensor = 0 AND day = DATE'2026-02-28'",
    ):
        found = spark.table(table).where(text)
        assert ids(found) == ids(everywhere.where(text))
        few = segments(found)
        assert few is not None and few[0] < few[1]
    assert one_segment(spark.table(table).where("site = 'hall 1ż' AND sensor = 0 AND day = DATE'2026-02-28'"))
    for text in ("site = 'hall 1ż' AND sensor = 0", "id = 7"):
        assert segments(spark.table(table).where(text)) is None
        assert ids(spark.table(table).where(text)) == ids(everywhere.where(text))


def test_the_key_is_kept(spark: SparkSession, table: str) -> None:
    assert promised(spark, table) == "true"
    shown = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert KEY in spark.sql(f"SHOW TBLPROPERTIES {table} ('routing-key')").first().value
    spark.sql(f"DROP TABLE {table}")
    spark.sql(shown)
    assert spark.sql(f"SHOW CREATE TABLE {table}").first()[0] == shown
    assert "'routing-key' names 'sensor'" in refused(spark, f"ALTER TABLE {table} DROP COLUMN sensor")
    assert "'routing-key' names 'site'" in refused(spark, f"ALTER TABLE {table} RENAME COLUMN site TO s")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN temp")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'=\"concat('s-', `a.b`)\")")
    assert spark.sql(f"SHOW TBLPROPERTIES {table} ('routing-key')").first().value == "concat('s-', `a.b`)"
    assert promised(spark, table) == "false"


def test_a_row_without_a_key_is_refused(spark: SparkSession, table: str) -> None:
    nothing = (
        f"INSERT INTO {table} SELECT id, site, nullif(sensor, 1), day, `a.b`, temp FROM (SELECT {ROWS} FROM range(9))"
    )
    message = refused(spark, nothing)
    assert "has no value, because column 'sensor' is null in a row" in message and KEY in message
    assert spark.table(table).count() == 0


SCHEMA = (
    StructType()
    .add("site", "string")
    .add("sensor", "integer")
    .add("temp", "double")
    .add("a(b)", "string")
    .add("c`d", "string")
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Site", "site"),
        ("a(b)", "a(b)"),
        ("`a(b)` || sensor", "concat(`a(b)`, sensor)"),
        ("CONCAT ( `c``d` , ' - ' )", "concat(`c``d`, ' - ')"),
        ("site||'/'||SENSOR", "concat(site, '/', sensor)"),
        ("concat(site)", "site"),
        ("UPPER ( Site )", "upper(site)"),
        ("trim(`a(b)`)||LOWER( `c``d` )||sensor", "concat(trim(`a(b)`), lower(`c``d`), sensor)"),
    ],
)
def test_texts_of_keys(text: str, expected: str) -> None:
    key = RoutingKey.of(text, SCHEMA)
    assert str(key) == expected
    assert RoutingKey.of(expected, SCHEMA) == key


@pytest.mark.parametrize(
    "text",
    [
        *("concat()", "concat(site", "site ||", "site + 1", "'it''s' || site", "'a"),
        *("upper('a')", "upper(upper(site))", "upper(site, sensor)", "substring(site, 1, 2)", "upper()", "rand()"),
    ],
)
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="'routing-key'"):
        RoutingKey.of(text, SCHEMA)


def test_numbers_that_have_no_unique_text_are_no_part_of_a_key() -> None:
    with pytest.raises(UnsupportedTypeError, match="has column 'temp', which is a column of type double"):
        RoutingKey.of("concat(site, temp)", SCHEMA)
    with pytest.raises(UnsupportedTypeError, match="takes upper of column 'sensor', which is of type int"):
        RoutingKey.of("concat(site, upper(sensor))", SCHEMA)


CASES = ["Oslo", "oslo ", " OSLO", "straße", "ŉ", "ﬁ", "ΑΣ", "ΑΣ ΑΣ", "İ", "ı", "ǅ", "ᾳ", "\t x\u00a0", "", "😀", "ა"]


def test_functions_give_what_spark_gives(spark: SparkSession, scope: str) -> None:
    key = "concat(upper(site), '/', lower(site), '/', trim(site))"
    table = f"pravega.`{scope}`.cities"
    spark.sql(
        f"CREATE TABLE {table} (id INT, site STRING) USING pravega TBLPROPERTIES "
        f"('format'='json', 'scaling.min-segments'='8', 'routing-key'=\"{key}\")"
    )
    spark.createDataFrame(list(enumerate(CASES)), "id INT, site STRING").writeTo(table).append()
    rows = spark.table(table).selectExpr("site", f"{key} AS key").collect()
    cases = pa.record_batch([pa.array([row.site for row in rows])], names=["site"])
    assert RoutingKey.of(key, StructType().add("site", "string")).texts(cases).to_pylist() == [row.key for row in rows]
    assert sorted(row.site for row in rows) == sorted(CASES)
    assert spark.sql(f"SELECT id FROM {table} WHERE _segment <> {table}.segment_of({key})").count() == 0


def test_conditions_find_rows_by_the_key_that_a_function_gives(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.cities"
    spark.sql(
        f"CREATE TABLE {table} (id INT, site STRING) USING pravega TBLPROPERTIES "
        "('format'='json', 'scaling.min-segments'='8', 'routing-key'='upper(site)')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, concat(if(id % 2 = 0, 'City ', 'CITY '), id div 2) FROM range(60)")
    assert spark.sql(f"SHOW TBLPROPERTIES {table} ('routing-key')").first().value == "upper(site)"
    for number in range(30):
        for pair, text in enumerate(("City", "CITY")):
            chosen = spark.table(table).where(f"site = '{text} {number}'")
            assert ids(chosen) == [2 * number + pair]
    assert one_segment(chosen)
    either = spark.table(table).where("site IN ('City 7', 'CITY 7')")
    assert ids(either) == [14, 15] and one_segment(either)
    assert ids(spark.table(table).where("site = 'city 7'")) == []
    spark.sql(f"INSERT INTO {table} VALUES (60, 'Ɥ'), (61, 'Zürich')")
    for text, number in (("Ɥ", 60), ("Zürich", 61)):
        beyond = spark.table(table).where(f"site = '{text}'")
        assert ids(beyond) == [number] and segments(beyond) is None  # versions of Python know different letters
    assert ids(spark.table(table).where("site = 'City 1' AND site = 'City 2'")) == []
    by_function = spark.table(table).where("upper(site) = 'CITY 7'")
    assert ids(by_function) == [14, 15] and segments(by_function) is None
    assert "'routing-key' names 'site'" in refused(spark, f"ALTER TABLE {table} RENAME COLUMN site TO s")
