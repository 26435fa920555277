"""Reads Debezium's envelopes with the native decoders, and with the reference where these cannot.

A native decoder reads an envelope as a record with `op`, both images, the block `source` and the times; the reference's
own columns define the images. The rest of the meaning is computed column by column. An event goes to the reference if
it is not a plain change, has an encoding that no native decoder reads, may contain the placeholder for unavailable
values, or is not accepted by the native decoder.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..core.arrow_types import make_array
from ..core.batches import PayloadReader
from ..core.columns import Column, Leaf, Problems, StructColumn, StructMember
from ..core.events import EventBuffer, EventPositions
from ..native import NATIVE_PIECE_BYTES, NATIVE_PIECE_EVENTS, Unplanned, make_natively, read_rest
from .changelog_columns import IMAGES, ChangeColumns, ChangeReader
from .feed import CREATE, MARKS, OPERATIONS, READ, READ_BY_SNAPSHOT, UPSERTS
from .placeholders import PlaceholderSearch
from .source_positions import SOURCE_TYPE, make_position_arrays, make_timestamps

_SNAPSHOT = pa.field("snapshot", pa.string())
_OF_MARKS = ("schema", "table")
"""Members of a source block that marks need besides SOURCE_TYPE and `snapshot`."""
_READ_BY_SNAPSHOT = pa.array(READ_BY_SNAPSHOT)
_OPERATIONS = pa.array(OPERATIONS)
_NEEDS_AFTER = np.array([*(letter in UPSERTS for letter in OPERATIONS), False])


class NativeEnvelopes:
    """Envelopes that one native decoder reads."""

    def __init__(self, decoder: Any, skipped: int = 0) -> None:
        """Take a decoder of the crate. `skipped`: the bytes of an event before its change, which it only compares."""
        self.decoder = decoder
        self.skipped = skipped

    def finish(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the decoded envelopes with the values of the columns."""
        return rows

    def find_plain(self, rows: pa.RecordBatch, read: EventPositions, events: EventBuffer) -> npt.NDArray[np.bool_]:
        """Return which envelopes have an operation, and the rows that it needs. `read` are the positions of events."""
        codes = pc.fill_null(pc.index_in(rows.column("op"), _OPERATIONS), len(OPERATIONS)).to_numpy(
            zero_copy_only=False
        )
        plain: npt.NDArray[np.bool_] = codes < len(OPERATIONS)
        after = rows.column("after")
        if after.null_count:
            plain &= ~_NEEDS_AFTER[codes] | after.is_valid().to_numpy(zero_copy_only=False)
        return plain


class EnvelopeReader(ChangeReader):
    """The reference reader, with what the native reader needs."""

    search: PlaceholderSearch

    @abstractmethod
    def group(self, payloads: EventBuffer) -> Iterator[tuple[Hashable, EventPositions, int]]:
        """Yield kinds of envelopes, the positions of their events, and how many bytes precede each envelope."""

    @abstractmethod
    def make_native(self, module: Any, kind: Hashable, columns: EnvelopeColumns) -> NativeEnvelopes:
        """Return the native decoder of a kind of envelopes. Raises Unplanned, or ValueError, if there is none."""


