"""Lakes of tables of changes: rows fold from the changes in files and from those that follow in the stream."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.states import RowStates
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from tests.catalog.creation.test_tables_of_others import append
from tests.catalog.lake.conftest import CATALOG
from tests.catalog.lake.test_history_in_a_lake import TYPES, fails, load_lake, name_table, split_name, tier
from tests.catalog.tables.test_changes import change
from tests.catalog.tables.test_debezium import write
from tests.catalog.tables.test_remembered_rows import read_bytes
from tests.debezium import Record


@pytest.fixture
def table(spark: SparkSession, lake: dict[str, str], scope: str) -> str:
    """A table of changes with a lake, two segments and four versions, the last one a DELETE."""
    table = create(spark, scope)
    spark.sql(f"UPDATE {table} SET name = 'new' || id WHERE id < 20").collect()
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3").collect()
    return table


def create(spark: SparkSession, scope: str, name: str = "t", **more: str) -> str:
    """Make a table of changes with two versions."""
    table = name_table(scope, name)
    properties = {"format": "debezium-json", "scaling.min-segments": "2", "lake": split_name(table)[1]} | more
    listed = ", ".join(f"'{key}'='{text}'" for key, text in properties.items())
    columns = "id BIGINT PRIMARY KEY, name STRING, size SMALLINT, prices ARRAY<DECIMAL(10,2)>, at TIMESTAMP"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ({listed})")
    insert(spark, table, 0, 60)
    insert(spark, table, 60, 40)
    return table


def insert(spark: SparkSession, table: str, first: int, count: int) -> None:
    values = "id, 'n' || id, id % 7, array(id / 4), TIMESTAMP '2025-01-01' + make_interval(0, 0, 0, 0, 0, 0, id)"
    spark.sql(f"INSERT INTO {table} SELECT {values} FROM range({first}, {first + count})").collect()


def changelog(table: str) -> str:
    scope, name = split_name(table)[1].split(".")
    return f"{CATALOG}.{scope}.`{name}$changelog`"


def in_order(rows: DataFrame) -> list[Row]:
    return sorted(rows.collect(), key=str)


def names(spark: SparkSession, table: str, more: str = "") -> dict[int, str]:
    return {row.id: row.name for row in spark.sql(f"SELECT id, name FROM {table} {more}").collect()}


def read_everything(spark: SparkSession, table: str) -> dict[str, list[Row]]:
    """Return what the first four versions of a table have, by all kinds of reads."""
    reads = {f"as of {version}": f"SELECT * FROM {table} VERSION AS OF {version}" for version in range(1, 5)}
    reads["places"] = f"SELECT id, name, _segment, _offset, _event_pointer FROM {table} VERSION AS OF 4"
    reads["one row"] = f"SELECT * FROM {table} VERSION AS OF 4 WHERE id = 7"
    reads["changes"] = f"SELECT * FROM {table} CHANGES FROM VERSION 1 TO VERSION 4"
    reads["later changes"] = f"SELECT * FROM {table} CHANGES FROM VERSION 3 TO VERSION 4"
    columns = "_segment, _offset, op, before, after, source, ts, position, _commit_version, _raw"
    reads["changelog"] = f"SELECT {columns} FROM {changelog(table)} WHERE _commit_version <= 4"
    return {name: in_order(spark.sql(read)) for name, read in reads.items()}


def apply(changes: Iterable[Row], rows: dict[int, str]) -> None:
    """Change the names of rows as changes say."""
    for row in sorted(changes, key=lambda row: row._commit_version):
        if row._change_type == "delete":
            del rows[row.id]
        elif row._change_type != "update_preimage":
            rows[row.id] = row.name


def remove_tiered(pravega: Pravega, lake: dict[str, str], table: str) -> None:
    """Remove all that a table's lake has from its stream, as retention does."""
    history = json.loads(load_lake(lake, table).properties["pravega.history"])
    pravega.controller.truncate_stream(StreamCut.from_text(history["cut"]))


def scale(spark: SparkSession, table: str, segments: int) -> None:
    name = split_name(table)[1]
    spark.sql(f"CALL {CATALOG}.system.scale_stream(table => '{name}', segments => {segments})").collect()


