"""Reads partitions in several threads, a few batches ahead of the program that takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

import pyarrow as pa

from pyspark_pravega.client.cancellation import Cancellation, Cancelled, activate

P = TypeVar("P")
Numbered: TypeAlias = tuple[int, pa.RecordBatch]

_AHEAD = 2
"""Batches that may wait, per thread."""


def read_in_threads(
    partitions: Sequence[P], read: Callable[[P], Iterator[pa.RecordBatch]], threads: int
) -> Generator[Numbered, None, None]:
    """Yield the batches of all partitions, each with its partition's number; those of one partition keep their order.

    An error in a partition ends the reading and is raised here. The threads end when the generator is closed.
    """
    if threads <= 1 or len(partitions) <= 1:
        for number, partition in enumerate(partitions):
            for batch in read(partition):
                yield number, batch
        return
    with _Reading(partitions, read, min(threads, len(partitions))) as reading:
        yield from reading.batches()


class _Reading(Generic[P]):
    def __init__(self, partitions: Sequence[P], read: Callable[[P], Iterator[pa.RecordBatch]], threads: int) -> None:
        self._left = iter(enumerate(partitions))
        self._read = read
        self._lock = threading.Lock()
        self._cancellation = Cancellation()
        self._free = threading.Semaphore(threads * _AHEAD)
        self._read_ahead: SimpleQueue[Numbered | BaseException | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name="scan", daemon=True) for _ in range(threads)]

    def __enter__(self) -> _Reading[P]:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cancellation.cancel()
        self._free.release(len(self._threads))
        for thread in self._threads:
            thread.join()

    def batches(self) -> Iterator[Numbered]:
        """Yield what the threads read, until all have ended or one has failed."""
        running = len(self._threads)
        while running:
            batch = self._read_ahead.get()
            if batch is None:
                running -= 1
            elif isinstance(batch, BaseException):
                raise batch
            else:
                self._free.release()
                yield batch

    def _work(self) -> None:
        try:
            with activate(self._cancellation):
                while (taken := self._take_next()) is not None:
                    number, partition = taken
                    for batch in self._read(partition):
                        self._free.acquire()
                        self._cancellation.check()
                        self._read_ahead.put((number, batch))
        except Cancelled:
            return  # nobody waits for more
        except BaseException as error:
            self._read_ahead.put(error)
        else:
            self._read_ahead.put(None)

    def _take_next(self) -> tuple[int, P] | None:
        with self._lock:
            return next(self._left, None)
