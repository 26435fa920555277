"""The key columns of new key-value tables, as properties and constraints of CREATE TABLE spell them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql.types import DataType, StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.key_value.keys import BINARY, NUMBERS, STRING
from pyspark_pravega.datasource.tables.key_columns import KeyColumn, KeyColumns
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError, UnsupportedTypeError, shorten
from pyspark_pravega.formats.core.arrow_types import replace_char_types
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.sql import options as o

from ..protocol import Constraint
from ..storage.connections import Catalog

MAX_KEY_LENGTH = 8 * 1024
"""Most bytes of a key (server constant)."""

_KEY_COLUMN = re.compile(r"\s*([^(),]+?)\s*(?:\(\s*(\d+)\s*\))?\s*")


def key_columns(
    catalog: Catalog, stream: Stream, schema: StructType, options: o.Options, constraints: Sequence[Constraint]
) -> KeyColumns:
    """Return the columns of the keys that CREATE TABLE asks for by properties, or by a PRIMARY KEY.

    Raises InvalidOptionError, UnsupportedTypeError, UnsupportedOperationError for other constraints.
    """
    shown = catalog.named(stream.scope, stream.name)
    given = options.get(o.PRIMARY_KEY)
    for each in constraints:
        if each.kind != "PrimaryKey" or each.enforced:
            raise UnsupportedOperationError(
                f"{each.text} is not possible on {shown}: nothing checks what is written. Leave it out."
            )
        given = given or ",".join(each.columns)
    if given is None:
        raise InvalidOptionError(
            f"'format'='{o.KEY_VALUE_FORMAT}' needs '{o.PRIMARY_KEY.key}', the columns of the primary key with the "
            "bytes of strings, for example 'id' or 'country(2),id'."
        )
    keys = KeyColumns(
        _parsed(o.PRIMARY_KEY.key, given, schema), _parsed(o.SECONDARY_KEY.key, options.get(o.SECONDARY_KEY), schema)
    )
    twice = {name for name in keys.names if keys.names.count(name) > 1}
    if twice:
        raise InvalidOptionError(f"The column {min(twice)} is named twice in the keys. Name each once.")
    for each in constraints:
        if list(each.columns) != keys.names:
            raise InvalidOptionError(
                f"{each.text} and the keys {', '.join(keys.names)} differ. Leave the constraint out: the properties "
                f"'{o.PRIMARY_KEY.key}' and '{o.SECONDARY_KEY.key}' are the key."
            )
    if keys.length > MAX_KEY_LENGTH:
        raise InvalidOptionError(f"A key has {keys.length:,} bytes; Pravega allows at most {MAX_KEY_LENGTH:,}.")
    return keys


def _parsed(option: str, given: str | None, schema: StructType) -> tuple[KeyColumn, ...]:
    columns = []
    for part in [] if given is None else given.split(","):
        match = _KEY_COLUMN.fullmatch(part)
        if match is None:
            raise InvalidOptionError(
                f"'{option}'='{shorten(given or '')}' is no list of columns such as 'id' or 'country(2),id'."
            )
        field = find_column(option, match[1], schema)
        columns.append(_key_column(option, field.name, replace_char_types(field.dataType), match[2]))
    return tuple(columns)


def _key_column(option: str, name: str, type: DataType, given: str | None) -> KeyColumn:
    text = type.simpleString()
    if text in NUMBERS:
        width = NUMBERS[text][0]
        if given is not None and int(given) != width:
            raise InvalidOptionError(
                f"'{option}' gives the column {name} {given} bytes, but a {text} has {width}. Leave the number out."
            )
        return KeyColumn(name, text, width)
    if text not in (STRING, BINARY):
        raise UnsupportedTypeError(
            f"'{option}' names the column {name} of type {text}, which has no fixed number of bytes. Keys can be "
            f"{', '.join(NUMBERS)}, and string and binary with a length."
        )
    if given is None or not 0 < int(given) <= MAX_KEY_LENGTH:
        raise InvalidOptionError(
            f"'{option}' needs the number of bytes of the column {name}, a {text}: Pravega's keys have a fixed length. "
            f"Write for example '{name}(16)', with a number from 1 to {MAX_KEY_LENGTH:,}."
        )
    return KeyColumn(name, text, int(given))
