"""What CREATE TABLE declares beside columns: constraints and defaults, and which tables can have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.datasource.kinds.opening import kind_with_format
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError, shorten
from pyspark_pravega.formats.core.defaults import CURRENT_DEFAULT, add_default
from pyspark_pravega.formats.core.edited_columns import EditableFormat
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o

from ..protocol import Constraint


def with_primary_key(
    table: str, properties: Mapping[str, str], format: str, constraints: Sequence[Constraint]
) -> dict[str, str]:
    """Return a table's properties with the primary key of its constraints.

    Raises UnsupportedOperationError for a constraint that no stream keeps, and InvalidOptionError for a primary key
    beside another one.
    """
    found = dict(properties)
    for each in constraints:
        if each.kind != "PrimaryKey" or each.enforced:
            raise UnsupportedOperationError(
                f"{each.text} is not possible on {table}: nothing checks the events that are written to a stream. "
                "Leave it out."
            )
        if not kind_with_format(format).rows_have_keys:
            raise UnsupportedOperationError(
                f"{each.text} is not possible on {table} with 'format'='{format}': every event is a row of its own. "
                "A primary key tells the rows of a table of changes, such as one of 'format'='debezium-json'. Leave it "
                "out."
            )
        key = ",".join(each.columns)
        given = found.setdefault(o.PRIMARY_KEY.key, key)
        if tuple(name.strip() for name in given.split(",")) != each.columns:
            raise InvalidOptionError(
                f"'{o.PRIMARY_KEY.key}'='{shorten(given)}' and {each.text} are two primary keys. Leave one of them out."
            )
    return found


_TEXTS = re.compile(r"""\br'[^']*'|\br"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.IGNORECASE | re.DOTALL)
"""Literals, in which names are no functions."""

_OF_THE_MOMENT = re.compile(r"\b(current_\w+|curdate|now|localtimestamp|session_user|user)\b", re.IGNORECASE)
"""Functions whose value is another one with each statement: a schema that others read cannot say that."""


def with_defaults(table: str, columns: StructType, defaults: Mapping[str, str], format: str) -> StructType:
    """Return the columns of a new table with what their defaults are now.

    Raises UnsupportedOperationError for a format whose schemas say no defaults.
    """
    return StructType([_column(table, field, defaults.get(field.name), format) for field in columns])


def _column(table: str, field: StructField, initial: str | None, format: str) -> StructField:
    sql = (field.metadata or {}).get(CURRENT_DEFAULT)
    if sql is None:
        return field
    found = find_format(format)
    if not isinstance(found, EditableFormat) or found.changes:
        raise UnsupportedOperationError(
            f"DEFAULT {shorten(sql)} of column {field.name} is not possible on {table} with 'format'='{format}': "
            "its schema says no defaults. Leave DEFAULT out, or choose 'format'='avro' or 'json'."
        )
    return add_default(field, sql, None if _OF_THE_MOMENT.search(_TEXTS.sub(" ", sql)) else initial)
