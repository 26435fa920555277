"""Reads the changes of a group of segments that share keys, in order, and makes batches of what they result in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import CharType, StringType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.errors import MalformedEventError, UnsupportedOperationError, format_count
from pyspark_pravega.formats.changes.feed import MARKS, changelog_schema, find_change_format, list_key_columns
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.batches import Overfull, limit_expansion
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Decoder
from pyspark_pravega.formats.core.framing import read_encoding_ids
from pyspark_pravega.sql import options as o

from ..lake.lake_columns import ERROR, OFFSET, RAW
from ..positions.snapshot import SegmentSlice
from ..scan.conditions import Condition
from ..scan.counts import Counts, ReadingCounts, make_null_counts
from ..scan.dead_letter_stream import DeadLetters, make_letter
from ..scan.event_plan import EventScanPlan
from ..scan.lake_reader import LakePartition, errors_of_files, read_in_order
from ..scan.reader import BATCH_EVENTS, cut_chunks, make_range_reader
from ..tables import hidden_columns
from ..tables.bad_events import FAILFAST
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection
from .rows.clearing import TABLE_OF_MARK, Clearings
from .rows.entries import EntryReader, EventLocations, name_value
from .rows.fold import LeftOut
from .rows.keyless.rows import KeylessRows
from .rows.log_versions import LogVersions
from .rows.names import UNKNOWN, Names, OlderPositions, read_numbers
from .rows.row_history import Within

_LOG = logging.getLogger(__name__)
_BATCH_BYTES = 16 << 20
"""Most bytes of events that are decoded together: envelopes are long, and little of them stays."""
_KINDS = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
"""Spark's names of INSERT, DELETE, BEFORE, AFTER."""
_SNAPSHOT_MARKS = StructField(
    MARKS.name, StructType([StructField(name, StringType()) for name in ("snapshot", *TABLE_OF_MARK)])
)


@dataclass
class GroupPartition(InputPartition):
    """The slices of segments that share keys, predecessors first, their endpoints, and a token to read them."""

    pieces: tuple[SegmentSlice, ...]
    endpoints: dict[int, Endpoint]
    token: str = field(repr=False)


