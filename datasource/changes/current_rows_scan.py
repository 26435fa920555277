"""A scan of the current rows of a change table: one partition per group of segments that share keys."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader, Window
from pyspark_pravega.client.stream import segment_name
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import MARKS, changelog_schema, find_change_format, key_columns
from pyspark_pravega.formats.core.batches import Overfull
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Decoder
from pyspark_pravega.formats.core.framing import encoding_ids

from ..scan.bad_events import FAILFAST, BadEventRule
from ..scan.dead_letters import DeadLetters, letter
from ..scan.reader import BATCH_EVENTS, PlannedReader, chunks
from ..scan.snapshot import SegmentSlice
from ..tables.stream_table import StreamTable, WriterSchemas
from .rows.current import CurrentRows
from .rows.entries import EntryReader, Names, Places, Truncates, numbers_of, value_name
from .rows.history import Within
from .rows.keyless.rows import RowBag

_LOG = logging.getLogger(__name__)


@dataclass
class GroupPartition(InputPartition):
    """The slices of segments that share keys, predecessors first, where they are and a token to read them."""

    pieces: tuple[SegmentSlice, ...]
    endpoints: dict[int, Endpoint]
    token: str = field(repr=False)


@dataclass(frozen=True)
class CurrentRowsPlan:
    """All that tasks share. `schema` is what Spark asked for, `columns` the data columns among it.

    `truncates` are those of all segments, as far as they were looked for; `memory` is the limit of one task in bytes.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    columns: StructType
    limit: int | None
    fail_on_data_loss: bool
    window_bytes: int
    writer_schemas: WriterSchemas
    memory: int
    truncates: Truncates
    bad_events: BadEventRule


class CurrentRowsReader(PlannedReader[CurrentRowsPlan, GroupPartition]):
    """One partition per group, which folds the changes of its segments."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        """Read the current rows of the group's keys."""
        return _read_group(self._plan, partition)


