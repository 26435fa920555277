"""Draws a stream's segments: the key space from top to bottom, the epochs from left to right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark_pravega.values_as_text import format_bytes

WIDTH = 720
_HEIGHT = 260
_HEIGHT_OF_SEGMENT = 20
"""Of a stream that was never scaled, whose picture says little."""
LEFT, TOP = 44, 8
_MOST_EPOCHS = 40
_SHADES = 5


@dataclass(frozen=True)
class Box:
    """A segment in the picture. `shade` says how many bytes it holds, from 0 for none to 4 for the most."""

    x: float
    y: float
    width: float
    height: float
    shade: int
    sealed: bool
    title: str
    label: str


@dataclass(frozen=True)
class SegmentPicture:
    """What a template draws: `keys` and `epochs`, marks (place, text) on axes; `left_out` oldest epochs had no room."""

    boxes: Sequence[Box]
    keys: Sequence[tuple[float, str]]
    epochs: Sequence[tuple[float, str]]
    height: float
    left_out: int
    describes: str


def draw_segments(segments: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> SegmentPicture | None:
    """Draw the rows of the metadata tables `segments` and `scale_events`; None if no key range is known.

    Without rows of `scale_events`, for want of the right to them, a sealed segment seems to end with the next epoch.
    """
    placed = [row for row in segments if row["key_range_start"] is not None]
    if not placed:
        return None
    ended = {segment: event["epoch"] for event in events for segment in event["sealed_segments"]}
    times: dict[int, datetime | None] = {event["epoch"]: event["scaled_at"] for event in events}
    newest = max([row["epoch"] for row in placed] + list(times))
    oldest = min(row["epoch"] for row in placed)
    first = max(oldest, newest - _MOST_EPOCHS + 1)
    step = (WIDTH - LEFT) / (newest - first + 1)
    largest = max(row["bytes"] for row in placed)
    height = _HEIGHT if newest > oldest else min(_HEIGHT, _HEIGHT_OF_SEGMENT * len(placed))
    boxes = []
    for row in placed:
        end = ended.get(row["segment_id"], row["epoch"] + 1) if row["sealed"] else newest + 1
        if end > first:
            span = ((max(row["epoch"], first) - first) * step, (end - first) * step)
            boxes.append(_draw(row, span, height, largest))
    every = math.ceil((newest - first + 1) / 8)
    return SegmentPicture(
        boxes=boxes,
        keys=[(TOP + part * height, f"{part:g}") for part in (0, 0.25, 0.5, 0.75, 1) if height > 60 or part in (0, 1)],
        epochs=[
            (LEFT + (epoch - first) * step, f"epoch {epoch}" + (f", {time:%m-%d %H:%M}" if time else ""))
            for epoch in range(first, newest + 1, every)
            for time in [times.get(epoch)]
        ],
        height=height,
        left_out=first - oldest,
        describes=f"{len(boxes)} segments over the key space from 0 to 1, in epochs {first} to {newest}",
    )


def _draw(row: Mapping[str, Any], span: tuple[float, float], height: float, largest: int) -> Box:
    begin, end = span
    start, stop = row["key_range_start"], row["key_range_end"]
    shade = 0 if not row["bytes"] else max(1, math.ceil((_SHADES - 1) * row["bytes"] / largest))
    state = "sealed" if row["sealed"] else "open"
    part = (stop - start) * height
    return Box(
        x=round(LEFT + begin, 2),
        y=round(TOP + start * height, 2),
        width=round(end - begin, 2),
        height=round(part, 2),
        shade=shade,
        sealed=row["sealed"],
        title=f"segment {row['number']} of epoch {row['epoch']}, {state}: keys {start:.4g} to {stop:.4g}, "
        f"{format_bytes(row['bytes'])}",
        label=str(row["number"]) if part >= 14 and end - begin >= 16 else "",
    )