@dataclass(frozen=True)
class GroupPlan(EventScanPlan):
    """The plan of all tasks that fold changes.

    `memory` is the limit of one task in bytes; `clearings` are those of all segments, if they were searched for. `log`
    has the versions of changes without a position, if versions are asked for. Tasks that look keys up need only those
    that fulfil `key_conditions`. `in_lake` is what a lake has of the slices, by segment.
    """

    memory: int = 0
    clearings: Clearings = field(default_factory=Clearings)
    log: LogVersions | None = None
    key_conditions: tuple[Condition, ...] = ()
    in_lake: Mapping[int, LakePartition] = field(default_factory=dict)

    @property
    def ages(self) -> OlderPositions:
        """Return the meaning of older positions in the table."""
        return OlderPositions(self.table.settings.get(o.DEBEZIUM_OLDER_POSITIONS.key, OlderPositions.BY_TIME).lower())

    def list_count_batches(self, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with a task's counts, after its rows, if they are wanted."""
        if self.counted:
            yield from counts.batches(arrow_schema(self.output))


def fold_keyless_rows(
    plan: GroupPlan, partition: GroupPartition, names: Sequence[str], counts: Counts, within: Within | None = None
) -> Iterator[pa.Table]:
    """Fold the changes of a table without a primary key; see `KeylessRows`."""
    columns, lenient = plan.table.schema, plan.bad_events.mode != FAILFAST
    with KeylessRows(
        columns.names, names, plan.memory, within, lenient=lenient, names=Names(plan.ages, plan.log)
    ) as rows:
        for changes, locations in group_changes(plan, partition, columns, counts):
            rows.feed(changes, locations)
        yield from rows.results()
        report_left_out(plan, rows.left_out, counts)


def make_batches(plan: GroupPlan, results: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows, or of a history, as many as the plan allows."""
    schema: pa.Schema = arrow_schema(plan.output)
    left = plan.limit
    for table in results:
        _check_keys(plan, table)
        for begin in range(0, len(table), BATCH_EVENTS):
            part = table.slice(begin, BATCH_EVENTS)
            if left is not None:
                part = part.slice(0, left)
                left -= len(part)
            arrays = [_make_column(plan, part, schema.field(number)) for number in range(len(plan.schema))]
            if hidden_columns.FORMER_ROW in plan.schema.names:
                arrays = [_pad(plan, name, array) for name, array in zip(plan.schema.names, arrays, strict=True)]
            if plan.counted:
                arrays.append(make_null_counts(len(part)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if left == 0:
                return


def _pad(plan: GroupPlan, name: str, array: pa.Array) -> pa.Array:
    """Return the texts of a CHAR column as the conditions of an UPDATE find them: there Spark does not pad them."""
    data_type = plan.table.schema[name].dataType if name in plan.table.schema.names else None
    return pc.utf8_rpad(array, data_type.length, " ") if isinstance(data_type, CharType) else array


def _check_keys(plan: GroupPlan, table: pa.Table) -> None:
    for name in list_key_columns(plan.table.settings):
        column = table.column(name_value(name))
        if column.null_count:
            event = f"A change of stream {plan.table.stream}"
            if "offset" in table.column_names:  # a history lacks it
                row = pc.index(column.is_null(), True).as_py()
                segment = make_segment_name(plan.table.stream, int(read_numbers(table, "segment")[row]))
                event = f"The event at offset {read_numbers(table, 'offset')[row]} of segment {segment}"
            raise MalformedEventError(
                f"{event} has no value in column '{name}', which is part of the primary key. Read the table's "
                "changelog."
            )


def _make_column(plan: GroupPlan, table: pa.Table, field: pa.Field) -> pa.Array:
    match field.name:
        case name if name in plan.columns.names or name_value(name) in table.column_names:
            array = table.column(name_value(name)).combine_chunks()
            return array if array.type == field.type else array.cast(field.type)
        case hidden_columns.FORMER_ROW:
            _check_origins(plan, table)
            columns = [_make_column(plan, table, member) for member in field.type]
            return pa.StructArray.from_arrays(columns, fields=list(field.type))
        case "_change_type":
            return pc.take(_KINDS, table.column("change").combine_chunks())
        case "_commit_version":
            return table.column("version").combine_chunks()
        case "_commit_timestamp":
            times = read_numbers(table, "timestamp")
            return pa.array(times, mask=times == UNKNOWN).cast(pa.timestamp("us", "UTC"))
        case "_offset":
            return pa.array(read_numbers(table, "offset"), pa.int64())
        case "_segment":
            return _name_segments(plan, table)
        case "_event_pointer":
            offset, length = (pa.array(read_numbers(table, name)).cast(pa.string()) for name in ("offset", "length"))
            return pc.binary_join_element_wise(_name_segments(plan, table), ":", offset, "-", length, "")
    return pa.nulls(len(table), field.type)


def _check_origins(plan: GroupPlan, table: pa.Table) -> None:
    """Raise UnsupportedOperationError for rows that a statement must not change: a connector may deliver them again."""
    has_origin = read_numbers(table, "origin") >= 0
    if has_origin.any():
        segment, offset = (int(read_numbers(table, name)[has_origin][0]) for name in ("segment", "offset"))
        event = f"at offset {offset} of segment {make_segment_name(plan.table.stream, segment)}"
        raise UnsupportedOperationError(
            f"Stream {plan.table.stream} has changes that a connector has read from a database's log ({event}). When "
            "it starts again, it may deliver some of them again, which would undo an UPDATE, DELETE or MERGE. Change "
            "the rows in the database."
        )


def _name_segments(plan: GroupPlan, table: pa.Table) -> pa.Array:
    ids = pa.array(read_numbers(table, "segment")).dictionary_encode()
    names = [make_segment_name(plan.table.stream, segment_id) for segment_id in ids.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(ids.indices)


def report_left_out(plan: GroupPlan, left_out: LeftOut, counts: Counts) -> None:
    """Count and log the changes of a group that a fold has left out, with the place of the first one."""
    counts.left_out += left_out.count
    if left_out.first is not None:
        segment, offset = left_out.first
        _LOG.warning(
            "Stream %s: %d changes are left out, because newer ones of their rows came before them. The first one is "
            "at offset %d of segment %s.",
            plan.table.stream,
            left_out.count,
            offset,
            make_segment_name(plan.table.stream, segment),
        )


def group_changes(
    plan: GroupPlan, partition: GroupPartition, columns: StructType, counts: Counts
) -> Iterator[tuple[pa.RecordBatch, EventLocations]]:
    """Yield the changes of a group in order, with these columns in the rows' images; see `make_change_decoder`.

    Adds bad events, and what was read, to the `counts`.
    """
    table, rule = plan.table, plan.bad_events
    with ExitStack() as opened:
        pravega = opened.enter_context(borrow_connection(plan.config))
        pravega.segments.seed(table.stream, partition.token, partition.endpoints)
        decoder = make_change_decoder(plan, columns)
        letters = None
        for piece in partition.pieces:
            if rule.dead_letter is not None:
                letters = DeadLetters(pravega, rule, table.stream, piece.segment_id)
                opened.callback(letters.close)
            for events, locations in _read_events(plan, pravega, piece, counts):
                for first, last in cut_chunks(events.lengths, size=_BATCH_BYTES):
                    part = locations.take(slice(first, last))
                    yield from _decode(plan, decoder, events.part(first, last), part, counts, letters)


def make_change_decoder(plan: GroupPlan, columns: StructType) -> Decoder:
    """Return the decoder of the part of the changelog that a fold needs: the key's columns, and these.

    Nested columns may lack unwanted parts. Without a primary key, `before` is whole, and there are MARKS; with a key,
    only the marks that complete snapshots, if these matter.
    """
    table = plan.table
    full = changelog_schema(table.schema)
    key = list_key_columns(table.settings)
    fields = {field.name: field for field in [*(table.schema[name] for name in key), *columns.fields]}
    image = StructType([StructField(name, field.dataType, True) for name, field in fields.items()])
    schema = StructType(
        [
            full["op"],
            StructField("before", StructType([field for field in image if field.name in key or not key])),
            StructField("after", image),
            *([] if key else [MARKS]),
            *([_SNAPSHOT_MARKS] if key and has_whole_snapshots(table) else []),
            full["ts"],
            full["unavailable"],
            full["position"],
        ]
    )
    resolve = plan.writer_schemas if table.framed else None
    decoder = table.make_decoder(schema, resolve)
    limit_expansion(decoder, plan.max_expansion)
    return decoder


def has_whole_snapshots(table: StreamTable) -> bool:
    """Return whether a complete snapshot removes the rows that it lacks. Only Debezium marks begin and end."""
    name = o.DEBEZIUM_SNAPSHOTS
    is_known = name.is_known_to(table.format, changes=True)
    return is_known and table.settings.get(name.key, name.default).lower() == "whole"


def find_clearings(pravega: Pravega, plan: GroupPlan, pieces: Sequence[SegmentSlice], clearings: Clearings) -> None:
    """Search segments for truncations and marks of snapshots, which may clear rows of other segments."""
    table = plan.table
    format = find_change_format(table.format)
    key = list_key_columns(table.settings)
    decoder = make_change_decoder(plan, StructType([]))
    reader = EntryReader(key, [], Names())
    for piece in pieces:
        for events, locations in _read_events(plan, pravega, piece, Counts()):
            suspects = format.truncate_candidates(events)
            if len(suspects):
                for changes, where in _decode(plan, decoder, events.take(suspects), locations.take(suspects), Counts()):
                    reader.read(changes, where, clearings)


def _read_events(
    plan: GroupPlan, pravega: Pravega, piece: SegmentSlice, counts: Counts
) -> Iterator[tuple[EventBuffer, EventLocations]]:
    """Yield the events of a slice in order: those that the lake has, and then those of the segment."""
    tiered = plan.in_lake.get(piece.segment_id)
    if tiered is not None and piece.start < tiered.read.end:
        border = min(tiered.read.end, piece.end)
        yield from _read_files(plan, replace(tiered, read=replace(piece, end=border)), counts)
        piece = replace(piece, start=border)
    if piece.start == piece.end:
        return
    reader = make_range_reader(plan, pravega, piece)
    reading = ReadingCounts(reader)
    for window in reader:
        counts.add(reading.count(window))
        offsets = window.base + window.starts - HEADER_BYTES
        locations = EventLocations(piece.segment_id, offsets, window.lengths + HEADER_BYTES)
        yield EventBuffer(window.data, window.starts, window.lengths), locations


def _read_files(plan: GroupPlan, tiered: LakePartition, counts: Counts) -> Iterator[tuple[EventBuffer, EventLocations]]:
    segment = make_segment_name(plan.table.stream, tiered.read.segment_id)
    counts.add(Counts(slices=1))
    with errors_of_files(plan.table.stream):
        for rows in read_in_order(tiered, segment, [OFFSET, ERROR, RAW]):
            events, offsets = EventBuffer.of_arrow(rows.column(RAW)), rows.column(OFFSET).to_numpy()
            is_bad = rows.column(ERROR).is_valid().to_numpy(zero_copy_only=False)
            for lost in np.flatnonzero(is_bad & (events.lengths == 0))[:1]:
                raise MalformedEventError(
                    f"Segment {segment} cannot be read from offset {offsets[lost]} on, as its lake says: "
                    f"{rows.column(ERROR)[lost]}. The changes there are lost. Read the table's changelog."
                )
            lengths = events.lengths + HEADER_BYTES
            counts.add(Counts(bytes=int(lengths.sum())))
            yield events, EventLocations(tiered.read.segment_id, offsets, lengths)


def _decode(
    plan: GroupPlan,
    decoder: Decoder,
    events: EventBuffer,
    locations: EventLocations,
    counts: Counts,
    letters: DeadLetters | None = None,
) -> Iterator[tuple[pa.RecordBatch, EventLocations]]:
    """Yield the changes that can be decoded. Raises MalformedEventError if bad events end the query."""
    try:
        changes, bad = decoder.decode_valid(events)
    except Overfull:
        middle = len(events) // 2
        for begin, end in ((0, middle), (middle, len(events))):
            part = locations.take(slice(begin, end))
            yield from _decode(plan, decoder, events.part(begin, end), part, counts, letters)
        return
    if not bad:
        yield changes, locations
        return
    segment = make_segment_name(plan.table.stream, locations.segment)
    if plan.bad_events.mode == FAILFAST:
        raise MalformedEventError(
            f"The event at offset {locations.offsets[bad[0].index]} of segment {segment} cannot be decoded: "
            f"{bad[0].reason}. Its bytes can be read with spark.read.format('pravega').option('format', 'raw')."
        )
    counts.bad_events += len(bad)
    if letters is not None:
        ids = read_encoding_ids(events, plan.table.framing)[0] if plan.table.framed else np.full(len(events), -1)
        letters.write(
            [
                make_letter(segment, int(locations.offsets[at]), bad_event, bytes(events.payload(at)), int(ids[at]))
                for bad_event in bad
                for at in [bad_event.index]
            ]
        )
    _LOG.warning("Segment %s: left out %s.", segment, format_count(len(bad), "bad event"))
    yield changes, locations.without([bad_event.index for bad_event in bad])
