"""Reads Debezium's envelopes with the native decoder of JSON, and with the reference where that cannot.

The native decoder reads an envelope as an object with `op`, both images and the block `source`; the reference's own
columns define the images. The rest of the meaning is computed column by column. An event goes to the reference if it is
not a plain change, has another schema or connector than the others (whose encoding may differ), may contain the
placeholder for unavailable values, or is not accepted by the native decoder.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..core.arrow_types import make_array
from ..core.batches import PayloadReader
from ..core.columns import Problems, StructColumn
from ..core.events import EventBuffer, EventPositions
from ..json.values import plan_column
from ..native import NATIVE_PIECE_BYTES, NATIVE_PIECE_EVENTS, NO_COLUMNS, Spec, Unplanned, merge_with_reference
from .envelope_columns import EnvelopeColumns, find_plain
from .placeholders import PlaceholderSearch

_log = logging.getLogger(__name__)

SCHEMA_FIRST = '{"schema":'
"""The beginning of an envelope with a schema."""


class EnvelopeReader(PayloadReader):
    """The reference reader, with what the native reader needs."""

    search: PlaceholderSearch

    @abstractmethod
    def image(self, name: str, kind: Hashable) -> StructColumn:
        """Return the column of `before` or `after` for a kind of source: a connector's name or a schema's number."""

    @abstractmethod
    def is_misnamed(self, kind: Hashable) -> bool:
        """Return whether changes with the schema of this number name the table's columns in another case."""

    @abstractmethod
    def can_be_misnamed(self, payload: bytes) -> bool:
        """Return whether a change without a schema may do so, because its bytes have none of the table's names."""

    @abstractmethod
    def envelope(self, payload: bytes) -> tuple[bytes, int] | None:
        """Return the beginning of an event with a schema, up to its payload, and the number of that schema."""


