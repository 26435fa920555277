"""The schemas with which Debezium's events were written as Avro, and how to find that of an event."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pyspark_pravega.errors import InvalidSchemaError

from ...avro import schema_model as avro
from ...avro.binary import Reader
from ...core.events import EventBuffer, EventPositions, list_positions
from ...core.framing import Undecodable
from ..encodings import kafka_connect_schema
from ..encodings.kafka_connect_schema import FieldSchema
from ..feed import AVRO_SCHEMAS
from .avro_documents import make_document_reader

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
        found = kafka_connect_schema.read_avro(node)
        fields = found.fields if found is not None else {}
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
        found = self._writers.get(number)
        if found is None:
            if number not in self._schemas:
                raise Undecodable(f"its schema id {number} is not among those of '{AVRO_SCHEMAS}'")
            try:
                found = self._writers[number] = Writer.of(self._schemas[number])
            except InvalidSchemaError as error:
                raise Undecodable(f"events with schema id {number} cannot be read: {error.message}") from None
        return found, payload[CONFLUENT_HEADER.size :]

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
