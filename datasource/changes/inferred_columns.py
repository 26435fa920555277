"""Infers the columns of a table of changes, if its DDL declares none, from the schemas in its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.tail import TAIL_LIMIT, read_tail
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import SegmentNotFoundError, UnsupportedTypeError
from pyspark_pravega.formats.changes.feed import find_change_format
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.framing import CONFLUENT, read_encoding_ids

from ..positions.snapshot import SegmentSlice, drop_empty, measure_segments

ALL_TAILS = 32 * 1024 * 1024
LONGEST_TAIL = 16 * 1024 * 1024
SHORTEST_TAIL = 256 * 1024
"""Bytes to read: of all segments together, and at most and at least of each segment."""

MOST_SEGMENTS = 256
"""The most segments to read: sealed ones are left out beyond this, the oldest first."""


def infer_columns(pravega: Pravega, stream: Stream, format: str, settings: Mapping[str, str]) -> StructType | None:
    """Return the columns of the newest schema among the last events of all segments; None if no event has one.

    Raises StreamNotFoundError, InvalidOptionError, UnsupportedTypeError for schemas that contradict each other, and for
    a segment in whose last bytes no event can be found, as it could have the newest schema.
    """
    change_format = find_change_format(format)
    slices = drop_empty(measure_segments(pravega, stream))
    return change_format.infer_columns(_read_tails(pravega, stream, _select_newest(pravega, stream, slices)), settings)


def find_newest_id(pravega: Pravega, stream: Stream) -> int | None:
    """Return the greatest of the ids that the last events of segments have in Confluent's header; None without any."""
    slices = _select_newest(pravega, stream, drop_empty(measure_segments(pravega, stream)))
    ids = [read_encoding_ids(events, CONFLUENT)[0] for events in _read_tails(pravega, stream, slices)]
    # The first bytes of a tail may not be an event, and a tombstone has no id.
    return max((int(each[each >= 0][-1]) for each in ids if (each >= 0).any()), default=None)


def _select_newest(pravega: Pravega, stream: Stream, slices: Sequence[SegmentSlice]) -> list[SegmentSlice]:
    """Return the slices of the newest sealed segments, older ones first, and of all current segments."""
    current = {segment.segment_id for segment in pravega.controller.current_segments(stream)}
    sealed = [piece for piece in slices if piece.segment_id not in current]
    kept = max(MOST_SEGMENTS - len(slices) + len(sealed), 0)
    sealed.sort(key=lambda piece: piece.segment_id)  # a segment's id begins with its epoch
    return [*sealed[max(len(sealed) - kept, 0) :], *(piece for piece in slices if piece.segment_id in current)]


def _read_tails(pravega: Pravega, stream: Stream, slices: Sequence[SegmentSlice]) -> Iterator[EventBuffer]:
    size = min(max(ALL_TAILS // max(len(slices), 1), SHORTEST_TAIL), LONGEST_TAIL)
    for piece in slices:
        try:
            tail = read_tail(pravega.segments, stream, piece.segment_id, piece.start, piece.end, size)
        except SegmentNotFoundError:
            continue  # retention has removed it meanwhile
        if tail is None:
            raise UnsupportedTypeError(
                f"The columns cannot be inferred: no event can be found in the last {TAIL_LIMIT:,} bytes of "
                f"segment {piece.segment_id} of stream {stream}. Declare the table's columns."
            )
        yield EventBuffer(tail.data, tail.starts, tail.lengths)
