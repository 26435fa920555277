"""Modes for bad events through Spark: options, properties, what SQL sees, and the number in Spark's UI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

GOOD = [b'{"k":%d,"v":"%d"}' % (n, n) for n in range(10)]
BAD = [b"", b"?", b'{"k":null}', b'{"k":1}{"k":2}', b'{"k":1,"v":7}']


@pytest.fixture
def table(spark: SparkSession, client_config: ClientConfig, scope: str) -> str:
    """A table with a NOT NULL column, where every other event is bad until there are no more."""
    name = f"pravega.`{scope}`.events"
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING) TBLPROPERTIES ('format'='json', 'framing'='none')")
    payloads = [each for pair in zip(BAD, GOOD, strict=False) for each in pair] + GOOD[len(BAD) :]
    with connect(client_config) as pravega:
        batch = pa.record_batch([pa.array(payloads, pa.binary())], names=["event"])
        insert(pravega, raw_table(Stream(scope, "events")), batch)
    return name


def select(spark: SparkSession, table: str, what: str, rest: str = "", **options: str) -> list[Row]:
    given = ", ".join(f"'{key.replace('_', '-')}'='{value}'" for key, value in options.items())
    with_options = f" WITH ({given})" if given else ""
    return spark.sql(f"SELECT {what} FROM {table}{with_options} {rest}").collect()


def test_failfast_is_the_default(spark: SparkSession, table: str, scope: str) -> None:
    for options in ({}, {"mode": "FAILFAST"}):
        with pytest.raises(PySparkException) as caught:
            select(spark, table, "*", **options)
        place = f"The event at offset 0 of segment {scope}/events/0.#epoch.0"
        assert str(caught.value).startswith(f"[PRAVEGA_MALFORMED_EVENT] {place} cannot be decoded: it is empty")
        assert caught.value.getMessage() == str(caught.value)


def test_permissive(spark: SparkSession, table: str) -> None:
    found = select(spark, table, "k, v, _error, _raw, _offset", "ORDER BY _offset", mode="PERMISSIVE")
    assert len(found) == 15
    assert [row._raw for row in found[0:10:2]] == BAD
    assert all((row.k, row.v) == (None, None) and row._error for row in found[0:10:2])
    good = [*found[1:10:2], *found[10:]]
    assert [(row.k, row.v, row._error) for row in good] == [(n, str(n), None) for n in range(10)]
    # k is NOT NULL in the table, which Spark must not believe here.
    assert select(spark, table, "count(*), count(k), count(v)", mode="permissive") == [(15, 10, 10)]
    assert len(select(spark, table, "*", "WHERE k IS NULL", mode="permissive")) == 5
    assert select(spark, table, "coalesce(k, -1) AS k", "ORDER BY k LIMIT 1", mode="permissive") == [Row(k=-1)]
    assert len(spark.read.option("mode", "permissive").table(table).collect()) == 15
    assert not spark.table(table).schema["k"].nullable


def test_dropmalformed(spark: SparkSession, table: str) -> None:
    assert [row.k for row in select(spark, table, "k", "ORDER BY k", mode="dropmalformed")] == list(range(10))
    assert select(spark, table, "count(*) AS n", mode="dropmalformed") == [Row(n=10)]
    assert select(spark, table, "count(v) AS n", mode="dropmalformed") == [Row(n=10)]
    for limit in (1, 7, 10, 20):
        assert len(select(spark, table, "v", f"LIMIT {limit}", mode="dropmalformed")) == min(limit, 10)


def metric(spark: SparkSession, table: str, what: str, **options: str) -> int:
    """The number of bad events that the scan of a query told Spark, when all of its rows were read."""
    reader = spark.read
    for key, value in options.items():
        reader = reader.option(key.replace("_", "-"), value)
    frame = reader.table(table).selectExpr(what)
    frame.collect()
    (scan,) = [node for node in nodes(frame._jdf.queryExecution().executedPlan()) if "Scan" in node.nodeName()]
    return int(scan.metrics().apply("badEvents").value())


def nodes(plan: JavaObject) -> list[JavaObject]:
    if plan.nodeName().startswith("AdaptiveSparkPlan"):
        plan = plan.executedPlan()
    if plan.nodeName().endswith("QueryStage"):
        plan = plan.plan()
    found = [plan]
    children = plan.children()
    for index in range(children.size()):
        found += nodes(children.apply(index))
    return found


def test_the_number_of_bad_events_is_a_metric(spark: SparkSession, table: str) -> None:
    assert metric(spark, table, "k", mode="dropmalformed") == 5
    assert metric(spark, table, "_error", mode="permissive") == 5
    assert metric(spark, table, "_offset", mode="failfast") == 0
    assert metric(spark, table, "k", dead_letter="letters") == 5
    assert metric(spark, table, "count(*)", mode="permissive") == 5


def metrics_in_the_ui(spark: SparkSession) -> dict[str, str | None]:
    """The metrics of the last query in the SQL tab: what it shows is made by classes of ours, loaded by their names."""
    spark._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[union-attr]
    executions = store.executionsList()
    execution = executions.apply(executions.size() - 1)
    texts = store.executionMetrics(execution.executionId())
    shown = {}
    for index in range(execution.metrics().size()):
        metric = execution.metrics().apply(index)
        found = texts.get(metric.accumulatorId())
        shown[metric.name()] = found.get() if found.isDefined() else None
    return shown


def test_the_ui_shows_the_number(spark: SparkSession, table: str) -> None:
    spark.read.option("mode", "dropmalformed").table(table).select("k").collect()
    assert metrics_in_the_ui(spark)["number of events that cannot be decoded"] == "5"


def test_dead_letters_are_a_table(spark: SparkSession, table: str, scope: str) -> None:
    # To sort, Spark may run a scan twice, and dead letters are written at least once: no ORDER BY here.
    found = select(spark, table, "k", dead_letter="letters")
    assert sorted(row.k for row in found) == list(range(10))
    letters = f"pravega.`{scope}`.letters"
    rows = spark.table(letters).orderBy("offset").collect()
    assert [bytes(row.event) for row in rows] == BAD
    assert rows[0].asDict() | {"written_at": None} == {
        "stream": f"{scope}/events",
        "segment": f"{scope}/events/0.#epoch.0",
        "offset": 0,
        "reason": "it is empty",
        "encoding_id": None,
        "event": bytearray(),
        "written_at": None,
    }
    # It is a table like others: properties, rows of one's own, and the way back.
    spark.sql(f"ALTER TABLE {letters} SET TBLPROPERTIES ('comment'='what was bad')")
    assert spark.table(letters).count() == 5
    spark.sql(f"INSERT INTO {table} SELECT 99, reason FROM {letters} WHERE reason LIKE '%NOT NULL%'")
    assert [row.v for row in select(spark, table, "v", "WHERE k = 99", mode="dropmalformed")] == [rows[2].reason]
    spark.sql(f"DROP TABLE {letters}")


def test_properties_and_conf(spark: SparkSession, table: str, scope: str) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('mode'='permissive')")
    assert select(spark, table, "count(*), count(k)") == [(15, 10)]
    assert select(spark, table, "count(*) AS n", mode="dropmalformed") == [Row(n=10)]
    assert "'mode' = 'permissive'" in spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]
    # Rows must still fit the declared columns.
    with pytest.raises(PySparkException, match="NOT_NULL|NULL"):
        spark.sql(f"INSERT INTO {table} VALUES (NULL, 'x')")
    with pytest.raises(PySparkException, match="contradicts 'dead-letter'='letters'"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('dead-letter'='letters')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('mode')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('dead-letter'='letters')")
    assert select(spark, table, "count(k) AS n") == [Row(n=10)]
    assert spark.table(f"pravega.`{scope}`.letters").count() == 5
    with pytest.raises(PySparkException, match="'mode'.*expected one of failfast, permissive, dropmalformed"):
        select(spark, table, "k", mode="ignore")
    with pytest.raises(PySparkException, match="the stream that is read"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.t (a INT) TBLPROPERTIES ('dead-letter'='t')")


def test_without_catalog(
    spark: SparkSession, table: str, scope: str, cluster: ClusterInfo, make_reader: Callable[..., Any]
) -> None:
    assert make_reader(mode="dropmalformed").load().count() == 10
    permissive = make_reader(mode="permissive").load()
    assert {"_error", "_raw", "_encoding_id", "_schema_version"} < set(permissive.columns)
    assert [row._error is None for row in permissive.orderBy("_offset").collect()] == [False, True] * 5 + [True] * 5
    assert make_reader(dead_letter="letters").load().count() == 10
    assert spark.table(f"pravega.`{scope}`.letters").count() == 5
    assert "_raw" not in make_reader().load().columns
    with pytest.raises(PySparkException, match="declares k NOT NULL"):
        make_reader(mode="permissive", format="json", framing="none").schema("k INT NOT NULL").load().collect()
    given = make_reader(mode="permissive", format="json", framing="none").schema("v STRING, _error STRING, _raw BINARY")
    assert sorted(row._raw for row in given.load().collect() if row._error) == sorted(
        [bytearray(each) for each in BAD if each != b'{"k":null}']
    )


@pytest.fixture
def make_reader(spark: SparkSession, scope: str, cluster: ClusterInfo) -> Callable[..., Any]:
    """A function from options to a reader of the stream without the catalog."""

    def make(**options: str) -> Any:
        reader = spark.read.format("pravega").option("scope", scope).option("stream", "events")
        reader = reader.option("controller-uri", cluster.controller_uri)
        reader = reader.option("schema-registry-uri", str(cluster.registry_uri))
        for key, value in options.items():
            reader = reader.option(key.replace("_", "-"), value)
        return reader

    return make
