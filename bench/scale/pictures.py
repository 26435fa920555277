"""Draw the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .chart import Chart, Points, draw_svg

Row: TypeAlias = dict[str, Any]
FORMATS = ("raw", "avro")
NAMES = {"raw": "Raw", "avro": "Avro", "json": "JSON"}
STATEMENTS = ("count(*)", "GROUP BY", "INSERT")
FLAT_FROM = 10_000_000
"""Least number of events for which the time per event is compared."""


def _read_rows(results: Path, name: str) -> list[Row]:
    file = results / f"{name}.json"
    return json.loads(file.read_text())["rows"] if file.exists() else []


def _make_line(rows: Sequence[Row], x: str, statement: str, key: str = "best", factor: float = 1.0) -> Points:
    return [(row[x], row[statement][key] * factor) for row in rows]


def _divide(rows: Sequence[Row], x: str, statement: str, units: Callable[[Row], float]) -> Points:
    return [(row[x], row[statement]["best"] * 1e6 / units(row)) for row in rows]


def compute_per_event(rows: Sequence[Row], statement: str) -> Points:
    """Microseconds of a whole statement for each event that it reads or writes; an INSERT adds to what is there."""
    counted = "inserted" if statement == "INSERT" else "events"
    return _divide(rows, "events", statement, lambda row: row[counted])


def _draw_events(results: Path) -> Iterator[Chart]:
    found = {format: rows for format in FORMATS if (rows := _read_rows(results, f"events-{format}"))}
    for format, rows in found.items():
        lines = {name: compute_per_event(rows[1:], name) for name in (*STATEMENTS, "bare read")}
        yield Chart(f"{NAMES[format]}: time of a statement for each event", "events", "µs", lines)
    for format, rows in found.items():
        memory = {kind: [(row["events"], row["memory"][kind]) for row in rows] for kind in rows[0]["memory"]}
        yield Chart(f"{NAMES[format]}: most memory resident", "events", "MiB", memory, linear=True)


def _draw_segments(results: Path) -> Iterator[Chart]:
    if rows := _read_rows(results, "segments"):
        ticks = [row["segments"] for row in rows]
        lines = {"count(*)": _divide(rows, "segments", "count(*)", lambda row: row["read"])}
        lines["GROUP BY"] = _divide(rows, "segments", "GROUP BY", lambda row: row["read"])
        lines["INSERT"] = _divide(rows, "segments", "INSERT", lambda row: row["events"])
        yield Chart("Time of a statement for each event", "segments", "µs", lines, ticks=ticks)
        small = {name: _make_line(rows, "segments", name, factor=1000) for name in ("LIMIT 10", "INSERT of 1 row")}
        yield Chart("Time of small statements", "segments", "ms", small, ticks=ticks)


def _draw_columns(results: Path) -> Iterator[Chart]:
    for format in ("avro", "json"):
        if rows := _read_rows(results, f"columns-{format}"):
            lines = {
                name: _divide(rows, "columns", name, lambda row: row["read"] * row["columns"])
                for name in ("all columns", "one column")
            }
            lines["INSERT"] = _divide(rows, "columns", "INSERT", lambda row: row["events"] * row["columns"])
            yield Chart(f"{NAMES[format]}: time of a statement for each value", "columns", "µs", lines)


def _draw_streams(results: Path) -> Iterator[Chart]:
    if rows := _read_rows(results, "streams"):
        ticks = [row["streams"] for row in rows]
        shown = {"SHOW TABLES": _make_line(rows, "streams", "SHOW TABLES")}
        yield Chart("SHOW TABLES", "streams in the scope", "s", shown, ("goal: 2 s", 2.0), ticks=ticks)
        loads = {"again, p95": _make_line(rows, "streams", "load", "p95")}
        loads["for the first time, p95"] = _make_line(rows, "streams", "first load", "p95")
        goal = ("goal, again: 20 ms", 20.0)
        yield Chart("Loading a table", "streams in the scope", "ms", loads, goal, ticks=ticks)


def _compute_rates(rows: Sequence[Row], x: str, statement: str) -> Points:
    return [(row[x], row["bytes"] / row[statement]["best"] / 1e6) for row in rows]


def _draw_writes(results: Path) -> Iterator[Chart]:
    if rows := _read_rows(results, "writes"):
        lines = {name: _compute_rates(rows, "size", name) for name in ("bare write", "INSERT")}
        yield Chart("INSERT by the size of events", "bytes of an event", "MB/s", lines)
    if rows := _read_rows(results, "links"):
        limited = [row for row in rows if row["rate"] is not None]
        link: Points = [(row["rate"], row["rate"]) for row in limited]
        rates = {"the link": link, "INSERT": _compute_rates(limited, "rate", "INSERT")}
        ticks = sorted(row["rate"] for row in limited)
        yield Chart("INSERT of 1.3 KB by the rate of the link", "MB/s of the link", "MB/s", rates, ticks=ticks)


PICTURES = {
    "events": _draw_events,
    "segments": _draw_segments,
    "columns": _draw_columns,
    "streams": _draw_streams,
    "writes": _draw_writes,
}


def main(results: Path, pictures: Path) -> None:
    """Draw what has been measured, and print how flat it is."""
    pictures.mkdir(parents=True, exist_ok=True)
    for name, drawn in PICTURES.items():
        if charts := list(drawn(results)):
            file = pictures / f"growth-{name}.svg"
            file.write_text(draw_svg(charts))
            print(f"{file}: {len(charts)} charts")
    for format in FORMATS:
        for name in (*STATEMENTS, "bare read"):
            flat = [y for x, y in compute_per_event(_read_rows(results, f"events-{format}"), name) if x >= FLAT_FROM]
            if len(flat) > 1:
                growth = flat[-1] / flat[0] - 1
                print(f"{format}, {name}: {flat[0]:.3f} to {flat[-1]:.3f} µs for each event, {growth:+.0%}")
