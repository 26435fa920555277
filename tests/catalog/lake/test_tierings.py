"""Tierings that run at the same time, that are lost, and in any order with all else that happens to a table."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.procedures.calling import PROCEDURES
from pyspark_pravega.catalog.procedures.procedure import Call
from pyspark_pravega.catalog.protocol.procedure_requests import TasksDone
from pyspark_pravega.catalog.running.tending import QueryServers
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.tiering import Tiering, finish_tiering, plan_tiering
from pyspark_pravega.datasource.lake.file_writer import FILES
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.open_lake import find_lake_name, require_catalog
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.errors import ConcurrentChangeError
from pyspark_pravega.sql import options as o
from tests.catalog.lake.conftest import CATALOG
from tests.catalog.lake.test_history_in_a_lake import (
    create,
    fails,
    flatten,
    ids,
    insert,
    load_lake,
    read_stream,
    tier,
    truncate,
)


def open_lake(pravega: Pravega, stream: Stream, settings: dict[str, str]) -> tuple[OpenTable, LakeTable]:
    table = load_table(pravega, stream).table
    conf = {f"lake.{key}": text for key, text in settings.items()}
    opened = OpenTable(pravega, table, o.resolve(conf=conf, properties=table.scan_properties, env={}))
    name = find_lake_name(opened)
    assert name is not None
    loaded = LakeTable.load(require_catalog(opened, name), name)
    assert loaded is not None
    return opened, loaded


def write_files(opened: OpenTable, loaded: LakeTable) -> tuple[Tiering, list[str]] | None:
    """Do what a tiering does before its commit."""
    planned = plan_tiering(opened, loaded, find_end_now(opened.pravega, opened.stream))
    if planned is None:
        return None
    tiering, source = planned
    return tiering, [text for batch in source.reader.read_all() for text in batch.column(FILES.names[0]).to_pylist()]


def tier_at_once(spark: SparkSession, table: str) -> int:
    """Call tier four times at once, of which some may fail because another was faster; return the rows of all."""

    def call(_: int) -> int:
        try:
            return int(tier(spark, table).rows)
        except Exception as error:
            assert "PRAVEGA_CONCURRENT_CHANGE" in str(error), error
            return 0

    with ThreadPoolExecutor(4) as threads:
        return sum(threads.map(call, range(4)))


def test_two_tierings_at_once(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    table = create(spark, scope, "t")
    assert tier_at_once(spark, table) == 300  # the first ones, which make the lake's table
    insert(spark, table, 300, 50)
    both = [open_lake(pravega, Stream(scope, "t"), lake) for _ in range(2)]
    written = [write_files(*one) for one in both]
    [first, second] = [one for one in written if one is not None]
    assert finish_tiering(both[0][1], *first) == 50
    with pytest.raises(ConcurrentChangeError, match="Another tiering"):
        finish_tiering(both[1][1], *second)
    with pytest.raises(ConcurrentChangeError, match="Another tiering"):
        finish_tiering(open_lake(pravega, Stream(scope, "t"), lake)[1], *second)
    assert ids(spark.table(table)) == list(range(350))
    insert(spark, table, 350, 50)

    assert tier_at_once(spark, table) == 50
    assert ids(spark.table(table)) == list(range(400))
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(400))


def test_columns_that_others_add_while_a_tiering_is_planned(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake's catalog may take its time to answer; the files must have all columns of the events in them."""
    table = create(spark, scope, "t")
    load, tier_events = LakeTable.load, PROCEDURES["tier"]

    def load_after_others(*arguments: str) -> LakeTable | None:
        monkeypatch.undo()
        spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
        spark.sql(f"INSERT INTO {table} VALUES (300, 'new', 7)")
        return load(*arguments)

    monkeypatch.setattr(LakeTable, "load", load_after_others)
    catalog = Catalog({f"lake.{key}": text for key, text in lake.items()}, pravega)
    call = Call(catalog, {"table": f"`{scope}`.t"}, QueryServers())
    assert tier_events.plan is not None
    tasks = tier_events.plan(call)
    assert tasks is not None
    files = [text for batch in tasks.source.reader.read_all() for text in batch.column(FILES.names[0]).to_pylist()]
    [_] = tier_events.act(replace(call, done=TasksDone(tasks.pending, tuple(files))))
    assert spark.sql(f"SELECT more FROM {table} WHERE id = 300").first()[0] == 7


