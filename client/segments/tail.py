"""Reads the last events of a segment, although their borders are unknown: frames lead only forward.

A short segment is read from its start. In the last bytes of a longer one, this looks for a header from which frame
follows frame up to exactly the segment's end. Bytes inside an event can look like headers too; of all chains that reach
the end, the one that begins first is taken. It can be wrong only before the place where it meets the true chain, so
that at most a few of its first events are not real events.
"""

from __future__ import annotations

import struct

from pyspark_pravega.errors import ProtocolError

from ..stream import Stream
from .event_frames import HEADER_BYTES, split
from .failures import SegmentAddress
from .fetch import read_bytes
from .range_reader import Window
from .store import SegmentStore

TAIL_LIMIT = 64 * 1024 * 1024
"""Most bytes of a segment that are searched."""

_STEPS = 4_000_000
"""Most headers that are followed in one search, which takes a few seconds if all bytes are zero."""

_TYPE = bytes(4)
_read_length = struct.Struct(">i").unpack_from


def read_tail(store: SegmentStore, stream: Stream, segment_id: int, start: int, end: int, size: int) -> Window | None:
    """Return the events in about the last `size` bytes of [start, end); both must be borders between events.

    If there is no border in the first half of these bytes, for instance because of a larger event, twice as many are
    searched, up to TAIL_LIMIT. Returns None if there is no border in those either, or the range is empty. Raises
    SegmentNotFoundError if the bytes have been truncated, ProtocolError for bytes that are not events, and the
    errors of `SegmentRangeReader` for connections.
    """
    address = SegmentAddress(stream, segment_id)
    if start >= end:
        return None
    while True:
        first = max(start, end - size)
        content = read_bytes(store, address, first, end)
        begin = 0 if first == start else find_border(content)
        if begin is not None and (first == start or begin <= len(content) // 2):
            break
        if size >= TAIL_LIMIT:
            return None
        size = min(2 * size, TAIL_LIMIT)
    try:
        starts, lengths, consumed = split(content, begin, len(content), position=first + begin, available=end - first)
    except ProtocolError as error:
        raise ProtocolError(f"segment '{address.name}': {error.message}") from None
    if consumed != len(content):
        raise ProtocolError(f"segment '{address.name}' ends at offset {end:,}, inside an event")
    return Window(memoryview(content), starts, lengths, first)


def find_border(content: bytes | bytearray) -> int | None:
    """Return where the first event begins in the last bytes of a segment; None if that cannot be found.

    The first 8 bytes are skipped: the rest of a header there can look like another header.
    """
    end = len(content)
    passed = bytearray(end)  # positions from which no chain reaches the end
    left = _STEPS
    candidate = content.find(_TYPE, HEADER_BYTES)
    while candidate >= 0:
        at = candidate
        while at != end:
            if left == 0:
                return None
            left -= 1
            if at + HEADER_BYTES > end or passed[at] or content[at : at + 4] != _TYPE:
                break
            passed[at] = 1
            (length,) = _read_length(content, at + 4)
            if length < 0:
                break
            at += HEADER_BYTES + length
        else:
            return candidate
        candidate = content.find(_TYPE, candidate + 1)
    return None
