"""Reads that begin where a reader group of Java's client is: at its last checkpoint, or where its readers ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Foreign, ForeignClient
from tests.streams import ParquetSink


class Read:
    """A stream of two segments that Java writes, and that Java's readers and Spark read."""

    def __init__(self, spark: SparkSession, java: ForeignClient, scope: str) -> None:
        self.spark, self.java, self.stream, self.written = spark, java, Stream(scope, "numbers"), 0
        self.table = f"pravega.`{scope}`.numbers"
        java.create_stream(scope, "numbers", segments=2)
        spark.sql(f"CREATE TABLE {self.table} (n INT) TBLPROPERTIES ('format'='json', 'framing'='none')")

    def write(self, count: int, key: str | None = None) -> None:
        """Append the next numbers, of one key or of many."""
        numbers = range(self.written, self.written + count)
        texts = [(key or f"key-{number}", json.dumps({"n": number})) for number in numbers]
        self.java.write_text(self.stream.scope, "numbers", texts)
        self.written += count

    def create_group(self, name: str, *, holding: bool = False) -> None:
        self.java.create_reader_group(self.stream.scope, "numbers", name, holding=holding)

    def read_in_java(
        self, group: str, count: int, *, checkpoint: bool = False, more: int = 0
    ) -> tuple[set[int], set[int]]:
        """Read in a group; return the numbers before a checkpoint, and those after it."""
        parts = self.java.read_in_group(self.stream.scope, group, count, checkpoint=checkpoint, more=more)
        before, after = ([json.loads(text)["n"] for text in part] for part in parts)
        return set(before), set(after)

    def rest(self, group: str) -> list[int]:
        """Return the numbers from the position of a group on."""
        rows = self.spark.sql(f"SELECT n FROM {self.table} WITH ('start-stream-cut'='reader-group:{group}')")
        return sorted(row.n for row in rows.collect())

    def size(self, pravega: Pravega, segment: int) -> int:
        return pravega.segments.segment_infos(self.stream, [segment])[segment].write_offset

    def without(self, numbers: set[int]) -> list[int]:
        return sorted(set(range(self.written)) - numbers)


@pytest.fixture
def read(spark: SparkSession, foreign: Foreign, cluster: ClusterInfo, scope: str) -> Read:
    return Read(spark, foreign.connect(cluster), scope)


def test_reads_begin_at_the_last_checkpoint(read: Read, spark: SparkSession, tmp_path: Path) -> None:
    read.create_group("report", holding=True)
    read.write(60)
    done = set[int]().union(*read.read_in_java("report", 10, checkpoint=True, more=1))
    before, after = read.read_in_java("report", 20, checkpoint=True, more=7)
    assert len(after) == 7
    rest = read.without(done | before)
    assert set(rest) > after and read.rest("report") == rest, "what was read after the checkpoint is read again"
    read.java.compact_reader_group(read.stream.scope, "report")
    assert read.rest("report") == rest
    start = spark.readStream.option("start-stream-cut", "reader-group:report").table(read.table)
    sink = ParquetSink(spark, tmp_path)
    sink.take(start)
    read.write(5)
    sink.take(start)
    assert sorted(row.n for row in sink.rows()) == read.without(done | before)
    [row] = spark.table(f"{read.table}.consumers").collect()
    unread = read.java.reader_group(read.stream.scope, "report").unread
    assert (row.consumer, row.holding, row.bytes_behind) == ("report", "automatic", unread) and unread > 0
    read.java.checkpoint_reader_group(read.stream.scope, "report")
    assert read.rest("report") == read.without(done | before | after), "all readers were closed before"
    from_cut = spark.read.option("start-stream-cut", row.stream_cut).table(read.table)
    assert sorted(one.n for one in from_cut.collect()) == read.without(done | before)


def test_without_a_checkpoint_where_readers_ended(read: Read, spark: SparkSession) -> None:
    read.create_group("plain")
    read.write(40)
    assert read.rest("plain") == list(range(40)), "nobody has read yet"
    done: set[int] = set()
    for count in (5, 10):
        done |= read.read_in_java("plain", count)[0]
        assert len(done) < 40 and read.rest("plain") == read.without(done)
    [row] = spark.table(f"{read.table}.consumers").select("consumer", "holding").collect()
    assert tuple(row) == ("plain", "none")


def test_a_stream_that_was_scaled(read: Read, pravega: Pravega) -> None:
    read.create_group("scaled", holding=True)
    read.write(40)
    segment = pravega.controller.current_segments(read.stream)[0]
    middle = (segment.min_key + segment.max_key) / 2
    ranges = [(segment.min_key, middle), (middle, segment.max_key)]
    pravega.controller.scale_stream(read.stream, [segment.segment_id], ranges)
    read.write(40)
    done: set[int] = set()
    for count in (30, 20, 30):
        done |= read.read_in_java("scaled", count)[0]
        read.java.checkpoint_reader_group(read.stream.scope, "scaled")
        for _ in range(2):
            assert read.rest("scaled") == read.without(done)
            read.java.compact_reader_group(read.stream.scope, "scaled")


def test_a_stream_whose_segments_were_merged(read: Read, pravega: Pravega) -> None:
    read.write(1, key="one")
    [full] = [one for one in pravega.controller.current_segments(read.stream) if read.size(pravega, one.segment_id)]
    middle = (full.min_key + full.max_key) / 2
    halves = [(full.min_key, middle), (middle, full.max_key)]
    pravega.controller.scale_stream(read.stream, [full.segment_id], halves)
    parts = [one.segment_id for one in pravega.controller.current_segments(read.stream) if one.max_key <= full.max_key]
    parts = [part for part in parts if part >> 32]  # those of the new epoch
    read.write(6, key="one")  # into one of the halves
    pravega.controller.scale_stream(read.stream, parts, [(full.min_key, full.max_key)])
    read.write(2, key="one")
    read.create_group("merging", holding=True)
    done: set[int] = set()
    while len(done) < read.written:
        done |= read.read_in_java("merging", 1)[0]
        read.java.checkpoint_reader_group(read.stream.scope, "merging")
        try:
            rest = read.rest("merging")
        except PySparkException as error:  # one half is read to its end, and the other one is not
            assert error.getCondition() == "PRAVEGA_CONSUMER_IN_USE" and "segments that were merged" in str(error)
            assert max(done) < 7, "readers come to the last segment when they have read both halves"
        else:
            assert rest == read.without(done)


def test_a_group_that_is_not_there_is_named_with_those_that_are(read: Read, scope: str) -> None:
    read.create_group("report")
    read.create_group("billing")
    with pytest.raises(PySparkException, match=r"reader groups: billing, report\. Did you mean 'report'\?") as caught:
        read.rest("reports")
    assert caught.value.getCondition() == "PRAVEGA_CONSUMER_NOT_FOUND"
    read.java.create_stream(scope, "other")
    read.java.create_reader_group(scope, "other", "of-other", holding=False)
    for name in ("of-other", ""):
        with pytest.raises(PySparkException, match=f"no reader group '{name}'. .*: billing, report. The client"):
            read.rest(name)
    assert read.rest("billing") == []
