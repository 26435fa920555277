"""Plans scans of events: turns a table, the columns that Spark needs and the read options into tasks' plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Access, make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import find_watermarks_end, read_watermarks
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.arrow_types import replace_char_types
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_consumer, refuse_streaming_options

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import HeadRow
from ..lake.iceberg import LakeTable
from ..lake.lake_columns import RAW
from ..lake.open_lake import ONLY, check_defaults, open_lake
from ..positions.bounds import find_end_as_of, find_end_bound, find_start_bound
from ..positions.points_in_time import Point
from ..positions.snapshot import SegmentSlice, cut_slices, drop_empty, measure_segments, take_snapshot
from ..tables.bad_events import FAILFAST, PERMISSIVE, BadEventRule
from ..tables.hidden_columns import CHANGE_COLUMNS, HIDDEN_COLUMNS, POSITION_COLUMNS, TIME_COLUMNS, VERSION_COLUMNS
from ..tables.open_table import OpenRead, OpenTable
from ..tables.stream_table import StreamTable
from ..tables.writer_schemas import WriterSchemas
from .borders import start_later
from .division import Division, divide
from .event_plan import EventScanPlan
from .event_times import EventTimes, SegmentTimes
from .lake_reader import LakePartition, describe_files, plan_lake, split_slices
from .places import Places, Span
from .planned_scan import EarlierScan, PlannedScan, RowSource, measure_extent
from .reader import SegmentScanReader, Sharing, SlicePartition
from .scan_request import WantedRows
from .segment_versions import SegmentVersions, find_versions_after_starts, map_published_versions

LOG = logging.getLogger(__name__)

_LIKELY_SECONDS = 1.0
"""How long planning asks the schema registry for schemas that tasks can ask for themselves."""


@dataclass(frozen=True)
class Measured:
    """The slices that a scan covers, as they were measured; the `lake` has a part of them, if there is one.

    `head` is the head row that the commit log had then, if the whole stream was measured: the slices contain all its
    versions. `newest` is the newest version that was known, where versions count. `about` says of the "start" and the
    "end" how they were found, if they are approximate. `to_tail`: they end where the stream ended. `ends` are those of
    all segments, also of those without events, if the whole stream was measured.
    """

    slices: Sequence[SegmentSlice]
    head: HeadRow | None = None
    newest: int = 0
    about: Mapping[str, str] = field(default_factory=dict)
    to_tail: bool = True
    ends: Mapping[int, int] | None = None
    lake: LakeTable | None = None


def measure_scan(opened: OpenTable, earlier: EarlierScan | None) -> Measured:
    """Measure the slices between the cuts that the options name, now, or up to the end of an earlier scan.

    Raises InvalidOptionError for cuts that do not fit, DataLossError, StreamNotFoundError, PermissionDeniedError.
    """
    pravega, table, options = opened.pravega, opened.table, opened.options
    refuse_consumer(options, "a batch")
    refuse_streaming_options(options, "a batch")
    for option, nonsense in ((o.START_STREAM_CUT, "latest"), (o.END_STREAM_CUT, "earliest")):
        if options.get(option) == nonsense:
            raise errors.InvalidOptionError(
                f"'{options.name(option)}'='{nonsense}' leaves nothing to read. Leave the option out."
            )
    start = find_start_bound(pravega, table.stream, options, table.event_time_delay)
    lake = open_lake(opened)
    if (as_of := table.asked.as_of) is not None:
        history = None if lake is None else lake.history
        end: Point | None = Point(find_end_as_of(pravega, table.stream, as_of, options, history), about=as_of.about)
    else:
        end = find_end_bound(pravega, table.stream, options)
    measured = _measure(opened, None if start is None else start.cut, None if end is None else end.cut, lake)
    about = {name: bound.about for name, bound in (("start", start), ("end", end)) if bound and bound.about is not None}
    if earlier is not None:
        slices = cut_slices(measured.slices, earlier.tail)
        return Measured(slices, about=about, to_tail=end is None, ends=earlier.tail, lake=lake)
    if start is None and end is None:
        return measured
    return Measured(measured.slices, about=about, to_tail=end is None, lake=lake)


def measure_slices(
    opened: OpenTable, start: StreamCut | None, end: StreamCut | None, lake: LakeTable | None = None
) -> Sequence[SegmentSlice]:
    """Measure the slices between two cuts now, with complete transactions only; see `take_snapshot`."""
    return _measure(opened, start, end, lake).slices


def _measure(opened: OpenTable, start: StreamCut | None, end: StreamCut | None, lake: LakeTable | None) -> Measured:
    pravega, stream, options = opened.pravega, opened.stream, opened.options
    history = None if lake is None else lake.history
    log = CommitLog(pravega, stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())
    if start is None and end is None:
        fail = history is not None and options.get(o.FAIL_ON_DATA_LOSS)
        measure = partial(measure_segments, pravega, stream, history=history, fail_on_data_loss=fail)
        pieces, head = log.measure_settled_with_head(measure)
        return Measured(drop_empty(pieces), head, ends={piece.segment_id: piece.end for piece in pieces}, lake=lake)
    slices = take_snapshot(
        pravega,
        stream,
        (start, end),
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        measure_settled=log.measure_settled,
        history=history,
    )
    return Measured(slices, lake=lake)


@dataclass(frozen=True)
class EventSelection:
    """Which of the measured events a scan reads, and how.

    `parts` are the parts of the slices to read, if not all. With `versions` the events are changes, with
    CHANGE_COLUMNS. `query` names the streaming query that reads them, if any. `times` are those of a micro-batch;
    without them, a scan that asks for times uses all watermarks of the stream. `schemas` waits for
    `look_up_likely_schemas` while it runs. With `places` or `segments`, only events there are read. With a
    `sharing`, slices may be divided where borders between events are known.
    """

    parts: Sequence[SegmentSlice] | None = None
    versions: Mapping[str, SegmentVersions] | None = None
    query: str | None = None
    times: EventTimes | None = None
    schemas: Callable[[], WriterSchemas] | None = None
    places: Places | None = None
    segments: Collection[int] | None = None
    sharing: Sharing | None = None


ALL_EVENTS = EventSelection()


def plan_events(
    read: OpenRead, measured: Measured, rows: WantedRows, selection: EventSelection = ALL_EVENTS
) -> PlannedScan:
    """Fix how measured events are read as rows.

    Raises InvalidSchemaError for columns that the table does not have.
    """
    pravega, table, stream, rule = read.pravega, read.table, read.stream, read.rule
    required, places = rows.columns, selection.places
    slices = measured.slices if selection.parts is None else selection.parts
    versions, newest = selection.versions, measured.newest
    if versions is None and has_versions(table, required):
        # Read after the end was measured, so that every version before it is known.
        published = find_versions_after_starts(CommitLog(pravega, stream), slices)
        if rows.earlier is not None and rows.earlier.newest:
            published = [version for version in published if version.number <= rows.earlier.newest]
        newest = max((version.number for version in published), default=newest)
        versions = map_published_versions(stream, slices, published)
    more = CHANGE_COLUMNS.names if versions is not None else ()
    schema, columns = choose_columns(table, required, rule, more)
    plan = EventScanPlan(
        table=table,
        config=pravega.config,
        schema=schema if required.fields else make_nullable(schema),
        columns=columns if rule.mode == FAILFAST else replace_char_types(table.schema),
        limit=rows.limit,
        fail_on_data_loss=read.options.get(o.FAIL_ON_DATA_LOSS),
        window_bytes=read.options.get(o.READ_WINDOW),
        max_expansion=read.options.get(o.MAX_EXPANSION),
        writer_schemas=(selection.schemas or partial(WriterSchemas, pravega.config, stream, table.framing))(),
        bad_events=rule,
        counted=rows.counted,
        versions=versions,
        query=selection.query,
        few=rows.few,
        places=places,
        times=_find_times(read, slices, required, selection.times),
    )
    token = pravega.tokens.token(stream, Access.READ)
    segments = selection.segments
    left = slices if segments is None else [piece for piece in slices if piece.segment_id in segments]
    sharing = selection.sharing or Sharing()
    in_lake: list[LakePartition] = []
    only_lake = read.options.get(o.LAKE) == ONLY
    if only_lake and selection.query is not None:
        raise errors.UnsupportedOperationError(
            f"'{o.LAKE.key}'='{ONLY}' is not possible in a streaming query, which goes on from the lake to stream "
            f"{stream}. Leave it out."
        )
    if measured.lake is not None:
        in_order = selection.sharing is None and selection.query is not None
        in_lake, left = _split_at_lake(measured.lake, table, left, rows, in_order=in_order)
        if in_lake and rule.dead_letter is not None and selection.query is not None:
            raise errors.UnsupportedOperationError(
                f"A streaming query with '{o.DEAD_LETTER.key}' cannot read events of stream {stream} that are in its "
                "lake: letters of a repeated micro-batch could come twice. Leave the option out, or read what the "
                "stream has alone with 'lake'='ignore'."
            )
        left = [] if only_lake else left
    is_divided = _is_divided(read, measured, rows) and places is None
    size = sharing.find_part_size(left) if is_divided else None
    division = Division(left) if size is None else divide(pravega, stream, left, size)
    parts: Sequence[tuple[SegmentSlice, Span | None]] = [(piece, None) for piece in division.parts]
    if places is not None:
        spans = [(piece, places.span(make_segment_name(stream, piece.segment_id), piece)) for piece in left]
        parts = start_later(CommitLog(pravega, stream), [(piece, span) for piece, span in spans if span is not None])
    endpoints = pravega.segments.locations(stream, [piece.segment_id for piece, _ in parts])
    # A scan of the whole stream notes borders: in all of a segment, or else behind those that are known.
    heads = {piece.segment_id: piece.start for piece in left} if measured.head is not None and is_divided else {}
    tail = measure_extent(measured.slices)["tail"]
    partitions: list[SlicePartition | LakePartition] = [*in_lake]
    for piece, span in parts:
        segment = piece.segment_id
        is_noted = segment in division.noted
        head = None if is_noted and piece.end != tail[segment] else heads.get(segment)
        partitions.append(SlicePartition(piece, endpoints[segment], token, span, is_noted, head))
    if in_lake:
        partitions.sort(key=lambda one: (one.read.segment_id, one.read.start))
    extent = measure_extent(list(dict.fromkeys(partition.read for partition in partitions)))
    extent["segments"] = len(left if places is None else parts) + len({one.read.segment_id for one in in_lake})
    extent["tail"] = tail
    about = {**measured.about, **({"parts": division.about} if division.about else {})}
    about |= describe_files(measured.lake, in_lake)
    every_event_is_a_row = table.event_type is None and rule.mode == FAILFAST and places is None
    return PlannedScan(
        RowSource(SegmentScanReader(plan, partitions, sharing), plan.schema, plan.output),
        **extent,
        newest=newest,
        about=about,
        keyed=None if segments is None else (len(left), len(slices)),
        head=measured.head if every_event_is_a_row and not only_lake else None,
    )


def _split_at_lake(
    lake: LakeTable, table: StreamTable, slices: Sequence[SegmentSlice], rows: WantedRows, *, in_order: bool
) -> tuple[list[LakePartition], list[SegmentSlice]]:
    """Return partitions for what a lake has of slices, and what is left of these for the segment stores."""
    if RAW in rows.columns.names and RAW not in table.schema.names and not is_change_format(table.format):
        raise errors.UnsupportedOperationError(
            f"A lake has the bytes of events only if they could not be decoded, so that column {RAW} cannot be read of "
            f"stream {table.stream} with its lake. Leave it out, as `readStream.table` does, or read what the stream "
            "has alone with 'lake'='ignore'."
        )
    check_defaults(table, StructType([column for column in table.schema if column.name in rows.columns.names]), lake)
    tiered, left = split_slices(lake, slices)
    return plan_lake(lake, table, tiered, rows.conditions, in_order=in_order), left


def _is_divided(read: OpenRead, measured: Measured, rows: WantedRows) -> bool:
    """Return whether tasks may begin within segments, so that a wrong border fails the scan.

    In other modes, what follows bytes that are no event is one bad event: the same for any number of tasks. With a
    limit, tasks may end before they reach a border, and they may skip one if they allow data loss. If the commit log
    has the number of rows, and nothing else is asked for, no task runs.
    """
    if read.rule.mode != FAILFAST or rows.limit is not None or rows.few or not read.options.get(o.FAIL_ON_DATA_LOSS):
        return False
    content = None if measured.head is None else measured.head.content
    total = sum(piece.end - piece.start for piece in measured.slices)
    return bool(rows.columns.fields) or content is None or content.bytes != total


def look_up_likely_schemas(opened: OpenTable, required: StructType) -> WriterSchemas:
    """Return the schemas of a scan's events, with the likely ones looked up once instead of by each task."""
    pravega, table = opened.pravega, opened.table
    schemas, stream = WriterSchemas(pravega.config, table.stream, table.framing), table.stream
    decoded = set(required.names) & set(table.schema.names)
    if table.framing != "registry" or pravega.config.registry_uri is None or not decoded:
        return schemas
    registry, streams = pravega.registry(stream.scope), pravega.known_streams
    for encoding_id in streams.find(stream).encodings:
        try:
            with limit_retries(_LIKELY_SECONDS):
                schemas.know(encoding_id, registry.encoding(stream.name, encoding_id))
        except errors.SchemaNotFoundError:
            streams.note_encoding(stream, encoding_id, exists=False)
        except errors.PravegaError as error:
            LOG.debug("Tasks will ask for the schemas of stream %s: %s", stream, error)
            break
    return schemas


