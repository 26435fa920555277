"""Events of other schema versions, and schemas of other makers: what they become in the table's columns."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import re
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, Resolve, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header
from tests.formats.both_paths import BothPaths

AVRO, JSON = find_format("avro"), find_format("json")


def record(*fields: dict[str, Any], name: str = "T", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, avro_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": avro_type, **more}


def written(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return target.getvalue()


def resolver(*writers: Any) -> Resolve:
    return [WriterSchema(json.dumps(writer), "Avro", "") for writer in writers].__getitem__


def read(
    table: Any, *events: tuple[Any, Any], columns: list[str] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows and reasons, of (writer's schema, value) pairs."""
    text = json.dumps(table)
    schema = AVRO.spark_schema(text)
    wanted = schema if columns is None else StructType([schema[name] for name in columns])
    decoder = AVRO.decoder(Layout(wanted, text), resolver(*(schema for schema, _ in events)))
    payloads = [make_header(place) + written(schema, value) for place, (schema, value) in enumerate(events)]
    batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
    batch.validate(full=True)
    return batch.to_pylist(), [event.reason for event in bad]


def test_all_versions_in_one_scan_in_the_order_of_the_events() -> None:
    v1 = record(field("id", "long"), field("name", "string"))
    v2 = record(field("id", "long"), field("name", "string"), field("temp", ["null", "double"], default=None))
    v3 = record(field("temp", ["null", "double"], default=None), field("id", "long"))
    table = record(
        field("id", "long"),
        field("temp", ["null", "double"], default=None),
        field("name", "string", default="nobody"),
        field("unit", {"type": "enum", "name": "U", "symbols": ["C", "F"]}, default="C"),
    )
    rows, bad = read(
        table,
        (v1, {"id": 1, "name": "a"}),
        (v3, {"id": 2, "temp": 2.5}),
        (v2, {"id": 3, "name": "c", "temp": None}),
        (v1, {"id": 4, "name": "d"}),
    )
    assert bad == []
    assert rows == [
        {"id": 1, "temp": None, "name": "a", "unit": "C"},
        {"id": 2, "temp": 2.5, "name": "nobody", "unit": "C"},
        {"id": 3, "temp": None, "name": "c", "unit": "C"},
        {"id": 4, "temp": None, "name": "d", "unit": "C"},
    ]


DEFAULTS = [
    ("boolean", True, True),
    ("int", 5, 5),
    ("double", 5, 5.0),
    ("bytes", "\u00ff\u0000", b"\xff\0"),
    ("string", "é", "é"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0001\u0002", b"\1\2"),
    ({"type": "fixed", "name": "F", "size": 2}, "hello", b"hello"),
    ([{"type": "fixed", "name": "F", "size": 2}, "string"], "hello", {"member0": None, "member1": "hello"}),
    (
        {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        "\u0001",
        decimal.Decimal("0.01"),
    ),
    ("float", 1e39, float("inf")),
    ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    ({"type": "array", "items": "int"}, [], []),
    ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
    (["string", "null"], "x", "x"),
    (["null", "string"], None, None),
    (["int", "string"], "x", {"member0": None, "member1": "x"}),
    (["int", "long"], 7, 7),
    (["int", "long"], 1 << 40, 1 << 40),
    (record(field("x", "int"), field("y", "int", default=9), name="R"), {"x": 1}, {"x": 1, "y": 9}),
    ({"type": "int", "logicalType": "date"}, 0, datetime.date(1970, 1, 1)),
]


@pytest.mark.parametrize(("avro_type", "default", "value"), DEFAULTS, ids=str)
def test_defaults_of_the_table(avro_type: Any, default: Any, value: Any) -> None:
    table = record(field("id", "long"), field("c", avro_type, default=default))
    rows, bad = read(table, (record(field("id", "long")), {"id": 1}))
    assert bad == []
    assert rows == [{"id": 1, "c": value}]


def test_a_column_without_default_that_the_writer_lacks() -> None:
    writer = record(field("id", "long"))
    rows, bad = read(record(field("id", "long"), field("c", ["string", "null"])), (writer, {"id": 1}))
    assert (rows, bad) == ([{"id": 1, "c": None}], [])
    rows, bad = read(record(field("id", "long"), field("c", "string")), (writer, {"id": 1}))
    assert rows == []
    assert "column 'c' is NOT NULL and has no default" in bad[0]
    rows, bad = read(record(field("id", "long"), field("c", "string", default=5)), (writer, {"id": 1}))
    assert "the default of column 'c' in the table's schema does not fit" in bad[0]


@pytest.mark.parametrize(
    ("avro_type", "default"),
    [
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}, ["hello"]),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, "a"),
        ("double", 10**400),
    ],
    ids=str,
)
def test_defaults_that_do_not_fit(avro_type: Any, default: Any) -> None:
    rows, bad = read(
        record(field("id", "long"), field("c", avro_type, default=default)), (record(field("id", "long")), {"id": 1})
    )
    assert rows == []
    assert "the default of column 'c' in the table's schema does not fit" in bad[0]


