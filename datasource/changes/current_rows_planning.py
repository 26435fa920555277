"""From the slices of a table of changes to the scan of its current rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Access
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.debezium.avro_schemas import read_schemas
from pyspark_pravega.formats.changes.feed import AVRO_SCHEMAS, checked_settings, key_columns
from pyspark_pravega.sql import options as o

from ..scan.bad_events import BadEventRule
from ..scan.snapshot import SegmentSlice
from ..tables.stream_table import StreamTable, WriterSchemas
from .current_rows_scan import CurrentRowsPlan, CurrentRowsReader, GroupPartition, find_truncates
from .lineage import by_lineage
from .rows.entries import Truncates


def prepared_changes(table: StreamTable, options: o.Options) -> StreamTable:
    """Return the table with the settings of this read, and with schemas instead of the name of a file that has them.

    Raises InvalidOptionError for what does not fit the table.
    """
    settings = dict(table.settings)
    for option in o.OPTIONS.values():
        if table.format in option.formats and options.source(option) is o.Source.QUERY:
            settings[option.key] = str(options.text(option))
    columns = table.schema["after"].dataType if table.changelog else table.schema
    assert isinstance(columns, StructType)
    table = replace(table, settings=checked_settings(columns, settings))
    return with_schemas(table)


def with_schemas(table: StreamTable) -> StreamTable:
    """Return the table with schemas instead of the name of their file. Raises InvalidOptionError for another file."""
    if AVRO_SCHEMAS not in table.settings:
        return table
    return replace(table, settings={**table.settings, AVRO_SCHEMAS: read_schemas(table.settings[AVRO_SCHEMAS])})


def plan_current_rows(
    pravega: Pravega,
    table: StreamTable,
    slices: Sequence[SegmentSlice],
    schema: StructType,
    columns: StructType,
    options: o.Options,
    rule: BadEventRule,
    *,
    limit: int | None,
) -> CurrentRowsReader:
    """Fix how the current rows are read from these slices. `schema` is what Spark gets, `columns` the data in it.

    Raises InvalidOptionError when a start is given, and MalformedEventError when a truncation cannot be read.
    """
    check_whole(options, "current rows")
    plan = rows_plan(pravega, table, schema, columns, options, rule, limit)
    groups = groups_of_keys(pravega, table, slices)
    if len(groups) > 1 and clears(table):
        find_truncates(pravega, plan, slices, plan.truncates)
    return CurrentRowsReader(plan, group_partitions(pravega, table, groups))


def groups_of_keys(
    pravega: Pravega, table: StreamTable, slices: Sequence[SegmentSlice]
) -> Sequence[Sequence[SegmentSlice]]:
    """The slices in groups that share no key: all in one if the table has none."""
    if key_columns(table.settings):
        return by_lineage(pravega, table.stream, slices)
    return [sorted(slices, key=lambda each: each.segment_id)] if slices else []


def check_whole(options: o.Options, what: str) -> None:
    """Raise InvalidOptionError when not all of the stream is asked for."""
    if options.get(o.START_STREAM_CUT) not in ("earliest", "unbounded"):
        raise InvalidOptionError(
            f"'{o.START_STREAM_CUT.key}' has no meaning for the {what}, which all changes from the first on lead "
            "to. Leave it out, or read the table's changelog."
        )


def rows_plan(
    pravega: Pravega,
    table: StreamTable,
    schema: StructType,
    columns: StructType,
    options: o.Options,
    rule: BadEventRule,
    limit: int | None = None,
) -> CurrentRowsPlan:
    """What all tasks share that fold changes."""
    return CurrentRowsPlan(
        table=table,
        config=pravega.config,
        schema=schema,
        columns=columns,
        limit=limit,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        window_bytes=options.get(o.READ_WINDOW),
        writer_schemas=WriterSchemas(pravega.config, table.stream),
        memory=options.get(o.CURRENT_ROWS_MEMORY),
        truncates=Truncates(),
        bad_events=rule,
    )


def clears(table: StreamTable) -> bool:
    """Whether truncations count."""
    return table.settings.get(o.DEBEZIUM_TRUNCATES.key, "true").lower() == "true"


def group_partitions(
    pravega: Pravega, table: StreamTable, groups: Sequence[Sequence[SegmentSlice]]
) -> list[GroupPartition]:
    """One partition for each group, with the places of its segments."""
    token = pravega.segments.token(table.stream, Access.READ)
    endpoints = pravega.segments.locations(table.stream, [each.segment_id for group in groups for each in group])
    return [
        GroupPartition(tuple(group), {each.segment_id: endpoints[each.segment_id] for each in group}, token)
        for group in groups
    ]
