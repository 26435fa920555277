"""Reads and writes Debezium's events as Avro.

An event was written with this schema:

* with `debezium.avro-schemas`: the schema whose id follows a zero byte (Confluent's framing, which Kafka Connect's
  converters write, and Apicurio's with `as-confluent`);
* with `framing`=`confluent`: the schema with that id in Confluent's registry;
* with `framing`=`registry`: the schema that the encoding id of the registry's header stands for;
* otherwise: the table's schema, without any header. Inserted rows are written so.

The table's schema is that of its envelopes, by which other programs read them. Where a schema is one of rows,
`make_envelope_schema` makes the envelope around it. An empty event is a tombstone. Names and parameters that Connect
leaves in a schema describe the encoding of values.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError, shorten

from ...avro import schema_model as avro
from ...avro.binary import read_whole
from ...avro.cells import write_bytes, write_varint
from ...avro.format import AvroFormat
from ...avro.spark_to_schema import convert_spark_to_avro
from ...avro.writing import AvroEncoder
from ...core.batches import BatchDecoder, PayloadReader
from ...core.events import EventBuffer, EventPositions, find_texts
from ...core.format import Decoder, Encoder, Layout, Resolve, Settings, WriterSchema
from ..changelog_columns import Change, ChangeColumns, SourceEncoding
from ..encodings.semantic_types import choose_columns
from ..encodings.settings import Rules
from ..feed import AVRO_SCHEMAS, CREATE, DELETE, OWN_CONNECTOR, READ, UPDATE, WRITTEN_AT
from ..native_reader import EnvelopeColumns, EnvelopeReader, NativeEnvelopes, make_native_reader
from ..newest_schema import SchemasSeen
from ..placeholders import PlaceholderSearch
from . import avro_writers
from .json import read_change
from .writing import Envelope, EnvelopeEncoder, check_writable

LARGEST_FILE = 16 * 1024 * 1024
"""Most bytes of a file of schemas. The schemas go to every task."""


def read_schemas(text: str) -> str:
    """Return the property's text if it is JSON, else the content of the file that it names.

    Raises InvalidOptionError unless that is a regular file of JSON that is not too large.
    """
    text = text.strip()
    if not text or text[0] in "{[":
        return text
    try:
        content = _read_content(text)
        json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidOptionError(
            f"'{AVRO_SCHEMAS}'='{shorten(text)}' should be JSON, or the path of a regular file with JSON of at most "
            f"{LARGEST_FILE:,} bytes, which is read where the query is planned: {reason}."
        ) from None
    return content


def _read_content(path: str) -> str:
    """Read a file. Raises OSError, and ValueError if it is not a regular file, too large, or not UTF-8."""
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > LARGEST_FILE:
            raise ValueError(f"it has {status.st_size:,} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE).decode()
    finally:
        os.close(descriptor)


def parse_schemas_by_id(text: str) -> dict[int, str]:
    """Parse the texts of schemas by their ids. Raises InvalidOptionError."""
    schemas: dict[int, str] = {}
    try:
        content = json.loads(text)
        pairs = content.items() if isinstance(content, dict) else [(entry["id"], entry["schema"]) for entry in content]
        for number, schema in pairs:
            schemas[int(number)] = schema if isinstance(schema, str) else json.dumps(schema)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidOptionError(
            f'\'{AVRO_SCHEMAS}\' should be a JSON object of schemas by id, such as {{"7": {{"type": "record", '
            '...}}, or a list of objects with "id" and "schema"'
        ) from None
    return schemas


_TRUNCATE = b"\x02t"
_MARKS = tuple(
    write_bytes(text) for text in (b"first", b"last", b"first_in_data_collection", b"last_in_data_collection")
)
_LAST_OF_SCHEMA = 16
"""Number of events per schema and segment that are decoded to find the newest schema."""


class DebeziumAvroFormat(AvroFormat):
    """The format of Debezium's changes as Avro. The envelopes have an Avro schema in the registry."""

    name = "debezium-avro"
    changes = True
    any_keys = True

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        return avro_writers.make_envelope_schema(super().schema_text(layout, name, namespace, comment))

    def spark_schema(self, schema_text: str) -> StructType:
        return super().spark_schema(avro_writers.find_row_schema(schema_text))

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        return DebeziumAvroDecoder(layout, resolve)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        """Make an encoder of changes, in the envelopes of the table's schema, or of `make_envelope_schema`."""
        check_writable(layout.columns)
        if AVRO_SCHEMAS in layout.settings:
            raise UnsupportedOperationError(
                f"rows cannot be inserted into a table with '{AVRO_SCHEMAS}': ids of Confluent's framing come from "
                "its own registry"
            )
        text = avro_writers.find_row_schema(layout.schema_text or convert_spark_to_avro(layout.columns, "row", ""))
        rows = AvroEncoder(layout.columns, text)
        now = write_varint(int(layout.settings.get(WRITTEN_AT, "0")))
        connector = write_bytes(OWN_CONNECTOR.encode())
        source = b"".join([write_bytes(b"1"), connector, connector, now])
        letters = {letter: write_bytes(letter.encode()) for letter in (CREATE, READ, UPDATE, DELETE)}
        # An image is a union of null, its first branch, and the row.
        envelope = Envelope(rows.encode, rows.encode, b"\x02", b"\x00", (b"", b"", source, now), letters)
        return EnvelopeEncoder(layout.columns, encoding_id, codec, envelope)

    def infer_columns(self, tails: Iterable[EventBuffer], settings: Settings) -> StructType | None:
        """Return the columns of the newest schema among those given by id; None if no event has one of them."""
        if AVRO_SCHEMAS not in settings:
            return None
        find = avro_writers.ConfluentWriters(parse_schemas_by_id(settings[AVRO_SCHEMAS]).__getitem__)
        seen = SchemasSeen()
        reader = _EnvelopeReader(StructType([]), None, settings, find)
        for tail, events in enumerate(tails):
            looked_at: Counter[bytes] = Counter()
            payloads = list(events.payloads())
            for number in reversed(range(len(payloads))):
                header = payloads[number][: avro_writers.CONFLUENT_HEADER.size]
                if not header or looked_at[header] == _LAST_OF_SCHEMA:
                    continue
                _, _, _, source, time, kind = reader.try_change(payloads[number])
                if kind is None:
                    continue
                looked_at[header] += 1
                image = reader.find_encoding(kind).after
                if image is not None:
                    seen.add(header, partial(choose_columns, image), source, time, (tail, number))
        return seen.newest()

    def truncate_candidates(self, events: EventBuffer) -> EventPositions:
        return find_texts(events, (_TRUNCATE, *_MARKS))


