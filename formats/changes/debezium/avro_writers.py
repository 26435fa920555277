"""The schemas with which Debezium's events were written as Avro: how to find that of an event, and to read by it.

Values have the form of JSON: objects, arrays, texts, numbers; bytes stay bytes. So readers use the names of fields
instead of a table's schema, and are as strict as `binary`.

The native decoder reads by names, too: `op`, the images, `source` and the times, and it skips the rest. The images may
have the types that connectors write most, each in the columns that read it alike; with any other, the reference reads
all events of the schema.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.errors import InvalidSchemaError, SchemaNotFoundError

from ...avro import binary
from ...avro import schema_model as avro
from ...avro.leaves import describe_type, make_symbol_finder
from ...avro.native_plan import Plan, make_nullable, make_value, plan_record
from ...core.columns import Column, Leaf, StructColumn
from ...core.events import EventBuffer, EventPositions
from ...core.framing import Undecodable, read_ids
from ...core.scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from ...native import Unplanned
from ..changelog_columns import IMAGES
from ..encodings import kafka_connect_schema
from ..encodings.kafka_connect_schema import FieldSchema
from ..encodings.times import limit_to_range
from ..feed import AVRO_SCHEMAS
from ..native_reader import NativeEnvelopes


def make_document_reader(node: avro.Node) -> binary.Reader:
    """Return a reader for values of a type, in which no record contains itself."""
    if isinstance(node, avro.Record):
        return _make_object_reader([(field.name, make_document_reader(field.type)) for field in node.fields])
    if isinstance(node, avro.Array):
        return binary.make_array_reader(node, make_document_reader(node.items))
    if isinstance(node, avro.Map):
        return binary.make_converting_reader(binary.make_map_reader(make_document_reader(node.values)), _decode_keys)
    if isinstance(node, avro.Union):
        branches = [make_document_reader(branch) for branch in node.branches]
        null_branch = node.null_number
        if len(branches) == 2 and null_branch is not None:
            return binary.make_nullable_reader(null_branch, branches[1 - null_branch])
        return binary.make_converting_reader(binary.make_union_reader(branches), itemgetter(1))
    reader = binary.make_scalar_reader(node)
    if isinstance(node, avro.Enum):
        return binary.make_converting_reader(reader, make_symbol_finder(node, node))
    is_text = isinstance(node, avro.Primitive) and node.name == "string"
    return binary.make_converting_reader(reader, _decode_text) if is_text else reader


def _make_object_reader(fields: list[tuple[str, binary.Reader]]) -> binary.Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in fields:
            values[name], at = reader(data, at)
        return values, at

    return read


def _decode_keys(values: dict[bytes, Any]) -> dict[str, Any]:
    return {_decode_text(key): value for key, value in values.items()}


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"it has a string that is not UTF-8 (byte {error.start})") from None


CONFLUENT_HEADER = struct.Struct(">bI")
_ENVELOPE = ".Envelope"
"""The end of the name of our own envelopes, after that of the rows. Debezium's sinks recognize them by it."""


def is_envelope_type(node: avro.Node) -> bool:
    """Return whether a type is one of Debezium's envelopes."""
    if not isinstance(node, avro.Record) or node.field_named("op") is None:
        return False
    return node.field_named("after") is not None or node.field_named("before") is not None