def test_aliases_of_fields_and_of_the_record() -> None:
    table = record(field("new", "long", aliases=["old"]), field("other", "long", default=0), aliases=["a.Was"])
    was = record(field("old", "long"), name="Was")
    both = record(field("old", "long"), field("new", "long"))
    rows, bad = read(
        table, (was, {"old": 1}), (both, {"old": 2, "new": 3}), (record(field("x", "long"), name="X"), {"x": 1})
    )
    assert rows == [{"new": 1, "other": 0}, {"new": 3, "other": 0}]
    assert "it is of type 'X', but the table is of type 'T'" in bad[0]


def test_names_that_are_used_again() -> None:
    """Java's Avro 1.12.1 gives these values, in whatever selection of columns."""
    writer = record(field("a", "string"), field("b", "string"))
    event = (writer, {"a": "A", "b": "B"})
    again = record(field("a", "string", default="none"), field("old", ["null", "string"], default=None, aliases=["a"]))
    chain = record(field("b", "string", aliases=["a"]), field("c", "string", aliases=["b"]))
    swap = record(field("b", "string", aliases=["a"]), field("a", "string", aliases=["b"]))
    for table, row in (
        (again, {"a": "none", "old": "A"}),
        (chain, {"b": "A", "c": "B"}),
        (swap, {"b": "A", "a": "B"}),
    ):
        assert read(table, event) == ([row], [])
        for name in row:
            rows, bad = read(table, event, columns=[name])
            assert (rows, bad) == ([{name: row[name]}], [])


def test_other_namespace_is_the_same_type() -> None:
    rows, bad = read(
        record(field("a", "int"), name="x.T"), (record(field("a", "int"), name="T", namespace="y"), {"a": 1})
    )
    assert (rows, bad) == ([{"a": 1}], [])


PROMOTIONS = [
    ("int", "long", 5, 5),
    ("int", "float", 5, 5.0),
    ("int", "double", -(2**31), -(2.0**31)),
    ("long", "float", 2**40 + 1, float(2**40)),
    ("long", "double", 2**53 + 1, float(2**53)),
    ("float", "double", 0.5, 0.5),
    ("string", "bytes", "é", "é".encode()),
    ("bytes", "string", "é".encode(), "é"),
    ("int", ["null", "long"], 5, 5),
    (["null", "int"], ["null", "double"], 5, 5.0),
    (["int", "string"], "string", "x", "x"),
    (["null", "int", "long"], "long", 5, 5),
    ("int", ["string", "int"], 5, {"member0": None, "member1": 5}),
    ("int", ["string", "double"], 5, {"member0": None, "member1": 5.0}),
    (["int", "string"], ["string", "int"], "x", {"member0": "x", "member1": None}),
    (["null", "int", "string"], ["string", "int", "null"], None, None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", "B", "B"),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A", "Z"], "default": "Z"},
        "B",
        "Z",
    ),
]


