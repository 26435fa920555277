"""CREATE TABLE of a key-value table: its key columns, the table in Pravega, and the record of its columns."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql.types import DataType, LongType, StructField, StructType

from pyspark_pravega import errors
from pyspark_pravega.client.cancellation import shield
from pyspark_pravega.client.stream import KeyValueTableConfiguration, Stream
from pyspark_pravega.datasource.key_value.entry_scan import open_entries, select_value_columns
from pyspark_pravega.datasource.key_value.keys import BINARY, NUMBERS, STRING
from pyspark_pravega.datasource.tables.stream_table import KeyColumn, KeyColumns, StreamTable, make_entries_table
from pyspark_pravega.errors import format_count, shorten
from pyspark_pravega.formats.core.arrow_types import replace_char_types
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream

from ..protocol import Constraint, CreateTable
from ..protocol.service_replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import Address
from ..tables.key_value_tables import OWN, drop, find_configuration, find_made, load

_PROPERTIES = (o.FORMAT, o.PRIMARY_KEY, o.SECONDARY_KEY, o.VALUE_FORMAT, o.EPOCH_COLUMN, o.PARTITIONS)
MAX_KEY_LENGTH = 8 * 1024
"""Most bytes of a key (server constant)."""

_KEY_COLUMN = re.compile(r"\s*([^(),]+?)\s*(?:\(\s*(\d+)\s*\))?\s*")


def is_key_value_table(properties: Mapping[str, str]) -> bool:
    """Return whether the properties of CREATE TABLE ask for a key-value table."""
    return any(
        o.find_option(key) is o.FORMAT and text.strip().lower() == o.KEY_VALUE_FORMAT
        for key, text in properties.items()
    )


def check_name(catalog: Catalog, stream: Stream, properties: Mapping[str, str]) -> None:
    """Raise InvalidNameError if a new table would have the name of a hidden one, or hide or be hidden by another."""
    if is_key_value_table(properties):
        if stream.name in OWN:
            raise errors.InvalidNameError(
                f"{stream.name} is the key-value table in which the catalog keeps its own data about the scope. Give "
                "the table another name."
            )
        if catalog.pravega.controller.stream_exists(stream):
            raise errors.InvalidNameError(
                f"There is a stream {stream}, which has this name. Give the key-value table another one, or drop the "
                "stream first."
            )
    elif find_configuration(catalog, stream) is not None and not catalog.pravega.controller.stream_exists(stream):
        raise errors.InvalidNameError(
            f"There is a key-value table {stream}, which a stream of that name would hide. Declare the table with "
            f"'{o.FORMAT.key}'='{o.KEY_VALUE_FORMAT}' and the keys that it has, or give it another name."
        )


def create_entries(catalog: Catalog, address: Address, request: CreateTable) -> TableDescription:
    """Create a key-value table with its columns, or nothing.

    With `adopt` one that another program made gets columns, if its keys have their lengths. Raises StreamExistsError,
    ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the column.
    """
    stream = address.stream
    check_new_stream(stream.name)
    table, options = _declare(catalog, stream, request)
    with shield():
        _make(catalog, table, options, request)
    if (described := load(catalog, address)) is None:
        raise errors.KeyValueTableNotFoundError(f"The key-value table {stream} has been dropped.")
    return described


def _make(catalog: Catalog, table: StreamTable, options: o.Options, request: CreateTable) -> None:
    """Make or adopt a key-value table, and keep its columns."""
    assert table.keys is not None
    stream, entries = table.stream, open_entries(catalog.pravega, table)
    partitions = options.get(o.PARTITIONS)
    existing = find_made(catalog, stream)
    is_created = False
    if existing is None:
        is_created = entries.create(partitions, table.keys.primary_length, table.keys.secondary_length)
        existing = None if is_created else find_made(catalog, stream)  # somebody made it just now, or this, unanswered
    if not is_created:
        if not request.adopt or existing is None or existing.row is not None:
            raise errors.StreamExistsError(f"The key-value table {stream} exists.")
        _check_adoption(existing.configuration, table.keys, partitions if options.is_set(o.PARTITIONS) else None)
    row = {
        "segment": entries.segments()[0],
        "declaration": uuid.uuid4().hex,
        "name": stream.name,
        "format": table.format,
        "columns": table.schema.json(),
        "schema": table.schema_text,
        "keys": table.keys.to_json(),
        "settings": dict(table.settings),
        "comment": request.properties.get("comment"),
    }

    def choose_row(before: Mapping[str, Any]) -> Mapping[str, Any]:
        if _is_of_others(before, row):  # they have declared it in the meantime
            raise errors.StreamExistsError(f"The key-value table {stream} exists.")
        return row

    try:
        ScopeTable(catalog.pravega, stream.scope).change(RowKind.KEY_VALUE_TABLE, stream.name, choose_row)
    except BaseException:
        if is_created:
            _undo(catalog, stream, row)
        raise


def _undo(catalog: Catalog, stream: Stream, row: Mapping[str, Any]) -> None:
    """Drop a table that was made, unless somebody else has declared its columns, or made another, meanwhile."""
    before: Mapping[str, Any] | None = None
    with suppress(errors.PermissionDeniedError):
        before = ScopeTable(catalog.pravega, stream.scope).read(RowKind.KEY_VALUE_TABLE, stream.name)
    if before is None or not _is_of_others(before, row):
        drop(catalog, stream, row["segment"])


def _is_of_others(before: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether the stored row is another declaration of the same table."""
    return bool(before.get("segment") == row["segment"]) and before.get("declaration") != row["declaration"]