class EnvelopeColumns:
    """Makes the wanted columns of the changelog from native envelopes."""

    def __init__(self, reference: EnvelopeReader, schema: StructType) -> None:
        """Take the columns. Raises Unplanned for those that only the reference can make."""
        if "source" in schema.names:
            raise Unplanned("the column 'source' holds a whole source block")
        self._names = schema.names
        self._columns: ChangeColumns = reference.columns
        marked = [pa.field(name, pa.string()) for name in _OF_MARKS] if MARKS.name in schema.names else []
        self._source = _make_struct({field.name: field.type for field in [*SOURCE_TYPE, _SNAPSHOT, *marked]})
        self._types = [array.type for array in reference.arrays(EventBuffer.of([]), False, Problems())]

    def envelope(self, kind: Hashable) -> StructColumn:
        """Return the column of envelopes whose images are encoded as by this kind of source.

        Raises Unplanned if they name the table's columns in another case, which the reference reports.
        """
        misnaming = self._columns.explain_misnaming(kind)
        if misnaming is not None:
            raise Unplanned(misnaming)
        before, after = (self._columns.image(name, kind) for name in IMAGES)
        times = {"ts_ms": pa.int64(), "ts_us": pa.int64()}
        return _make_struct({"op": pa.string(), "before": before, "after": after, "source": self._source, **times})

    def check(self, rows: pa.RecordBatch) -> None:
        """Raise Unplanned if envelopes of this kind do not give the columns' types."""
        if [array.type for array in self.make(rows)] != self._types:
            raise Unplanned("a column has a type that the native decoder cannot give exactly")

    def make(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return one array for each column."""
        return [self._make_column(name, type, rows) for name, type in zip(self._names, self._types, strict=True)]

    def _make_column(self, name: str, type: pa.DataType, rows: pa.RecordBatch) -> pa.Array:
        if name == "ts":
            return make_timestamps(rows.column("ts_us"), rows.column("ts_ms"))
        if name == "op":
            return _find_operations(rows)
        if name == "unavailable":
            # The reference reads events with such columns, which are among the suspects.
            offsets = pa.array(np.zeros(len(rows) + 1, np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), type=type)
        if name not in ("position", MARKS.name):
            return rows.column(name)
        source = rows.column("source")
        block = dict(zip(source.type.names, source.flatten(), strict=True))
        members = make_position_arrays(source) if name == "position" else block
        chosen = [members[member.name] for member in type]
        return pa.StructArray.from_arrays(chosen, fields=list(type), mask=source.is_null())


def _make_struct(members: Mapping[str, Column | pa.DataType]) -> StructColumn:
    """Return a column that is only planned, of other columns and of plain values of some types."""
    columns = [
        member if isinstance(member, Column) else Leaf(name, member, lambda value: value, native=("leaf",))
        for name, member in members.items()
    ]
    struct = pa.struct([(name, column.type) for name, column in zip(members, columns, strict=True)])
    return StructColumn("", struct, [StructMember(f.name, c, True) for f, c in zip(struct, columns, strict=True)], dict)


def _find_operations(rows: pa.RecordBatch) -> pa.Array:
    """Return the operations, READ for all rows of whole snapshots, whatever letter they came with."""
    operations = rows.column("op")
    snapshot = rows.column("source").field("snapshot")
    read = pc.and_(pc.is_in(snapshot, _READ_BY_SNAPSHOT), pc.equal(operations, CREATE))
    return pc.if_else(pc.fill_null(read, False), READ, operations)


def make_native_reader(reference: EnvelopeReader, schema: StructType) -> PayloadReader:
    """Return a native reader of the same columns, or the reference if there is none."""
    native = make_natively(
        lambda module: _NativeReader(reference, EnvelopeColumns(reference, schema)), "Debezium's events are decoded"
    )
    return native or reference


class _NativeReader(PayloadReader):
    """Reads envelopes natively, those of each kind together."""

    piece_events, piece_bytes = NATIVE_PIECE_EVENTS, NATIVE_PIECE_BYTES

    def __init__(self, reference: EnvelopeReader, columns: EnvelopeColumns) -> None:
        self._reference = reference
        self._columns = columns
        self._envelopes: dict[Hashable, NativeEnvelopes | None] = {}

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        if padded and self._reference.strips_padding:
            payloads, padded = payloads.strip_nuls(), False
        parts: list[list[pa.Array]] = []
        positions: list[EventPositions] = []
        for kind, here, header in self._reference.group(payloads):
            envelopes = self._find_envelopes(kind)
            if envelopes is not None:
                group = payloads if len(here) == len(payloads) else payloads.take(here)
                columns, chosen = self._read(envelopes, group.skip_first(header), padded)
                parts.append(columns)
                positions.append(here[chosen])
        if not parts:
            return self._reference.arrays(payloads, padded, problems)
        return read_rest(parts, positions, self._reference, payloads, padded, problems)

    def _read(
        self, envelopes: NativeEnvelopes, events: EventBuffer, padded: bool
    ) -> tuple[list[pa.Array], EventPositions]:
        """Return the columns of the events that can be read, and their positions."""
        batch, unread = envelopes.decoder.decode(*events.octets(), padded)
        rows = pa.record_batch(batch)
        is_read = np.ones(len(events), np.bool_)
        if unread is not None:
            is_read[np.frombuffer(unread, np.int64)] = False
        read = np.flatnonzero(is_read)
        is_read[read[~envelopes.find_plain(rows, read, events)]] = False
        others = self._reference.search.find_others(events.take(read).skip_first(envelopes.skipped))
        is_read[read[others]] = False
        chosen = is_read[read]
        if not chosen.all():
            rows = rows.take(make_array(np.flatnonzero(chosen)))
        return self._columns.make(envelopes.finish(rows)), np.flatnonzero(is_read)

    def _find_envelopes(self, kind: Hashable) -> NativeEnvelopes | None:
        if kind not in self._envelopes:
            what = f"Debezium's events of the kind '{kind}' are decoded"
            self._envelopes[kind] = make_natively(lambda module: self._make_envelopes(module, kind), what)
        return self._envelopes[kind]

    def _make_envelopes(self, module: Any, kind: Hashable) -> NativeEnvelopes:
        envelopes = self._reference.make_native(module, kind, self._columns)
        batch, _ = envelopes.decoder.decode(*EventBuffer.of([]).octets(), False)
        self._columns.check(envelopes.finish(pa.record_batch(batch)))
        return envelopes
