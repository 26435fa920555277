"""Reads and writes Debezium's events as JSON, with or without the schema envelope `{"schema": ..., "payload": ...}`.

Besides a change of a row, an event may be:

* empty, or `null`: a tombstone;
* a heartbeat, a transaction's begin or end, a schema change: recognised by their properties.

These change no row. Any other event without `op`, such as a row that ExtractNewRecordState flattened, is bad.
`encodings.encoded_values` defines what columns accept.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ...core.batches import UniformDecoder
from ...core.columns import describe_kind
from ...core.events import EventBuffer, EventPositions, find_rare_events
from ...core.format import Decoder, Encoder, Layout, Resolve, Settings
from ...core.framing import Undecodable
from ...json.documents import DocumentParser
from ...json.format import JsonFormat
from ...json.values import plan_column
from ..changelog_columns import IMAGES, NO_CHANGE, Change, ChangeColumns, SourceEncoding
from ..encodings import kafka_connect_schema
from ..encodings.kafka_connect_schema import FieldSchema
from ..encodings.semantic_types import choose_columns
from ..encodings.settings import Rules
from ..feed import CREATE, DEBEZIUM_JSON, INFER_COLUMNS, OPERATIONS, READ, READ_BY_SNAPSHOT, UPSERTS, find_advice
from ..native_reader import EnvelopeColumns, EnvelopeReader, NativeEnvelopes, make_native_reader
from ..newest_schema import SchemasSeen, sample_columns
from ..placeholders import PlaceholderSearch
from ..source_positions import read_micros
from .writing import make_json_encoder

SCHEMA_FIRST = '{"schema":'
"""The beginning of an envelope with a schema."""
CELL = {"value", "set"}
"""The members of a cell."""
_OF_CELLS = (b'"set":true', b'"set": true')
"""Texts in events with cells: only the reference looks for them."""
_PAYLOAD_NEXT = ',"payload":'
_CANDIDATE = rb'"op"\s*:\s*"t"|"snapshot"\s*:\s*"(?:first|last)(?:_in_data_collection)?"'
"""A truncation, or a mark of a snapshot."""
_CANDIDATES = (b'"t"', b'first"', b'last"', b'_in_data_collection"')
"""The ends of texts that match it."""
_KNOWN_SCHEMAS = 64
"""Most schemas that a decoder keeps; a stream has one for each version of its table."""

_BLOCK = (dict, type(None))
_HEARTBEAT = {"ts_ms", "ts_us", "ts_ns"}
_TRANSACTION = {"status", "id"}
_OF_TRANSACTIONS = {*_TRANSACTION, *_HEARTBEAT, "event_count", "data_collections"}
_SCHEMA_CHANGE = {"ddl", "tableChanges"}


class DebeziumJsonFormat(JsonFormat):
    """The format of Debezium's changes as JSON. The rows have a JSON schema in the registry."""

    name = "debezium-json"
    changes = True
    any_keys = True

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        table = self.spark_schema(layout.schema_text) if layout.schema_text else None
        reference = _EnvelopeReader(layout.columns, table, layout.settings)
        reader = make_native_reader(reference, layout.columns)
        return UniformDecoder(self.registry_format, layout.columns, resolve, reader)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        return make_json_encoder(layout, encoding_id, codec)

    def infer_columns(self, tails: Iterable[EventBuffer], settings: Settings) -> StructType | None:
        """Return the columns of the newest schema; None if no event has one.

        With `infer-columns`=`sample`, the columns of all values if there is no schema.
        """
        reader, seen = _EnvelopeReader(StructType([]), None, settings), SchemasSeen()
        sample = settings.get(INFER_COLUMNS) == "sample"
        rows: list[dict[str, Any]] = []
        for tail, events in enumerate(tails):
            for number, payload in enumerate(events.payloads()):
                operation, before, after, source, time, kind = reader.try_change(payload)
                if operation is None:
                    continue
                if sample:
                    rows += [image for image in (before, after) if image]
                image = reader.find_encoding(kind).after
                if image is not None and image.fields:
                    seen.add(kind, partial(choose_columns, image), source, time, (tail, number))
        newest = seen.newest()
        return (
            sample_columns(reversed(rows), Rules.of(settings).placeholder.forms) if newest is None and rows else newest
        )

    def truncate_candidates(self, events: EventBuffer) -> EventPositions:
        return find_rare_events(events, _CANDIDATES, _CANDIDATE)


