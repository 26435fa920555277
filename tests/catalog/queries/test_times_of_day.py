"""Columns of type TIME: values come back exactly, Spark computes with them, sessions without the type refuse them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidRowError
from tests.catalog.streaming.changes_streams import Target
from tests.catalog.tables.test_debezium import create_stream
from tests.catalog.tables.test_debezium import write as write_changes
from tests.catalog.tables.test_json_of_others import write
from tests.debezium import Record
from tests.formats.changes.test_debezium_encodings import envelope

ENABLED = "spark.sql.timeType.enabled"
COLUMNS = "id INT, s TIME(0), m TIME(3), u TIME(6)"
NESTED = "a ARRAY<TIME(6)>, k MAP<STRING, TIME(3)>, r STRUCT<t: TIME(1)>"
VALUES = """
    (1, TIME'00:00:00', TIME'00:00:00', TIME'00:00:00'), (2, TIME'23:59:59', TIME'23:59:59.999', TIME'23:59:59.999999'),
    (3, TIME'12:34:56', TIME'12:34:56.789', TIME'12:34:56.789012'), (4, NULL, NULL, NULL),
    (5, TIME'12:34:56', TIME'12:34:56.789', TIME'00:00:00.000001')
"""
FORMATS = ("avro", "json", "csv")


@pytest.fixture(autouse=True)
def _enabled(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(ENABLED, "true")
    yield
    spark.conf.unset(ENABLED)


@pytest.fixture(params=FORMATS)
def table(spark: SparkSession, scope: str, request: pytest.FixtureRequest) -> str:
    """A table of three precisions with the VALUES, in each format; beside it a view with the same rows."""
    name = f"pravega.`{scope}`.clock"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING pravega TBLPROPERTIES ('format'='{request.param}')")
    rows = f"SELECT id, CAST(s AS TIME(0)) s, CAST(m AS TIME(3)) m, u FROM VALUES {VALUES} t(id, s, m, u)"
    spark.sql(f"INSERT INTO {name} {rows}")
    spark.sql(rows).createOrReplaceTempView("times_of_spark")
    return name


QUERIES = [
    "SELECT * FROM {0} ORDER BY id",
    "SELECT id FROM {0} WHERE u = TIME'12:34:56.789012'",
    "SELECT id FROM {0} WHERE u IN (TIME'00:00:00', TIME'00:00:00.000001') ORDER BY id",
    "SELECT id FROM {0} WHERE u IS NULL",
    "SELECT min(s), max(m), min(u), max(u), count(u), count(DISTINCT m) FROM {0}",
    "SELECT m, count(*), min(u) FROM {0} GROUP BY m ORDER BY m NULLS LAST",
    "SELECT u FROM {0} ORDER BY u DESC NULLS LAST LIMIT 2",
    "SELECT id, hour(u), minute(m), second(s), CAST(u AS STRING), u - TIME'00:00:00' FROM {0} ORDER BY id",
    "SELECT a.id, b.id FROM {0} a JOIN {0} b ON a.m = b.m AND a.id < b.id",
]
OF_SEVERAL_PRECISIONS = [
    "SELECT id FROM {0} WHERE m > TIME'12:34:56.788' AND s <= TIME'12:34:56' ORDER BY id",
    "SELECT id FROM {0} WHERE m <=> NULL OR s < TIME'00:00:01' ORDER BY id",
]


def test_spark_computes_with_what_was_written(spark: SparkSession, table: str) -> None:
    assert spark.table(table).dtypes == spark.table("times_of_spark").dtypes
    for query in QUERIES:
        found, wanted = (spark.sql(query.format(name)).collect() for name in (table, "times_of_spark"))
        assert found == wanted and found, query
    first = spark.sql(f"SELECT u FROM {table} WHERE id = 3").collect()
    assert first[0].u == time(12, 34, 56, 789012)


def test_times_of_several_precisions_are_compared(spark: SparkSession, table: str) -> None:
    for query in OF_SEVERAL_PRECISIONS:
        found, wanted = (spark.sql(query.format(name)).collect() for name in (table, "times_of_spark"))
        assert found == wanted and found, query


@pytest.mark.parametrize("format", ["avro", "json"])
def test_nested_added_and_not_null(spark: SparkSession, scope: str, format: str) -> None:
    table = f"pravega.`{scope}`.nested"
    spark.sql(f"CREATE TABLE {table} (t TIME(2) NOT NULL, {NESTED}) USING pravega TBLPROPERTIES ('format'='{format}')")
    one = [f"CAST('01:02:03.1' AS TIME({digits}))" for digits in (2, 6, 3, 1)]
    values = f"{one[0]}, array({one[1]}, NULL), map('x', {one[2]}, 'y', NULL), named_struct('t', {one[3]})"
    spark.sql(f"INSERT INTO {table} VALUES ({values})")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more TIME(6)")
    wanted = time(1, 2, 3, 100000)
    row = spark.table(table).first()
    assert (row.t, row.a, row.k, row.r.t, row.more) == (wanted, [wanted, None], {"x": wanted, "y": None}, wanted, None)
    assert spark.table(table).schema["t"].nullable is False
    shown = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "t TIME(2) NOT NULL" in shown and "a ARRAY<TIME(6)>" in shown


@pytest.mark.parametrize("format", ["avro", "json"])
def test_more_digits_than_six(spark: SparkSession, scope: str, format: str) -> None:
    table = f"pravega.`{scope}`.fine"
    spark.sql(f"CREATE TABLE {table} (t TIME(6)) USING pravega TBLPROPERTIES ('format'='{format}')")
    for digits in (7, 9):
        with pytest.raises(PySparkException, match=r"(?s)PRAVEGA_UNSUPPORTED_TYPE.*'z'.*at most 6 digits"):
            spark.sql(f"ALTER TABLE {table} ADD COLUMN z TIME({digits})")


@pytest.mark.parametrize(("format", "written"), [("avro", 30_600_000), ("json", "08:30:00.000")])
def test_defaults(spark: SparkSession, pravega: Pravega, scope: str, format: str, written: Any) -> None:
    """Events from before the column have the default too, which the schema has for other programs."""
    table = f"pravega.`{scope}`.due"
    spark.sql(f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ('format'='{format}')")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN at TIME(3) DEFAULT CAST('08:30' AS TIME(3))")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN to TIME(6) DEFAULT TIME'17:00:00.000001'")
    spark.sql(f"INSERT INTO {table} (id) VALUES (2)")
    spark.sql(f"INSERT INTO {table} (id, at) VALUES (3, CAST('09:00' AS TIME(3)))")
    usual, late = time(8, 30), time(17, 0, 0, 1)
    rows = spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()
    assert rows == [(1, usual, late), (2, usual, late), (3, time(9), late)]
    text = spark.sql(f"SELECT schema FROM pravega.`{scope}`.due.schemas ORDER BY version DESC").first()[0]
    schema = json.loads(text)
    fields = {field["name"]: field for field in schema["fields"]} if format == "avro" else schema["properties"]
    assert fields["at"]["default"] == written
    # Spark casts a default to the type of its column.
    spark.sql(f"ALTER TABLE {table} ADD COLUMN coarse TIME(0) DEFAULT TIME'12:00:00.5'")
    spark.sql(f"INSERT INTO {table} (id) VALUES (4)")
    assert {row.coarse for row in spark.sql(f"SELECT coarse FROM {table}").collect()} == {time(12)}


def test_streams_and_python(
    spark: SparkSession, scope: str, table: str, client_config: ClientConfig, tmp_path: Path
) -> None:
    copy = f"pravega.`{scope}`.copy"
    spark.sql(f"CREATE TABLE {copy} LIKE {table}")
    query = (
        spark.readStream.table(table)
        .where("u >= TIME'00:00:00.000001'")
        .writeStream.option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .toTable(copy)
    )
    query.awaitTermination()
    assert spark.sql(f"SELECT id FROM {copy} ORDER BY id").collect() == [(2,), (3,), (5,)]
    uris = {"controller_uri": client_config.controller_uri, "schema_registry_uri": client_config.registry_uri}
    with catalog.connect(**uris) as pravega:
        api = pravega.load_table(f"{scope}.copy")
        rows = api.scan(["id", "s", "m", "u"]).to_arrow().sort_by("id")
        assert rows["u"].cast(pa.time64("us"))[1].as_py() == time(12, 34, 56, 789012)
        api.append(rows.slice(0, 1))
        micros = pa.table({"id": [9], "s": pa.array([time(1)], pa.time64("us")), "m": [None], "u": [None]})
        api.append(micros)
        wrong = pa.table({"id": [9], "s": pa.array([time(1, 0, 0, 1)], pa.time64("us")), "m": [None], "u": [None]})
        with pytest.raises(InvalidRowError, match=r"column 's' is a time of day with more digits than TIME\(0\)"):
            api.append(wrong)
    assert spark.sql(f"SELECT s, count(*) FROM {copy} GROUP BY s ORDER BY s").collect() == [
        (time(1), 1),
        (time(12, 34, 56), 2),
        (time(23, 59, 59), 2),
    ]


def test_events_that_hold_no_time_of_day_are_bad(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = f"pravega.`{scope}`.bag"
    spark.sql(f"CREATE TABLE {table} (id INT, t TIME(3)) USING pravega TBLPROPERTIES ('format'='json')")
    spark.sql(f"INSERT INTO {table} VALUES (0, CAST('00:00' AS TIME(3)))")
    header = bytes(spark.sql(f"SELECT _raw FROM {table}").first()[0])[:5]
    texts = [
        '"24:00:00"',
        '"12:00:00.0001"',
        '"-01:00:00"',
        '"12:00:00Z"',
        "43200000",
        '"12:00"',
        '"12:00:00.500000000"',
    ]
    events = [header + b'{"id":%d,"t":%b}' % (number, text.encode()) for number, text in enumerate(texts, 1)]
    write(spark, pravega, scope, "bag", *events)
    rows = spark.sql(f"SELECT id, t, _error FROM {table} WITH ('mode'='permissive')").collect()
    assert sorted(row[:2] for row in rows if row._error is None) == [
        (0, time(0)),
        (6, time(12)),
        (7, time(12, 0, 0, 500000)),
    ]
    assert len(rows) == 8 and all(row._error.startswith("column 't': ") for row in rows if row._error)


def test_tables_of_changes(spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    stream = Stream(scope, "shifts")
    create_stream(pravega, stream, 1)
    micro = {"type": "int64", "name": "io.debezium.time.MicroTime"}
    fields = [("id", {"type": "int32"}), ("begins", micro), ("ends", {"type": "string"})]

    def change(operation: str, before: Any, after: Any) -> Record:
        rows = [
            None if row is None else dict(zip(("id", "begins", "ends"), row, strict=True)) for row in (before, after)
        ]
        payload = {"before": rows[0], "after": rows[1], "op": operation, "ts_ms": 1}
        return Record("1", envelope(payload, fields))

    six, seven = (1, 21_600_000_000, "13:59:59.999"), (1, 25_200_000_000, "14:30")
    write_changes(pravega, stream, [change("c", None, six), change("u", six, seven), change("c", None, (2, 1, None))])
    table = f"pravega.`{scope}`.shifts"
    columns = "id INT, begins TIME(6), ends TIME(3)"
    spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    spark.sql(f"INSERT INTO {table} VALUES (3, TIME'23:59:59.999999', CAST('01:00' AS TIME(3)))")
    query = f"SELECT id, begins, ends FROM {table} WHERE begins > TIME'00:00:00' ORDER BY id"
    assert spark.sql(query).collect() == [
        (1, time(7), time(14, 30)),
        (2, time(0, 0, 0, 1), None),
        (3, time(23, 59, 59, 999_999), time(1)),
    ]
    log = spark.sql(f"SELECT op, after.begins, before.ends FROM pravega.`{scope}`.`shifts$changelog`").collect()
    assert Counter(map(tuple, log)) == {
        ("c", time(6), None): 1,
        ("u", time(7), time(13, 59, 59, 999_000)): 1,
        ("c", time(0, 0, 0, 1), None): 1,
        ("c", time(23, 59, 59, 999_999), None): 1,
    }
    target = Target(spark, tmp_path)
    target.take(spark.readStream.changes(table).selectExpr("id", "CAST(begins AS STRING) AS begins", "_change_type"))
    write_changes(pravega, stream, [change("d", seven, None), change("c", None, (4, 86_400_000_000, None))])
    with pytest.raises(PySparkException, match="the number 86400000000 is not a time of day"):
        spark.sql(query).collect()
    rows = spark.sql(f"SELECT id FROM {table} WITH ('mode'='dropmalformed') ORDER BY id").collect()
    assert rows == [(2,), (3,)]
    assert {(row["id"], row["begins"]) for row in target.rows()} == {
        (1, "07:00:00"),  # the INSERT's version holds all events before it, and the last change of each row
        (2, "00:00:00.000001"),
        (3, "23:59:59.999999"),
    }


def test_sessions_without_the_type_refuse_it(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.off"
    create = f"CREATE TABLE {table} (id INT, t TIME(3)) USING pravega TBLPROPERTIES ('format'='json')"
    spark.sql(create)
    spark.sql(f"INSERT INTO {table} VALUES (1, CAST('01:00' AS TIME(3)))")
    spark.conf.set(ENABLED, "false")
    for statement in (
        create.replace(".off", ".other"),
        f"ALTER TABLE {table} ADD COLUMN u TIME(6)",
        f"CREATE TABLE pravega.`{scope}`.other USING pravega AS SELECT array(TIME'01:00:00') AS x",
    ):
        with pytest.raises(PySparkException, match="UNSUPPORTED_TIME_TYPE"):  # Spark's own word for what it parses
            spark.sql(statement).collect()
    for statement in (f"SELECT id FROM {table}", f"INSERT INTO {table} (id) VALUES (2)"):
        with pytest.raises(PySparkException) as caught:
            spark.sql(statement).collect()
        assert caught.value.getCondition() == "PRAVEGA_UNSUPPORTED_OPERATION", statement
        assert "A column of type TIME is not possible on pravega." in str(caught.value)
        assert "SET spark.sql.timeType.enabled = true" in str(caught.value)
    assert spark.sql(f"DESCRIBE TABLE {table}").collect()[1][1] == "time(3)"
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect()] == ["off"]
    spark.sql(f"DROP TABLE {table}")