def test_a_commit_that_the_catalog_carried_out_and_refused(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a proxy sends it once more, because the answer was lost: it counts as done, and its manifests stay."""
    table = create(spark, scope, "t")
    tier(spark, table)
    insert(spark, table, 300, 50)
    opened, loaded = open_lake(pravega, Stream(scope, "t"), lake)
    written = write_files(opened, loaded)
    assert written is not None
    commit = SqlCatalog.commit_table

    def commit_twice(*arguments: Any) -> Any:
        commit(*arguments)
        return commit(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_twice)
    assert finish_tiering(loaded, *written) == 50
    monkeypatch.undo()
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(350))
    assert tier(spark, table).rows == 0


def test_few_bytes_stay_in_the_stream(spark: SparkSession, lake: dict[str, str], scope: str, tmp_path: Path) -> None:
    """With `tier.min-bytes`, unless a call names a version; reads have them all the same."""
    table = create(spark, scope, "t", **{"tier.min-bytes": "1m", "lake.keep": "0s"})
    first = tier(spark, table)
    [(behind,)] = spark.table(f"{table}.lake").select("bytes_behind").collect()
    assert first[:4] == (0, None, None, 0) and first.waiting == f"{behind:,} bytes; 'tier.min-bytes' is 1m"
    assert ids(spark.table(table)) == list(range(300))
    done = tier(spark, table, until=2)
    assert (done.rows, done.waiting) == (200, None)
    done = tier(spark, table)
    assert (done.rows, done.version, done.rows_in_lake) == (0, 2, 200)
    assert 0 < int(done.waiting.partition(" ")[0].replace(",", "")) < behind
    assert ids(spark.table(table)) == sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(300))
    spark.sql(f"INSERT INTO {table} SELECT id, repeat('x', 1000) FROM range(300, 1500)")
    done = tier(spark, table)
    assert (done.rows, done.waiting) == (1300, None)
    done = tier(spark, table)
    assert (done.rows, done.waiting) == (0, None)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('tier.min-bytes'='1')")
    insert(spark, table, 1500, 1)
    assert tier(spark, table).rows == 1


@pytest.mark.parametrize("unit", ["hour", "none"])
def test_partitions_of_a_lake(spark: SparkSession, lake: dict[str, str], scope: str, unit: str, tmp_path: Path) -> None:
    """Reads, compactions and truncations do not depend on them, and they stay as the lake's table has them."""
    table, other = create(spark, scope, "t", **{"lake.partition-by": unit}), "none" if unit == "hour" else "hour"
    name = table.removeprefix(f"{CATALOG}.")
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake'='{name}_2', 'lake.partition-by'='{other}')")
    assert tier(spark, table).rows_in_lake == 300
    back = f"ALTER TABLE {table} SET TBLPROPERTIES ('lake'='{name}'"
    told = f"those of 'lake.partition-by'='{unit}', and the table has 'lake.partition-by'='{other}'"
    assert told in fails(lambda: spark.sql(f"{back})"), "PRAVEGA_LAKE_FAILED")
    spark.sql(f"{back}, 'lake.partition-by'='{unit}')")
    for first in (300, 400):
        tier(spark, table)
        insert(spark, table, first, 100)
    assert [str(part.transform) for part in load_lake(lake, table).spec().fields] == ([] if unit == "none" else [unit])
    [done] = spark.sql(f"CALL {CATALOG}.system.compact_lake(table => '{name}')").collect()
    assert done.files_after < done.files_before
    truncate(spark, table, 4)
    assert ids(spark.table(table)) == sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(500))
    assert ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF 2")) == list(range(200))
    key = "'lake.partition-by'"
    for change, other in ((f"SET TBLPROPERTIES ({key}='month')", "month"), (f"UNSET TBLPROPERTIES ({key})", "day")):
        told = f"those of 'lake.partition-by'='{unit}', and the table has 'lake.partition-by'='{other}' ('day' if"
        assert told in fails(partial(spark.sql, f"ALTER TABLE {table} {change}"), "PRAVEGA_LAKE_FAILED")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.partition-by'='{unit}', 'comment'='c')")
    with load_lake(lake, table).update_spec() as spec:
        spec.add_field("id", "identity", "by_id")
    assert "Make that its partition again" in fails(lambda: tier(spark, table), "PRAVEGA_LAKE_FAILED")
    assert ids(spark.table(table)) == list(range(500)), "reads do not mind"
    with load_lake(lake, table).update_spec() as spec:
        spec.remove_field("by_id")
    assert tier(spark, table).rows == 100


