"""A table whose old events are in a lake: every read has each event once, wherever it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import spark_partition_id

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from tests import tutorial
from tests.catalog.creation.test_tables_of_others import append
from tests.catalog.lake.conftest import CATALOG
from tests.catalog.queries.test_bad_event_modes import metrics_in_the_ui
from tests.catalog.tables.test_debezium import write
from tests.debezium import Record
from tests.recipes import run_sql
from tests.tutorial import steps_of


@pytest.fixture
def table(spark: SparkSession, lake: dict[str, str], scope: str) -> str:
    """A table of two segments with a lake and three versions of 100 rows."""
    return create(spark, scope, "t")


def name_table(scope: str, name: str, catalog: str = CATALOG) -> str:
    return f"{catalog}.{scope.replace('-', '_')}.{name}"


def split_name(table: str) -> tuple[str, str]:
    """Return the catalog of a table, and its name there."""
    catalog, _, name = table.partition(".")
    return catalog, name


def create(spark: SparkSession, scope: str, name: str, catalog: str = CATALOG, **more: str) -> str:
    table = name_table(scope, name, catalog)
    properties = {
        "format": "avro",
        "routing-key": "id",
        "scaling.min-segments": "2",
        "lake": split_name(table)[1],
    } | more
    listed = ", ".join(f"'{key}'='{text}'" for key, text in properties.items())
    spark.sql(f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega TBLPROPERTIES ({listed})")
    for first in (0, 100, 200):
        insert(spark, table, first, 100)
    return table


def insert(spark: SparkSession, table: str, first: int, count: int, text: str = "'r' || id") -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, {text} FROM range({first}, {first + count})")


def tier(spark: SparkSession, table: str, **arguments: Any) -> Row:
    more = "".join(f", {name} => '{value}'" for name, value in arguments.items())
    catalog, name = split_name(table)
    [row] = spark.sql(f"CALL {catalog}.system.tier(table => '{name}'{more})").collect()
    return row


def truncate(spark: SparkSession, table: str, before: int | str) -> None:
    catalog, name = split_name(table)
    spark.sql(f"CALL {catalog}.system.truncate_stream(table => '{name}', before => '{before}')").collect()


def ids(rows: DataFrame) -> list[int]:
    return sorted(row[0] for row in rows.select("id").collect())


def read_stream(spark: SparkSession, table: str, checkpoint: Path, **options: Any) -> list[list[int]]:
    """Run a streaming query to the present end; return the ids of each micro-batch, in the order of its rows."""
    batches: list[list[int]] = []
    rows = spark.readStream.options(**options).table(table)
    query = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.foreachBatch(lambda batch, _: batches.append([row.id for row in batch.collect()])).start().awaitTermination()
    return batches


def flatten(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def load_lake(lake: dict[str, str], table: str) -> Table:
    return load_catalog("lake", **lake).load_table(split_name(table)[1])


def count_bytes(spark: SparkSession, table: str, columns: str, lake: str) -> str | None:
    """Read some columns; return how many bytes of events Spark's UI shows for that."""
    spark.sql(f"SELECT {columns} FROM {table} WITH ('lake'='{lake}')").collect()
    return metrics_in_the_ui(spark)["bytes of events read"]


def fails(action: Callable[[], object], condition: str) -> str:
    with pytest.raises(PySparkException) as error:
        action()
    assert error.value.getCondition() == condition, str(error.value)
    return str(error.value)


