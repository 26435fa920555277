"""Scans to Arrow: the rows that Spark finds, of every kind of table, with columns, filters, limits and bounds."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog.metadata.tables_of_streams import TABLES
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    InvalidSchemaError,
    MalformedEventError,
    UnsupportedOperationError,
)
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

COLUMNS = (
    "id INT, small SMALLINT, big BIGINT, real FLOAT, ratio DOUBLE, price DECIMAL(12,3), text STRING, data BINARY, "
    "day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, yes BOOLEAN"
)
VALUES = (
    "CAST(id AS INT), CAST(id % 100 AS SMALLINT), id * 10000000000, CAST(id / 3 AS FLOAT), "
    "IF(id % 7 = 0, NULL, id / 7), CAST(id / 8 AS DECIMAL(12,3)), IF(id % 5 = 0, NULL, concat('größe ', id)), "
    "CAST(concat('b', id) AS BINARY), date_add(DATE'1969-12-01', CAST(id AS INT)), "
    "timestamp_seconds(id * 1000 + 0.25), "
    "TIMESTAMP_NTZ'2024-02-29 12:00:00' + make_interval(0, 0, 0, 0, 0, 0, id), id % 2 = 0"
)
NESTED = ", array(id, NULL) AS list, map('k', id) AS pairs, named_struct('a', id, 'b', array('x')) AS parts"
FORMATS: dict[str, tuple[str, str, str]] = {
    "avro": (COLUMNS + ", list ARRAY<BIGINT>, pairs MAP<STRING, BIGINT>, parts STRUCT<a: BIGINT, b: ARRAY<STRING>>",
             VALUES + NESTED, "'format'='avro', 'scaling.min-segments'='3', 'routing-key'='id'"),
    "avro-gzip": (COLUMNS, VALUES, "'format'='avro', 'codec'='gzip'"),
    "json": (COLUMNS + ", list ARRAY<BIGINT>, pairs MAP<STRING, BIGINT>, parts STRUCT<a: BIGINT, b: ARRAY<STRING>>",
             VALUES + NESTED, "'format'='json', 'scaling.min-segments'='2'"),
    "json-plain": (COLUMNS, VALUES, "'format'='json', 'framing'='none'"),
    "csv": (COLUMNS, VALUES, "'format'='csv'"),
    "text": ("", "concat('line ', id)", "'format'='text'"),
    "raw": ("", "CAST(concat('bytes ', id) AS BINARY)", "'format'='raw'"),
    "debezium-json": ("id INT, text STRING, price DECIMAL(12,3), at TIMESTAMP",
                      "CAST(id % 300 AS INT), concat('v', id), CAST(id AS DECIMAL(12,3)), timestamp_seconds(id)",
                      "'format'='debezium-json', 'primary-key'='id', 'scaling.min-segments'='2'"),
}  # fmt: skip


def make(spark: SparkSession, scope: str, name: str, form: str, rows: int = 500) -> str:
    """A table of a format with rows, and a second INSERT; its name in SQL."""
    columns, values, properties = FORMATS[form]
    shown = f"pravega.`{scope}`.`{name}`"
    declared = f"({columns})" if columns else ""
    spark.sql(f"CREATE TABLE {shown} {declared} USING pravega TBLPROPERTIES ({properties})")
    for first in (0, rows):
        spark.sql(f"INSERT INTO {shown} SELECT {values} FROM range({first}, {first + rows})")
    return shown


def ordered(rows: pa.Table) -> list[str]:
    """The rows as texts that tell them apart, NaN among them, in an order."""
    return sorted(repr(row) for row in rows.to_pylist())


@pytest.mark.parametrize("form", FORMATS)
def test_rows_are_those_that_spark_finds(spark: SparkSession, api: PravegaCatalog, scope: str, form: str) -> None:
    shown = make(spark, scope, form, form)
    table = api.load_table(shown)
    found = table.scan().to_arrow()
    wanted = spark.table(shown).toArrow()
    assert found.schema.names == wanted.schema.names
    assert [found.schema.field(name).type for name in found.schema.names] == [field.type for field in wanted.schema]
    assert ordered(found) == ordered(wanted) and found.num_rows == (300 if "debezium" in form else 1000)
    assert ordered(table.scan().to_batches(threads=1).read_all()) == ordered(wanted)
    assert table.scan().count() == found.num_rows
    # Hidden columns, in any order among the others.
    some = ["_offset", table.schema.names[0], "_segment"]
    assert ordered(table.scan(some).to_arrow()) == ordered(spark.table(shown).select(*some).toArrow())


@pytest.fixture(scope="module")
def sensor(spark: SparkSession, api: PravegaCatalog) -> Any:
    """A table of 3 segments with 2 versions, for questions that change nothing."""
    scope = "scans-of-python"
    api.create_namespace(scope)
    yield api.load_table(make(spark, scope, "sensor", "avro", 2000))
    api.drop_namespace(f"`{scope}`", cascade=True)


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        (pc.field("id") > 1500, "id > 1500"),
        (pc.field("text").is_null(), "text IS NULL"),
        (pc.field("ratio") > 10, "ratio > 10"),
        (pc.field("text").isin(["größe 1", "größe 2"]), "text IN ('größe 1', 'größe 2')"),
        ((pc.field("yes") & (pc.field("id") < 100)) | (pc.field("small") == 7), "(yes AND id < 100) OR small = 7"),
        (pc.field("at") < datetime(1970, 1, 2, tzinfo=UTC), "at < TIMESTAMP'1970-01-02 00:00:00'"),
        (pc.field("parts", "a") == 12, "parts.a = 12"),
        (pc.starts_with(pc.field("text"), "größe 19"), "text LIKE 'größe 19%'"),
        (pc.field("_offset") == 0, "_offset = 0"),
        (pc.field("id") < 0, "id < 0"),
        # Of types that Substrait does not have.
        (pc.field("text").isin(pa.array(["größe 1", "größe 2"], pa.large_string())), "text IN ('größe 1', 'größe 2')"),
        (pc.field("id").isin(pa.array([7, 9], pa.uint64())), "id IN (7, 9)"),
    ],
    ids=str,
)
def test_filters_keep_the_rows_of_where(
    spark: SparkSession, sensor: Table, condition: pc.Expression, where: str
) -> None:
    wanted = spark.sql(f"SELECT id, text FROM {sensor.name} WHERE {where}").toArrow()
    found = sensor.scan(["id", "text"], condition)
    assert found.schema.names == ["id", "text"]
    assert ordered(found.to_arrow()) == ordered(wanted) and found.count() == wanted.num_rows
    assert found.to_arrow().schema == found.schema


def test_filters_on_keys_and_places_read_what_can_have_rows(sensor: Table) -> None:
    every = sensor.scan(["id", "ratio", "_segment", "_offset"]).to_arrow()
    segment, offset = every["_segment"][7].as_py(), every["_offset"][7].as_py()
    id, of_segment = pc.field("id"), pc.field("_segment") == segment
    some = pc.field("ratio") > 10
    for condition, tasks in (
        (id == 77, 1),
        (id.isin([77]) & some, 1),
        ((id == 77) & pc.field("ratio").is_valid(), 1),
        (of_segment & (pc.field("_offset") <= offset), 1),
        (of_segment & pc.starts_with(pc.field("_segment"), "scans"), 1),
        (~of_segment, 2),
        ((id == -5) & (pc.field("_offset") < 0), 0),
        ((id == 77) | some, 3),
        ((id + 0 == 77) & (pc.field("_offset") >= 0), 3),
        (id.isin([77, None]), 3),
    ):
        found = sensor.scan(["id", "ratio", "_segment", "_offset"], condition)
        assert ordered(found.to_arrow()) == ordered(every.filter(condition)), condition
        assert len(found.tasks()) == tasks, condition
    off = {"push-down-filters": "false", "push-down-routing-key": "false"}
    assert len(sensor.scan(["id"], (id == 77) & of_segment, options=off).tasks()) == 3


def test_changes_are_those_of_sql(spark: SparkSession, api: PravegaCatalog, scope: str, sensor: Table) -> None:
    rows = api.load_table(make(spark, scope, "accounts", "debezium-json"))
    first, second = sensor.history()
    for table, bounds, words in (
        (sensor, {}, "FROM VERSION 1"),
        (sensor, {"start": 1, "end": 1}, "FROM VERSION 1 TO VERSION 1"),
        (sensor, {"start": second.time}, f"FROM TIMESTAMP '{second.time}'"),
        (rows, {"start": 0}, "FROM VERSION 0"),
    ):
        wanted = spark.sql(f"SELECT * FROM {table.name} CHANGES {words}").toArrow()
        found = table.changes(**bounds)
        assert found.schema.names == wanted.schema.names and wanted.num_rows
        assert ordered(found.to_arrow()) == ordered(wanted) and found.count() == wanted.num_rows
    assert sensor.changes(["id"], pc.field("_commit_version") == 2).count() == 2000
    assert sensor.changes(limit=3).to_arrow()["_change_type"].to_pylist() == ["insert"] * 3
    for given, message in (
        ({"start": 1, "end": first.time}, "a version and a time"),
        ({"start": 1.5}, "'start' is a float"),
        ({"end": datetime(2024, 1, 1)}, "'end' is .*, a time without a zone"),
        ({"start": 4}, "the newest version is 2"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            sensor.changes(**given).to_arrow()  # type: ignore[arg-type]
    with pytest.raises(InvalidSchemaError, match="There is no column _offset"):
        sensor.changes(["_offset"])


def test_metadata_tables_are_those_of_sql(spark: SparkSession, sensor: Table) -> None:
    for name in TABLES:
        wanted = spark.table(f"{sensor.name}.{name}").toArrow()
        found = sensor.inspect(name)
        assert found.schema.names == wanted.schema.names
        assert ordered(found) == ordered(wanted), name
    with pytest.raises(InvalidNameError, match="There is no metadata table nothing. A table has history, segments"):
        sensor.inspect("nothing")


def test_a_limit_is_that_of_the_whole_scan(sensor: Table) -> None:
    for limit in (0, 1, 7, 2500, 4000, 5000):
        assert sensor.scan(limit=limit).count() == min(limit, 4000)
        assert sensor.scan(limit=limit).to_arrow().num_rows == min(limit, 4000)
    some = sensor.scan(["id"], pc.field("yes"), limit=5)
    assert some.to_arrow().equals(some.to_arrow()) and all(each % 2 == 0 for each in some.to_arrow()["id"].to_pylist())
    assert sensor.head(3).num_rows == 3


def test_a_limit_reads_little(pravega: Pravega, api: PravegaCatalog, scope: str) -> None:
    name = f"`{scope}`.events"
    properties = {"format": "json", "framing": "none"}
    table = api.create_table(name, pa.schema([("k", pa.int32())]), properties=properties)
    payloads = [b'{"k":%d}' % number for number in range(20_000)] + [b"?"]
    batch = pa.record_batch([pa.array(payloads, pa.binary())], names=["event"])
    insert(pravega, raw_table(Stream(scope, "events")), batch)
    assert table.head(100)["k"].to_pylist() == list(range(100))
    with pytest.raises(MalformedEventError, match="cannot be decoded"):
        table.scan().to_arrow()


def test_bounds_are_versions_times_and_stream_cuts(spark: SparkSession, sensor: Table) -> None:
    first, second = sensor.history()
    assert (first.rows, second.rows, first.operation) == (2000, 2000, "INSERT")
    half = set(range(2000))
    rows: Callable[..., set[int]] = lambda **given: set(sensor.scan(["id"], **given).to_arrow()["id"].to_pylist())  # noqa: E731
    assert rows(end=1) == rows(end=first.position) == rows(end=first.time) == half
    assert rows(start=2) == rows(start=first.position) == rows(start=second.time) == set(range(2000, 4000))
    assert rows(start=1, end=2) == set(range(4000))
    for point in (1, "1", first.position, first.time):
        assert rows(as_of=point) == half
    with pytest.raises(InvalidOptionError, match="3"):
        sensor.scan(as_of=3)
    with pytest.raises(InvalidOptionError, match="'as_of' is .*, a time without a zone"):
        sensor.scan(as_of=datetime(2024, 1, 1))
    with pytest.raises(InvalidOptionError, match="the newest one is 2, published"):
        sensor.scan(end=3).to_arrow()
    with pytest.raises(InvalidOptionError, match="a time without a zone"):
        sensor.scan(start=datetime(2024, 1, 1))


def test_tasks_are_read_anywhere(sensor: Table) -> None:
    tasks = sensor.scan(["id"], pc.field("id") >= 10).tasks()
    assert len(tasks) == 3
    copies = [pickle.loads(pickle.dumps(task)) for task in tasks]
    found = [number for task in copies for batch in task.to_batches() for number in batch["id"].to_pylist()]
    assert sorted(found) == list(range(10, 4000))


def test_readers_that_are_given_up_leave_no_thread(api: PravegaCatalog, scope: str) -> None:
    """The threads wait, because there are more batches than they read ahead."""
    rows = pa.table({"text": ["x" * 100_000] * 60})
    table = api.create_table(f"`{scope}`.large", rows.schema, properties={"scaling.min-segments": "3"})
    table.append(rows)
    reader = table.scan(options={"read-window": "64k"}).to_batches(threads=3)
    assert reader.read_next_batch().num_rows
    assert any(thread.name == "scan" for thread in threading.enumerate())
    del reader
    assert not any(thread.name == "scan" for thread in threading.enumerate())


def test_other_libraries_take_a_scan_as_it_is(sensor: Table) -> None:
    scan = sensor.scan(["id", "text"])
    assert pa.table(scan).sort_by("id").equals(scan.to_arrow().sort_by("id"))


def test_bad_events_as_options_say(spark: SparkSession, pravega: Pravega, api: PravegaCatalog, scope: str) -> None:
    name = f"`{scope}`.events"
    table = api.create_table(
        name, pa.schema([pa.field("k", pa.int32(), nullable=False)]), properties={"format": "json", "framing": "none"}
    )
    payloads = [b'{"k":1}', b"?", b'{"k":2}', b'{"k":null}']
    insert(pravega, raw_table(Stream(scope, "events")), pa.record_batch([pa.array(payloads, pa.binary())], ["event"]))
    with pytest.raises(MalformedEventError, match=r"offset 15 of segment .*/events/0.#epoch.0"):
        table.scan().to_arrow()
    assert table.scan(options={"mode": "dropmalformed"}).to_arrow()["k"].to_pylist() == [1, 2]
    assert table.scan(options={"mode": "dropmalformed"}).count() == 2
    permissive = table.scan(["k", "_raw", "_error"], options={"mode": "permissive"}).to_arrow()
    assert permissive["k"].to_pylist() == [1, None, 2, None] and permissive["_raw"].to_pylist() == payloads
    assert [error is None for error in permissive["_error"].to_pylist()] == [True, False, True, False]
    table.set_properties({"mode": "dropmalformed"})
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2]
    assert table.scan(options={"dead-letter": "letters"}).to_arrow()["k"].to_pylist() == [1, 2]
    assert api.load_table(f"`{scope}`.letters").scan().count() == 2


def test_mistakes_are_named(sensor: Table) -> None:
    with pytest.raises(InvalidSchemaError, match="There is no column nothing. Its columns are id, small"):
        sensor.scan(["id", "nothing"])
    with pytest.raises(InvalidSchemaError, match="name one column or more"):
        sensor.scan("id")
    with pytest.raises(InvalidOptionError, match="'limit' is -1"):
        sensor.scan(limit=-1)
    with pytest.raises(InvalidOptionError, match="'filter' is a str; give a pyarrow expression"):
        sensor.scan(filter="id > 1")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="does not fit the columns .*: .*nothing"):
        sensor.scan(filter=pc.field("nothing") > 1)
    with pytest.raises(InvalidOptionError, match="no read option 'mod' .* Did you mean 'mode'"):
        sensor.scan(options={"mod": "permissive"})


def test_rows_that_change_are_those_of_now(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    shown = make(spark, scope, "accounts", "debezium-json")
    table = api.load_table(shown)
    wanted = [row.asDict() for row in spark.sql(f"SELECT text FROM {shown} WHERE id = 7").collect()]
    assert table.scan(["text"], pc.field("id") == 7).to_arrow().to_pylist() == wanted
    assert api.load_table(f"`{scope}`.`accounts$changelog`").scan().count() == 1000
    with pytest.raises(UnsupportedOperationError, match=r"load the table `accounts\$changelog`"):
        table.follow()
