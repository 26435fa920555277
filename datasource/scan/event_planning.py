"""Plans scans of events: from a table, the columns that Spark needs and the read options to what tasks read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.retry import at_most
from pyspark_pravega.client.stream import Access, Stream, segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import marks_end, read_watermarks
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, PravegaError, SchemaNotFoundError
from pyspark_pravega.formats.core.arrow_types import strings_for_char_types
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_consumer

from ..commit_log.commit_log import CommitLog
from ..commit_log.table import Head
from ..positions.bounds import end_cut, start_cut
from ..positions.snapshot import SegmentSlice, take_snapshot, up_to
from ..positions.time_travel import end_as_of
from ..tables.hidden_columns import CHANGE_COLUMNS, METADATA_COLUMNS, POSITION_COLUMNS
from ..tables.stream_table import StreamTable, WriterSchemas
from .bad_events import FAILFAST, PERMISSIVE, BadEventRule
from .borders import begun_later
from .event_plan import EventScanPlan, SegmentVersions
from .event_times import EventTimes, SegmentTimes
from .places import Places, Span
from .planned_scan import PlannedScan
from .reader import SegmentScanReader, SlicePartition

LOG = logging.getLogger(__name__)

_LIKELY_SECONDS = 1.0
"""How long the schema registry is asked for what tasks can ask for themselves."""


def measure_scan(
    pravega: Pravega, table: StreamTable, options: o.Options, tail: Mapping[int, int] | None
) -> list[SegmentSlice]:
    """Measure as `measure_with_head` does."""
    return measure_with_head(pravega, table, options, tail)[0]


def measure_with_head(
    pravega: Pravega, table: StreamTable, options: o.Options, tail: Mapping[int, int] | None
) -> tuple[list[SegmentSlice], Head | None]:
    """Measure what lies between the cuts that the options name, now, or up to the tail of an earlier scan.

    The head row of the commit log is returned too, if the whole stream is measured now: all its versions are in it.
    Raises InvalidOptionError for cuts that do not fit, DataLossError, StreamNotFoundError, PermissionDeniedError.
    """
    refuse_consumer(options, "a batch")
    for option, nonsense in ((o.START_STREAM_CUT, "latest"), (o.END_STREAM_CUT, "earliest")):
        if options.get(option) == nonsense:
            raise InvalidOptionError(
                f"'{options.name(option)}'='{nonsense}' leaves nothing to read. Leave the option out."
            )
    start = start_cut(pravega, table.stream, options)
    if table.as_of is not None:
        end: StreamCut | None = end_as_of(pravega, table.stream, table.as_of, options)
    else:
        end = end_cut(pravega, table.stream, options)
    slices, head = _measured(pravega, table, options, start, end)
    if tail is not None:
        return up_to(slices, tail), None
    return slices, head if start is None and end is None else None


def measure_slices(
    pravega: Pravega, table: StreamTable, options: o.Options, start: StreamCut | None, end: StreamCut | None
) -> list[SegmentSlice]:
    """Measure what lies between two cuts now, whole transactions only; see `take_snapshot`."""
    return _measured(pravega, table, options, start, end)[0]


def _measured(
    pravega: Pravega, table: StreamTable, options: o.Options, start: StreamCut | None, end: StreamCut | None
) -> tuple[list[SegmentSlice], Head | None]:
    log = CommitLog(pravega, table.stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())
    head = None

    def settled(measure: Callable[[StreamCut | None], list[SegmentSlice]]) -> list[SegmentSlice]:
        nonlocal head
        slices, head = log.settled_with_head(measure)
        return slices

    slices = take_snapshot(
        pravega,
        table.stream,
        start=start,
        end=end,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        settled=settled,
    )
    return slices, head


def plan_events(
    pravega: Pravega,
    table: StreamTable,
    slices: Sequence[SegmentSlice],
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    *,
    limit: int | None,
    counted: bool,
    versions: Mapping[str, SegmentVersions] | None = None,
    query: str | None = None,
    times: EventTimes | None = None,
    schemas: Callable[[], WriterSchemas] | None = None,
    few: bool = False,
    places: Places | None = None,
    segments: Collection[int] | None = None,
) -> PlannedScan:
    """Fix how the events of these slices are read as rows. `versions`: as changes, with CHANGE_COLUMNS.

    `query` names the streaming query that reads them, if one does. `times` are those of a micro-batch; without, a scan
    that asks for times has all watermarks of the stream. `schemas` waits for `likely_schemas`, if they were asked for.
    `few` rows may be enough, though it is not known how many events have to be read for them. Only events of certain
    `places` are read, and of certain `segments`.

    `required` are the columns Spark needs, metadata columns among them, nested ones pruned. With `counted` the tasks
    tell the number of bad events, if the mode lets there be any. Raises InvalidSchemaError for columns that the table
    does not have.
    """
    stream = table.stream
    more = CHANGE_COLUMNS.names if versions is not None else ()
    schema, columns = choose_columns(table, required, rule, more)
    plan = EventScanPlan(
        table=table,
        config=pravega.config,
        schema=schema if required.fields else nullable(schema),
        columns=columns if rule.mode == FAILFAST else _strings(table.schema),
        limit=limit,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        window_bytes=options.get(o.READ_WINDOW),
        writer_schemas=WriterSchemas(pravega.config, stream) if schemas is None else schemas(),
        bad_events=rule,
        counted=counted and rule.mode != FAILFAST,
        versions=versions,
        query=query,
        few=few,
        places=places,
        times=_times(pravega, table, slices, required, times),
    )
    token = pravega.segments.token(stream, Access.READ)
    left = slices if segments is None else [piece for piece in slices if piece.segment_id in segments]
    read = [(piece, None) for piece in left] if places is None else _at_places(pravega, stream, left, places)
    endpoints = pravega.segments.locations(stream, [piece.segment_id for piece, _ in read])
    partitions = [SlicePartition(piece, endpoints[piece.segment_id], token, span) for piece, span in read]
    reader = SegmentScanReader(plan, partitions)
    planned = PlannedScan.of(reader, plan.schema, plan.output, [each.read for each in partitions])
    keyed = None if segments is None else (len(left), len(slices))
    return replace(planned, tail={piece.segment_id: piece.end for piece in slices}, keyed=keyed)


def _at_places(
    pravega: Pravega, stream: Stream, slices: Sequence[SegmentSlice], places: Places
) -> Sequence[tuple[SegmentSlice, Span | None]]:
    """Return what is to be read of slices for the events at some places, and between which offsets these lie."""
    spans = [(piece, places.span(segment_name(stream, piece.segment_id), piece)) for piece in slices]
    return begun_later(CommitLog(pravega, stream), [(piece, span) for piece, span in spans if span is not None])


def likely_schemas(pravega: Pravega, table: StreamTable, required: StructType) -> WriterSchemas:
    """Return the schemas of a scan's events, with those known that most tables have: else each task would ask."""
    schemas, stream = WriterSchemas(pravega.config, table.stream), table.stream
    if not table.framed or pravega.config.registry_uri is None or not set(required.names) & set(table.schema.names):
        return schemas
    registry, known = pravega.registry(stream.scope), pravega.known_streams
    for encoding_id in known.encodings(stream):
        try:
            with at_most(_LIKELY_SECONDS):
                schemas.know(encoding_id, registry.encoding(stream.name, encoding_id, anew=True))
        except SchemaNotFoundError:
            known.note_encoding(stream, encoding_id, there=False)
        except PravegaError as error:
            LOG.debug("Tasks are to ask for the schemas of stream %s: %s", stream, error)
            break
    return schemas