@pytest.mark.parametrize(("writer", "reader", "value", "expected"), PROMOTIONS, ids=str)
def test_promotions(writer: Any, reader: Any, value: Any, expected: Any) -> None:
    rows, bad = read(record(field("c", reader)), (record(field("c", writer)), {"c": value}))
    assert bad == []
    assert rows == [{"c": expected}]
    assert repr(rows[0]["c"]) == repr(expected)


REFUSALS = [
    ("long", "int", 5, "column 'c' was written as long, which cannot be read as int"),
    ("double", "float", 5.0, "written as double"),
    ("string", "int", "5", "written as string"),
    ("int", "string", 5, "written as int"),
    ("int", "boolean", 1, "written as int"),
    ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, ["x"], "column 'c.element'"),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, b"ab", "of 2 bytes"),
    (["int", "string"], "int", "x", "column 'c': a value of type string cannot be read as int"),
    (["null", "int"], "int", None, "column 'c': it is NOT NULL"),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        "B",
        "the symbol 'B' is not one of enum 'E'",
    ),
]


@pytest.mark.parametrize(("writer", "reader", "value", "reason"), REFUSALS, ids=str)
def test_what_does_not_resolve_is_a_bad_event(writer: Any, reader: Any, value: Any, reason: str) -> None:
    table = record(field("c", reader, default=None) if reader == "null" else field("c", reader))
    rows, bad = read(table, (record(field("c", writer)), {"c": value}))
    assert rows == []
    assert reason in bad[0], bad


def test_only_events_with_the_wrong_branch_are_bad() -> None:
    writer = record(field("c", ["int", "string"]))
    text = json.dumps(record(field("c", "int")))
    decoder = AVRO.decoder(Layout(AVRO.spark_schema(text), text), resolver(writer))
    payloads = [make_header(0) + written(writer, {"c": value}) for value in (1, "x", 2)]
    batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
    assert batch.to_pylist() == [{"c": 1}, {"c": 2}]
    assert [event.index for event in bad] == [1]


def test_logical_types_by_the_writers_unit_and_scale() -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    text = json.dumps(record(field("c", micros)))
    decoder = AVRO.decoder(
        Layout(AVRO.spark_schema(text), text),
        resolver(record(field("c", millis)), record(field("c", micros)), record(field("c", "long"))),
    )
    payload = written("long", 1500)
    found = decoder.decode(
        EventBuffer.of([make_header(0) + payload, make_header(1) + payload, make_header(2) + payload])
    )
    assert found.column(0).cast(pa.int64()).to_pylist() == [1_500_000, 1500, 1500]
    scale1 = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}
    scale3 = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 3}
    rows, bad = read(record(field("c", scale3)), (record(field("c", scale1)), {"c": decimal.Decimal("1.5")}))
    assert (str(rows[0]["c"]), bad) == ("1.500", [])
    rows, bad = read(record(field("c", scale1)), (record(field("c", scale3)), {"c": decimal.Decimal("1.25")}))
    assert "column 'c': the number 1250E-3 has more fraction digits" in bad[0]