class _EnvelopeReader(EnvelopeReader):
    def __init__(self, schema: StructType, table: StructType | None, settings: Settings) -> None:
        self._settings = settings
        self._schemas = _Schemas()
        self.connector = ""
        """The connector that the next events are expected of."""
        placeholder = Rules.of(settings).placeholder
        super().__init__(
            ChangeColumns(schema, table, placeholder, self.find_encoding),
            PlaceholderSearch(placeholder, avro=False, others=_OF_CELLS),
        )
        self._documents = DocumentParser(self.columns.wants_numbers, signed_zeros=bool(schema.fields))

    def group(self, payloads: EventBuffer) -> Iterator[tuple[Hashable, EventPositions, int]]:
        """Yield all events, as those that are like the first one: with its schema, or of its connector."""
        if not len(payloads):
            return
        kind: Hashable = None
        first = bytes(payloads.payload(0))
        if first.startswith(SCHEMA_FIRST.encode()):
            with suppress(Undecodable):  # reading it will report why
                kind = self._schemas.beginning(self._documents.text(first), self._documents)
        else:
            kind = self.connector = self.connector or _guess_connector(payloads)
        if kind is not None:
            yield kind, np.arange(len(payloads)), 0

    def make_native(self, module: Any, kind: Hashable, columns: EnvelopeColumns) -> NativeEnvelopes:
        make, texts = module.Decoder, list(self.search.texts)
        if isinstance(kind, tuple):
            prefix, number = kind
            plan = plan_column(columns.envelope(number), False)
            return NativeEnvelopes(make.json_member(plan, prefix, texts), len(prefix))
        assert isinstance(kind, str)
        decoder = make.json(plan_column(columns.envelope(kind), False), False, [*texts, SCHEMA_FIRST.encode()])
        return _ConnectorEnvelopes(decoder, kind, self)

    def find_encoding(self, kind: Hashable) -> SourceEncoding:
        """Return an encoding. `kind`: the number of an envelope's schema, or else the name of the connector."""
        if isinstance(kind, int):
            before, after = self._schemas.images[kind]
            return SourceEncoding(before, after, Rules.of(self._settings))
        return SourceEncoding(None, None, Rules.of(self._settings, str(kind or "")))

    def change(self, payload: bytes, padded: bool) -> Change:
        """Parse an event. The kind of its source is the number of its schema, if it has one."""
        text = self._documents.text(payload)
        if text.startswith(SCHEMA_FIRST):
            return read_change(*self._schemas.payload(text, self._documents))
        document = self._documents.document(text)
        if type(document) is dict and "payload" in document and "op" not in document:
            return read_change(document["payload"], self._schemas.number_of(document.get("schema")))
        return read_change(document, None)


def read_change(envelope: Any, schema: Hashable) -> Change:
    """Return the change in an envelope; `schema` stands for its schema, if any. Raises Undecodable for other values."""
    if envelope is None:
        return NO_CHANGE
    if type(envelope) is not dict:
        raise Undecodable(f"it should be a Debezium change event but is {describe_kind(envelope)}")
    find = envelope.get
    operation = find("op")
    if operation not in OPERATIONS:
        if operation is not None:
            raise Undecodable(f"its 'op' is {str(operation)[:20]!r}, not one of {', '.join(OPERATIONS)}")
        if _is_without_change(envelope):
            return NO_CHANGE
        raise Undecodable(
            "it is not a Debezium change event: "
            + (
                find_advice(envelope, DEBEZIUM_JSON)
                or "it has no 'op'. Events that ExtractNewRecordState flattened are rows; read them with "
                "'format'='json'"
            )
        )
    before, after, source = find("before"), find("after"), find("source")
    if not (type(before) in _BLOCK and type(after) in _BLOCK and type(source) in _BLOCK):
        for name in ("before", "after", "source"):
            if type(find(name)) not in _BLOCK:
                raise Undecodable(f"its '{name}' should be an object but is {describe_kind(find(name))}")
    if after is None and operation in UPSERTS:
        raise Undecodable(f"its 'op' is '{operation}', but it has no 'after'")
    for image in (after, before):
        cell = next((value for value in image.values() if value is not None), None) if image else None
        if type(cell) is dict and cell.keys() - {"deletion_ts"} == CELL and cell["set"] is True:
            raise Undecodable(
                "its columns are cells with 'value' and 'set', as connectors of YugabyteDB and Cassandra write them, "
                "and those that did not change are null. Let YugabyteDB's connector write plain rows, by its "
                "transformation PGCompatible; events of Cassandra can be read with 'format'='json'"
            )
    if operation == CREATE and source is not None:
        mark = source.get("snapshot")
        if mark is True or mark in READ_BY_SNAPSHOT:
            operation = READ
    kind: Hashable = schema
    if schema is None:
        kind = "" if source is None else str(source.get("connector") or "")
    return operation, before, after, source, read_micros(envelope), kind


def _is_without_change(event: Mapping[str, Any]) -> bool:
    """Return whether this is a heartbeat, a transaction's begin or end, or a schema change."""
    properties = event.keys()
    return (
        (len(properties) > 0 and properties <= _HEARTBEAT)
        or (_TRANSACTION <= properties <= _OF_TRANSACTIONS and event["status"] in ("BEGIN", "END"))
        or len(properties & _SCHEMA_CHANGE) > 0
    )


