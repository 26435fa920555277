"""Print what `pyspark-pravega show` finds: as tables for people, as JSON for programs."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WIDE = 10_000
"""Columns of an output that is not a terminal, where nothing is cut."""
_LONGEST_CELL = 200


def print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, right: Sequence[str] = ()) -> None:
    """Print rows with a line of headings; `right` are the columns of numbers."""
    terminal = sys.stdout.isatty()
    console = Console(markup=False, highlight=False, emoji=False, width=None if terminal else _WIDE)
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(escape_controls(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(format_cell(row.get(column)) for column in columns))
    console.print(table)


def print_json(value: Any) -> None:
    """Print a value as JSON; `convert_to_json` says how."""
    print(json.dumps(convert_to_json(value), indent=2, ensure_ascii=False))


def format_cell(value: Any) -> str:
    """Format a value for a cell of a table, without its middle if it is very long."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        text = value
    elif isinstance(value, datetime):
        text = value.isoformat(sep=" ")
    elif isinstance(value, bytes):
        text = f"X'{value[:_LONGEST_CELL].hex().upper()}'"
    elif isinstance(value, list | dict | tuple):
        text = json.dumps(convert_to_json(value), ensure_ascii=False)
    else:
        text = str(value)
    if len(text) > _LONGEST_CELL:
        text = f"{text[: _LONGEST_CELL - 20]}...{text[-16:]}"
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


def format_bytes(size: int) -> str:
    """Format a number of bytes for people: 1.5 MiB."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"