@pytest.mark.parametrize("wanted", ["timestamp-millis", "timestamp-micros", "local-timestamp-micros"])
@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-nanos"),
        ("long", "local-timestamp-nanos"),
    ],
)  # fmt: skip
def test_times_of_another_kind_are_no_timestamps(base: str, said: str, wanted: str) -> None:
    """Java's resolution takes the number as it is: 17738 days would be 17738 microseconds."""
    table = record(field("c", {"type": "long", "logicalType": wanted}))
    _, bad = read(table, (record(field("c", {"type": base, "logicalType": said})), {"c": 17738}))
    assert f"column 'c' was written as {base} ({said}), which cannot be read as long ({wanted})" in bad[0]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("logical", "base", "first", "last"),
    [
        ("date", "int", -719_162, 2_932_896),
        ("timestamp-millis", "long", -62_135_596_800_000, 253_402_300_799_999),
        ("local-timestamp-micros", "long", -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
)
def test_dates_outside_the_years_1_to_9999_are_bad_events(
    logical: str, base: str, first: int, last: int, inside: bool
) -> None:
    """Python has no such values, nor have the other formats."""

    def of(kind: Any) -> Any:
        return record(field("c", {"type": "array", "items": ["null", kind]} if inside else ["null", kind]))

    text, schema = json.dumps(of({"type": base, "logicalType": logical})), of(base)
    numbers = [first, last, None, first - 1, last + 1, -(2**31), 2**31 - 1]
    events = [written(schema, {"c": [0, number] if inside else number}) for number in numbers]
    for both in (BothPaths("avro", AVRO.spark_schema(text), text), BothPaths("avro", StructType([]), text)):
        batch, bad = both.check(EventBuffer.of(events))
        far = [place for place, number in enumerate(numbers) if number is not None and not first <= number <= last]
        assert [event.index for event in bad] == (far if batch.num_columns else [])
        assert all(
            re.search(
                rf"column 'c.*': the (date|timestamp) of {numbers[event.index]} .*outside the years", event.reason
            )
            for event in bad
        )
        assert len(batch.to_pylist()) == len(events) - len(bad)


def test_a_time_of_day_is_no_date() -> None:
    table = record(field("c", {"type": "int", "logicalType": "date"}))
    _, bad = read(table, (record(field("c", {"type": "int", "logicalType": "time-millis"})), {"c": 17738}))
    assert "column 'c' was written as int (time-millis), which cannot be read as int (date)" in bad[0]
    rows, bad = read(table, (record(field("c", "int")), {"c": 17738}))
    assert (rows, bad) == ([{"c": datetime.date(2018, 7, 26)}], [])


def test_foreign_types() -> None:
    table = record(
        field("f", {"type": "fixed", "name": "F", "size": 3}),
        field("u", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}),
        field("d", {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2}),
        field("e", ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]),
        field("t", {"type": "int", "logicalType": "time-millis"}),
        field("o", ["string", "null"]),
        field("w", {"type": "long", "logicalType": "local-timestamp-millis"}),
    )
    parts = [b"abc", bytes(range(16)), b"\xff\xff\xff\x85", b"\2\2", b"\xd0\x0f", b"\2", b"\1"]
    text = json.dumps(table)
    schema = AVRO.spark_schema(text)
    found = AVRO.decoder(Layout(schema, text)).decode(EventBuffer.of([b"".join(parts)]))
    row = found.to_pylist()[0]
    assert str(row.pop("d")) == "-1.23"
    assert str(row.pop("w")) == "1969-12-31 23:59:59.999000"
    assert row == {"f": b"abc", "u": "00010203-0405-0607-0809-0a0b0c0d0e0f", "e": "B", "t": 1000, "o": None}
    # A table of a foreign schema can be written to as well.
    assert AVRO.encoder(Layout(schema, text)).encode(found).to_pylist() == [b"".join(parts)]


def test_blocks_with_sizes_and_several_blocks() -> None:
    text = json.dumps(
        record(field("l", {"type": "array", "items": "int"}), field("m", {"type": "map", "values": "int"}))
    )
    payload = b"\x03\x04\x02\x04" + b"\2\6" + b"\0" + b"\1\x06\2a\2" + b"\2\2a\4" + b"\0"
    found = AVRO.decoder(Layout(AVRO.spark_schema(text), text)).decode(EventBuffer.of([payload]))
    assert found.to_pylist() == [{"l": [1, 2, 3], "m": [("a", 2)]}]