def test_rows_fold_from_the_lake_and_the_tail(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], table: str
) -> None:
    before = read_everything(spark, table)
    assert tier(spark, table).rows == 130
    assert read_everything(spark, table) == before
    scale(spark, table, 3)
    spark.sql(f"UPDATE {table} SET name = 'newer' WHERE id IN (1, 50)").collect()
    assert read_everything(spark, table) == before
    assert tier(spark, table).rows == 2
    remove_tiered(pravega, lake, table)
    assert read_everything(spark, table) == before
    rows = {row.id: row.name for row in before["as of 4"]} | {1: "newer", 50: "newer"}
    assert names(spark, table) == rows
    assert names(spark, table, "WITH ('lake'='ignore')") == {}
    # All statements find the rows that only the lake has.
    spark.sql(f"UPDATE {table} SET name = 'newest' WHERE name = 'newer'").collect()
    spark.sql(f"DELETE FROM {table} WHERE id BETWEEN 80 AND 85").collect()
    merge = "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'more')"
    spark.sql(f"MERGE INTO {table} t USING (SELECT id FROM range(98, 102)) s ON t.id = s.id {merge}").collect()
    scale(spark, table, 2)
    insert(spark, table, 200, 1)
    rows |= {1: "newest", 50: "newest", 98: "merged", 99: "merged", 100: "more", 101: "more", 200: "n200"}
    rows = {id: name for id, name in rows.items() if id not in range(80, 86)}
    assert names(spark, table) == rows
    history = spark.sql(f"SELECT operation, inserted, updated, deleted FROM {table}.history ORDER BY version").collect()
    assert [row[:] for row in history[5:8]] == [("UPDATE", 0, 2, 0), ("DELETE", 0, 0, 5), ("MERGE", 2, 2, 0)]
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    assert names(spark, table) == rows and read_everything(spark, table) == before
    assert spark.sql(f"SELECT count(*) FROM {changelog(table)} WITH ('lake'='only')").first()[0] == 144


def test_streams_of_changes_begin_and_go_on_in_the_lake(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], table: str, tmp_path: Path
) -> None:
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    insert(spark, table, 100, 5)
    kinds, rows = Counter[str](), dict[int, str]()

    def take(batch: DataFrame, _: int) -> None:
        changes = batch.collect()
        kinds.update(row._change_type for row in changes)
        apply(changes, rows)

    def run(checkpoint: str, **options: Any) -> None:
        changes = spark.readStream.options(**options).changes(table)
        query = changes.writeStream.option("checkpointLocation", str(tmp_path / checkpoint)).foreachBatch(take)
        query.trigger(availableNow=True).start().awaitTermination()

    run("a", **{"max-rows-per-trigger": "40"})
    assert rows == names(spark, table) and kinds["insert"] == 105 and kinds["delete"] == 10
    spark.sql(f"UPDATE {table} SET name = 'late' WHERE id IN (4, 102)").collect()
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    run("a")
    assert rows == names(spark, table)
    # Nobody knows the rows before the next batch any more, so they fold from the lake.
    spark.sql(f"DELETE FROM {table} WHERE id = 102").collect()
    shutil.rmtree(tmp_path / "a" / "sources" / "0" / "rows")
    shutil.rmtree(RowStates().directory)
    run("a")
    assert rows == names(spark, table) and kinds["delete"] == 11
    rows.clear()
    run("b", startingVersion="1")
    assert rows == names(spark, table)


