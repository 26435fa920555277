"""Following a segment: what is appended comes at once, over lost connections too, until the segment is sealed."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.delegation import DelegationTokens
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.follower import SegmentFollower
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError, SegmentNotFoundError
from tests.client.conftest import BehindProxy

Make = Callable[..., Any]


def append(pravega: Pravega, stream: Stream, given: Any) -> None:
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        for block, events in given.blocks(10):
            appender.append(block, events)
        appender.flush()


@contextmanager
def following(store: SegmentStore, stream: Stream, offset: int = 0, **options: Any) -> Iterator[SegmentFollower]:
    follower = SegmentFollower(store, SegmentAddress(stream, 0), offset, **options)
    try:
        yield follower
    finally:
        follower.close()


def read(follower: SegmentFollower, size: int) -> bytes:
    """Read until so many bytes have come."""
    found = b""
    while len(found) < size:
        data = bytes(follower.read(time.monotonic() + 60))
        assert data, "nothing came"
        found += data
    return found


def test_what_is_appended_comes(pravega: Pravega, stream: Stream, events: Make) -> None:
    before, later = events([100] * 50), events([1000] * 2000, 1)
    append(pravega, stream, before)
    with following(pravega.segments, stream) as follower:
        assert read(follower, len(before.frames)) == before.frames
        assert follower.read(time.monotonic()) == b""  # nothing more yet: the next one waits for the same answer
        writer = threading.Thread(target=append, args=(pravega, stream, later))
        writer.start()
        assert read(follower, len(later.frames)) == later.frames
        writer.join()
        assert follower.offset == len(before.frames) + len(later.frames)
        assert not follower.sealed


def test_a_sealed_segment_ends(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 50)
    append(pravega, stream, given)
    with following(pravega.segments, stream) as follower:
        sealing = threading.Thread(target=pravega.controller.seal_stream, args=(stream,))
        assert read(follower, len(given.frames)) == given.frames
        sealing.start()
        assert follower.read(time.monotonic() + 60) == b""
        assert follower.sealed
        sealing.join()
    with following(pravega.segments, stream, len(given.frames)) as follower:
        assert follower.read(time.monotonic() + 60) == b""
        assert follower.sealed


@pytest.mark.parametrize("waiting", [False, True])
def test_a_lost_connection_is_replaced(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make, waiting: bool
) -> None:
    given = events([100] * 50)
    append(pravega, stream, given)
    with following(proxied, stream) as follower:
        assert read(follower, len(given.frames)) == given.frames
        if waiting:
            assert follower.read(time.monotonic()) == b""
        proxy.cut_all()
        append(pravega, stream, given)
        assert read(follower, len(given.frames)) == given.frames
    assert proxy.connections == 2


def test_a_connection_is_given_back_only_when_no_answer_is_due(
    proxied: SegmentStore, pravega: Pravega, proxy: Any, stream: Stream, events: Make
) -> None:
    given = events([100])
    append(pravega, stream, given)
    for connections, waits in ((1, False), (1, True), (2, False), (2, False)):
        with following(proxied, stream) as follower:
            assert read(follower, len(given.frames)) == given.frames
            if waits:
                assert follower.read(time.monotonic()) == b""
        assert proxy.connections == connections


def test_removed_bytes_are_named_or_left_out(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 50)
    append(pravega, stream, given)
    pravega.controller.truncate_stream(StreamCut(stream, {0: given.ends[9]}))
    with following(pravega.segments, stream) as follower:
        with pytest.raises(DataLossError, match=f"bytes 0 to {given.ends[9]:,} of segment"):
            read(follower, 1)
    with following(pravega.segments, stream, fail_on_data_loss=False) as follower:
        assert follower.read(time.monotonic() + 60) == b""
        assert follower.offset == given.ends[9]
        assert read(follower, 1) == given.frames[given.ends[9] :]


def test_a_stream_that_is_gone_is_an_error(pravega: Pravega, stream: Stream) -> None:
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    with following(pravega.segments, stream) as follower, pytest.raises(SegmentNotFoundError):
        follower.read(time.monotonic() + 60)


def test_a_dead_segment_store_is_given_up_in_the_end(pravega: Pravega, proxy: Any, stream: Stream) -> None:
    config = replace(pravega.config, request_timeout=0.5, retry_timeout=1.0)
    with SegmentStore(config, BehindProxy(pravega, proxy), pravega.tokens) as store:
        proxy.close()
        with following(store, stream) as follower, pytest.raises(Exception, match="gave up after"):
            follower.read(time.monotonic() + 60)


class TestSecured:
    """On a cluster with TLS and users: the life of delegation tokens."""

    def test_tokens_that_expire_are_renewed(
        self, secure_client_config: Make, secure_scope: str, minted_tokens: Any, events: Make
    ) -> None:
        stream = Stream(secure_scope, "stream")
        given = events([1000] * 200)
        with connect(secure_client_config()) as pravega:
            pravega.controller.create_stream(stream, StreamConfiguration())
            source = minted_tokens(life=2, lives=[-5])
            with (
                SegmentStore(pravega.config, pravega.controller, DelegationTokens(source)) as store,
                following(store, stream) as follower,
            ):
                while source.minted < 4:
                    append(pravega, stream, given)
                    assert read(follower, len(given.frames)) == given.frames
                    assert follower.read(time.monotonic() + 0.1) == b""
