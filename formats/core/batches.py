"""Decodes events into a record batch: by encoding id, in pieces, and back in the order of the events.

One decoder reads events of any number of writer schemas. Events of one encoding id are read together, in
pieces small enough that the Python objects of a piece fit in the processor's caches. A bad event, an
unknown encoding id or a writer's schema that does not fit makes only the events concerned bad.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidSchemaError, PravegaError, SchemaNotFoundError, UnsupportedOperationError

from . import framing
from .arrow_types import arrow_schema, make_record_batch
from .columns import Problems
from .events import EventBuffer, EventPositions
from .format import BadEvent, Resolve, WriterSchema

_log = logging.getLogger(__name__)

PIECE_EVENTS = 4096
PIECE_BYTES = 4 * 1024 * 1024
"""Limits of a piece; a larger event forms a piece alone."""

LARGEST_BATCH = 2 * framing.LARGEST_PAYLOAD
"""Most bytes that the events of a batch may have together after decompression."""


FREE_EXPANSION = 1024**3
LARGEST_EXPANSION = 100
"""A task may decompress FREE_EXPANSION bytes, and more only if they are at most this many times the stored bytes.

The option `max-expansion` sets another number; see `limit_expansion`.
"""


class Overfull(Exception):
    """Raised for events that would need too much memory together. Fewer of them may fit."""


class PayloadReader(ABC):
    """Reads payloads that were written with one schema."""

    piece_events: int = PIECE_EVENTS
    """Number of payloads that it reads at once."""
    piece_bytes: int = PIECE_BYTES
    """Most bytes of these, unless there is only one."""

    @abstractmethod
    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        """Return one array per wanted column, each with one value per payload.

        `padded`: the payloads came after a registry header, so NULs may follow what their writer meant. Bad
        payloads are noted in `problems` by their position; their values do not matter.
        """


class _Expansion:
    """Counts how many bytes a decoder's compressed events had when stored, and have since."""

    def __init__(self) -> None:
        self.largest = LARGEST_EXPANSION
        self._counted = 0, 0
        """The bytes when stored, and after decompression."""
        self.begin_batch()

    def begin_batch(self) -> None:
        """Count the events of a batch, which may keep LARGEST_BATCH bytes."""
        self._before_batch, self._left = self._counted, LARGEST_BATCH

    def add(self, stored: int, decompressed: int, kept: int) -> None:
        """Count an event. Raises UnsupportedOperationError if the events together are a compression bomb, or Overfull.

        `kept`: how many of its bytes the batch keeps. The events of a batch that is overfull come again, in parts.
        """
        before, after = self._counted[0] + stored, self._counted[1] + decompressed
        self._counted = before, after
        if after > max(FREE_EXPANSION, self.largest * before):
            raise UnsupportedOperationError(
                f"the events of a task have {after} bytes after decompression, and {before} before. "
                f"A task may decompress more than {FREE_EXPANSION} bytes only if that is at most {self.largest} "
                "times what is stored, so that compression bombs keep no query busy. If the events may be trusted, set "
                f"the read option 'max-expansion', now {self.largest}, to more. Or read a smaller range of the stream, "
                "or leave these events out with its start and end"
            )
        self._left -= kept
        if self._left < 0:
            self._counted = self._before_batch
            raise Overfull


@dataclass(frozen=True)
class _Source:
    reader: PayloadReader
    codec: framing.Codec
    padded: bool


