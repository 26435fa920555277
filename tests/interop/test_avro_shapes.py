"""Avro schemas of other programs that are no plain rows, through SQL: the official serializers write and read them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.formats.avro.test_recursion import CLOUD_EVENT
from tests.interop.foreign import Foreign, ForeignClient

READING = {"type": "record", "name": "Reading", "fields": [{"name": "value", "type": "double"}]}
BEAT = {"type": "record", "name": "Beat", "fields": []}
SHAPES: dict[str, Any] = {
    "type": "record",
    "name": "Größe",
    "namespace": "a",
    "fields": [
        {"name": "ö", "type": "int"},
        {"name": "p", "type": [{**READING, "namespace": "v1"}, {**READING, "namespace": "v2"}]},
        {"name": "beat", "type": ["null", BEAT]},
        {"name": "beats", "type": {"type": "array", "items": ["null", "a.Beat"]}},
        {"name": "by", "type": {"type": "map", "values": "a.Beat"}},
        {"name": "next", "type": ["null", "a.Größe"]},
    ],
}


@pytest.fixture
def java(foreign: Foreign, cluster: ClusterInfo) -> ForeignClient:
    return foreign.connect(cluster)


def shape(number: int, following: Any = None) -> Any:
    return {
        "ö": number,
        "p": {f"v{1 + number % 2}.Reading": {"value": 0.5}},
        "beat": {"a.Beat": {}} if number % 2 else None,
        "beats": [{"a.Beat": {}}, None],
        "by": {"k": {}},
        "next": following,
    }


def test_unions_empty_records_and_recursion(spark: SparkSession, java: ForeignClient, scope: str) -> None:
    java.create_stream(scope, "shapes")
    events = [shape(1), shape(2, {"a.Größe": shape(3)})]
    java.write_avro(scope, "shapes", SHAPES, [("k", event) for event in events])
    table = f"pravega.`{scope}`.shapes"
    assert spark.table(table).schema.simpleString() == (
        "struct<ö:int,p:struct<member0:struct<value:double>,member1:struct<value:double>>,beat:struct<>,"
        "beats:array<struct<>>,by:map<string,struct<>>,next:string>"
    )
    rows = [row.asDict(recursive=True) for row in spark.sql(f"SELECT * FROM {table} ORDER BY `ö`").collect()]
    assert [row["p"]["member1"] for row in rows] == [{"value": 0.5}, None]
    assert [row["beat"] for row in rows] == [{}, None]
    assert [row["beats"] for row in rows] == [[{}, None]] * 2
    assert [row["by"] for row in rows] == [{"k": {}}] * 2
    text = '{"ö":3,"p":{"value":0.5},"beat":{},"beats":[{},null],"by":{"k":{}},"next":null}'
    assert [row["next"] for row in rows] == [None, text]
    found = spark.sql(f"SELECT count(beat), count(*), count_if(beat IS NULL) FROM {table}").collect()
    assert tuple(found[0]) == (1, 2, 1)
    parsed = "from_json(next, '`ö` INT, by MAP<STRING, STRUCT<>>')"
    inner = spark.sql(f"SELECT {parsed}.`ö` n FROM {table} WHERE next IS NOT NULL")
    assert [row.n for row in inner.collect()] == [3]

    java.create_stream(scope, "copies")
    java.write_avro(scope, "copies", SHAPES, [])
    with pytest.raises(PySparkException, match=r"at \$.p: it fits several types of the union"):
        spark.sql(f"INSERT INTO pravega.`{scope}`.copies SELECT * FROM {table}")
    spark.sql(f"INSERT INTO pravega.`{scope}`.copies SELECT * FROM {table} WHERE next IS NULL")
    assert [event.value for event in java.read(scope, "copies", "avro")] == events[:1]


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "mark", "type": {"type": "enum", "name": "Mark", "symbols": ["A"]}, "default": "A"},
        {"name": "again", "type": "Mark", "default": "A"},
    ],
}


def test_columns_of_a_recursive_table_are_altered(spark: SparkSession, java: ForeignClient, scope: str) -> None:
    java.create_stream(scope, "nodes")
    inner = {"id": 2, "next": None, "mark": "A", "again": "A"}
    java.write_avro(scope, "nodes", NODE, [("k", {**inner, "id": 1, "next": {"Node": inner}})])
    table = f"pravega.`{scope}`.nodes"
    spark.sql(f"ALTER TABLE {table} ADD COLUMN extra BIGINT")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO number")
    (row,) = spark.sql(f"SELECT number, next, extra FROM {table}").collect()
    assert tuple(row) == (1, '{"number":2,"next":null,"mark":"A","again":"A","extra":null}', None)
    spark.sql(f"INSERT INTO {table} VALUES (3, '{{\"number\": 4, \"extra\": 5}}', 'A', 'A', 6)")
    found = spark.sql(f"SELECT next, extra FROM {table} WHERE number = 3").collect()
    assert found[0] == ('{"number":4,"next":null,"mark":"A","again":"A","extra":5}', 6)
    # The column has the only definition of a type that another one has too.
    with pytest.raises(PySparkException, match="the type 'Mark' is not defined before its use"):
        spark.sql(f"ALTER TABLE {table} DROP COLUMN mark")
    with pytest.raises(PySparkException, match="(?i)next"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN next TYPE BINARY")
    assert spark.sql(f"SELECT count(next) n FROM {table}").collect()[0].n == 2


def test_cloud_events(spark: SparkSession, java: ForeignClient, scope: str) -> None:
    java.create_stream(scope, "cloud")
    data: Any = {"map": {"k": {"io.cloudevents.AvroCloudEventData": {"value": {"x": {"array": [{"value": {}}]}}}}}}
    event = {"attribute": {"id": {"string": "1"}}, "data": data}
    java.write_avro(scope, "cloud", CLOUD_EVENT, [("k", event)])
    table = f"pravega.`{scope}`.cloud"
    inner = "data.member2['k'].member1.value['x'].member2"
    (row,) = spark.sql(f"SELECT attribute['id'].member2 id, {inner} x FROM {table}").collect()
    assert (row.id, row.x) == ("1", ['{"value":{}}'])
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    assert [each.value for each in java.read(scope, "cloud", "avro")] == [event, event]
