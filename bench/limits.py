"""Measure the limits for comparison: bare readers and writers, one process for each segment.

They use the client as the product's tasks do, with the same parallelism, but know nothing of Spark, routing and
formats. Their processes run, and have their events in memory, before the clock does.
"""

from __future__ import annotations

import multiprocessing
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.fetch import SegmentFetch
from pyspark_pravega.client.segments.range_reader import DEFAULT_WINDOW, SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction

_BLOCK_BYTES = 1 << 20
_LEASE_MS = 60_000


def make_payloads(count: int, size: int) -> pa.LargeBinaryArray:
    """Return random events of one size."""
    data = np.random.default_rng(1).integers(0, 256, count * size, dtype=np.uint8)
    offsets = np.arange(count + 1, dtype=np.int64) * size
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class Work(Protocol):
    """The work of one process on one segment."""

    def prepare(self) -> Callable[[Pravega], None]:
        """Do all that is not timed, and return the function to time."""
        ...


@dataclass(frozen=True)
class Read:
    """Read all bytes of a segment; `split` also finds the events in them, without decoding any."""

    stream: Stream
    segment_id: int
    end: int
    split: bool

    def prepare(self) -> Callable[[Pravega], None]:
        return self._windows if self.split else self._bytes

    def _windows(self, pravega: Pravega) -> None:
        for window in SegmentRangeReader(pravega.segments, self.stream, self.segment_id, 0, self.end):
            assert len(window.starts)

    def _bytes(self, pravega: Pravega) -> None:
        buffer = memoryview(bytearray(DEFAULT_WINDOW))
        fetch = SegmentFetch(pravega.segments, SegmentAddress(self.stream, self.segment_id, None))
        try:
            for offset in range(0, self.end, len(buffer)):
                assert fetch.fill(buffer[: self.end - offset], offset) is None
        finally:
            fetch.close()


@dataclass(frozen=True)
class Write:
    """Frame events that are in memory and append them to a segment of a transaction."""

    stream: Stream
    segment_id: int
    transaction: uuid.UUID
    count: int
    size: int

    def prepare(self) -> Callable[[Pravega], None]:
        events = make_payloads(self.count, self.size)
        per_block = max(1, _BLOCK_BYTES // (self.size + 8))

        def append(pravega: Pravega) -> None:
            writer = uuid.uuid4()
            with SegmentAppender(pravega.segments, self.stream, self.segment_id, writer, self.transaction) as appender:
                for first in range(0, len(events), per_block):
                    block = events.slice(first, per_block)
                    appender.append(frame(block), len(block))
                appender.flush()

        return append


class Processes:
    """Processes that wait for work."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def prepare(self, work: Sequence[Work]) -> None:
        """Hand out work, one piece for each process, and wait until all are ready to begin."""
        assert len(work) == len(self._pipes)
        for pipe, piece in zip(self._pipes, work, strict=True):
            pipe.send(piece)
        self._wait()

    def run(self) -> None:
        """Let all begin and wait for the last."""
        for pipe in self._pipes:
            pipe.send("begin")
        self._wait()

    def _wait(self) -> None:
        for pipe in self._pipes:
            failure: str | None = pipe.recv()
            if failure is not None:
                raise RuntimeError(failure)


@contextmanager
def start_processes(config: ClientConfig, count: int) -> Iterator[Processes]:
    """Start processes with the client loaded; they end with the `with` block."""
    # Not forked: this process has threads, of gRPC and of Spark's gateway.
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(count)]
    started = [context.Process(target=_serve, args=(theirs, config), daemon=True) for _, theirs in pairs]
    for process in started:
        process.start()
    try:
        yield Processes([ours for ours, _ in pairs])
    finally:
        for ours, _ in pairs:
            ours.send(None)
        for process in started:
            process.join()


def _serve(pipe: Any, config: ClientConfig) -> None:
    with connect(config) as pravega:
        while (work := pipe.recv()) is not None:
            try:
                timed = work.prepare()
                pipe.send(None)
                pipe.recv()
                timed(pravega)
            except Exception as error:  # reported to the parent, which ends the run
                pipe.send(f"{type(error).__name__}: {error}")
            else:
                pipe.send(None)


def time_work(work: Callable[[], object]) -> float:
    """Return the seconds that some work took."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def time_bare_write(pravega: Pravega, ready: Processes, stream: Stream, count: int, size: int) -> float:
    """Return the seconds that one transaction with all events took, a share of them in each segment."""
    transaction = Transaction.begin(pravega.controller, stream, _LEASE_MS)
    transaction.keep_alive()
    ids = [segment.segment_id for segment in transaction.segments]
    shares = [count // len(ids) + (number < count % len(ids)) for number in range(len(ids))]
    ready.prepare(
        [Write(stream, one, transaction.id, share, size) for one, share in zip(ids, shares, strict=True)],
    )

    def write() -> None:
        ready.run()
        transaction.commit()

    return time_work(write)


def time_bare_read(pravega: Pravega, ready: Processes, stream: Stream, *, split: bool) -> float:
    """Return the seconds that reading all bytes of a stream took."""
    ids, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    infos = pravega.segments.segment_infos(stream, ids)
    ready.prepare([Read(stream, one, info.write_offset, split) for one, info in infos.items()])
    return time_work(ready.run)
