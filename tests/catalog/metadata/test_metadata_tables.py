"""Metadata tables: what there is to know about a stream, by SQL, even where the stream cannot be read as a table."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog.metadata.tables_of_streams import TABLES
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream, make_segment_id
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.points_in_time import create_tag
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.datasource.transactions import begin_insert

PAGE = Path(__file__).resolve().parents[3] / "docs" / "history.md"


@pytest.fixture
def stream(scope: str) -> Stream:
    """A stream whose name has what only backticks make one word."""
    return Stream(scope, "hall-7.sensor")


@pytest.fixture
def table(spark: SparkSession, stream: Stream) -> str:
    """A table with retention and two versions."""
    name = f"pravega.`{stream.scope}`.`{stream.name}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, b STRING) USING pravega TBLPROPERTIES ('scaling.min-segments'='2', "
        "'retention.type'='size', 'retention.minimum'='1g', 'comment'='of hall 7')"
    )
    for values in ("(1, 'x'), (2, 'y')", "(3, 'z')"):
        spark.sql(f"INSERT INTO {name} VALUES {values}")
    return name


def rows(spark: SparkSession, table: str, name: str, columns: str = "*") -> list[Row]:
    return spark.sql(f"SELECT {columns} FROM {table}.{name}").collect()


def test_versions_tags_and_transactions(spark: SparkSession, pravega: Pravega, stream: Stream, table: str) -> None:
    now = time.time()
    history = rows(spark, table, "history")
    assert [(row.version, row.operation, row.rows) for row in history] == [(1, "INSERT", 2), (2, "INSERT", 1)]
    assert StreamCut.from_text(history[1].stream_cut) == measure_tail(pravega, stream)
    assert all(abs(row.committed_at.timestamp() - now) < 3600 for row in history)
    assert len({row.transaction for row in history}) == 2
    create_tag(pravega, stream, "first", "1")
    create_tag(pravega, stream, "now")
    assert rows(spark, table, "tags", "tag, version") == [("first", 1), ("now", 2)]
    assert rows(spark, table, "transactions") == []
    insert, _ = begin_insert(pravega, stream, [b"?"])
    log = CommitLog(pravega, stream)
    assert log.enter(insert.transaction.id, rows=1, operation="INSERT")
    assert rows(spark, table, "transactions") == [(str(insert.transaction.id), "open", 1, "INSERT", 1)]
    insert.transaction.abort()
    log.withdraw(insert.transaction.id)


def test_segments_and_how_they_were_scaled(spark: SparkSession, pravega: Pravega, stream: Stream, table: str) -> None:
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.25), (0.25, 0.5)])
    pravega.controller.scale_stream(stream, [make_segment_id(3, 1), 1], [(0.25, 1.0)])
    pravega.controller.truncate_stream(StreamCut(stream, {make_segment_id(2, 1): 0, make_segment_id(3, 1): 0, 1: 0}))
    segments = {row.segment_id: row for row in rows(spark, table, "segments")}
    assert sorted(segments) == [1, make_segment_id(2, 1), make_segment_id(3, 1), make_segment_id(4, 2)]
    shown = {(row.number, row.epoch, row.key_range_start, row.key_range_end, row.sealed) for row in segments.values()}
    assert shown == {(1, 0, 0.5, 1, True), (2, 1, 0, 0.25, False), (3, 1, 0.25, 0.5, True), (4, 2, 0.25, 1, False)}
    assert segments[1].bytes == segments[1].end_offset - segments[1].start_offset > 0
    assert (
        segments[1].created_at < segments[make_segment_id(2, 1)].created_at < segments[make_segment_id(4, 2)].created_at
    )
    query = f"SELECT count(*) FROM {table} t JOIN {table}.segments s ON t._segment = s.segment WHERE s.number = 1"
    in_it = f"SELECT count(*) FROM {table} WHERE _segment LIKE '%/1.#epoch.0'"
    assert spark.sql(query).first()[0] == spark.sql(in_it).first()[0]
    events = rows(spark, table, "scale_events")
    shown_events = [(row.epoch, row.segments, row.splits, row.merges) for row in events]
    assert shown_events == [(0, 2, 0, 0), (1, 3, 1, 0), (2, 2, 0, 1)]
    assert [row.sealed_segments for row in events] == [[], [0], [1, make_segment_id(3, 1)]]
    assert [row.created_segments for row in events][2] == [make_segment_id(4, 2)]
    assert events[1].scaled_at < events[2].scaled_at


def test_schemas_positions_and_properties(spark: SparkSession, pravega: Pravega, stream: Stream, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN c INT")
    spark.sql(f"INSERT INTO {table} VALUES (4, 'u', 5)")
    schemas = rows(spark, table, "schemas")
    assert [(row.version, row.schema_id, row.format, row.compatibility) for row in schemas] == [
        (0, 0, "Avro", "backward"),
        (1, 1, "Avro", "backward"),
    ]
    assert '"c"' in schemas[1].schema
    assert '"c"' not in schemas[0].schema
    assert '"c"' in schemas[1].canonical
    assert len({row.fingerprint for row in schemas}) == 2
    assert rows(spark, table, "encodings", "encoding_id, version, codec") == [(0, 0, "none"), (1, 1, "none")]
    head = pravega.controller.head(stream)
    Consumer.register(pravega, stream, "nightly", head)
    [consumer] = rows(spark, table, "consumers")
    assert (consumer.consumer, consumer.scope, consumer.holding) == ("nightly", stream.scope, "manual")
    assert consumer.bytes_behind == sum(measure_tail(pravega, stream).positions.values())
    cuts = {(row.kind, row.name): StreamCut.from_text(row.stream_cut) for row in rows(spark, table, "stream_cuts")}
    assert cuts == {("head", None): head, ("tail", None): measure_tail(pravega, stream), ("consumer", "nightly"): head}
    spark.sql(f"DROP TABLE {table}")  # with its consumer


def test_they_can_be_read_where_the_table_cannot(
    spark: SparkSession, pravega: Pravega, stream: Stream, table: str
) -> None:
    shown: dict[str, str] = dict(rows(spark, table, "properties"))
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert shown == {"comment": "of hall 7", **properties}
    pravega.registry(stream.scope).delete_group(stream.name)
    with pytest.raises(PySparkException, match="PRAVEGA_SCHEMA_NOT_FOUND"):
        spark.sql(f"SELECT * FROM {table}").collect()
    counts = {name: len(rows(spark, table, name)) for name in TABLES}
    assert counts.pop("properties") > 4
    assert counts == {
        "history": 2,
        "segments": 2,
        "schemas": 0,
        "encodings": 0,
        "stream_cuts": 2,
        "tags": 0,
        "scale_events": 1,
        "transactions": 0,
        "consumers": 0,
        "lake": 0,
    }
    kept: dict[str, str] = dict(rows(spark, table, "properties"))
    assert {"format": "avro", "retention.type": "size", "comment": "of hall 7"}.items() <= kept.items() <= shown.items()


def test_their_columns_have_comments_and_types(spark: SparkSession, table: str) -> None:
    for name in TABLES:
        described = spark.sql(f"DESCRIBE {table}.{name}").collect()
        assert all(row.comment for row in described), name
    types = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE {table}.scale_events").collect()}
    assert (types["scaled_at"], types["sealed_segments"]) == ("timestamp", "array<bigint>")
    assert spark.catalog.tableExists(f"{table}.HISTORY")


def test_they_are_no_streams(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="readStream.table is not possible on .*history: its rows") as error:
        spark.readStream.table(f"{table}.history")
    with pytest.raises(PySparkException, match="readStream.table is not possible"):
        spark.sql(f"SELECT * FROM STREAM {table}.segments")
    assert "controller-uri" not in str(error.value)  # the error shows the plan; the conf may have a password
    plan = spark.sql(f"EXPLAIN EXTENDED DESCRIBE {table}.history").collect()[0][0]
    assert "history" in plan and "controller-uri" not in plan


def test_the_page_on_history(spark: SparkSession, scope: str) -> None:
    """Its statements, in a namespace of another name, and the rows that it shows for them."""
    blocks = re.findall(r"^```sql\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 4
    for statements, shown in blocks:
        *before, last = statements.replace("pravega.iot.", f"pravega.`{scope}`.").strip().rstrip(";").split(";\n")
        for statement in before:
            spark.sql(statement)
        found = [" ".join(str(value).lower() for value in row) for row in spark.sql(last).collect()]
        assert found == shown.lower().splitlines()


def test_sql_makes_a_stream_cut(spark: SparkSession, scope: str) -> None:
    """By the example of docs/streaming.md; a cut within an event is none."""
    table, page = f"pravega.`{scope}`.sensor", PAGE.with_name("streaming.md").read_text()
    properties = "TBLPROPERTIES ('scaling.min-segments'='2', 'routing-key'='place')"
    spark.sql(f"CREATE TABLE {table} (place STRING, temp DOUBLE) {properties}")
    for temp in (20, 35, 25):
        spark.sql(f"INSERT INTO {table} SELECT concat('p', id), {temp} + id / 100 FROM range(9)")
    assert spark.sql(f"SELECT count(DISTINCT _segment) FROM {table}").collect() == [(2,)]
    [example] = re.findall(r"^```sql\n(DECLARE VARIABLE cut.*?)^```$", page, re.MULTILINE | re.DOTALL)
    example = example.replace("pravega.iot.sensor", table).replace("iot/sensor", f"{scope}/sensor")
    declare, make, name, execute = example.rstrip().rstrip(";").split(";\n")
    spark.sql(declare)
    try:
        spark.sql(make)
        [(cut,)] = spark.sql("SELECT cut").collect()
        spark.sql(name)
        temps = [row.temp for row in spark.sql(execute).collect()]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE cut")
    assert sorted(map(int, temps)) == [25] * 9 + [35] * 9
    before = spark.sql(f"SELECT temp FROM {table} VERSION AS OF '{cut}'").collect()
    assert sorted(int(temp) for (temp,) in before) == [20] * 9
    within = re.sub(r"\d+$", lambda offset: str(int(offset[0]) + 1), cut)
    for bound in ("start-stream-cut", "end-stream-cut"):
        with pytest.raises(PySparkException, match="PRAVEGA_MALFORMED_EVENT"):
            spark.sql(f"SELECT temp FROM {table} WITH ('{bound}'='{within}')").collect()
