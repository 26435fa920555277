"""Real-time mode of a table with a lake: it follows the stream, and refuses to begin where only files are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.catalog.lake.test_history_in_a_lake import create, flatten, insert, read_stream, tier, truncate
from tests.datasource.stream_source.test_real_time import (
    LinesSink,
    follow_query,
    quick_writer,
    short_batches,
    wait_until,
)
from tests.streams import PATIENCE

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def test_history_by_micro_batches_and_the_tail_in_real_time(
    spark: SparkSession, lake: dict[str, str], scope: str, tmp_path: Path
) -> None:
    table = create(spark, scope, "t", **{"scaling.min-segments": "1"})
    tier(spark, table)
    truncate(spark, table, 3)
    (tmp_path / "rows").mkdir()
    sink = LinesSink(tmp_path / "rows")
    rows = spark.readStream.table(table).selectExpr("id", "'p' AS place")
    with short_batches(spark):
        with pytest.raises(StreamingQueryException, match="PRAVEGA_DATA_LOSS"):
            with follow_query(quick_writer(rows, sink), tmp_path / "refused") as query:
                query.awaitTermination(PATIENCE)
        # Spark takes a checkpoint in real-time mode only if it was begun so.
        spark.conf.set(FORMAT, "2")
        try:
            assert sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(300))
        finally:
            spark.conf.unset(FORMAT)
        with follow_query(quick_writer(rows, sink), tmp_path / "c") as query:
            insert(spark, table, 300, 100)
            wait_until(query, lambda: len(sink.rows().get("p", [])) == 100)
    assert {place: sorted(ids) for place, ids in sink.rows().items()} == {"p": list(range(300, 400))}
