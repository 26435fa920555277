"""Blocks give each segment its events in the order in which they were added, whatever is taken when."""

from __future__ import annotations

import random

import pytest

from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.insert.blocks import BLOCK_BYTES, Blocks

SEGMENTS = [SegmentAddress(Stream("plant", "temperatures"), number) for number in range(3)]
LIMIT = 2 * BLOCK_BYTES


@pytest.mark.parametrize("seed", range(4))
def test_order_and_sizes(seed: int) -> None:
    chance, blocks = random.Random(seed), Blocks()
    given, taken = dict.fromkeys(SEGMENTS, b""), dict.fromkeys(SEGMENTS, b"")
    events = dict.fromkeys(SEGMENTS, 0)
    for _ in range(60):
        for segment in chance.sample(SEGMENTS, 2):
            data = chance.randbytes(chance.choice((1, 1000, 300_000, BLOCK_BYTES + 1)))
            blocks.room(segment, len(data), 3)[:] = data
            given[segment] += data
        for segment, block in chance.choice((blocks.take_full, lambda: blocks.take_down_to(LIMIT)))():
            assert 0 < block.length <= len(block.memory)
            taken[segment] += block.data
            events[segment] += block.events
    for segment, block in blocks.take_down_to(0):
        taken[segment] += block.data
        events[segment] += block.events
    assert taken == given
    assert blocks.held == 0
    assert all(blocks.size(one) == (len(given[one]), events[one]) for one in blocks.segments())


def test_the_fullest_are_taken_first_and_no_more_than_needed() -> None:
    blocks = Blocks()
    for number, segment in enumerate(SEGMENTS):
        blocks.room(segment, (number + 1) * LIMIT, 1)
    assert [segment for segment, _ in blocks.take_full()] == []
    assert [segment for segment, _ in blocks.take_down_to(3 * LIMIT)] == [SEGMENTS[2]]
    assert blocks.held == 3 * LIMIT
