"""Records within themselves: columns of JSON text, read and written."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.core.test_evolution import field, record

AVRO = find_format("avro")

DATA: Any = {
    "type": "record",
    "name": "AvroCloudEventData",
    "fields": [
        field(
            "value",
            {
                "type": "map",
                "values": [
                    "null", "boolean", {"type": "map", "values": "AvroCloudEventData"},
                    {"type": "array", "items": "AvroCloudEventData"}, "double", "string",
                ],
            },
        )
    ],
}  # fmt: skip
CLOUD_EVENT: Any = {
    "namespace": "io.cloudevents",
    "type": "record",
    "name": "AvroCloudEvent",
    "fields": [
        field("attribute", {"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]}),
        field(
            "data",
            [
                "bytes", "null", "boolean", {"type": "map", "values": ["null", "boolean", DATA, "double", "string"]},
                {"type": "array", "items": "AvroCloudEventData"}, "double", "string",
            ],
        ),
    ],
}  # fmt: skip
"""The shape of the schema that the CloudEvents project publishes for its Avro format."""


def payload(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return target.getvalue()


def rows_of(schema: Any, *payloads: bytes, writer: Any = None) -> tuple[list[Any], list[str]]:
    text = json.dumps(schema)
    writers = [WriterSchema(json.dumps(schema if writer is None else writer), "Avro", "")]
    both = BothPaths("avro", AVRO.spark_schema(text), text, writers.__getitem__)
    batch, bad = both.check(EventBuffer.of([make_header(0) + payload for payload in payloads]))
    return batch.to_pylist(), [event.reason for event in bad]


def rewritten(schema: Any, row: dict[str, Any]) -> bytes:
    text = json.dumps(schema)
    spark = AVRO.spark_schema(text)
    batch = pa.RecordBatch.from_pylist([row], schema=arrow_schema(spark))
    (found,) = AVRO.encoder(Layout(spark, text)).encode(batch).to_pylist()
    assert isinstance(found, bytes)
    return found


NODE = record(field("id", "int"), field("next", ["null", "Node"], default=None), name="Node")
TREE = record(field("name", "string"), field("children", {"type": "array", "items": "Tree"}), name="Tree")
NAMED = record(field("name", "string"), field("children", {"type": "map", "values": "Named"}), name="Named")
ANY = record(field("value", ["null", "long", "string", {"type": "array", "items": "Any"}]), name="Any")
LEFT = record(
    field("right", ["null", record(field("left", ["null", "Left"]), field("x", "int"), name="Right")]), name="Left"
)

SHAPES: list[tuple[Any, str, Any, Any]] = [
    (NODE, "next:string", {"id": 1, "next": {"id": 2, "next": {"id": 3, "next": None}}},
     {"id": 1, "next": '{"id":2,"next":{"id":3,"next":null}}'}),
    (NODE, "next:string", {"id": 1, "next": None}, {"id": 1, "next": None}),
    (TREE, "children:array<string>", {"name": "a", "children": [{"name": "ö", "children": []}]},
     {"name": "a", "children": ['{"name":"ö","children":[]}']}),
    (NAMED, "children:map<string,string>", {"name": "a", "children": {"k": {"name": "b", "children": {}}}},
     {"name": "a", "children": [("k", '{"name":"b","children":{}}')]}),
    (ANY, "value:struct<member0:bigint,member1:string,member2:array<string>>",
     {"value": [{"value": None}, {"value": 5}, {"value": "x"}, {"value": [{"value": 6}]}]},
     {"value": {"member0": None, "member1": None, "member2": [
         '{"value":null}', '{"value":5}', '{"value":"x"}', '{"value":[{"value":6}]}']}}),
    (LEFT, "right:struct<left:string,x:int>", {"right": {"left": {"right": {"left": None, "x": 2}}, "x": 1}},
     {"right": {"left": '{"right":{"left":null,"x":2}}', "x": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "column", "value", "row"), SHAPES, ids=range(len(SHAPES)))
def test_the_record_that_would_be_opened_again_is_text(schema: Any, column: str, value: Any, row: Any) -> None:
    assert column in AVRO.spark_schema(json.dumps(schema)).simpleString()
    event = payload(schema, value)
    assert rows_of(schema, event) == ([row], [])
    assert rewritten(schema, row) == event


def test_cloud_events_are_a_table() -> None:
    text = json.dumps(CLOUD_EVENT)
    found = AVRO.spark_schema(text)
    assert "member5:string" in found["data"].dataType.simpleString()
    cell = {"value": {"a": 1.5, "list": [{"value": {"x": "y"}}], "none": None}}
    value = {"attribute": {"id": "1", "n": 5}, "data": {"k": cell, "plain": "text"}}
    event = payload(CLOUD_EVENT, value)
    rows, bad = rows_of(CLOUD_EVENT, event)
    assert bad == []
    data = dict(rows[0]["data"]["member2"])
    assert data["plain"]["member3"] == "text"
    inner = dict(data["k"]["member1"]["value"])
    assert inner["a"]["member3"] == 1.5
    assert inner["list"]["member2"] == ['{"value":{"x":"y"}}']
    assert inner["none"] is None
    assert rewritten(CLOUD_EVENT, rows[0]) == event


LOGICAL = record(
    field("next", ["null", "L"]),
    field("flag", "boolean"),
    field("float", "float"),
    field("double", "double"),
    field("bytes", "bytes"),
    field("fixed", {"type": "fixed", "name": "F", "size": 2}),
    field("enum", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    field("exact", {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 0}),
    field("day", {"type": "int", "logicalType": "date"}),
    field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    field("micros", {"type": "long", "logicalType": "local-timestamp-micros"}),
    field("uuid", {"type": "string", "logicalType": "uuid"}),
    field("octets", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}),
    name="L",
)
UUID = "01020304-0506-0708-090a-0b0c0d0e0f10"
PLAIN = (
    b"\1" + b"\xcd\xcc\xcc\x3d" + b"\0\0\0\0\0\0\x14\x40" + b"\4\0\xff" + b"\xfe\xff" + b"\2" + b"\4\xff\x6a"
    + b"\xff\xff\xff\xff" + b"\1" + b"\x01" + b"\2" + bytes([72]) + UUID.encode() + bytes(range(1, 17))
)  # fmt: skip
PLAIN_TEXT = (
    '{"next":null,"flag":true,"float":0.1,"double":5.0,"bytes":"AP8=","fixed":"/v8=","enum":"B","price":-1.50,"exact":-1,'
    '"day":"1969-12-31","millis":"1969-12-31T23:59:59.999000Z","micros":"1970-01-01T00:00:00.000001",'
    f'"uuid":"{UUID}","octets":"{UUID}"}}'
)


def test_values_are_those_of_format_json() -> None:
    event = b"\2\0" + PLAIN + PLAIN
    rows, bad = rows_of(LOGICAL, event)
    assert bad == []
    assert rows[0]["next"] == PLAIN_TEXT
    assert rewritten(LOGICAL, rows[0]) == event
    # And these are what format json has for the same columns.
    json_format = find_format("json")
    schema = AVRO.spark_schema(json.dumps(LOGICAL))
    document = json.loads(PLAIN_TEXT)
    read = json_format.decoder(Layout(schema, json_format.schema_text(Layout(schema), "t", "s")))
    batch, wrong = read.decode_valid(EventBuffer.of([PLAIN_TEXT.encode()]))
    assert wrong == []
    assert {**batch.to_pylist()[0], "next": rows[0]["next"]} == rows[0]
    assert document["price"] == -1.5


def test_special_floats() -> None:
    schema = record(field("next", ["null", "N"]), field("d", "double"), field("f", "float"), name="N")
    nan = b"\2\0" + b"\0\0\0\0\0\0\xf8\x7f" + b"\0\0\x80\xff"
    event = nan + nan[2:]
    rows, _ = rows_of(schema, event)
    assert rows[0]["next"] == '{"next":null,"d":"NaN","f":"-Infinity"}'
    assert rewritten(schema, rows[0]) == event


def test_texts_are_resolved_to_the_tables_schema() -> None:
    newer = record(
        field("number", "long", aliases=["id"]),
        field("next", ["null", "Node"], default=None),
        field("unit", "string", default="°C"),
        field("list", {"type": "array", "items": ["null", "bytes"]}, default=[None]),
        field("note", ["null", "string"]),
        name="Node",
    )
    event = payload(NODE, {"id": 1, "next": {"id": 2, "next": None}})
    rows, bad = rows_of(newer, event, writer=NODE)
    assert bad == []
    assert rows[0]["next"] == '{"number":2,"next":null,"unit":"°C","list":[null],"note":null}'
    older = record(field("next", ["null", "Node"]), name="Node")
    assert rows_of(older, event, writer=NODE) == ([{"next": '{"next":null}'}], [])


def test_a_default_of_such_a_column() -> None:
    more = field("more", {"type": "array", "items": "Node"}, default=[{"id": 7, "next": None, "more": []}])
    newer = record(field("id", "int"), field("next", ["null", "Node"]), more, name="Node")
    rows, bad = rows_of(newer, payload(NODE, {"id": 1, "next": None}), writer=NODE)
    assert (rows, bad) == ([{"id": 1, "next": None, "more": ['{"id":7,"next":null,"more":[]}']}], [])


def test_what_cannot_be_told_is_a_bad_event_that_names_the_column() -> None:
    schema = record(
        field("next", ["null", "N"]), field("day", {"type": "int", "logicalType": "date"}), field("s", "string"),
        name="N",
    )  # fmt: skip
    far, near = b"\xfe\xff\xff\xff\x0f", b"\0"
    _, bad = rows_of(schema, b"\2\0" + far + b"\0" + near + b"\0", b"\2\0" + near + b"\2\xff" + near + b"\0", b"\2\0\0")
    assert "column 'next': the date is outside the years 0001 to 9999" in bad[0]
    assert "column 'next': the string is not UTF-8" in bad[1]
    assert "cut off" in bad[2]


def linked(count: int) -> bytes:
    return b"".join(b"\2\2" for _ in range(count)) + b"\2\0"


def test_depth() -> None:
    rows, bad = rows_of(NODE, linked(500), linked(501), linked(100_000))
    assert len(rows) == 1
    assert rows[0]["next"].count("{") == 500
    assert rewritten(NODE, rows[0]) == linked(500)
    assert bad == ["column 'next': it is nested more than 500 levels deep"] * 2
    deep = '{"id":1,"next":' * 501 + "null" + "}" * 501
    with pytest.raises(InvalidRowError, match=r"row 0 .* column 'next' .* nested more than 500 levels deep"):
        rewritten(NODE, {"id": 1, "next": deep})


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (NODE, [{"id": 1, "next": None}, {"id": 1, "next": {"id": 2, "next": {"id": 3, "next": None}}}]),
        (TREE, [{"name": "1", "children": [{"name": "ö", "children": []}] * 3}]),
        (NAMED, [{"name": "1", "children": {"k": {"name": "b", "children": {}}}}]),
        (record(field("id", "int"), field("left", LEFT), field("e", "string"), name="Root"), [
            {"id": 1, "left": {"right": None}, "e": "x"},
            {"id": 1, "left": {"right": {"left": {"right": {"left": None, "x": 2}}, "x": 1}}, "e": "y"},
        ]),
    ],
    ids=["union", "array", "map", "others"],
)  # fmt: skip
def test_other_columns_are_read_without_it(schema: Any, values: list[Any]) -> None:
    text = json.dumps(schema)
    whole = AVRO.spark_schema(text)
    wanted = StructType([field for field in whole if field.name in ("id", "name", "e")])
    both = BothPaths("avro", wanted, text)
    events = [payload(schema, value) for value in values]
    batch, bad = both.check(EventBuffer.of(events))
    assert (batch.to_pylist(), bad) == ([{name: value[name] for name in wanted.names} for value in values], [])
    broken = [event[:-1] for event in events] + [event + b"x" for event in events]
    _, bad = both.check(EventBuffer.of(broken))
    assert len(bad) == len(broken)


@needs_native
def test_what_contains_itself_is_skipped_natively(caplog: pytest.LogCaptureFixture) -> None:
    text = json.dumps(NODE)
    wanted = StructType([AVRO.spark_schema(text)["id"]])
    both = BothPaths("avro", wanted, text)
    with caplog.at_level("INFO"):
        events = [linked(0), linked(900), linked(100_000), linked(5)[:-1], b"\2\2\2\4"]
        batch, bad = both.check(EventBuffer.of(events))
    assert "is decoded in Python" not in caplog.text
    assert batch.to_pylist() == [{"id": 1}] * 3
    assert [event.index for event in bad] == [3, 4]


LOOSE = record(
    field("next", ["null", "Loose"], default=None),
    field("either", ["null", "string", "bytes", "long", "double"], default=None),
    field("shape", [
        "null",
        record(field("x", "int"), field("y", ["null", "int"]), name="A"),
        record(field("x", "int"), field("z", ["null", "int"]), name="B"),
    ], default=None),
    field("n", "int", default=3),
    name="Loose",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("{}", '{"next":null,"either":null,"shape":null,"n":3}'),
        ('{"either": 5}', '{"next":null,"either":5,"shape":null,"n":3}'),
        ('{"either": 5.0}', '{"next":null,"either":5.0,"shape":null,"n":3}'),
        ('{"either": "größe"}', '{"next":null,"either":"größe","shape":null,"n":3}'),
        ('{"shape": {"x": 1, "z": 2}}', '{"next":null,"either":null,"shape":{"x":1,"z":2},"n":3}'),
        (' {"n": 1, "next": {"n": 2}} ', None),
    ],
)
def test_texts_that_are_written(text: str, again: str | None) -> None:
    rows, bad = rows_of(LOOSE, rewritten(LOOSE, {"next": text, "n": 1}))
    assert bad == []
    assert again is None or rows[0]["next"] == again


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("x", "not JSON"),
        ("null", r"at \$: expected an object, found null"),
        ("5", r"at \$: expected an object, found an integer"),
        ('{"n": 1, "n": 2}', "an object with 'n' twice"),
        ('{"m": 1}', r"at \$: record 'Loose' has no field 'm'"),
        ('{"n": "1"}', r"at \$.n: expected an integer, found a string"),
        ('{"n": 1.0}', r"at \$.n: expected an integer, found a number with a fraction"),
        ('{"n": null}', r"at \$.n: expected an integer, found null"),
        ('{"n": 3000000000}', r"at \$.n: the integer 3000000000 is out of the range of int"),
        ('{"n": NaN}', "NaN is not a number"),
        ('{"next": {"next": {"n": true}}}', r"at \$.next.next.n: expected an integer, found a boolean"),
        ('{"either": "QUJD"}', r"at \$.either: it fits several types of the union, string and bytes"),
        ('{"either": true}', r"at \$.either: it fits no type of the union: string \(.*expected a string"),
        ('{"shape": {"x": 1}}', r"at \$.shape: it fits several types of the union, record 'A' and record 'B'"),
        ('{"shape": {"x": 1, "w": 1}}', r"at \$.shape: it fits no type of the union: record 'A' .*no field 'w'"),
        ('{"shape": {}}', r"the field 'x' of record 'A' is missing"),
        ('{"either": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested more than 500 levels deep"),
    ],
)
def test_texts_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRowError, match=rf"row 0 of the batch cannot be written: column 'next' is .*{reason}"):
        rewritten(LOOSE, {"next": text, "n": 1})


def test_a_value_that_fits_a_branch_in_several_ways_fits_it() -> None:
    """The other branch is not taken for the only one, unless the value does not fit the first at all."""
    leaf = [record(field("x", "int"), name=name) for name in ("A", "B")]
    first = record(field("v", leaf), name="First")
    second = record(field("v", ["A"]), field("more", ["null", "int"], default=None), name="Second")
    schema = record(field("one", ["null", first, second], default=None), field("next", ["null", "Two"]), name="Two")
    with pytest.raises(InvalidRowError, match=r"at \$.one: it fits several types .*'First' and record 'Second'"):
        rewritten(schema, {"one": None, "next": '{"one": {"v": {"x": 1}}}'})
    again = rewritten(schema, {"one": None, "next": '{"one": {"v": {"x": 1}, "more": 5}, "next": null}'})
    rows, _ = rows_of(schema, again)
    assert json.loads(rows[0]["next"]) == {"one": {"v": {"x": 1}, "more": 5}, "next": None}


def test_nested_unions_of_several_records_take_no_time_that_multiplies() -> None:
    branches: list[Any] = ["null"]
    for name in "ABCD":
        branches.append(record(field("next", "P"), field(name.lower(), "int"), name=name))
    schema = record(field("one", branches), name="P")
    text = '{"one":null}'
    for depth in range(200):
        name = "abcd"[depth % 4]
        text = '{"one":{"next":' + text + f',"{name}":1' + "}}"
    row = {"one": {"member0": {"next": text, "a": 1}, "member1": None, "member2": None, "member3": None}}
    assert rows_of(schema, rewritten(schema, row)) == ([row], [])


def test_a_writer_whose_inner_record_does_not_resolve() -> None:
    other = record(field("id", "string"), field("next", ["null", "Node"]), name="Node")
    table = record(field("root", NODE), name="Root")
    writer = record(field("root", other), name="Root")
    _, bad = rows_of(table, payload(writer, {"root": {"id": "x", "next": None}}), writer=writer)
    assert "column 'root.id' was written as string, which cannot be read as int" in bad[0]


def test_a_schema_whose_values_have_no_end_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="each value of the record 'E' contains another one"):
        AVRO.spark_schema(json.dumps(record(field("e", "E"), name="E")))