def test_writing_members_of_unions() -> None:
    text = json.dumps(record(field("u", ["string", "null", "int"]), field("n", ["int", "long"])))
    schema = AVRO.spark_schema(text)
    assert schema.simpleString() == "struct<u:struct<member0:string,member1:int>,n:bigint>"
    rows = [
        {"u": {"member0": "x", "member1": None}, "n": 1},
        {"u": {"member0": None, "member1": 5}, "n": 2**40},
        {"u": None, "n": 3},
    ]
    encoder = AVRO.encoder(Layout(schema, text))
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    payloads = encoder.encode(batch).to_pylist()
    parsed = fastavro.parse_schema(json.loads(text))
    theirs: list[Any] = [fastavro.schemaless_reader(io.BytesIO(payload), parsed, None) for payload in payloads]
    assert [record_of_fastavro["u"] for record_of_fastavro in theirs] == ["x", 5, None]
    assert AVRO.decoder(Layout(schema, text)).decode(EventBuffer.of(payloads)).to_pylist() == rows
    both = pa.RecordBatch.from_pylist([{"u": {"member0": "x", "member1": 1}, "n": 1}], schema=arrow_schema(schema))
    with pytest.raises(InvalidRowError, match="more than one member"):
        encoder.encode(both)


@pytest.mark.parametrize(
    ("avro_type", "value", "reason"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B', which is not a symbol of enum 'E': A"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", "a length other than the 2 bytes"),
        ({"type": "string", "logicalType": "uuid"}, "x", "not a UUID"),
        (
            {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3},
            decimal.Decimal(128),
            "too large for the 1 bytes",
        ),
    ],
    ids=str,
)
def test_values_that_a_foreign_schema_does_not_take(avro_type: Any, value: Any, reason: str) -> None:
    text = json.dumps(record(field("c", avro_type)))
    schema = AVRO.spark_schema(text)
    with pytest.raises(InvalidRowError, match=f"row 0 .*column 'c' is .*{reason}"):
        AVRO.encoder(Layout(schema, text)).encode(
            pa.RecordBatch.from_pylist([{"c": value}], schema=arrow_schema(schema))
        )


def test_roots_that_are_no_record() -> None:
    text = '["null", "string"]'
    schema = AVRO.spark_schema(text)
    batch = pa.RecordBatch.from_pydict({"value": ["x", None]}, schema=arrow_schema(schema))
    payloads = AVRO.encoder(Layout(schema, text)).encode(batch).to_pylist()
    assert payloads == [b"\2\2x", b"\0"]
    assert AVRO.decoder(Layout(schema, text)).decode(EventBuffer.of(payloads)).equals(batch)
    text = '{"type": ["array", "null"], "items": {"type": ["integer", "null"]}}'
    schema = JSON.spark_schema(text)
    batch = pa.RecordBatch.from_pydict({"value": [[1, None], None, []]}, schema=arrow_schema(schema))
    payloads = JSON.encoder(Layout(schema, text)).encode(batch).to_pylist()
    assert payloads == [b"[1,null]", b"null", b"[]"]
    assert JSON.decoder(Layout(schema, text)).decode(EventBuffer.of(payloads)).equals(batch)


def test_writers_that_have_more_than_is_wanted() -> None:
    recursive = record(field("a", "int"), field("next", ["null", "T"]), field("z", "int"))
    empties = record(field("a", "int"), field("b", {"type": "array", "items": "null"}))
    table = record(field("a", "int"))
    inner = {"a": 2, "next": {"a": 3, "next": None, "z": 4}, "z": 5}
    rows, bad = read(
        table, (recursive, {"a": 1, "next": inner, "z": 6}), (empties, {"a": 2, "b": [None]}), (table, {"a": 3})
    )
    assert (rows, bad) == ([{"a": 1}, {"a": 2}, {"a": 3}], [])


