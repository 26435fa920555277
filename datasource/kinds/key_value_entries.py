"""Tables of the entries in a key-value table: a row for each key, which a write with the same key replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import describe_key_value_refusal

from ..key_value.entry_scan import open_same_entries, plan_entries, require_keys
from ..key_value.entry_write import KeyedWriter, UpsertSpec, UpsertWriter, make_value_encoder, remove_entries
from ..key_value.epochs import add_epoch_column
from ..scan.planned_scan import PlannedScan
from ..scan.scan_request import WantedRows
from ..tables.stream_table import StreamTable
from .kind import TableKind

_KNOWN = (o.PUSH_DOWN_FILTERS, o.PUSH_DOWN_AGGREGATES, o.COLUMNAR_READS, o.LOOKUP_KEYS_MAX, o.LOOKUP_KEYS_TIMEOUT)
"""The options of queries that have a meaning."""


@dataclass(frozen=True)
class KeyValueEntries(TableKind):
    """A table of the entries of a key-value table. It has no versions: a row is the present entry of its key."""

    hidden_columns = ()
    rows_have_keys = True
    unsupported = ("VERSION AS OF", "history", "size", "schema_versions", "follow")
    refusal = staticmethod(describe_key_value_refusal)
    takes_updates = True

    @classmethod
    def row_key_of(cls, table: StreamTable) -> list[str]:
        return require_keys(table).names

    @classmethod
    def format_of(cls, table: StreamTable) -> str:
        return o.KEY_VALUE_FORMAT

    @classmethod
    def refusal_to_truncate(cls, name: str, whole: str) -> str | None:
        return None

    @classmethod
    def truncate(cls, pravega: Pravega, table: StreamTable) -> None:
        remove_entries(pravega, table)

    def prepare_insert(self, rows: StructType) -> Self:
        _check_options(self.table, self.options)
        missing = [name for name in require_keys(self.table).names if name not in rows.names]
        if missing:
            raise InvalidSchemaError(
                f"The rows have no column {', '.join(missing)}, which is part of the key of {self.stream}. Give each "
                "row its key."
            )
        make_value_encoder(self.table, add_epoch_column(self.table, rows))
        return self

    def make_plain_writer(self, rows: StructType, epoch: int | None = None) -> DataSourceArrowWriter:
        open_same_entries(self.pravega, self.table).check_writable()
        return UpsertWriter(UpsertSpec(self.table, self.pravega.config, add_epoch_column(self.table, rows), epoch))

    def make_keyed_writer(self, rows: StructType) -> DataSourceArrowWriter:
        if rows.fields:
            self.prepare_insert(rows)
        open_same_entries(self.pravega, self.table).check_writable()
        return KeyedWriter(UpsertSpec(self.table, self.pravega.config, rows))

    def _plan_rows(self, rows: WantedRows) -> PlannedScan:
        _check_options(self.table, self.options)
        return plan_entries(self, rows)


def _check_options(table: StreamTable, options: o.Options) -> None:
    """Raise InvalidOptionError if a query gives an option that is about events."""
    for option in o.OPTIONS.values():
        if options.source(option) is o.Source.QUERY and option not in _KNOWN:
            raise InvalidOptionError(
                f"'{options.name(option)}' does not apply to {table.stream}, a key-value table, which has no events. "
                "Leave it out."
            )
