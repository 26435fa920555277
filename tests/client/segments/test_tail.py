"""The last events of a segment, found without knowing where events begin."""

from __future__ import annotations

import random
import uuid

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments import tail
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.tail import find_border, read_tail
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import ProtocolError

KIB = 1024


def frame(payload: bytes) -> bytes:
    return bytes(4) + len(payload).to_bytes(4, "big") + payload


def append(pravega: Pravega, stream: Stream, payloads: list[bytes]) -> int:
    """Write the payloads and return the segment's length."""
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        for payload in payloads:
            appender.append(frame(payload), 1)
        appender.flush()
    return sum(8 + len(payload) for payload in payloads)


def last_events(pravega: Pravega, stream: Stream, end: int, size: int) -> list[bytes]:
    found = read_tail(pravega.segments, stream, 0, 0, end, size)
    assert found is not None
    assert found.base + int(found.starts[-1] + found.lengths[-1]) == end
    bounds = zip(found.starts.tolist(), found.lengths.tolist(), strict=True)
    return [bytes(found.data[start : start + length]) for start, length in bounds]


def test_a_short_segment_is_read_whole(pravega: Pravega, stream: Stream) -> None:
    payloads = [b"", b"a" * 100, bytes(50), b""]
    end = append(pravega, stream, payloads)
    assert last_events(pravega, stream, end, end) == payloads
    assert last_events(pravega, stream, end - 8, end) == payloads[:-1]
    assert read_tail(pravega.segments, stream, 0, end, end, 10) is None


def test_the_last_events_of_a_long_segment(pravega: Pravega, stream: Stream) -> None:
    payloads = [b'{"number": %d, "filler": "%s"}' % (number, b"x" * (number % 300)) for number in range(2000)]
    end = append(pravega, stream, payloads)
    for size in (4 * KIB, 4 * KIB + 1, 4 * KIB + 7, 50 * KIB):
        found = last_events(pravega, stream, end, size)
        assert found == payloads[-len(found) :]
        assert size - 400 < sum(8 + len(each) for each in found) <= size


def test_an_event_larger_than_the_tail(pravega: Pravega, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    payloads = [b"first" * KIB, b"a", b"large" * 20 * KIB]
    end = append(pravega, stream, payloads)
    assert last_events(pravega, stream, end, KIB)[-1] == payloads[-1]
    monkeypatch.setattr(tail, "TAIL_LIMIT", 64 * KIB)
    assert read_tail(pravega.segments, stream, 0, 0, end, KIB) is None


def test_what_is_no_run_of_events(pravega: Pravega, stream: Stream) -> None:
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        appender.append(b"\xff" * 100, 1)
        appender.flush()
    with pytest.raises(ProtocolError, match="no event begins at offset 0"):
        read_tail(pravega.segments, stream, 0, 0, 100, 100)


@pytest.mark.parametrize("seed", range(30))
def test_bytes_that_look_like_headers(seed: int) -> None:
    """Whatever payloads hold, the second half of the events is found, and nothing between them."""
    chance = random.Random(seed)
    looks = [
        lambda: bytes(chance.randrange(200)),
        lambda: frame(bytes(chance.randrange(40))) * chance.randrange(1, 4),
        lambda: b"x" * chance.randrange(200),
        lambda: bytes(5) + chance.randrange(2000).to_bytes(3, "big") + b"y" * chance.randrange(100),
        lambda: b"y" * chance.randrange(20) + bytes(chance.randrange(5)),
        lambda: b"",
    ]
    kinds = chance.sample(looks, chance.randrange(1, len(looks)))
    payloads = [chance.choice(kinds)() for _ in range(400)]
    content = b"".join(map(frame, payloads))
    borders = [0]
    for payload in payloads:
        borders.append(borders[-1] + 8 + len(payload))
    cut = chance.randrange(len(content) // 3)
    begin = find_border(content[cut:])
    assert begin is not None
    at, found = cut + begin, []
    while at < len(content):
        found.append(at)
        at += 8 + int.from_bytes(content[at + 4 : at + 8], "big")
    assert at == len(content)
    half = [each for each in borders[:-1] if each >= len(content) / 2]
    assert [each for each in found if each >= half[0]] == half


def test_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_STEPS", 1000)
    assert find_border(frame(b"") * 998) == 8
    assert find_border(frame(b"") * 1010) is None
