"""What a user sees of running queries: a block of lines on a terminal that is drawn anew, else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from pyspark.sql.streaming.query import StreamingQuery

TERMINAL_INTERVAL = 1.0
PLAIN_INTERVAL = 10.0


class ProgressDisplay:
    """Shows the progress of queries on standard error, or where else it is told to."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stderr
        self._terminal = self._out.isatty()
        self._drawn = 0
        self._shown_at = time.monotonic()
        self._shown: dict[str, str] = {}

    def message(self, text: str) -> None:
        """Show a line that stays."""
        self._erase()
        print(text, file=self._out, flush=True)

    def show(self, queries: Sequence[StreamingQuery], *, now: bool = False) -> None:
        """Show the state of the queries if it is time to, or `now`."""
        interval = TERMINAL_INTERVAL if self._terminal else PLAIN_INTERVAL
        if not queries or (not now and time.monotonic() - self._shown_at < interval):
            return
        self._shown_at = time.monotonic()
        lines = {str(query.id): progress_line(query.name, query.lastProgress) for query in queries}
        if self._terminal:
            self._erase()
            width = shutil.get_terminal_size().columns - 1
            self._out.write("".join(f"{line[:width]}\n" for line in lines.values()))
            self._out.flush()
            self._drawn = len(lines)
        else:
            for query, line in lines.items():
                if self._shown.get(query) != line:
                    print(line, file=self._out, flush=True)
            self._shown = lines

    def leave(self) -> None:
        """Leave what is drawn where it is."""
        self._drawn = 0

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0


def progress_line(name: str, progress: Mapping[str, Any] | None) -> str:
    """Say in one line how far a query is: batch, rows in and out per second, how far it is behind its sources."""
    if progress is None:
        return f"{name}: starting"
    parts = [f"batch {progress['batchId']}", f"{_number(progress.get('processedRowsPerSecond'))} rows/s in"]
    written = progress["sink"].get("numOutputRows", -1)
    seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    if written >= 0 and seconds:
        parts.append(f"{_number(written / seconds)} rows/s out")
    parts += [behind for source in progress["sources"] if (behind := _behind(source.get("metrics") or {}))]
    return f"{name}: {', '.join(parts)}"


def _behind(metrics: Mapping[str, str]) -> str:
    return ""


def _number(value: float | None) -> str:
    return f"{value or 0:,.0f}"
