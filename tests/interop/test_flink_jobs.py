"""Jobs of Flink with checkpoints: Spark goes on where one ended, and reads what one has written exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.interop.flink import Flink, FlinkSession, wait_for
from tests.interop.flink_connector import provide_connector
from tests.streams import ParquetSink, into_memory

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

COPY = """EXECUTE STATEMENT SET BEGIN
    INSERT INTO once SELECT n FROM numbers;
    INSERT INTO early SELECT n FROM numbers;
END"""
"""One job with two sinks: `early` shows at once what it has read, `once` after the next checkpoint."""


class Numbers:
    """A stream of numbers that Spark writes and a job of Flink reads, and the two streams that the job writes."""

    def __init__(self, spark: SparkSession, cluster: ClusterInfo, scope: str, checkpoints: Path) -> None:
        self.spark, self._cluster, self._scope, self._checkpoints, self._written = spark, cluster, scope, checkpoints, 0
        for stream in ("numbers", "once", "early"):
            spark.sql(f"CREATE TABLE {self.table(stream)} (n INT) TBLPROPERTIES ('format'='json', 'framing'='none')")

    def table(self, stream: str) -> str:
        return f"pravega.`{self._scope}`.{stream}"

    def write(self, count: int) -> None:
        """Append the next numbers."""
        numbers = self.spark.range(self._written, self._written + count).selectExpr("CAST(id AS INT) AS n")
        numbers.writeTo(self.table("numbers")).append()
        self._written += count

    def read(self, stream: str) -> list[int]:
        return sorted(row.n for row in self.spark.table(self.table(stream)).collect())

    def wait_until_read(self) -> None:
        """Wait until the job has read all numbers."""
        wait_for(lambda: set(self.read("early")) == set(range(self._written)))

    def declare(self, flink: Flink, **settings: str) -> FlinkSession:
        """Declare the streams in a session of Flink, whose jobs make no checkpoint by themselves."""
        session = flink.begin(
            {
                "execution.checkpointing.interval": "1 h",
                "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
                "state.checkpoints.dir": self._checkpoints.as_uri(),
                **settings,
            }
        )
        # Readers would look every three seconds for a checkpoint, which would fail after five.
        intervals = {"refresh": "200 ms", "checkpoint-initiate-timeout": "120 s"}
        group = ", ".join(f"'scan.reader-group.{name}.interval' = '{value}'" for name, value in intervals.items())
        once = "'sink.semantic' = 'exactly-once', 'sink.txn-lease-renewal.interval' = '90 s'"
        for stream, options in {
            "numbers": f"'scan.streams' = 'numbers', 'scan.reader-group.name' = 'copy', {group}",
            "once": f"'sink.stream' = 'once', {once}",
            "early": "'sink.stream' = 'early'",
        }.items():
            session.run(
                f"""CREATE TABLE {stream} (n INT) WITH ('connector' = 'pravega', 'scope' = '{self._scope}',
                    'controller-uri' = '{self._cluster.controller_uri}', 'format' = 'json', {options})"""
            )
        return session


@pytest.fixture
def numbers(spark: SparkSession, cluster: ClusterInfo, scope: str, tmp_path: Path) -> Numbers:
    return Numbers(spark, cluster, scope, tmp_path / "checkpoints")


def test_spark_goes_on_at_the_last_checkpoint(
    numbers: Numbers, flink_jobs: Flink, spark: SparkSession, tmp_path: Path
) -> None:
    numbers.write(60)
    with numbers.declare(flink_jobs).running(COPY) as job:
        numbers.wait_until_read()
        job.checkpoint()
        wait_for(lambda: numbers.read("once") == list(range(60)))
        numbers.write(40)
        numbers.wait_until_read()
    numbers.write(20)
    rest = spark.readStream.option("start-stream-cut", "reader-group:copy").table(numbers.table("numbers"))
    sink = ParquetSink(spark, tmp_path)
    sink.take(rest)
    numbers.write(10)
    sink.take(rest)
    assert numbers.read("once") == list(range(60))
    taken = [row.n for row in sink.rows()]
    assert sorted(taken) == list(range(60, 130))
    again = set(numbers.read("early")) & set(taken)
    assert again == set(range(60, 100)), "what Flink has read after its checkpoint is read again"


def test_a_killed_job_writes_nothing_twice(
    numbers: Numbers, flink_jobs: Flink, spark: SparkSession, tmp_path: Path
) -> None:
    numbers.write(60)
    with into_memory(spark.readStream.table(numbers.table("once")), tmp_path / "stream") as sink:

        def check(count: int) -> None:
            """Check that the first numbers are there, each once, for a batch and for a stream."""
            assert numbers.read("once") == list(range(count))
            assert sorted(row.n for row in sink.rows()) == list(range(count))

        (tmp_path / "killed").mkdir()
        with Flink(tmp_path / "killed" / "flink.log", provide_connector()) as killed:
            job = numbers.declare(killed).start(COPY)
            numbers.wait_until_read()
            check(0)
            checkpoint = job.checkpoint()
            wait_for(lambda: numbers.read("once") == list(range(60)))
            numbers.write(40)
            numbers.wait_until_read()
            check(60)
            killed.kill()
        numbers.write(30)
        # Without CLAIM, the next checkpoint would have to be a full one, which the connector's source cannot make.
        restored = {"execution.savepoint.path": checkpoint, "execution.savepoint-restore-mode": "CLAIM"}
        with numbers.declare(flink_jobs, **restored).running(COPY) as job:
            numbers.wait_until_read()
            check(60)
            job.checkpoint()
            wait_for(lambda: len(numbers.read("once")) >= 130)
            check(130)
    repeated = {number for number, times in Counter(numbers.read("early")).items() if times > 1}
    assert repeated >= set(range(60, 100)), "the other sink repeats what was read after the checkpoint"
    assert repeated.isdisjoint(range(60)), "the job has gone on at its checkpoint"