class _Schemas:
    """Numbers the schemas seen in envelopes, and remembers the texts that envelopes began with."""

    def __init__(self) -> None:
        self._prefixes: dict[str, int] = {}
        self._last = ""
        self.images: list[tuple[FieldSchema | None, FieldSchema | None]] = []
        """The schemas of before and after, by their number."""

    def number_of(self, schema: Any) -> int | None:
        """Return the number of a schema; None if an envelope has none."""
        root = kafka_connect_schema.read_json(schema)
        if root is None:
            return None
        images = root.fields.get("before"), root.fields.get("after")
        if images not in self.images:
            self.images.append(images)
        return self.images.index(images)

    def beginning(self, text: str, documents: DocumentParser) -> tuple[bytes, int] | None:
        """Return the beginning of such an envelope, up to its payload, and its schema's number. Raises Undecodable."""
        self.payload(text, documents)
        if self._last and text.startswith(self._last):
            return self._last.encode(), self._prefixes[self._last]
        return None

    def payload(self, text: str, documents: DocumentParser) -> tuple[Any, int | None]:
        """Return the payload behind an envelope's schema. Equal schemas are parsed once. Raises Undecodable."""
        prefix = self._last
        if not prefix or not text.startswith(prefix):
            prefix = next((prefix_text for prefix_text in self._prefixes if text.startswith(prefix_text)), "")
        if not prefix:
            begin = len(SCHEMA_FIRST)
            schema, end = documents.value(text, begin)
            if not text.startswith(_PAYLOAD_NEXT, end):
                document = documents.document(text)
                if type(document) is not dict or "payload" not in document:
                    raise Undecodable("it has a 'schema', but no 'payload'")
                return document["payload"], self.number_of(schema)
            number = self.number_of(schema)
            if number is None:
                return documents.document(text)["payload"], None
            prefix = text[: end + len(_PAYLOAD_NEXT)]
            if len(self._prefixes) >= _KNOWN_SCHEMAS:
                self._prefixes.clear()
            self._prefixes[prefix] = number
        self._last = prefix
        payload, end = documents.value(text, len(prefix))
        if text[end:].strip() != "}":
            # Something unusual follows, so the whole document counts.
            return documents.document(text)["payload"], self._prefixes[prefix]
        return payload, self._prefixes[prefix]


class _ConnectorEnvelopes(NativeEnvelopes):
    """Envelopes of one connector, whose encoding their images have."""

    def __init__(self, decoder: Any, connector: str, reference: _EnvelopeReader) -> None:
        super().__init__(decoder)
        self._connector = connector
        self._reference = reference

    def find_plain(self, rows: pa.RecordBatch, read: EventPositions, events: EventBuffer) -> npt.NDArray[np.bool_]:
        """Return which envelopes are changes of the connector, and name the table's columns as the table does."""
        plain = super().find_plain(rows, read, events)
        plain &= self._is_of_connector(rows)
        empty = np.zeros(len(rows), np.bool_)
        for name in IMAGES:
            empty |= _find_rows_of_nulls(rows.column(name))
        for number in np.flatnonzero(empty).tolist():
            payload = bytes(events.payload(int(read[number])))
            plain[number] &= not self._reference.columns.letter_case.can_lack_all(payload)
        return plain

    def _is_of_connector(self, rows: pa.RecordBatch) -> Any:
        names = pc.fill_null(pc.struct_field(rows.column("source"), "connector"), "")
        if names.dictionary_encode().dictionary.to_pylist() == [self._connector]:
            return True
        same = pc.equal(names, self._connector)
        others = pc.filter(names, pc.invert(same))
        if len(others) * 2 > len(names):
            self._reference.connector = others[-1].as_py()  # the next piece is probably from this one
        return same.to_numpy(zero_copy_only=False)


def _find_rows_of_nulls(image: pa.StructArray) -> Any:
    """Return which rows exist but have only nulls."""
    empty = image.is_valid().to_numpy(zero_copy_only=False)
    for number in range(image.type.num_fields):
        if not empty.any():
            break
        empty = empty & image.field(number).is_null().to_numpy(zero_copy_only=False)
    return empty if image.type.num_fields else np.zeros(len(image), np.bool_)


def _guess_connector(payloads: EventBuffer) -> str:
    """Guess the connector from the first envelope that names it. It is checked for every event."""
    for payload in payloads.part(0, min(len(payloads), 16)).payloads():
        try:
            connector = json.loads(payload)["source"]["connector"]
        except (ValueError, LookupError, TypeError, RecursionError):
            continue  # the reference reports what is wrong
        if type(connector) is str and connector:
            return connector
    return ""
