"""Running an iterator one item ahead of its consumer, in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .. import cancellation

Item = TypeVar("Item")


class ReadAhead(Generic[Item]):
    """Iterates over `items` in a thread, which begins the next item when the consumer takes the one before.

    So at most one item is waiting or being made. What `items` raises comes out at the consumer, in its place.
    Always call `close`.
    """

    def __init__(self, items: Iterator[Item], abort: Callable[[], None], name: str) -> None:
        """`abort` makes a step of `items` that is under way end soon; `name` is the thread's."""
        self._items = items
        self._abort = abort
        self._wanted = threading.Semaphore(1)
        self._ready: queue.SimpleQueue[Item | BaseException] = queue.SimpleQueue()
        self._closed = self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._wanted.acquire()
                if self._closed:
                    return
                self._ready.put(next(self._items))
        except BaseException as error:
            self._ready.put(error)  # whatever it is, it is the consumer's

    def __iter__(self) -> Iterator[Item]:
        while True:
            with cancellation.ending(self._abort):
                item = self._ready.get()
                if isinstance(item, StopIteration):
                    self._ended = True
                    return
                if isinstance(item, BaseException):
                    raise item
            self._wanted.release()
            yield item
            del item

    def close(self) -> None:
        """End the thread and wait for it. Nothing is aborted after the last item."""
        self._closed = True
        self._wanted.release()
        if not self._ended:
            self._abort()
        self._thread.join()
