"""Reads partitions in several threads, a few batches ahead of the program that takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

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
    count = min(threads, len(partitions))
    if count <= 1:
        for number, partition in enumerate(partitions):
            for batch in read(partition):
                yield number, batch
        return
    left: SimpleQueue[tuple[int, P] | None] = SimpleQueue()
    for task in (*enumerate(partitions), *[None] * count):
        left.put(task)
    cancellation, free = Cancellation(), threading.Semaphore(count * _AHEAD)
    read_ahead: SimpleQueue[Numbered | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            with activate(cancellation):
                for number, partition in iter(left.get, None):
                    for batch in read(partition):
                        free.acquire()
                        cancellation.check()
                        read_ahead.put((number, batch))
        except Cancelled:
            return  # nobody waits for more
        except BaseException as error:
            read_ahead.put(error)
        else:
            read_ahead.put(None)

    workers = [threading.Thread(target=work, name="scan", daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        running = count
        while running:  # until all have ended or one has failed
            numbered = read_ahead.get()
            if numbered is None:
                running -= 1
            elif isinstance(numbered, BaseException):
                raise numbered
            else:
                free.release()
                yield numbered
    finally:
        cancellation.cancel()
        free.release(count)
        for worker in workers:
            worker.join()
