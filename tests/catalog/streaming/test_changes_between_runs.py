"""What may change between two runs of a streaming query from table to table: each row of the page, exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from tests.catalog.creation.test_tables_of_others import append
from tests.streams import PATIENCE


class Copied:
    """A table, another one with the same columns, and a query from one to the other under one checkpoint."""

    def __init__(self, spark: SparkSession, pravega: Pravega, scope: str, directory: Path) -> None:
        self.spark, self.pravega, self.scope, self.checkpoint = spark, pravega, scope, directory / "checkpoint"
        retention = "'retention.type'='size', 'retention.minimum'='1g', 'format'='json', 'framing'='none'"
        spark.sql(f"CREATE TABLE {self.name('numbers')} (id BIGINT) TBLPROPERTIES ({retention})")
        for table in ("copies", "others"):
            spark.sql(f"CREATE TABLE {self.name(table)} (id BIGINT) USING pravega")

    def name(self, table: str) -> str:
        return f"pravega.`{self.scope}`.{table}"

    def insert(self, *ids: int) -> None:
        self.spark.sql(f"INSERT INTO {self.name('numbers')} VALUES {', '.join(f'({id})' for id in ids)}")

    def append(self, event: bytes) -> None:
        append(self.pravega, Stream(self.scope, "numbers"), [event])

    def run(
        self, change: Callable[[DataFrame], DataFrame] = lambda rows: rows, into: str = "copies", **options: str
    ) -> list[int]:
        """Take what there is; return the rows that each micro-batch has read.

        `write_mode` is an option of writing, and `interval` the trigger in place of one that ends by itself.
        """
        interval = options.pop("interval", None)
        write = {"write-mode": options.pop("write_mode")} if "write_mode" in options else {}
        read = {key.replace("_", "-"): text for key, text in options.items()}
        rows = change(self.spark.readStream.options(**read).table(self.name("numbers")))
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint)).options(**write)
        writer = writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)
        query = writer.toTable(self.name(into))
        try:
            if interval is None:
                assert query.awaitTermination(PATIENCE)
            else:
                query.processAllAvailable()
        finally:
            query.stop()
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    def rows(self, table: str = "copies") -> list[Any]:
        return sorted(row.id for row in self.spark.table(self.name(table)).collect())


@pytest.fixture
def copied(spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path) -> Copied:
    return Copied(spark, pravega, scope, tmp_path)


def test_limits_triggers_filters_and_computed_columns(copied: Copied) -> None:
    copied.insert(1, 2, 3)
    assert copied.run(lambda rows: rows.where("id % 2 = 1")) == [3]
    copied.insert(4, 5, 6)
    assert copied.run(lambda rows: rows.where("id % 2 = 0"), max_rows_per_trigger="1") == [1, 1, 1]
    copied.insert(7)
    assert copied.run(lambda rows: rows.selectExpr("id * 100 AS id"), consumer="nightly") == [1]
    assert copied.rows() == [1, 3, 4, 6, 700]
    [consumer] = copied.spark.table(f"{copied.name('numbers')}.consumers").collect()
    assert (consumer.consumer, consumer.bytes_behind) == ("nightly", 0)
    copied.insert(8)
    assert copied.run(interval="0 seconds") == [1]
    copied.insert(9)
    assert copied.run() == [1]
    assert copied.rows() == [1, 3, 4, 6, 8, 9, 700]


def test_a_micro_batch_that_was_begun_is_repeated_with_its_end_and_the_new_filter(copied: Copied) -> None:
    copied.insert(1, 2)
    failing = "if(id = 2, raise_error('not yet'), id) AS id"
    with pytest.raises(StreamingQueryException, match="not yet"):
        copied.run(lambda rows: rows.selectExpr(failing))
    copied.insert(3, 4)
    assert copied.run(lambda rows: rows.where("id > 1"), max_rows_per_trigger="1") == [2, 1, 1]
    assert copied.rows() == [2, 3, 4]


def test_the_mode_and_the_dead_letter(copied: Copied) -> None:
    copied.insert(1)
    copied.run()
    copied.append(b"no JSON")
    copied.insert(2)
    with pytest.raises(StreamingQueryException, match="PRAVEGA_MALFORMED_EVENT"):
        copied.run()
    assert copied.rows() == [1]
    copied.run(mode="dropmalformed")
    assert copied.rows() == [1, 2]
    copied.append(b"nor this")
    copied.insert(3)
    copied.run(mode="permissive")
    assert copied.spark.sql(f"SELECT count(*), sum(id) FROM {copied.name('copies')}").first()[:] == (4, 6)
    copied.append(b"nor that")
    copied.insert(4)
    copied.run(dead_letter=f"{copied.scope}/letters")
    assert copied.spark.sql(f"SELECT count(*), sum(id) FROM {copied.name('copies')}").first()[:] == (5, 10)
    assert copied.spark.table(copied.name("letters")).count() == 1


def test_the_way_to_write(copied: Copied) -> None:
    for number, mode in enumerate(("transactional", "at-least-once", "transactional", "best-effort")):
        copied.insert(2 * number, 2 * number + 1)
        copied.run(write_mode=mode)
    assert copied.rows() == list(range(8))


def test_starts_and_ends(copied: Copied) -> None:
    for id in (1, 2, 3, 4):
        copied.insert(id)
    copied.run(end_version="2")
    assert copied.rows() == [1, 2]
    copied.run(start_version="1", end_version="3")
    assert copied.rows() == [1, 2, 3]
    assert copied.run(end_version="2") == []
    copied.run(start_version="4")
    assert copied.rows() == [1, 2, 3, 4]


def test_segments_and_retention(copied: Copied) -> None:
    copied.insert(1, 2)
    copied.run()
    call = f"CALL pravega.system.scale_stream(table => '`{copied.scope}`.numbers', segments => 3)"
    copied.spark.sql(call).collect()
    copied.insert(3, 4)
    copied.spark.sql(f"ALTER TABLE {copied.name('numbers')} SET TBLPROPERTIES ('retention.minimum'='2g')")
    copied.run()
    assert copied.rows() == [1, 2, 3, 4]


def test_another_table_to_write_to(copied: Copied) -> None:
    copied.insert(1, 2)
    copied.run()
    copied.insert(3)
    copied.run(into="others")
    assert (copied.rows(), copied.rows("others")) == ([1, 2], [3])
    copied.spark.sql(f"DROP TABLE {copied.name('others')}")
    copied.spark.sql(f"CREATE TABLE {copied.name('others')} (id BIGINT) USING pravega")
    copied.insert(4)
    copied.run(into="others")
    assert copied.rows("others") == [4]


def test_another_directory_for_the_checkpoint(copied: Copied) -> None:
    copied.insert(1, 2)
    copied.run()
    former = copied.checkpoint
    copied.checkpoint = Path(shutil.copytree(former, former.parent / "elsewhere"))
    copied.insert(3)
    copied.run()
    assert copied.rows() == [1, 2, 3]
    # What the old copy would write again is known to the table.
    copied.checkpoint = former
    with pytest.raises(StreamingQueryException, match="PRAVEGA_QUERY_FENCED"):
        copied.run()
    assert copied.rows() == [1, 2, 3]


def test_groups_watermarks_and_shuffle_partitions(copied: Copied) -> None:
    """Spark keeps the number of partitions that the state has, and refuses a state of other columns.

    The delay of the watermark is that of each run.
    """

    def count(rows: DataFrame, *more: str, delay: str = "1 second") -> DataFrame:
        timed = rows.selectExpr("id", "timestamp_seconds(id) AS time").withWatermark("time", delay)
        return timed.groupBy("time", *more).count().selectExpr("count AS id")

    partitions = copied.spark.conf.get("spark.sql.shuffle.partitions")
    copied.insert(100, 100, 200)
    copied.run(count)
    try:
        copied.spark.conf.set("spark.sql.shuffle.partitions", "5")
        copied.insert(200, 300)
        copied.run(count)
    finally:
        copied.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    assert copied.rows() == [2, 2]
    copied.insert(350)
    copied.run(lambda rows: count(rows, delay="1 minute"))
    assert copied.rows() == [2, 2]
    copied.insert(360)
    copied.run(count)
    assert copied.rows() == [1, 1, 2, 2]
    with pytest.raises(StreamingQueryException, match="STATE_STORE|state schema"):
        copied.insert(400)
        copied.run(lambda rows: count(rows, "id"))


def test_joins(copied: Copied) -> None:
    """One with a table that is no stream changes nothing; another stream is one source more, which Spark refuses."""
    copied.insert(1)
    copied.run()
    copied.spark.sql(f"INSERT INTO {copied.name('others')} VALUES (2)")
    copied.insert(2, 3)
    assert copied.run(lambda rows: rows.join(copied.spark.table(copied.name("others")), "id")) == [2]
    assert copied.rows() == [1, 2]
    copied.insert(4)
    with pytest.raises(StreamingQueryException, match="sources"):
        copied.run(lambda rows: rows.join(copied.spark.readStream.table(copied.name("others")), "id"))
    copied.run()
    assert copied.rows() == [1, 2, 4]
