"""Names of scopes and streams as SQL spells them: `_` also means `-`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.scopes import new_scope
from tests.streams import PATIENCE

ONE_SEGMENT = StreamConfiguration(ScalingPolicy("fixed", 0, 0, 1))


def tables(spark: SparkSession, namespace: str, like: str = "") -> list[str]:
    return [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace} {like}").collect()]


@pytest.fixture
def namespace(scope: str) -> str:
    return f"pravega.`{scope}`"


@pytest.fixture
def own(spark: SparkSession, cluster: ClusterInfo) -> Iterator[Callable[..., str]]:
    """A function from confs to the name of another catalog of the session."""
    made: list[str] = []

    def catalog(**confs: str) -> str:
        name = f"names{time.monotonic_ns()}"
        given = {"controller-uri": cluster.controller_uri, **confs}
        given |= {} if cluster.registry_uri is None else {"schema-registry-uri": cluster.registry_uri}
        settings = {f"spark.sql.catalog.{name}.{key}": text for key, text in given.items()}
        settings[f"spark.sql.catalog.{name}"] = "io.github.pysparkpravega.PravegaCatalog"
        for key, text in settings.items():
            spark.conf.set(key, text)
            made.append(key)
        return name

    yield catalog
    for key in made:
        spark.conf.unset(key)


def test_no_server_makes_such_names(pravega: Pravega, scope: str) -> None:
    """If one did, a name with `_` could mean either of two streams."""
    for name in ("a_b", "a_", "_a_b"):
        with pytest.raises(InvalidNameError):
            pravega.controller.create_stream(Stream(scope, name), ONE_SEGMENT)
        with pytest.raises(InvalidNameError):
            pravega.controller.create_scope(name)


def test_scopes(spark: SparkSession, pravega: Pravega, client_config: ClientConfig, own: Callable[..., str]) -> None:
    with new_scope(client_config) as scope:
        assert "-" in scope
        name = scope.replace("-", "_")
        catalog = own(scope=name)
        namespace = f"{catalog}.{name}"
        shown = [row[0] for row in spark.sql(f"SHOW NAMESPACES IN {catalog}").collect()]
        assert name in shown and scope not in shown
        with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
            spark.sql(f"CREATE NAMESPACE {namespace}")
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE NAMESPACE {namespace}").collect()}
        assert described["Namespace Name"] == name and described["Location"] == scope
        before = spark.catalog.currentCatalog()
        spark.sql(f"USE {catalog}")
        try:
            assert spark.catalog.currentDatabase() == name
            spark.sql("CREATE TABLE of_day (id INT) USING pravega")
            spark.sql("INSERT INTO of_day VALUES (1)")
            assert [table.name for table in spark.catalog.listTables()] == ["of_day"]
            assert spark.catalog.tableExists("of_day") and spark.catalog.databaseExists(namespace)
            assert [column.name for column in spark.catalog.listColumns("of_day")] == ["id"]
            spark.sql("REFRESH TABLE of_day")
            assert spark.table(f"{catalog}.`{scope}`.`of-day`").collect() == [Row(id=1)]
        finally:
            spark.sql(f"USE {before}")
        assert "of-day" in pravega.controller.list_streams(scope)
        with pytest.raises(PySparkException, match="SCHEMA_NOT_EMPTY"):
            spark.sql(f"DROP NAMESPACE {namespace}")
        spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
        assert not pravega.controller.scope_exists(scope)
        spark.sql(f"CREATE NAMESPACE {namespace}")
        assert pravega.controller.scope_exists(scope)


def test_names_as_they_are(
    spark: SparkSession, pravega: Pravega, scope: str, namespace: str, own: Callable[..., str]
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.a_b (id INT) USING pravega")
    exact = f"{own(names='exact')}.`{scope}`"
    assert tables(spark, exact) == ["a-b"]
    assert spark.table(f"{exact}.`a-b`").columns == ["id"]
    assert not spark.catalog.tableExists(f"{exact}.a_b")
    with pytest.raises(PySparkException, match="PRAVEGA_INVALID_NAME.*a_b.*Use for example `a-b`"):
        spark.sql(f"CREATE TABLE {exact}.a_b (id INT) USING pravega")
    with pytest.raises(PySparkException, match="PRAVEGA_INVALID_NAME.*x_y"):
        spark.sql(f"CREATE NAMESPACE {exact.partition('.')[0]}.x_y")
    # Options name streams as they are, whatever the catalog does.
    by_options = spark.read.format("pravega").option("catalog", "pravega").option("scope", scope)
    assert by_options.option("stream", "a-b").load().columns[0] == "id"
    with pytest.raises(PySparkException, match="PRAVEGA_STREAM_NOT_FOUND"):
        by_options.option("stream", "a_b").load()


def test_errors_name_what_is_written_and_the_stream(spark: SparkSession, scope: str, namespace: str) -> None:
    with pytest.raises(PySparkException, match=rf"Table {namespace}\.a_b \(stream {scope}/a-b\): .*'nonsense'"):
        spark.sql(f"CREATE TABLE {namespace}.a_b (id INT) USING pravega TBLPROPERTIES ('nonsense'='x')")
    spark.sql(f"CREATE TABLE {namespace}.a_b (id INT) USING pravega")
    with pytest.raises(PySparkException, match=rf"Table {namespace}\.a_b \(stream {scope}/a-b\): .*'limt'"):
        spark.read.option("limt", "x").table(f"{namespace}.a_b").collect()
    with pytest.raises(PySparkException, match=rf"Table {namespace}\.`a-b`: .*'limt'"):
        spark.read.option("limt", "x").table(f"{namespace}.`a-b`").collect()
    with pytest.raises(PySparkException, match=rf"DELETE is not possible on {namespace}\.a_b:"):
        spark.sql(f"DELETE FROM {namespace}.a_b WHERE id = 1")
    plan = spark.sql(f"EXPLAIN SELECT * FROM {namespace}.a_b").first()[0]
    assert f"{namespace}.a_b (avro)" in plan


def test_parts_of_streams_and_streams_that_options_name(
    spark: SparkSession, client_config: ClientConfig, scope: str, namespace: str
) -> None:
    properties = "'format'='debezium-json', 'primary-key'='id'"
    spark.sql(f"CREATE TABLE {namespace}.of_rows (id INT) USING pravega TBLPROPERTIES ({properties})")
    changelog = f"{namespace}.`of_rows$changelog`"
    assert spark.table(changelog).columns[:3] == ["op", "before", "after"]
    assert f"{changelog} (debezium-json)" in spark.sql(f"EXPLAIN SELECT * FROM {changelog}").first()[0]
    with pytest.raises(PySparkException, match=rf"`of_rows\$changelog` is a part of {namespace}\.of_rows"):
        spark.sql(f"DROP TABLE {changelog}")
    properties = "'format'='json', 'framing'='none', 'dead-letter'='bad_ones'"
    spark.sql(f"CREATE TABLE {namespace}.all_events (id INT) USING pravega TBLPROPERTIES ({properties})")
    with connect(client_config) as pravega:
        batch = pa.record_batch([pa.array([b"?", b'{"id": 1}'], pa.binary())], names=["event"])
        insert(pravega, raw_table(Stream(scope, "all-events")), batch)
    assert spark.table(f"{namespace}.all_events").collect() == [Row(id=1)]
    assert spark.table(f"{namespace}.bad_ones").count() == 1
    assert tables(spark, namespace) == ["all_events", "bad_ones", "of_rows"]


def test_creation_that_fails_leaves_nothing(spark: SparkSession, pravega: Pravega, scope: str, namespace: str) -> None:
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE {namespace}.a_b USING pravega AS SELECT 1 / (id - 5) AS x FROM range(10)")
    assert tables(spark, namespace) == []
    spark.sql(f"CREATE TABLE {namespace}.a_b USING pravega AS SELECT id FROM range(10)")
    assert spark.table(f"{namespace}.a_b").count() == 10
    spark.sql(f"ALTER TABLE {namespace}.a_b SET TBLPROPERTIES ('routing-key'='id')")
    spark.sql(f"ALTER TABLE {namespace}.a_b ADD COLUMN name STRING")
    assert spark.table(f"{namespace}.a_b").columns == ["id", "name"]
    assert spark.table(f"{namespace}.`a-b`").columns == ["id", "name"]
    assert list(pravega.registry(scope).groups()) == ["a-b"]


def test_a_streaming_query_goes_on_under_the_other_spelling(
    spark: SparkSession, scope: str, namespace: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.from_here (id INT) USING pravega")

    def run(source: str, target: str) -> None:
        writer = spark.readStream.table(f"{namespace}.{source}").writeStream.option("routing-key", "id")
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query = writer.toTable(f"{namespace}.{target}")
        try:
            assert query.awaitTermination(PATIENCE)
        finally:
            query.stop()

    spark.sql(f"INSERT INTO {namespace}.from_here VALUES (1)")
    run("`from-here`", "`to-there`")
    spark.sql(f"INSERT INTO {namespace}.from_here VALUES (2)")
    run("from_here", "to_there")
    assert sorted(row.id for row in spark.table(f"{namespace}.to_there").collect()) == [1, 2]
    assert tables(spark, namespace) == ["from_here", "to_there"]
    assert "routing-key=id" in str(spark.sql(f"DESCRIBE EXTENDED {namespace}.to_there").collect())
