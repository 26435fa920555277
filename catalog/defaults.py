"""DEFAULT in CREATE TABLE: which tables can have one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedOperationError, shorten
from pyspark_pravega.formats.core.defaults import CURRENT_DEFAULT, with_default
from pyspark_pravega.formats.core.edited_columns import EditableFormat
from pyspark_pravega.formats.core.format import find_format

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
    return with_default(field, sql, None if _OF_THE_MOMENT.search(_TEXTS.sub(" ", sql)) else initial)
