"""Event frames: a segment is a run of `[type int32 = 0][length int32][payload]`, big-endian.

Segment stores do not look at them: a wrong frame written corrupts the stream for every reader. So framing is
done here alone, and splitting believes nothing it has not checked.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
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
    """Bytes that are no event. `offset` is where in the segment; what follows them cannot be told apart."""

    offset: int

    @classmethod
    def at(cls, offset: int, message: str) -> BrokenFrameError:
        """Return the error of an offset. Like all errors it is made of one string, to be pickled."""
        error = cls(message)
        error.offset = offset
        return error


_read_header = struct.Struct(">Q").unpack_from
"""Type and length as one number: the length when the type is 0, at least 2**31 when anything is wrong."""

_FIRST_WALK = 16 * 1024
_LONGEST_WALK = 1024 * 1024
"""Bytes walked event by event before looking whether the events are all of one size; doubled when not."""

_FIRST_RUN = 256
"""Headers compared at once when events seem to be of one size; doubled as long as that holds."""

_SAME_SIZE = 16
"""So many events of one size in a row make it worth comparing the next headers at once."""


def split(
    buffer: Any, begin: int, end: int, *, position: int = 0, available: int | None = None
) -> tuple[Offsets, Offsets, int]:
    """Find the whole events in `buffer[begin:end]`; `begin` must be the start of an event.

    Returns the positions of the payloads in `buffer`, their lengths in bytes, and where the first event that
    is not whole begins (`end` when there is none).

    `position` is the segment offset of `buffer[begin]`, for messages. `available` is the number of bytes from
    `begin` on that can ever be had: an event reaching beyond them is corrupt, not merely incomplete.
    Raises BrokenFrameError naming the segment offset of a frame with a wrong type or an impossible length.
    """
    view = memoryview(buffer).cast("B")[:end]
    module = native.get_module()
    if module is None:
        starts, lengths, at = _find_whole_frames(view, begin)
    else:
        found = module.whole_frames(view, begin, end)
        starts, lengths, at = np.frombuffer(found[0], np.int64), np.frombuffer(found[1], np.int64), found[2]
    if at + HEADER_BYTES <= end:
        _check_incomplete(view, at, begin, position, available)
    return starts, lengths, at


def _find_whole_frames(view: memoryview, begin: int) -> tuple[Offsets, Offsets, int]:
    """Do what the native `whole_frames` does."""
    starts: list[Offsets] = []
    at, end = begin, len(view)
    walk = _FIRST_WALK
    while at + HEADER_BYTES <= end:
        walked, following = _walk(view[: at + walk], at)
        if following > end:
            following = walked.pop()
            starts.append(np.array(walked, np.int64))
            at = following
            break
        starts.append(np.array(walked, np.int64))
        at = following
        size = _find_common_size(walked, at)
        if size:
            run = _find_same_size_run(view, at, size)
            starts.append(run)
            at += len(run) * size
            walk = _FIRST_WALK
        else:
            walk = min(walk * 2, _LONGEST_WALK)
    frames = np.concatenate(starts) if starts else np.empty(0, np.int64)
    lengths = np.diff(frames, append=at) - HEADER_BYTES
    return frames + HEADER_BYTES, lengths, at


def _walk(view: memoryview, at: int) -> tuple[list[int], int]:
    """Starts of the frames whose headers lie whole in `view`, and where the frame after the last one begins.

    The loop checks nothing on purpose (it is the cost of small events): a frame that is wrong or reaches far
    puts its successor past the end of the view, and the read there ends the loop.
    """
    starts: list[int] = []
    add, read = starts.append, _read_header
    try:
        while True:
            add(at)
            (length,) = read(view, at)
            at += length + HEADER_BYTES
    except (struct.error, OverflowError):
        starts.pop()
    return starts, at


def _find_common_size(starts: list[int], following: int) -> int:
    """Return the size of the last frames including their headers if it is the same for all of them, else 0."""
    if len(starts) < _SAME_SIZE:
        return 0
    size = following - starts[-1]
    tail = [*starts[-_SAME_SIZE:], following]
    return size if all(second - first == size for first, second in itertools.pairwise(tail)) else 0


def _find_same_size_run(view: memoryview, at: int, size: int) -> Offsets:
    """Starts of the frames from `at` on as long as every header says `size` and the frame lies in `view`."""
    expected = np.uint64(size - HEADER_BYTES)
    count = 0
    most = (len(view) - at) // size
    chunk = _FIRST_RUN
    while count < most:
        wanted = min(chunk, most - count)
        headers = np.ndarray((wanted,), ">u8", view, at + count * size, (size,))
        differs = np.flatnonzero(headers != expected)
        if len(differs):
            count += int(differs[0])
            break
        count += wanted
        chunk *= 2
    return np.arange(at, at + count * size, size, dtype=np.int64)


def _check_incomplete(view: memoryview, frame: int, begin: int, position: int, available: int | None) -> None:
    """Raise unless the frame that reaches past the end of `view` can be completed by more bytes."""
    kind, length = struct.unpack_from(">ii", view, frame)
    offset = position + frame - begin
    if kind != 0:
        raise BrokenFrameError.at(
            offset,
            f"no event begins at offset {offset:,}: its type is {kind}, not 0; the segment holds other data than "
            "events, or the read was started between two events' borders",
        )
    if length < 0:
        raise BrokenFrameError.at(offset, f"the event at offset {offset:,} is corrupt: its length is {length:,}")
    if available is not None and frame - begin + HEADER_BYTES + length > available:
        raise BrokenFrameError.at(
            offset,
            f"the event at offset {offset:,} says it has {length:,} bytes, but only "
            f"{available - (frame - begin) - HEADER_BYTES:,} follow before the range ends at {position + available:,}; "
            "it is corrupt, or the range was cut inside of an event",
        )


Room = Callable[[int, int, int], memoryview]
"""Gives room for the frames of a place: so many bytes, so many events."""


def frame_by_place(payloads: pa.Array, places: npt.NDArray[np.int64], parts: int, room: Room) -> None:
    """Frame every payload into the room of its place, from 0 to `parts`; those of a place follow each other in order.

    Raises as `frame` does, before it asks for room.
    """
    wide, lengths = _widen(payloads)
    events = np.bincount(places, minlength=parts)
    sizes = np.bincount(places, lengths, minlength=parts).astype(np.int64) + events * HEADER_BYTES
    nowhere = memoryview(bytearray())
    rooms = [
        room(place, size, count) if count else nowhere
        for place, (size, count) in enumerate(zip(sizes.tolist(), events.tolist(), strict=True))
    ]
    module = native.get_module()
    if module is not None:
        module.frames(wide, np.ascontiguousarray(places), rooms)
        return
    for place in np.flatnonzero(events).tolist():
        rooms[place][:] = frame(wide.take(pa.array(np.flatnonzero(places == place))))


def frame(payloads: pa.Array) -> memoryview:
    """Frame every element of a binary or large_binary array; the frames follow each other without gaps.

    Raises EventTooLargeError for a payload over 8 MiB, which official clients could not read,
    and InvalidRowError for a null.
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
    """Return payloads that can be written, and their lengths. Raises EventTooLargeError, InvalidRowError."""
    if payloads.null_count:
        raise InvalidRowError("an event to be written is null; every row needs a payload, if only an empty one")
    wide = payloads.cast(pa.large_binary())
    lengths = pc.binary_length(wide).to_numpy(zero_copy_only=False)
    longest = int(lengths.max(initial=0))
    if longest > MAX_EVENT_SIZE:
        raise EventTooLargeError(
            f"an event of {longest:,} bytes is too large; Pravega's clients read at most {MAX_EVENT_SIZE:,} bytes. "
            "Split the row, or keep large values elsewhere and write a reference"
        )
    return wide, lengths
