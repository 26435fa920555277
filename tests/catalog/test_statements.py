"""Statements on whole tables: CREATE TABLE LIKE, TRUNCATE TABLE, DROP TABLE PURGE, settings of streams, functions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.interop.foreign import Foreign, ForeignClient
from tests.streams import ParquetSink


def rows(spark: SparkSession, query: str) -> list[Any]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement)
    return str(caught.value)


def script_of(spark: SparkSession, table: str) -> str:
    """What creates a table, without its name."""
    text: str = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    return text.partition("(")[2]


def test_a_table_like_another(spark: SparkSession, scope: str) -> None:
    source, made = f"pravega.`{scope}`.source", f"pravega.`{scope}`.made"
    spark.sql(
        f"CREATE TABLE {source} (id INT NOT NULL COMMENT 'who', b VARCHAR(5) DEFAULT 'x') COMMENT 'things' "
        "TBLPROPERTIES ('format'='json', 'routing-key'='id', 'scaling.min-segments'='3', 'retention.type'='time', "
        "'retention.minimum'='7d', 'retention.maximum'='8d', 'tags'='b,a', 'compatibility'='full')"
    )
    spark.sql(f"INSERT INTO {source} VALUES (1, 'a')")
    spark.sql(f"CREATE TABLE {made} LIKE {source}")
    assert script_of(spark, made) == script_of(spark, source)
    spark.sql(f"INSERT INTO {made} (id) VALUES (2)")
    assert rows(spark, f"SELECT * FROM {made}") == [(2, "x")]
    spark.sql(f"CREATE TABLE IF NOT EXISTS {made} LIKE {source}")
    other = f"pravega.`{scope}`.other"
    spark.sql(f"CREATE TABLE {other} LIKE {source} USING pravega TBLPROPERTIES ('format'='avro', 'tags'='c')")
    properties = dict(rows(spark, f"SHOW TBLPROPERTIES {other}"))
    assert (properties["format"], properties["tags"], properties["retention.maximum"]) == ("avro", "c", "8d")


def test_a_table_like_one_of_another_catalog(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    name = f"like_{scope.replace('-', '_')}"
    spark.sql(
        f"CREATE TABLE spark_catalog.default.{name} (p INT, c CHAR(3) COMMENT 'code') USING parquet "
        f"PARTITIONED BY (p) LOCATION '{tmp_path}'"
    )
    spark.sql(f"CREATE TEMPORARY VIEW {name}_view AS SELECT 1 AS a, DATE'2026-01-01' AS d")
    try:
        spark.sql(f"CREATE TABLE pravega.`{scope}`.t LIKE spark_catalog.default.{name}")
        assert rows(spark, f"DESCRIBE pravega.`{scope}`.t") == [("c", "char(3)", "code"), ("p", "int", None)]
        spark.sql(f"CREATE TABLE pravega.`{scope}`.v LIKE {name}_view TBLPROPERTIES ('routing-key'='a')")
        assert rows(spark, f"DESCRIBE pravega.`{scope}`.v") == [("a", "int", None), ("d", "date", None)]
    finally:
        spark.sql(f"DROP TABLE spark_catalog.default.{name}")
        spark.catalog.dropTempView(f"{name}_view")


def test_purge_is_what_drop_does(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (id INT)")
    spark.sql(f"DROP TABLE pravega.`{scope}`.t PURGE")
    assert not pravega.controller.stream_exists(Stream(scope, "t"))
    spark.sql(f"DROP TABLE IF EXISTS pravega.`{scope}`.t PURGE")


def test_truncation_of_a_stream_that_was_scaled(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table, stream = f"pravega.`{scope}`.t", Stream(scope, "t")
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('routing-key'='id')")
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT) FROM range(10)")
    [old] = pravega.controller.current_segments(stream)
    pravega.controller.scale_stream(stream, [old.segment_id], [(0.0, 0.5), (0.5, 1.0)])
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT) FROM range(10, 20)")
    end = measure_tail(pravega, stream)
    spark.sql(f"TRUNCATE TABLE {table}")
    assert pravega.controller.head(stream) == end == measure_tail(pravega, stream)
    assert rows(spark, f"SELECT count(*) FROM {table}") == [(0,)]
    spark.sql(f"TRUNCATE TABLE {table}")
    spark.sql(f"INSERT INTO {table} VALUES (20)")
    assert rows(spark, f"SELECT * FROM {table}") == [(20,)]
    # Versions go on, and a range of them begins with what is left.
    changes = f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION"
    assert rows(spark, f"{changes} 1") == [(20, 3)]
    assert "PRAVEGA_DATA_LOSS" in refused_rows(spark, f"{changes} 2 TO VERSION 2")
    spark.sql(f"DELETE FROM {table}")
    assert rows(spark, f"SELECT * FROM {table}") == []


def refused_rows(spark: SparkSession, query: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(query).collect()
    return str(caught.value)


def test_truncation_takes_whole_transactions(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table, stream = f"pravega.`{scope}`.t", Stream(scope, "t")
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('routing-key'='id', 'scaling.min-segments'='4')")
    heads, enough = set[StreamCut](), threading.Event()

    def insert() -> None:
        while not enough.is_set():
            spark.sql(f"INSERT INTO {table} SELECT id FROM range(20)")

    with ThreadPoolExecutor(4) as threads:
        inserts = [threads.submit(insert) for _ in range(4)]
        try:
            while len(heads) < 5 and not any(each.done() for each in inserts):
                spark.sql(f"TRUNCATE TABLE {table}")
                heads.add(pravega.controller.head(stream))
                counts = rows(spark, f"SELECT count(*) AS n FROM {table} GROUP BY id")
                assert len(set(counts)) <= 1 and len(counts) in (0, 20), counts
        finally:
            enough.set()
        for each in inserts:
            each.result()
    assert len(heads) == 5


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="alone"), pytest.param({"consumer": "reporting"}, id="consumer", marks=pytest.mark.long)],
)
def test_a_streaming_query_goes_on_after_truncation(
    spark: SparkSession, scope: str, tmp_path: Path, options: dict[str, str]
) -> None:
    table, sink = f"pravega.`{scope}`.t", ParquetSink(spark, tmp_path)
    retention = "'retention.type'='time', 'retention.minimum'='7d'"  # without it a consumer has nothing to hold back
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ({retention})")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    sink.take(spark.readStream.options(**options).table(table))
    spark.sql(f"TRUNCATE TABLE {table}")
    sink.take(spark.readStream.options(**options).table(table))
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    sink.take(spark.readStream.options(**options).table(table))
    assert sorted(row.id for row in sink.rows()) == [1, 2]
    # What it has not read is gone for it too, and it says so.
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    spark.sql(f"TRUNCATE TABLE {table}")
    with pytest.raises(StreamingQueryException, match="PRAVEGA_DATA_LOSS"):
        sink.take(spark.readStream.options(**options).table(table))
    spark.sql(f"INSERT INTO {table} VALUES (4)")
    sink.take(spark.readStream.options(**options, **{"fail-on-data-loss": "false"}).table(table))
    assert sorted(row.id for row in sink.rows()) == [1, 2, 4]


def test_a_sealed_stream_is_truncated_or_says_that_it_is_sealed(
    spark: SparkSession, pravega: Pravega, scope: str
) -> None:
    table = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {table} (id INT)")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    pravega.controller.seal_stream(Stream(scope, "t"))
    assert "PRAVEGA_STREAM_SEALED" in refused(spark, f"TRUNCATE TABLE {table}")
    assert rows(spark, f"SELECT * FROM {table}") == [(1,)]


def test_what_is_not_truncated(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.customers"
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    refusal = refused(spark, f"TRUNCATE TABLE {table}")
    assert "TRUNCATE TABLE is not possible" in refusal and "truncate the table in its database" in refusal
    refusal = refused(spark, f"TRUNCATE TABLE pravega.`{scope}`.`customers$changelog`")
    assert "TRUNCATE TABLE or DELETE without WHERE is not possible" in refusal and f"Truncate {table}" in refusal
    comment = f"ALTER TABLE pravega.`{scope}`.`customers$changelog` SET TBLPROPERTIES ('comment'='x')"
    assert f"is a part of the table {table}. ALTER TABLE {table}." in refused(spark, comment)


def test_every_setting_of_a_stream_can_be_altered(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table, stream = f"pravega.`{scope}`.t", Stream(scope, "t")
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('tags'='b,a', 'rollover-size'='1m')")
    before = pravega.controller.stream_configuration(stream)
    assert before.rollover_size_bytes == 1 << 20 and {"a", "b"} < set(before.tags)
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('tags'='c', 'rollover-size'='64m', 'scaling.type'='by-rate-events', "
        "'scaling.target-rate'='100', 'scaling.factor'='3', 'scaling.min-segments'='2', 'retention.type'='size', "
        "'retention.minimum'='1g', 'retention.maximum'='2g', 'event-time-timeout'='1min', 'comment'='new')"
    )
    after = pravega.controller.stream_configuration(stream)
    assert after.rollover_size_bytes == 64 << 20 and "c" in after.tags and not {"a", "b"} & set(after.tags)
    assert (after.scaling.kind, after.scaling.target_rate, after.scaling.factor, after.scaling.min_segments) == (
        "by-rate-events", 100, 3, 2,
    )  # fmt: skip
    assert after.retention is not None and after.timestamp_aggregation_timeout_ms == 60_000
    assert (after.retention.kind, after.retention.minimum, after.retention.maximum) == ("size", 1 << 30, 2 << 30)
    properties = dict(rows(spark, f"SHOW TBLPROPERTIES {table}"))
    assert (properties["tags"], properties["rollover-size"], properties["retention.maximum"]) == ("c", "64m", "2g")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('tags', 'rollover-size', 'retention.maximum')")
    assert not {"tags", "rollover-size", "retention.maximum"} & dict(rows(spark, f"SHOW TBLPROPERTIES {table}")).keys()


def test_tags_of_other_programs_stay_as_they_are(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table, stream, theirs = f"pravega.`{scope}`.t", Stream(scope, "t"), {"a,b", "c,c", "d "}
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('format'='json', 'comment'='old')")
    made = pravega.controller.stream_configuration(stream)
    pravega.controller.update_stream(stream, replace(made, tags=(*made.tags, *theirs)))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('comment'='new', 'rollover-size'='64m')")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN name STRING")
    after = pravega.controller.stream_configuration(stream)
    assert after.rollover_size_bytes == 64 << 20 and theirs < set(after.tags)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('tags'='e')")
    tags = set(pravega.controller.stream_configuration(stream).tags)
    assert "e" in tags and not theirs & tags


def test_events_without_header_of_a_schema_that_is_registered(
    spark: SparkSession, pravega: Pravega, cluster: Any, foreign: Foreign, scope: str
) -> None:
    """As Java's serializers write them when they are told to write no header."""
    java: ForeignClient = foreign.connect(cluster)
    java.create_stream(scope, "theirs")
    registry = pravega.registry(scope)
    registry.create_group("theirs", GroupProperties("Json", Compatibility("AllowAny")))
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}'
    registry.add_schema("theirs", SchemaInfo.of_text("object", "Json", schema))
    java.write_text(scope, "theirs", [(None, '{"id": 1, "name": "a"}'), (None, '{"id": 2}')])
    table = f"pravega.`{scope}`.theirs"
    assert "0x7b, not the 0x01 of a registry header" in refused_rows(spark, f"SELECT * FROM {table}")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('framing'='none')")
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [(1, "a"), (2, None)]
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    assert [event.payload for event in java.read(scope, "theirs", "bytes")][2:] == [b'{"id":3,"name":"c"}']
    message = refused(spark, f"ALTER TABLE {table} SET TBLPROPERTIES ('framing'='registry')")
    assert "'framing'='registry' does not fit" in message and "have no header" in message


