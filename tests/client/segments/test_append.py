"""Appending to real segments: exactly once across cut connections and retries, fencing, sealed and ended targets."""

from __future__ import annotations

import random
import struct
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.append_blocks import AppendBlock, find_blocks
from pyspark_pravega.client.segments.connection import Connection
from pyspark_pravega.client.segments.delegation import DelegationTokens
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.fetch import read_bytes
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Access, Stream, StreamConfiguration
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.replies import InvalidEventNumber
from pyspark_pravega.errors import (
    PermissionDeniedError,
    ProtocolError,
    SegmentNotFoundError,
    SegmentSealedError,
    ServerUnavailableError,
    TransactionNotOpenError,
    WriterFencedError,
)

Make = Callable[..., Any]


def stored(pravega: Pravega, stream: Stream, transaction: uuid.UUID | None = None) -> bytes:
    """All bytes of segment 0."""
    end = pravega.segments.segment_infos(stream, [0], transaction)[0].write_offset
    return bytes(read_bytes(pravega.segments, SegmentAddress(stream, 0, transaction), 0, end))


def append_all(appender: SegmentAppender, blocks: Any) -> None:
    for block, count in blocks:
        appender.append(block, count)
    appender.flush()


def test_events_are_stored_in_order_and_their_place_is_known(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 500 + [0] * 10 + [5000] * 20)
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        assert appender.last_event_number == 0
        append_all(appender, given.blocks(7))
        assert appender.last_event_number == 530
        assert appender.ranges == [(0, len(given.frames))]
        assert appender.skipped_events == 0
        assert appender.pending == []
    assert stored(pravega, stream) == given.frames


def test_nothing_is_sent_before_it_is_needed(pravega: Pravega, events: Make) -> None:
    SegmentAppender(pravega.segments, Stream("no-such", "stream"), 0, uuid.uuid4()).close()


