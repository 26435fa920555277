"""A checkpoint is of one cluster: another one at the same address, which counts segments from 0 as well, is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.state import ClusterInfo
from tests.streams import run_available

Read = Callable[[SparkSession, str], DataFrame]

READS: dict[str, Read] = {
    "rows": lambda spark, scope: spark.readStream.table(f"pravega.`{scope}`.a"),
    "rows of several streams": lambda spark, scope: (
        spark.readStream.format("pravega").option("catalog", "pravega").option("scope", scope)
        .option("streams", "a,b").load()
    ),
    "rows appended": lambda spark, scope: spark.readStream.format("pravega").option("catalog", "pravega")
    .option("scope", scope).option("stream", "a").option("changes", "true").load(),
    "changes of rows": lambda spark, scope: spark.readStream.format("pravega").option("catalog", "pravega")
    .option("scope", scope).option("stream", "d").option("changes", "true").load(),
}  # fmt: skip
IN_BRIEF = ("rows", "changes of rows")


@pytest.fixture
def scope(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    spark.sql(f"CREATE NAMESPACE pravega.`{fresh_name}`")
    for table in ("a", "b"):
        spark.sql(f"CREATE TABLE pravega.`{fresh_name}`.{table} (id BIGINT) USING pravega")
    debezium = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    spark.sql(f"CREATE TABLE pravega.`{fresh_name}`.d (id BIGINT, v STRING) USING pravega {debezium}")
    yield fresh_name
    spark.sql(f"DROP NAMESPACE pravega.`{fresh_name}` CASCADE")


def insert(spark: SparkSession, scope: str, number: int) -> None:
    for table, values in (("a", f"({number})"), ("b", f"({number})"), ("d", f"({number}, 'x')")):
        spark.sql(f"INSERT INTO pravega.`{scope}`.{table} VALUES {values}")


def run(spark: SparkSession, read: Read, scope: str, checkpoint: Path) -> None:
    writer = read(spark, scope).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination(100)


def rewrite(checkpoint: Path, change: Callable[[str], str]) -> int:
    """Rewrite the text of the newest offset; return how many times of segments it had."""
    newest = max(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )
    version, metadata, *offsets = newest.read_text().split("\n")
    changed = [change(text) for text in offsets]
    newest.write_text("\n".join([version, metadata, *changed]))
    for sums in checkpoint.rglob(".*.crc"):
        sums.unlink()
    return sum(text.count('"created"') for text in offsets)


@pytest.mark.parametrize("kind", READS)
def test_a_cluster_that_is_gone(spark: SparkSession, scope: str, tmp_path: Path, kind: str) -> None:
    read, checkpoint = READS[kind], tmp_path / "checkpoint"
    insert(spark, scope, 1)
    run(spark, read, scope, checkpoint)
    # A checkpoint of a release that did not keep the time goes on, and has it from its next offset on.
    assert rewrite(checkpoint, lambda text: re.sub(r', "created": \{"\d+": \d+\}', "", text)) >= 1
    insert(spark, scope, 2)
    run(spark, read, scope, checkpoint)
    times: list[int] = []

    def make_older(text: str) -> str:
        """What the same job has read from a cluster that began a second earlier."""
        times.extend(int(time) for time in re.findall(r'"created": \{"0": (\d+)\}', text))
        return re.sub(r'"created": \{"0": (\d+)\}', lambda found: f'"created": {{"0": {int(found[1]) - 1000}}}', text)

    assert rewrite(checkpoint, make_older) == len(times) >= 1
    insert(spark, scope, 3)
    with pytest.raises(StreamingQueryException) as caught:
        run(spark, read, scope, checkpoint)
    text = str(caught.value)
    assert "PRAVEGA_CHECKPOINT_MISMATCH" in text
    assert len(set(re.findall(r"was created at (\S+ [\d:.+]+)", text))) == 2
    assert "it is in another cluster, or in one that has lost its data" in text
    assert ("So it is with b." in text) == (kind == "rows of several streams")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in IN_BRIEF else pytest.mark.long) for kind in READS]
)
def test_a_cluster_that_was_restored(spark: SparkSession, scope: str, tmp_path: Path, kind: str) -> None:
    """Its segments have their times, but a query that had read further than the backup cannot go on."""
    read, checkpoint = READS[kind], tmp_path / "checkpoint"
    insert(spark, scope, 1)
    run(spark, read, scope, checkpoint)
    rewrite(
        checkpoint,
        lambda text: re.sub(r'("positions": \{"0": )(\d+)', lambda found: f"{found[1]}{int(found[2]) + 500}", text),
    )
    with pytest.raises(StreamingQueryException, match="PRAVEGA_CHECKPOINT_MISMATCH"):
        run(spark, read, scope, checkpoint)


def test_two_clusters_in_turn(spark: SparkSession, cluster: ClusterInfo, fresh_name: str, tmp_path: Path) -> None:
    """The first one is stopped. In the second, one stream reaches further than the checkpoint, one has no event."""

    def fill(found: ClusterInfo, **numbers: int) -> None:
        servers = {"controller_uri": found.controller_uri, "schema_registry_uri": found.registry_uri}
        with connect(**servers) as api:
            api.create_namespace(fresh_name)
            for name, number in numbers.items():
                table = api.create_table(f"`{fresh_name}`.{name}", pa.schema([("id", pa.int64())]))
                table.append(pa.table({"id": range(number)}))

    def count(found: ClusterInfo, name: str) -> int:
        options = {"controller-uri": found.controller_uri, "schema-registry-uri": found.registry_uri}
        stream = spark.readStream.format("pravega").options(**options, scope=fresh_name, stream=name)
        checkpoint = tmp_path / f"checkpoint-{name}"
        return sum(run["numInputRows"] for run in run_available(stream.load().writeStream.format("noop"), checkpoint))

    with LocalCluster.start(tmp_path / "first", storage=tmp_path / "storage", end_with_parent=True) as first:
        fill(first.info, further=20, empty=20)
        assert [count(first.info, name) for name in ("further", "empty", "further")] == [20, 20, 0]
    fill(cluster, further=30, empty=0)
    try:
        for name in ("further", "empty"):
            with pytest.raises(StreamingQueryException, match="PRAVEGA_CHECKPOINT_MISMATCH") as caught:
                count(cluster, name)
            text = str(caught.value)
            assert len(set(re.findall(r"was created at (\S+ [\d:.+]+)", text))) == 2
            assert "it is in another cluster, or in one that has lost its data" in text
            assert "Start the query with a new checkpoint location." in text
    finally:
        spark.sql(f"DROP NAMESPACE pravega.`{fresh_name}` CASCADE")
