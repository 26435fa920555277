"""Limits of a micro-batch: how much it may hold, and how much must have come before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.sql import options as o


@dataclass(frozen=True)
class Limits:
    """At most so many bytes and rows; not before there are `min_rows`, or `max_delay_ms` are over. None: any number."""

    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay_ms: int = 0


NO_LIMITS = Limits()


def limits_of(options: o.Options) -> Limits:
    """Return the limits that the options of a streaming query give."""
    return Limits(
        max_bytes=options.get(o.MAX_BYTES_PER_TRIGGER),
        max_rows=options.get(o.MAX_ROWS_PER_TRIGGER),
        min_rows=options.get(o.MIN_ROWS_PER_TRIGGER),
        max_delay_ms=round(options.get(o.MAX_TRIGGER_DELAY).total_seconds() * 1000),
    )
