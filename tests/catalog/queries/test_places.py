"""Conditions on hidden columns that say where events lie: what is read is less, and the answers are Spark's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.catalog.queries.test_aggregates import plan
from tests.catalog.queries.test_filters import scan

ROWS = 20_000
Condition: TypeAlias = tuple[str, list[Row] | None, int, float]
"""Its text, the rows that it leaves if they are known, the most segments, and the largest part of the bytes."""


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[list[Row]]:
    """The rows of pravega.places.t, with places: two INSERTs into four segments."""
    spark.sql("CREATE NAMESPACE pravega.places")
    properties = "TBLPROPERTIES ('format'='json', 'scaling.min-segments'='4', 'routing-key'='id')"
    spark.sql(f"CREATE TABLE pravega.places.t (id BIGINT, t STRING) {properties}")
    for first in (0, ROWS // 2):
        last = first + ROWS // 2
        spark.sql(f"INSERT INTO pravega.places.t SELECT id, repeat('x', int(id % 50)) FROM range({first}, {last})")
    yield spark.sql("SELECT id, _segment, _offset, _event_pointer FROM pravega.places.t").collect()
    spark.sql("DROP NAMESPACE pravega.places CASCADE")


def read(frame: DataFrame) -> tuple[int, int]:
    """How many segments, and bytes of them, a query is to read."""
    found = re.search(r"segments: (\d+), bytes: (\d+)", scan(frame).toString())
    assert found is not None
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("which", ["some", pytest.param("others", marks=pytest.mark.long)])
def test_what_is_read_is_what_conditions_need(spark: SparkSession, events: list[Row], which: str) -> None:
    table = spark.table("pravega.places.t")
    segments = sorted({row._segment for row in events})
    some = events[ROWS // 3]
    _, every = read(table)
    in_one = [row for row in events if row._segment == segments[1]]
    half = in_one[len(in_one) // 2]._offset
    some_conditions: tuple[Condition, ...] = (
        (f"_segment = '{segments[1]}'", in_one, 1, 0.3),
        (f"_segment = '{segments[1]}' AND _offset >= {half} AND _offset < {half + 5}", None, 1, 0.16),
        (f"_event_pointer IN ('{some._event_pointer}', '{in_one[5]._event_pointer}', 'x')", [some, in_one[5]], 2, 0.5),
        (f"_offset > {2**63 - 1} OR _offset < {-(2**63) + 1}", [], 0, 0),
        (f"_offset < 1000 OR (_segment = '{segments[2]}' AND NOT (_offset > {half}))", None, 4, 0.2),
    )
    other_conditions: tuple[Condition, ...] = (
        (f"_segment IN ('{segments[0]}', '{segments[2]}')", None, 2, 0.6),
        (f"_segment > '{segments[1]}' AND _segment <> '{segments[3]}'", None, 1, 0.3),
        (f"_segment = '{segments[1]}' AND _offset BETWEEN {half - 4} AND {half + 4}", None, 1, 0.16),
        (f"_offset = {some._offset} AND _segment = '{some._segment}'", [some], 1, 0.3),
        (f"_event_pointer = '{some._event_pointer}'", [some], 1, 0.3),
        (f"_event_pointer = '{some._event_pointer}0'", [], 1, 0.3),
        ("_offset < 0", [], 0, 0),
        (f"_offset < {half} AND _offset > {half}", [], 0, 0),
    )
    for text, wanted, most, part in some_conditions if which == "some" else other_conditions:
        found = table.where(text).select("id", "_segment", "_offset", "_event_pointer")
        off = spark.read.option("push-down-filters", "false").table("pravega.places.t").where(text)
        expected = sorted(off.select("id", "_segment", "_offset", "_event_pointer").collect())
        assert wanted is None or expected == sorted(wanted), text
        assert sorted(found.collect()) == expected, text
        count, size = read(found)
        assert count <= most and size <= part * every, text
        assert "Filter (" not in plan(found), text
        assert found.rdd.getNumPartitions() <= max(most, 1), text
        counted = table.where(text).groupBy().count()
        assert "; aggregates: count(*)" in plan(counted) and counted.collect() == [(len(expected),)], text
        few = table.where(text).limit(3)
        assert "; limit: 3" in plan(few) and len(few.collect()) == min(3, len(expected)), text


def test_conditions_on_places_and_on_data(spark: SparkSession, events: list[Row]) -> None:
    table = spark.table("pravega.places.t")
    segment = events[0]._segment
    wanted = [row for row in events if row._segment == segment and row.id < 500]
    found = table.where(f"id < 500 AND _segment = '{segment}'").select("id")
    assert sorted(found.collect()) == sorted((row.id,) for row in wanted) != []
    assert read(found)[0] == 1
    half = sorted(row._offset for row in wanted)[len(wanted) // 2]
    found = table.where(f"id < 500 AND _segment = '{segment}' AND id % 2 = 0 AND _offset < {half}").select("id")
    wanted = [row for row in wanted if row._offset < half and row.id % 2 == 0]
    assert sorted(found.collect()) == sorted((row.id,) for row in wanted) != []
    # A condition behind one that may fail is Spark's, even one on places.
    assert read(table.where(f"1 / id > 0 AND _segment = '{segment}'"))[0] == 4


def test_scans_of_one_query_end_at_one_tail(spark: SparkSession, events: list[Row]) -> None:
    """Whichever segments the first of them needs."""
    segments = sorted({row._segment for row in events})
    parts = " UNION ALL ".join(f"SELECT id FROM pravega.places.t WHERE _segment = '{each}'" for each in segments)
    both = spark.sql(f"SELECT count(DISTINCT id) FROM ({parts} UNION ALL SELECT id FROM pravega.places.t)")
    assert both.collect() == [(ROWS,)]
    joined = spark.sql(
        f"SELECT count(*) FROM pravega.places.t a JOIN pravega.places.t b ON a.id = b.id "
        f"WHERE a._segment = '{segments[0]}' AND b._offset >= 0"
    )
    assert joined.collect() == [(sum(row._segment == segments[0] for row in events),)]


def test_versions_of_changes(spark: SparkSession, events: list[Row]) -> None:
    """A condition on the version reads the events of the versions that fulfil it."""
    spark.sql("CREATE TABLE pravega.places.versions (id INT) TBLPROPERTIES ('format'='json')")
    for number in range(1, 6):
        spark.sql(f"INSERT INTO pravega.places.versions VALUES ({number}), ({number * 10})")
    every = spark.sql("SELECT id, _commit_version FROM pravega.places.versions CHANGES FROM VERSION 1")
    _, size = read(every)
    for text, wanted, slices in (
        ("= 3", [3], 1),
        (">= 4", [4, 5], 1),
        ("IN (1, 2, 5)", [1, 2, 5], 2),
        ("<> 3", [1, 2, 4, 5], 2),
        ("BETWEEN 2 AND 3", [2, 3], 1),
        ("> 5", [], 0),
        ("< -9223372036854775807", [], 0),
    ):
        found = every.where(f"_commit_version {text}")
        assert sorted(found.collect()) == sorted((id, each) for each in wanted for id in (each, each * 10)), text
        count, part = read(found)
        assert count == slices and part <= size * (len(wanted) + 1) / 5, text
        assert found.where("id < 10").select("id").count() == len(wanted), text
        assert len(found.limit(1).collect()) == min(1, len(wanted))


def test_other_tables(spark: SparkSession, events: list[Row], scope: str) -> None:
    """Of current rows, conditions are about the events that they come from; of several streams about each of them."""
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.states (k INT, v STRING) "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='k')"
    )
    spark.sql(f"INSERT INTO pravega.`{scope}`.states VALUES (1, 'old'), (2, 'old')")
    spark.sql(f"INSERT INTO pravega.`{scope}`.states VALUES (1, 'new')")
    [last] = spark.sql(f"SELECT max(_offset) AS o FROM pravega.`{scope}`.states").collect()
    assert spark.sql(f"SELECT k, v FROM pravega.`{scope}`.states WHERE _offset < {last.o}").collect() == [(2, "old")]
    assert spark.sql(f"SELECT k, v FROM pravega.`{scope}`.states WHERE _offset >= {last.o}").collect() == [(1, "new")]
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.{name} (id INT) TBLPROPERTIES ('format'='json')")
        spark.sql(f"INSERT INTO pravega.`{scope}`.{name} VALUES (1), (2)")
    both = spark.read.format("pravega").options(catalog="pravega", scope=scope, streams="a,b").load()
    found = both.where(f"_segment = '{scope}/a/0.#epoch.0' AND _offset > 0").select("_stream", "id")
    assert [row._stream for row in found.collect()] == ["a"] and read(found)[0] == 1
    found = both.where(f"_segment = '{scope}/b/0.#epoch.0'")
    assert len(found.collect()) == 2 and read(found)[0] == 1
