"""How many calls of the servers a small statement takes, once the service knows the table."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from bench.traced import make_traced_python
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.local.state import ClusterInfo

TIMED = ("checkTransactionState", "pingTransaction")
"""Calls whose number depends on time: until the server has committed, and to keep a transaction alive."""
LOADED = Counter({"getStreamConfiguration": 1, "GET group": 1, "GET schemas": 1, "read an attribute of": 1})
"""A table that is loaded: all that another program may have changed, and whether it is still the same stream."""
PLANNED = Counter({"read table": 2, "look up": 1})
"""A scan: the ends of all segments between two looks at the commit log."""


class Traced:
    """The tables of a catalog whose service tells of its calls."""

    def __init__(self, spark: SparkSession, catalog: str, trace: Path) -> None:
        self._spark = spark
        self._trace = trace
        self.catalog = catalog

    def run(self, statement: str) -> tuple[list[Any], Counter[str], Counter[str]]:
        """Return the rows of a statement, the requests of the service, and the calls of the servers."""
        rows: list[Any] = []
        requests, calls = self.during(lambda: rows.extend(map(tuple, self._spark.sql(statement).collect())))
        return rows, requests, calls

    def during(self, action: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
        """Return the requests of the service, and the calls of the servers, while something is done."""
        before = len(self._trace.read_text())
        action()
        lines = [json.loads(line) for line in self._trace.read_text()[before:].splitlines()]
        texts = [re.sub(r" took [0-9.]+ ms$", "", text) for _, _, _, text in lines if " took " in text]
        requests = Counter(text.strip("'") for text in texts if text.startswith("'"))
        calls = Counter(_kind(text) for text in texts if not text.startswith("'"))
        return requests, Counter({kind: count for kind, count in calls.items() if kind not in TIMED})


def _kind(text: str) -> str:
    """Name a call without what differs between streams."""
    text = re.sub(r"( \d+ segments)? at \S+$", "", text)
    text = re.sub(r"^(\w+) to key-value table .*|^(\w+) key-value table .*", r"\1\2 table", text)
    text = re.sub(r"/v1/groups/[^/]+$", "group", text)
    return re.sub(r"/v1/groups/[^/]+/(schemas/schema/\d+|encodings/\d+|\w+)$", r"\1", text)


@pytest.fixture
def traced(spark: SparkSession, cluster: ClusterInfo, tmp_path: Path) -> Iterator[Traced]:
    """A catalog of the session beside the others, with a service of its own."""
    python, trace = make_traced_python(tmp_path)
    name = f"traced{time.monotonic_ns()}"
    confs = {
        "": "io.github.pysparkpravega.PravegaCatalog",
        ".controller-uri": cluster.controller_uri,
        ".schema-registry-uri": cluster.registry_uri,
        ".python": str(python),
    }
    for key, value in confs.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    yield Traced(spark, name, trace)
    for key in confs:
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_calls_of_small_statements(traced: Traced, pravega: Pravega, scope: str) -> None:
    table = f"{traced.catalog}.`{scope}`.of_a_day"
    properties = "'scaling.min-segments'='4'"
    traced.run(f"CREATE TABLE {table} (id BIGINT, name STRING) USING pravega TBLPROPERTIES ({properties})")
    insert, count = f"INSERT INTO {table} VALUES (1, 'one')", f"SELECT count(*) FROM {table}"
    traced.run(insert)
    traced.run(count)

    for statement, schemas in {
        f"SELECT * FROM {table} LIMIT 10": 1,
        f"SELECT name, count(*) FROM {table} GROUP BY name": 1,
        f"SELECT name FROM {table} WHERE id = 1": 1,
        f"SELECT count(*) FROM {table} WHERE id = 1": 1,
        f"SELECT count(*) FROM {table} WHERE _offset >= 0": 0,
        count: 0,
    }.items():
        rows, requests, calls = traced.run(statement)
        assert len(rows) == 1
        asked = {"take_aggregation": 1} if "count" in statement else {}  # which calls no server
        asked |= {"take_conditions": 1} if "WHERE" in statement else {}  # nor does this
        assert requests == {"load_table": 1, "plan_scan": 1, **asked}, statement
        of_log = {"look up": 1} if statement == count else {}  # whether anything was taken from the stream
        assert calls == LOADED + PLANNED + Counter({"GET encodings/0": schemas, **of_log}), statement

    _, requests, calls = traced.run(insert)
    assert requests == {"load_table": 1, "begin_insert": 1, "commit_insert": 1}
    of_insert = {
        "getStreamConfiguration": 1,
        "GET group": 1,
        "GET schemas": 1,
        "read an attribute of": 1,
        "GET encodings/0": 1,
        "read table": 1,
        "write table": 2,
    }
    assert calls == of_insert | {"getCurrentSegments": 1, "look up": 2}

    _, requests, calls = traced.run(f"INSERT INTO {table} SELECT id, 'many' FROM range(0, 2, 1, 2)")
    assert requests == {"load_table": 1, "begin_insert": 1, "commit_insert": 1}
    del calls["look up"]  # how often the commit looks depends on time
    assert calls == of_insert | {"createTransaction": 1, "seal": 1, "commitTransaction": 1}


def test_calls_of_a_stream_without_a_schema(traced: Traced, pravega: Pravega, scope: str) -> None:
    """A scope may have thousands of them, which SHOW TABLE EXTENDED loads."""
    pravega.controller.create_stream(Stream(scope, "raw"), StreamConfiguration())
    _, requests, calls = traced.run(f"DESCRIBE TABLE {traced.catalog}.`{scope}`.raw")
    assert requests == {"load_table": 1}
    assert calls["getStreamConfiguration"] == calls["GET group"] == calls["read an attribute of"] == 1
    assert not calls["GET schemas"] and not calls["look up"]


def test_calls_of_a_view(traced: Traced, scope: str) -> None:
    """Only a name that no stream has is looked for elsewhere. A call that finds no stream is not counted.

    The scope's table is asked for several streams of the name, and then for a view.
    """
    table = f"{traced.catalog}.`{scope}`.t"
    traced.run(f"CREATE TABLE {table} (id BIGINT) USING pravega")
    traced.run(f"CREATE VIEW {table}_of_all AS SELECT * FROM {table}")
    traced.run(f"INSERT INTO {table} VALUES (1)")
    traced.run(f"SELECT * FROM {table}_of_all")
    rows, requests, calls = traced.run(f"SELECT * FROM {table}_of_all")
    assert rows == [(1,)] and requests == {"load_table": 2, "plan_scan": 1}
    view = Counter({"getKeyValueTableConfiguration": 1, "read table": 2})
    assert calls == LOADED + PLANNED + Counter({"GET encodings/0": 1}) + view


def test_a_query_that_was_analyzed_earlier_loads_its_tables_again(
    traced: Traced, spark: SparkSession, scope: str
) -> None:
    """Spark loads tables before each run of a query, but for one that follows the analysis at once."""
    table, by_others = f"{traced.catalog}.`{scope}`.t", f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {by_others} (id BIGINT) USING pravega")
    spark.sql(f"INSERT INTO {by_others} VALUES (1)")
    twice = f"SELECT a.id FROM {table} a JOIN {table} b ON a.id = b.id"
    traced.run(twice)  # the first one may take longer than a load stays fresh
    _, requests, _ = traced.run(twice)
    assert requests == {"load_table": 1, "plan_scan": 2, "take_conditions": 2}

    rows = spark.sql(twice)
    spark.sql(f"INSERT INTO {by_others} VALUES (2)")
    assert rows.count() == 2
    spark.sql(f"INSERT INTO {by_others} VALUES (3)")
    counts: list[int] = []
    requests, _ = traced.during(lambda: counts.append(rows.count()))
    assert requests["load_table"] == 1 and counts == [3]
    for known in (4, 5):  # at once, so that a load of the run before is still fresh
        spark.sql(f"INSERT INTO {by_others} VALUES ({known})")
        assert rows.count() == known

    stale = spark.table(table)
    spark.sql(f"DROP TABLE {by_others}")
    spark.sql(f"CREATE TABLE {by_others} (id BIGINT) USING pravega")
    with pytest.raises(AnalysisException, match="TABLE_ID_MISMATCH|TABLE_CHANGED|INCOMPATIBLE"):
        stale.collect()


def test_calls_of_a_condition_on_the_routing_key(traced: Traced, scope: str) -> None:
    """The promise is looked up once more, after the segments were measured."""
    table = f"{traced.catalog}.`{scope}`.t"
    properties = "'routing-key'='id', 'scaling.min-segments'='4'"
    traced.run(f"CREATE TABLE {table} (id BIGINT) USING pravega TBLPROPERTIES ({properties})")
    traced.run(f"INSERT INTO {table} SELECT id FROM range(100)")
    statement = f"SELECT id FROM {table} WHERE id = 7"
    _, _, calls = traced.run(statement)
    assert calls["getCurrentSegments"] > 0  # which also tell the segments' key ranges, once
    rows, requests, calls = traced.run(statement)
    assert rows == [(7,)] and requests == {"load_table": 1, "take_conditions": 1, "plan_scan": 1}
    assert calls == LOADED + PLANNED + Counter({"GET encodings/0": 1, "getStreamConfiguration": 1})


@pytest.mark.parametrize("change", ["scaled", "made again"])
def test_what_another_program_changes_is_seen_at_once(
    traced: Traced, spark: SparkSession, pravega: Pravega, scope: str, change: str
) -> None:
    table, stream = f"{traced.catalog}.`{scope}`.t", Stream(scope, "t")
    create = f"CREATE TABLE pravega.`{scope}`.t (id BIGINT) USING pravega"
    spark.sql(create)
    spark.sql(f"INSERT INTO pravega.`{scope}`.t VALUES (1)")
    for _ in range(2):
        assert traced.run(f"SELECT id FROM {table}")[0] == [(1,)]
    if change == "scaled":
        (segment,) = pravega.controller.current_segments(stream)
        pravega.controller.scale_stream(stream, [segment.segment_id], [(0, 0.5), (0.5, 1)])
    else:
        spark.sql(f"DROP TABLE pravega.`{scope}`.t")
        spark.sql(create + " TBLPROPERTIES ('scaling.min-segments'='3')")
    spark.sql(f"INSERT INTO pravega.`{scope}`.t SELECT 2 FROM range(10)")
    found, _, calls = traced.run(f"SELECT id FROM {table}")
    assert sorted(found) == [(1,)] * (change == "scaled") + [(2,)] * 10
    assert calls["getSegmentsBetween"] == 1
    assert sorted(traced.run(f"SELECT id FROM {table}")[0]) == sorted(found)


def test_calls_of_a_micro_batch_of_changes(traced: Traced, spark: SparkSession, scope: str) -> None:
    """The controller has said before that these segments make a position of the stream, and tells no news of it."""
    table, by_others = f"{traced.catalog}.`{scope}`.changing", f"pravega.`{scope}`.changing"
    spark.sql(f"CREATE TABLE {by_others} (id BIGINT) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")
    spark.sql(f"INSERT INTO {by_others} VALUES (0)")
    query = spark.readStream.changes(table).writeStream.format("noop").start()

    def insert_and_read() -> None:
        spark.sql(f"INSERT INTO {by_others} VALUES (1)")
        query.processAllAvailable()

    try:
        query.processAllAvailable()
        insert_and_read()
        requests, calls = traced.during(insert_and_read)
    finally:
        query.stop()
    assert requests["plan_micro_batch"] == 1 and requests["end_of_micro_batch"]
    # For the state of an INSERT that is being committed at this moment, a token is needed.
    assert set(calls) - {"getDelegationToken"} == {"look up", "read table"}


def test_calls_of_a_lookup_join(traced: Traced, spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """The keys go to the service once: it has said before that it needs the names of the files of remembered rows."""
    events, by_others = f"pravega.`{scope}`.events", f"pravega.`{scope}`.rows"
    properties = "'format'='debezium-json', 'primary-key'='id', 'scaling.min-segments'='2'"
    spark.sql(f"CREATE TABLE {events} (id BIGINT) USING pravega")
    spark.sql(f"CREATE TABLE {by_others} (id BIGINT, n BIGINT) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {by_others} SELECT id, 7 FROM range(1000)")
    folder = (tmp_path / "rows").as_uri()
    remembered = f"{traced.catalog}.`{scope}`.rows WITH ('current-rows.remembered-in'='{folder}')"
    assert traced.run(f"SELECT count(n) FROM {remembered}")[0] == [(1000,)]
    looked_up: list[tuple[Any, ...]] = []
    rows = spark.sql(f"SELECT e.id, r.n FROM STREAM {events} e JOIN {remembered} r ON r.id = e.id")
    query = rows.writeStream.foreachBatch(lambda batch, _: looked_up.extend(map(tuple, batch.collect()))).start()

    def insert_and_look_up() -> None:
        spark.sql(f"INSERT INTO {events} VALUES (1), (2), (1001)")
        query.processAllAvailable()

    try:
        query.processAllAvailable()
        insert_and_look_up()
        assert sorted(looked_up) == [(1, 7), (2, 7)]
        spark.sql(f"UPDATE {by_others} SET n = 8 WHERE id = 2")
        requests, _ = traced.during(insert_and_look_up)
    finally:
        query.stop()
    assert sorted(looked_up) == [(1, 7), (1, 7), (2, 7), (2, 8)]
    assert requests["plan_scan"] == 3  # to learn whether keys can be looked up, for Spark's plan, and with the keys
