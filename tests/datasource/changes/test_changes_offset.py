"""Where a stream of changes looks for news: what it asks the servers, and when it waits."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.changes_offset import ChangesOffset, find_end_position
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.sql.options import resolve
from tests.datasource.transactions import EVENT_BYTES, insert_into_all

SETTINGS = resolve(env={})


def end(pravega: Pravega, stream: Stream, since: ChangesOffset) -> ChangesOffset:
    return find_end_position(pravega, stream, SETTINGS, since)


@pytest.fixture
def stream(pravega: Pravega, new_stream: Callable[..., Stream]) -> Stream:
    """Two segments with an event each, inserted as version 1."""
    made = new_stream(2)
    insert_into_all(pravega, made, 2)
    return made


def test_no_news_take_one_look_and_no_pause(
    pravega: Pravega, stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    since = end(pravega, stream, ChangesOffset(pravega.controller.head(stream), 0))
    assert since.version == 1 and set(since.cut.positions.values()) == {EVENT_BYTES}

    def waited(seconds: float) -> None:
        raise AssertionError(f"waited for {seconds} s")

    monkeypatch.setattr(cancellation, "sleep", waited)
    caplog.set_level(logging.DEBUG, "pyspark_pravega.client")
    assert end(pravega, stream, since) is since
    assert [message.partition(" at ")[0] for message in caplog.messages] == ["look up 2 segments"]


def test_every_way_in_which_segments_change_is_news(pravega: Pravega, stream: Stream) -> None:
    since = end(pravega, stream, ChangesOffset(pravega.controller.head(stream), 0))
    insert_into_all(pravega, stream, 2)
    grown = end(pravega, stream, since)
    assert grown.version == 2 and set(grown.cut.positions.values()) == {2 * EVENT_BYTES}

    first, second = sorted(grown.cut.positions)
    pravega.controller.scale_stream(stream, [first], [(0, 0.25), (0.25, 0.5)])
    sealed = end(pravega, stream, grown)
    assert first not in sealed.cut.positions and sealed.cut.positions[second] == 2 * EVENT_BYTES
    assert sorted(sealed.cut.positions.values()) == [0, 0, 2 * EVENT_BYTES]

    pravega.controller.truncate_stream(StreamCut(stream, sealed.cut.positions))
    assert end(pravega, stream, grown).cut == sealed.cut == measure_tail(pravega, stream)


def test_the_end_of_a_sealed_stream_is_waited_at(
    pravega: Pravega, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = end(pravega, stream, ChangesOffset(pravega.controller.head(stream), 0))
    pravega.controller.seal_stream(stream)
    waited: list[float] = []
    monkeypatch.setattr(cancellation, "sleep", waited.append)
    assert end(pravega, stream, since) is since
    assert waited
