"""Checks which columns can be a routing key."""

from __future__ import annotations

import difflib

from pyspark.sql.types import BooleanType, DateType, DecimalType, IntegralType, StringType, StructType

from pyspark_pravega.errors import InvalidOptionError, UnsupportedTypeError

_KEY_TYPES = (StringType, IntegralType, BooleanType, DateType, DecimalType)


def routing_key_column(key: str, columns: StructType) -> str:
    """Return the exact name of the column that a `routing-key` names in any case.

    Raises InvalidOptionError when there is none, UnsupportedTypeError for one whose values have no one text.
    """
    names = columns.fieldNames()
    found = [key] if key in names else [name for name in names if name.lower() == key.lower()]
    if len(found) != 1:
        near = difflib.get_close_matches(key, names, 1, 0.6)
        hint = f"Did you mean '{near[0]}'?" if near else f"It is one of its columns: {', '.join(names)}."
        raise InvalidOptionError(f"'routing-key'='{key}' is no column of the table. {hint}")
    data_type = columns[found[0]].dataType
    if not isinstance(data_type, _KEY_TYPES):
        raise UnsupportedTypeError(
            f"'routing-key'='{key}' is a column of type {data_type.simpleString()}, which has no one text. Allowed "
            "are strings, whole numbers, decimals, booleans and dates."
        )
    return found[0]
