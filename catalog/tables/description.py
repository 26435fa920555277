"""What descriptions of stream tables share: hidden columns, and what distinguishes a stream from a later one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.table import origin_of
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.hidden_columns import HIDDEN_COLUMNS, ORIGIN_COLUMNS
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PermissionDeniedError

from ..protocol.replies import HiddenColumn, TableDescription
from ..storage.connections import Catalog
from .lineage import name_dataset

_THREADS = 8
_HIDDEN = HIDDEN_COLUMNS | ORIGIN_COLUMNS


def describe_columns(
    catalog: Catalog, table: StreamTable, columns: StructType, *, name: str, id: str | None
) -> TableDescription:
    """Return what the adapter shows of a table with these columns, without properties."""
    kind = find_table_kind(table)
    return TableDescription(
        name=name,
        schema=columns,
        properties={},
        lineage=name_dataset(catalog, table.stream),
        metadata_columns=hidden_columns(table, columns),
        table=table,
        id=id,
        events_are_rows=kind.events_are_rows,
        row_key=tuple(kind.row_key_of(table)),
    )


def hidden_columns(table: StreamTable, columns: StructType) -> tuple[HiddenColumn, ...]:
    """Return the hidden columns of a table, without those whose names its own columns have."""
    names = {name.lower() for name in columns.fieldNames()}
    return tuple(
        HiddenColumn(field.name, field.dataType, field.nullable, comment)
        for field, comment in map(_HIDDEN.__getitem__, find_table_kind(table).hidden_columns)
        if field.name not in names
    )


def identity(catalog: Catalog, stream: Stream) -> str | None:
    """Identify a stream, even against one recreated under its name; None for a user who may only read."""
    try:
        return f"{stream}/{origin_of(catalog.pravega, stream)}"
    except PermissionDeniedError:
        return None


def identify_members(catalog: Catalog, table: StreamTable) -> StreamTable:
    """Return a table of several streams whose members have their identities."""

    def identify(member: StreamTable) -> StreamTable:
        return replace(member, identity=identity(catalog, member.stream))

    with ThreadPoolExecutor(_THREADS) as threads:
        return replace(table, members=tuple(threads.map(cancellation.carry_over(identify), table.members)))