def _declare(catalog: Catalog, stream: Stream, request: CreateTable) -> tuple[StreamTable, o.Options]:
    """Return the table that CREATE TABLE asks for, with its options."""
    schema, properties = request.schema, request.properties
    if request.defaults:
        shown = catalog.named(stream.scope, stream.name)
        raise errors.UnsupportedOperationError(
            f"DEFAULT of column {next(iter(request.defaults))} is not possible on {shown}: "
            "a key-value table keeps no defaults. Leave it out."
        )
    others = {key: text for key, text in properties.items() if o.find_option(key) is not o.FORMAT}
    options = catalog.options(properties=others)
    format = options.get(o.VALUE_FORMAT)
    settings = {}
    for option in o.OPTIONS.values():
        if options.source(option) is o.Source.PROPERTY and option not in _PROPERTIES:
            text = options.text(option)
            if text is None or not option.is_known_to(format, False):
                raise errors.InvalidOptionError(
                    f"'{option.key}' does not apply with 'format'='{o.KEY_VALUE_FORMAT}'"
                    + (f" and '{o.VALUE_FORMAT.key}'='{format}'. " if option.of_formats else ". ")
                    + "Leave it out."
                )
            settings[option.key] = text
    keys = choose_key_columns(catalog, stream, schema, options, request.constraints)
    if (epoch := options.get(o.EPOCH_COLUMN)) is not None:
        settings[o.EPOCH_COLUMN.key] = _check_epoch_column(epoch, schema, keys)
    columns = StructType(
        [
            StructField(field.name, field.dataType, field.nullable and field.name not in keys.names, field.metadata)
            for field in schema
        ]
    )
    table = make_entries_table(stream, format, columns, keys, settings=settings)
    values = select_value_columns(table, columns)
    if not values.fields:
        raise errors.UnsupportedTypeError(
            "All of its columns are in the key, but an entry needs a value. Declare a column that is not in the key."
        )
    try:
        layout = Layout(values, settings=settings)
        text = find_format(format).schema_text(layout, stream.name, stream.scope, properties.get("comment"))
    except errors.UnsupportedTypeError as error:
        raise errors.UnsupportedTypeError(
            f"'{o.VALUE_FORMAT.key}'='{format}' does not fit the columns outside the key: {error.message}"
        ) from None
    return replace(table, schema_text=text or None), options


def _check_epoch_column(name: str, columns: StructType, keys: KeyColumns) -> str:
    """Return the exact name of the column for epochs. Raises InvalidOptionError for one that cannot hold them."""
    setting = f"'{o.EPOCH_COLUMN.key}'='{shorten(name)}'"
    fields = [field for field in columns if field.name == name] or [
        field for field in columns if field.name.lower() == name.lower()
    ]
    if len(fields) != 1:
        raise errors.InvalidOptionError(
            f"{setting} is not a column of the table, which has {', '.join(columns.names)}. Declare it as BIGINT in "
            "CREATE TABLE. The sink of a streaming query writes it, so the query must not compute it."
        )
    field = fields[0]
    if field.name in keys.names:
        raise errors.InvalidOptionError(f"{setting} is in the key. Name a column of type BIGINT outside the key.")
    if not isinstance(field.dataType, LongType):
        raise errors.InvalidOptionError(
            f"{setting} is a column of type {field.dataType.simpleString()}, but epochs are of type BIGINT."
        )
    return field.name


