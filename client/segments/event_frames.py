"""Event frames: a segment is a run of `[type int32 = 0][length int32][payload]`, big-endian.

Segment stores do not check frames: a wrong one corrupts the stream for every reader. So only this module writes frames,
and it trusts nothing in a frame that it has not checked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega import native
from pyspark_pravega.errors import EventTooLargeError, InvalidRowError, ProtocolError

HEADER_BYTES = 8
"""Bytes of type and length before each payload."""

MAX_EVENT_SIZE = 8 * 1024 * 1024
"""Most payload bytes that are written: the limit of official clients (`Serializer.MAX_EVENT_SIZE`)."""

Offsets = npt.NDArray[np.int64]


class BrokenFrameError(ProtocolError):
    """Bytes at an offset of the segment that are not an event. Events after them cannot be recognized."""

    offset: int

    @classmethod
    def at(cls, offset: int, message: str) -> BrokenFrameError:
        """Return the error for an offset. Like all errors it takes one string, so that it can be pickled."""
        error = cls(message)
        error.offset = offset
        return error


_read_header = struct.Struct(">Q").unpack_from
"""Reads type and length as one number: the length if the type is 0, at least 2**31 if anything is wrong."""


def split(
    buffer: Any, begin: int, end: int, *, position: int = 0, available: int | None = None
) -> tuple[Offsets, Offsets, int]:
    """Find the whole events in `buffer[begin:end]`; `begin` must be the start of an event.

    Returns the positions of the payloads in `buffer`, their lengths in bytes, and the start of the first incomplete
    event (`end` if there is none).

    `position` is the segment offset of `buffer[begin]`, for messages. `available` is the number of bytes that exist
    from `begin` on: an event that reaches beyond them is corrupt, not merely incomplete. Raises BrokenFrameError with
    the segment offset of a frame that has a wrong type or an impossible length.
    """
    view = memoryview(buffer).cast("B")[:end]
    module = native.get_module()
    if module is None:
        starts, lengths, at = _find_whole_frames(view, begin)
    else:
        frames = module.whole_frames(view, begin, end)
        starts, lengths, at = np.frombuffer(frames[0], np.int64), np.frombuffer(frames[1], np.int64), frames[2]
    if at + HEADER_BYTES <= end:
        _check_incomplete(view, at, begin, position, available)
    return starts, lengths, at


def _find_whole_frames(view: memoryview, begin: int) -> tuple[Offsets, Offsets, int]:
    """Return what the native function `whole_frames` returns.

    The loop deliberately checks nothing, since it is what small events cost: the successor of a frame that is wrong or
    long lies past the end of the view, and reading there ends the loop.
    """
    frames: list[int] = []
    at, add, read = begin, frames.append, _read_header
    with suppress(struct.error, OverflowError):
        while True:
            (length,) = read(view, at)
            add(at)
            at += length + HEADER_BYTES
    if at > len(view):
        at = frames.pop()  # it is not whole
    starts = np.array(frames, np.int64)
    return starts + HEADER_BYTES, np.diff(starts, append=at) - HEADER_BYTES, at


def _check_incomplete(view: memoryview, frame: int, begin: int, position: int, available: int | None) -> None:
    """Raise BrokenFrameError unless more bytes can complete the frame that reaches past the end of `view`."""
    kind, length = struct.unpack_from(">ii", view, frame)
    offset = position + frame - begin
    if kind != 0:
        raise BrokenFrameError.at(
            offset,
            f"no event begins at offset {offset:,}: its type is {kind}, not 0; the segment holds data other than "
            "events, or the read was started inside an event",
        )
    if length < 0:
        raise BrokenFrameError.at(offset, f"the event at offset {offset:,} is corrupt: its length is {length:,}")
    if available is not None and frame - begin + HEADER_BYTES + length > available:
        raise BrokenFrameError.at(
            offset,
            f"the event at offset {offset:,} says it has {length:,} bytes, but only "
            f"{available - (frame - begin) - HEADER_BYTES:,} follow before the range ends at {position + available:,}; "
            "it is corrupt, or the range was cut inside an event",
        )


Room = Callable[[int, int, int], memoryview]
"""Returns the memory for the frames of a place, given the place, the bytes and the number of events."""


def frame_by_place(payloads: pa.Array, places: npt.NDArray[np.int64], parts: int, room: Room) -> None:
    """Frame every payload into the memory of its place, a number below `parts`; payloads of a place keep their order.

    Raises the errors of `frame`, before it asks for memory.
    """
    wide, lengths = _widen(payloads)
    events = np.bincount(places, minlength=parts)
    sizes = np.bincount(places, lengths, minlength=parts).astype(np.int64) + events * HEADER_BYTES
    nowhere = memoryview(bytearray())
    rooms = [
        room(number, size, count) if count else nowhere
        for number, (size, count) in enumerate(zip(sizes.tolist(), events.tolist(), strict=True))
    ]
    module = native.get_module()
    if module is not None:
        module.frames(wide, np.ascontiguousarray(places), rooms)
        return
    for number in np.flatnonzero(events).tolist():
        rooms[number][:] = frame(wide.take(pa.array(np.flatnonzero(places == number))))


def frame(payloads: pa.Array) -> memoryview:
    """Frame events, for `SegmentAppender.append`.

    `payloads`: the events' payloads, of type binary or large_binary.

    Returns the frames, without gaps between them.

    Raises EventTooLargeError for a payload above 8 MiB, which official clients cannot read; InvalidRowError for null.

    Examples
    --------
    >>> bytes(frame(pa.array([b"a", b"bc"])))
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01a\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02bc'
    """
    wide, lengths = _widen(payloads)
    if not len(wide):
        return memoryview(b"")
    headers = np.zeros((len(wide), 2), ">i4")
    headers[:, 1] = lengths
    header_ends = np.arange(0, headers.nbytes + HEADER_BYTES, HEADER_BYTES, dtype=np.int64)
    header_column = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(wide), [None, pa.py_buffer(header_ends), pa.py_buffer(headers)]
    )
    joined = pc.binary_join_element_wise(header_column, wide, pa.scalar(b"", pa.large_binary()))
    total = int(lengths.sum()) + headers.nbytes
    return memoryview(joined.buffers()[2]).cast("B")[:total]


def _widen(payloads: pa.Array) -> tuple[pa.LargeBinaryArray, Offsets]:
    """Return checked payloads as large_binary, and their lengths. Raises EventTooLargeError, InvalidRowError."""
    if payloads.null_count:
        raise InvalidRowError("an event to be written is null; every row needs a payload, even if it is empty")
    wide = payloads.cast(pa.large_binary())
    lengths = pc.binary_length(wide).to_numpy(zero_copy_only=False)
    longest = int(lengths.max(initial=0))
    if longest > MAX_EVENT_SIZE:
        raise EventTooLargeError(
            f"an event of {longest:,} bytes is too large; Pravega's clients read at most {MAX_EVENT_SIZE:,} bytes. "
            "Split the row, or keep large values elsewhere and write a reference"
        )
    return wide, lengths
