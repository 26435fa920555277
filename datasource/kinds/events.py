"""Tables whose every event is a row: of a stream of one type, of one type among several, and changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import begun
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import TableSettings

from ..changes.appended import plan_appended, plan_new_appended, start_of_appended
from ..changes.position import Position, Wanted, check_endless, check_options, check_positions, end_of_batch
from ..changes.row_changes_stream import ChangesMemory, Checkpoint
from ..changes.truncations import Search
from ..insert.prepare import checked_for_rows, with_write_options
from ..positions.snapshot import SegmentSlice
from ..scan.bad_events import FAILFAST, BadEventRule, bad_event_rule
from ..scan.conditions import Condition
from ..scan.dead_letters import check_target
from ..scan.event_planning import likely_schemas, measure_with_head, nullable, plan_events
from ..scan.event_times import EventTimes
from ..scan.keyed_segments import segments_of_keys
from ..scan.planned_scan import EarlierScan, PlannedScan
from ..tables.change_range import ChangeRange
from ..tables.hidden_columns import METADATA_COLUMNS, changes_schema
from ..tables.loading import TYPE_SIGN, with_statement_settings
from ..tables.stream_table import Kind, StreamTable
from .kind import ALL_ROWS, TableKind, WantedRows


class EventTable(TableKind):
    """A table of the events of a stream. Its changes are rows inserted, by the versions of its commit log."""

    hidden_columns = tuple(METADATA_COLUMNS)
    rows_have_keys = False
    columns_in_events = False
    events_are_rows = True

    def name(self, table: StreamTable) -> str:
        return table.stream.name

    def check_settings(self, columns: StructType, settings: TableSettings) -> TableSettings:
        return settings

    def plan_scan(
        self,
        pravega: Pravega,
        table: StreamTable,
        required: StructType,
        options: o.Options,
        wanted: WantedRows = ALL_ROWS,
    ) -> PlannedScan:
        table, rule = self._prepare(pravega, table, options)
        schemas = begun(partial(likely_schemas, pravega, table, required))
        slices, head = measure_with_head(pravega, table, options, wanted.tail)
        planned = plan_events(
            pravega,
            table,
            slices,
            required,
            options,
            rule,
            limit=wanted.limit,
            counted=wanted.counted,
            schemas=schemas,
            few=wanted.few,
            places=wanted.places,
            segments=segments_of_keys(pravega, table, slices, wanted.conditions),
        )
        every_event_is_a_row = table.event_type is None and rule.mode == FAILFAST and wanted.places is None
        return replace(planned, head=head) if every_event_is_a_row else planned

    def plan_micro_batch(
        self,
        pravega: Pravega,
        table: StreamTable,
        slices: Sequence[SegmentSlice],
        required: StructType,
        options: o.Options,
        query: str,
        times: EventTimes | None = None,
    ) -> PlannedScan:
        table, rule = self._prepare(pravega, table, options)
        return plan_events(
            pravega, table, slices, required, options, rule, limit=None, counted=True, query=query, times=times
        )

    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        return checked_for_rows(with_write_options(pravega, table, options), rows)

    def row_key(self, table: StreamTable) -> list[str]:
        return []

    def changes_schema(self, table: StreamTable, *, permissive: bool) -> StructType:
        schema = changes_schema(table.schema, ())
        return nullable(schema) if permissive else schema

    def plan_changes(
        self,
        pravega: Pravega,
        table: StreamTable,
        changes: ChangeRange,
        required: StructType,
        options: o.Options,
        *,
        limit: int | None = None,
        earlier: EarlierScan | None = None,
        search: Search | None = None,
        conditions: Sequence[Condition] = (),
    ) -> PlannedScan:
        check_options(options)
        bounds = changes.bounds()
        table, rule = self._prepare(pravega, table, options)
        return plan_appended(
            pravega, table, bounds, required, options, rule, limit=limit, earlier=earlier, conditions=conditions
        )

    def start_of_changes(
        self, pravega: Pravega, table: StreamTable, changes: ChangeRange, options: o.Options
    ) -> Position:
        check_endless(changes, options)
        return start_of_appended(pravega, table.stream, changes.bounds())

    def end_of_changes(
        self, pravega: Pravega, table: StreamTable, options: o.Options, since: Position, wanted: Wanted
    ) -> Position:
        return end_of_batch(pravega, table.stream, options, since, wanted, versioned=True)

    def plan_new_changes(
        self,
        pravega: Pravega,
        table: StreamTable,
        changes: ChangeRange,
        required: StructType,
        options: o.Options,
        since: Position,
        until: Position,
        checkpoint: Checkpoint,
        memory: ChangesMemory,
        search: Search,
    ) -> PlannedScan:
        check_endless(changes, options)
        since = check_positions(pravega, table.stream, since, until)
        table, rule = self._prepare(pravega, table, options)
        return plan_new_appended(pravega, table, required, options, rule, since, until)

    def _prepare(self, pravega: Pravega, table: StreamTable, options: o.Options) -> tuple[StreamTable, BadEventRule]:
        """Return the table as one read sees it, and what becomes of its bad events."""
        rule = bad_event_rule(options, table.stream)
        if rule.dead_letter is not None:
            check_target(pravega, rule.dead_letter)
        return table, rule


class TypedEvents(EventTable):
    """A table of the events of one type, where the stream has events of several: `stream$type`."""

    def name(self, table: StreamTable) -> str:
        return f"{table.stream.name}{TYPE_SIGN}{table.event_type}"


class Changelog(EventTable):
    """A table of the events of a table of changes, one row for each, whatever it says: `stream$changelog`."""

    PART = "changelog"
    """What follows TYPE_SIGN in its name."""

    @staticmethod
    def of(table: StreamTable) -> StreamTable:
        """Return the changelog of a table of changes."""
        return replace(table, schema=changelog_schema(table.schema), kind=Kind.CHANGELOG)

    def name(self, table: StreamTable) -> str:
        return f"{table.stream.name}{TYPE_SIGN}{self.PART}"

    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        raise UnsupportedOperationError(
            f"The changelog of stream {table.stream} cannot be written to. Insert rows into the table itself."
        )

    def _prepare(self, pravega: Pravega, table: StreamTable, options: o.Options) -> tuple[StreamTable, BadEventRule]:
        table, rule = super()._prepare(pravega, table, options)
        columns = table.schema["after"].dataType
        assert isinstance(columns, StructType)
        return with_statement_settings(table, columns, options), rule
