"""VARIANT columns of tables of changes: JSON texts of databases, and JSON values, as Python's own parser reads them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.variant_utils import VariantUtils

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.changes.feed import changelog_schema, check_settings
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.debezium import records, tables
from tests.formats.changes.test_debezium_capture import changelog, fold
from tests.formats.changes.test_debezium_encodings import columns, decode, envelope, event

JSON = {"type": "string", "name": "io.debezium.data.Json"}
VARIANT = columns(x=t.VariantType())
DOCUMENTS: list[Any] = [
    {"b": 1, "a": [1, 2.5, None, {"ż": "🎉"}]},
    [],
    {},
    "text",
    "",
    5,
    -0.5,
    12345678901234567890123,
    True,
    [[[]], {"k": None}],
]


def shown(variant: Any) -> Any:
    """What a VARIANT holds, as JSON."""
    return None if variant is None else json.loads(VariantUtils.to_json(variant["value"], variant["metadata"]))


def one(payload: bytes, format: str = "debezium-json") -> Any:
    (row,) = decode(VARIANT, [payload], format)
    return shown(row["after"]["x"])


def wrapped(schema: dict[str, Any], value: Any) -> bytes:
    return envelope({"before": None, "after": {"x": value}, "op": "c"}, [("x", schema)])


@pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
def test_texts_of_json_are_parsed(document: Any) -> None:
    text = json.dumps(document, ensure_ascii=False)
    assert one(event({"x": text})) == document
    assert one(wrapped(JSON, text)) == document
    assert one(wrapped({"type": "string"}, f" {text}\n")) == document
    if not isinstance(document, str):
        assert one(event({"x": document})) == document


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "boolean"}, False),
        ({"type": "int64"}, 2**63 - 1),
        ({"type": "array", "items": {"type": "string"}}, ["1", None]),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, {"k": 1}),
        ({"type": "struct", "fields": [{"type": "string", "field": "s"}]}, {"s": "{}"}),
    ],
)
def test_other_values_are_what_they_are(schema: dict[str, Any], value: Any) -> None:
    assert one(wrapped(schema, value)) == value


def test_null_is_null() -> None:
    for payload in (event({"x": None}), event({"x": "null"}), event({}), wrapped(JSON, None), wrapped(JSON, "null")):
        assert one(payload) is None


@pytest.mark.parametrize("text", ["", "hello", "{", "{'a': 1}", "NaN", "[1,]", "1 2", "\ud800", '"\x01"', "[" * 600])
def test_a_text_that_is_no_json_makes_its_event_bad(text: str) -> None:
    format = find_format("debezium-json")
    decoder = format.decoder(Layout(changelog_schema(VARIANT), format.schema_text(Layout(VARIANT), "t", "s")))
    events = [event({"x": "[1]"}), event({"x": text}), wrapped(JSON, text), event({"x": "2"})]
    batch, bad = decoder.decode_valid(EventBuffer.of(events))
    assert [shown(row["after"]["x"]) for row in batch.to_pylist()] == [[1], 2]
    assert [each.index for each in bad] == [1, 2]
    assert all("column 'after.x': the string " in each.reason and " is not JSON: " in each.reason for each in bad)
    assert "io.debezium.data.Json (string, a JSON text), the column's VARIANT" in bad[1].reason


@pytest.mark.parametrize("number", ["1e400", "-1E+309", "9" * 310])
def test_a_number_that_would_be_infinite_makes_its_event_bad(number: str) -> None:
    for name, schema in (("debezium-json", changelog_schema(VARIANT)), ("json", VARIANT)):
        events = [b'{"after":{"x":[%b]},"op":"c"}', b'{"after":{"x":"{\\"k\\":%b}"},"op":"c"}']
        decoder = find_format(name).decoder(Layout(schema))
        for payload in events if name != "json" else [b'{"x":%b}']:
            _, bad = decoder.decode_valid(EventBuffer.of([payload % number.encode()]))
            assert "no VARIANT can hold the number" in bad[0].reason and "the range of double" in bad[0].reason


@pytest.mark.parametrize("name", ["io.debezium.time.Date", "io.debezium.time.MicroTime", "io.debezium.data.Bits"])
def test_values_without_a_meaning_in_json_are_refused(name: str) -> None:
    kind = {"io.debezium.time.Date": "int32", "io.debezium.time.MicroTime": "int64"}.get(name, "bytes")
    format = find_format("debezium-json")
    decoder = format.decoder(Layout(changelog_schema(VARIANT), format.schema_text(Layout(VARIANT), "t", "s")))
    _, bad = decoder.decode_valid(
        EventBuffer.of([wrapped({"type": kind, "name": name}, "AA==" if kind == "bytes" else 5)])
    )
    assert f"the event's type is {name}" in bad[0].reason and "a column of type VARIANT cannot hold" in bad[0].reason


def test_a_value_that_was_not_sent_is_missing() -> None:
    (row,) = decode(VARIANT, [event({"x": "__debezium_unavailable_value"}, "u")])
    assert row["unavailable"] == ["x"] and row["after"]["x"] is None


@pytest.mark.parametrize("variant", DOCUMENTS, ids=repr)
def test_inserted_values_are_texts_that_are_read_back(variant: Any) -> None:
    table = columns(id=t.IntegerType(), x=t.VariantType(), l=t.ArrayType(t.VariantType()))
    format = find_format("debezium-json")
    text = format.schema_text(Layout(table), "t", "s")
    assert format.spark_schema(text) == table
    encoded = dict(zip(("value", "metadata"), VariantUtils.parse_json(json.dumps(variant)), strict=True))
    decoder = format.decoder(Layout(changelog_schema(table), text))
    wanted = decoder.schema.field("after").type
    rows = pa.array([{"id": 1, "x": encoded, "l": [encoded, None]}, {"id": 2, "x": None, "l": None}], wanted)
    payloads = format.encoder(Layout(table, text)).encode(pa.RecordBatch.from_struct_array(rows))
    written = json.loads(payloads[0].as_py())["after"]
    assert json.loads(written["x"]) == variant and json.loads(written["l"][0]) == variant
    found = decoder.decode(EventBuffer.of_arrow(payloads)).column("after").to_pylist()
    assert [shown(found[0]["x"]), *map(shown, found[0]["l"])] == [variant, variant, None]
    assert found[1] == {"id": 2, "x": None, "l": None}


def test_the_columns_of_postgresql() -> None:
    """Json and jsonb of a capture, with updates that leave a large value out."""
    table = tables()["types"]
    names = ["id", "js", "jb"]
    schema = t.StructType(
        [t.StructField(name, t.VariantType() if name != "id" else table.schema["id"].dataType) for name in names]
    )
    found = fold(table, [changelog(table, records()[table.topic], schema)], columns=names)
    wanted = {row["id"]: row for row in table.rows}
    assert len(found) == len(wanted)
    texts = 0
    for row in found:
        for name in names[1:]:
            text = wanted[str(row["id"])][name]
            assert shown(row[name]) == (None if text is None else json.loads(text)), (row["id"], name)
            texts += text is not None
    assert texts > 8


def test_maxwell_writes_the_value_itself() -> None:
    def change(value: Any) -> bytes:
        row = {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"x": value}}
        return json.dumps(row).encode()

    for document in DOCUMENTS:
        assert one(change(document), "maxwell-json") == document


def test_no_key_and_no_avro() -> None:
    with pytest.raises(UnsupportedTypeError, match="'primary-key' names the column x of type variant, whose values"):
        check_settings(VARIANT, {"primary-key": "x"})
    with pytest.raises(UnsupportedTypeError, match="column 'x' has type variant, which format avro cannot hold"):
        find_format("debezium-avro").schema_text(Layout(VARIANT), "t", "s")