def _read_group(plan: CurrentRowsPlan, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
    key = key_columns(plan.table.settings)
    if not key:
        yield from _output(plan, counted_rows(plan, partition, plan.columns.names))
        return
    # The same events are bad whatever is asked for, where that does not end the query.
    read = plan.columns if plan.bad_events.mode == FAILFAST else plan.table.schema
    rest = [name for name in read.names if name not in key]
    with CurrentRows(key, rest, plan.memory) as rows:
        rows.truncates.update(plan.truncates)
        for changes, places in group_changes(plan, partition, [*key, *rest], read):
            rows.feed(changes, places)
        yield from _output(plan, rows.rows())


def counted_rows(
    plan: CurrentRowsPlan, partition: GroupPartition, wanted: Sequence[str], within: Within | None = None
) -> Iterator[pa.Table]:
    """Fold the changes of a table without a primary key; see `RowBag`."""
    columns, lenient = plan.table.schema, plan.bad_events.mode != FAILFAST
    with RowBag(columns.names, wanted, plan.memory, within, lenient=lenient) as rows:
        for changes, places in group_changes(plan, partition, columns.names, columns):
            rows.feed(changes, places)
        yield from rows.results()


def group_changes(
    plan: CurrentRowsPlan, partition: GroupPartition, columns: Sequence[str], cut_down: StructType
) -> Iterator[tuple[pa.RecordBatch, Places]]:
    """Read the changes of a group in order, with these columns in the rows' images; see `change_decoder`."""
    table, target = plan.table, plan.bad_events.dead_letter
    with ExitStack() as opened:
        pravega = opened.enter_context(connect(plan.config))
        pravega.segments.seed_token(table.stream, partition.token)
        decoder = change_decoder(table, plan.writer_schemas, columns, cut_down)
        letters = None
        for piece in partition.pieces:
            pravega.segments.seed_location(table.stream, piece.segment_id, partition.endpoints[piece.segment_id])
            if target is not None:
                letters = opened.enter_context(DeadLetters(pravega, target, table.stream, piece.segment_id))
            for window in _windows(pravega, plan, piece):
                for events, places in _batches(window, piece.segment_id):
                    yield from _decoded(plan, decoder, events, places, letters)


def change_decoder(
    table: StreamTable, writer_schemas: WriterSchemas, columns: Sequence[str], cut_down: StructType
) -> Decoder:
    """What decodes as much of the changelog as the fold needs; `cut_down` has nested columns without unwanted parts.

    Without a primary key, `before` is whole, and there are MARKS.
    """
    full = changelog_schema(table.schema)
    wanted = {field.name: field for field in cut_down.fields}
    image = StructType([StructField(name, wanted.get(name, table.schema[name]).dataType, True) for name in columns])
    key = key_columns(table.settings)
    schema = StructType(
        [
            full["op"],
            StructField("before", StructType([each for each in image if each.name in key or not key])),
            StructField("after", image),
            *([] if key else [MARKS]),
            full["ts"],
            full["unavailable"],
            full["position"],
        ]
    )
    resolve = writer_schemas if table.framed else None
    return find_change_format(table.format).decoder(schema, table.schema_text, resolve, table.settings)


def find_truncates(pravega: Pravega, plan: CurrentRowsPlan, pieces: Sequence[SegmentSlice], found: Truncates) -> None:
    """Look through segments for truncations, which may lie in another segment than the rows they clear."""
    table = plan.table
    format = find_change_format(table.format)
    key = key_columns(table.settings)
    decoder = change_decoder(table, plan.writer_schemas, key, StructType([]))
    reader = EntryReader(key, [], Names())
    for piece in pieces:
        for window in _windows(pravega, plan, piece):
            events, places = _all(window, piece.segment_id)
            suspects = format.truncate_candidates(events)
            if len(suspects):
                places = Places(places.segment, places.offsets[suspects], places.lengths[suspects])
                for changes, where in _decoded(plan, decoder, events.take(suspects), places):
                    reader.read(changes, where, found)


def _windows(pravega: Pravega, plan: CurrentRowsPlan, piece: SegmentSlice) -> SegmentRangeReader:
    return SegmentRangeReader(
        pravega.segments,
        plan.table.stream,
        piece.segment_id,
        piece.start,
        piece.end,
        window_bytes=plan.window_bytes,
        fail_on_data_loss=plan.fail_on_data_loss,
    )


def _all(window: Window, segment: int) -> tuple[EventBuffer, Places]:
    offsets = window.base + window.starts - HEADER_BYTES
    places = Places(segment, offsets, window.lengths + HEADER_BYTES)
    return EventBuffer(window.data, window.starts, window.lengths), places


def _batches(window: Window, segment: int) -> Iterator[tuple[EventBuffer, Places]]:
    events, places = _all(window, segment)
    for first, last in chunks(events.lengths):
        yield events.part(first, last), Places(segment, places.offsets[first:last], places.lengths[first:last])


def _decoded(
    plan: CurrentRowsPlan, decoder: Decoder, events: EventBuffer, places: Places, letters: DeadLetters | None = None
) -> Iterator[tuple[pa.RecordBatch, Places]]:
    """The changes that can be decoded, and their places. Raises MalformedEventError where the others end the query."""
    try:
        changes, bad = decoder.decode_valid(events)
    except Overfull:
        middle = len(events) // 2
        for begin, end in ((0, middle), (middle, len(events))):
            part = Places(places.segment, places.offsets[begin:end], places.lengths[begin:end])
            yield from _decoded(plan, decoder, events.part(begin, end), part, letters)
        return
    if not bad:
        yield changes, places
        return
    segment = segment_name(plan.table.stream, places.segment)
    if plan.bad_events.mode == FAILFAST:
        raise MalformedEventError(
            f"The event at offset {places.offsets[bad[0].index]} of segment {segment} cannot be decoded: "
            f"{bad[0].reason}. Its bytes can be read with spark.read.format('pravega').option('format', 'raw')."
        )
    if letters is not None:
        ids = encoding_ids(events)[0] if plan.table.framed else np.full(len(events), -1)
        letters.write(
            [
                letter(segment, int(places.offsets[at]), each, bytes(events.payload(at)), int(ids[at]))
                for each in bad
                for at in [each.index]
            ]
        )
    _LOG.warning("%d events of segment %s cannot be decoded and are left out.", len(bad), segment)
    gone = [each.index for each in bad]
    yield changes, Places(places.segment, np.delete(places.offsets, gone), np.delete(places.lengths, gone))


def _output(plan: CurrentRowsPlan, rows: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    schema: pa.Schema = to_arrow_schema(plan.schema, timezone="UTC")
    left = plan.limit
    for entries in rows:
        _check_keys(plan, entries)
        for begin in range(0, len(entries), BATCH_EVENTS):
            part = entries.slice(begin, BATCH_EVENTS)
            if left is not None:
                part = part.slice(0, left)
                left -= len(part)
            arrays = [_column(plan, part, wanted) for wanted in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if left == 0:
                return


def _check_keys(plan: CurrentRowsPlan, entries: pa.Table) -> None:
    for name in key_columns(plan.table.settings):
        column = entries.column(value_name(name))
        if column.null_count:
            place = pc.index(column.is_null(), True).as_py()
            segment = segment_name(plan.table.stream, int(numbers_of(entries, "segment")[place]))
            raise MalformedEventError(
                f"The event at offset {numbers_of(entries, 'offset')[place]} of segment {segment} has no value in "
                f"column '{name}', which is part of the primary key. Read the table's changelog."
            )


def _column(plan: CurrentRowsPlan, entries: pa.Table, field: pa.Field) -> pa.Array:
    if field.name in plan.columns.names:
        array = entries.column(value_name(field.name)).combine_chunks()
        return array if array.type == field.type else array.cast(field.type)
    if field.name == "_offset":
        return pa.array(numbers_of(entries, "offset"), pa.int64())
    if field.name in ("_segment", "_event_pointer"):
        ids = pa.array(numbers_of(entries, "segment")).dictionary_encode()
        names = pa.array([segment_name(plan.table.stream, each) for each in ids.dictionary.to_pylist()], pa.string())
        segments = names.take(ids.indices)
        if field.name == "_segment":
            return segments
        offset, length = (pa.array(numbers_of(entries, name)).cast(pa.string()) for name in ("offset", "length"))
        return pc.binary_join_element_wise(segments, ":", offset, "-", length, "")
    return pa.nulls(len(entries), field.type)