class BatchDecoder(ABC):
    """The common part of the decoders. A subclass says how it reads payloads of a writer's schema."""

    format_name: str
    """The registry's name of the format that can be read."""

    def __init__(self, reader_schema: StructType, resolve: Resolve | None) -> None:
        self.schema: pa.Schema = arrow_schema(reader_schema)
        self._resolve = resolve
        self._framing = "registry"
        self.expansion = _Expansion()
        self._sources: dict[int, _Source] = {}
        self._unframed: _Source | None = None

    def expect_confluent(self) -> None:
        """Take events with Confluent's header for those with the registry's."""
        self._framing = framing.CONFLUENT

    @abstractmethod
    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        """Return a reader for this writer's schema (None: the table's). Raises InvalidSchemaError if there is none."""

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        batch, bad = self.decode_valid(events)
        if bad:
            raise bad[0]
        return batch

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        """Decode all good events. Raises Overfull for several events that are too large together."""
        pieces: list[list[pa.Array]] = []
        order: list[EventPositions] = []
        reasons: dict[int, str] = {}
        self.expansion.begin_batch()
        sources = 0
        for positions, source in self._group_by_source(events, reasons):
            sources += 1
            group = events if len(positions) == len(events) else events.take(positions)
            if self._resolve is not None:
                group = group.skip_first(framing.HEADER_LENGTH)
            for begin, payloads in _split_into_pieces(group, source, positions, reasons, self.expansion):
                problems = Problems()
                pieces.append(_read(source, payloads, problems))
                here = positions[begin : begin + len(payloads)]
                order.append(here)
                for position, reason in problems.reasons.items():
                    reasons.setdefault(int(here[position]), reason)
        batch = self._assemble(pieces, order, len(events), reasons, in_order=sources < 2)
        return batch, [BadEvent(index, reasons[index]) for index in sorted(reasons)]

    def _assemble(
        self,
        pieces: list[list[pa.Array]],
        order: list[EventPositions],
        count: int,
        reasons: dict[int, str],
        *,
        in_order: bool,
    ) -> pa.RecordBatch:
        order_of_rows: EventPositions | None = None
        if reasons or not in_order:
            done = np.concatenate(order) if order else np.zeros(0, np.int64)
            good = np.ones(count, np.bool_)
            good[list(reasons)] = False
            kept = np.flatnonzero(good[done])
            order_of_rows = kept[np.argsort(done[kept], kind="stable")]
        columns = []
        for number, field in enumerate(self.schema):
            parts = [piece[number] for piece in pieces]
            array = parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.array([], field.type)
            columns.append(array if order_of_rows is None else array.take(pa.array(order_of_rows)))
        return make_record_batch(columns, self.schema, count - len(reasons))

    def _group_by_source(
        self, events: EventBuffer, reasons: dict[int, str]
    ) -> Iterator[tuple[EventPositions, _Source]]:
        if self._resolve is None:
            if self._unframed is None:
                self._unframed = _Source(self.reader_of(None), framing.find_codec(""), padded=False)
            if len(events):
                yield np.arange(len(events)), self._unframed
            return
        for encoding_id, positions in self._group_by_id(events, reasons):
            try:
                source = self._find_source(encoding_id, self._resolve)
            except framing.Undecodable as error:
                reasons.update(dict.fromkeys(positions.tolist(), str(error)))
            else:
                yield positions, source

    def _group_by_id(self, events: EventBuffer, reasons: dict[int, str]) -> Iterator[tuple[int, EventPositions]]:
        common = framing.find_common_encoding_id(events) if self._framing == "registry" else None
        if common is not None:
            yield common, np.arange(len(events))
            return
        ids, unframed = framing.read_encoding_ids(events, self._framing)
        reasons.update(unframed)
        for encoding_id in np.unique(ids[ids >= 0]).tolist():
            yield encoding_id, np.flatnonzero(ids == encoding_id)

    def _find_source(self, encoding_id: int, resolve: Resolve) -> _Source:
        """Look an encoding id up, and remember readable ones. Raises Undecodable if nothing can read its events."""
        source = self._sources.get(encoding_id)
        if source is None:
            try:
                writer = resolve(encoding_id)
            except SchemaNotFoundError:
                registry = "Confluent's" if self._framing == framing.CONFLUENT else "the schema"
                raise framing.Undecodable(f"its encoding id {encoding_id} is not in {registry} registry") from None
            except InvalidSchemaError as error:
                raise framing.Undecodable(error.message) from None
            if writer.format != self.format_name:
                raise framing.Undecodable(
                    f"its encoding id {encoding_id} stands for a schema of format {writer.format}, but the "
                    f"table is read as {self.format_name}"
                )
            try:
                source = _Source(self.reader_of(writer), framing.find_codec(writer.codec), self._framing == "registry")
            except (InvalidSchemaError, UnsupportedOperationError) as error:
                raise framing.Undecodable(
                    f"events with encoding id {encoding_id} cannot be read: {error.message}"
                ) from None
            self._sources[encoding_id] = source
        return source


