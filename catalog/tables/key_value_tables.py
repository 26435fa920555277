"""Key-value tables as tables: list, describe, load, drop.

What a table's columns are is kept in the table of its scope. Without that, as in tables that other programs made, keys
and values are bytes. A row there names the table's first segment, which another table of the same name never has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import KeyValueTableConfiguration, Stream
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME as COMMIT_LOG
from pyspark_pravega.datasource.key_value.entry_scan import open_entries
from pyspark_pravega.datasource.key_value.keys import BINARY, NUMBERS
from pyspark_pravega.datasource.tables.stream_table import (
    KEY_VALUE_TABLE,
    KeyColumn,
    KeyColumns,
    StreamTable,
    make_entries_table,
)
from pyspark_pravega.errors import KeyValueTableNotFoundError, PermissionDeniedError
from pyspark_pravega.formats.core.spark_types import parse_spark_schema
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import is_internal

from ..protocol.service_replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.scope_table import TABLE_NAME as SCOPE_TABLE
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import Address
from ..storage.table_properties import PROVIDER, make_place_properties
from .description import describe_table

OWN = (COMMIT_LOG, SCOPE_TABLE)
"""The key-value tables of this package, which come and go with their scope and are not tables of users."""


def list_names(catalog: Catalog, scope: str) -> list[str]:
    """Return the names of the key-value tables of a scope that are tables of users."""
    names = catalog.pravega.controller.list_key_value_tables(scope)
    return [name for name in names if name not in OWN and not is_internal(name)]


def has_table(catalog: Catalog, stream: Stream) -> bool:
    return find_configuration(catalog, stream) is not None


def load(catalog: Catalog, address: Address) -> TableDescription | None:
    """Describe a key-value table, or None."""
    existing = find_made(catalog, address.stream)
    if existing is None:
        return None
    stream, configuration, row = address.stream, existing.configuration, existing.row
    table = _describe_undeclared(stream, configuration) if row is None else _describe_declared(stream, row)
    table = address.note_spelling(replace(table, first_segment=existing.segment))
    keys = table.keys
    assert keys is not None
    properties = {
        "provider": PROVIDER,
        o.FORMAT.key: o.KEY_VALUE_FORMAT,
        o.PRIMARY_KEY.key: _spell_key(keys.primary),
        o.VALUE_FORMAT.key: table.format,
        o.PARTITIONS.key: str(configuration.partitions),
    }
    if keys.secondary:
        properties[o.SECONDARY_KEY.key] = _spell_key(keys.secondary)
    if row is not None and row.get("comment"):
        properties["comment"] = row["comment"]
    properties |= dict(table.settings) | make_place_properties(stream)
    return describe_table(catalog, table, f"{stream}/{KEY_VALUE_TABLE}/{existing.segment}", properties=properties)


@dataclass(frozen=True)
class MadeTable:
    """A key-value table with its first segment, and the row that is kept of its columns, if these were declared."""

    configuration: KeyValueTableConfiguration
    segment: int
    row: Mapping[str, Any] | None


def find_made(catalog: Catalog, stream: Stream) -> MadeTable | None:
    """Return a key-value table that is there; None for one that is being created, or was only half made.

    Such a table has a configuration, but no segments.
    """
    configuration = find_configuration(catalog, stream)
    if configuration is None:
        return None
    kept = run_in_background(
        partial(ScopeTable(catalog.pravega, stream.scope).read, RowKind.KEY_VALUE_TABLE, stream.name)
    )
    try:
        segment = open_entries(catalog.pravega, _describe_undeclared(stream, configuration)).segments()[0]
    except KeyValueTableNotFoundError:
        return None
    row = kept()
    return MadeTable(configuration, segment, row if row is not None and row.get("segment") == segment else None)


def find_configuration(catalog: Catalog, stream: Stream) -> KeyValueTableConfiguration | None:
    if stream.name in OWN or is_internal(stream.name):
        return None
    try:
        return catalog.pravega.controller.key_value_table_configuration(stream.scope, stream.name)
    except (KeyValueTableNotFoundError, PermissionDeniedError):
        return None  # users who may not read it are told that neither a stream nor this exists


def _describe_undeclared(stream: Stream, configuration: KeyValueTableConfiguration) -> StreamTable:
    primary, secondary = configuration.primary_key_length, configuration.secondary_key_length
    keys = KeyColumns(
        (KeyColumn("key", BINARY, primary),), (KeyColumn("secondary_key", BINARY, secondary),) if secondary else ()
    )
    columns = [StructField(name, BinaryType(), False) for name in (*keys.names, "value")]
    return make_entries_table(stream, "raw", StructType(columns), keys)


def _describe_declared(stream: Stream, row: Mapping[str, Any]) -> StreamTable:
    columns, keys = parse_spark_schema(row["columns"]), KeyColumns.from_json(row["keys"])
    return make_entries_table(stream, row["format"], columns, keys, schema_text=row["schema"], settings=row["settings"])


def _spell_key(columns: Sequence[KeyColumn]) -> str:
    return ",".join(column.name if column.type in NUMBERS else f"{column.name}({column.bytes})" for column in columns)


def drop(catalog: Catalog, stream: Stream, only: int | None = None) -> bool:
    """Drop a key-value table with its entries; False when there is none. `only`: the one with this first segment.

    What was kept of its columns is left to those who may change it: it says nothing of another table of the name.
    """
    configuration = find_configuration(catalog, stream)
    if configuration is None:
        return False
    segment = None
    try:
        with suppress(PermissionDeniedError):
            segment = open_entries(catalog.pravega, _describe_undeclared(stream, configuration)).segments()[0]
        if only not in (None, segment):
            return False
        catalog.pravega.controller.delete_key_value_table(stream.scope, stream.name)
    except KeyValueTableNotFoundError:
        return False
    with suppress(PermissionDeniedError):
        ScopeTable(catalog.pravega, stream.scope).remove(
            RowKind.KEY_VALUE_TABLE, stream.name, lambda kept: kept.get("segment") == segment
        )
    return True
