"""A stream that is joined with a key-value table reads the keys of each micro-batch only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.client.config import ClientConfig
from tests.scopes import new_scope
from tests.spark_fixtures import registered

MACHINES = 3000
PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
BEYOND_3 = "more keys than the second query may look up"
JOIN = "SELECT s.*, m.allowed FROM STREAM {measured} s {kind} JOIN {machine} m ON m.country = s.country AND m.id = s.id"


def make_machines(spark: SparkSession, scope: str) -> str:
    """Make the key-value table of machines; return its name."""
    name = f"pravega.`{scope}`.machine"
    spark.sql(
        f"CREATE TABLE {name} (country STRING, id INT, allowed DOUBLE) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='country(2), id')"
    )
    spark.sql(f"INSERT INTO {name} SELECT IF(id % 2 = 0, 'de', 'fr'), CAST(id AS INT), 80 FROM range({MACHINES})")
    return name


class Enrichment:
    """A stream of measurements of its own, a table of machines, and queries that join them."""

    def __init__(self, spark: SparkSession, scope: str, directory: Path, machines: str) -> None:
        self.spark, self._directory = spark, directory
        self._stream, self._number = f"measured_{uuid4().hex}", 0
        self.names = {"measured": f"pravega.`{scope}`.{self._stream}", "machine": machines}
        spark.sql(f"CREATE TABLE {self.names['measured']} (country STRING, id INT, temp DOUBLE) USING pravega")

    @contextmanager
    def running(self, text: str, confs: Mapping[str, str] = {}) -> Iterator[Running]:
        """Run a query with confs of its own into a table in memory."""
        self._number += 1
        name = f"{self._stream}_{self._number}"
        before = {key: self.spark.conf.get(key) for key in confs}
        for key, value in confs.items():
            self.spark.conf.set(key, value)
        try:
            stream = self.spark.sql(text.format(**self.names)).writeStream.format("memory").queryName(name)
            query = stream.option("checkpointLocation", str(self._directory / name)).start()
        finally:
            for key, value in before.items():
                self.spark.conf.set(key, value)
        try:
            yield Running(self.spark, query)
        finally:
            query.stop()

    def measure(self, values: str) -> None:
        self.spark.sql(f"INSERT INTO {self.names['measured']} VALUES {values}")

    def allow(self, values: str) -> None:
        self.spark.sql(f"INSERT INTO {self.names['machine']} VALUES {values}")


class Running:
    """A query that runs."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark, self._query = spark, query

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all its rows, once it has read everything."""
        self._query.processAllAvailable()
        found = self._spark.table(f"`{self._query.name}`").collect()
        return sorted((tuple(row) for row in found), key=str)

    @property
    def _plan(self) -> Any:
        return self._query._jsq.streamingQuery().lastExecution().executedPlan()

    def plan(self) -> str:
        return str(self._plan.toString())

    def measured(self) -> int:
        """Return how many measurements its last micro-batch with rows has read."""
        return next(report["numInputRows"] for report in reversed(self._query.recentProgress) if report["numInputRows"])

    def watermark(self) -> str:
        return str(self._query.lastProgress["eventTime"]["watermark"])

    def entries(self) -> int:
        """Return how many entries the scan of a table that read most of them has read in its last micro-batch."""
        return self._measure("numOutputRows")

    def sieved(self) -> int:
        """Return how many rows of that scan did not fulfil conditions, and so did not reach Spark."""
        return self._measure("sievedRows")

    def _measure(self, metric: str) -> int:
        return max(int(scan.metrics().apply(metric).value()) for scan in find_scans(self._plan, "BatchScanExec"))

    def passes(self) -> int:
        """Return how often its last micro-batch has read the measurements."""
        return len(find_scans(self._plan, "MicroBatchScanExec"))


def find_scans(plan: Any, kind: str) -> list[Any]:
    """Return the scans of one kind in a plan, which adaptive execution may have wrapped, and in its subqueries.

    A shuffle that is used again is not looked into: what it reads was read for another part of the plan.
    """
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return find_scans(plan.executedPlan(), kind)
    if name.endswith("QueryStageExec"):
        return find_scans(plan.plan(), kind)
    found = [plan] if name == kind else []
    for parts in (plan.children(), plan.subqueries()):
        found += [scan for number in range(parts.size()) for scan in find_scans(parts.apply(number), kind)]
    return found


@pytest.fixture(scope="module")
def machines(spark: SparkSession, client_config: ClientConfig) -> Iterator[tuple[str, str]]:
    """A scope, and a table of machines there that no test changes."""
    with new_scope(client_config) as name:
        yield name, make_machines(spark, name)


@pytest.fixture
def enrichment(spark: SparkSession, machines: tuple[str, str], tmp_path: Path) -> Enrichment:
    return Enrichment(spark, machines[0], tmp_path, machines[1])


@pytest.fixture
def changing(spark: SparkSession, scope: str, tmp_path: Path) -> Enrichment:
    """With machines of its own."""
    return Enrichment(spark, scope, tmp_path, make_machines(spark, scope))


STEPS: list[tuple[str, str | None, str, list[tuple[Any, ...]]]] = [
    ("keys that match", None, "('de', 2, 97), ('de', 8, 12), ('de', 2, 98)",
     [("de", 2, 97, 80), ("de", 2, 98, 80), ("de", 8, 12, 80)]),
    ("NULL in keys", None, "(NULL, 1, 5), ('de', NULL, 6), ('de', 4, 7), (NULL, NULL, 8)", [("de", 4, 7, 80)]),
    ("no keys that match", None, "('fr', 2, 1), ('fr', 4, 1)", []),
    ("no rows after the filter", None, "('de', 2, -1)", []),
    (BEYOND_3, None, "('de', 2, 70), ('de', 4, 71), ('fr', 1, 72)",
     [("de", 2, 70, 80), ("de", 4, 71, 80), ("fr", 1, 72, 80)]),
    ("a value that has changed", "('de', 2, 50)", "('de', 2, 60)", [("de", 2, 60, 50)]),
    ("a key that is new", "('xx', 9, 70)", "('xx', 9, 61)", [("xx", 9, 61, 70)]),
]  # fmt: skip
"""Rows of the table that are written before a micro-batch, those of the micro-batch, and what an inner join adds."""
FEW = [STEPS[number] for number in (0, 1, 4, 5)]


@pytest.mark.parametrize("steps", [FEW, pytest.param(STEPS, marks=pytest.mark.long)], ids=["few", "all"])
def test_a_micro_batch_reads_its_own_keys(
    changing: Enrichment, steps: list[tuple[str, str | None, str, list[tuple[Any, ...]]]]
) -> None:
    """With the same rows as without the rule, which reads the whole table each time."""
    inner = JOIN.replace("{kind}", "INNER") + " WHERE s.temp > 0"
    turned = (
        "SELECT s.*, m.allowed FROM {machine} WITH ('lookup-keys.max'='3') m JOIN STREAM {measured} s "
        "ON s.country = m.country AND s.id = m.id WHERE s.temp > 0"
    )
    expected: list[tuple[Any, ...]] = []
    with (
        changing.running(inner) as pruned,
        changing.running(inner, {PRUNING: "false"}) as whole,
        changing.running(turned, {"spark.sql.adaptive.enabled": "false"}) as other,
    ):
        for name, allowed, measured, more in steps:
            if allowed is not None:
                changing.allow(allowed)
            changing.measure(measured)
            expected = sorted([*expected, *more], key=str)
            assert whole.rows() == expected and whole.entries() >= MACHINES, name
            for query in (pruned, other):
                assert query.rows() == expected, name
                assert query.measured() == whole.measured() > 0, name
                assert query.plan().count("ReusedExchange") >= 2, query.plan()
            assert pruned.entries() <= 4, name
            assert other.entries() <= 4 or (name == BEYOND_3 and other.entries() >= MACHINES), name


KEEPING: list[tuple[str, list[tuple[Any, ...]]]] = [
    (JOIN.replace("{kind}", "LEFT OUTER"), [("de", 2, 97, 80), ("xx", 9, 1, None), (None, 1, 5, None)]),
    (
        "SELECT s.*, m.allowed FROM {machine} m RIGHT OUTER JOIN STREAM {measured} s "
        "ON s.country = m.country AND s.id = m.id AND m.allowed < s.temp",
        [("de", 2, 97, 80), ("xx", 9, 1, None), (None, 1, 5, None)],
    ),
    (
        "SELECT s.* FROM STREAM {measured} s LEFT SEMI JOIN {machine} m ON m.country = s.country AND m.id = s.id",
        [("de", 2, 97)],
    ),
    (
        "SELECT s.* FROM STREAM {measured} s LEFT ANTI JOIN {machine} m ON m.country = s.country AND m.id = s.id",
        [("xx", 9, 1), (None, 1, 5)],
    ),
]
"""Joins in which all rows of the stream count, and their rows."""


@pytest.mark.parametrize(("text", "expected"), KEEPING, ids=["left", "right", "semi", "anti"])
def test_joins_that_keep_all_rows(enrichment: Enrichment, text: str, expected: list[tuple[Any, ...]]) -> None:
    """They read the keys of the micro-batch, too: once for both key columns, and its rows count once."""
    with enrichment.running(text) as pruned, enrichment.running(text, {PRUNING: "false"}) as whole:
        enrichment.measure("('de', 2, 97), ('xx', 9, 1), (NULL, 1, 5)")
        assert pruned.rows() == whole.rows() == expected
        assert whole.entries() >= MACHINES and pruned.entries() <= 10
        assert pruned.measured() == whole.measured() == 3
        assert whole.passes() == 1 and pruned.passes() == 2


KEYED = "SELECT s.temp, m.allowed FROM {source} s {kind} JOIN {machine} m ON m.country = s.country AND m.id = s.id"
WATERMARK = "(SELECT *, timestamp_seconds(temp) AS at FROM STREAM {measured}) WATERMARK at DELAY OF INTERVAL 1 MINUTE"
WIDE = "(SELECT country, temp, {} AS id FROM STREAM {{measured}})"
LONG, DECIMAL = "id + IF(temp = 12, 4294967296, 0)", "CAST(id + IF(temp = 12, 0.5, 0) AS DECIMAL(14, 1))"
CHANGES = "(SELECT * FROM STREAM {measured} CHANGES FROM VERSION 0)"
SEMI = "(SELECT s.* FROM STREAM {measured} s LEFT SEMI JOIN {machine} m ON m.country = s.country AND m.id = s.id)"
HINTED = "/*+ BROADCAST(m) */"
FAILING = "CAST(20 / (temp - 5) AS INT)"
FILTERED = "(SELECT country, temp, {} AS id FROM STREAM {{measured}} WHERE warmer(temp) > 6)"
SOURCES: list[Any] = [
    (WATERMARK, "INNER", 2, 10),
    pytest.param(WATERMARK, "LEFT OUTER", 2, 10, marks=pytest.mark.long),
    ("(SELECT country, id, warmer(temp) AS temp FROM STREAM {measured})", "INNER", 2, 10),
    (FILTERED.format("id"), "INNER", 2, 10),
    (FILTERED.format(FAILING), "LEFT OUTER", 2, MACHINES // 2),
    (WIDE.format(LONG), "INNER", 1, 10),
    (WIDE.format(LONG), "LEFT OUTER", 2, 10),
    (WIDE.format(DECIMAL), "LEFT ANTI", 2, 10),
    ("(SELECT lower(upper(country)) AS country, temp, 2 * id - id AS id FROM STREAM {measured})", "LEFT SEMI", 2, 10),
    (CHANGES, "INNER", 1, 10),
    pytest.param(CHANGES, "LEFT OUTER", 2, 10, marks=pytest.mark.long),
    (SEMI, "INNER", 2, 10),
    (f"{HINTED} STREAM {{measured}}", "INNER", 2, 10),
    ("once", "INNER", 2, 10),
]
"""Sides of a stream, the kind of join, how often a micro-batch reads its events, and most entries that it reads."""


@pytest.mark.parametrize(("source", "kind", "passes", "most"), SOURCES)
def test_streams_that_are_more_than_columns_and_conditions(
    enrichment: Enrichment, source: str, kind: str, passes: int, most: int
) -> None:
    """The rows are those of a join of batches. No expression fails for a row that a function keeps out."""
    stream = enrichment.spark.sql("SELECT * FROM STREAM {measured}".format(**enrichment.names))
    stream.dropDuplicates().createOrReplaceTempView("once")
    text = KEYED.replace("{kind}", kind).replace("{source}", source.removeprefix(HINTED))
    if source.startswith(HINTED):
        text = text.replace("SELECT", f"SELECT {HINTED}")
    if kind in ("LEFT SEMI", "LEFT ANTI"):
        text = text.replace("m.allowed", "s.id", 1)
    warmer = udf(lambda temp: temp + 1, "double", useArrow=False)
    with registered(enrichment.spark, "warmer", warmer), enrichment.running(text) as query:
        enrichment.measure("('de', 2, 97), ('xx', 9, 1), (NULL, 1, 5), ('de', 4, 12)")
        rows = query.rows()
        enrichment.spark.table(enrichment.names["measured"]).createOrReplaceTempView("once")
        batch = enrichment.spark.sql(text.replace("STREAM ", "").format(**enrichment.names)).collect()
        assert rows == sorted((tuple(row) for row in batch), key=str) != []
        assert query.entries() <= most and query.measured() == 4 and query.passes() == passes


@pytest.mark.parametrize("kind", ["INNER", "LEFT SEMI"])
def test_micro_batches_without_a_match_keep_state_and_watermark(enrichment: Enrichment, kind: str) -> None:
    """Spark leaves the stream's side of such a join unread if it may."""
    source = "(SELECT *, timestamp_seconds(temp) AS at FROM STREAM {measured}) WATERMARK at DELAY OF INTERVAL 0 SECONDS"
    stream = enrichment.spark.sql(f"SELECT * FROM {source}".format(**enrichment.names))
    stream.dropDuplicates(["country", "id"]).createOrReplaceTempView("once")
    text = KEYED.replace("{kind}", kind).replace("{source}", "once")
    text = text.replace("m.allowed", "s.id") if kind == "LEFT SEMI" else text
    with enrichment.running(text) as query:
        assert query.rows() == []
        enrichment.measure("('xx', 9, 1000)")
        assert query.rows() == []
        enrichment.measure("('de', 2, 2000), ('xx', 9, 3)")
        enrichment.measure("('de', 2, 3000), ('de', 4, 3000)")
        assert [row[0] for row in query.rows()] == [2000, 3000]
        assert query.watermark() >= "1970-01-01T00:33"


def test_micro_batches_that_are_too_large(enrichment: Enrichment) -> None:
    """They are larger than what Spark may broadcast, and read the table."""
    inner, left = (JOIN.replace("{kind}", kind) for kind in ("INNER", "LEFT OUTER"))
    with enrichment.running(inner, {BROADCAST: "10"}) as one, enrichment.running(left, {BROADCAST: "10"}) as other:
        enrichment.measure("('de', 2, 97), ('xx', 9, 1)")
        assert one.rows() == [("de", 2, 97, 80)]
        assert other.rows() == [("de", 2, 97, 80), ("xx", 9, 1, None)]
        assert one.entries() >= MACHINES and other.entries() >= MACHINES
