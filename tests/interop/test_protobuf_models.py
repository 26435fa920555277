"""Protobuf streams whose models contain themselves, or messages without fields, as tables of Spark SQL."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.formats.core.framing import make_header
from pyspark_pravega.formats.protobuf.message_types import find_message_class, read_message_type
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.interop.foreign import Foreign
from tests.interop.protobuf_json import protobuf_as_json
from tests.protobuf_models import logs, sparkplug
from tests.protobuf_schemas import descriptor_set


def class_of(name: str, files: bytes) -> Any:
    return find_message_class(read_message_type(f"{name} {base64.b64encode(files).decode('ascii')}"))


def make_stream(
    config: ClientConfig, scope: str, name: str, schema: tuple[str, bytes], payloads: Sequence[bytes]
) -> str:
    """A stream of framed messages; returns the table's name."""
    with connect(config) as pravega:
        stream = Stream(scope, name)
        pravega.controller.create_stream(stream, StreamConfiguration())
        registry = pravega.registry(scope)
        registry.create_group(name, GroupProperties("Protobuf"))
        encoding = registry.encoding_id(name, registry.add_schema(name, SchemaInfo(schema[0], "Protobuf", schema[1])))
        events = pa.array([make_header(encoding) + payload for payload in payloads], pa.binary())
        insert(pravega, raw_table(stream), pa.record_batch([events], names=["event"]))
    return f"pravega.`{scope}`.`{name}`"


EMPTY = """
syntax = "proto3"; package p; import "google/protobuf/empty.proto";
message Nothing { } message Some { int32 id = 1; Nothing nothing = 2; repeated Nothing many = 3;
  map<int32, Nothing> named = 4; google.protobuf.Empty beat = 5; oneof event { Nothing left = 6; int32 came = 7; } }
"""


