"""Key-value tables as tables: list, load, create, adopt, drop.

What a table's columns are is kept in the table of its scope. Without that, as in tables that other programs made, keys
and values are bytes. A row there names the table's first segment, which another table of the same name never has.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.client.cancellation import run_in_background, shield
from pyspark_pravega.client.stream import KeyValueTableConfiguration, Stream
from pyspark_pravega.datasource.commit_log.table import TABLE_NAME as COMMIT_LOG
from pyspark_pravega.datasource.key_value.keys import BINARY, NUMBERS
from pyspark_pravega.datasource.key_value.scan import RAW, entries_of, value_columns
from pyspark_pravega.datasource.tables.key_columns import KeyColumn, KeyColumns
from pyspark_pravega.datasource.tables.stream_table import StreamTable, entries_table
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    KeyValueTableNotFoundError,
    PermissionDeniedError,
    StreamExistsError,
    UnsupportedOperationError,
    UnsupportedTypeError,
    counted,
)
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream, is_internal

from ..creation.keys import key_columns
from ..protocol import Constraint
from ..protocol.replies import TableDescription
from ..storage.connections import Catalog
from ..storage.scope_table import TABLE_NAME as SCOPE_TABLE
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import table_name
from ..storage.table_properties import PROVIDER, place

PART = "kvtable"
"""What follows TYPE_SIGN in the name of a key-value table whose name a stream has too."""
OWN = (COMMIT_LOG, SCOPE_TABLE)
"""The key-value tables of this package, which come and go with their scope and are no tables of users."""
_PROPERTIES = (o.FORMAT, o.PRIMARY_KEY, o.SECONDARY_KEY, o.VALUE_FORMAT, o.PARTITIONS)


def names(catalog: Catalog, scope: str) -> list[str]:
    """Return the names of the key-value tables of a scope that are tables of users."""
    found = catalog.pravega.controller.list_key_value_tables(scope)
    return [name for name in found if name not in OWN and not is_internal(name)]


def exists(catalog: Catalog, stream: Stream) -> bool:
    """Tell whether there is a key-value table of this scope and name."""
    return _configuration(catalog, stream) is not None


def is_declared(catalog: Catalog, stream: Stream) -> bool:
    """Tell whether there is a key-value table whose columns are known."""
    found = _configuration(catalog, stream)
    return found is not None and _load(catalog, stream, found)[1] is not None


def load(catalog: Catalog, stream: Stream, called: tuple[str, str]) -> TableDescription | None:
    """Describe a key-value table, None if there is none. `called`: its scope and name as the statement has them."""
    configuration = _configuration(catalog, stream)
    return None if configuration is None else _describe(catalog, stream, configuration, called)


def _configuration(catalog: Catalog, stream: Stream) -> KeyValueTableConfiguration | None:
    if stream.name in OWN or is_internal(stream.name):
        return None
    try:
        return catalog.pravega.controller.key_value_table_configuration(stream.scope, stream.name)
    except (KeyValueTableNotFoundError, PermissionDeniedError):
        return None  # who may not read it is told that there is neither a stream nor this


def _describe(
    catalog: Catalog, stream: Stream, configuration: KeyValueTableConfiguration, called: tuple[str, str]
) -> TableDescription:
    segment, row = _load(catalog, stream, configuration)
    table = _undeclared(stream, configuration) if row is None else _declared(stream, row)
    table = replace(table, first_segment=segment)
    if called != (stream.scope, stream.name):
        table = replace(table, called=called)
    keys = table.keys
    assert keys is not None
    properties = {
        "provider": PROVIDER,
        o.FORMAT.key: o.KEY_VALUE_FORMAT,
        o.PRIMARY_KEY.key: _spelled(keys.primary),
        o.VALUE_FORMAT.key: table.format,
        o.PARTITIONS.key: str(configuration.partitions),
    }
    if keys.secondary:
        properties[o.SECONDARY_KEY.key] = _spelled(keys.secondary)
    if row is not None and row.get("comment"):
        properties["comment"] = row["comment"]
    return TableDescription(
        name=table_name(catalog, table),
        schema=table.schema,
        properties=properties | dict(table.settings) | place(stream),
        metadata_columns=(),
        table=table,
        id=f"{stream}/{PART}/{segment}",
        events_are_rows=False,
        row_key=tuple(keys.names),
        takes_updates=True,
    )


def _load(
    catalog: Catalog, stream: Stream, configuration: KeyValueTableConfiguration
) -> tuple[int, Mapping[str, Any] | None]:
    """Return the first segment of a table, and what is kept of its columns."""
    kept = run_in_background(
        partial(ScopeTable(catalog.pravega, stream.scope).read, RowKind.KEY_VALUE_TABLE, stream.name)
    )
    segment = entries_of(catalog.pravega, _undeclared(stream, configuration)).segments()[0]
    row = kept()
    return segment, row if row is not None and row.get("segment") == segment else None


def _undeclared(stream: Stream, configuration: KeyValueTableConfiguration) -> StreamTable:
    primary, secondary = configuration.primary_key_length, configuration.secondary_key_length
    keys = KeyColumns(
        (KeyColumn("key", BINARY, primary),), (KeyColumn("secondary_key", BINARY, secondary),) if secondary else ()
    )
    columns = [StructField(name, BinaryType(), False) for name in (*keys.names, "value")]
    return entries_table(stream, RAW, StructType(columns), keys)


def _declared(stream: Stream, row: Mapping[str, Any]) -> StreamTable:
    columns, keys = StructType.fromJson(json.loads(row["columns"])), KeyColumns.from_json(row["keys"])
    return entries_table(stream, row["format"], columns, keys, schema_text=row["schema"], settings=row["settings"])


def _spelled(columns: Sequence[KeyColumn]) -> str:
    return ",".join(each.name if each.type in NUMBERS else f"{each.name}({each.bytes})" for each in columns)


def is_asked_for(properties: Mapping[str, str]) -> bool:
    """Tell whether the properties of CREATE TABLE are those of a key-value table."""
    return any(
        o.find_option(key) is o.FORMAT and text.strip().lower() == o.KEY_VALUE_FORMAT
        for key, text in properties.items()
    )


def check_name(catalog: Catalog, stream: Stream, properties: Mapping[str, str]) -> None:
    """Raise InvalidNameError if a new table would have the name of a hidden one, or hide or be hidden by another."""
    if is_asked_for(properties):
        if stream.name in OWN:
            raise InvalidNameError(
                f"{stream.name} is the key-value table in which the catalog keeps what it knows of the scope. Give "
                "the table another name."
            )
        if catalog.pravega.controller.stream_exists(stream):
            raise InvalidNameError(
                f"There is a stream {stream}, which has the name. Give the key-value table another one, or drop the "
                "stream first."
            )
    elif _configuration(catalog, stream) is not None and not catalog.pravega.controller.stream_exists(stream):
        raise InvalidNameError(
            f"There is a key-value table {stream}, which a stream of its name would hide. Declare the table with "
            f"'{o.FORMAT.key}'='{o.KEY_VALUE_FORMAT}' and the keys that it has, or give it another name."
        )


def create(
    catalog: Catalog,
    stream: Stream,
    called: tuple[str, str],
    schema: StructType,
    properties: Mapping[str, str],
    constraints: Sequence[Constraint],
    defaults: Mapping[str, str],
    adopt: bool,
) -> TableDescription:
    """Create a key-value table with its columns, or nothing.

    With `adopt` one that another program made gets columns, if its keys have their lengths. Raises StreamExistsError,
    ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the column.
    """
    check_new_stream(stream.name)
    table, options = _asked(catalog, stream, schema, properties, constraints, defaults)
    with shield():
        _make(catalog, table, options, properties.get("comment"), adopt)
    configuration = catalog.pravega.controller.key_value_table_configuration(stream.scope, stream.name)
    return _describe(catalog, stream, configuration, called)


def _make(catalog: Catalog, table: StreamTable, options: o.Options, comment: str | None, adopt: bool) -> None:
    """Make or adopt a key-value table, and keep its columns."""
    assert table.keys is not None
    stream, entries = table.stream, entries_of(catalog.pravega, table)
    partitions = options.get(o.PARTITIONS)
    found = _configuration(catalog, stream)
    made = False
    if found is None:
        made = entries.create(partitions, table.keys.primary_length, table.keys.secondary_length)
        found = None if made else _configuration(catalog, stream)  # somebody made it just now, or this, unanswered
    if not made:
        if not adopt or found is None or _load(catalog, stream, found)[1] is not None:
            raise StreamExistsError(f"The key-value table {stream} exists.")
        _check_adoption(found, table.keys, partitions if options.is_set(o.PARTITIONS) else None)
    row = {
        "segment": entries.segments()[0],
        "declaration": uuid.uuid4().hex,
        "name": stream.name,
        "format": table.format,
        "columns": table.schema.json(),
        "schema": table.schema_text,
        "keys": table.keys.to_json(),
        "settings": dict(table.settings),
        "comment": comment,
    }
    try:
        ScopeTable(catalog.pravega, stream.scope).change(
            RowKind.KEY_VALUE_TABLE, stream.name, partial(_declaration, stream, row)
        )
    except BaseException:
        if made:
            _undo(catalog, stream, row)
        raise


def _declaration(stream: Stream, row: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a table that nobody else has declared meanwhile."""
    if _is_of_others(before, row):
        raise StreamExistsError(f"The key-value table {stream} exists.")
    return row


