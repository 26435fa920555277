"""Tables of changes: their events are changes of rows, and a SELECT shows the resulting rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import WRITTEN_AT, changelog_schema, check_settings, list_key_columns
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import describe_changes_refusal

from ..changes.changes_offset import check_options
from ..changes.conflicts import Conflict
from ..changes.current_rows import plan_current_rows, read_rule_for_rows
from ..changes.row_changes import check_key_of_table, plan_row_changes
from ..insert import prepare
from ..insert.change_task import DELETED_BY, DeletingWriter, KeyedRowsWriter
from ..insert.task import InsertWriter
from ..lake.lake_columns import check_lake_settings
from ..lake.open_lake import ONLY
from ..scan.dead_letter_stream import check_target
from ..scan.planned_scan import PlannedScan
from ..scan.scan_request import WantedRows
from ..stream_source.source import StreamReader, StreamSource
from ..tables.hidden_columns import POSITION_COLUMNS, make_changes_schema
from ..tables.loading import apply_statement_settings
from ..tables.named_columns import RoutingKey
from ..tables.open_table import OpenRead
from ..tables.stream_table import StreamTable
from ..tables.table_settings import TableSettings
from .changes_source import RowChangesSource
from .event_table import Changelog
from .kind import TableKind


@dataclass(frozen=True)
class ChangeTable(TableKind):
    """A table of the current rows. Its changes are those of its rows, by positions in the database's log."""

    hidden_columns = POSITION_COLUMNS
    rows_have_keys = True
    columns_in_events = True
    writes_changes = True
    unsupported = ("follow", "replay_dead_letter", "Reading as one of several streams")
    refusal = staticmethod(describe_changes_refusal)
    options_of_columns = (o.SCHEMA_VERSION,)

    @classmethod
    def events_of(cls, table: StreamTable) -> StreamTable:
        return Changelog.of(table)

    @classmethod
    def row_key_of(cls, table: StreamTable) -> list[str]:
        return list_key_columns(table.settings)

    @classmethod
    def check_settings(cls, columns: StructType, settings: TableSettings) -> TableSettings:
        check_lake_settings(changelog_schema(columns), settings)
        checked = check_settings(columns, settings.format_settings)
        needs_key = {
            o.INSERT_CONFLICT.key: Conflict.of(checked) is Conflict.FAIL,
            o.COMPACT_AFTER.key: o.COMPACT_AFTER.key in checked,
        }
        for name, needs in needs_key.items():
            if needs and not list_key_columns(checked):
                raise InvalidOptionError(
                    f"'{name}'='{checked[name]}' needs '{o.PRIMARY_KEY.key}', by which rows are found."
                )
        if o.COMPACT_AFTER.key in checked and o.LAKE.key in settings.scan_properties:
            raise InvalidOptionError(
                f"'{o.COMPACT_AFTER.key}' does not fit a table with '{o.LAKE.key}', which keeps all changes. Leave one "
                f"of them out; '{o.LAKE_KEEP.key}' removes old changes from the stream."
            )
        return replace(settings, format_settings=checked)

    @classmethod
    def refusal_to_truncate(cls, name: str, whole: str) -> str:
        return (
            f"{name}: its events are changes of rows, and later ones need the rows before them. With a primary key, "
            "DELETE without WHERE deletes all rows, and CALL <catalog>.system.compact_changes(...) removes old events. "
            "Where a connector writes, truncate the table in its database; 'retention.type' removes old events."
        )

    @classmethod
    def changes_schema_of(cls, table: StreamTable, *, permissive: bool) -> StructType:
        return make_changes_schema(table.schema, cls.row_key_of(table))

    def open_stream(self, reader: StreamReader) -> StreamSource:
        if self.table.asked.changes:
            return RowChangesSource(self, reader, self._read)
        raise UnsupportedOperationError(
            f"The rows of stream {self.stream} change, so they cannot be streamed. Use spark.readStream.changes."
        )

    def prepare_insert(self, rows: StructType) -> Self:
        prepare.refuse_columns(self.options, f"on {self.stream}, a table of changes", o.STREAM_COLUMN)
        if not self.row_key_of(self.table):
            prepare.refuse_columns(self.options, f"on {self.stream}, which has no primary key", o.DELETE_COLUMN)
        table = prepare.apply_write_options(self)
        if table.framed and table.schema_version is None:
            raise UnsupportedOperationError(
                f"The events of stream {table.stream} have schemas of Debezium's envelopes. Other programs register "
                "them, and INSERT does not know them. Write with the program that writes the other events."
            )
        table = apply_statement_settings(table, table.schema, self.options)
        # Repeated tasks must write the same bytes.
        settings = {**table.settings, WRITTEN_AT: str(int(time.time() * 1000))}
        deleted = prepare.find_marking_column(rows, self.options, o.DELETE_COLUMN)
        if deleted is not None:
            settings[DELETED_BY] = deleted
            rows = StructType([field for field in rows if field.name != deleted])
        return replace(self, table=prepare.fit_to_rows(replace(table, settings=settings), rows))

    def choose_writer(self, output_mode: str | None = None) -> type[InsertWriter]:
        if DELETED_BY in self.table.settings or output_mode == "complete":
            self._check_order()
        if DELETED_BY in self.table.settings:
            return DeletingWriter
        if output_mode == "append":
            self._refuse_unchecked("outputMode('append')")
        return KeyedRowsWriter if output_mode is None and self._keeps_rows else InsertWriter

    def make_plain_writer(self, rows: StructType, epoch: int | None = None) -> DataSourceArrowWriter | None:
        plain = super().make_plain_writer(rows, epoch)
        if plain is not None:
            self._refuse_unchecked(f"'{self.options.name(o.WRITE_MODE)}'='{self.options.text(o.WRITE_MODE)}'")
        if prepare.find_epoch_of_application(self.options) is not None:
            self._refuse_unchecked(f"'{self.options.name(o.TXN_APP_ID)}'")
        return plain

    @property
    def _keeps_rows(self) -> bool:
        """Return whether rows that are written may not replace others."""
        return DELETED_BY not in self.table.settings and Conflict.of(self.table.settings) is Conflict.FAIL

    def _refuse_unchecked(self, how: str) -> None:
        """Raise UnsupportedOperationError if a write of this sort may not replace rows."""
        if self._keeps_rows:
            raise UnsupportedOperationError(
                f"Stream {self.stream} has '{o.INSERT_CONFLICT.key}'='{Conflict.FAIL}', but a write with {how} is not "
                "compared with the keys that exist. Write without it, or let rows replace others: ALTER TABLE ... SET "
                f"TBLPROPERTIES ('{o.INSERT_CONFLICT.key}'='{Conflict.REPLACE}')."
            )

    def prepare_changes(self, statement: str = "UPDATE") -> Self:
        if not self.row_key_of(self.table):
            self._refuse(statement, self.table)
        prepared = self.prepare_insert(self.table.schema)
        prepared._check_order()
        return prepared

    def _check_order(self) -> None:
        """Raise UnsupportedOperationError if the changes of a row do not all have the same routing key."""
        key, routing_key = list_key_columns(self.table.settings), self.table.routing_key
        columns = [] if routing_key is None else RoutingKey.of(routing_key, self.table.schema).columns
        if not set(columns) <= set(key):
            raise UnsupportedOperationError(
                f"The events of stream {self.stream} have the routing key '{routing_key}', so the changes of a row "
                f"may lose their order. Statements that change or delete rows need a routing key made of columns of "
                f"'{o.PRIMARY_KEY.key}'='{','.join(key)}', or none: ALTER TABLE ... UNSET TBLPROPERTIES "
                f"('{o.ROUTING_KEY.key}')."
            )

    def _plan_rows(self, rows: WantedRows) -> PlannedScan:
        return plan_current_rows(self._read(), rows)

    def _plan_changes(self, rows: WantedRows) -> PlannedScan:
        check_options(self.options)
        bounds = self.table.changes_range.bounds()
        check_key_of_table(self.options)
        return plan_row_changes(self._read(), bounds, rows)

    def _read(self) -> OpenRead:
        """Return the table for one read. Raises InvalidOptionError for an invalid dead-letter stream."""
        if self.options.get(o.LAKE) == ONLY:
            raise UnsupportedOperationError(
                f"'{o.LAKE.key}'='{ONLY}' has no rows of stream {self.stream}, which result from all changes. Read the "
                "table's changelog like that, or an earlier version of the rows."
            )
        rule = read_rule_for_rows(self.table, self.options)
        if rule.dead_letter is not None:
            check_target(self.pravega, rule.dead_letter)
        table = apply_statement_settings(self.table, self.table.schema, self.options)
        return OpenRead(self.pravega, table, self.options, rule)