def _check_adoption(existing: KeyValueTableConfiguration, keys: KeyColumns, partitions: int | None) -> None:
    differences = [
        f"{kind} keys of {format_count(has, 'byte')}, not {needed}"
        for kind, has, needed in (
            ("primary", existing.primary_key_length, keys.primary_length),
            ("secondary", existing.secondary_key_length, keys.secondary_length),
        )
        if has != needed
    ]
    cures = ["declare keys of these lengths"] if differences else []
    if partitions not in (None, existing.partitions):
        differences.append(f"{format_count(existing.partitions, 'partition')}, not {partitions}")
        cures.append(f"leave '{o.PARTITIONS.key}' out")
    if cure := " and ".join(cures):
        listed = " and ".join(differences)
        raise errors.InvalidOptionError(
            f"There is a key-value table of this name, which has {listed}. {cure[0].upper()}{cure[1:]}."
        )


def choose_key_columns(
    catalog: Catalog, stream: Stream, schema: StructType, options: o.Options, constraints: Sequence[Constraint]
) -> KeyColumns:
    """Return the columns of the keys that CREATE TABLE asks for by properties, or by a PRIMARY KEY.

    Raises InvalidOptionError, UnsupportedTypeError, UnsupportedOperationError for other constraints.
    """
    shown = catalog.named(stream.scope, stream.name)
    text = options.get(o.PRIMARY_KEY)
    for constraint in constraints:
        if constraint.kind != "PrimaryKey" or constraint.enforced:
            raise errors.UnsupportedOperationError(
                f"{constraint.text} is not possible on {shown}: nothing checks what is written. Leave it out."
            )
        text = text or ",".join(constraint.columns)
    if text is None:
        raise errors.InvalidOptionError(
            f"'format'='{o.KEY_VALUE_FORMAT}' needs '{o.PRIMARY_KEY.key}', the columns of the primary key with the "
            "bytes of strings, for example 'id' or 'country(2),id'."
        )
    keys = KeyColumns(
        _parse_key(o.PRIMARY_KEY.key, text, schema),
        _parse_key(o.SECONDARY_KEY.key, options.get(o.SECONDARY_KEY), schema),
    )
    twice = {name for name in keys.names if keys.names.count(name) > 1}
    if twice:
        raise errors.InvalidOptionError(f"The column {min(twice)} is named twice in the keys. Name each once.")
    for constraint in constraints:
        if list(constraint.columns) != keys.names:
            raise errors.InvalidOptionError(
                f"{constraint.text} and the keys {', '.join(keys.names)} differ. Leave the constraint out: the "
                f"properties '{o.PRIMARY_KEY.key}' and '{o.SECONDARY_KEY.key}' are the key."
            )
    if keys.length > MAX_KEY_LENGTH:
        raise errors.InvalidOptionError(f"A key has {keys.length:,} bytes; Pravega allows at most {MAX_KEY_LENGTH:,}.")
    return keys


def _parse_key(option: str, text: str | None, schema: StructType) -> tuple[KeyColumn, ...]:
    columns = []
    for part in [] if text is None else text.split(","):
        match = _KEY_COLUMN.fullmatch(part)
        if match is None:
            raise errors.InvalidOptionError(
                f"'{option}'='{shorten(text or '')}' is not a list of columns such as 'id' or 'country(2),id'."
            )
        field = find_column(option, match[1], schema)
        columns.append(_make_key_column(option, field.name, replace_char_types(field.dataType), match[2]))
    return tuple(columns)


def _make_key_column(option: str, name: str, type: DataType, number: str | None) -> KeyColumn:
    text = type.simpleString()
    if text in NUMBERS:
        width = NUMBERS[text][0]
        if number is not None and int(number) != width:
            raise errors.InvalidOptionError(
                f"'{option}' gives the column {name} {number} bytes, but a {text} has {width}. Leave the number out."
            )
        return KeyColumn(name, text, width)
    if text not in (STRING, BINARY):
        raise errors.UnsupportedTypeError(
            f"'{option}' names the column {name} of type {text}, which has no fixed number of bytes. Keys can be "
            f"{', '.join(NUMBERS)}, and string and binary with a length."
        )
    if number is None or not 0 < int(number) <= MAX_KEY_LENGTH:
        raise errors.InvalidOptionError(
            f"'{option}' needs the number of bytes of the column {name}, a {text}: Pravega's keys have a fixed length. "
            f"Write for example '{name}(16)', with a number from 1 to {MAX_KEY_LENGTH:,}."
        )
    return KeyColumn(name, text, int(number))
