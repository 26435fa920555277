"""What the official serializers make of the registry beyond one schema: Protobuf, several types, custom codecs."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.formats.core.framing import make_header
from pyspark_pravega.formats.protobuf.message_types import find_message_class, read_message_type
from pyspark_pravega.local.state import ClusterInfo
from tests.bad_payloads import AVRO_SCHEMA
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.interop.foreign import Codec, Foreign, ForeignClient, Json
from tests.protobuf_schemas import descriptor_set

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy")
V1 = """
syntax = "proto3"; package plant;
enum State { OFF = 0; ON = 1; }
message Part { string name = 1; optional double size = 2; }
message Pump { int32 id = 1; string name = 2; State state = 3; repeated int64 counts = 4;
  map<string, double> limits = 5;
  Part part = 6; repeated Part parts = 7; oneof source { string pipe = 8; bytes tank = 9; } uint64 total = 10;
  bool flag = 11; float f = 12; fixed32 x = 13; sint64 z = 14; }
"""
V2 = V1.replace("sint64 z = 14;", "sint64 z = 14; optional string note = 15;").replace(
    "string name = 2; State", "State"
)


@pytest.fixture
def java(foreign: Foreign, cluster: ClusterInfo) -> ForeignClient:
    return foreign.connect(cluster)


def pump(text: str, number: int) -> Any:
    schema = f"plant.Pump {base64.b64encode(descriptor_set(text)).decode('ascii')}"
    message: Any = find_message_class(read_message_type(schema))(
        id=number, state=number % 2, counts=[number, -number], limits={"ä": 0.5}, total=2**64 - 1, f=0.5, z=-number
    )
    message.parts.add(name="größe", size=number)
    message.parts.add()
    if number % 2:
        message.part.name = "p"
        message.tank = b"\0"
    else:
        message.pipe = "ß"
    if text is V2:
        message.note = "new"
    else:
        message.name = "x" * number
    return message


def row(number: int, name: str, note: str | None) -> dict[str, Any]:
    odd = number % 2 == 1
    found: dict[str, Any] = {
        "id": number, "state": "ON" if odd else "OFF", "counts": [number, -number], "limits": [("ä", 0.5)],
        "part": {"name": "p", "size": None} if odd else None,
        "parts": [{"name": "größe", "size": float(number)}, {"name": "", "size": None}],
        "pipe": None if odd else "ß", "tank": b"\0" if odd else None, "total": 2**64 - 1, "flag": False, "f": 0.5,
        "x": 0, "z": -number, "name": name, "note": note,
    }  # fmt: skip
    return found


def test_protobuf_of_java_is_a_table_at_once(
    spark: SparkSession, java: ForeignClient, scope: str, client_config: ClientConfig
) -> None:
    java.create_stream(scope, "pumps")
    table = f"pravega.`{scope}`.pumps"
    for place, codec in enumerate(CODECS):
        events: list[tuple[str | None, bytes]] = [
            ("k", pump(V1, number).SerializeToString()) for number in range(10 * place, 10 * place + 10)
        ]
        java.write_protobuf(scope, "pumps", "plant.Pump", descriptor_set(V1), events, codec=codec)
    found = spark.sql(f"SELECT * FROM {table} ORDER BY id").toArrow().to_pylist()
    assert found == [without(row(number, "x" * number, None), "note") for number in range(30)]
    # A second version, without a field and with another one.
    events = [("k", pump(V2, number).SerializeToString()) for number in range(30, 33)]
    java.write_protobuf(scope, "pumps", "plant.Pump", descriptor_set(V2), events)
    found = spark.sql(f"SELECT * FROM {table} ORDER BY id").toArrow().to_pylist()
    assert found == [without(row(number, "", "new" if number >= 30 else None), "name") for number in range(33)]
    pinned = spark.sql(f"SELECT id, name FROM {table} WITH ('schema-version'='0') WHERE id IN (1, 31) ORDER BY id")
    assert pinned.collect() == [(1, "x"), (31, "")]

    # And back: what Spark inserts the official deserializer reads.
    columns = ", ".join("id + 100" if name == "id" else name for name in spark.table(table).columns)
    spark.sql(f"INSERT INTO {table} SELECT {columns} FROM {table} WHERE id = 31")
    written = spark.sql(f"SELECT _raw FROM {table} WHERE id = 131").collect()[0]._raw
    expected = pump(V2, 31)
    expected.id = 131
    assert type(expected).FromString(bytes(written)[5:]) == expected
    java.create_stream(scope, "others")
    java.write_protobuf(scope, "others", "plant.Pump", descriptor_set(V2), [])
    with connect(client_config) as pravega:
        if not pravega.registry(scope).latest_schemas("others"):
            pravega.registry(scope).add_schema("others", SchemaInfo("plant.Pump", "Protobuf", descriptor_set(V2)))
    others = f"pravega.`{scope}`.others"
    spark.sql(f"INSERT INTO {others} SELECT * FROM {table} WHERE id < 3")
    values = [type(expected).FromString(bytes.fromhex(event.value)) for event in java.read(scope, "others", "protobuf")]
    assert sorted(value.id for value in values) == [0, 1, 2]
    assert all(value.total == 2**64 - 1 and value.parts[0].name == "größe" for value in values)


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


LABEL: Json = {"type": "record", "name": "Label", "namespace": "a", "fields": [{"name": "text", "type": "string"}]}
CIRCLE: Json = {"type": "record", "name": "Circle", "namespace": "a", "fields": [{"name": "r", "type": "double"}]}
NEWER_LABEL: Json = LABEL | {"fields": [*LABEL["fields"], {"name": "size", "type": ["null", "int"], "default": None}]}


def test_several_types_are_a_table_each(
    spark: SparkSession, java: ForeignClient, scope: str, client_config: ClientConfig
) -> None:
    java.create_stream(scope, "shapes", segments=2)
    java.write_avro(scope, "shapes", LABEL, [(str(n), {"text": str(n)}) for n in range(10)])
    java.write_avro(scope, "shapes", CIRCLE, [(str(n), {"r": n / 2}) for n in range(20)], codec="gzip")
    java.write_avro(scope, "shapes", NEWER_LABEL, [("k", {"text": "new", "size": {"int": 3}})])
    stream = f"pravega.`{scope}`.shapes"
    with pytest.raises(PySparkException) as caught:
        spark.table(stream)
    assert "holds events of several types (a.Circle, a.Label)" in str(caught.value)
    assert "`shapes$a.Circle`, `shapes$a.Label`" in str(caught.value)
    labels, circles = (f"pravega.`{scope}`.`shapes${name}`" for name in ("a.Label", "Circle"))
    assert spark.sql(f"SELECT count(*), count(size), max(size) FROM {labels}").first()[:] == (11, 1, 3)
    assert spark.table(circles).schema.simpleString() == "struct<r:double>"
    assert sorted(found.r for found in spark.table(circles).collect()) == [n / 2 for n in range(20)]
    assert spark.sql(f"SELECT count(*) FROM {circles}").first()[0] == 20
    assert len(spark.sql(f"SELECT r FROM {circles} LIMIT 7").collect()) == 7
    assert spark.sql(f"SELECT * FROM {labels} WITH ('schema-version'='0')").columns == ["text"]
    with pytest.raises(PySparkException, match="no type with the name Square. Its types are a.Circle, a.Label"):
        spark.table(f"pravega.`{scope}`.`shapes$Square`")
    for statement, message in [
        (f"ALTER TABLE {labels} SET TBLPROPERTIES ('comment'='x')", "is one type of the events of a stream"),
        (f"DROP TABLE {labels}", "is a part of .*, and cannot be dropped alone"),
    ]:
        with pytest.raises(PySparkException, match=message):
            spark.sql(statement)
    # Writing adds events of that type, which Java reads.
    spark.sql(f"INSERT INTO {circles} VALUES (99.5)")
    assert {"r": 99.5} in [event.value for event in java.read(scope, "shapes", "any")]
    assert spark.sql(f"SELECT count(*) FROM {labels}").first()[0] == 11
    # What is of no type is a bad event of each.
    with connect(client_config) as pravega:
        batch = pa.record_batch([pa.array([b"?", make_header(77)], pa.binary())], names=["event"])
        insert(pravega, raw_table(Stream(scope, "shapes")), batch)
    for table, good in [(labels, 11), (circles, 21)]:
        with pytest.raises(PySparkException, match="PRAVEGA_MALFORMED_EVENT"):
            spark.table(table).collect()
        assert spark.read.option("mode", "dropmalformed").table(table).count() == good
        bad = spark.read.option("mode", "permissive").table(table).where("_error IS NOT NULL").select("_error")
        assert sorted(found[0][:20] for found in bad.collect()) == ["it has 1 bytes, fewe", "its encoding id 77 i"]
    assert [found.tableName for found in spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect()] == ["shapes"]
    spark.sql(f"DROP TABLE {stream}")


def test_types_of_several_formats(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    """A group of format Any: each type is read by its own format."""
    schemas = [
        SchemaInfo.of_text("Event", "Avro", AVRO_SCHEMA),
        SchemaInfo.of_text("Item", "Json", '{"type":"object","properties":{"name":{"type":"string"}}}'),
        SchemaInfo("plant.Pump", "Protobuf", descriptor_set(V1)),
    ]
    payloads = [b"\x02\x02\x04", b'{"name":"x"}', pump(V1, 7).SerializeToString()]
    with connect(client_config) as pravega:
        stream = Stream(scope, "mixed")
        pravega.controller.create_stream(stream, StreamConfiguration())
        registry = pravega.registry(scope)
        registry.create_group("mixed", GroupProperties("Any", allow_multiple_types=True))
        ids = [registry.encoding_id("mixed", registry.add_schema("mixed", schema)) for schema in schemas]
        events = [make_header(one) + payload for one, payload in zip(ids, payloads, strict=True)]
        insert(pravega, raw_table(stream), pa.record_batch([pa.array(events * 2, pa.binary())], names=["event"]))
    table = f"pravega.`{scope}`.`mixed${{}}`"
    assert spark.table(table.format("Event")).collect() == [Row(k=1, v=2)] * 2
    assert spark.table(table.format("Item")).collect() == [Row(name="x")] * 2
    assert [found.id for found in spark.table(table.format("Pump")).collect()] == [7, 7]


@pytest.mark.parametrize(
    ("codec", "reason"),
    [
        ("zstd", "the codec 'zstd' is not supported"),
        pytest.param("application/x-gzip", "gzip data is broken", marks=pytest.mark.long),
    ],
)
def test_codecs(spark: SparkSession, client_config: ClientConfig, scope: str, codec: str, reason: str) -> None:
    """A codec of somebody's own is refused by its name; events that are not of their codec are bad."""
    with connect(client_config) as pravega:
        stream = Stream(scope, "events")
        pravega.controller.create_stream(stream, StreamConfiguration())
        registry = pravega.registry(scope)
        registry.create_group("events", GroupProperties("Avro"))
        version = registry.add_schema("events", SchemaInfo.of_text("Event", "Avro", AVRO_SCHEMA))
        registry.add_codec("events", codec)
        plain = registry.encoding_id("events", version)
        packed = registry.encoding_id("events", version, codec)
        good, bad = make_header(plain) + b"\x02\x00", make_header(packed) + b"\x02\x00"
        batch = pa.record_batch([pa.array([good, bad, good], pa.binary())], names=["event"])
        insert(pravega, raw_table(stream), batch)
    table = f"pravega.`{scope}`.events"
    with pytest.raises(PySparkException) as caught:
        spark.table(table).collect()
    assert reason in str(caught.value)
    found = spark.read.option("mode", "permissive").table(table).select("k", "_error").collect()
    assert [each.k for each in found] == [1, None, 1]
    assert reason in found[1]._error
