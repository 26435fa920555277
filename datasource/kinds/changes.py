"""Tables of changes: their rows are the latest states that the events, changes of rows, lead to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import WRITTEN_AT, checked_settings, key_columns
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import TableSettings

from ..changes.current_rows import plan_current_rows, rule_for_rows
from ..changes.position import Position, Wanted, check_options, check_positions, end_of_batch
from ..changes.row_changes import check_key_of_table, plan_row_changes
from ..changes.row_changes_stream import ChangesMemory, Checkpoint, check_stream_of_rows, plan_new_row_changes
from ..changes.truncations import Search
from ..insert.prepare import checked_for_rows, with_write_options
from ..positions.snapshot import SegmentSlice
from ..scan.bad_events import BadEventRule
from ..scan.conditions import Condition
from ..scan.dead_letters import check_target
from ..scan.event_times import EventTimes
from ..scan.planned_scan import EarlierScan, PlannedScan
from ..tables.change_range import ChangeRange
from ..tables.hidden_columns import POSITION_COLUMNS, changes_schema
from ..tables.loading import with_statement_settings
from ..tables.stream_table import StreamTable
from .kind import ALL_ROWS, TableKind, WantedRows


class ChangeTable(TableKind):
    """A table of the current rows. Its changes are those of its rows, by positions in the database's log."""

    hidden_columns = POSITION_COLUMNS
    rows_have_keys = True
    columns_in_events = True
    events_are_rows = False

    def name(self, table: StreamTable) -> str:
        return table.stream.name

    def check_settings(self, columns: StructType, settings: TableSettings) -> TableSettings:
        return replace(settings, format_settings=checked_settings(columns, settings.format_settings))

    def plan_scan(
        self,
        pravega: Pravega,
        table: StreamTable,
        required: StructType,
        options: o.Options,
        wanted: WantedRows = ALL_ROWS,
    ) -> PlannedScan:
        table, rule = self._prepare(pravega, table, options)
        return plan_current_rows(
            pravega,
            table,
            required,
            options,
            rule,
            limit=wanted.limit,
            tail=wanted.tail,
            search=wanted.search,
            counted=wanted.counted,
        )

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
        raise UnsupportedOperationError(
            f"The rows of stream {table.stream} change, and are not streamed as they are. Use spark.readStream.changes."
        )

    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        table = with_write_options(pravega, table, options)
        if table.framed and table.schema_version is None:
            raise UnsupportedOperationError(
                f"The events of stream {table.stream} have schemas of Debezium's envelopes that others register. "
                "INSERT knows none of them. Write with what writes the others."
            )
        table = with_statement_settings(table, table.schema, options)
        # Tasks that are run again must write the same bytes.
        now = str(int(time.time() * 1000))
        return checked_for_rows(replace(table, settings={**table.settings, WRITTEN_AT: now}), rows)

    def row_key(self, table: StreamTable) -> list[str]:
        return key_columns(table.settings)

    def changes_schema(self, table: StreamTable, *, permissive: bool) -> StructType:
        return changes_schema(table.schema, self.row_key(table))

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
        check_key_of_table(options)
        table, rule = self._prepare(pravega, table, options)
        search = search or Search()
        return plan_row_changes(pravega, table, bounds, required, options, rule, earlier=earlier, search=search)

    def start_of_changes(
        self, pravega: Pravega, table: StreamTable, changes: ChangeRange, options: o.Options
    ) -> Position:
        check_stream_of_rows(table, changes, options)
        changes.bounds()
        return Position(pravega.controller.head(table.stream), 0)

    def end_of_changes(
        self, pravega: Pravega, table: StreamTable, options: o.Options, since: Position, wanted: Wanted
    ) -> Position:
        return end_of_batch(pravega, table.stream, options, since, wanted, versioned=False)

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
        check_stream_of_rows(table, changes, options)
        since = check_positions(pravega, table.stream, since, until)
        check_key_of_table(options)
        table, rule = self._prepare(pravega, table, options)
        return plan_new_row_changes(
            pravega, table, changes, required, options, rule, since, until, checkpoint, memory, search
        )

    def _prepare(self, pravega: Pravega, table: StreamTable, options: o.Options) -> tuple[StreamTable, BadEventRule]:
        """Return the table as one read sees it, and what becomes of its bad events."""
        rule = rule_for_rows(table, options)
        if rule.dead_letter is not None:
            check_target(pravega, rule.dead_letter)
        return with_statement_settings(table, table.schema, options), rule