class UniformDecoder(BatchDecoder):
    """Reads all events alike. They describe themselves, so a writer's schema only matters for the codec."""

    def __init__(self, format_name: str, columns: StructType, resolve: Resolve | None, reader: PayloadReader) -> None:
        super().__init__(columns, resolve)
        self.format_name = format_name
        self._reader = reader

    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        return self._reader


def limit_expansion(decoder: object, times: int) -> None:
    """Set how many times the stored bytes a decoder may decompress; one of another distribution has its own limits."""
    if isinstance(decoder, BatchDecoder):
        decoder.expansion.largest = times


def read_each(payloads: EventBuffer, read: Callable[[bytes], Any], problems: Problems, bad: Any = None) -> list[Any]:
    """Return what `read` makes of each payload, and `bad` in place of those for which it raises Undecodable."""
    values = []
    for row, payload in enumerate(payloads.payloads()):
        try:
            values.append(read(payload))
        except framing.Undecodable as error:
            problems.add(row, str(error))
            values.append(bad)
    return values


def _read(source: _Source, payloads: EventBuffer, problems: Problems) -> list[pa.Array]:
    """Read a piece into arrays. If the reader itself fails at an event, only that event is bad."""
    try:
        return source.reader.arrays(payloads, source.padded, problems)
    except PravegaError:
        raise
    except Exception as error:
        if len(payloads) == 1:
            _log.exception("An event of %d bytes was too much for its reader.", int(payloads.lengths[0]))
            problems.add(0, f"reading it failed ({type(error).__name__}: {error})")
            return source.reader.arrays(EventBuffer.of([b""]), source.padded, Problems())
    half = len(payloads) // 2
    parts = []
    for begin, end in ((0, half), (half, len(payloads))):
        part_problems = Problems()
        parts.append(_read(source, payloads.part(begin, end), part_problems))
        for position, reason in part_problems.reasons.items():
            problems.add(begin + position, reason)
    return [pa.concat_arrays(pair) for pair in zip(*parts, strict=True)]


def _split_into_pieces(
    group: EventBuffer, source: _Source, positions: EventPositions, reasons: dict[int, str], expansion: _Expansion
) -> Iterator[tuple[int, EventBuffer]]:
    """Split the events into decompressed pieces. Yields the position of each piece's first event in the group."""
    if source.codec.compressed:
        yield from _decompress_pieces(group, source, positions, reasons, expansion)
        return
    ends = np.cumsum(group.lengths)
    begin = 0
    while begin < len(group):
        limit = (ends[begin - 1] if begin else 0) + source.reader.piece_bytes
        end = int(np.searchsorted(ends, limit, side="right"))
        end = min(max(end, begin + 1), begin + source.reader.piece_events)
        yield begin, group.part(begin, end)
        begin = end


def _decompress_pieces(
    group: EventBuffer, source: _Source, positions: EventPositions, reasons: dict[int, str], expansion: _Expansion
) -> Iterator[tuple[int, EventBuffer]]:
    payloads: list[bytes] = []
    begin = size = 0
    for position, stored in enumerate(group.payloads()):
        try:
            payload = source.codec.decompress(stored)
            size_now = len(payload)
        except framing.Undecodable as error:
            reasons[int(positions[position])] = str(error)
            payload, size_now = b"", error.decompressed
        expansion.add(len(stored), size_now, len(payload))
        payloads.append(payload)
        size += len(payload)
        if size >= PIECE_BYTES or len(payloads) >= source.reader.piece_events:
            yield begin, EventBuffer.of(payloads)
            begin, size, payloads = position + 1, 0, []
    if payloads:
        yield begin, EventBuffer.of(payloads)
