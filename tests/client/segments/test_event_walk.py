"""Borders between events, found by walking over their headers."""

from __future__ import annotations

import itertools

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.range_reader import Border, walk_events
from pyspark_pravega.client.stream import Stream
from tests.client.segments.test_tail import append


def test_the_last_border_within_limits(pravega: Pravega, stream: Stream) -> None:
    payloads = [b"x" * (number * 37 % 900) for number in range(3000)]
    end = append(pravega, stream, payloads)
    borders = [0, *itertools.accumulate(8 + len(each) for each in payloads)]
    for start in (0, 1700):
        for wanted in (1, 8, 500, 100_000, 700_000, 10**9):
            allowed = [each for each in borders[start:] if each - borders[start] <= wanted]
            found = walk_events(pravega.segments, stream, 0, borders[start], end, most_bytes=wanted)
            assert found == Border(allowed[-1], len(allowed) - 1)
        for count in (0, 1, 255, 1300, 10**6):
            last = min(start + count, len(payloads))
            found = walk_events(pravega.segments, stream, 0, borders[start], end, most_events=count)
            assert found == Border(borders[last], last - start)
    both = walk_events(pravega.segments, stream, 0, 0, end, most_bytes=borders[50], most_events=20)
    assert both == Border(borders[20], 20)


def test_bytes_that_are_no_events(pravega: Pravega, stream: Stream) -> None:
    good = append(pravega, stream, [b"a", b"b"])
    end = good + append(pravega, stream, [b"c"])
    assert walk_events(pravega.segments, stream, 0, 1, end) == Border(end, 1)
    assert walk_events(pravega.segments, stream, 0, 1, end, most_events=1) == Border(end, 1)
    assert walk_events(pravega.segments, stream, 0, 1, end, most_bytes=9) == Border(1, 0)
