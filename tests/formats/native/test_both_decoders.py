"""The native decoder gives what the reference decoder gives: rows, errors, and which events are concerned."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimeType,
)

from pyspark_pravega import native
from pyspark_pravega.formats.avro.native_plan import make_value
from pyspark_pravega.formats.core.batches import BatchDecoder
from pyspark_pravega.formats.core.defaults import add_default
from pyspark_pravega.formats.core.edited_columns import EditableFormat, EditedColumn, list_parts, replace_parts
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, Settings, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header
from pyspark_pravega.formats.core.spark_types import KEY
from pyspark_pravega.formats.native import NativeReader, Spec
from tests.formats.both_paths import BothPaths, needs_native, reference_only
from tests.formats.core.test_bad_events import JSON_REFUSED, schema_of
from tests.formats.core.test_mutations import damaged
from tests.formats.strategies import batches

FORMATS = ["avro", "json"]


@needs_native
@pytest.mark.parametrize("format_name", FORMATS)
@given(case=batches())
def test_what_our_encoders_write_is_read_natively(format_name: str, case: tuple[StructType, pa.RecordBatch]) -> None:
    schema, batch = case
    format = find_format(format_name)
    text = format.schema_text(Layout(schema), "t", "s")
    payloads = EventBuffer.of_arrow(format.encoder(Layout(schema, text)).encode(batch))
    BothPaths(format_name, schema, text).check(payloads)
    decoder = format.decoder(Layout(schema, text))
    assert isinstance(decoder, BatchDecoder)
    reader = decoder.reader_of(None)
    assert isinstance(reader, NativeReader)
    _, unread = reader.decoder.decode(*payloads.octets(), False)
    assert unread is None


@needs_native
@pytest.mark.parametrize("format_name", FORMATS)
@given(case=batches(), seed=st.integers(0, 2**32))
def test_damaged_events_of_any_schema(format_name: str, case: tuple[StructType, pa.RecordBatch], seed: int) -> None:
    schema, batch = case
    chance = random.Random(seed)
    format = find_format(format_name)
    text = format.schema_text(Layout(schema), "t", "s")
    payloads = format.encoder(Layout(schema, text)).encode(batch).to_pylist()
    events = [*payloads, *(damaged(payload, chance) for payload in payloads for _ in range(5)), b""]
    chance.shuffle(events)
    BothPaths(format_name, schema, text).check(EventBuffer.of(events))
    BothPaths(format_name, schema).check(EventBuffer.of(events))


@needs_native
@pytest.mark.parametrize("format_name", FORMATS)
@given(case=batches(), chosen=st.randoms(use_true_random=False))
def test_tables_with_fewer_and_other_columns(
    format_name: str, case: tuple[StructType, pa.RecordBatch], chosen: random.Random
) -> None:
    written, batch = case
    format = find_format(format_name)
    text = format.schema_text(Layout(written), "t", "s")
    payloads = format.encoder(Layout(written, text), 1).encode(batch).to_pylist()
    events = EventBuffer.of([*payloads, *(damaged(payload, chosen) for payload in payloads)])
    fields = chosen.sample(written.fields, chosen.randrange(len(written.fields) + 1))
    wanted = StructType([*fields, StructField("added_later", LongType())])
    table = StructType([*chosen.sample(written.fields, len(written.fields)), wanted.fields[-1]])
    writer = WriterSchema(text, str(format.registry_format), "")
    table_text = format.schema_text(Layout(table), "t", "s")
    BothPaths(format_name, wanted, table_text, lambda encoding_id: writer).check(events)
    BothPaths(format_name, StructType([]), table_text, lambda encoding_id: writer).check(events)


@needs_native
@pytest.mark.parametrize(("type_name", "payload", "reason"), JSON_REFUSED)
def test_what_is_refused_has_the_same_reason(type_name: str, payload: bytes, reason: str) -> None:
    good = b'{"a": null}'
    _, bad = BothPaths("json", schema_of(a=type_name)).check(EventBuffer.of([good, payload, good]))
    assert [event.index for event in bad] == [1]
    assert reason in bad[0].reason


UNUSUAL = [
    ("bigint", b'\xef\xbb\xbf \t\r\n{"a": -0}\n'),
    ("bigint", b'{"a": 1, "a": 2}'),
    ("bigint", b'{"a": "1", "a": 2}'),
    ("bigint", b'{"\\u0061": 2, "b": "\\ud800"}'),
    ("bigint", b'{"b": {"c": [1, 2.5e-3, true, null, "\\n"]}, "a": -9223372036854775808}'),
    ("bigint", b'{"a": 9223372036854775807, "' + b"long" * 40 + b'": 1}'),
    ("double", b'{"a": -0}'),
    ("float", b'{"a":-0,"b":-0}'),
    ("decimal(5,2)", b'{"a": -0}'),
    ("date", b'{"a": -0}'),
    ("boolean", b'{"a": -0}'),
    ("double", b'{"a": -0.0}'),
    ("double", b'{"a": 9007199254740993}'),
    ("double", b'{"a": 9007199254740993.0}'),
    ("double", b'{"a": 0.1000000000000000055511151231257827}'),
    ("double", b'{"a": 1e23}'),
    ("double", b'{"a": 5e-324}'),
    ("double", b'{"a": 123456789.123456789}'),
    ("double", b'{"a": "-Infinity"}'),
    ("float", b'{"a": 16777217}'),
    ("float", b'{"a": 3.4028235677973362e38}'),
    ("float", b'{"a": 3.4028235677973366e38}'),
    ("float", b'{"a": 0.1}'),
    ("decimal(38,10)", b'{"a": 1234567890123456789012345678.0123456789}'),
    ("decimal(5,2)", b'{"a": 1.230000}'),
    ("decimal(5,2)", b'{"a": 12345e-2}'),
    ("decimal(5,2)", b'{"a": 1e2}'),
    ("decimal(5,2)", b'{"a": -0.00}'),
    ("decimal(3,0)", b'{"a": 120e-1}'),
    ("string", b'{"a": "\\ud83d\\ude00 \\u00e9 \\/ \\b\\f\\n\\r\\t\\" \xc3\xa9"}'),
    ("string", b'{"a": "\\ude00"}'),
    ("binary", b'{"a": "AAECAw=="}'),
    ("binary", b'{"a": "AB=="}'),
    ("binary", b'{"a": "AAF="}'),
    ("binary", b'{"a": "AAEC="}'),
    ("binary", b'{"a": ""}'),
    ("date", b'{"a": "2024-02-29"}'),
    ("date", b'{"a": "1900-02-29"}'),
    ("date", b'{"a": "0001-01-01"}'),
    ("timestamp", b'{"a": "1969-12-31T23:59:59.9999999+05:30"}'),
    ("timestamp", b'{"a": "2024-01-31 12:00Z"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00+0130"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00-01"}'),
    ("timestamp", b'{"a": "9999-12-31T23:59:59.999999-00:01"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00+18:00"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00+18:01"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00-23:59"}'),
    ("timestamp", b'{"a": "2024-01-31T12:00:00+24:00"}'),
    ("timestamp", b'{"a": "2024-01-31t12:00:00z"}'),
    ("timestamp", b'{"a": "2016-12-31t23:59:60z"}'),
    ("timestamp_ntz", b'{"a": "2024-01-31"}'),
    ("timestamp_ntz", b'{"a": "2024-01-31T12:00:00.5"}'),
    ("time(3)", b'{"a": "12:00"}'),
    ("time(3)", b'{"a": "12:00:"}'),
    ("time(3)", b'{"a": "12:00:00."}'),
    ("time(3)", b'{"a": "12:00:00.500000000"}'),
    ("time(3)", b'{"a": "12:00:00.5000"}'),
    ("time(3)", b'{"a": "12:00:00.5001"}'),
    ("time(3)", b'{"a": "12:00:00.0000000001"}'),
    ("time(3)", b'{"a": "23:59:60"}'),
    ("time(3)", b'{"a": "24:00:00"}'),
    ("time(3)", b'{"a": "-1:00"}'),
    ("time(3)", b'{"a": "12:00:00Z"}'),
    ("time(3)", b'{"a": "1\\u0032:00"}'),
    ("time(3)", b'{"a": 43200000}'),
    ("time(0)", b'{"a": "23:59:59.000"}'),
]


@needs_native
@pytest.mark.parametrize(("type_name", "payload"), UNUSUAL)
def test_unusual_documents(type_name: str, payload: bytes) -> None:
    for column in (type_name, "bigint"):
        schema = schema_of(a=column) if column == type_name else schema_of(zz=column)
        BothPaths("json", schema).check(EventBuffer.of([payload, b'{"a": null}', payload]))


@needs_native
def test_negative_zeros_and_base64_in_lists_and_roots() -> None:
    lists = StructType().add("d", ArrayType(DoubleType())).add("n", ArrayType(ByteType()))
    events = [b'{"d": [-0, 0], "n": [-0, 5]}', b'{"d": [1, -0],"n": "AQI="}', b'{"n": "AQJ="}']
    found, bad = BothPaths("json", lists).check(EventBuffer.of(events))
    assert repr(found.column(0).to_pylist()) == "[[-0.0, 0.0], [1.0, -0.0]]"
    assert found.column(1).to_pylist() == [[0, 5], [1, 2]] and [event.index for event in bad] == [2]
    roots = StructType().add("value", DoubleType())
    found, _ = BothPaths("json", roots, '{"type": "number"}').check(EventBuffer.of([b"-0", b"5", b"0", b"-0"]))
    assert repr(found.column(0).to_pylist()) == "[-0.0, 5.0, 0.0, -0.0]"
    anything = '{"type": "object", "properties": {"a": {}, "d": {"type": "number"}}}'
    columns = StructType().add("a", StringType()).add("d", DoubleType())
    events = [b'{"a": -0, "d": -0}', b'{"a": {"x": [-0, 1.50]}, "d": 1}']
    found, _ = BothPaths("json", columns, anything).check(EventBuffer.of(events))
    assert found.column(0).to_pylist() == ["0", '{"x":[0,1.50]}']


TIMES = StructType([StructField(f"t{digits}", TimeType(digits)) for digits in (0, 2, 3, 6)])


@needs_native
@pytest.mark.parametrize(
    ("format_name", "settings"),
    [
        ("avro", {}),
        ("json", {}),
        *(("json", {"json.timestamp-format": f"epoch-{unit}"}) for unit in ("millis", "micros")),
    ],
)
@given(counts=st.lists(st.integers(0, 86_400 * 10**6 - 1), max_size=5), seed=st.integers(0, 2**32))
def test_times_of_day(format_name: str, settings: Settings, counts: list[int], seed: int) -> None:
    """What our encoders write is read natively, and damaged events as the reference reads them."""
    chance, format = random.Random(seed), find_format(format_name)
    text = format.schema_text(Layout(TIMES, settings=settings), "t", "s")
    columns = []
    for field in TIMES:
        assert isinstance(field.dataType, TimeType)
        step = 10 ** (6 - field.dataType.precision)
        columns.append(pa.array([count // step * step * 1000 for count in counts], pa.int64()).view(pa.time64("ns")))
    batch = pa.RecordBatch.from_arrays(columns, TIMES.names)
    payloads = format.encoder(Layout(TIMES, text, settings)).encode(batch).to_pylist()
    both = BothPaths(format_name, TIMES, text, settings=settings)
    rows, _ = both.check(EventBuffer.of(payloads))
    assert rows.equals(batch)
    assert isinstance(both.native, BatchDecoder)
    reader = both.native.reader_of(None)
    assert isinstance(reader, NativeReader)
    _, unread = reader.decoder.decode(*EventBuffer.of(payloads).octets(), False)
    assert unread is None or (settings and not all(count % 1000 == 0 for count in counts))
    both.check(EventBuffer.of([*payloads, *(damaged(payload, chance) for payload in payloads for _ in range(9))]))


@needs_native
@pytest.mark.parametrize("base", ["int", "long"])
@pytest.mark.parametrize("logical", ["time-millis", "time-micros", ""])
@pytest.mark.parametrize("digits", [0, 3, 6])
def test_times_of_day_of_other_programs(base: str, logical: str, digits: int) -> None:
    """Whatever a count has too much is bad for both decoders."""
    theirs = {"type": base, **({"logicalType": logical} if logical else {})}
    fields = [{"name": "t", "type": theirs}]
    writer = WriterSchema(json.dumps({"type": "record", "name": "t", "fields": fields}), "Avro", "")
    schema = StructType([StructField("t", TimeType(digits))])
    counts = [0, 1, 1000, 86_399_999, 86_400_000, -1, 2**31 - 1, -(2**31), 86_399_999_999, 86_400_000_000, 2**63 - 1]
    payloads = []
    for count in counts:
        out = io.BytesIO()
        if base == "long" or -(2**31) <= count < 2**31:
            fastavro.schemaless_writer(
                out, {"type": "record", "name": "t", "fields": [{"name": "t", "type": base}]}, {"t": count}
            )
            payloads.append(make_header(0) + out.getvalue())
    text = find_format("avro").schema_text(Layout(schema), "t", "s")
    BothPaths("avro", schema, text, lambda encoding_id: writer).check(EventBuffer.of(payloads))


@needs_native
@pytest.mark.parametrize("depth", [511, 512, 513, 200_000])
@pytest.mark.parametrize("template", [b"[%s]", b'{"a": %s}'])
def test_deep_nesting(template: bytes, depth: int) -> None:
    opening, closing = template.split(b"%s")
    payload = b'{"b": ' + opening * (depth - 1) + b"1" + closing * (depth - 1) + b"}"
    _, bad = BothPaths("json", schema_of(a="bigint")).check(
        EventBuffer.of([b"{}", payload, payload[: len(payload) // 2]])
    )
    assert (1 in [event.index for event in bad]) is (depth > 512)


@needs_native
def test_a_plan_that_is_nested_too_deeply_is_refused() -> None:
    list_type = pa.list_(pa.int64())
    column: Spec = ("leaf", pa.int64(), True)
    value = make_value("long")
    for _ in range(100_000):
        column, value = ("list", list_type, True, column), make_value({"array": value})
    struct = ("struct", pa.struct([("a", list_type)]), False, ["a"], [column])
    record = make_value({"record": {"steps": [{"read": (0, value)}], "constants": []}})
    module: Any = native.get_module()
    with pytest.raises(ValueError, match="nested too deeply"):
        module.Decoder.avro(struct, record, [])


@needs_native
@pytest.mark.parametrize("type_name", ["string", "bigint"])
@pytest.mark.parametrize(
    "payload",
    [
        b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03",
        b"\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
        b"\x82\x00\x82\x80\x00a",
        b"\x04\x02a",
        b"\x01",
        b"\x02\x02\xff",
    ],
)
def test_hostile_avro(type_name: str, payload: bytes) -> None:
    schema = schema_of(a=type_name)
    good = b"\x00"
    BothPaths("avro", schema).check(EventBuffer.of([good, payload, payload + b"\0", good]))


@needs_native
def test_hostile_lengths_of_lists() -> None:
    text = '{"type":"record","name":"t","fields":[{"name":"a","type":{"type":"array","items":"long"}}]}'
    schema = find_format("avro").spark_schema(text)
    both = BothPaths("avro", schema, text)
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    _, bad = both.check(EventBuffer.of([huge, b"\x01" + huge, huge * 2, b"\x02\x02\x00", b"\x01\x02\x02\x00"]))
    assert [event.index for event in bad] == [0, 1, 2]


@needs_native
def test_the_switch() -> None:
    schema = schema_of(a="bigint")
    decoder = find_format("json").decoder(Layout(schema))
    assert isinstance(decoder, BatchDecoder) and isinstance(decoder.reader_of(None), NativeReader)
    with reference_only():
        assert not native.get_status().active
        assert native.SWITCH in native.get_status().text
        decoder = find_format("json").decoder(Layout(schema))
        assert isinstance(decoder, BatchDecoder) and not isinstance(decoder.reader_of(None), NativeReader)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "expected"),
    [(None, "not built"), (b"no library", "cannot be loaded")],
)
def test_without_the_library(tmp_path_factory: pytest.TempPathFactory, library: bytes | None, expected: str) -> None:
    folder = tmp_path_factory.mktemp("package") / "alone"
    folder.mkdir()
    source = native.__file__
    assert source is not None
    with open(source) as text:
        (folder / "__init__.py").write_text(text.read().replace("pyspark_pravega.native", "alone"))
    if library is not None:
        (folder / "_native.abi3.so").write_bytes(library)
    program = "import alone; print(alone.get_module(), alone.get_status().active, alone.get_status().text)"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder.parent, text=True, capture_output=True)
    assert done.stdout.startswith("None False " + expected), done.stderr


@needs_native
def test_only_events_that_lack_a_column_with_a_default_are_left_to_the_reference() -> None:
    column = add_default(StructField("n", LongType(), True), "7", "7")
    text = find_format("json").schema_text(Layout(StructType([column])), "t", "s")
    schema = find_format("json").spark_schema(text)
    payloads = EventBuffer.of([b'{"n":1}', b'{"n":null}', b"{}", b'{"n":"x"}'])
    BothPaths("json", schema, text).check(payloads)
    decoder = find_format("json").decoder(Layout(schema, text))
    assert isinstance(decoder, BatchDecoder)
    reader = decoder.reader_of(None)
    assert isinstance(reader, NativeReader)
    _, unread = reader.decoder.decode(*payloads.octets(), False)
    assert np.frombuffer(unread, np.int64).tolist() == [2, 3]


def changed(column: EditedColumn, chance: random.Random, rename: bool) -> EditedColumn:
    """A column after changes of what is in it, at any depth: fields added, dropped, renamed, moved, of wider types."""
    parts = list_parts(column)
    if parts is None:
        if not isinstance(column.field.dataType, IntegerType) or chance.random() < 0.5:
            return column
        field = StructField(column.field.name, LongType(), column.field.nullable, column.field.metadata)
        return replace(column, field=field, retyped=True)
    new = [part if part.source == KEY else changed(part, chance, rename) for part in parts]
    if isinstance(column.field.dataType, StructType):
        if rename:
            place = chance.randrange(len(new))
            field = new[place].field
            renamed = StructField(f"{field.name}_renamed", field.dataType, field.nullable, field.metadata)
            new[place] = replace(new[place], field=renamed)
        new = chance.sample(new, max(1, len(new) - chance.randrange(2)))
        new.append(EditedColumn(StructField("added_later", StructType([StructField("x", LongType())])), None))
        new.append(EditedColumn(add_default(StructField("with_default", LongType(), False), "7", "7"), None))
    return replace_parts(column, new)


@needs_native
@pytest.mark.parametrize("format_name", FORMATS)
@given(case=batches(), chance=st.randoms(use_true_random=False))
def test_columns_whose_fields_have_changed(
    format_name: str, case: tuple[StructType, pa.RecordBatch], chance: random.Random
) -> None:
    """All that was written before is read through the new schema, the same way by both."""
    written, batch = case
    format = find_format(format_name)
    assert isinstance(format, EditableFormat)
    text = format.schema_text(Layout(written), "t", "s")
    payloads = EventBuffer.of(format.encoder(Layout(written, text), 1).encode(batch).to_pylist())
    edited = [changed(EditedColumn(field, field.name), chance, format_name == "avro") for field in written]
    table_text = format.edited_text(text, edited, None)
    table, writer = format.spark_schema(table_text), WriterSchema(text, str(format.registry_format), "")
    assert table.simpleString() == StructType([column.field for column in edited]).simpleString()
    # Under nulls there is a default, or anything.
    found, bad = BothPaths(format_name, table, table_text, lambda encoding_id: writer).check(payloads, masked=False)
    assert (found.num_rows, bad) == (batch.num_rows, [])