class NativeEnvelopeReader(PayloadReader):
    """Reads envelopes natively, with or without a schema, if all wanted columns allow it."""

    piece_events, piece_bytes = NATIVE_PIECE_EVENTS, NATIVE_PIECE_BYTES

    def __init__(self, module: Any, reference: EnvelopeReader, schema: StructType) -> None:
        """Take the wanted columns. Raises Unplanned for columns that only the reference can make."""
        self._module = module
        self._reference = reference
        self._columns = EnvelopeColumns(reference, schema)
        self._decoders: dict[Hashable, Any] = {}
        self._connector = ""

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        decoder, connector, prefix = None, None, b""
        if padded:
            payloads = payloads.strip_nuls()
        if len(payloads):
            decoder, connector, prefix = self._find_decoder(payloads)
        if decoder is None:
            return self._reference.arrays(payloads, padded, problems)
        batch, unread = decoder.decode(*payloads.octets(), False)
        rows = pa.record_batch(batch)
        is_read = np.ones(len(payloads), np.bool_)
        if unread is not None:
            is_read[np.frombuffer(unread, np.int64)] = False
        read = np.flatnonzero(is_read)
        is_read[read[~self._find_plain(rows, connector)]] = False
        inner = payloads if not prefix else payloads.take(read).skip_first(len(prefix))
        suspects = self._reference.search.find_others(inner)
        is_read[read[suspects] if prefix else suspects] = False
        if connector is not None:
            is_read[read[self._find_misnamed(rows, read, payloads)]] = False
        chosen = is_read[read]
        if not chosen.all():
            rows = rows.take(make_array(np.flatnonzero(chosen)))
        arrays = self._columns.make(rows)
        unread_rows: EventPositions = np.flatnonzero(~is_read)
        if not len(unread_rows):
            return arrays
        return merge_with_reference(arrays, unread_rows, self._reference, payloads, False, problems)

    def _find_plain(self, rows: pa.RecordBatch, connector: str | None) -> Any:
        """Return which envelopes are changes and, if that matters, come from the connector that they were read for."""
        plain = find_plain(rows)
        if connector is not None:
            names = pc.fill_null(pc.struct_field(rows.column("source"), "connector"), "")
            coded = names.dictionary_encode()
            if coded.dictionary.to_pylist() == [connector]:
                return plain
            same = pc.equal(names, connector)
            others = pc.filter(names, pc.invert(same))
            if len(others) * 2 > len(names):
                self._connector = others[-1].as_py()  # the next piece is probably from this one
            plain = plain & same.to_numpy(zero_copy_only=False)
        return plain

    def _find_misnamed(self, rows: pa.RecordBatch, read: EventPositions, payloads: EventBuffer) -> EventPositions:
        """Return the places of rows of nulls whose columns may have the table's names in another case."""
        empty = np.zeros(len(rows), np.bool_)
        for name in ("before", "after"):
            if name in self._columns.names:
                empty |= _find_rows_of_nulls(rows.column(name))
        places = [
            number
            for number in np.flatnonzero(empty).tolist()
            if self._reference.can_be_misnamed(bytes(payloads.payload(int(read[number]))))
        ]
        return np.array(places, np.int64)

    def _find_decoder(self, payloads: EventBuffer) -> tuple[Any, str | None, bytes]:
        """Return the decoder for events like the first one, if there is one, their connector if it matters, and prefix.

        The prefix is what such events begin with, up to their payload.
        """
        kind: Hashable
        first = bytes(payloads.payload(0))
        prefix, connector = None, None
        if first.startswith(SCHEMA_FIRST.encode()):
            envelope = self._reference.envelope(first)
            if envelope is None:
                return None, None, b""
            prefix, kind = envelope
        else:
            self._connector = self._connector or _guess_connector(payloads)
            kind = connector = self._connector
        if (prefix, kind) not in self._decoders:
            self._decoders[(prefix, kind)] = self._make_decoder(kind, prefix)
        return self._decoders[(prefix, kind)], connector, prefix or b""

    def _make_decoder(self, kind: Hashable, prefix: bytes | None) -> Any:
        if prefix is not None and self._reference.is_misnamed(kind):
            return None  # the reference reports it
        try:
            spec, make, texts = self._make_spec(kind), self._module.Decoder, list(self._reference.search.texts)
            if prefix is None:
                decoder = make.json(spec, False, [*texts, SCHEMA_FIRST.encode()])
            else:
                decoder = make.json_member(spec, prefix, texts)
            self._check(decoder)
        except (Unplanned, ValueError) as reason:
            _log.info("Debezium's events of the kind '%s' are decoded in Python: %s", kind, reason)
            return None
        return decoder

    def _check(self, decoder: Any) -> None:
        batch, _ = decoder.decode(*EventBuffer.of([]).octets(), False)
        self._columns.check(pa.record_batch(batch))

    def _make_spec(self, kind: Hashable) -> Spec:
        source = self._columns.source
        images = {
            name: plan_column(self._reference.image(name, kind), True) if name in self._columns.names else _LOOKED_AT
            for name in ("before", "after")
        }
        members = {
            "op": ("leaf", pa.string(), True),
            **images,
            "source": _make_struct(source, [("leaf", member.type, True) for member in source], True),
            "ts_ms": ("leaf", pa.int64(), True),
            "ts_us": ("leaf", pa.int64(), True),
        }
        fields = pa.struct([pa.field(name, spec[1], True) for name, spec in members.items()])
        return _make_struct(fields, list(members.values()), False)


_LOOKED_AT: Spec = (NO_COLUMNS[0], NO_COLUMNS[1], True, *NO_COLUMNS[3:])
"""An image without wanted columns, which still must be an object or null."""


def _find_rows_of_nulls(image: pa.StructArray) -> Any:
    """Return which rows exist but have only nulls."""
    empty = image.is_valid().to_numpy(zero_copy_only=False)
    for number in range(image.type.num_fields):
        if not empty.any():
            break
        empty = empty & image.field(number).is_null().to_numpy(zero_copy_only=False)
    return empty if image.type.num_fields else np.zeros(len(image), np.bool_)


def _make_struct(fields: pa.StructType, specs: list[Spec], nullable: bool) -> Spec:
    return ("struct", fields, nullable, [field.name for field in fields], specs)


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
