"""The schemas with which Debezium's events were written as Avro: how to find that of an event, and to read by it.

Values have the form of JSON: objects, arrays, texts, numbers; bytes stay bytes. So readers use the names of fields
instead of a table's schema, and are as strict as `binary`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pyspark_pravega.errors import InvalidSchemaError

from ...avro import schema_model as avro
from ...avro.binary import Reader, make_array_reader, make_map_reader, make_scalar_reader
from ...avro.binary import read_long as read_branch
from ...avro.leaves import make_symbol_finder
from ...core.events import EventBuffer, EventPositions, list_positions
from ...core.framing import Undecodable
from ..encodings import kafka_connect_schema
from ..encodings.kafka_connect_schema import FieldSchema
from ..feed import AVRO_SCHEMAS


def make_document_reader(node: avro.Node) -> Reader:
    """Return a reader for values of a type. Raises InvalidSchemaError for a record that contains itself."""
    return _Documents().read(node)


class _Documents:
    def __init__(self) -> None:
        self._inside: list[avro.Record] = []

    def read(self, node: avro.Node) -> Reader:
        if isinstance(node, avro.Record):
            if any(node is outer for outer in self._inside):
                raise InvalidSchemaError(f"the Avro record '{node.name}' contains itself")
            self._inside.append(node)
            fields = [(field.name, self.read(field.type)) for field in node.fields]
            self._inside.pop()
            return _make_object_reader(fields)
        if isinstance(node, avro.Array):
            return make_array_reader(node, self.read(node.items))
        if isinstance(node, avro.Map):
            return _convert(make_map_reader(self.read(node.values)), _decode_keys)
        if isinstance(node, avro.Union):
            return _make_union_reader([self.read(branch) for branch in node.branches])
        if isinstance(node, avro.Enum):
            return _convert(make_scalar_reader(node), make_symbol_finder(node, node))
        reader = make_scalar_reader(node)
        is_text = isinstance(node, avro.Primitive) and node.name == "string"
        return _convert(reader, _decode_text) if is_text else reader


def _make_object_reader(fields: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in fields:
            values[name], at = reader(data, at)
        return values, at

    return read


def _make_union_reader(branches: list[Reader]) -> Reader:
    count = len(branches)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = read_branch(data, at)
        if not 0 <= branch < count:
            raise Undecodable(f"it has the branch {branch} of a union with {count} types")
        return branches[branch](data, at)

    return read


def _convert(reader: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = reader(data, at)
        return convert(value), at

    return read


def _decode_keys(values: dict[bytes, Any]) -> dict[str, Any]:
    return {_decode_text(key): value for key, value in values.items()}


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"it has a string that is not UTF-8 (byte {error.start})") from None


CONFLUENT_HEADER = struct.Struct(">bI")


def is_envelope_type(node: avro.Node) -> bool:
    """Return whether a type is one of Debezium's envelopes."""
    if not isinstance(node, avro.Record) or node.field_named("op") is None:
        return False
    return node.field_named("after") is not None or node.field_named("before") is not None


def make_envelope_schema(row_schema_text: str) -> str:
    """Return the schema of envelopes around rows of a schema, or the text itself if it is a schema of envelopes."""
    row = avro.parse_avro(row_schema_text)
    if not isinstance(row, avro.Record):
        raise InvalidSchemaError("it is not a record, so it describes neither rows nor envelopes")
    if is_envelope_type(row):
        return row_schema_text
    source = [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    return json.dumps(
        {
            "type": "record",
            "name": "pyspark_pravega.Envelope",
            "fields": [
                {"name": "before", "type": ["null", json.loads(row_schema_text)], "default": None},
                {"name": "after", "type": ["null", row.name], "default": None},
                {"name": "source", "type": {"type": "record", "name": "pyspark_pravega.Source", "fields": source}},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": "long"},
            ],
        }
    )


@dataclass(frozen=True)
class Writer:
    """A schema of envelopes, a reader of its events, and the schemas of both images."""

    node: avro.Node
    read: Reader
    before: FieldSchema | None
    after: FieldSchema | None

    @classmethod
    def of(cls, text: str) -> Writer:
        """Parse a schema text. Raises InvalidSchemaError."""
        node = avro.parse_avro(make_envelope_schema(text))
        schema = kafka_connect_schema.read_avro(node)
        fields = schema.fields if schema is not None else {}
        return cls(node, make_document_reader(node), fields.get("before"), fields.get("after"))


class WriterSearch(Protocol):
    """Finds the schemas of events, by what each begins with."""

    def __call__(self, payload: bytes) -> tuple[Writer, bytes]:
        """Return the schema of an event, and its datum. Raises Undecodable."""
        ...

    def groups(self, payloads: EventBuffer) -> Iterator[tuple[Writer, EventPositions, int]]:
        """Yield each known schema, the positions of its events, and how many bytes precede their data."""
        ...


class OneWriter:
    """All events have the same schema, and nothing precedes their data."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __call__(self, payload: bytes) -> tuple[Writer, bytes]:
        """Return the schema, and the payload."""
        return self._writer, payload

    def groups(self, payloads: EventBuffer) -> Iterator[tuple[Writer, EventPositions, int]]:
        """Yield the schema with all events."""
        yield self._writer, list_positions(len(payloads)), 0


class ConfluentWriters:
    """Finds the schema of an event by the id after its zero byte."""

    def __init__(self, schemas: dict[int, str]) -> None:
        self._schemas = schemas
        self._writers: dict[int, Writer] = {}

    def __call__(self, payload: bytes) -> tuple[Writer, bytes]:
        if len(payload) < CONFLUENT_HEADER.size or payload[0] != 0:
            raise Undecodable("it does not begin with a zero byte and the id of a schema, as Confluent's framing does")
        _, number = CONFLUENT_HEADER.unpack_from(payload)
        writer = self._writers.get(number)
        if writer is None:
            if number not in self._schemas:
                raise Undecodable(f"its schema id {number} is not among those of '{AVRO_SCHEMAS}'")
            try:
                writer = self._writers[number] = Writer.of(self._schemas[number])
            except InvalidSchemaError as error:
                raise Undecodable(f"events with schema id {number} cannot be read: {error.message}") from None
        return writer, payload[CONFLUENT_HEADER.size :]

    def groups(self, payloads: EventBuffer) -> Iterator[tuple[Writer, EventPositions, int]]:
        """Yield the schemas that are among those by id, each with its events."""
        size = CONFLUENT_HEADER.size
        places = np.flatnonzero(payloads.lengths >= size)
        if not len(places):
            return
        octets = np.frombuffer(payloads.data, np.uint8)
        headers = octets[payloads.starts[places][:, None] + np.arange(size)].astype(np.int64)
        numbers = headers[:, 1:] @ (1 << np.array([24, 16, 8, 0]))
        numbers[headers[:, 0] != 0] = -1
        for number in np.unique(numbers[numbers >= 0]).tolist():
            here = places[numbers == number]
            try:
                writer, _ = self(bytes(payloads.payload(int(here[0]))))
            except Undecodable:
                continue  # reading its events will report why
            yield writer, here, size
