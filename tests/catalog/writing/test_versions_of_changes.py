"""Versions of the changes that statements write: those of the history, in CHANGES and in streams of changes."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.streaming.changes_streams import Target, scale, target
from tests.catalog.writing.test_compaction import compact
from tests.catalog.writing.test_row_changes import condition, create, deliver_first_row, rows

__all__ = ["target"]


def feed(spark: SparkSession, table: str, range: str) -> list[tuple[Any, ...]]:
    found = spark.sql(f"SELECT _commit_version, _change_type, id, v FROM {table} CHANGES FROM {range}")
    return sorted(tuple(row) for row in found.collect())


def replay(before: dict[int, str], changes: list[tuple[Any, ...]]) -> dict[int, str]:
    """Apply changes version by version, in any order within one; each has to fit the row before it."""
    found = dict(before)
    for _, each in groupby(sorted(changes, key=lambda change: change[0]), lambda change: change[0]):
        of_version = list(each)
        gone = {row[2]: row[3] for row in of_version if row[1] in ("delete", "update_preimage")}
        come = {row[2]: row[3] for row in of_version if row[1] in ("insert", "update_postimage")}
        assert len(gone) + len(come) == len(of_version)  # a version changes each key once
        assert gone == {key: found[key] for key in gone}
        assert gone.keys() == {row[2] for row in of_version if row[1] not in ("insert", "update_postimage")}
        found = {key: v for key, v in found.items() if key not in gone}
        assert not found.keys() & come.keys()
        found |= come
    return found


def as_of(spark: SparkSession, table: str, version: int) -> dict[int, str]:
    return dict(spark.sql(f"SELECT id, v FROM {table} VERSION AS OF {version}").collect()) if version else {}  # type: ignore[arg-type]


def run_randomly(spark: SparkSession, table: str, random: Random, count: int) -> None:
    for number in range(count):
        keys = ", ".join(str(random.randrange(12)) for _ in range(4))
        match random.randrange(4):
            case 0:
                spark.sql(f"UPDATE {table} SET v = 'u{number}' WHERE id IN ({keys})")
            case 1:
                spark.sql(f"DELETE FROM {table} WHERE id IN ({keys})")
            case 2:
                spark.sql(
                    f"MERGE INTO {table} t USING (SELECT DISTINCT explode(array({keys})) AS k) s ON t.id = s.k WHEN "
                    f"MATCHED AND k % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm{number}' WHEN NOT MATCHED "
                    f"THEN INSERT (id, v) VALUES (k, 'n{number}')"
                )
            case _:  # may have a key twice, or replace rows
                spark.sql(
                    f"INSERT INTO {table} SELECT k, 'i{number}' || p FROM (SELECT posexplode(array({keys})) AS (p, k))"
                )


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_changes_lead_from_version_to_version(
    spark: SparkSession, pravega: Pravega, scope: str, target: Target, format: str
) -> None:
    table = create(spark, scope, "t", "id BIGINT, v STRING", format=format, **{"scaling.min-segments": "3"})
    random, seen = Random(format), 2
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(6)")
    stream = spark.readStream.option("startingVersion", seen).changes(table)
    for number in range(3):
        run_randomly(spark, table, random, 6)
        scale(pravega, Stream(scope, "t"), number)
        target.take(stream)
        # Earlier releases wrote no version into their checkpoints.
        offsets = max((target.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        offsets.write_text(re.sub(r'"version": \d+', '"version": 0', offsets.read_text()))
        for sum in offsets.parent.glob(".*.crc"):
            sum.unlink()
    history = spark.sql(f"SELECT version, committed_at FROM {table}.history").collect()
    times = {row.version: row.committed_at for row in history}
    newest = max(times)
    states = [as_of(spark, table, version) for version in range(newest + 1)]
    found = spark.sql(f"SELECT DISTINCT _commit_version, _commit_timestamp FROM {table} CHANGES FROM VERSION 1")
    assert {row[0]: row[1] for row in found.collect()}.items() <= times.items()
    for _ in range(6):
        first = random.randint(1, newest)
        last = random.randint(first, newest)
        assert replay(states[first - 1], feed(spark, table, f"VERSION {first} TO VERSION {last}")) == states[last]
        net = feed(spark, table, f"VERSION {first} TO VERSION {last} WITH (deduplicationMode = 'netChanges')")
        assert replay(states[first - 1], [(0, *row[1:]) for row in net]) == states[last]
        moments = [f"TIMESTAMP '{times[number]}'" for number in (first, last)]
        assert feed(spark, table, " TO ".join(moments)) == feed(spark, table, f"VERSION {first} TO VERSION {last}")
    changes = sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in target.rows())
    assert changes == feed(spark, table, f"VERSION {seen}")
    assert replay(states[seen - 1], changes) == states[newest]
    assert feed(spark, table, f"VERSION {newest + 1}") == []
    with pytest.raises(PySparkException, match=f"FROM VERSION 99 is not possible: the newest version is {newest}"):
        feed(spark, table, "VERSION 99")
    with pytest.raises(PySparkException, match="FROM VERSION 99 is not possible"):
        spark.readStream.option("startingVersion", 99).changes(table).writeStream.format(
            "noop"
        ).start().awaitTermination()


@pytest.mark.parametrize("format", ["debezium-json", pytest.param("debezium-avro", marks=pytest.mark.long)])
def test_compaction_changes_nothing_and_what_it_removed_is_missing(
    spark: SparkSession, scope: str, target: Target, tmp_path: Path, format: str
) -> None:
    table = create(spark, scope, "t", "id BIGINT, v STRING", format=format, **{"scaling.min-segments": "2"})
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"UPDATE {table} SET v = 'x' WHERE id = 2")
    before = spark.sql("SELECT current_timestamp()").collect()[0][0]
    assert target.take(spark.readStream.option("startingVersion", 2).changes(table)) == 1
    compact(spark, table)  # version 3
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    later = [(4, "delete", 1, "a")]
    assert feed(spark, table, "VERSION 3") == feed(spark, table, "VERSION 4") == later
    for range in ("VERSION 0", "VERSION 2", f"TIMESTAMP '{before}'"):
        if range.startswith("V"):
            assert "PRAVEGA_DATA_LOSS" in condition(spark, f"SELECT * FROM {table} CHANGES FROM {range}")
    assert feed(spark, table, f"TIMESTAMP '{before}'") == later  # versions 1 and 2 are older
    assert "PRAVEGA_DATA_LOSS" in condition(spark, f"SELECT * FROM {table} CHANGES FROM TIMESTAMP '2020-01-01'")
    lossy = f"SELECT id FROM {table} CHANGES FROM VERSION 0 WITH ('fail-on-data-loss'='false')"
    assert [row.id for row in spark.sql(lossy).collect()] == [1]
    target.take(spark.readStream.option("startingVersion", 2).changes(table))
    changes = sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in target.rows())
    assert changes == [(2, "update_postimage", 2, "x"), (2, "update_preimage", 2, "b"), *later]
    # A stream without a start begins with the rows that are left.
    fresh = Target(spark, tmp_path / "fresh")
    fresh.take(spark.readStream.changes(table))
    changes = [(row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in fresh.rows()]
    assert dict(rows(spark, table)) == replay({}, changes)  # type: ignore[arg-type]
    with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS"):
        spark.readStream.option("startingVersion", 1).changes(table).writeStream.format(
            "noop"
        ).start().awaitTermination()
    spark.sql(f"DELETE FROM {table}")
    compact(spark, table)
    assert "PRAVEGA_DATA_LOSS" in condition(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 1")


def test_rows_without_a_primary_key_have_versions_too(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, v STRING", primary_key="")
    for v in "abb":
        spark.sql(f"INSERT INTO {table} VALUES (1, '{v}')")
    assert feed(spark, table, "VERSION 2") == [(2, "insert", 1, "b"), (3, "insert", 1, "b")]
    assert "is not possible: the newest version is 3" in condition(
        spark, f"SELECT * FROM {table} CHANGES FROM VERSION 9"
    )


def test_positions_of_a_database_are_versions_beside_those_of_statements(
    spark: SparkSession, cluster: ClusterInfo, scope: str
) -> None:
    table = create(spark, scope, "t", "id BIGINT, v STRING", framing="none")
    deliver_first_row(spark, cluster, scope)  # in a version of the log, but with a position
    assert [row[:3] for row in feed(spark, table, "VERSION 10")] == [(10, "insert", 1)]
    spark.sql(f"INSERT INTO {table} VALUES (1, 'b'), (2, 'c')")
    assert sorted(row[0] for row in feed(spark, table, "TIMESTAMP '1970-01-01 00:00:00'")) == [2, 10, 11, 11]
    sentence = condition(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 2")
    assert "UNSUPPORTED" in sentence and "FROM TIMESTAMP" in sentence