@pytest.mark.parametrize("steps", [8, pytest.param(150, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_random_steps(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, tmp_path: Path, steps: int
) -> None:
    """After each step, a SELECT, AS OF and CHANGES agree with the rows of each version, and now and then a stream."""
    seed = int(os.environ.get("PRAVEGA_SEED", time.time_ns() % 10**6))
    random, table = Random(seed), create(spark, scope)
    versions = [{id: f"n{id}" for id in range(end)} for end in (0, 60, 100)]
    streamed, segments, tiered = dict[int, str](), 2, False

    def stream() -> None:
        changes = spark.readStream.option("max-rows-per-trigger", random.randint(20, 400)).changes(table)
        query = changes.writeStream.foreachBatch(lambda batch, _: apply(batch.collect(), streamed))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()
        assert streamed == versions[-1]

    def step() -> str:
        nonlocal segments, tiered
        kinds = ["insert", "update", "delete", "tier", "tier until", "scale", "stream"]
        kind, rows, number = random.choice([*kinds, "truncate"] if tiered else kinds), dict(versions[-1]), len(versions)
        chosen = random.sample(sorted(rows), min(len(rows), 15))
        listed = ", ".join(map(str, chosen))
        if kind == "insert":
            first, count = random.randint(0, 100), random.randint(1, 40)
            rows |= dict.fromkeys(range(first, first + count), f"i{number}")
            spark.sql(f"INSERT INTO {table} (id, name) SELECT id, 'i{number}' FROM range({first}, {first + count})")
        elif kind == "update" and chosen:
            rows |= dict.fromkeys(chosen, f"u{number}")
            spark.sql(f"UPDATE {table} SET name = 'u{number}' WHERE id IN ({listed})").collect()
        elif kind == "delete" and chosen:
            rows = {id: text for id, text in rows.items() if id not in chosen}
            spark.sql(f"DELETE FROM {table} WHERE id IN ({listed})").collect()
        elif kind.startswith("tier"):
            tier(spark, table, **({"until": random.randint(1, number - 1)} if kind == "tier until" else {}))
            tiered = True
        elif kind == "truncate":
            remove_tiered(pravega, lake, table)
        elif kind == "scale":
            segments = random.choice([count for count in (2, 3, 4) if count != segments])
            scale(spark, table, segments)
        elif kind == "stream":
            stream()
        if rows != versions[-1]:
            versions.append(rows)
        return kind

    def check() -> None:
        assert names(spark, table) == versions[-1]
        version, first = (random.randint(1, len(versions) - 1) for _ in range(2))
        assert names(spark, table, f"VERSION AS OF {version}") == versions[version]
        changes, rows = spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION {first}"), dict(versions[first - 1])
        apply(changes.collect(), rows)
        assert rows == versions[-1]

    done = []
    for _ in range(steps):
        done.append(step())
        print(f"seed {seed}: {done}")
        check()
    stream()


def test_remembered_rows_of_a_lake(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], table: str, tmp_path: Path
) -> None:
    expected = names(spark, table)
    remembered = f"WITH ('current-rows.remembered-in'='{tmp_path.as_uri()}')"
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    assert names(spark, table, remembered) == expected
    every_byte = read_bytes(spark)
    assert names(spark, table, remembered) == expected and read_bytes(spark) == 0
    spark.sql(f"UPDATE {table} SET name = 'x' WHERE id = 5").collect()
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    assert names(spark, table, remembered) == expected | {5: "x"}
    assert 0 < read_bytes(spark) < every_byte // 10, "the newer event, from the lake"
    assert names(spark, table, f"{remembered} WHERE id = 5") == {5: "x"} and read_bytes(spark) == 0
    assert names(spark, table) == expected | {5: "x"} and read_bytes(spark) > every_byte


def test_lake_keep_leaves_all_rows(spark: SparkSession, table: str) -> None:
    rows = names(spark, table)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.keep'='1ms')").collect()
    assert not tier(spark, table).truncated, "the lake has not had these changes for that long"
    insert(spark, table, 300, 1)
    assert tier(spark, table).truncated
    assert names(spark, table, "WITH ('lake'='ignore')").keys() == {300}
    assert names(spark, table) == rows | {300: "n300"}
    [state] = spark.table(f"{table}.lake").collect()
    assert (state.version, state.rows, state.bytes_behind) == (5, 131, 0) and state.files > 2
    assert f"{state.files} files of {state.table}" in spark.sql(f"EXPLAIN SELECT * FROM {table}").first()[0]


def test_other_programs_read_and_rewrite_the_changes(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], table: str
) -> None:
    before = read_everything(spark, table)
    tier(spark, table, until=2)
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    changes = load_lake(lake, table).scan("op = 'd'").to_arrow().to_pylist()
    assert sorted(change["before"]["id"] for change in changes) == list(range(3, 100, 10))
    assert {change["after"] for change in changes} == {None} and {change["_commit_version"] for change in changes} == {
        4
    }
    assert {json.loads(change["_raw"])["op"] for change in changes} == {"d"}
    catalog, name = split_name(table)
    [row] = spark.sql(f"CALL {catalog}.system.compact_lake(table => '{name}')").collect()
    assert row.files_before > row.files_after
    assert read_everything(spark, table) == before
    # A program puts all rows into one file, in another order.
    rewritten = load_lake(lake, table)
    rewritten.overwrite(rewritten.scan().to_arrow().sort_by([("_offset", "descending")]))
    assert read_everything(spark, table) == before


def test_changes_of_connectors(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    """Truncations count for all segments, bad events end a read by their place, and rows need no primary key."""
    keyed, keyless = name_table(scope, "keyed"), name_table(scope, "keyless")
    for table, key in ((keyed, " PRIMARY KEY"), (keyless, "")):
        properties = f"'format'='debezium-json', 'scaling.min-segments'='2', 'lake'='{split_name(table)[1]}'"
        spark.sql(f"CREATE TABLE {table} (id BIGINT{key}, v STRING) USING pravega TBLPROPERTIES ({properties})")
        stream = Stream(scope, table.rpartition(".")[2])
        write(pravega, stream, [change("c", 10 + id, None, {"id": id, "v": "a"}) for id in range(20)])
        write(pravega, stream, [change("d", 35, {"id": 7, "v": "a"}, None), Record('{"id": 7}', b"")])
        write(pravega, stream, [change("t", 40, None, None)])
        write(pravega, stream, [change("c", 50 + id, None, {"id": id, "v": "b"}) for id in range(5)])

    def read(table: str) -> list[list[Row]]:
        return [in_order(spark.table(table)), in_order(spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 1"))]

    for table in (keyed, keyless):
        before = read(table)
        assert len(before[0]) == 5
        tier(spark, table)
        remove_tiered(pravega, lake, table)
        assert read(table) == before
    append(pravega, Stream(scope, "keyed"), [b"no change"])
    tier(spark, keyed)
    remove_tiered(pravega, lake, keyed)
    assert "cannot be decoded" in fails(spark.table(keyed).collect, "PRAVEGA_MALFORMED_EVENT")
    dropped = spark.sql(f"SELECT * FROM {keyed} WITH ('mode'='dropmalformed')")
    assert in_order(dropped) == before[0]


def test_bytes_that_are_no_event(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    table, stream = create(spark, scope), Stream(scope, "t")
    [segment, _] = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
        appender.append(b"no event at all.", 1)
        appender.flush()
    assert tier(spark, table).rows == 101
    remove_tiered(pravega, lake, table)
    message = fails(spark.table(table).collect, "PRAVEGA_MALFORMED_EVENT")
    assert f"Segment {stream}/{segment}" in message and "as its lake says" in message and "changelog" in message
    every = spark.sql(f"SELECT op, _error FROM {changelog(table)} WITH ('mode'='permissive')").collect()
    assert len([row for row in every if row.op == "c"]) == 100
    assert len([row for row in every if row._error is not None]) == 1


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_every_type(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, format: str) -> None:
    table, columns = name_table(scope, "types"), [(f"c{number}", *each) for number, each in enumerate(TYPES.items())]
    listed = ", ".join(f"{name} {type}" for name, type, _ in columns)
    properties = f"'format'='{format}', 'lake'='{split_name(table)[1]}'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, {listed}) USING pravega TBLPROPERTIES ({properties})")
    values = ", ".join(f"CASE WHEN id < 20 THEN {value} END" for _, _, value in columns)
    spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(25)")
    before = [in_order(spark.table(name)) for name in (table, changelog(table))]
    tier(spark, table)
    remove_tiered(pravega, lake, table)
    assert [in_order(spark.table(name)) for name in (table, changelog(table))] == before


def test_what_a_lake_of_changes_refuses(spark: SparkSession, pravega: Pravega, table: str, scope: str) -> None:
    def refuses(statement: str, condition: str, *texts: str) -> None:
        message = fails(lambda: spark.sql(statement).collect(), condition)
        assert all(text in message for text in texts), message

    tier(spark, table)
    refuses(
        f"SELECT * FROM {table} WITH ('lake'='only')", "PRAVEGA_UNSUPPORTED_OPERATION", "'lake'='only'", "changelog"
    )
    compact = f"CALL {CATALOG}.system.compact_changes(table => '{split_name(table)[1]}')"
    refuses(compact, "PRAVEGA_UNSUPPORTED_OPERATION", "compact_changes", "lake.keep")
    set_property = f"ALTER TABLE {table} SET TBLPROPERTIES ('compact.after'='64m')"
    refuses(set_property, "PRAVEGA_INVALID_OPTION", "'compact.after'", "'lake'")
    variant = f"CREATE TABLE {name_table(scope, 'v')} (id BIGINT PRIMARY KEY, v VARIANT) USING pravega"
    refuses(f"{variant} TBLPROPERTIES ('format'='debezium-json', 'lake'='a.b')", "PRAVEGA_UNSUPPORTED_TYPE", "variant")
    insert(spark, table, 400, 10)
    pravega.controller.truncate_stream(find_end_now(pravega, Stream(scope, "t")).cut)
    insert(spark, table, 500, 10)
    refuses(f"SELECT * FROM {table}", "PRAVEGA_DATA_LOSS", "removed")
    refuses(f"SELECT * FROM {table} WITH ('fail-on-data-loss'='false')", "PRAVEGA_DATA_LOSS", "changelog")
    left = spark.sql(f"SELECT op FROM {changelog(table)} WITH ('fail-on-data-loss'='false')")
    assert left.count() == 140
    alone = f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.keep'='1d', 'lake'='')"
    refuses(alone, "PRAVEGA_INVALID_OPTION", "lake")