def _undo(catalog: Catalog, stream: Stream, row: Mapping[str, Any]) -> None:
    """Drop a table that was made, unless somebody else has declared its columns, or made another, meanwhile."""
    before: Mapping[str, Any] | None = None
    with suppress(PermissionDeniedError):
        before = ScopeTable(catalog.pravega, stream.scope).read(RowKind.KEY_VALUE_TABLE, stream.name)
    if before is None or not _is_of_others(before, row):
        drop(catalog, stream, row["segment"])


def _is_of_others(before: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Tell whether what is kept is another declaration of the same table."""
    return bool(before.get("segment") == row["segment"]) and before.get("declaration") != row["declaration"]


def _asked(
    catalog: Catalog,
    stream: Stream,
    schema: StructType,
    properties: Mapping[str, str],
    constraints: Sequence[Constraint],
    defaults: Mapping[str, str],
) -> tuple[StreamTable, o.Options]:
    """Return the table that CREATE TABLE asks for, with its options."""
    if defaults:
        raise UnsupportedOperationError(
            f"DEFAULT of column {next(iter(defaults))} is not possible on {catalog.named(stream.scope, stream.name)}: "
            "a key-value table keeps no defaults. Leave it out."
        )
    others = {key: text for key, text in properties.items() if o.find_option(key) is not o.FORMAT}
    options = catalog.options(properties=others)
    format = options.get(o.VALUE_FORMAT)
    settings = {}
    for option in o.OPTIONS.values():
        if options.source(option) is o.Source.PROPERTY and option not in _PROPERTIES:
            text = options.text(option)
            if text is None or not option.known_to(format, False):
                raise InvalidOptionError(
                    f"'{option.key}' has no meaning with 'format'='{o.KEY_VALUE_FORMAT}'"
                    + (f" and '{o.VALUE_FORMAT.key}'='{format}'. " if option.of_formats else ". ")
                    + "Leave it out."
                )
            settings[option.key] = text
    keys = key_columns(catalog, stream, schema, options, constraints)
    named = set(keys.names)
    columns = StructType([_never_null(each) if each.name in named else each for each in schema])
    table = entries_table(stream, format, columns, keys, settings=settings)
    values = value_columns(table, columns)
    if not values.fields:
        raise UnsupportedTypeError(
            "All of its columns are in the key, but an entry needs a value. Declare a column that is not in the key."
        )
    if format != RAW:
        text = find_format(format).schema_text(values, stream.name, stream.scope, properties.get("comment"), settings)
        return replace(table, schema_text=text), options
    if len(values) != 1 or not isinstance(values[0].dataType, BinaryType):
        declared = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in values)
        raise UnsupportedTypeError(
            f"'{o.VALUE_FORMAT.key}'='{RAW}' needs one column of type BINARY beside the keys, but there is {declared}. "
            f"Declare it, or choose '{o.VALUE_FORMAT.key}'='json' or 'avro'."
        )
    return table, options


def _never_null(field: StructField) -> StructField:
    """Return a column that is never null."""
    return StructField(field.name, field.dataType, False, field.metadata)


def _check_adoption(found: KeyValueTableConfiguration, keys: KeyColumns, partitions: int | None) -> None:
    asked = KeyValueTableConfiguration(partitions or found.partitions, keys.primary_length, keys.secondary_length)
    if asked != found:
        has, key = counted(found.partitions, "partition"), counted(found.primary_key_length, "byte")
        raise InvalidOptionError(
            f"There is a key-value table of this name with {has}, primary keys of {key} and secondary "
            f"keys of {found.secondary_key_length}. The table that is declared has {asked.partitions}, "
            f"{asked.primary_key_length} and {asked.secondary_key_length}. Declare keys of these lengths."
        )


def drop(catalog: Catalog, stream: Stream, only: int | None = None) -> bool:
    """Drop a key-value table with its entries; False when there is none. `only`: the one with this first segment.

    What was kept of its columns is left to those who may change it: it says nothing of another table of the name.
    """
    configuration = _configuration(catalog, stream)
    if configuration is None:
        return False
    segment = None
    try:
        with suppress(PermissionDeniedError):
            segment = entries_of(catalog.pravega, _undeclared(stream, configuration)).segments()[0]
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