def is_envelope(format: str, schema_text: str) -> bool:
    """Return whether a schema, with which tables of a format are read, is one of Debezium's envelopes in Avro."""
    try:
        return format == "avro" and avro_writers.is_envelope_type(avro.parse_avro(schema_text))
    except InvalidSchemaError:
        return False


def read_envelope_columns(schema_text: str) -> StructType | None:
    """Return the columns of the rows in such an envelope; None if it has none."""
    after = avro_writers.Writer.of(schema_text).after
    return None if after is None else choose_columns(after)


class DebeziumAvroDecoder(BatchDecoder):
    """Reads events of any number of schemas, each by its own."""

    format_name = "Avro"

    def __init__(self, layout: Layout, resolve: Resolve | None) -> None:
        super().__init__(layout.columns, resolve)
        self._layout = layout
        self._table = DebeziumAvroFormat().spark_schema(layout.schema_text) if layout.schema_text else None
        by_id = layout.settings.get(AVRO_SCHEMAS)
        self._find_schema = None if by_id is None else parse_schemas_by_id(by_id).__getitem__

    def expect_confluent(self) -> None:
        """Read the ids where events are read one by one, among which tombstones have none."""
        resolve, self._resolve = self._resolve, None
        if resolve is not None:
            self._find_schema = lambda number: resolve(number).schema_text

    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        find: avro_writers.WriterSearch
        if writer is not None:
            find = avro_writers.OneWriter(avro_writers.Writer.of(writer.schema_text))
        elif self._find_schema is not None:
            find = avro_writers.ConfluentWriters(self._find_schema)
        elif self._layout.schema_text is not None:
            find = avro_writers.OneWriter(avro_writers.Writer.of(self._layout.schema_text))
        else:
            raise InvalidSchemaError(
                f"nothing says with which schema the events were written; set the table property '{AVRO_SCHEMAS}'"
            )
        columns = self._layout.columns
        return make_native_reader(_EnvelopeReader(columns, self._table, self._layout.settings, find), columns)


class _EnvelopeReader(EnvelopeReader):
    strips_padding = False

    def __init__(
        self, schema: StructType, table: StructType | None, settings: Settings, find: avro_writers.WriterSearch
    ) -> None:
        self._rules = Rules.of(settings)
        self._find = find
        placeholder = self._rules.placeholder
        columns = ChangeColumns(schema, table, placeholder, self.find_encoding)
        super().__init__(columns, PlaceholderSearch(placeholder, avro=True))

    def group(self, payloads: EventBuffer) -> Iterator[tuple[Hashable, EventPositions, int]]:
        yield from self._find.groups(payloads)

    def make_native(self, module: Any, kind: Hashable, columns: EnvelopeColumns) -> NativeEnvelopes:
        assert isinstance(kind, avro_writers.Writer)
        plans = avro_writers.plan_by_name(kind.node, columns.envelope(kind), nullable=False)
        return avro_writers.AvroEnvelopes(module.Decoder.avro(*plans, list(self.search.texts)))

    def find_encoding(self, kind: Hashable) -> SourceEncoding:
        """Return the encoding by a schema; without one, by the rules alone."""
        if not isinstance(kind, avro_writers.Writer):
            return SourceEncoding(None, None, self._rules)
        return SourceEncoding(kind.before, kind.after, self._rules)

    def change(self, payload: bytes, padded: bool) -> Change:
        writer, datum = self._find(payload)
        return read_change(read_whole(writer.read, datum, padded), writer)