def test_a_retry_with_the_same_events_stores_nothing_twice(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([random.Random(1).randrange(0, 300) for _ in range(1000)])
    writer = uuid.uuid4()
    with SegmentAppender(pravega.segments, stream, 0, writer) as first:
        for number, (block, count) in enumerate(given.blocks(100)):
            if number < 4:
                first.append(block, count)
        first.flush()
    with SegmentAppender(pravega.segments, stream, 0, writer) as second:
        assert second.last_event_number == 400
        append_all(second, given.blocks(30))  # other cuts: one block is stored in part
        assert second.skipped_events == 400
        assert second.ranges == [(given.ends[399], len(given.frames))]
    with SegmentAppender(pravega.segments, stream, 0, writer) as third:
        append_all(third, given.blocks(1000))
        assert (third.skipped_events, third.ranges, third.last_event_number) == (1000, [], 1000)
    assert stored(pravega, stream) == given.frames


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_cut_connections_lose_and_double_nothing(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make, seed: int
) -> None:
    chance = random.Random(seed)
    given = events([chance.choice([0, 10, 500, 5000, 60_000]) for _ in range(400)], seed)
    # Cuts while blocks go out, and before or between acknowledgements (greeting and set-up take some 200 bytes).
    proxy.limits.extend(
        (chance.randrange(1, len(given.frames) // 4), None)
        if chance.random() < 0.5
        else (None, chance.randrange(1, 600))
        for _ in range(12)
    )
    with SegmentAppender(
        proxied, stream, 0, uuid.uuid4(), window_bytes=chance.choice([1, 1 << 18, 1 << 26])
    ) as appender:
        append_all(appender, given.blocks(chance.choice([1, 5, 50])))
        assert appender.last_event_number == 400
        assert appender.ranges == [(0, len(given.frames))]
        assert appender.skipped_events == 0
        assert appender.retries > 0
    assert proxy.connections > 1
    assert stored(pravega, stream) == given.frames


def test_lost_acknowledgements_among_other_writers(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    """The place of blocks whose acknowledgement was lost is found by reading back between those of others."""
    proxy.limits.extend([(None, 250), (None, 330), (None, 410)])
    given = [events([200] * 300, seed) for seed in range(3)]
    stores = [proxied, pravega.segments, pravega.segments]
    appenders = [SegmentAppender(store, stream, 0, uuid.uuid4()) for store in stores]

    def write(appender: SegmentAppender, content: Any) -> None:
        for block, count in content.blocks(3):
            appender.append(block, count)
            appender.flush()

    threads = [threading.Thread(target=write, args=arguments) for arguments in zip(appenders, given, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = stored(pravega, stream)
    assert len(content) == sum(len(one.frames) for one in given)
    for appender, one in zip(appenders, given, strict=True):
        assert appender.skipped_events == 0
        assert b"".join(content[start:end] for start, end in appender.ranges) == one.frames
        assert appender.ranges == sorted(appender.ranges)
        appender.close()
    assert proxy.connections >= 4


def test_finding_blocks_refuses_to_guess(events: Make) -> None:
    given = events([3, 4, 5, 6])
    frames, ends = given.frames, given.ends

    def block(first: int, last: int) -> AppendBlock:
        return AppendBlock(memoryview(frames)[ends[first - 1] if first else 0 : ends[last - 1]], last - first, last)

    other = struct.pack(">ii", 0, 30) + bytes(30)
    content = frames[: ends[0]] + other + frames[ends[0] : ends[2]] + other + frames[ends[2] :]
    a, b = len(other), 2 * len(other)
    places = [(0, ends[0]), (ends[0] + a, ends[2] + a), (ends[2] + b, ends[3] + b)]
    assert find_blocks(content, [block(0, 1), block(1, 3), block(3, 4)]) == places
    assert find_blocks(content, [block(1, 3), block(0, 1)]) is None  # not in this order
    assert find_blocks(content, [block(0, 2)]) is None  # torn apart, so not one block
    assert find_blocks(content + frames[: ends[0]], [block(0, 1)]) is None  # twice: whose is which?
    inside = struct.pack(">ii", 0, ends[0]) + frames[: ends[0]]
    assert find_blocks(inside, [block(0, 1)]) is None  # only within another event
    assert find_blocks(inside + frames[: ends[0]], [block(0, 1)]) == [(len(inside), len(inside) + ends[0])]
    assert find_blocks(b"\xff" * 100, [block(0, 1)]) is None  # no events at all


def test_another_connection_with_the_same_writer_takes_over(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([50] * 40)
    blocks = list(given.blocks(10))
    writer = uuid.uuid4()
    with (
        SegmentAppender(pravega.segments, stream, 0, writer) as zombie,
        SegmentAppender(pravega.segments, stream, 0, writer) as newer,
    ):
        append_all(zombie, blocks[:1])
        append_all(newer, blocks[:3])
        assert newer.skipped_events == 10
        with pytest.raises(WriterFencedError, match=str(writer)):
            append_all(zombie, blocks[1:2])
        append_all(newer, blocks[3:])
    assert stored(pravega, stream) == given.frames


def test_blocks_that_a_killed_attempt_left_on_their_way(pravega: Pravega, stream: Stream, events: Make) -> None:
    """They are stored after the next attempt was set up, which then has to look again."""
    given = events([50] * 40)
    blocks = list(given.blocks(10))
    writer = uuid.uuid4()
    killed = Connection.open(pravega.controller.segment_location(stream, 0), None, 30.0)
    killed.send(wire.pack_setup_append(1, writer, SegmentAddress(stream, 0).name, ""))
    killed.receive()
    with SegmentAppender(pravega.segments, stream, 0, writer) as appender:
        assert appender.last_event_number == 0
        block, count = blocks[0]
        end = wire.append_block_end(2, writer, len(block), count, count)
        killed.send(wire.append_block_header(writer, len(block)), block, end)
        killed.receive()
        append_all(appender, blocks)
        # Whose block it was cannot be told, and does not matter: it is found by reading back.
        assert appender.skipped_events == 0
        assert appender.ranges == [(0, len(given.frames))]
    killed.close()
    assert stored(pravega, stream) == given.frames


@pytest.mark.parametrize("times", [2, 3])
def test_a_setup_that_is_answered_as_a_block(
    pravega: Pravega, stream: Stream, events: Make, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    real = SegmentAppender._ask_to_write
    refused: list[Any] = []

    def answered(appender: SegmentAppender, *arguments: Any) -> Any:
        setup, info = real(appender, *arguments)
        if len(refused) == times:
            return setup, info
        refused.append(setup)
        return InvalidEventNumber(1, uuid.uuid4(), 0), info

    monkeypatch.setattr(SegmentAppender, "_ask_to_write", answered)
    given = events([100] * 3)
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        if times > 2:
            with pytest.raises(WriterFencedError):
                append_all(appender, given.blocks(3))
            return
        append_all(appender, given.blocks(3))
    assert stored(pravega, stream) == given.frames


def test_blocks_over_the_frame_limit_are_cut_between_events(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([3 << 20] * 7 + [8 << 20] * 2)
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        append_all(appender, given.blocks(9))
        assert appender.last_event_number == 9
        assert appender.ranges == [(0, len(given.frames))]
    assert stored(pravega, stream) == given.frames


def test_blocks_that_are_no_events_are_refused_where_it_can_be_seen(
    pravega: Pravega, stream: Stream, events: Make
) -> None:
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        for block, count in ((b"", 1), (b"x", 0), (b"x", -1)):
            with pytest.raises(ProtocolError, match="at least one event"):
                appender.append(block, count)
        with pytest.raises(ProtocolError, match="2 whole events, not 3"):
            appender.append(events([9 << 20, 9 << 20]).frames, 3)
        with pytest.raises(ProtocolError, match="does not fit into a wire command"):
            appender.append(events([wire.MAX_BLOCK]).frames, 1)
    assert stored(pravega, stream) == b""


def test_transactions_show_their_events_only_after_commit(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 100)
    transaction = pravega.controller.create_transaction(stream, 30_000).id
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4(), transaction) as appender:
        append_all(appender, given.blocks(10))
    assert stored(pravega, stream) == b""
    assert stored(pravega, stream, transaction) == given.frames
    pravega.segments.seal_segments(stream, [0], transaction)
    pravega.controller.commit_transaction(stream, transaction)
    wait_until(lambda: stored(pravega, stream) == given.frames)


def test_a_sealed_transaction_takes_no_more_but_tells_what_is_stored(
    pravega: Pravega, stream: Stream, events: Make
) -> None:
    given = events([100] * 30)
    blocks = list(given.blocks(10))
    transaction = pravega.controller.create_transaction(stream, 30_000).id
    writer = uuid.uuid4()
    with SegmentAppender(pravega.segments, stream, 0, writer, transaction) as appender:
        append_all(appender, blocks[:2])
        pravega.segments.seal_segments(stream, [0], transaction)
        pravega.segments.seal_segments(stream, [0], transaction)
        info = pravega.segments.segment_infos(stream, [0], transaction)[0]
        assert (info.sealed, info.write_offset) == (True, given.ends[19])
        with pytest.raises(TransactionNotOpenError, match=str(transaction)):
            append_all(appender, blocks[2:])
    with SegmentAppender(pravega.segments, stream, 0, writer, transaction) as again:
        assert again.last_event_number == 20
        append_all(again, blocks[:2])
        assert again.skipped_events == 20
    pravega.controller.abort_transaction(stream, transaction)


def test_an_aborted_transaction_takes_no_more(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 20)
    blocks = list(given.blocks(10))
    transaction = pravega.controller.create_transaction(stream, 30_000).id
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4(), transaction) as appender:
        append_all(appender, blocks[:1])
        pravega.controller.abort_transaction(stream, transaction)
        wait_until(lambda: not pravega.segments.segment_infos(stream, [0], transaction))
        with pytest.raises(TransactionNotOpenError, match=str(transaction)):
            append_all(appender, blocks[1:])
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4(), transaction) as late:
        with pytest.raises(TransactionNotOpenError, match="segments are gone"):
            append_all(late, blocks)
    with pytest.raises(TransactionNotOpenError):
        pravega.segments.seal_segments(stream, [0], transaction)


def test_a_scaled_segment_hands_back_what_it_did_not_take(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 30)
    blocks = list(given.blocks(10))
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        append_all(appender, blocks[:1])
        pravega.controller.scale_stream(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
        with pytest.raises(SegmentSealedError, match="was scaled or sealed"):
            append_all(appender, blocks[1:])
        pending = appender.pending
    assert stored(pravega, stream) + b"".join(bytes(data) for data, _ in pending) in (
        given.frames,
        given.frames[: given.ends[19]],  # the refusal came before the last block was given
    )


def test_a_missing_segment_is_named(pravega: Pravega, stream: Stream, events: Make) -> None:
    with SegmentAppender(pravega.segments, stream, 5, uuid.uuid4()) as appender:
        with pytest.raises(SegmentNotFoundError, match=f"{stream}/5.#epoch.0"):
            append_all(appender, events([1]).blocks(1))


def test_no_server_is_an_error_once_the_retry_time_is_over(
    pravega: Pravega, stream: Stream, proxy: Any, events: Make
) -> None:
    proxy.close()
    config = replace(pravega.config, retry_timeout=1.0, request_timeout=1.0)

    class Gone:
        def segment_location(self, stream: Stream, segment_id: int) -> Any:
            return proxy.endpoint

        def stream_exists(self, stream: Stream) -> bool:
            return True

    with SegmentStore(config, Gone(), pravega.tokens) as store:
        with SegmentAppender(store, stream, 0, uuid.uuid4()) as appender:
            with pytest.raises(ServerUnavailableError, match=r"gave up after \d+ tries in 1 s"):
                append_all(appender, events([1]).blocks(1))


class TestTokens:
    """On a cluster with users: the rights and the life of delegation tokens."""

    @pytest.fixture
    def secured(self, secure_client_config: Callable[..., ClientConfig]) -> Any:
        with connect(secure_client_config()) as connected:
            yield connected

    @pytest.fixture
    def secured_stream(self, secured: Pravega, secure_scope: str) -> Stream:
        made = Stream(secure_scope, "stream")
        secured.controller.create_stream(made, StreamConfiguration())
        return made

    def test_a_writer_outlives_its_tokens(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        """Rolled over before the segment store closes the connection, so that nothing has to be sent twice."""
        source = minted_tokens(life=2)
        given = events([100] * 100_000)
        blocks = given.blocks(10)
        written = 0
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            with SegmentAppender(store, secured_stream, 0, uuid.uuid4()) as appender:
                while source.minted < 4:
                    block, count = next(blocks)
                    appender.append(block, count)
                    appender.flush()
                    written += count
                    time.sleep(0.01)  # the events last 100 s, however fast the machine is
                assert appender.ranges == [(0, given.ends[written - 1])]
                assert appender.skipped_events == 0
        assert stored(secured, secured_stream) == given.frames[: given.ends[written - 1]]

    def test_a_connection_closed_when_the_token_expires_is_made_anew(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        source = minted_tokens(life=2)
        given = events([100] * 20)
        blocks = list(given.blocks(10))
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            with SegmentAppender(store, secured_stream, 0, uuid.uuid4()) as appender:
                append_all(appender, blocks[:1])
                assert appender._connection is not None
                wait_until(appender._connection.has_input)  # closed by the segment store
                appender._token_due = float("inf")  # as if this machine's clock were late
                append_all(appender, blocks[1:])
                assert appender.ranges == [(0, len(given.frames))]
        assert stored(secured, secured_stream) == given.frames

    def test_an_expired_token_is_renewed_before_the_first_event(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        source = minted_tokens(life=600, lives=[-5])
        given = events([100] * 10)
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            with SegmentAppender(store, secured_stream, 0, uuid.uuid4()) as appender:
                append_all(appender, given.blocks(10))
        assert source.minted == 2
        assert stored(secured, secured_stream) == given.frames

    def test_an_expired_token_is_renewed_for_small_blocks(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        source = minted_tokens(life=600, lives=[-5])
        given = events([100] * 10)
        [block] = given.blocks(10)
        address = SegmentAddress(secured_stream, 0)
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            ranges = store.append_together({address: (uuid.uuid4(), memoryview(block[0]), 10)})
        assert ranges == {address: (0, len(block[0]))} and source.minted == 2
        assert stored(secured, secured_stream) == given.frames

    def test_a_token_for_reading_does_not_append(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        tokens = DelegationTokens(minted_tokens(life=600, right="READ"))
        with SegmentStore(secured.config, secured.controller, tokens) as store:
            with SegmentAppender(store, secured_stream, 0, uuid.uuid4()) as appender:
                with pytest.raises(PermissionDeniedError, match=f"READ_UPDATE on .*/stream:{secured_stream.name}"):
                    append_all(appender, events([1]).blocks(1))

    def test_a_reader_gets_no_token_to_append(
        self,
        secured: Pravega,
        secured_stream: Stream,
        events: Make,
        secure_client_config: Callable[..., ClientConfig],
    ) -> None:
        with connect(secure_client_config("reader")) as reading:
            assert reading.segments.segment_infos(secured_stream, [0])[0].write_offset == 0
            with SegmentAppender(reading.segments, secured_stream, 0, uuid.uuid4()) as appender:
                with pytest.raises(PermissionDeniedError, match="READ_UPDATE"):
                    append_all(appender, events([1]).blocks(1))

    def test_a_token_from_planning_spares_the_controller(
        self, secured: Pravega, secured_stream: Stream, events: Make, secure_client_config: Callable[..., ClientConfig]
    ) -> None:
        token = secured.controller.delegation_token(secured_stream, Access.WRITE)
        location = secured.controller.segment_location(secured_stream, 0)

        class Unreachable:
            def segment_location(self, stream: Stream, segment_id: int) -> Any:
                raise AssertionError("the controller was asked")

            delegation_token = stream_exists = segment_location

        unreachable: Any = Unreachable()
        with SegmentStore(secured.config, unreachable, DelegationTokens(unreachable)) as store:
            store.seed_location(secured_stream, 0, location)
            store.seed_token(secured_stream, token)
            with SegmentAppender(store, secured_stream, 0, uuid.uuid4()) as appender:
                append_all(appender, events([1]).blocks(1))
            assert store.segment_infos(secured_stream, [0])[0].write_offset == 9


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
