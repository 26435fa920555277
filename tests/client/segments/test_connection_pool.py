"""Connections that are used again: by the next request, by the next writer, and not when they are dead."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.segments import connection
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.delegation import DelegationTokens
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.fetch import read_bytes
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from tests.client.conftest import BehindProxy

Make = Callable[..., Any]


def append(store: SegmentStore, stream: Stream, given: Any) -> None:
    with SegmentAppender(store, stream, 0, uuid.uuid4()) as appender:
        for block, events in given.blocks(10):
            appender.append(block, events)
        appender.flush()
        assert appender.skipped_events == 0


def read(store: SegmentStore, stream: Stream, size: int) -> bytes:
    return bytes(read_bytes(store, SegmentAddress(stream, 0), 0, size))


def test_writers_share_a_connection_one_after_another(
    proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    given = [events([100] * 20, seed) for seed in range(5)]
    for each in given:
        append(proxied, stream, each)
    assert proxy.connections == 1
    content = b"".join(each.frames for each in given)
    assert read(proxied, stream, len(content)) == content
    assert proxy.connections == 2  # requests have their own: a writer's token that expires ends only its connection


def test_writers_at_the_same_time_have_connections_of_their_own(
    proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    with SegmentAppender(proxied, stream, 0, uuid.uuid4()) as first:
        first.append(events([10]).frames, 1)
        append(proxied, stream, events([10] * 10, 1))
        first.append(events([10]).frames, 1)
        first.flush()
    assert proxy.connections == 2


def test_a_writer_that_failed_leaves_no_connection(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    pravega.controller.seal_stream(stream)
    for number in (1, 2):
        with pytest.raises(Exception, match="sealed"):
            append(proxied, stream, events([10]))
        assert proxy.connections == number


def test_a_connection_serves_so_many_writers(
    proxied: SegmentStore, proxy: Any, stream: Stream, events: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment store remembers every writer of a connection until it ends."""
    monkeypatch.setattr(connection, "_MOST_WRITERS", 3)
    for _ in range(7):
        append(proxied, stream, events([10]))
    assert proxy.connections == 3


def test_connections_that_were_cut_are_replaced(
    proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    given = events([100] * 20)
    append(proxied, stream, given)
    read(proxied, stream, len(given.frames))
    assert proxy.connections == 2
    proxy.cut_all()
    append(proxied, stream, given)
    assert read(proxied, stream, 2 * len(given.frames)) == 2 * given.frames
    assert proxy.connections == 4


def test_connections_idle_for_long_are_not_used_again(
    proxied: SegmentStore, proxy: Any, stream: Stream, events: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = events([100])
    append(proxied, stream, given)
    read(proxied, stream, len(given.frames))
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.0)
    append(proxied, stream, given)
    read(proxied, stream, len(given.frames))
    assert proxy.connections == 4


@pytest.mark.parametrize("first", ["append", "read"])
def test_connections_that_are_silently_dead_cost_one_time_out(
    pravega: Pravega, proxy: Any, stream: Stream, events: Make, first: str
) -> None:
    """One of eight that does not answer is the end of all eight: trying each would take longer than retries may."""
    given = events([100] * 20)
    config = replace(pravega.config, request_timeout=1.0, retry_timeout=4.0)
    with SegmentStore(config, BehindProxy(pravega, proxy), pravega.tokens) as store:
        for writing in (False, True):
            borrowed = [store.pool.borrow(proxy.endpoint, 5.0, writing=writing) for _ in range(8)]
            for connection in borrowed:
                store.pool.give_back(connection, writing=writing)
        proxy.mute_all()
        if first == "read":
            append(pravega.segments, stream, given)
            assert read(store, stream, len(given.frames)) == given.frames
        else:
            append(store, stream, given)
        append(store, stream, given)
        assert read(store, stream, 2 * len(given.frames)) == 2 * given.frames
    assert proxy.connections == 16 + 2


class TestSecured:
    """On a cluster with users: connections end with the tokens of their writers."""

    def test_a_writer_gets_no_connection_whose_token_is_due(
        self, secure_client_config: Make, secure_scope: str, minted_tokens: Any, proxy_to: Make, events: Make
    ) -> None:
        stream = Stream(secure_scope, "stream")
        with connect(secure_client_config()) as pravega:
            pravega.controller.create_stream(stream, StreamConfiguration())
            proxy = proxy_to(pravega.controller.segment_location(stream, 0))
            tokens = DelegationTokens(minted_tokens(life=600))
            with SegmentStore(pravega.config, BehindProxy(pravega, proxy), tokens) as store:
                append(store, stream, events([10]))
                append(store, stream, events([10]))
                assert proxy.connections == 1
                idle = store.pool.borrow(proxy.endpoint, 5.0, writing=True)
                assert 400 < idle.usable_until - time.time() < 600
                idle.usable_until = time.time()  # so that the test need not wait for it
                store.pool.give_back(idle, writing=True)
                append(store, stream, events([10]))
                assert proxy.connections == 2
