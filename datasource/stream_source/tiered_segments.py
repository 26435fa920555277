"""Joins the segments of a stream with what its lake has of them, as one streaming query reads both."""

from __future__ import annotations

from functools import partial

import numpy as np

from pyspark_pravega.client.segments.range_reader import Border, walk_events
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.sql import options as o

from ..lake.iceberg import LakeTable
from ..lake.open_lake import BELIEVED_SECONDS, find_history, find_lake_name, open_lake
from ..positions.snapshot import SegmentSlice
from ..scan.lake_reader import read_offsets
from ..tables.open_table import OpenTable
from .admission import Walk
from .frontier import StreamSegments


def join_history(opened: OpenTable, segments: StreamSegments) -> StreamSegments:
    """Return segments whose state has also what only the lake of the table has; the same if there is no lake."""
    if find_lake_name(opened) is None:
        return segments
    fail = opened.options.get(o.FAIL_ON_DATA_LOSS)
    return segments.join(partial(find_history, opened, oldest=BELIEVED_SECONDS), with_gaps=not fail)


def find_head(opened: OpenTable, *, oldest: float = 0.0) -> StreamCut:
    """Return where the events of a table begin: those of its lake, or else those of its stream."""
    history = find_history(opened, oldest=oldest)
    return opened.pravega.controller.head(opened.stream) if history is None else history.begin


def make_walk(opened: OpenTable) -> Walk[int]:
    """Return the walk over the events of a table's segments: over those of its lake, as far as it has them."""
    fail = opened.options.get(o.FAIL_ON_DATA_LOSS)
    walk_stream = partial(walk_events, opened.pravega.segments, opened.stream, fail_on_data_loss=fail)

    def walk(segment: int, start: int, end: int, most_bytes: int | None, most_events: int | None) -> Border:
        lake = open_lake(opened, oldest=BELIEVED_SECONDS)
        border = start if lake is None else min(lake.find_end(segment, start), end)
        if lake is None or border == start:
            return walk_stream(segment, start, end, most_bytes=most_bytes, most_events=most_events)
        reached = _walk_lake(lake, opened, SegmentSlice(segment, start, border), most_bytes, most_events)
        bytes_left = None if most_bytes is None else most_bytes - (border - start)
        events_left = None if most_events is None else most_events - reached.events
        if reached.offset < border or border == end or bytes_left == 0 or events_left == 0:
            return reached
        more = walk_stream(segment, border, end, most_bytes=bytes_left, most_events=events_left)
        return Border(more.offset, reached.events + more.events)

    return walk


def _walk_lake(
    lake: LakeTable, opened: OpenTable, piece: SegmentSlice, most_bytes: int | None, most_events: int | None
) -> Border:
    """Return the last border between events that a lake has of a slice, within the most bytes and events."""
    known = np.array([], np.int64)
    for offsets in read_offsets(lake, opened.stream, piece):
        known = np.concatenate([known, offsets])
        if most_events is not None and len(known) > most_events:
            break
        if most_bytes is not None and known[-1] > piece.start + most_bytes:
            break
    borders = np.append(known[1:], piece.end)
    number = len(borders) if most_events is None else min(most_events, len(borders))
    if most_bytes is not None:
        number = min(number, int(np.searchsorted(borders, piece.start + most_bytes, side="right")))
    return Border(int(borders[number - 1]), number) if number else Border(piece.start, 0)
