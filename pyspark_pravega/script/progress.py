"""Show running queries: as a block of lines that is redrawn on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.errors import format_count

LOOK_INTERVAL = 1.0
"""Seconds between two looks at the queries, and between two drawings on a terminal."""
PLAIN_INTERVAL = 10.0
"""Seconds between two lines about a query if the output is not a terminal."""


class ProgressDisplay:
    """Shows the progress of queries on standard error or on another output."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stderr
        self._terminal = self._out.isatty()
        self._drawn = 0
        self._looked_at = self._shown_at = time.monotonic()
        self._progress: dict[str, QueryProgress] = {}
        self._shown: dict[str, str] = {}

    def message(self, text: str) -> None:
        """Show a line that stays."""
        self._erase()
        print(text, file=self._out, flush=True)

    def show(self, queries: Sequence[StreamingQuery], *, now: bool = False) -> None:
        """Show how far the queries are, if it is time to do so, or `now`."""
        passed = time.monotonic()
        if not now and passed - self._looked_at < LOOK_INTERVAL:
            return
        self._looked_at = passed
        for query in queries:
            self._progress.setdefault(query.name, QueryProgress(query.name)).add(query.recentProgress)
        if not now and not self._terminal and passed - self._shown_at < PLAIN_INTERVAL:
            return
        self._shown_at = passed
        lines = {name: progress.line() for name, progress in self._progress.items()}
        if not self._terminal:
            self._out.write("".join(f"{line}\n" for name, line in lines.items() if self._shown.get(name) != line))
        elif lines != self._shown or not self._drawn:
            self._erase()
            width = shutil.get_terminal_size().columns - 1
            self._out.write("".join(f"{line[:width]}\n" for line in lines.values()))
            self._drawn = len(lines)
        self._shown = lines
        self._out.flush()

    def leave(self) -> None:
        """Leave the drawn lines where they are."""
        self._drawn = 0

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0


class QueryProgress:
    """Adds up what a query reports about its batches."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._newest = ""
        self._last: Mapping[str, Any] | None = None
        self._batch: int | None = None
        self._rows_in = 0
        self._rows_out = 0

    def add(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Add the new reports; Spark keeps the last hundred."""
        for report in reports:
            # A query that waits for data reports the same batch again.
            if report["timestamp"] <= self._newest:
                continue
            self._newest = report["timestamp"]
            self._rows_in += report["numInputRows"]
            self._rows_out += max(0, report["sink"]["numOutputRows"])
            self._last = report
            if "addBatch" in report["durationMs"]:  # else nothing was done, and this is the number of the next batch
                self._batch = report["batchId"]

    def line(self) -> str:
        """Describe in one line how far the query is, the lag first: the end may be cut off."""
        if self._last is None:
            return f"{self._name}: starting"
        seconds = self._last["durationMs"].get("triggerExecution", 0) / 1000
        rows_in, rows_out = self._last["numInputRows"], self._last["sink"]["numOutputRows"]
        parts = [text for source in self._last["sources"] if (text := describe_lag(source.get("metrics") or {}))]
        parts += [] if self._batch is None else [f"batch {self._batch}"]
        out = f", {self._rows_out:,} out" if rows_out >= 0 else ""
        parts.append(f"{format_count(self._rows_in, 'row')} in{out}")
        if rows_in == 0 and rows_out <= 0:
            parts.append("idle")
        elif seconds:
            parts.append(f"{rows_in / seconds:,.0f}/s")
        return f"{self._name}: {', '.join(parts)}"


def describe_lag(metrics: Mapping[str, str]) -> str:
    """Describe how far a source is behind, by the metrics of Pravega's tables; empty for sources without these."""
    if "bytesBehind" not in metrics:
        return ""
    if not int(metrics["bytesBehind"]):
        return "up to date"
    parts = [f"{int(metrics['bytesBehind']) / 1024:,.0f} KiB"]
    if "secondsBehind" in metrics:
        parts.append(f"{float(metrics['secondsBehind']):,.0f} s")
    if "estimatedEventsBehind" in metrics:
        parts.append(f"about {format_count(int(metrics['estimatedEventsBehind']), 'event')}")
    return f"{', '.join(parts)} behind"
