"""Blocks of framed events on their way into a segment: how they are numbered, trimmed, cut and found again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyspark_pravega.errors import ProtocolError

from ..wire import commands as wire
from .event_frames import HEADER_BYTES, Offsets, split


@dataclass
class AppendBlock:
    """Whole framed events; the last of them has the number `last`, the first `last - events + 1`.

    `sent` says that the block went out on some connection, so that this appender may have stored it.
    """

    data: memoryview
    events: int
    last: int
    sent: bool = False

    def __len__(self) -> int:
        return len(self.data)

    def drop_first(self, events: int) -> None:
        """Leave out the first events, which are already stored. Raises ProtocolError for wrong frames."""
        starts, _ = _split_whole(self.data, self.events)
        self.data = self.data[int(starts[events]) - HEADER_BYTES :]
        self.events -= events


def _split_whole(data: memoryview, events: int) -> tuple[Offsets, Offsets]:
    """Return the positions of payloads and their lengths. Raises ProtocolError for another number of whole events."""
    starts, lengths, consumed = split(data, 0, len(data), available=len(data))
    if len(starts) != events or consumed != len(data):
        raise ProtocolError(
            f"a block of {len(data):,} bytes holds {len(starts):,} whole events, not {events:,}, the number that "
            "it was given with"
        )
    return starts, lengths


def cut_into_blocks(data: memoryview, events: int, first_number: int) -> Iterator[AppendBlock]:
    """Yield the data as blocks that fit into wire commands, cut between events.

    Raises ProtocolError if the data to be cut are not `events` whole events, or one event does not fit.
    """
    if len(data) <= wire.MAX_BLOCK:
        yield AppendBlock(data, events, first_number + events - 1)
        return
    starts, lengths = _split_whole(data, events)
    ends = starts + lengths
    done = begin = 0
    while done < events:
        fitting = int(np.searchsorted(ends, begin + wire.MAX_BLOCK, side="right"))
        if fitting == done:
            raise ProtocolError(
                f"an event of {int(lengths[done]):,} bytes does not fit into a wire command; at most "
                f"{wire.MAX_BLOCK - HEADER_BYTES:,} are possible"
            )
        end = int(ends[fitting - 1])
        yield AppendBlock(data[begin:end], fitting - done, first_number + fitting - 1)
        done, begin = fitting, end


def add_range(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range of a segment, which must not begin before the end of the last one; join it to an adjacent one."""
    if ranges and ranges[-1][1] == start:
        start = ranges.pop()[0]
    ranges.append((start, end))


def find_blocks(content: bytes | bytearray, blocks: Sequence[AppendBlock]) -> list[tuple[int, int]] | None:
    """Return the ranges of the blocks in `content`, which begins at an event; other writers' events may lie between.

    None unless each block is found exactly once, in order, and begins at an event: others may have stored its bytes.
    """
    try:
        starts, _, _ = split(content, 0, len(content))
    except ProtocolError:
        return None
    frames = starts - HEADER_BYTES
    runs = []
    after = 0
    for block in blocks:
        positions = list(itertools.islice(_find_occurrences(content, block.data, frames), 2))
        if len(positions) != 1 or positions[0] < after:
            return None
        after = positions[0] + len(block)
        runs.append((positions[0], after))
    return runs


def _find_occurrences(content: bytes | bytearray, block: memoryview, frames: Offsets) -> Iterator[int]:
    """Yield the starts of frames at which `content` holds `block`."""
    position = content.find(block)
    while position >= 0:
        following = int(np.searchsorted(frames, position))
        if following < len(frames) and frames[following] == position:
            yield position
            following += 1
        if following == len(frames):
            return
        position = content.find(block, int(frames[following]))
