"""Framing and splitting of events, against a reference that looks at one event after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_pravega import native
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES, MAX_EVENT_SIZE, frame, frame_by_place, split
from pyspark_pravega.errors import EventTooLargeError, InvalidRowError, ProtocolError


@pytest.fixture(autouse=True, scope="module", params=["native", "python"])
def path(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run all tests with the native search for events, if there is one, and with the other."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setenv(native.SWITCH, "0")
        elif native.get_module() is None:
            pytest.skip(native.get_status().text)
        yield


def framed(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">ii", 0, len(payload)) + payload for payload in payloads)


def split_naively(data: bytes, begin: int, end: int) -> tuple[list[int], list[int], int]:
    starts, lengths = [], []
    while begin + 8 <= end:
        kind, length = struct.unpack_from(">ii", data, begin)
        assert kind == 0 and length >= 0
        if begin + 8 + length > end:
            break
        starts.append(begin + 8)
        lengths.append(length)
        begin += 8 + length
    return starts, lengths, begin


PAYLOADS = st.one_of(
    st.lists(st.binary(max_size=60), max_size=80),
    # Long runs of one size, with others between.
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3000)), min_size=1, max_size=4).map(
        lambda runs: [bytes([size]) * size for size, count in runs for _ in range(count)]
    ),
    # Payloads that look like frames.
    st.lists(st.integers(0, 9).map(lambda zeros: bytes(zeros)), max_size=2000),
)


@settings(max_examples=150, deadline=None)
@given(PAYLOADS, st.binary(max_size=9), st.integers(0, 30))
def test_split_finds_what_the_reference_finds(payloads: list[bytes], before: bytes, cut: int) -> None:
    data = before + framed(payloads)
    end = max(len(before), len(data) - cut)
    behind = data + b"\xff" * 20  # never looked at
    starts, lengths, consumed = split(behind, len(before), end)
    expected = split_naively(data, len(before), end)
    assert (starts.tolist(), lengths.tolist(), consumed) == expected
    assert starts.dtype == lengths.dtype == np.int64


@settings(max_examples=60, deadline=None)
@given(PAYLOADS)
def test_frame_is_the_inverse_of_split(payloads: list[bytes]) -> None:
    for kind in (pa.binary(), pa.large_binary()):
        buffer = frame(pa.array(payloads, kind))
        assert bytes(buffer) == framed(payloads)
        assert buffer.format == "B"
    starts, lengths, consumed = split(buffer, 0, len(buffer))
    assert consumed == len(buffer)
    assert [
        bytes(buffer[start : start + length]) for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ] == payloads


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=50), st.data())
def test_frame_takes_slices(payloads: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(payloads)))
    count = data.draw(st.integers(0, len(payloads) - first))
    assert bytes(frame(pa.array(payloads, pa.binary()).slice(first, count))) == framed(payloads[first : first + count])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 4))), st.sampled_from(["0", "1"]))
def test_frames_go_to_the_rooms_of_their_places(events: list[tuple[bytes, int]], switch: str) -> None:
    """By the native module and without it."""
    rooms: dict[int, tuple[bytearray, int]] = {}

    def room(place: int, size: int, count: int) -> memoryview:
        rooms[place] = bytearray(size), count
        return memoryview(rooms[place][0])

    payloads = pa.array([b"not this one", *(payload for payload, _ in events)], pa.binary()).slice(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.SWITCH, switch)
        frame_by_place(payloads, np.array([place for _, place in events], np.int64), 6, room)
    by_place = [[payload for payload, each in events if each == place] for place in range(6)]
    expected = {place: (bytearray(framed(some)), len(some)) for place, some in enumerate(by_place) if some}
    assert rooms == expected


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8), lambda data: pa.py_buffer(data)]
)
def test_split_takes_any_buffer(wrap: Callable[[bytes], Any]) -> None:
    starts, lengths, consumed = split(wrap(framed([b"ab", b"", b"cde"])), 0, 29)
    assert (starts.tolist(), lengths.tolist(), consumed) == ([8, 18, 26], [2, 0, 3], 29)


def test_nothing_to_split() -> None:
    for begin, end in ((0, 0), (5, 5), (0, 7)):
        starts, lengths, consumed = split(bytes(10), begin, end)
        assert (len(starts), len(lengths), consumed) == (0, 0, begin)


def test_largest_events() -> None:
    largest = bytes(MAX_EVENT_SIZE)
    buffer = frame(pa.array([b"a", largest, b"b"], pa.large_binary()))
    starts, lengths, consumed = split(buffer, 0, len(buffer))
    assert lengths.tolist() == [1, MAX_EVENT_SIZE, 1]
    assert consumed == len(buffer)
    assert starts.tolist() == [8, 17, 25 + MAX_EVENT_SIZE]
    # All but the last byte: the large one is not whole, and nothing is wrong with that.
    starts, _, consumed = split(buffer, 0, MAX_EVENT_SIZE, available=len(buffer))
    assert (starts.tolist(), consumed) == ([8], 9)


def no_room(place: int, size: int, events: int) -> memoryview:
    raise AssertionError("room is asked for before all payloads are known to be right")


def test_an_event_over_the_limit_is_not_framed() -> None:
    with pytest.raises(EventTooLargeError, match="8,388,609 bytes"):
        frame(pa.array([b"", bytes(MAX_EVENT_SIZE + 1)], pa.binary()))
    with pytest.raises(EventTooLargeError, match="8,388,609 bytes"):
        frame_by_place(pa.array([bytes(MAX_EVENT_SIZE + 1)]), np.zeros(1, np.int64), 1, no_room)


def test_a_null_is_not_framed() -> None:
    with pytest.raises(InvalidRowError, match="null"):
        frame(pa.array([b"", None], pa.binary()))
    with pytest.raises(InvalidRowError, match="null"):
        frame_by_place(pa.array([b"", None]), np.zeros(2, np.int64), 1, no_room)


@pytest.mark.parametrize("events_before", [0, 3, 5000])
@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((1, 5), "type is 1, not 0"),
        ((-1, 5), "type is -1, not 0"),
        ((0, -1), "length is -1"),
        ((0, -(2**31)), "length is -2,147,483,648"),
        ((2**31 - 1, 2**31 - 1), "type is 2147483647"),
        ((-(2**31), -(2**31)), "type is -2147483648"),
    ],
)
@pytest.mark.parametrize("sizes", [(10,), (10, 11)])
def test_corrupt_headers_are_named_by_their_offset(
    events_before: int, header: tuple[int, int], message: str, sizes: tuple[int, ...]
) -> None:
    good = framed([bytes(sizes[index % len(sizes)]) for index in range(events_before)])
    data = b"###" + good + struct.pack(">ii", *header) + bytes(40)
    with pytest.raises(ProtocolError, match=f"offset {1_000_000 + len(good):,}") as caught:
        split(data, 3, len(data), position=1_000_000)
    assert message in str(caught.value)


def test_a_length_beyond_what_there_is_is_corrupt_not_incomplete() -> None:
    data = framed([b"abc", bytes(100)])[:50]
    starts, _, consumed = split(data, 0, len(data), available=11 + 8 + 100)
    assert (starts.tolist(), consumed) == ([8], 11)
    with pytest.raises(ProtocolError, match=r"offset 511 says it has 100 bytes, but only 99 follow .* at 618"):
        split(data, 0, len(data), position=500, available=11 + 8 + 99)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 3))
def test_arbitrary_bytes_are_split_or_refused(data: bytes, zeros: int) -> None:
    data = bytes(zeros) + data
    try:
        starts, lengths, consumed = split(data, 0, len(data))
    except ProtocolError:
        return
    assert split_naively(data, 0, consumed) == (starts.tolist(), lengths.tolist(), consumed)
    assert len(data) - consumed < HEADER_BYTES or struct.unpack_from(">ii", data, consumed)[0] == 0
