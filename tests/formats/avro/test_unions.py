"""Named types of one simple name in a union, by name: what generated schemas show by number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header
from tests.formats.both_paths import BothPaths
from tests.formats.core.test_evolution import field, read, record

AVRO = find_format("avro")
UNIT = field("unit", ["null", "string"], default=None)


def reading(namespace: str, *more: Any) -> Any:
    return {
        "type": "record", "name": "Reading", "namespace": namespace, "fields": [field("value", "double"), *more]
    }  # fmt: skip


def kind(name: str, *symbols: str) -> Any:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def fixed(name: str, size: int = 1) -> Any:
    return {"type": "fixed", "name": name, "size": size}


PLANTS = record(field("p", [reading("plant.v1"), reading("plant.v2", UNIT)]), name="Env")


@pytest.mark.parametrize(
    "around",
    [lambda node: node, lambda node: {"type": "array", "items": node}, lambda node: {"type": "map", "values": node}],
    ids=["field", "array", "map"],
)
def test_each_value_stays_in_its_branch_and_is_written_back(around: Any) -> None:
    table = record(field("p", around([reading("plant.v1"), reading("plant.v2", UNIT)])), name="Env")
    text = json.dumps(table)
    schema = AVRO.spark_schema(text)
    both = BothPaths("avro", schema, text)
    second = b"\2" + b"\0\0\0\0\0\0\0\x40" + b"\2\2C"
    event = {"field": second, "array": b"\2" + second + b"\0", "map": b"\2\2k" + second + b"\0"}
    payload = event["field" if isinstance(table["fields"][0]["type"], list) else table["fields"][0]["type"]["type"]]
    batch, bad = both.check(EventBuffer.of([payload]))
    assert bad == []
    found = batch.to_pylist()[0]["p"]
    inner = found[0] if isinstance(found, list) else found
    inner = inner[1] if isinstance(inner, tuple) else inner
    assert inner == {"member0": None, "member1": {"value": 2.0, "unit": "C"}}
    assert AVRO.encoder(Layout(schema, text)).encode(batch).to_pylist() == [payload]


def test_full_names_come_before_simple_ones() -> None:
    newer = record(field("p", [reading("plant.v2", UNIT), reading("plant.v1")]), name="Env")
    rows, bad = read(newer, (PLANTS, {"p": ("plant.v1.Reading", {"value": 1.0})}))
    assert (rows, bad) == ([{"p": {"member0": None, "member1": {"value": 1.0}}}], [])


def test_unions_that_are_alike_go_together_by_position_as_in_java() -> None:
    writer = record(field("p", [reading("a"), reading("b")]))
    rows, bad = read(record(field("p", [reading("b"), reading("a")])), (writer, {"p": ("a.Reading", {"value": 1.0})}))
    assert (rows, bad) == ([{"p": {"member0": {"value": 1.0}, "member1": None}}], [])


def test_an_alias_comes_before_a_type_of_the_old_name() -> None:
    writer = record(field("p", ["int", kind("a.E", "X")]))
    reader = record(field("p", ["string", kind("a.E", "X", "Y"), {**kind("b.F", "X"), "aliases": ["a.E"]}]))
    rows, bad = read(reader, (writer, {"p": "X"}))
    assert (rows, bad) == ([{"p": {"member0": None, "member1": None, "member2": "X"}}], [])


@pytest.mark.parametrize(
    ("written", "wanted", "value"),
    [
        ([kind("a.E", "X"), kind("b.E", "X")], ["int", kind("b.E", "X")], ("a.E", "X")),
        ([kind("a.E", "X"), kind("b.E", "X")], ["null", kind("b.E", "X")], ("a.E", "X")),
        ([fixed("a.F"), fixed("b.F")], ["int", fixed("b.F")], ("a.F", b"x")),
        ([fixed("a.F"), "null"], ["null", fixed("a.G")], b"x"),
        (kind("a.E", "X"), kind("a.F", "X"), "X"),
        (["null", "string"], ["null", "int"], "x"),
        (["int", "string"], ["int", "boolean"], "x"),
    ],
)
def test_no_value_becomes_one_of_another_type(written: Any, wanted: Any, value: Any) -> None:
    rows, bad = read(record(field("p", wanted)), (record(field("p", written)), {"p": value}))
    assert rows == []
    assert "column 'p'" in bad[0]
    assert "cannot be read as" in bad[0]


def test_null_is_read_where_nothing_else_resolves() -> None:
    rows, bad = read(record(field("p", ["null", "int"])), (record(field("p", ["null", "string"])), {"p": None}))
    assert (rows, bad) == ([{"p": None}], [])


def test_why_a_branch_cannot_be_read_is_said() -> None:
    newer = record(field("p", [reading("plant.v1", field("x", "int")), "string"]), name="Env")
    _, bad = read(newer, (PLANTS, {"p": ("plant.v1.Reading", {"value": 1.0})}))
    assert "column 'p.member0.x' is NOT NULL and has no default" in bad[0]


@pytest.mark.parametrize("name", ["größe", "ключ", "名前", "x٣", "Klasse$Teil"])
def test_names_that_java_takes(name: str) -> None:
    text = json.dumps({"type": "record", "name": name, "namespace": "my-app.é", "fields": [field(name, "int")]})
    schema = AVRO.spark_schema(text)
    assert schema.names == [name]
    writers = [WriterSchema(text, "Avro", "")]
    both = BothPaths("avro", schema, text, writers.__getitem__)
    batch, bad = both.check(EventBuffer.of([make_header(0) + b"\2"]))
    assert (batch.to_pylist(), bad) == ([{name: 1}], [])


def test_tables_are_created_with_letters_of_any_script() -> None:
    schema = StructType().add("größe", "long").add("ключ", StructType().add("名前", "string"))
    assert AVRO.spark_schema(AVRO.schema_text(Layout(schema), "t", "s")) == schema
