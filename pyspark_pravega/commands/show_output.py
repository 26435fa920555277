"""Print what `pyspark-pravega show` finds: as tables for people, as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from pyspark_pravega.values_as_text import convert_to_json, escape_controls, format_cell

_WIDE = 10_000
"""Columns of an output that is not a terminal, where nothing is cut."""


def print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, right: Sequence[str] = ()) -> None:
    """Print rows with a line of headings; `right` are the columns of numbers."""
    from rich import box  # takes its time to load
    from rich.console import Console
    from rich.table import Table

    terminal = sys.stdout.isatty()
    console = Console(markup=False, highlight=False, emoji=False, width=None if terminal else _WIDE)
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(escape_controls(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(format_cell(row.get(column)) for column in columns))
    console.print(table)


def print_rows(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    as_json: bool,
    nothing: str | None = None,
    *,
    right: Sequence[str] = (),
) -> None:
    """Print rows as JSON or as a table; without rows, the sentence `nothing` in place of a table, if there is one."""
    if as_json:
        print_json(rows)
    elif rows or nothing is None:
        print_table(rows, columns, right=right)
    else:
        click.echo(nothing)


def print_json_lines(rows: Sequence[dict[str, Any]]) -> None:
    """Print each row as a line of JSON, at once."""
    for row in rows:
        print(json.dumps(convert_to_json(row), ensure_ascii=False), flush=True)


def print_json(value: Any) -> None:
    """Print a value as JSON; `convert_to_json` says how."""
    print(json.dumps(convert_to_json(value), indent=2, ensure_ascii=False))
