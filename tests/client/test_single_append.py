"""Single appends against a real segment store: stored once or never, whoever commits and aborts them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.single_append import SingleAppend, is_append_id, make_append_id, rejoin
from pyspark_pravega.client.stream import Stream, StreamConfiguration, make_segment_id
from pyspark_pravega.errors import SegmentSealedError, TransactionNotOpenError
from tests.cutting_proxy import CuttingProxy

EVENTS = bytes(frame(pa.array([b"one", b"and another"])))


def make(store: SegmentStore, stream: Stream) -> SingleAppend:
    id = make_append_id(0)
    assert id is not None
    return SingleAppend(store, stream, id, (), EVENTS, 2)


def length(pravega: Pravega, stream: Stream) -> int:
    return pravega.segments.segment_infos(stream, [0])[0].write_offset


@pytest.mark.parametrize("segment", [(0, 0), (7, 0), (12, 3), ((1 << 24) - 1, (1 << 24) - 1)])
def test_an_id_names_its_segment(pravega: Pravega, segment: tuple[int, int]) -> None:
    id = make_append_id(make_segment_id(*segment))
    assert id is not None and is_append_id(id) and id != make_append_id(make_segment_id(*segment))
    assert SingleAppend(pravega.segments, Stream("a", "b"), id).address.segment_id == make_segment_id(*segment)


def test_other_ids(pravega: Pravega, stream: Stream) -> None:
    assert make_append_id(make_segment_id(1 << 24, 0)) is None and make_append_id(make_segment_id(0, 1 << 24)) is None
    transaction = pravega.controller.create_transaction(stream, 10_000)
    assert not is_append_id(transaction.id) and not is_append_id(uuid.UUID(int=(1 << 127) - 1))
    again = rejoin(pravega, stream, transaction.id)
    assert again.status() is TransactionStatus.OPEN
    again.abort()
    assert again.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


def test_it_is_stored_once(pravega: Pravega, stream: Stream) -> None:
    append = make(pravega.segments, stream)
    assert append.status() is TransactionStatus.OPEN and length(pravega, stream) == 0
    for _ in range(2):
        append.commit()
        assert length(pravega, stream) == len(EVENTS)
        assert rejoin(pravega, stream, append.id).status() is TransactionStatus.COMMITTED
    with pytest.raises(TransactionNotOpenError, match="is already stored"):
        append.abort()


@pytest.mark.parametrize("moment", ["before", "set up"])
def test_an_aborted_one_is_never_stored(pravega: Pravega, stream: Stream, moment: str) -> None:
    """Also by a writer that was about to send the block, and knows nothing of the abort."""
    append = make(pravega.segments, stream)
    with append._open_appender() as appender:
        if moment == "set up":
            assert appender.last_event_number == 0
        rejoin(pravega, stream, append.id).abort()
        appender.append(EVENTS, 2)
        appender.flush()
    for _ in range(2):
        with pytest.raises(TransactionNotOpenError, match=r"has aborted it\. No event of it is visible"):
            append.commit()
        append.abort()
        assert append.status() is TransactionStatus.ABORTED and length(pravega, stream) == 0


def test_commits_and_aborts_at_once(pravega: Pravega, stream: Stream) -> None:
    stored, stop = 0, threading.Barrier(4)

    def end(step: Callable[[], None]) -> bool:
        stop.wait(60)
        try:
            step()
        except TransactionNotOpenError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for _ in range(25):
            append = make(pravega.segments, stream)
            commits = [pool.submit(end, append.commit) for _ in range(2)]
            aborts = [pool.submit(end, append.abort) for _ in range(2)]
            (committed,) = {each.result(60) for each in commits}
            (aborted,) = {each.result(60) for each in aborts}
            assert committed is not aborted
            stored += committed
            assert append.status() is (TransactionStatus.COMMITTED if committed else TransactionStatus.ABORTED)
            assert length(pravega, stream) == stored * len(EVENTS)


def test_a_sealed_segment(pravega: Pravega, stream: Stream) -> None:
    done, late, aborted = (make(pravega.segments, stream) for _ in range(3))
    done.commit()
    aborted.abort()
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    with pytest.raises(SegmentSealedError):
        late.commit()
    late.abort()
    states = [append.status() for append in (done, late, aborted)]
    assert states == [TransactionStatus.COMMITTED, TransactionStatus.ABORTED, TransactionStatus.ABORTED]
    done.commit()
    with pytest.raises(TransactionNotOpenError):
        done.abort()
    assert length(pravega, stream) == len(EVENTS)


def test_a_stream_that_was_dropped(pravega: Pravega, stream: Stream) -> None:
    append = make(pravega.segments, stream)
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    pravega.controller.create_stream(stream, StreamConfiguration())
    assert append.status() is TransactionStatus.UNKNOWN
    append.abort()
    with pytest.raises(TransactionNotOpenError, match=r"there is no segment .* No event of it is visible"):
        append.commit()


@pytest.mark.parametrize("seed", range(3))
def test_lost_connections(
    pravega: Pravega, proxied: SegmentStore, proxy: CuttingProxy, stream: Stream, seed: int
) -> None:
    """Whatever is cut off on its way, and however often, the block is stored once."""
    chance = Random(seed)
    for number in range(1, 13):
        append = make(proxied, stream)
        proxied.pool.forget(proxy.endpoint)
        for _ in range(chance.randrange(1, 4)):
            proxy.limits.append(chance.choice([(chance.randrange(1, 500), None), (None, chance.randrange(1, 400))]))
        append.commit()
        proxy.limits.clear()
        assert length(pravega, stream) == number * len(EVENTS)
    assert proxy.connections > 12
