"""Handles defaults of columns: what an INSERT writes if it names no value, and what events without the column hold."""

from __future__ import annotations

import base64
import math
from decimal import Context, Decimal
from typing import Any

import pyspark.sql.types as T

from pyspark_pravega.errors import UnsupportedTypeError, shorten

CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Spark's key in a column's metadata: the SQL expression that an INSERT writes."""

EXISTING_DEFAULT = "EXISTS_DEFAULT"
"""Spark's key in a column's metadata: the SQL expression of rows without the column. Spark wants both keys or none."""

INITIAL_VALUE = "spark.initial"
"""Our key in the metadata of a column that is about to be written into a schema: its default, evaluated, as text."""

NO_VALUE = "NULL"
EXACT = Context(prec=76)
"""Enough digits for every decimal of Spark. The default context has fewer, and would round."""

_WHOLE = (T.IntegralType, T.DateType, T.TimestampType, T.TimestampNTZType, T.TimeType)


def add_default(field: T.StructField, sql: str, initial: str | None) -> T.StructField:
    """Return a column with this default. `initial`: its present value as text; None if it is NULL or not a constant."""
    metadata = dict(field.metadata or {})
    metadata[CURRENT_DEFAULT] = sql
    metadata.setdefault(EXISTING_DEFAULT, NO_VALUE if initial is None else sql)
    if initial is not None:
        metadata[INITIAL_VALUE] = initial
    return T.StructField(field.name, field.dataType, field.nullable, metadata)


def is_read_as_default(field: T.StructField) -> bool:
    """Return whether events without the column have a value other than NULL in it."""
    return bool((field.metadata or {}).get(EXISTING_DEFAULT, NO_VALUE) != NO_VALUE)


def remove_defaults(columns: T.StructType) -> T.StructType:
    """Return columns without their defaults, for a table that nothing is inserted into."""
    kept = T.StructType()
    for field in columns:
        metadata = dict(field.metadata or {})
        metadata.pop(CURRENT_DEFAULT, None)
        metadata.pop(EXISTING_DEFAULT, None)
        kept.add(field.name, field.dataType, field.nullable, metadata)
    return kept


def drop_initial_value(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a column without INITIAL_VALUE, which only serves to write its schema."""
    return {key: value for key, value in metadata.items() if key != INITIAL_VALUE}


def read_initial_value(field: T.StructField) -> Any:
    """Return the default of a new column, None if it has none.

    Dates are days, timestamps microseconds since 1970, and times of day nanoseconds since midnight.
    Raises UnsupportedTypeError for values that no schema can hold.
    """
    text = (field.metadata or {}).get(INITIAL_VALUE)
    if text is None:
        return None
    value = _parse_value(field.dataType, text)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise UnsupportedTypeError(
            f"column '{field.name}' cannot have DEFAULT {shorten(field.metadata[CURRENT_DEFAULT])}: a schema can hold "
            "defaults that are numbers, strings, booleans, dates, times or bytes, but not this "
            f"{field.dataType.simpleString()}. Leave DEFAULT out, and use COALESCE where the column is read"
        )
    return value


def _parse_value(data_type: T.DataType, text: str) -> Any:
    match data_type:
        case T.BooleanType():
            return text == "true"
        case T.StringType() | T.CharType() | T.VarcharType():
            return text
        case T.FloatType() | T.DoubleType():
            return float(text)
        case T.DecimalType():
            return Decimal(text).quantize(Decimal(1).scaleb(-data_type.scale), context=EXACT)
        case T.BinaryType():
            return base64.b64decode(text)
    return int(text) if isinstance(data_type, _WHOLE) else None