def choose_sharing(read: OpenRead, rows: WantedRows) -> Sharing:
    """Return how the slices of a batch scan share tasks."""
    least, most = read.options.get(o.MIN_PARTITIONS), read.options.get(o.MAX_BYTES_PER_TASK)
    return Sharing(rows.cores, least, most, rows.any_order)


def has_times(table: StreamTable, required: StructType) -> bool:
    """Return whether a hidden column of event times is among the required columns."""
    return any(name in required.fieldNames() and name not in table.schema.fieldNames() for name in TIME_COLUMNS)


def has_versions(table: StreamTable, required: StructType) -> bool:
    """Return whether a hidden column of versions is among the required columns."""
    return bool(VERSION_COLUMNS.keys() & set(required.names) - set(table.schema.names))


def _find_times(
    opened: OpenTable, slices: Sequence[SegmentSlice], required: StructType, times: EventTimes | None
) -> dict[str, SegmentTimes] | None:
    if not has_times(opened.table, required):
        return None
    pravega, stream = opened.pravega, opened.stream
    if times is None:
        marks = read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))
        times = EventTimes(mark for _, mark in marks)
    return {make_segment_name(stream, piece.segment_id): times.of(piece) for piece in slices}


def choose_columns(
    table: StreamTable, required: StructType, rule: BadEventRule, more: Sequence[str] = ()
) -> tuple[StructType, StructType]:
    """Return the columns that Spark gets, and the data columns among them. To count rows, that is one of the table's.

    `more` are columns that the scan makes. Raises InvalidSchemaError for columns that the table does not have.
    """
    required = replace_char_types(required)
    names = set(table.schema.fieldNames())
    columns = [field for field in required.fields if field.name in names]
    unknown = [name for name in required.fieldNames() if name not in {*names, *more, *HIDDEN_COLUMNS}]
    if unknown:
        column_names = ", ".join(table.schema.fieldNames())
        raise errors.InvalidSchemaError(
            f"Stream {table.stream} has no column {', '.join(unknown)}. Its columns are {column_names}."
        )
    if rule.mode == PERMISSIVE and (demanded := [field.name for field in columns if not field.nullable]):
        raise errors.InvalidOptionError(
            f"'{o.MODE.key}'='{PERMISSIVE}' makes bad events rows of nulls, but the query's schema declares "
            f"{', '.join(demanded)} NOT NULL. Leave NOT NULL out."
        )
    # Messages without fields have no column.
    return required if required.fields else replace_char_types(StructType(table.schema.fields[:1])), StructType(columns)


def make_full_schema(table: StreamTable, options: o.Options | None = None) -> StructType:
    """Return a table's columns followed by its hidden columns, for readers that cannot hide them.

    Those about bad events come only with the mode that needs them.
    """
    permissive = options is not None and options.get(o.MODE) == PERMISSIVE
    names = {name.lower() for name in table.schema.fieldNames()}
    hidden_columns = HIDDEN_COLUMNS if permissive else POSITION_COLUMNS
    hidden = [HIDDEN_COLUMNS[name][0] for name in hidden_columns if name not in names]
    columns = make_nullable(table.schema) if permissive else table.schema
    return replace_char_types(StructType([*columns.fields, *hidden]))
