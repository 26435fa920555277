"""Chooses the kind of a table, and opens the table for one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.sql.options import Options

from ..tables.loading import LoadedTable, load_table
from ..tables.stream_table import CHANGELOG, KindName, StreamTable, find_kind_of_format
from .change_table import ChangeTable
from .event_table import EVENT_KINDS, Changelog
from .key_value_entries import KeyValueEntries
from .kind import TableKind
from .merged_streams import MergedStreams

KINDS: Mapping[KindName, type[TableKind]] = {
    **EVENT_KINDS,
    KindName.CHANGES: ChangeTable,
    KindName.MERGED: MergedStreams,
    KindName.ENTRIES: KeyValueEntries,
}


def find_table_kind(table: StreamTable) -> type[TableKind]:
    """Return the kind of a table, for uses without a connection."""
    return KINDS[table.kind]


def open_table(pravega: Pravega, table: StreamTable, options: Options) -> TableKind:
    """Return a table for one statement with these options."""
    return KINDS[table.kind](pravega, table, options)


def find_kind_with_format(format: str) -> type[TableKind]:
    """Return the kind of the tables that are made with a format. Raises InvalidOptionError for an unknown format."""
    return KINDS[find_kind_of_format(format)]


def load(
    pravega: Pravega, stream: Stream, part: str | None = None, *, schema_version: int | None = None
) -> LoadedTable:
    """Read the table of a stream, or of a part of it: its changelog, or the events of one type.

    `part` is the part of a `TableName`. Raises the errors of `load_table`.
    """
    if part == CHANGELOG:
        loaded = load_table(pravega, stream, schema_version=schema_version)
        if loaded.table.kind is KindName.CHANGES:
            return replace(loaded, table=Changelog.of(loaded.table))
    return load_table(pravega, stream, event_type=part or None, schema_version=schema_version)
