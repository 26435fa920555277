"""The procedure compact_changes: a table of changes keeps its rows, and loses the changes before them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.catalog.api.catalog import PravegaCatalog
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.writing.automatic_compaction import compact_if_due
from pyspark_pravega.catalog.writing.compaction import measure
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import lies_before
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.scan.planned_scan import EarlierScan, PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest, Search
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.errors import DataLossError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.writing.conftest import Gate
from tests.catalog.writing.test_row_changes import condition, create, deliver_first_row, history, rows


def compact(spark: SparkSession, table: str, *, truncate: bool = True) -> Row:
    name = table.removeprefix("pravega.")
    [done] = spark.sql(
        f"CALL pravega.system.compact_changes(table => '{name}', truncate => {str(truncate).lower()})"
    ).collect()
    return done


def changes(spark: SparkSession, table: str, first: int) -> list[tuple[Any, ...]]:
    found = spark.sql(f"SELECT id, _change_type FROM {table} CHANGES FROM VERSION {first}").collect()
    return sorted(tuple(row) for row in found)


@pytest.mark.parametrize("format", ["debezium-json", pytest.param("debezium-avro", marks=pytest.mark.long)])
def test_rows_stay_and_changes_before_them_go(
    spark: SparkSession, pravega: Pravega, scope: str, format: str, tmp_path: Path
) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", format=format, **{"scaling.min-segments": "3"})
    spark.sql(f"INSERT INTO {table} SELECT id, 'n' || id FROM range(100)")
    for number in range(3):
        spark.sql(f"UPDATE {table} SET name = name || {number} WHERE id % 2 = 0")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 0")
    stream = spark.readStream.changes(table).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    known: list[Row] = []
    query = stream.foreachBatch(lambda batch, _: known.extend(batch.collect())).start()
    try:
        query.processAllAvailable()
        before, seen, feed = rows(spark, table), len(known), changes(spark, table, 1)
        done = compact(spark, table, truncate=False)
        assert (done.rows, done.truncated, done.held_by) == (90, False, None) and done.bytes_after > done.bytes_before
        assert rows(spark, table) == before and history(spark, table)[-1] == ("COMPACT", 90)
        query.processAllAvailable()
        assert len(known) == seen and changes(spark, table, 1) == feed  # it changes no row

        done = compact(spark, table)
        assert (done.rows, done.truncated, done.held_by) == (
            90,
            True,
            None,
        ) and done.bytes_after < done.bytes_before / 3
        assert pravega.controller.head(Stream(scope, "t")).to_text() == done.stream_cut
        assert rows(spark, table) == before
        query.processAllAvailable()
        assert len(known) == seen
        spark.sql(f"UPDATE {table} SET name = 'x' WHERE id = 1")
        spark.sql(f"DELETE FROM {table} WHERE id = 2")
        query.processAllAvailable()
        assert sorted((row.id, row._change_type) for row in known[seen:]) == [
            (1, "update_postimage"),
            (1, "update_preimage"),
            (2, "delete"),
        ]
        with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS"):
            spark.sql(f"SELECT * FROM {table} VERSION AS OF 2").collect()
    finally:
        query.stop()


@pytest.mark.parametrize("segments", [pytest.param("1", marks=pytest.mark.long), "3"])
def test_nothing_is_lost_beside_writers(spark: SparkSession, scope: str, segments: str) -> None:
    """Each writer has its own keys, and knows their rows; the table is compacted as often as it can be."""
    table, keys = create(spark, scope, "t", "id BIGINT, n BIGINT", **{"scaling.min-segments": segments}), 40
    spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM range({4 * keys})")
    ended = threading.Event()

    def write(writer: int) -> dict[int, int]:
        random, model = Random(writer), dict.fromkeys(range(writer * keys, writer * keys + keys), 0)
        for number in range(1, 9):
            some = random.sample(sorted(model), 3)
            ids = ", ".join(map(str, some))
            match random.randrange(3):
                case 0:
                    spark.sql(f"UPDATE {table} SET n = {number} WHERE id IN ({ids})")
                    model |= dict.fromkeys(some, number)
                case 1:
                    spark.sql(f"DELETE FROM {table} WHERE id IN ({ids})")
                    for one in some:
                        del model[one]
                case _:
                    new = 1000 * (writer + 1) + number
                    spark.sql(f"INSERT INTO {table} VALUES ({new}, {number}), ({some[0]}, {number})")
                    model |= {new: number, some[0]: number}
        return model

    def compact_often() -> int:
        count = 0
        while not ended.wait(0.5):
            compact(spark, table, truncate=False)
            count += 1
        return count

    with ThreadPoolExecutor() as threads:
        compactions = threads.submit(compact_often)
        models = [threads.submit(write, writer) for writer in range(3)]
        try:
            written = [model.result() for model in models]
        finally:
            ended.set()
        assert compactions.result() > 0
    expected = {key: n for model in written for key, n in model.items()} | dict.fromkeys(range(3 * keys, 4 * keys), 0)
    assert dict(rows(spark, table)) == expected  # type: ignore[arg-type]
    compact(spark, table)
    assert dict(rows(spark, table)) == expected  # type: ignore[arg-type]


def test_a_statement_does_not_conflict_with_it(spark: SparkSession, scope: str, gate: Gate) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    with ThreadPoolExecutor() as threads:
        statement = threads.submit(spark.sql, f"UPDATE {table} SET name = gate('x') WHERE id = 1")
        gate.wait(statement)
        try:
            assert compact(spark, table, truncate=False).rows == 2
        finally:
            gate.opened.touch()
        statement.result()
    assert rows(spark, table) == [(1, "x"), (2, "b")]
    assert history(spark, table) == [("INSERT", 2), ("COMPACT", 2), ("UPDATE", 1)]


def test_what_was_changed_and_removed_is_a_conflict(spark: SparkSession, scope: str, gate: Gate) -> None:
    """The check of a statement finds no event of the DELETE any more, which must not bring the row back."""
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    with ThreadPoolExecutor() as threads:
        statement = threads.submit(condition, spark, f"UPDATE {table} SET name = gate('x') WHERE id = 1")
        gate.wait(statement)
        try:
            spark.sql(f"DELETE FROM {table}")
            assert compact(spark, table).bytes_after == 0
        finally:
            gate.opened.touch()
        assert "PRAVEGA_CONCURRENT_CHANGE" in statement.result()
    assert rows(spark, table) == []
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 2 AS id, 'b' AS name) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, table) == [(2, "b")]  # an empty table can be written to


def test_positions_that_lie_before_a_cut_in_part(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", **{"scaling.min-segments": "2"})
    spark.sql(f"INSERT INTO {table} SELECT id, 'n' FROM range(50)")
    head, tail = pravega.controller.head(Stream(scope, "t")), find_end_now(pravega, Stream(scope, "t")).cut
    one, two = (replace(tail, positions={**tail.positions, segment: 0}) for segment in tail.positions)
    assert not lies_before(pravega, tail, tail) and not lies_before(pravega, tail, head)
    assert lies_before(pravega, head, tail) and lies_before(pravega, one, two) and lies_before(pravega, two, one)
    spark.sql(f"CALL pravega.system.scale_stream(table => '`{scope}`.t', segments => 3)")
    scaled = find_end_now(pravega, Stream(scope, "t")).cut
    assert lies_before(pravega, one, scaled) and not lies_before(pravega, scaled, one)


def test_a_table_compacts_itself(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", **{"compact.after": "64k"})
    spark.sql(f"INSERT INTO {table} SELECT id, 'n' FROM range(100)")
    compacted, statements, length = 0, 0, 0
    while compacted < 3:
        assert statements < 200
        statements += 1
        spark.sql(f"UPDATE {table} SET name = '{statements}'")
        compacted = [operation for operation, _ in history(spark, table)].count("COMPACT")
        [length] = [row.bytes for row in spark.sql(f"SELECT sum(bytes) AS bytes FROM {table}.segments").collect()]
    assert rows(spark, table) == [(id, str(statements)) for id in range(100)]
    assert pravega.controller.head(Stream(scope, "t")).positions[0] > 64 << 10 and length < 300 << 10


def plan(catalog: Catalog, stream: Stream, remembered_in: Path | None = None, **request: Any) -> PlannedScan:
    table = load_table(catalog.pravega, stream).table
    options = {} if remembered_in is None else {"current-rows.remembered-in": str(remembered_in)}
    opened = open_table(catalog.pravega, table, resolve_read(catalog.options, table, options))
    return opened.plan_scan(ScanRequest(table.schema, **request))


def read(planned: PlannedScan) -> list[tuple[Any, ...]]:
    assert planned.whole
    return sorted(tuple(row.values()) for batch in planned.reader.read_all() for row in batch.to_pylist())


@pytest.mark.parametrize("scaled", [False, True])
def test_a_planned_scan_outlives_a_compaction(spark: SparkSession, pravega: Pravega, scope: str, scaled: bool) -> None:
    """The next compaction removes what lies before the last one, where a scan begins."""
    table, stream = create(spark, scope, "t", "id BIGINT, name STRING", **{"compact.after": "1g"}), Stream(scope, "t")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    catalog = Catalog({}, pravega)
    whole = plan(catalog, stream)
    compact_if_due(catalog, stream, 0)
    assert rows(spark, f"{table} VERSION AS OF 1") == [(1, "a"), (2, "b"), (3, "c")]
    if scaled:
        spark.sql(f"CALL pravega.system.scale_stream(table => '`{scope}`.t', segments => 3)")
    spark.sql(f"UPDATE {table} SET name = 'x' WHERE id = 2")
    planned = plan(catalog, stream)
    assert planned.bytes == measure(catalog, stream) - whole.bytes
    compact_if_due(catalog, stream, 0)
    assert read(planned) == read(plan(catalog, stream)) == [(1, "a"), (2, "x")]
    with pytest.raises(DataLossError):
        read(whole)


def test_a_scan_that_is_planned_twice_begins_at_one_compaction(
    spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path
) -> None:
    """Segments without a row since the compaction count, too, when the second plan asks where the first one ended."""
    properties = {"compact.after": "1g", "scaling.min-segments": "3"}
    table, stream = create(spark, scope, "t", "id BIGINT, name STRING", **properties), Stream(scope, "t")
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(30)")
    spark.sql(f"DELETE FROM {table} WHERE id > 0")
    catalog = Catalog({}, pravega)
    compact_if_due(catalog, stream, 0)
    spark.sql(f"UPDATE {table} SET name = 'b'")
    first = plan(catalog, stream, tmp_path, search=Search.of_request(None))
    assert not first.whole, "it asks for the files of remembered rows"
    second = plan(catalog, stream, earlier=EarlierScan(first.tail, first.newest))
    assert (second.bytes, second.tail) == (first.bytes, first.tail) and first.bytes < measure(catalog, stream) / 4
    assert read(second) == rows(spark, table) == [(0, "b")]


def test_consumers_hold_it_back(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", **{"retention.type": "size", "retention.minimum": "1g"})
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    named = f"table => '`{scope}`.t', consumer => 'report'"
    spark.sql(f"CALL pravega.system.create_consumer({named})")
    spark.sql(f"UPDATE {table} SET name = 'b'")
    done = compact(spark, table)
    assert (done.rows, done.truncated, done.held_by) == (1, False, "report")
    spark.sql(f"CALL pravega.system.move_consumer({named}, position => 'tail')")
    assert compact(spark, table).truncated and rows(spark, table) == [(1, "b")]


def test_another_program_that_appends_is_noticed(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(200000)")

    def append(catalog: PravegaCatalog, id: int, name: str) -> None:
        """Append as programs do that know nothing of the commit log."""
        row = pa.table({"id": [id], "name": [name]})
        catalog.load_table(f"{scope}.t").append(row, options={"write-mode": "at-least-once"})

    uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    with connect(**uris) as catalog, ThreadPoolExecutor() as threads:
        append(catalog, 5, "b")
        assert compact(spark, table).rows == 200_000  # it appended before
        statement = threads.submit(condition, spark, f"CALL pravega.system.compact_changes('`{scope}`.t')")
        while not statement.done():
            append(catalog, 6, "c")
    assert "PRAVEGA_CONCURRENT_CHANGE" in statement.result() and "another program appended" in statement.result()
    assert rows(spark, table)[5:7] == [(5, "b"), (6, "c")]


@pytest.mark.parametrize(
    ("properties", "message"),
    [({"primary_key": ""}, "it has no primary key"), ({"format": "maxwell-json"}, "only Maxwell makes")],
)
def test_tables_that_are_not_compacted(
    spark: SparkSession, scope: str, properties: dict[str, str], message: str
) -> None:
    create(spark, scope, "t", "id BIGINT, name STRING", **properties)
    assert message in condition(spark, f"CALL pravega.system.compact_changes('`{scope}`.t')")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.plain (id BIGINT) USING pravega")
    assert "compact_changes is not" in condition(spark, f"CALL pravega.system.compact_changes('`{scope}`.plain')")


def test_rows_of_a_connector_are_not_compacted(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", framing="none")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    deliver_first_row(spark, cluster, scope)
    assert "read from a database's log" in condition(spark, f"CALL pravega.system.compact_changes('`{scope}`.t')")
    assert rows(spark, table) == [(1, "a"), (2, "b")] and history(spark, table) == [("INSERT", 1)] * 2