KEYS = ["", "a", "sensor-1", "größe", "日本語", "😀", "x" * 1000]


def test_functions(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {table} (k STRING) TBLPROPERTIES ('routing-key'='k', 'scaling.min-segments'='4')")
    spark.createDataFrame([(key,) for key in KEYS if key], "k STRING").writeTo(table).append()
    hashes = spark.createDataFrame([(key,) for key in KEYS], "k STRING").selectExpr("pravega.system.routing_hash(k)")
    assert [row[0] for row in hashes.collect()] == hash_keys(pa.array(KEYS)).tolist()
    found = spark.sql(
        f"SELECT _segment = {table}.segment_of(k) AS there, "
        f"_event_pointer = pravega.system.event_pointer(_segment, _offset, length(_raw)) AS pointer FROM {table}"
    ).collect()
    assert len(found) == len(KEYS) - 1 and all(row.there and row.pointer for row in found)
    assert rows(spark, f"SELECT pravega.system.routing_hash(NULL), {table}.segment_of(NULL)") == [(None, None)]
    listed = [name for (name,) in rows(spark, "SHOW USER FUNCTIONS IN pravega.system")]
    assert listed == ["pravega.system.event_pointer", "pravega.system.routing_hash"]
    assert spark.catalog.functionExists("pravega.system.routing_hash")
    assert not spark.catalog.functionExists("pravega.system.nothing")
    assert "routing_hash(key)" in refused(spark, "SELECT pravega.system.routing_hash()")
