"""CREATE TABLE on a stream that exists: it keeps its events and settings and gets a schema."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from pyspark_pravega import catalog
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import RetentionPolicy, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.local.state import ClusterInfo

EVENTS = [b'{"id": 1, "name": "a"}', b'{"id": 2}', b'{"id": 3, "name": "c", "more": true}']


@pytest.fixture
def stream(client_config: ClientConfig, scope: str) -> Stream:
    """A stream as another application made it: two segments, retention, a tag, bare JSON events."""
    stream = Stream(scope, "theirs")
    configuration = StreamConfiguration(
        scaling=ScalingPolicy("fixed", 0, 2, 2),
        retention=RetentionPolicy("time", 86_400_000, None),
        tags=("team-a",),
        rollover_size_bytes=0,
        timestamp_aggregation_timeout_ms=0,
    )
    with connect(client_config) as pravega:
        pravega.controller.create_stream(stream, configuration)
        block = b"".join(bytes(4) + len(event).to_bytes(4, "big") + event for event in EVENTS)
        segment = pravega.controller.current_segments(stream)[0].segment_id
        with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
            appender.append(block, len(EVENTS))
            appender.flush()
    return stream


def test_a_stream_without_schema_is_a_raw_table(spark: SparkSession, stream: Stream) -> None:
    table = f"pravega.`{stream.scope}`.theirs"
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN pravega.`{stream.scope}`").collect()] == ["theirs"]
    assert sorted(bytes(row.event) for row in spark.sql(f"SELECT * FROM {table}").collect()) == sorted(EVENTS)


def test_adoption_keeps_events_and_settings(spark: SparkSession, stream: Stream, client_config: ClientConfig) -> None:
    table = f"pravega.`{stream.scope}`.theirs"
    with connect(client_config) as pravega:
        before = pravega.controller.stream_configuration(stream)
    spark.sql(
        f"CREATE TABLE {table} (id INT, name STRING) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none')"
    )
    rows = spark.sql(f"SELECT id, name FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, None), (3, "c")]
    spark.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    assert spark.sql(f"SELECT count(*), max(id) FROM {table}").first()[:] == (4, 4)
    with connect(client_config) as pravega:
        after = pravega.controller.stream_configuration(stream)
    assert (after.scaling, after.retention) == (before.scaling, before.retention)
    assert "team-a" in after.tags


@pytest.mark.parametrize(("key", "value"), [("scaling.min-segments", "9"), ("event-time-timeout", "5 minutes")])
def test_adoption_refuses_to_change_the_stream(spark: SparkSession, stream: Stream, key: str, value: str) -> None:
    table = f"pravega.`{stream.scope}`.theirs"
    properties = f"'format'='json', 'framing'='none', '{key}'='{value}'"
    with pytest.raises(PySparkException, match=f"PRAVEGA_INVALID_OPTION.*{key}"):
        spark.sql(f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ({properties})")
    assert [field.name for field in spark.table(table).schema] == ["event"]


def test_a_failed_create_table_as_select_never_touches_a_stream_that_was_there(
    spark: SparkSession, stream: Stream
) -> None:
    table = f"pravega.`{stream.scope}`.theirs"
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {table} USING pravega AS SELECT raise_error('no') AS x")
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == len(EVENTS)


@pytest.mark.parametrize(("format", "again"), [("avro", True), ("avro", False), ("kvtable", True)])
def test_a_failed_create_table_as_select_leaves_what_others_have_made_meanwhile(
    spark: SparkSession, cluster: ClusterInfo, scope: str, format: str, again: bool
) -> None:
    name = f"`{scope}`.new"
    servers = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    properties = {"format": format} | ({"primary-key": "id"} if format == "kvtable" else {})
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])

    @udf(useArrow=False)
    def interfere(number: int) -> str:
        with catalog.connect(**servers) as others:
            if again:
                others.drop_table(name)
                others.create_table(name, columns, properties=properties)
            else:
                others.load_table(name).append(pa.table({"id": [number], "name": ["theirs"]}))
        raise ValueError("too late")

    query = spark.range(1).select("id", interfere("id").alias("name")).writeTo(f"pravega.{name}").using("pravega")
    for key, value in properties.items():
        query = query.tableProperty(key, value)
    with pytest.raises(PySparkException, match="too late"):
        query.create()
    rows = spark.table(f"pravega.{name}").collect()
    assert (rows == []) if again else ({tuple(row) for row in rows} == {(0, "theirs")})