def test_every_read_has_each_event_once(spark: SparkSession, table: str, tmp_path: Path) -> None:
    done = tier(spark, table)
    assert (done.rows, done.version, done.rows_in_lake, done.truncated) == (300, 3, 300, False)
    for columns in ("text", "text, _offset", "count(text)"):
        assert count_bytes(spark, table, columns, "only") == count_bytes(spark, table, columns, "ignore")
    insert(spark, table, 300, 100)

    def check() -> None:
        assert ids(spark.table(table)) == list(range(400))
        then = spark.sql(f"SELECT committed_at FROM {table}.history WHERE version = 2").first()[0]
        for point in ("VERSION AS OF 2", f"TIMESTAMP AS OF '{then}'"):
            assert ids(spark.sql(f"SELECT id FROM {table} {point}")) == list(range(200))
        changes = spark.sql(f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION 2").collect()
        assert sorted((row.id, row._commit_version) for row in changes) == [(i, i // 100 + 1) for i in range(100, 400)]
        assert spark.sql(f"SELECT count(*), sum(id), max(text) FROM {table}").first()[:] == (400, 79800, "r99")
        assert ids(spark.sql(f"SELECT id FROM {table} WHERE id IN (5, 250, 350) OR text = 'r7'")) == [5, 7, 250, 350]
        assert len(spark.sql(f"SELECT id FROM {table} LIMIT 7").collect()) == 7

    check()
    hidden = f"SELECT id, _segment, _offset, _event_pointer, _commit_version, _commit_timestamp FROM {table}"
    places = {row.id: row[1:] for row in spark.sql(hidden).collect()}
    assert [places[id][3] for id in range(400)] == [id // 100 + 1 for id in range(400)]
    truncate(spark, table, 3)
    check()
    assert {row.id: row[1:] for row in spark.sql(hidden).collect()} == places
    one = f"SELECT id FROM {table} WHERE _segment = '{places[42][0]}' AND _offset = {places[42][1]}"
    assert ids(spark.sql(one)) == [42]
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == list(range(300, 400))
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(300))
    assert tier(spark, table).rows == 100 and tier(spark, table).rows == 0
    check()


def test_a_table_says_what_its_lake_has(spark: SparkSession, lake: dict[str, str], table: str, scope: str) -> None:
    def state() -> Row:
        [row] = spark.table(f"{table}.lake").collect()
        return row

    name = table.removeprefix(f"{CATALOG}.")
    before = state()
    assert before[:-1] == (name, None, None, 0, 0, 0, None, None) and before.bytes_behind > 0
    tier(spark, table)
    after, snapshot = state(), load_lake(lake, table).current_snapshot()
    assert snapshot is not None
    assert (after.version, after.rows, after.snapshot_id, after.bytes_behind) == (3, 300, snapshot.snapshot_id, 0)
    files = load_lake(lake, table).inspect.files().to_pylist()
    assert (after.files, after.bytes) == (len(files), sum(file["file_size_in_bytes"] for file in files))
    assert after.updated_at.timestamp() == snapshot.timestamp_ms / 1000
    described = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Table Properties'").first()
    held = f"version 3, stream_cut {after.stream_cut}, rows 300, files {after.files}, bytes {after.bytes}"
    assert described is not None and f"lake.state=table {name}, {held}" in described.data_type
    [shown] = re.findall(r"updated_at (\S+), bytes_behind 0", described.data_type)
    assert datetime.fromisoformat(shown).timestamp() == snapshot.timestamp_ms / 1000
    assert "lake.state" not in spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    insert(spark, table, 300, 100)
    assert state().bytes_behind > 0 and state()[:-1] == after[:-1]
    truncate(spark, table, after.version)
    assert spark.sql(f"SELECT min(id) FROM {table}").first()[0] == 0
    spark.sql(f"CREATE TABLE {CATALOG}.`{scope}`.other (id BIGINT) USING pravega")
    assert spark.table(f"{CATALOG}.`{scope}`.other.lake").collect() == []


def test_a_stream_reads_history_and_tail_in_order(spark: SparkSession, table: str, tmp_path: Path) -> None:
    tier(spark, table)
    insert(spark, table, 300, 100)
    truncate(spark, table, 3)
    batches = read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": "64"})
    seen = [number for batch in batches for number in batch]
    assert sorted(seen) == list(range(400)) and max(map(len, batches)) <= 64
    place = {row.id: row[1:] for row in spark.sql(f"SELECT id, _segment, _offset FROM {table}").collect()}
    for segment in {segment for segment, _ in place.values()}:
        offsets = [place[number][1] for number in seen if place[number][0] == segment]
        assert offsets == sorted(offsets)
    insert(spark, table, 400, 50)
    tier(spark, table)
    truncate(spark, table, 5)
    assert sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(400, 450))
    third = spark.sql(f"SELECT * FROM {table}.history WHERE version = 3").first()
    second = spark.sql(f"SELECT stream_cut FROM {table}.history WHERE version = 2").first()[0]
    starts = {"version": "3", "stream-cut": second, "timestamp": str(round(third.committed_at.timestamp() * 1000))}
    for name, start in starts.items():
        later = read_stream(spark, table, tmp_path / name, **{f"start-{name}": start, "max-bytes-per-trigger": "1k"})
        assert sorted(flatten(later)) == list(range(200, 450)), name
        assert len(later) > 3 and max(map(len, later)) < 100, name


def test_a_micro_batch_reads_each_segment_in_one_task(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """Otherwise a sink could get the end of a key's events, which the stream has, before those of the lake."""
    insert(spark, table, 300, 600, "repeat('x', 1000)")
    tier(spark, table)
    insert(spark, table, 900, 600, "repeat('x', 1000)")
    tasks: list[tuple[str, int]] = []

    def list_tasks(batch: DataFrame, _: int) -> None:
        tasks.extend(tuple(row) for row in batch.select("_segment", spark_partition_id()).distinct().collect())

    rows = spark.readStream.table(table).select("_segment", "id")
    query = rows.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).foreachBatch(list_tasks).start().awaitTermination()
    segments = {row[0] for row in spark.sql(f"SELECT DISTINCT _segment FROM {table}").collect()}
    assert len(tasks) == len(segments) and {segment for segment, _ in tasks} == segments
    with pytest.raises(PySparkException, match="'lake'='only' is not possible in a streaming query"):
        read_stream(spark, table, tmp_path / "d", lake="only")


def test_what_a_lake_keeps_is_not_truncated(spark: SparkSession, table: str) -> None:
    tier(spark, table)
    insert(spark, table, 300, 10)
    assert spark.sql(f"SELECT count(*) FROM {table} WITH ('lake'='only')").first()[0] == 300
    for statement in (f"TRUNCATE TABLE {table}", f"DELETE FROM {table}"):
        assert "lake" in fails(partial(spark.sql, statement), "PRAVEGA_UNSUPPORTED_OPERATION")
    some = partial(spark.sql, f"DELETE FROM {table} WHERE id = 1")
    assert "empty a table that has no lake" in fails(some, "PRAVEGA_UNSUPPORTED_OPERATION")
    assert "tier" in fails(lambda: truncate(spark, table, "tail"), "PRAVEGA_INVALID_OPTION")
    name = table.removeprefix(f"{CATALOG}.")
    spark.sql(f"CALL {CATALOG}.system.scale_stream(table => '{name}', segments => 3)").collect()
    assert "tier" in fails(lambda: truncate(spark, table, "tail"), "PRAVEGA_INVALID_OPTION")  # all at 0 by now
    truncate(spark, table, 3)
    for change in ("SET TBLPROPERTIES ('lake'='a.b')", "UNSET TBLPROPERTIES ('lake')"):
        alter = f"ALTER TABLE {table} {change}"
        assert f"lake {name} may have them" in fails(partial(spark.sql, alter), "PRAVEGA_UNSUPPORTED_OPERATION")
    assert ids(spark.table(table)) == list(range(310))


def test_a_gap_between_lake_and_stream_is_told(
    spark: SparkSession, pravega: Pravega, table: str, scope: str, tmp_path: Path
) -> None:
    """Another program removes events that the lake does not have yet."""
    tier(spark, table)
    insert(spark, table, 300, 100)
    pravega.controller.truncate_stream(find_end_now(pravega, Stream(scope, "t")).cut)
    insert(spark, table, 400, 10)
    fails(lambda: spark.table(table).collect(), "PRAVEGA_DATA_LOSS")
    fails(lambda: tier(spark, table), "PRAVEGA_DATA_LOSS")
    assert ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF 3")) == list(range(300))
    left = spark.sql(f"SELECT id FROM {table} WITH ('fail-on-data-loss'='false')")
    assert ids(left) == [*range(300), *range(400, 410)]
    more = {"fail-on-data-loss": "false", "max-rows-per-trigger": "70"}
    batches = read_stream(spark, table, tmp_path / "c", **more)
    assert sorted(flatten(batches)) == [*range(300), *range(400, 410)] and len(batches) > 3
    versions = spark.sql(f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION 2 TO VERSION 3").collect()
    assert sorted((row.id, row._commit_version) for row in versions) == [(i, i // 100 + 1) for i in range(100, 300)]


def test_a_gap_in_a_segment_without_events_in_the_lake(
    spark: SparkSession, pravega: Pravega, table: str, scope: str
) -> None:
    name, stream = table.removeprefix(f"{CATALOG}."), Stream(scope, "t")
    spark.sql(f"CALL {CATALOG}.system.scale_stream(table => '{name}', segments => 3)").collect()
    tier(spark, table)
    insert(spark, table, 300, 100)
    pravega.controller.truncate_stream(find_end_now(pravega, stream).cut)
    insert(spark, table, 400, 10)
    fails(lambda: spark.table(table).collect(), "PRAVEGA_DATA_LOSS")


def test_changes_as_a_stream(spark: SparkSession, table: str, tmp_path: Path) -> None:
    tier(spark, table)
    truncate(spark, table, 2)
    insert(spark, table, 300, 10)
    found: list[Row] = []
    changes = spark.readStream.option("max-rows-per-trigger", "90").changes(table).writeStream
    query = changes.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.foreachBatch(lambda batch, _: found.extend(batch.collect())).start().awaitTermination()
    assert sorted((row.id, row._commit_version) for row in found) == [(i, i // 100 + 1) for i in range(310)]


def test_a_restart_in_the_middle_of_the_history(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A micro-batch that failed is read again with the same rows, though they have moved to the lake meanwhile."""
    first: list[list[int]] = []

    def fail_at_second(batch: DataFrame, number: int) -> None:
        first.append(ids(batch))
        if number == 1:
            raise ValueError("stopped on purpose")

    rows = spark.readStream.option("max-rows-per-trigger", "70").table(table)
    query = rows.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="stopped on purpose"):
        query.foreachBatch(fail_at_second).start().awaitTermination()
    tier(spark, table)
    truncate(spark, table, 3)
    again = read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": "70"})
    assert sorted(again[0]) == first[1]
    assert sorted(first[0] + flatten(again)) == list(range(300))


def test_bad_events_stay_bad(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    table = create(spark, scope, "bad", format="json", framing="none")
    stream = Stream(scope, "bad")
    append(pravega, stream, [b'{"id": 1000, "text": "good"}', b"{broken", b'{"id": "x"}'])
    modes = {
        mode: f"SELECT id, text, _error FROM {table} WITH ('mode'='{mode}')" for mode in ("permissive", "dropmalformed")
    }
    before = {mode: sorted(map(str, spark.sql(text).collect())) for mode, text in modes.items()}
    assert tier(spark, table).rows == 303
    for _ in range(2):
        assert {mode: sorted(map(str, spark.sql(text).collect())) for mode, text in modes.items()} == before
        assert "offset" in fails(lambda: spark.table(table).collect(), "PRAVEGA_MALFORMED_EVENT")
        fails(lambda: spark.sql(f"SELECT id FROM {table} WHERE id = 5").collect(), "PRAVEGA_MALFORMED_EVENT")
        truncate(spark, table, "tail")
    raw = [
        row
        for row in load_lake(lake, table).scan(selected_fields=("_raw", "_error")).to_arrow().to_pylist()
        if row["_error"]
    ]
    assert {row["_raw"] for row in raw} == {b"{broken", b'{"id": "x"}'}


def test_columns_are_added(spark: SparkSession, table: str) -> None:
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
    spark.sql(f"INSERT INTO {table} VALUES (1000, 'new', 7)")
    for _ in range(2):
        rows = spark.sql(f"SELECT more, count(*) FROM {table} GROUP BY more ORDER BY more").collect()
        assert [row[:] for row in rows] == [(None, 300), (7, 1)]
        assert ids(spark.sql(f"SELECT id FROM {table} WHERE more = 7")) == [1000]
        tier(spark, table)
        truncate(spark, table, "tail")


def test_fields_are_added_and_columns_keep_their_names(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    table = name_table(scope, "nested")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>) USING pravega "
        f"TBLPROPERTIES ('format'='json', 'lake'='{table.removeprefix('tiered.')}')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, named_struct('a', 1), array(named_struct('a', 2)))")
    tier(spark, table)
    truncate(spark, table, "tail")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (s.b STRING, l.element.b STRING)")
    spark.sql(f"INSERT INTO {table} VALUES (2, named_struct('a', 3, 'b', 'x'), array(named_struct('a', 4, 'b', 'y')))")
    for _ in range(2):
        assert [row[:] for row in spark.sql(f"SELECT s.a, s.b, l[0].a, l[0].b FROM {table} ORDER BY id").collect()] == [
            (1, None, 2, None),
            (3, "x", 4, "y"),
        ]
        tier(spark, table)
        truncate(spark, table, "tail")
    for change in ("RENAME COLUMN s TO t", "ALTER COLUMN s.a TYPE DOUBLE"):
        alter = f"ALTER TABLE {table} {change}"
        assert "lake" in fails(partial(spark.sql, alter), "PRAVEGA_UNSUPPORTED_OPERATION")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN s.a TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} VALUES (3, named_struct('a', 5000000000, 'b', 'z'), array())")
    assert tier(spark, table).rows == 1
    assert spark.sql(f"SELECT sum(s.a) FROM {table}").first()[0] == 5000000004


def test_a_default_that_files_cannot_have_is_refused(spark: SparkSession, table: str) -> None:
    tier(spark, table)
    add = f"ALTER TABLE {table} ADD COLUMN more INT DEFAULT 7"
    assert "default" in fails(lambda: spark.sql(add), "PRAVEGA_UNSUPPORTED_OPERATION")
    [(schema,)] = spark.sql(f"SELECT schema FROM {table}.schemas").collect()
    new = json.loads(schema)
    new["fields"].append({"name": "more", "type": ["int", "null"], "default": 7})
    name = table.removeprefix(f"{CATALOG}.")
    spark.sql(f"CALL {CATALOG}.system.register_schema(table => '{name}', schema => '{json.dumps(new)}')").collect()
    spark.sql(f"REFRESH TABLE {table}")
    assert ids(spark.sql(f"SELECT id FROM {table}")) == list(range(300))
    assert "more" in fails(lambda: spark.table(table).collect(), "PRAVEGA_UNSUPPORTED_OPERATION")
    assert "more" in fails(lambda: tier(spark, table), "PRAVEGA_UNSUPPORTED_OPERATION")
    assert spark.sql(f"SELECT sum(more) FROM {table} WITH ('lake'='ignore')").first()[0] == 2100


TYPES = {
    "TINYINT": "CAST(id % 100 AS TINYINT)",
    "SMALLINT": "CAST(id AS SMALLINT)",
    "INT": "CAST(id AS INT)",
    "FLOAT": "CAST(id / 3 AS FLOAT)",
    "DOUBLE": "id / 3",
    "BOOLEAN": "id % 2 = 0",
    "BINARY": "CAST('b' || id AS BINARY)",
    "DATE": "date_add(DATE '1969-12-01', CAST(id AS INT))",
    "TIMESTAMP": "timestamp_micros(id * 1000003 - 86400000000)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros(id * 1000003) AS TIMESTAMP_NTZ)",
    "DECIMAL(9,2)": "CAST(id / 7 AS DECIMAL(9,2))",
    "DECIMAL(38,18)": "CAST(id / 7 AS DECIMAL(38,18))",
    "VARCHAR(20)": "'v' || id",
    "ARRAY<SMALLINT>": "array(CAST(id AS SMALLINT), NULL)",
    "MAP<STRING, TINYINT>": "map('k', CAST(1 AS TINYINT), 'n', NULL)",
    "STRUCT<a: TINYINT, b: STRUCT<c: DATE, d: ARRAY<STRING>>>": (
        "named_struct('a', CAST(1 AS TINYINT), 'b', named_struct('c', DATE '2020-02-02', 'd', array('x', NULL)))"
    ),
}


@pytest.mark.parametrize("format", ["avro", "json"])
def test_every_type(spark: SparkSession, lake: dict[str, str], scope: str, format: str) -> None:
    columns = [(f"c{number}", type, value) for number, (type, value) in enumerate(TYPES.items())]
    table = name_table(scope, "types")
    listed = ", ".join(f"{name} {type}" for name, type, _ in columns)
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, {listed}) USING pravega "
        f"TBLPROPERTIES ('format'='{format}', 'lake'='{scope}.types')"
    )
    values = ", ".join(f"CASE WHEN id < 20 THEN {value} END" for _, _, value in columns)
    spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(25)")
    before = sorted(map(str, spark.table(table).collect()))
    tier(spark, table)
    truncate(spark, table, "tail")
    assert sorted(map(str, spark.table(table).collect())) == before
    nested = [str(row) for row in spark.sql(f"SELECT id, c15.b.c, c15.a FROM {table} ORDER BY id").collect()]
    assert nested[3] == "Row(id=3, c=datetime.date(2020, 2, 2), a=1)"


def test_a_table_gets_a_lake(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """By ALTER, when it has rows already."""
    table = name_table(scope, "later")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega TBLPROPERTIES ('format'='json')")
    insert(spark, table, 0, 100)
    no_lake = fails(lambda: tier(spark, table), "PRAVEGA_UNSUPPORTED_OPERATION")
    assert "ALTER TABLE ... SET TBLPROPERTIES ('lake'=" in no_lake
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake'='{split_name(table)[1]}', 'lake.partition-by'='hour')")
    assert tier(spark, table).rows == 100
    insert(spark, table, 100, 100)
    truncate(spark, table, 1)
    assert ids(spark.table(table)) == list(range(200))


@pytest.mark.parametrize("data_type", ["VARIANT", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"])
def test_types_that_a_lake_lacks_are_refused(
    spark: SparkSession, lake: dict[str, str], scope: str, data_type: str
) -> None:
    table, has_lake = name_table(scope, "v"), "TBLPROPERTIES ('lake'='a.b')"
    make = f"CREATE TABLE {table} (id BIGINT, part STRUCT<v: {data_type}>) USING pravega OPTIONS ('format'='json')"
    refused = fails(lambda: spark.sql(f"{make} {has_lake}"), "PRAVEGA_UNSUPPORTED_TYPE")
    assert "Column part has" in refused and data_type.partition(" ")[0].lower() in refused.lower()
    if data_type == "VARIANT":  # no format has the others
        spark.sql(make)
        assert fails(lambda: spark.sql(f"ALTER TABLE {table} SET {has_lake}"), "PRAVEGA_UNSUPPORTED_TYPE") == refused


def test_columns_that_a_lake_has_itself_are_refused(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    make = f"CREATE TABLE {name_table(scope, 'v')} (id BIGINT, _commit_timestamp_day INT) USING pravega TBLPROPERTIES "
    assert "for its partitions" in fails(lambda: spark.sql(f"{make}('lake'='a.b')"), "PRAVEGA_INVALID_SCHEMA")


@pytest.mark.parametrize(
    "setting",
    ["'lake'='a.b'", "'lake.keep'='7d'", "'lake.partition-by'='hour'", "'tier.min-bytes'='1m'", "'tier.interval'='1h'"],
)
def test_key_value_tables_have_no_lake(spark: SparkSession, lake: dict[str, str], scope: str, setting: str) -> None:
    make = f"CREATE TABLE {name_table(scope, 'e')} (id BIGINT, text STRING) USING pravega TBLPROPERTIES "
    told = fails(
        lambda: spark.sql(f"{make}('format'='kvtable', 'primary-key'='id', {setting})"), "PRAVEGA_INVALID_OPTION"
    )
    assert f"{setting.partition('=')[0]} does not apply with 'format'='kvtable'" in told


def test_the_programs_of_the_page(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "history-in-a-lake.md"
    programs = page.read_text().replace("pravega.", f"{CATALOG}.").replace("iot.", f"{scope.replace('-', '_')}.")
    for program in steps_of(programs):
        run_sql(spark, program)


def test_the_step_of_the_tutorial(
    spark: SparkSession, lake: dict[str, str], scope: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [step] = filter(tutorial.needs_lake, tutorial.program())
    code = step.code.replace("tutorial", scope.replace("-", "_")).replace("pravega.", f"{CATALOG}.")
    exec(code, {"spark": spark})
    assert capsys.readouterr().out.strip() == step.output.strip()


def test_others_read_the_lake(spark: SparkSession, table: str, lake: dict[str, str]) -> None:
    """Other readers find the same rows: pyiceberg, and DuckDB by it."""
    tier(spark, table)
    rows = (
        load_lake(lake, table).scan(selected_fields=("id", "text", "_segment", "_offset", "_commit_version")).to_arrow()
    )
    ours = spark.sql(f"SELECT id, text, _segment, _offset FROM {table}").collect()
    theirs = {tuple(row[name] for name in ("id", "text", "_segment", "_offset")) for row in rows.to_pylist()}
    assert theirs == {row[:] for row in ours} and len(theirs) == 300
    with load_lake(lake, table).scan().to_duckdb("lake") as duck:
        assert set(duck.sql("SELECT id, text, _segment, _offset FROM lake").fetchall()) == theirs
    assert {row["id"] // 100 + 1 == row["_commit_version"] for row in rows.to_pylist()} == {True}


def test_files_may_be_rewritten_and_rows_may_not(
    spark: SparkSession, table: str, lake: dict[str, str], tmp_path: Path
) -> None:
    tier(spark, table)
    truncate(spark, table, 3)
    iceberg = load_lake(lake, table)
    everything = iceberg.scan().to_arrow()
    iceberg.overwrite(everything.take(pa.array(Random(3).sample(range(300), 300))))  # one file, in another order
    insert(spark, table, 300, 20)
    assert ids(spark.table(table)) == list(range(320))
    batches = read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": "50"})
    place = {row.id: row[1:] for row in spark.sql(f"SELECT id, _segment, _offset FROM {table}").collect()}
    seen = [number for batch in batches for number in batch]
    assert sorted(seen) == list(range(320))
    for segment in {segment for segment, _ in place.values()}:
        offsets = [place[number][1] for number in seen if place[number][0] == segment]
        assert offsets == sorted(offsets)
    assert tier(spark, table).rows == 20
    assert ids(spark.table(table)) == list(range(320))
    load_lake(lake, table).delete("id = 7")
    assert "320 rows" in fails(lambda: spark.table(table).collect(), "PRAVEGA_LAKE_FAILED")
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == list(range(300, 320))


@pytest.mark.parametrize("change", ["renamed", "dropped", "replaced", "place"])
def test_columns_that_others_change(spark: SparkSession, table: str, lake: dict[str, str], change: str) -> None:
    """Without a look at them, a column that a file has under another name would be read as null."""
    tier(spark, table)
    iceberg, column = load_lake(lake, table), "_offset" if change == "place" else "text"
    with iceberg.update_schema() as update:
        if change in ("renamed", "place"):
            update.rename_column(column, "words")
        else:
            update.delete_column(column)
    if change == "replaced":
        with iceberg.update_schema() as update:
            update.add_column(column, StringType())
    for action in (lambda: spark.table(table).collect(), lambda: tier(spark, table)):
        assert f"column {column} " in fails(action, "PRAVEGA_LAKE_FAILED")
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == list(range(300))


def test_columns_that_others_widen(spark: SparkSession, lake: dict[str, str], scope: str, tmp_path: Path) -> None:
    """Rows stay the same, in files from before and after, and in those that others have rewritten."""
    table = name_table(scope, "wide")
    spark.sql(
        f"CREATE TABLE {table} (id INT, f FLOAT, d DECIMAL(9,2), s STRUCT<a: INT>) USING pravega "
        f"TBLPROPERTIES ('format'='avro', 'lake'='{split_name(table)[1]}')"
    )
    rows = "SELECT CAST(id AS INT), CAST(id / 3 AS FLOAT), id / 8, named_struct('a', CAST(id AS INT)) FROM range"
    spark.sql(f"INSERT INTO {table} {rows}(100)")
    tier(spark, table)
    iceberg = load_lake(lake, table)
    with iceberg.update_schema() as update:
        for column, type in (("id", LongType()), ("f", DoubleType()), ("d", DecimalType(18, 2)), ("s.a", LongType())):
            update.update_column(column, type)
    iceberg.overwrite(iceberg.scan().to_arrow())
    spark.sql(f"INSERT INTO {table} {rows}(100, 200)")
    before = sorted(map(str, spark.table(table).collect()))
    assert tier(spark, table).rows == 100
    truncate(spark, table, "tail")
    assert sorted(map(str, spark.table(table).collect())) == before and len(before) == 200
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE id IN (7, 107) OR d = 1 OR s.a = 9")) == [7, 8, 9, 107]
    assert sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(200))


def test_a_lake_of_another_stream_is_refused(spark: SparkSession, table: str, scope: str) -> None:
    tier(spark, table)
    other = create(spark, scope, "other", lake=table.removeprefix(f"{CATALOG}."))
    fails(lambda: spark.table(other).collect(), "PRAVEGA_LAKE_FAILED")
    fails(lambda: tier(spark, other), "PRAVEGA_LAKE_FAILED")
    spark.sql(f"DROP TABLE {table}")
    again = create(spark, scope, "t")
    assert "another stream" in fails(lambda: spark.table(again).collect(), "PRAVEGA_LAKE_FAILED")


def test_a_lake_that_is_lost_is_missed(spark: SparkSession, table: str, lake: dict[str, str]) -> None:
    """Another catalog, as after a slip in its confs, is as if somebody had dropped the table."""
    assert ids(spark.table(table)) == list(range(300))  # nothing is in the lake yet
    tier(spark, table)
    truncate(spark, table, 2)
    load_catalog("lake", **lake).drop_table(split_name(table)[1])
    for action in (lambda: spark.table(table).collect(), lambda: tier(spark, table)):
        assert "has had events in the lake" in fails(action, "PRAVEGA_LAKE_FAILED")
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == list(range(200, 300))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake'='{split_name(table)[1]}_again')")
    assert tier(spark, table).rows == 100
    assert ids(spark.table(table)) == list(range(200, 300))


def test_a_session_without_the_lake_says_so(spark: SparkSession, table: str) -> None:
    elsewhere = "pravega" + table.removeprefix(CATALOG)
    assert "lake.type" in fails(lambda: spark.table(elsewhere).collect(), "PRAVEGA_INVALID_OPTION")
    assert ids(spark.sql(f"SELECT id FROM {elsewhere} WITH ('lake'='ignore')")) == list(range(300))


def test_events_of_other_programs(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    """Events without a version are tiered too, even in a scope without a commit log."""
    table = name_table(scope, "foreign")
    pravega.controller.create_stream(Stream(scope, "foreign"), StreamConfiguration())
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT) USING pravega "
        f"TBLPROPERTIES ('format'='json', 'framing'='none', 'lake'='{scope}.foreign')"
    )
    write(pravega, Stream(scope, "foreign"), [Record("", json.dumps({"id": number}).encode()) for number in range(50)])
    assert tier(spark, table).rows == 50
    assert tier(spark, table).rows == 0
    truncate(spark, table, "tail")
    append(pravega, Stream(scope, "foreign"), [json.dumps({"id": number}).encode() for number in range(50, 70)])
    assert ids(spark.table(table)) == list(range(70))
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 70


def test_the_stream_scales(spark: SparkSession, table: str, scope: str, tmp_path: Path) -> None:
    scale = f"CALL {CATALOG}.system.scale_stream(table => '{table.removeprefix(f'{CATALOG}.')}', segments => {{}})"
    for segments in (3, 4, 2):
        tier(spark, table)
        truncate(spark, table, "tail")
        spark.sql(scale.format(segments)).collect()
        insert(spark, table, 1000 * segments, 30)
    expected = [*range(300), *range(2000, 2030), *range(3000, 3030), *range(4000, 4030)]
    assert ids(spark.table(table)) == expected
    assert sorted(flatten(read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": "40"}))) == expected
    tier(spark, table)
    truncate(spark, table, "tail")
    assert ids(spark.table(table)) == expected
    assert sorted(flatten(read_stream(spark, table, tmp_path / "d", **{"max-rows-per-trigger": "40"}))) == expected


def test_what_the_stream_keeps(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """`lake.keep` removes from the stream what is older, and a consumer holds retention back."""
    table = create(spark, scope, "kept", **{"lake.keep": "0s", "retention.type": "size", "retention.minimum": "1m"})
    assert not tier(spark, table).truncated  # queries that are planned already may read it
    done = tier(spark, table)
    assert (done.truncated, done.held_by) == (True, None)
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == []
    assert ids(spark.table(table)) == list(range(300))
    consumers = spark.sql(f"SELECT consumer, bytes_behind FROM {table}.consumers").collect()
    assert [row[:] for row in consumers] == [("lake-of-kept", 0)]
    insert(spark, table, 300, 10)
    assert tier(spark, table, until=3).rows == 0 and tier(spark, table, until=4).rows == 10