def make_envelope_schema(row_schema_text: str) -> str:
    """Return the schema of envelopes around rows of a schema."""
    row = avro.parse_avro(row_schema_text)
    if not isinstance(row, avro.Record):
        raise InvalidSchemaError("it is not a record, so it describes neither rows nor envelopes")
    source = [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    return json.dumps(
        {
            "type": "record",
            "name": row.name + _ENVELOPE,
            "fields": [
                {"name": "before", "type": ["null", json.loads(row_schema_text)], "default": None},
                {"name": "after", "type": ["null", row.name], "default": None},
                {"name": "source", "type": {"type": "record", "name": f"{row.name}.Envelope.Source", "fields": source}},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": "long"},
            ],
        }
    )


def find_row_schema(schema_text: str) -> str:
    """Return the schema of the rows in envelopes of `make_envelope_schema`, or the text itself if it is another."""
    node = avro.parse_avro(schema_text)
    match node:
        case avro.Record(fields=[avro.Field(name="before", type=avro.Union(branches=[_, avro.Record() as row])), *_]):
            if node.name == row.name + _ENVELOPE and is_envelope_type(node):
                return json.dumps(json.loads(schema_text)["fields"][0]["type"][1])
    return schema_text


@dataclass(frozen=True, eq=False)
class Writer:
    """A schema of envelopes, a reader of its events, and the schemas of both images: a kind of source."""

    node: avro.Node
    read: binary.Reader
    before: FieldSchema | None
    after: FieldSchema | None

    def __str__(self) -> str:
        return describe_type(self.node)

    @classmethod
    def of(cls, text: str) -> Writer:
        """Parse a schema text, of envelopes or of the rows in them. Raises InvalidSchemaError."""
        node = avro.parse_avro(text)
        if not is_envelope_type(node):
            node = avro.parse_avro(make_envelope_schema(text))
        schema = kafka_connect_schema.read_avro(node)
        fields = schema.fields if schema is not None else {}
        return cls(node, make_document_reader(node), fields.get("before"), fields.get("after"))


class OneWriter:
    """All events have the same schema, and nothing precedes their data."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __call__(self, payload: bytes) -> tuple[Writer, bytes]:
        """Return the schema, and the payload."""
        return self._writer, payload

    def groups(self, payloads: EventBuffer) -> Iterator[tuple[Writer, EventPositions, int]]:
        """Yield the schema with the positions of all events, and the number of bytes that precede their data."""
        yield self._writer, np.arange(len(payloads)), 0


class ConfluentWriters:
    """Finds the schema of an event by the id after its zero byte."""

    def __init__(self, find_schema: Callable[[int], str]) -> None:
        """Take what returns the text of a schema; KeyError or SchemaNotFoundError for an unknown id."""
        self._find_schema = find_schema
        self._writers: dict[int, Writer | str] = {}
        """The schemas, and for those that cannot be read the reasons."""

    def __call__(self, payload: bytes) -> tuple[Writer, bytes]:
        """Return the schema of an event, and its datum. Raises Undecodable."""
        if len(payload) < CONFLUENT_HEADER.size or payload[0] != 0:
            raise Undecodable("it does not begin with a zero byte and the id of a schema, as Confluent's framing does")
        _, number = CONFLUENT_HEADER.unpack_from(payload)
        writer = self._writers.get(number)
        if writer is None:
            try:
                writer = Writer.of(self._find_schema(number))
            except KeyError:
                writer = f"its schema id {number} is not among those of '{AVRO_SCHEMAS}'"
            except (SchemaNotFoundError, InvalidSchemaError) as error:
                writer = f"events with schema id {number} cannot be read: {error.message}"
            self._writers[number] = writer
        if isinstance(writer, str):
            raise Undecodable(writer)
        return writer, payload[CONFLUENT_HEADER.size :]

    def groups(self, payloads: EventBuffer) -> Iterator[tuple[Writer, EventPositions, int]]:
        """Yield each schema that is among those by id, the positions of its events, and the size of their header."""
        numbers = read_ids(payloads, 0)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            here = np.flatnonzero(numbers == number)
            try:
                writer, _ = self(bytes(payloads.payload(int(here[0]))))
            except Undecodable:
                continue  # reading its events will report why
            yield writer, here, CONFLUENT_HEADER.size


WriterSearch = OneWriter | ConfluentWriters
"""What finds the schemas of events, by what each begins with."""


_WHOLE = ("int", "long")
_WRITERS: Mapping[pa.DataType, Sequence[str]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), _WHOLE),
    pa.float32(): ("float",),
    pa.float64(): ("float", "double"),
    pa.bool_(): ("boolean",),
    pa.string(): ("string",),
    pa.binary(): ("bytes",),
}
"""Types of Avro whose values a column takes as they are."""


class AvroEnvelopes(NativeEnvelopes):
    """Envelopes of one Avro schema."""

    def finish(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return envelopes with null for dates and timestamps in images that Spark has no value for."""
        for name in IMAGES:
            rows = rows.set_column(rows.schema.get_field_index(name), name, _limit_times(rows.column(name)))
        return rows


def _limit_times(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind) and kind.num_fields:
        columns = [_limit_times(array.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
    if pa.types.is_date(kind):
        return limit_to_range(array.view(pa.int32()), FIRST_DAY, LAST_DAY).view(kind)
    if pa.types.is_timestamp(kind):
        return limit_to_range(array.view(pa.int64()), FIRST_MICROS, LAST_MICROS).view(kind)
    return array


def plan_by_name(writer: avro.Node, column: Column, nullable: bool) -> Plan:
    """Plan a column by the names of a writer's fields; those that the writer lacks are null. Raises Unplanned."""
    if isinstance(writer, avro.Union):
        null_branch = writer.null_number
        if len(writer.branches) != 2 or null_branch is None or not nullable:
            raise Unplanned("a field was written as a union of several types")
        return make_nullable(null_branch, plan_by_name(writer.branches[1 - null_branch], column, nullable))
    if isinstance(column, StructColumn):
        if not isinstance(writer, avro.Record):
            raise Unplanned("a part of the envelope is not a record")
        numbers = {member.key: number for number, member in enumerate(column.members)}
        return plan_record(writer, column, nullable, [numbers.get(f.name) for f in writer.fields], plan_by_name)
    if type(column) is Leaf:
        return _plan_leaf(column, writer)
    raise Unplanned(f"column '{column.path}' has the type {column.type}")


def _plan_leaf(column: Leaf, writer: avro.Node) -> Plan:
    """Plan a column of plain values, if the native decoder gives what the column does."""
    name = writer.name if isinstance(writer, avro.Primitive) else ""
    size = writer.size if isinstance(writer, avro.Fixed) else None
    spec = ("leaf", column.type, True)
    match column.native:
        case ("leaf",) | ("flag",) if name in _WRITERS.get(column.type, ()):
            return spec, make_value("bytes" if name == "string" else name)
        case ("days",) | ("moment", 1) if name in _WHOLE:
            return spec, make_value(name)
        case ("moment", 1000) if name in _WHOLE:
            return spec, make_value({"millis": name == "int"})
        case ("unscaled", scale) if name == "bytes" or size is not None:
            return spec, make_value({"decimal": (size, scale)})
    raise Unplanned(f"column '{column.path}' of type {column.type} is written as {name or 'another type'}")