def test_columns_that_are_not_what_the_tables_schema_says() -> None:
    text = json.dumps(record(field("a", "int")))
    other = StructType([StructField("a", StringType())])
    with pytest.raises(
        InvalidSchemaError, match="column 'a' should be read as string, but the table's schema says int"
    ):
        AVRO.decoder(Layout(other, text)).decode(EventBuffer.of([b"\0"]))
    with pytest.raises(InvalidSchemaError, match="column 'a' of type string cannot be written"):
        AVRO.encoder(Layout(other, text))
    with pytest.raises(InvalidSchemaError, match="column 'b' is not in"):
        AVRO.encoder(Layout(StructType([StructField("b", LongType())]), text))


LIKE = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A writer's schema, a table's schema and a value, of numbers and strings in records and unions."""
    values = {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "string": st.text(st.characters(codec="utf-8"), max_size=4),
        "bytes": st.binary(max_size=4).map(lambda data: data.hex().encode()),
    }
    wider = {
        "int": ["int", "long", "double"],
        "long": ["long", "double"],
        "float": ["float", "double"],
        "string": ["string", "bytes"],
        "bytes": ["bytes", "string"],
    }
    writer, table, value = [], [], {}
    for place in range(draw(st.integers(1, 4))):
        name = f"c{place}"
        kind = draw(st.sampled_from(sorted(values)))
        target = draw(st.sampled_from(wider.get(kind, [kind])))
        nullable = draw(st.booleans())
        writer.append(field(name, ["null", kind] if nullable else kind))
        value[name] = draw(st.none() | values[kind] if nullable else values[kind])
        if draw(st.booleans()):
            table.append(field(name, ["null", target] if nullable or draw(st.booleans()) else target))
    table.append(field("added", ["null", "string"], default=None))
    return record(*writer), record(*draw(st.permutations(table))), value


@given(evolutions())
def test_resolution_as_another_implementation_does_it(
    case: tuple[dict[str, Any], dict[str, Any], dict[str, Any]],
) -> None:
    writer, table, value = case
    rows, bad = read(table, (writer, value))
    assert bad == []
    source = io.BytesIO(written(writer, value))
    theirs: Any = fastavro.schemaless_reader(source, fastavro.parse_schema(writer), fastavro.parse_schema(table))
    ours = {name: bytes(cell, "utf-8") if isinstance(cell, str) else cell for name, cell in rows[0].items()}
    theirs = {name: bytes(cell, "utf-8") if isinstance(cell, str) else cell for name, cell in theirs.items()}
    assert ours == theirs


def test_json_evolution() -> None:
    text = json.dumps({"properties": {"id": {"type": "integer"}, "temp": {"type": "number"}}, "required": ["id"]})
    decoder = JSON.decoder(Layout(JSON.spark_schema(text), text))
    payloads = [b'{"id": 1}', b'{"temp": 2, "gone": [1, {"x": null}], "id": 2}', b'{"temp": 3}']
    batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
    assert batch.to_pylist() == [{"id": 1, "temp": None}, {"id": 2, "temp": 2.0}]
    assert [event.index for event in bad] == [2]


def test_json_of_any_type_is_kept_as_text() -> None:
    text = '{"properties": {"a": {}, "m": {"type": "object"}}}'
    decoder = JSON.decoder(Layout(JSON.spark_schema(text), text))
    cells = [
        b'"x"',
        b"null",
        b"1.10",
        b"[1, 2.0e1, true]",
        b'{"b":  "\\u00e9\\n", "a": []}',
        b"12345678901234567890123",
    ]
    found = decoder.decode(EventBuffer.of([b'{"a": ' + cell + b"}" for cell in cells]))
    assert found.column(0).to_pylist() == [
        "x", None, "1.10", "[1,2.0e1,true]", '{"b":"é\\n","a":[]}', "12345678901234567890123"
    ]  # fmt: skip
    found = decoder.decode(EventBuffer.of([b'{"m": {"k": {"n": 1.0}, "l": "x"}}']))
    assert found.column(1).to_pylist() == [[("k", '{"n":1.0}'), ("l", "x")]]