def test_messages_without_fields(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    """As a table's own message there is no column; within another they are `struct<>`."""
    files = descriptor_set(EMPTY)
    nothing = make_stream(client_config, scope, "nothing", ("p.Nothing", files), [b"", b"\x08\x01", b""])
    assert spark.table(nothing).schema.simpleString() == "struct<>"
    assert spark.table(nothing).count() == 3
    assert spark.sql(f"SELECT * FROM {nothing}").collect() == [()] * 3
    raw = spark.sql(f"SELECT substring(_raw, 6) AS message FROM {nothing} ORDER BY _offset").collect()
    assert [bytes(each.message) for each in raw] == [b"", b"\x08\x01", b""]
    with pytest.raises(PySparkException, match="message 'p.Nothing' has no fields, so no row can be written"):
        spark.range(2).select().writeTo(nothing).append()
    assert spark.sql(f"SELECT count(*) FROM {nothing}").first()[0] == 3

    some = make_stream(client_config, scope, "some", ("p.Some", files), SOME)
    assert spark.table(some).schema.simpleString() == (
        "struct<id:int,nothing:struct<>,many:array<struct<>>,named:map<int,struct<>>,beat:struct<>,left:struct<>,"
        "came:int>"
    )
    found = spark.table(some).orderBy("id").toArrow().to_pylist()
    whole = {"id": 1, "nothing": {}, "many": [{}, {}], "named": [(5, {})], "beat": {}, "left": {}, "came": None}
    other = {"id": 2, "nothing": None, "many": [], "named": [], "beat": None, "left": None, "came": 0}
    assert found == [whole, other]
    assert spark.sql(f"SELECT id FROM {some} WHERE beat IS NOT NULL").collect() == [(1,)]
    spark.sql(f"INSERT INTO {some} SELECT id + 10, nothing, many, named, beat, left, came FROM {some}")
    values = "11, named_struct(), array(named_struct(), named_struct()), map(5, named_struct()), named_struct()"
    spark.sql(f"INSERT INTO {some} VALUES ({values}, named_struct(), NULL)")
    written = spark.sql(f"SELECT id, substring(_raw, 6) AS message FROM {some} ORDER BY id").collect()
    assert [bytes(each.message)[2:] for each in written if each.id in (1, 11)] == [SOME[0][2:]] * 3
    uris = {"controller_uri": client_config.controller_uri, "schema_registry_uri": client_config.registry_uri}
    with connect_catalog(**uris) as catalog:
        assert catalog.load_table(f"{scope}.nothing").scan().count() == 3
        assert catalog.load_table(f"{scope}.nothing").scan().to_arrow().num_rows == 3
        (row,) = catalog.load_table(f"{scope}.some").scan(columns=["id", "many"]).to_arrow().slice(0, 1).to_pylist()
        assert row == {"id": 1, "many": [{}, {}]}


SOME = [bytes.fromhex("0801 1200 1a00 1a00 2204 0805 1200 2a00 3200"), bytes.fromhex("0802 3800")]


def test_logs_of_opentelemetry(spark: SparkSession, client_config: ClientConfig, scope: str, foreign: Foreign) -> None:
    name, files = logs()
    request = class_of(name, files)()
    of_resource = request.resource_logs.add()
    of_resource.resource.attributes.add(key="service.name").value.string_value = "pump"
    record = of_resource.scope_logs.add().log_records.add(
        time_unix_nano=2**63, severity_number=9, trace_id=b"\0\xff", flags=1
    )
    record.body.kvlist_value.values.add(key="größe").value.array_value.values.add().double_value = float("nan")
    record.body.kvlist_value.values.add(key="deep").value.kvlist_value.values.add(key="n").value.int_value = -(2**63)
    record.attributes.add(key="n").value.array_value.values.add().bool_value = False
    record.attributes[0].value.array_value.values.add().array_value.values.add().bytes_value = b"\0\1"
    table = make_stream(client_config, scope, "logs", (name, files), [request.SerializeToString()])

    found = spark.sql(f"""
        SELECT attribute.key, attribute.value.array_value.values, log.body.kvlist_value.values AS body,
          log.severity_number, log.time_unix_nano, resource.attributes[0].value.string_value AS service
        FROM {table} LATERAL VIEW inline(resource_logs) AS resource, scopes
          LATERAL VIEW explode(scopes[0].log_records) AS log LATERAL VIEW explode(log.attributes) AS attribute
    """).collect()
    assert [each.service for each in found] == ["pump"]
    assert (found[0].severity_number, found[0].time_unix_nano) == ("SEVERITY_NUMBER_INFO", 2**63)
    assert found[0]["values"] == ['{"bool_value":false}', '{"array_value":{"values":[{"bytes_value":"AAE="}]}}']
    assert [(one.key, one.value) for one in found[0].body] == [
        ("größe", '{"array_value":{"values":[{"double_value":"NaN"}]}}'),
        ("deep", '{"kvlist_value":{"values":[{"key":"n","value":{"int_value":"-9223372036854775808"}}]}}'),
    ]
    ((answer,),) = protobuf_as_json(foreign, [(name, files, [request.SerializeToString()])])
    said = json.loads(answer["json"])["resource_logs"][0]["scope_logs"][0]["log_records"][0]
    assert [json.loads(one.value) for one in found[0].body] == [
        one["value"] for one in said["body"]["kvlist_value"]["values"]
    ]
    check_inserted(spark, table, request)


def test_metrics_of_sparkplug(spark: SparkSession, client_config: ClientConfig, scope: str, foreign: Foreign) -> None:
    name, files = sparkplug()
    payload = class_of(name, files)(timestamp=1_700_000_000_000, seq=2**64 - 1)
    metric = payload.metrics.add(name="motor", alias=7, datatype=19)
    metric.template_value.metrics.add(name="speed", int_value=5).properties.keys.append("unit")
    metric.template_value.parameters.add(name="max", double_value=0.5)
    metric.properties.keys.append("nested")
    metric.properties.values.add(type=20).propertyset_value.keys.append("inner")
    table_metric = payload.metrics.add(name="table")
    table_metric.dataset_value.rows.add().elements.add(string_value="x")
    sent = payload.SerializeToString() + bytes.fromhex("c03e07")  # an extension that nobody here knows
    table = make_stream(client_config, scope, "tahu", (name, files), [sent])

    found = spark.sql(f"""
        SELECT metric.name, metric.template_value.metrics, metric.template_value.parameters.double_value,
          metric.properties.values.propertyset_value, metric.dataset_value.rows.elements, seq
        FROM {table} LATERAL VIEW explode(metrics) AS metric ORDER BY metric.name
    """).collect()
    assert [each.name for each in found] == ["motor", "table"]
    assert found[0].metrics == ['{"name":"speed","properties":{"keys":["unit"]},"int_value":5}']
    assert (found[0].double_value, found[0].seq) == ([0.5], 2**64 - 1)
    assert found[0].propertyset_value == ['{"keys":["inner"]}']
    assert found[1].elements[0][0].string_value == "x"
    ((answer,),) = protobuf_as_json(foreign, [(name, files, [sent])])
    motor = json.loads(answer["json"])["metrics"][0]
    assert json.loads(found[0].metrics[0]) == motor["template_value"]["metrics"][0]
    check_inserted(spark, table, payload)
    for wrong, why in [("{", "not JSON that fits tahu.Payload.Metric"), ('{"nmae":"x"}', 'has no field named "nmae"')]:
        with pytest.raises(PySparkException) as caught:
            members = "name,alias,timestamp,datatype,is_null,properties,int_value,long_value,double_value,boolean_value"
            spark.sql(
                f"INSERT INTO {table} SELECT timestamp, transform(metrics, m -> struct("
                f"{','.join(f'm.{each}' for each in members.split(','))}, m.string_value, m.dataset_value, "
                f"struct('' AS version, array('{wrong}') AS metrics, m.template_value.parameters, true AS is_definition"
                f") AS template_value)), seq, uuid, body FROM {table}"
            )
        assert "column 'metrics' is" in str(caught.value) and why in str(caught.value)


def check_inserted(spark: SparkSession, table: str, message: Any) -> None:
    """What INSERT writes of a table's rows is the message again."""
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    raw = spark.sql(f"SELECT substring(_raw, 6) AS written FROM {table} ORDER BY _offset").collect()
    assert len(raw) == 2
    assert type(message).FromString(bytes(raw[1].written)).SerializeToString() == message.SerializeToString()
