"""From a table, the columns Spark needs and the read options to a scan: what both front doors share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Access
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import strings_for_char_types
from pyspark_pravega.sql import options as o

from ..changes.current_rows_planning import plan_current_rows, prepared_changes
from ..commit_log import CommitLog
from ..insert.commit import WriteSettings
from ..tables.stream_table import StreamTable, WriterSchemas
from .bad_events import FAILFAST, PERMISSIVE, BadEventRule, bad_event_rule
from .dead_letters import check_target
from .reader import SegmentScanReader, SlicePartition
from .snapshot import SegmentSlice, take_snapshot, up_to
from .task_plan import CHANGE_COLUMNS, METADATA_COLUMNS, POSITION_COLUMNS, ScanPlan, SegmentVersions

_OPEN_ENDS = ("earliest", "latest", "unbounded")


@dataclass(frozen=True)
class PlannedScan:
    """A planned scan: its reader, the schema of its rows, how many bytes of how many segments, and where they end.

    `output` is what tasks make: the rows, with BAD_EVENTS_COLUMN behind them if bad events are counted.
    """

    reader: DataSourceReader
    schema: StructType
    output: StructType
    bytes: int
    segments: int
    tail: Mapping[int, int]
    newest: int = 0
    """The newest version that was known, where versions count."""
    homes: Sequence[int] = ()
    """For each partition, if given, a number: those of the same are best read by the same executor."""


def plan_scan(
    pravega: Pravega,
    table: StreamTable,
    required: StructType,
    options: o.Options,
    *,
    limit: int | None = None,
    count_bad_events: bool = False,
    tail: Mapping[int, int] | None = None,
) -> PlannedScan:
    """Fix what the scan reads, now, or up to the tail of an earlier scan with the same start.

    `required` are the columns Spark needs, metadata columns among them, nested ones pruned. `options` have the
    table's own (`StreamTable.reading`) in them. With `count_bad_events` the tasks tell the number of bad events, if
    the mode lets there be any. Raises InvalidOptionError for stream cuts or a dead-letter stream that do not fit,
    InvalidSchemaError for columns that the table does not have, DataLossError, StreamNotFoundError,
    PermissionDeniedError.
    """
    table, rule = prepared(pravega, table, options)
    start, end = _cut(options, o.START_STREAM_CUT, "latest"), _cut(options, o.END_STREAM_CUT, "earliest")
    slices = measured(pravega, table, options, start, end)
    if tail is not None:
        slices = up_to(slices, tail)
    if table.of_changes:
        schema, columns = chosen_columns(table, required, rule)
        output = schema if required.fields else nullable(schema)
        rows = plan_current_rows(pravega, table, slices, output, columns, options, rule, limit=limit)
        return planned(rows, output, output, slices)
    return plan_events(pravega, table, slices, required, options, rule, limit=limit, counted=count_bad_events)


def prepared(pravega: Pravega, table: StreamTable, options: o.Options) -> tuple[StreamTable, BadEventRule]:
    """Return a table with the settings of this read, and what becomes of its bad events.

    Raises InvalidOptionError for options that do not fit the table, and for a dead-letter stream that is no target.
    """
    rule = _rule_for_rows(table, options) if table.of_changes else bad_event_rule(options, table.stream)
    if rule.dead_letter is not None:
        check_target(pravega, rule.dead_letter)
    return (prepared_changes(table, options) if table.of_changes or table.changelog else table), rule


def measured(
    pravega: Pravega, table: StreamTable, options: o.Options, start: StreamCut | None, end: StreamCut | None
) -> list[SegmentSlice]:
    """Measure what lies between two cuts now, whole transactions only; see `take_snapshot`."""
    log = CommitLog(pravega, table.stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())
    return take_snapshot(
        pravega,
        table.stream,
        start=start,
        end=end,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        settled=log.settled,
    )


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
) -> PlannedScan:
    """Fix how the events of these slices are read as rows. `versions`: as changes, with CHANGE_COLUMNS."""
    stream = table.stream
    more = CHANGE_COLUMNS.names if versions is not None else ()
    schema, columns = chosen_columns(table, required, rule, more)
    plan = ScanPlan(
        table=table,
        config=pravega.config,
        schema=schema if required.fields else nullable(schema),
        columns=columns if rule.mode == FAILFAST else _strings(table.schema),
        limit=limit,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        window_bytes=options.get(o.READ_WINDOW),
        writer_schemas=WriterSchemas(pravega.config, stream),
        bad_events=rule,
        counted=counted and rule.mode != FAILFAST,
        versions=versions,
    )
    token = pravega.segments.token(stream, Access.READ)
    endpoints = pravega.segments.locations(stream, [piece.segment_id for piece in slices])
    partitions = [SlicePartition(piece, endpoints[piece.segment_id], token) for piece in slices]
    return planned(SegmentScanReader(plan, partitions), plan.schema, plan.output, slices)


def chosen_columns(
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
    return required if required.fields else _strings(StructType([table.schema.fields[0]])), StructType(columns)


def planned(
    reader: DataSourceReader,
    schema: StructType,
    output: StructType,
    slices: Sequence[SegmentSlice],
    homes: Sequence[int] = (),
) -> PlannedScan:
    """Put a reader of these slices together with what is told about it."""
    return PlannedScan(
        reader,
        schema,
        output,
        sum(piece.end - piece.start for piece in slices),
        len(slices),
        {piece.segment_id: piece.end for piece in slices},
        homes=homes,
    )


def _rule_for_rows(table: StreamTable, options: o.Options) -> BadEventRule:
    """A change that is left out may make its row wrong, so that catalogs' defaults do not count."""
    given = [options.source(option) for option in (o.MODE, o.DEAD_LETTER)]
    if not {o.Source.DEFAULT, o.Source.CATALOG}.issuperset(given):
        rule = bad_event_rule(options, table.stream)
        if rule.mode != PERMISSIVE:
            return rule
        raise InvalidOptionError(
            f"'{o.MODE.key}'='{PERMISSIVE}' is not possible for the rows of stream {table.stream}: an event that "
            f"cannot be decoded is no row. Leave it out, set '{o.MODE.key}' to 'dropmalformed', or read the changelog."
        )
    return BadEventRule()


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


def write_settings(options: o.Options) -> WriteSettings:
    """Read how to write from resolved options."""
    return WriteSettings(
        lease=options.get(o.TRANSACTION_LEASE).total_seconds(),
        commit_timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds(),
        spool_memory=options.get(o.SPOOL_MEMORY),
    )


def _cut(options: o.Options, option: o.Option[str], nonsense: str) -> StreamCut | None:
    text = options.get(option)
    if text == nonsense:
        raise InvalidOptionError(f"'{option.key}'='{text}' leaves nothing to read. Leave the option out.")
    if text in _OPEN_ENDS:
        return None
    try:
        return StreamCut.from_text(text)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"'{option.key}': {error.message}.") from None


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
