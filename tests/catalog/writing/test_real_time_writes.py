"""Tables that real-time mode writes: rows are visible as they come, long before the batch ends."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from tests.catalog.creation.test_tables_of_others import append as append_events
from tests.datasource.stream_source.test_real_time import (
    LONG,
    append,
    follow_query,
    scale,
    short_batches,
    wait_until,
)
from tests.drivers import ROOT
from tests.streams import PATIENCE

SWITCHES = ("allowlistCheck", "asyncProgressTrackingByDefault.enabled")
AT_LEAST_ONCE = {"write-mode": "at-least-once"}


@pytest.fixture(autouse=True)
def any_sink(spark: SparkSession) -> Iterator[None]:
    """Let Spark take sinks in real-time mode that are not among its own."""
    confs = [f"spark.sql.streaming.realTimeMode.{name}" for name in SWITCHES]
    for conf in confs:
        spark.conf.set(conf, "false")
    yield
    for conf in confs:
        spark.conf.unset(conf)


@pytest.fixture
def rows(spark: SparkSession, scope: str) -> DataFrame:
    columns = "(id BIGINT, place STRING) TBLPROPERTIES ('format'='json', 'framing'='none')"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.sensor {columns}")
    return spark.readStream.table(f"pravega.`{scope}`.sensor").where("id >= 0")


class Target:
    """A table of one segment, whose rows have their place as the routing key."""

    def __init__(self, spark: SparkSession, scope: str, **properties: str) -> None:
        self.spark, self.stream, self.name = spark, Stream(scope, "copy"), f"pravega.`{scope}`.copy"
        texts = ", ".join(f"'{key}'='{value}'" for key, value in ({"routing-key": "place"} | properties).items())
        spark.sql(f"CREATE TABLE {self.name} (id BIGINT, place STRING) TBLPROPERTIES ({texts})")

    def write(self, rows: DataFrame, *, every: str = LONG, **options: str) -> Any:
        writer = rows.writeStream.format("pravega").outputMode("update").trigger(realTime=every)  # type: ignore[call-overload]
        options = AT_LEAST_ONCE | options
        return writer.options(catalog="pravega", scope=self.stream.scope, stream=self.stream.name, **options)

    def ids(self) -> dict[str, list[int]]:
        """Return the ids of each place, in the order of its events."""
        ids: dict[str, list[int]] = {}
        rows = self.spark.table(self.name).select("*", "_segment", "_offset").collect()
        for row in sorted(rows, key=lambda row: (row._segment, row._offset)):
            ids.setdefault(row.place, []).append(row.id)
        return ids

    def has(self, count: int) -> Any:
        return lambda: sum(map(len, self.ids().values())) >= count


def expected(first: int, last: int) -> dict[str, list[int]]:
    return {f"p{place}": list(range(first + place, last, 10)) for place in range(10)}


def test_rows_are_visible_before_the_batch_ends(
    spark: SparkSession, pravega: Pravega, scope: str, rows: DataFrame, tmp_path: Path
) -> None:
    source, target = Stream(scope, "sensor"), Target(spark, scope)
    with follow_query(target.write(rows), tmp_path / "c") as query:
        append(pravega, source, 0, 100)
        wait_until(query, target.has(100))
        assert target.ids() == expected(0, 100)
        append(pravega, source, 100, 110)
        scale(pravega, target.stream, merge=False)  # perhaps before the worker has heard that its rows are stored
        wait_until(query, target.has(110))
        for first in (110, 210):
            append(pravega, source, first, first + 100)
            scale(pravega, target.stream, merge=first == 210)
        wait_until(query, target.has(310))
        assert query.lastProgress is None, "it is still the first batch"
    assert target.ids() == expected(0, 310)
    with follow_query(target.write(rows), tmp_path / "c") as query:
        wait_until(query, target.has(620))
    assert Counter(id for ids in target.ids().values() for id in ids) == dict.fromkeys(range(310), 2)


def test_many_rows_at_once_keep_their_order(
    spark: SparkSession, pravega: Pravega, scope: str, rows: DataFrame, tmp_path: Path
) -> None:
    """An event becomes up to 842 rows, and three of the rows are larger than all that may wait for the worker."""
    source, target = Stream(scope, "sensor"), Target(spark, scope, **{"routing-key": "id"})
    parts = rows.selectExpr("id", "place", "explode(sequence(0, id * id)) AS part")
    large = "IF(part = 0 AND id >= 27, repeat(place, 1000000), place)"
    with follow_query(
        target.write(parts.selectExpr("id * 1000 + part AS id", f"{large} AS place")), tmp_path / "c"
    ) as query:
        append(pravega, source, 0, 30)
        wait_until(query, target.has(sum(id * id + 1 for id in range(30))))
    ids = target.ids()
    assert [ids.pop(f"p{id % 10}" * 1_000_000) for id in (27, 28, 29)] == [[27_000], [28_000], [29_000]]
    assert ids == {
        f"p{place}": [id * 1000 + part for id in range(place, 30, 10) for part in range(id >= 27, id * id + 1)]
        for place in range(10)
    }


def test_rows_of_a_batch_that_has_ended_are_not_written_again(
    spark: SparkSession, pravega: Pravega, scope: str, rows: DataFrame, tmp_path: Path
) -> None:
    source, target = Stream(scope, "sensor"), Target(spark, scope)
    with short_batches(spark):
        for first in (0, 100):
            append(pravega, source, first, first + 100)
            with follow_query(target.write(rows, every="2 seconds"), tmp_path / "c") as query:
                wait_until(query, target.has(first + 100))
                wait_until(query, lambda: query.lastProgress is not None and query.lastProgress["numInputRows"] == 0)
    assert target.ids() == expected(0, 200)


@pytest.mark.parametrize("every", [LONG, "5 seconds"])
def test_a_row_that_does_not_fit_ends_the_query(
    spark: SparkSession, pravega: Pravega, scope: str, rows: DataFrame, tmp_path: Path, every: str
) -> None:
    """Its task learns of it about when a batch of 5 s ends: if it were repeated then, it would find no time to read."""
    source, target = Stream(scope, "sensor"), Target(spark, scope)
    append(pravega, source, 0, 10)
    failing = rows.selectExpr("id", "IF(id = 5, repeat('x', 9000000), place) AS place")
    with follow_query(target.write(failing, every=every), tmp_path / "c") as query:
        with pytest.raises(StreamingQueryException, match=f"{scope}/copy: .*9,000,0"):
            query.awaitTermination(PATIENCE)


def test_the_example_of_the_page_for_another_sink(
    spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path
) -> None:
    """docs/streaming.md sends rows to Kafka; here a stream takes its place."""
    section = (ROOT / "docs/streaming.md").read_text().partition("\n## Real time\n")[2]
    program = section.partition("```python\n")[2].partition("```")[0].replace("pravega.iot.", f"pravega.`{scope}`.")
    kafka = r'format\("kafka"\)\n *\.option\("kafka.bootstrap.servers", ".*"\)\n *\.option\("topic", "hot"\)'
    pravega_options = {**AT_LEAST_ONCE, "catalog": "pravega", "scope": scope, "stream": "hot"}
    program, replaced = re.subn(kafka, f'format("pravega").options(**{pravega_options})', program)
    assert replaced == 1
    program = program.replace("/data/checkpoints", str(tmp_path))
    for columns in ("sensor (location STRING, temp DOUBLE)", "hot (key STRING, value STRING)"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.{columns} TBLPROPERTIES ('format'='json', 'framing'='none')")
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    try:
        events = [{"location": "roof", "temp": 31.5}, {"location": "hall", "temp": 29.0}]
        append_events(pravega, Stream(scope, "sensor"), [json.dumps(event).encode() for event in events])
        hot = f"pravega.`{scope}`.hot"
        wait_until(names["query"], lambda: spark.table(hot).count() > 0)
        assert [tuple(row) for row in spark.table(hot).collect()] == [("roof", '{"location":"roof","temp":31.5}')]
    finally:
        names["query"].stop()


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        pytest.param("'format'='kvtable', 'primary-key'='place(2)'", {}, id="a key-value table"),
        pytest.param("'format'='debezium-json', 'primary-key'='place'", AT_LEAST_ONCE, id="a table of changes"),
    ],
)
def test_a_table_with_keys_has_the_last_row_of_each(
    spark: SparkSession,
    pravega: Pravega,
    scope: str,
    rows: DataFrame,
    tmp_path: Path,
    properties: str,
    options: dict[str, str],
) -> None:
    name = f"pravega.`{scope}`.last"
    spark.sql(f"CREATE TABLE {name} (place STRING NOT NULL, id BIGINT) TBLPROPERTIES ({properties})")
    writer = rows.writeStream.outputMode("update").trigger(realTime=LONG).options(**options)  # type: ignore[call-overload]
    query = writer.option("checkpointLocation", str(tmp_path / "c")).toTable(name)
    try:
        append(pravega, Stream(scope, "sensor"), 0, 100)
        last = {f"p{place}": 90 + place for place in range(10)}
        wait_until(query, lambda: {row.place: row.id for row in spark.table(name).collect()} == last)
    finally:
        query.stop()


def test_what_needs_a_transaction_or_replaces_rows_is_refused(
    spark: SparkSession, pravega: Pravega, scope: str, rows: DataFrame, tmp_path: Path
) -> None:
    target = Target(spark, scope)
    append(pravega, Stream(scope, "sensor"), 0, 10)
    with follow_query(target.write(rows, **{"write-mode": "transactional"}), tmp_path / "c") as query:
        with pytest.raises(StreamingQueryException, match=r"trigger\(realTime\) is not possible on .*'at-least-once'"):
            query.awaitTermination(PATIENCE)
    counted = (
        rows.groupBy("place")
        .count()
        .writeStream.outputMode("update")
        .options(**AT_LEAST_ONCE, checkpointLocation=str(tmp_path / "d"))
    )
    with pytest.raises(AnalysisException, match=r"outputMode\('update'\) is not possible"):
        counted.trigger(realTime=LONG).toTable(target.name)  # type: ignore[call-overload]
    assert target.ids() == {}
