"""Reading ranges of real segments: exact whatever the windows and whatever happens to the connection."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.delegation import DelegationTokens
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.fetch import read_bytes
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader, Window
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Stream, StreamConfiguration, make_segment_id
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import (
    DataLossError,
    PermissionDeniedError,
    ProtocolError,
    SegmentNotFoundError,
    StreamNotFoundError,
    TransactionNotOpenError,
)

Make = Callable[..., Any]
MIB = 1024 * 1024


def write(
    pravega: Pravega,
    stream: Stream,
    given: Any,
    segment: int = 0,
    transaction: uuid.UUID | None = None,
    events: int = 50,
) -> None:
    with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4(), transaction) as appender:
        for block, count in given.blocks(events):
            appender.append(block, count)
        appender.flush()


def payloads(windows: Iterable[Window]) -> list[bytes]:
    """All payloads; checks each window on the way."""
    found: list[bytes] = []
    next_event = None
    for window in windows:
        assert len(window.starts) == len(window.lengths) > 0
        offsets = window.base + window.starts - 8
        assert next_event is None or next_event == offsets[0]
        next_event = offsets[-1] + 8 + window.lengths[-1]
        assert (np.diff(offsets) == window.lengths[:-1] + 8).all()
        data = memoryview(window.data)
        assert (data.format, data.contiguous) == ("B", True)
        found += [
            bytes(data[start : start + length])
            for start, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True)
        ]
    return found


@pytest.mark.parametrize("window_bytes", [1, 9, pytest.param(100, marks=pytest.mark.long), 4096, 1 << 20, 16 << 20])
def test_events_come_back_in_order_whatever_the_window(
    pravega: Pravega, stream: Stream, events: Make, window_bytes: int
) -> None:
    chance = random.Random(window_bytes)
    count = 30 if window_bytes < 100 else 2000
    given = events([chance.choice([0, 1, 7, 8, 100, 300]) for _ in range(count)])
    write(pravega, stream, given)
    reader = SegmentRangeReader(pravega.segments, stream, 0, 0, len(given.frames), window_bytes=window_bytes)
    assert payloads(reader) == given.payloads
    assert payloads(reader) == given.payloads  # a second time


def test_any_range_between_events(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 100)
    write(pravega, stream, given)
    for first, last in ((0, 1), (50, 51), (20, 80), (99, 100), (30, 30)):
        reader = SegmentRangeReader(pravega.segments, stream, 0, first * 108, last * 108, window_bytes=500)
        windows = list(reader)
        assert payloads(windows) == given.payloads[first:last]
        assert all(window.base + window.starts[0] - 8 >= first * 108 for window in windows)


@pytest.mark.parametrize("window_bytes", [4096, 1 << 20])
def test_events_behind_a_stop_are_not_read(
    pravega: Pravega, stream: Stream, events: Make, window_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(window_bytes)
    sizes = [chance.choice([0, 1, 100, 5000, 300_000]) for _ in range(40)]
    given = events(sizes)
    write(pravega, stream, given, events=3)
    starts = [sum(sizes[:number]) + 8 * number for number in range(40)]
    somewhere = chance.choices(range(len(given.frames)), k=9)
    for start in (starts[0], starts[9]):
        for stop in {0, start, starts[20], starts[20] + 1, starts[21] - 1, *somewhere}:
            caplog.clear()
            with caplog.at_level("DEBUG", "pyspark_pravega.client.segments.fetch"):
                reader = SegmentRangeReader(
                    pravega.segments, stream, 0, start, len(given.frames), window_bytes=window_bytes, stop=stop
                )
                found = payloads(reader)
            wanted = [payload for at, payload in zip(starts, given.payloads, strict=True) if start <= at < stop]
            assert found[: len(wanted)] == wanted
            last = max([at + 8 + size for at, size in zip(starts, sizes, strict=True) if start <= at < stop], default=0)
            read = sum(int(each.getMessage().split()[1]) for each in caplog.records if "bytes of" in each.getMessage())
            # To the stop, and the event that it is in, in a few steps.
            assert read <= max(stop - start, 0) + 5 * max(last - stop, 0) + 65536 * (last > stop)


def test_an_empty_range_asks_nobody(pravega: Pravega) -> None:
    assert list(SegmentRangeReader(pravega.segments, Stream("no-such", "stream"), 0, 5, 5)) == []


def test_events_larger_than_the_window_and_of_the_largest_size(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([10, 8 * MIB, 0, 8 * MIB, 3 * MIB, 100, 8 * MIB - 1])
    write(pravega, stream, given, events=1)
    for window_bytes in (64 * 1024, 5 * MIB, 16 * MIB):
        reader = SegmentRangeReader(pravega.segments, stream, 0, 0, len(given.frames), window_bytes=window_bytes)
        assert payloads(reader) == given.payloads


def test_windows_go_to_arrow_without_copies(pravega: Pravega, stream: Stream, events: Make) -> None:
    write(pravega, stream, events([100] * 10))
    (window,) = SegmentRangeReader(pravega.segments, stream, 0, 0, 1080)
    assert pa.py_buffer(window.data).address == np.frombuffer(window.data, np.uint8).ctypes.data


def test_memory_is_bounded_whatever_the_size(pravega: Pravega, stream: Stream) -> None:
    block = b"".join((0).to_bytes(4, "big") + (992).to_bytes(4, "big") + bytes(992) for _ in range(1048))
    blocks = 110
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        for _ in range(blocks):
            appender.append(block, 1048)
        appender.flush()
    tracemalloc.start()
    try:
        count = sum(
            len(window.starts) for window in SegmentRangeReader(pravega.segments, stream, 0, 0, blocks * len(block))
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == blocks * 1048
    assert peak < 64 * MIB < blocks * len(block)


def test_a_reader_that_is_left_early_leaves_nothing_behind(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([1 * MIB] * 12)
    write(pravega, stream, given, events=1)
    for _ in range(3):
        for window in SegmentRangeReader(pravega.segments, stream, 0, 0, len(given.frames), window_bytes=2 * MIB):
            assert window.starts[0] >= 8
            break
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read ")]


@pytest.mark.parametrize("window_bytes", [4096, 16 << 20])
def test_a_reader_that_begins_before_it_is_asked(
    pravega: Pravega, stream: Stream, events: Make, window_bytes: int
) -> None:
    given = events([1000] * 50)
    write(pravega, stream, given)
    readers = [
        SegmentRangeReader(pravega.segments, stream, 0, at * 1008, (at + 10) * 1008, window_bytes=window_bytes)
        for at in range(0, 50, 10)
    ]
    for reader in readers:
        reader.begin()
    assert [payload for reader in readers for payload in payloads(reader)] == given.payloads
    assert payloads(readers[0]) == given.payloads[:10]  # a second time, without
    readers[1].begin()
    for reader in readers:
        reader.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read ")]
    assert payloads(readers[1]) == given.payloads[10:20]


def test_a_range_read_to_its_end_leaves_its_connection_to_the_next(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    given = events([1 * MIB] * 6)
    write(pravega, stream, given, events=1)
    for _ in range(3):
        assert payloads(SegmentRangeReader(proxied, stream, 0, 0, len(given.frames))) == given.payloads
    assert proxy.connections == 1


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_cut_connections_change_nothing(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make, seed: int
) -> None:
    chance = random.Random(seed)
    given = events([chance.choice([0, 10, 500, 5000, 60_000, 2_500_000]) for _ in range(150)], seed)
    write(pravega, stream, given)
    proxy.limits.extend(
        (None, chance.choice([chance.randrange(1, 200), chance.randrange(200, len(given.frames) // 3)]))
        for _ in range(12)
    )
    reader = SegmentRangeReader(
        proxied, stream, 0, 0, len(given.frames), window_bytes=chance.choice([100_000, 3 * MIB, 16 * MIB])
    )
    assert payloads(reader) == given.payloads
    assert proxy.connections > 3
    assert reader.retries > 1 and reader.waited > 0


def test_small_pieces_make_progress(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    """Connections that never carry a whole reply: what came of it counts."""
    given = events([500_000] * 4)
    write(pravega, stream, given, events=4)
    proxy.limits.extend((None, 100_000) for _ in range(25))
    reader = SegmentRangeReader(proxied, stream, 0, 0, len(given.frames))
    assert payloads(reader) == given.payloads
    assert proxy.connections > 20
    assert reader.retries > 15


def test_a_connection_lost_between_windows(
    pravega: Pravega, proxied: SegmentStore, proxy: Any, stream: Stream, events: Make
) -> None:
    given = events([100_000] * 40)
    write(pravega, stream, given, events=4)
    found = []
    for window in SegmentRangeReader(proxied, stream, 0, 0, len(given.frames), window_bytes=300_000):
        found += payloads([window])
        proxy.cut_all()
    assert found == given.payloads


def test_a_stale_location_is_looked_up_again(pravega: Pravega, stream: Stream, events: Make, proxy: Any) -> None:
    given = events([100] * 10)
    write(pravega, stream, given)
    proxy.close()
    with SegmentStore(pravega.config, pravega.controller, pravega.tokens) as store:
        store.seed_location(stream, 0, proxy.endpoint)  # nothing listens there any more
        assert payloads(SegmentRangeReader(store, stream, 0, 0, len(given.frames))) == given.payloads


def test_the_truncated_head_is_data_loss_or_left_out(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 100)
    write(pravega, stream, given)
    pravega.controller.truncate_stream(StreamCut(stream, {0: 40 * 108}))
    reader = SegmentRangeReader(pravega.segments, stream, 0, 108, 100 * 108)
    with pytest.raises(DataLossError, match=f"bytes 108 to 4,320 of segment '{stream}/0.#epoch.0'"):
        list(reader)
    lenient = SegmentRangeReader(pravega.segments, stream, 0, 108, 100 * 108, fail_on_data_loss=False)
    assert payloads(lenient) == given.payloads[40:]
    all_gone = SegmentRangeReader(pravega.segments, stream, 0, 108, 30 * 108, fail_on_data_loss=False)
    assert list(all_gone) == []
    assert payloads(SegmentRangeReader(pravega.segments, stream, 0, 40 * 108, 100 * 108)) == given.payloads[40:]


def test_truncation_while_reading(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100_000] * 60)
    write(pravega, stream, given, events=5)

    def read_after_truncation(fail_on_data_loss: bool) -> list[bytes]:
        found: list[bytes] = []
        reader = SegmentRangeReader(
            pravega.segments, stream, 0, 0, len(given.frames), window_bytes=250_000, fail_on_data_loss=fail_on_data_loss
        )
        for window in reader:
            if not found:
                pravega.controller.truncate_stream(StreamCut(stream, {0: given.ends[39]}))
            found += payloads([window])
        return found

    found = read_after_truncation(False)
    read_before = len(found) - 20
    assert 0 < read_before < 40
    assert found == given.payloads[:read_before] + given.payloads[40:]
    with pytest.raises(DataLossError, match=f"bytes 0 to {given.ends[39]:,}"):
        read_after_truncation(True)


def test_a_segment_removed_by_truncation(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 10)
    write(pravega, stream, given)
    pravega.controller.scale_stream(stream, [0], [(0.0, 1.0)])
    following = make_segment_id(1, 1)
    write(pravega, stream, given, following)
    # Sealed, with successors: read as any other.
    assert payloads(SegmentRangeReader(pravega.segments, stream, 0, 0, 1080)) == given.payloads
    pravega.controller.truncate_stream(StreamCut(stream, {following: 0}))
    assert pravega.segments.segment_infos(stream, [0, following]).keys() == {following}
    with pytest.raises(DataLossError, match="bytes 0 to 1,080"):
        list(SegmentRangeReader(pravega.segments, stream, 0, 0, 1080))
    assert list(SegmentRangeReader(pravega.segments, stream, 0, 0, 1080, fail_on_data_loss=False)) == []
    assert payloads(SegmentRangeReader(pravega.segments, stream, following, 0, 1080)) == given.payloads


def test_a_deleted_stream_is_no_data_loss(pravega: Pravega, stream: Stream, events: Make) -> None:
    write(pravega, stream, events([100]))
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    for lenient in (True, False):
        with pytest.raises(StreamNotFoundError, match="'stream' in scope"):
            list(SegmentRangeReader(pravega.segments, stream, 0, 0, 108, fail_on_data_loss=lenient))


def test_sealed_streams_are_read_to_their_end(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([3000] * 2000)
    write(pravega, stream, given)
    pravega.controller.seal_stream(stream)
    info = pravega.segments.segment_infos(stream, [0])[0]
    assert (info.sealed, info.start_offset, info.write_offset) == (True, 0, len(given.frames))
    assert payloads(SegmentRangeReader(pravega.segments, stream, 0, 0, info.write_offset)) == given.payloads


def test_a_range_beyond_the_end_is_refused(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 10)
    write(pravega, stream, given)
    config = replace(pravega.config, request_timeout=1.0)
    with SegmentStore(config, pravega.controller, pravega.tokens) as store:
        for sealed in (False, True):
            for start, end in ((0, 1188), (1080, 1188), (1188, 2000)):
                with pytest.raises(ProtocolError, match=r"ends at offset 1,080, before the end"):
                    list(SegmentRangeReader(store, stream, 0, start, end))
            if not sealed:
                pravega.controller.seal_stream(stream)


def test_a_range_cut_inside_an_event_is_refused(pravega: Pravega, stream: Stream, events: Make) -> None:
    write(pravega, stream, events([100] * 10))
    for window_bytes in (50, MIB):
        for end, message in ((1080 - 104, "header of the event at.* 972"), (1080 - 1, "at offset 972 says it has 100")):
            with pytest.raises(ProtocolError, match=message):
                list(SegmentRangeReader(pravega.segments, stream, 0, 0, end, window_bytes=window_bytes))


def test_bytes_that_are_no_events_are_named_by_their_offset(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 10)
    write(pravega, stream, given)
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        appender.append(b"not an event, and the segment store does not care", 1)
        appender.flush()
    end = pravega.segments.segment_infos(stream, [0])[0].write_offset
    for window_bytes in (50, 500, MIB):
        found: list[bytes] = []
        with pytest.raises(ProtocolError, match="no event begins at offset 1,080"):
            for window in SegmentRangeReader(pravega.segments, stream, 0, 0, end, window_bytes=window_bytes):
                found += payloads([window])
        assert found == given.payloads[: len(found)]


def test_an_event_over_the_readers_limit_is_refused_before_it_is_fetched(
    pravega: Pravega, stream: Stream, events: Make
) -> None:
    given = events([100, 300_000, 100])
    write(pravega, stream, given)
    limited = SegmentRangeReader(
        pravega.segments, stream, 0, 0, len(given.frames), window_bytes=1000, max_event_bytes=299_999
    )
    with pytest.raises(ProtocolError, match=r"at offset 108 .* 300,000 bytes, more than the 299,999"):
        list(limited)


def test_the_part_of_a_transaction(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 100)
    transaction = pravega.controller.create_transaction(stream, 30_000).id
    write(pravega, stream, given, transaction=transaction)
    reader = SegmentRangeReader(pravega.segments, stream, 0, 0, len(given.frames), transaction=transaction)
    assert payloads(reader) == given.payloads
    pravega.controller.abort_transaction(stream, transaction)
    while pravega.segments.segment_infos(stream, [0], transaction):
        pass
    with pytest.raises(TransactionNotOpenError, match=str(transaction)):
        list(reader)


def test_raw_bytes_need_no_borders(pravega: Pravega, stream: Stream, events: Make) -> None:
    given = events([100] * 10)
    write(pravega, stream, given)
    address = SegmentAddress(stream, 0)
    assert read_bytes(pravega.segments, address, 13, 777) == given.frames[13:777]
    assert read_bytes(pravega.segments, address, 13, 13) == b""
    pravega.controller.truncate_stream(StreamCut(stream, {0: 540}))
    with pytest.raises(SegmentNotFoundError):
        read_bytes(pravega.segments, address, 13, 777)


class TestTokens:
    """On a cluster with users."""

    @pytest.fixture
    def secured(self, secure_client_config: Callable[..., ClientConfig]) -> Any:
        with connect(secure_client_config()) as connected:
            yield connected

    @pytest.fixture
    def secured_stream(self, secured: Pravega, secure_scope: str) -> Stream:
        made = Stream(secure_scope, "stream")
        secured.controller.create_stream(made, StreamConfiguration())
        return made

    def test_an_expired_token_is_renewed_once(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        given = events([100_000] * 50)
        write(secured, secured_stream, given)
        source = minted_tokens(life=600, lives=[-5], right="READ")
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            reader = SegmentRangeReader(store, secured_stream, 0, 0, len(given.frames))
            assert payloads(reader) == given.payloads
            assert source.minted == 2
            assert store.segment_infos(secured_stream, [0])[0].write_offset == len(given.frames)
        source = minted_tokens(life=-5, right="READ")
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            with pytest.raises(PermissionDeniedError, match="check the clocks"):
                list(SegmentRangeReader(store, secured_stream, 0, 0, len(given.frames)))
            with pytest.raises(PermissionDeniedError, match="check the clocks"):
                store.segment_infos(secured_stream, [0])

    def test_tokens_that_expire_between_windows_are_not_noticed(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        given = events([1000] * 10_000)
        write(secured, secured_stream, given, events=500)
        source = minted_tokens(life=2, right="READ")
        with SegmentStore(secured.config, secured.controller, DelegationTokens(source)) as store:
            while source.minted < 3:
                reader = SegmentRangeReader(store, secured_stream, 0, 0, len(given.frames), window_bytes=200_000)
                assert payloads(reader) == given.payloads

    def test_a_token_of_another_stream_names_the_right_that_is_missing(
        self, secured: Pravega, secured_stream: Stream, events: Make, minted_tokens: Any
    ) -> None:
        write(secured, secured_stream, events([1]))
        tokens = DelegationTokens(minted_tokens(life=600, right="NONE"))
        with SegmentStore(secured.config, secured.controller, tokens) as store:
            needed = f"right READ on 'prn::/scope:{secured_stream.scope}/stream:{secured_stream.name}'"
            with pytest.raises(PermissionDeniedError, match=needed):
                list(SegmentRangeReader(store, secured_stream, 0, 0, 9))

    def test_a_reader_reads(
        self, secured: Pravega, secured_stream: Stream, events: Make, secure_client_config: Callable[..., ClientConfig]
    ) -> None:
        given = events([2_000_000] * 6)
        write(secured, secured_stream, given, events=1)
        with connect(secure_client_config("reader")) as reading:
            reader = SegmentRangeReader(reading.segments, secured_stream, 0, 0, len(given.frames))
            assert payloads(reader) == given.payloads
