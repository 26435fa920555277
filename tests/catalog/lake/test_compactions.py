"""The procedures compact_lake and remove_orphans: other files, with the same events in the same order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.lake_compaction import finish_compaction, plan_compaction
from pyspark_pravega.datasource.lake.file_writer import FILES
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.errors import ConcurrentChangeError
from tests.catalog.creation.test_tables_of_others import append
from tests.catalog.lake.conftest import CATALOG
from tests.catalog.lake.test_history_in_a_lake import create, fails, flatten, ids, insert, load_lake, read_stream, tier
from tests.catalog.lake.test_tierings import open_lake, write_files
from tests.catalog.queries.test_version_columns import append_unversioned


def compact(spark: SparkSession, table: str) -> Row:
    [row] = spark.sql(f"CALL {CATALOG}.system.compact_lake(table => '{table.removeprefix(f'{CATALOG}.')}')").collect()
    return row


def read_as_others(lake: dict[str, str], table: str) -> dict[int, dict[str, Any]]:
    """Return the rows by id, as other engines read them: with columns that the table has dropped."""
    return {row["id"]: row for row in load_lake(lake, table).scan().to_arrow().to_pylist()}


def write_larger_files(_: OpenTable, lake: LakeTable) -> tuple[str, list[str]]:
    """Do what a compaction does before its commit."""
    planned = plan_compaction(lake)
    assert planned is not None
    source, former = planned
    return former, [text for batch in source.reader.read_all() for text in batch.column(FILES.names[0]).to_pylist()]


def test_a_compaction_changes_nothing_but_files(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, tmp_path: Path
) -> None:
    """With columns that came later, in a struct too, a bad event, and files of two segments."""
    table = create(spark, scope, "t", format="json")
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN s STRUCT<a: INT>")
    spark.sql(f"INSERT INTO {table} SELECT id, 'r' || id, named_struct('a', id) FROM range(300, 400)")
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN s.b STRING")
    spark.sql(f"INSERT INTO {table} SELECT id, 'r' || id, named_struct('a', id, 'b', 'x') FROM range(400, 500)")
    append(pravega, Stream(scope, "t"), [b"no JSON"])
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} DROP COLUMN s.a")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN text")
    permissive = f"{table} WITH ('mode'='permissive')"
    everything = f"SELECT *, _segment, _offset, _error, _event_pointer FROM {permissive} ORDER BY _segment, _offset"
    before, of_others = spark.sql(everything).collect(), read_as_others(lake, table)
    assert len(before) == 501
    done = compact(spark, table)
    assert done.files_before >= 6 and done.files_after == 2 and done.bytes_after < done.bytes_before
    assert spark.sql(everything).collect() == before
    assert read_as_others(lake, table) == of_others and of_others[450]["s"] == {"a": 450, "b": "x"}
    assert ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF 2")) == list(range(200))
    changes = spark.sql(f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION 2 TO VERSION 3").collect()
    assert sorted((row.id, row._commit_version) for row in changes) == [(i, i // 100 + 1) for i in range(100, 300)]
    batches = read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": "64", "mode": "dropmalformed"})
    assert sorted(flatten(batches)) == list(range(500)) and max(map(len, batches)) <= 64
    assert load_lake(lake, table).scan().to_arrow().num_rows == 501
    assert compact(spark, table)[:2] == (2, 2)
    spark.sql(f"INSERT INTO {table} (id) SELECT id FROM range(500, 600)")
    assert tier(spark, table).rows == 100
    assert len(spark.sql(everything).collect()) == 601


def test_compactions_beside_others(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    """A tiering in between does not disturb a compaction, and of two the second changes nothing."""
    table = create(spark, scope, "t")
    for first in (300, 400):
        tier(spark, table)
        insert(spark, table, first, 100)
    both = [open_lake(pravega, Stream(scope, "t"), lake) for _ in range(2)]
    written = [write_larger_files(*one) for one in both]
    assert tier(spark, table).rows == 100
    finish_compaction(both[0][1], *written[0])
    with pytest.raises(ConcurrentChangeError, match="has rewritten files"):
        finish_compaction(both[1][1], *written[1])
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(500))
    assert spark.table(f"{table}.lake").first().files == 4


def test_events_without_versions_are_compacted_too(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str
) -> None:
    """They are in a partition of their own. A table whose lake has nothing yet is refused, and no lake is made."""
    table = create(spark, scope, "t", format="json", framing="none")
    assert "nothing is in it yet" in fails(lambda: compact(spark, table), "PRAVEGA_UNSUPPORTED_OPERATION")
    for number in range(3):
        append_unversioned(pravega, Stream(scope, "t"), f'{{"id": {1000 + number}}}'.encode())
        tier(spark, table)
    expected = [*range(300), 1000, 1001, 1002]
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == expected
    done = compact(spark, table)
    assert done.files_after < done.files_before
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == expected
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE _commit_version IS NULL")) == [1000, 1001, 1002]


def test_orphans(spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str) -> None:
    table = create(spark, scope, "t")
    tier(spark, table)
    insert(spark, table, 300, 20)
    before = load_lake(lake, table).scan().plan_files()
    assert write_files(*open_lake(pravega, Stream(scope, "t"), lake)) is not None, "it is never committed"
    folder = Path(str(load_lake(lake, table).location()).removeprefix("file://")) / "data"
    committed = {Path(task.file.file_path).name for task in before}
    orphans = [path for path in folder.iterdir() if path.name not in committed]
    remove = f"CALL {CATALOG}.system.remove_orphans(table => '{table.removeprefix(f'{CATALOG}.')}'"
    assert spark.sql(f"{remove})").first()[:] == (0, 0, False), "they are too young"
    for path in folder.iterdir():
        os.utime(path, (1_000, 1_000))
    expected = (len(orphans), sum(path.stat().st_size for path in orphans))
    assert expected[0] and spark.sql(f"{remove}, dry_run => true)").first()[:] == (*expected, False)
    assert spark.sql(f"{remove})").first()[:] == (*expected, True)
    assert {path.name for path in folder.iterdir()} == committed
    assert tier(spark, table).rows == 20 and ids(spark.table(table)) == list(range(320))
