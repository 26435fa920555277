"""Streams that are split, merged and truncated while queries read and write them: each event once, and in order."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from tests.catalog.streaming.changes_streams import scale
from tests.faults.oracle import Feeder, Tables, check_order_of
from tests.streams import ParquetSink

LONG = int(os.environ.get("PYSPARK_PRAVEGA_FAULT_ROUNDS", "60"))


@dataclass
class Reading:
    """A query of a stream, and its checkpoint."""

    query: StreamingQuery
    checkpoint: Path
    stream: Stream

    def truncate_what_was_read(self, pravega: Pravega) -> bool:
        """Remove the events of all micro-batches that are done; whether there were more of them than before."""
        done = max((int(each.name) for each in (self.checkpoint / "commits").glob("[0-9]*")), default=None)
        if done is None:
            return False
        offset = json.loads((self.checkpoint / "offsets" / str(done)).read_text().splitlines()[-1])
        cut = StreamCut(self.stream, {int(segment): end for segment, end in offset["positions"].items()})
        before = pravega.controller.head(self.stream)
        pravega.controller.truncate_stream(cut)
        return pravega.controller.head(self.stream) != before


@pytest.mark.parametrize("rounds", [4, pytest.param(LONG, marks=[pytest.mark.faults, pytest.mark.timeout(1800)])])
def test_scaled_and_truncated_while_read_and_written(
    spark: SparkSession, client_config: ClientConfig, pravega: Pravega, scope: str, tmp_path: Path, rounds: int
) -> None:
    """From table to table to files; both streams are scaled, and lose what the query on them has done."""
    tables = Tables(spark, scope, marked=False)
    rows = spark.readStream.table(tables.source).writeStream.option("checkpointLocation", str(tmp_path / "first"))
    first = Reading(rows.toTable(tables.target), tmp_path / "first", tables.streams[0])
    files = spark.readStream.table(tables.target).selectExpr("*", "_segment", "_offset").writeStream.format("parquet")
    files = files.option("path", str(tmp_path / "rows")).option("checkpointLocation", str(tmp_path / "second"))
    second = Reading(files.start(), tmp_path / "second", tables.streams[1])
    feeder = Feeder(client_config, tables, scale_every=0)
    truncated = 0
    try:
        for number in range(rounds):
            feeder.feed(pravega)
            scale(pravega, tables.streams[number % 2], number // 2)
            feeder.feed(pravega)
            each = first if number % 4 < 2 else second
            each.query.processAllAvailable()
            feeder.feed(pravega)
            truncated += each.truncate_what_was_read(pravega)
        first.query.processAllAvailable()
        second.query.processAllAvailable()
    finally:
        first.query.stop()
        second.query.stop()
    assert first.query.exception() is None and second.query.exception() is None
    assert truncated >= rounds - 2
    found = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.seq for row in found) == list(range(feeder.written))
    check_order_of(found)


def split_all(pravega: Pravega, stream: Stream, at_once: bool) -> None:
    """Split every segment of a stream, one after the other or all in one epoch."""
    segments, halves = pravega.controller.current_segments(stream), []
    for segment in segments:
        half = (segment.min_key + segment.max_key) / 2
        halves.append([(segment.min_key, half), (half, segment.max_key)])
    if at_once:
        pravega.controller.scale_stream(stream, [one.segment_id for one in segments], list(itertools.chain(*halves)))
        return
    for segment, two in zip(segments, halves, strict=True):
        pravega.controller.scale_stream(stream, [segment.segment_id], two)


@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_scaled_twice_between_micro_batches(
    spark: SparkSession, client_config: ClientConfig, pravega: Pravega, scope: str, tmp_path: Path, at_once: bool
) -> None:
    """Segments that began and ended between two micro-batches are read too, though no offset names them."""
    tables = Tables(spark, scope, marked=False)
    feeder = Feeder(client_config, tables, scale_every=0)
    source, target = tables.streams[0], ParquetSink(spark, tmp_path)
    rows = spark.readStream.table(tables.source)
    feeder.feed(pravega)
    target.take(rows)
    for number in range(2):
        # Nothing is added to the segments that the last micro-batch has read: they are only replaced.
        for _ in range(3):
            split_all(pravega, source, at_once)
            feeder.feed(pravega)
        if number == 0:
            target.take(rows)
    target.take(rows)
    assert sorted(row.seq for row in target.rows()) == list(range(feeder.written))