@pytest.mark.parametrize("steps", [15, pytest.param(400, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_random_steps(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, tmp_path: Path, steps: int
) -> None:
    """After each step, a SELECT, AS OF, CHANGES and a stream agree with a list of the rows that was kept aside."""
    seed = int(os.environ.get("PRAVEGA_SEED", time.time_ns() % 10**6))
    random, stream = Random(seed), Stream(scope, "t")
    table = create(spark, scope, "t", **{"lake.partition-by": random.choice(["hour", "day", "month", "none"])})
    removed = 1
    versions, seen, segments = [list(range(end)) for end in (0, 100, 200, 300)], list[int](), 2

    def step() -> str:
        nonlocal segments, removed
        kind = random.choice(["insert", "insert", "tier", "tier until", "truncate", "lose", "scale", "stream"])
        tiered = tier_version()
        if kind == "insert":
            count = random.randint(1, 60)
            insert(spark, table, len(versions[-1]), count)
            versions.append(list(range(len(versions[-1]) + count)))
        elif kind == "tier":
            tier(spark, table)
        elif kind == "tier until":
            tier(spark, table, until=random.randint(1, len(versions) - 1))
        elif kind == "truncate" and tiered:
            removed = random.randint(removed, tiered)
            truncate(spark, table, removed)
        elif kind == "lose" and tiered:
            write_files(*open_lake(pravega, stream, lake))
        elif kind == "scale":
            segments = random.choice([number for number in (2, 3, 4) if number != segments])
            name = table.removeprefix(f"{CATALOG}.")
            spark.sql(f"CALL {CATALOG}.system.scale_stream(table => '{name}', segments => {segments})").collect()
        elif kind == "stream":
            limit = str(random.randint(20, 400))
            seen.extend(flatten(read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": limit})))
            assert sorted(seen) == versions[-1]
        return kind

    def tier_version() -> int:
        try:
            history = open_lake(pravega, stream, lake)[1].history
        except AssertionError:
            return 0
        return 0 if history is None else history.version

    def checks() -> Iterator[bool]:
        yield ids(spark.table(table)) == versions[-1]
        version = random.randint(1, len(versions) - 1)
        yield ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF {version}")) == versions[version]
        first = random.randint(1, len(versions) - 1)
        changes = spark.sql(f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION {first}").collect()
        expected = [
            (number, here)
            for here in range(first, len(versions))
            for number in range(len(versions[here - 1]), len(versions[here]))
        ]
        yield sorted((row.id, row._commit_version) for row in changes) == expected

    done = []
    for _ in range(steps):
        done.append(step())
        assert all(checks()), (seed, done)
    assert sorted(flatten(read_stream(spark, table, tmp_path / "whole"))) == versions[-1], (seed, done)
