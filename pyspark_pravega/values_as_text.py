"""Formats values for people and for JSON: on a terminal, and on a page."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONGEST_CELL = 200


def format_cell(value: Any, longest: int = _LONGEST_CELL) -> str:
    """Format a value for a cell of a table, without its middle if it has more than `longest` characters."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        text = value
    elif isinstance(value, datetime):
        text = value.isoformat(sep=" ")
    elif isinstance(value, bytes):
        text = f"X'{value[:longest].hex().upper()}'"
    elif isinstance(value, list | dict | tuple):
        text = json.dumps(convert_to_json(value), ensure_ascii=False)
    else:
        text = str(value)
    if len(text) > longest:
        text = f"{text[: longest - 20]}...{text[-16:]}"
    return escape_controls(text)


def escape_controls(text: str) -> str:
    """Return a text whose control characters are escaped, so that a terminal does not obey them."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def convert_to_json(value: Any) -> Any:
    """Convert a value for JSON: times to ISO 8601, bytes to base64, decimals and non-finite numbers to strings."""
    if isinstance(value, dict):
        return {str(key): convert_to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def list_number_columns(table: Any) -> list[str]:
    """Return the names of the numeric columns of an Arrow table."""
    from pyarrow import types  # most commands have no table

    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    return [field.name for field in table.schema if any(is_kind(field.type) for is_kind in kinds)]


def format_bytes(size: int) -> str:
    """Format a number of bytes for people: 1.5 MiB."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"
