"""Tables that are key-value tables of Pravega: a row for each key, which a write with the same key replaces."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refusal_of_key_value_table
from pyspark_pravega.sql.table_settings import TableSettings

from ..key_value.scan import keys_of, plan_entries, same_entries_of
from ..key_value.write import RowChangesWriter, UpsertSpec, UpsertWriter, encoder_of_values
from ..scan.planned_scan import PlannedScan
from ..tables.stream_table import StreamTable
from .kind import ALL_ROWS, TableKind, WantedRows

_KNOWN = (o.PUSH_DOWN_FILTERS, o.PUSH_DOWN_AGGREGATES, o.COLUMNAR_READS)
"""The options of queries that mean something."""


class KeyValueEntries(TableKind):
    """A table of the entries of a key-value table. It has no versions: a row is what its key has now."""

    hidden_columns = ()
    rows_have_keys = True
    columns_in_events = False
    events_are_rows = False
    of_stream = False

    def name(self, table: StreamTable) -> str:
        return table.stream.name

    def check_settings(self, columns: StructType, settings: TableSettings) -> TableSettings:
        return settings

    def refusal(self, statement: str, name: str) -> str:
        return refusal_of_key_value_table(statement, name)

    def plan_scan(
        self,
        pravega: Pravega,
        table: StreamTable,
        required: StructType,
        options: o.Options,
        wanted: WantedRows = ALL_ROWS,
    ) -> PlannedScan:
        _check_options(table, options)
        return plan_entries(pravega, table, required, wanted.conditions, wanted.limit)

    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        _check_options(table, options)
        missing = [name for name in keys_of(table).names if name not in rows.names]
        if missing:
            raise InvalidSchemaError(
                f"The rows have no column {', '.join(missing)} of the key of {table.stream}. Give each row its key."
            )
        encoder_of_values(table, rows)
        return table

    def plain_writer(
        self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options
    ) -> DataSourceArrowWriter:
        same_entries_of(pravega, table).check_writable()
        return UpsertWriter(UpsertSpec(table, pravega.config, rows))

    def row_changes_writer(
        self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options
    ) -> DataSourceArrowWriter:
        if rows.fields:
            self.prepare_insert(pravega, table, rows, options)
        same_entries_of(pravega, table).check_writable()
        return RowChangesWriter(UpsertSpec(table, pravega.config, rows))

    def row_key(self, table: StreamTable) -> list[str]:
        return keys_of(table).names


def _check_options(table: StreamTable, options: o.Options) -> None:
    """Raise InvalidOptionError for an option of a query that is about events."""
    for option in o.OPTIONS.values():
        if options.source(option) is o.Source.QUERY and option not in _KNOWN:
            raise InvalidOptionError(
                f"'{options.name(option)}' has no meaning for {table.stream}, a key-value table, which has no events. "
                "Leave it out."
            )
