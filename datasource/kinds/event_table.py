"""Tables of events as rows: of a stream with one type, of one type among several, and changelogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o

from ..changes.appended import plan_appended
from ..changes.changes_offset import check_options
from ..insert.prepare import apply_write_options, choose_rows_to_write, fit_to_rows, refuse_columns
from ..lake.lake_columns import check_lake_settings
from ..lake.open_lake import BELIEVED_SECONDS, open_lake
from ..positions.snapshot import SegmentSlice
from ..scan import event_planning
from ..scan.conditions import Condition
from ..scan.dead_letter_stream import check_target
from ..scan.event_times import EventTimes
from ..scan.keyed_segments import find_segments_of_keys
from ..scan.places import Places, is_about_places
from ..scan.planned_scan import PlannedScan
from ..scan.push_down import is_about_versions
from ..scan.scan_request import WantedRows
from ..stream_source.source import StreamReader, StreamSource
from ..tables.bad_events import read_bad_event_rule
from ..tables.hidden_columns import HIDDEN_COLUMNS, VERSION_COLUMNS, make_changes_schema
from ..tables.loading import apply_statement_settings
from ..tables.open_table import OpenRead
from ..tables.stream_table import CHANGELOG, KindName, StreamTable, TableName
from ..tables.table_settings import TableSettings
from .changes_source import AppendedSource
from .kind import TableKind
from .rows_source import RowsSource


@dataclass(frozen=True)
class EventRows(TableKind):
    """A table of events as rows. Its changes are inserted rows, with the versions of the commit log of its stream."""

    hidden_columns = (*HIDDEN_COLUMNS, *VERSION_COLUMNS)
    events_are_rows = True
    options_of_columns = (o.MODE, o.SCHEMA_VERSION)

    @classmethod
    def changes_schema_of(cls, table: StreamTable, *, permissive: bool) -> StructType:
        schema = make_changes_schema(table.schema, ())
        return make_nullable(schema) if permissive else schema

    def plan_micro_batch(
        self, slices: Sequence[SegmentSlice], columns: StructType, query: str, times: EventTimes | None = None
    ) -> PlannedScan:
        """Fix what a micro-batch reads of some slices, with the `times` of its rows, if these are requested.

        `query` identifies the streaming query, even after a restart.
        """
        read, rows = self._read(), WantedRows(columns, counted=True)
        sharing = event_planning.choose_sharing(read, rows) if self.options.get(o.UNORDERED) else None
        selection = event_planning.EventSelection(query=query, times=times, sharing=sharing)
        lake = open_lake(read, oldest=BELIEVED_SECONDS)
        return event_planning.plan_events(read, event_planning.Measured(slices, lake=lake), rows, selection)

    def prepare_insert(self, rows: StructType) -> Self:
        refuse_columns(self.options, f"on {self.stream}, whose rows do not change", o.DELETE_COLUMN)
        written = choose_rows_to_write(self.table, rows, self.options)
        return replace(self, table=fit_to_rows(apply_write_options(self), written))

    def open_stream(self, reader: StreamReader) -> StreamSource:
        if self.table.asked.changes:
            return AppendedSource(self, reader, self._read)
        return RowsSource(self, reader, self.plan_micro_batch)

    def _plan_rows(self, rows: WantedRows) -> PlannedScan:
        read = self._read()
        schemas = run_in_background(partial(event_planning.look_up_likely_schemas, read, rows.columns))
        measured = event_planning.measure_scan(read, rows.earlier)
        selection = event_planning.EventSelection(
            schemas=schemas,
            places=Places(rows.choosing) if rows.choosing else None,
            segments=self._segments(measured.slices, rows.conditions),
            sharing=event_planning.choose_sharing(read, rows),
        )
        return event_planning.plan_events(read, measured, rows, selection)

    def _plan_changes(self, rows: WantedRows) -> PlannedScan:
        check_options(self.options)
        bounds = self.table.changes_range.bounds()
        return plan_appended(self._read(), bounds, rows)

    def _segments(self, slices: Sequence[SegmentSlice], conditions: Sequence[Condition]) -> set[int] | None:
        """Return the segments that can have rows which fulfil the conditions; None if that is unknown."""
        return None

    def _can_choose(self, condition: Condition) -> bool:
        if self.table.asked.changes is not None:
            return is_about_versions(condition)
        return is_about_places(condition, self.table.schema)

    def _read(self) -> OpenRead:
        """Return the table for one read. Raises InvalidOptionError for an invalid dead-letter stream."""
        rule = read_bad_event_rule(self.options, self.stream)
        if rule.dead_letter is not None:
            check_target(self.pravega, rule.dead_letter)
        return OpenRead(self.pravega, self.table, self.options, rule)


@dataclass(frozen=True)
class EventTable(EventRows):
    """A table of all events of a stream. Its columns are those of its schema, and its events can be removed."""

    @classmethod
    def check_settings(cls, columns: StructType, settings: TableSettings) -> TableSettings:
        check_lake_settings(columns, settings)
        return settings

    @classmethod
    def refusal_to_truncate(cls, name: str, whole: str) -> str | None:
        return None

    def _segments(self, slices: Sequence[SegmentSlice], conditions: Sequence[Condition]) -> set[int] | None:
        return find_segments_of_keys(self, slices, conditions)


@dataclass(frozen=True)
class TypedEvents(EventRows):
    """A table of the events of one type in a stream with several: `stream$type`."""

    @classmethod
    def name_of(cls, table: StreamTable) -> str:
        return str(TableName(table.stream.name, table.event_type))

    def prepare_insert(self, rows: StructType) -> Self:
        refuse_columns(self.options, f"on {self.name_of(self.table)}, a part of a stream", o.STREAM_COLUMN)
        return super().prepare_insert(rows)


@dataclass(frozen=True)
class Changelog(EventRows):
    """A table of the events of a table of changes, with a row for each event: `stream$changelog`."""

    @staticmethod
    def of(table: StreamTable) -> StreamTable:
        """Return the changelog of a table of changes."""
        return replace(table, schema=changelog_schema(table.schema), kind=KindName.CHANGELOG)

    @classmethod
    def name_of(cls, table: StreamTable) -> str:
        return str(TableName(table.stream.name, CHANGELOG))

    def prepare_insert(self, rows: StructType) -> Self:
        raise UnsupportedOperationError(
            f"The changelog of stream {self.stream} cannot be written to. Insert rows into the table itself."
        )

    def _read(self) -> OpenRead:
        read = super()._read()
        columns = self.table.schema["after"].dataType
        assert isinstance(columns, StructType)
        return replace(read, table=apply_statement_settings(read.table, columns, self.options))


EVENT_KINDS: Mapping[KindName, type[EventRows]] = {
    KindName.EVENTS: EventTable,
    KindName.TYPED_EVENTS: TypedEvents,
    KindName.CHANGELOG: Changelog,
}
"""The kinds of tables of one stream's events as rows."""