def wants_times(table: StreamTable, required: StructType) -> bool:
    """Tell whether the hidden column of event times is among the columns that are asked for."""
    return "_event_time" in required.fieldNames() and "_event_time" not in table.schema.fieldNames()


def _times(
    pravega: Pravega,
    table: StreamTable,
    slices: Sequence[SegmentSlice],
    required: StructType,
    times: EventTimes | None,
) -> dict[str, SegmentTimes] | None:
    if not wants_times(table, required):
        return None
    stream = table.stream
    if times is None:
        found = read_watermarks(pravega, stream, 0, marks_end(pravega, stream))
        times = EventTimes(mark for _, mark in found)
    return {segment_name(stream, piece.segment_id): times.of(piece) for piece in slices}


def choose_columns(
    table: StreamTable, required: StructType, rule: BadEventRule, more: Sequence[str] = ()
) -> tuple[StructType, StructType]:
    """Return what Spark gets and the data columns in it; a column of the table where only rows are counted.

    `more` are columns that the scan makes. Raises InvalidSchemaError for those that the table does not have.
    """
    required = _strings(required)
    names = set(table.schema.fieldNames())
    columns = [field for field in required.fields if field.name in names]
    unknown = [name for name in required.fieldNames() if name not in {*names, *more, *METADATA_COLUMNS}]
    if unknown:
        known = ", ".join(table.schema.fieldNames())
        raise InvalidSchemaError(f"Stream {table.stream} has no column {', '.join(unknown)}. Its columns are {known}.")
    if rule.mode == PERMISSIVE and (demanded := [field.name for field in columns if not field.nullable]):
        raise InvalidOptionError(
            f"'{o.MODE.key}'='{PERMISSIVE}' makes nulls of bad events, but the query's schema has "
            f"{', '.join(demanded)} as NOT NULL. Leave NOT NULL out."
        )
    # Of messages without fields there is no column.
    return required if required.fields else _strings(StructType(table.schema.fields[:1])), StructType(columns)


def full_schema(table: StreamTable, options: o.Options | None = None) -> StructType:
    """Return a table's columns followed by its metadata columns, for readers without hidden columns.

    Those that tell of bad events come with the mode that needs them; the others are always there.
    """
    permissive = options is not None and options.get(o.MODE) == PERMISSIVE
    names = {name.lower() for name in table.schema.fieldNames()}
    wanted = METADATA_COLUMNS if permissive else POSITION_COLUMNS
    hidden = [METADATA_COLUMNS[name][0] for name in wanted if name not in names]
    columns = nullable(table.schema) if permissive else table.schema
    return _strings(StructType([*columns.fields, *hidden]))


def _strings(schema: StructType) -> StructType:
    """Read char(n) and varchar(n) as the strings they are to Arrow; the catalog's tables pad and check them."""
    strings = strings_for_char_types(schema)
    assert isinstance(strings, StructType)
    return strings


def nullable(schema: StructType) -> StructType:
    """Return the schema with every column nullable, those inside others as they are."""
    schema = StructType.fromJson(schema.jsonValue())
    for field in schema.fields:
        field.nullable = True
    return schema
