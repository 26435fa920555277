"""Lets the commits of one process to a stream wait for each other, and their first one for those of other processes.

Each of them enters the log's queue, where writers of all processes meet. Without lines, each would look at the head row
again and again until its turn comes: with 64 threads 56 times for each INSERT, which slows down the one whose turn it
is. In a line, a thread sleeps until the one before it has left.

The commit log has only one transaction at a time asked to commit. If the controller loses that request, everybody
waits for it: so everybody asks again, readers too if they have the right.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.reminder import Reminder
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import make_commit_reminder

T = TypeVar("T")
_ENTERING_SECONDS = 1.0


class _Line:
    """The threads of this process that commit to one stream, in the order in which they have entered its log."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entering = threading.Lock()
        self.turns: deque[Turn] = deque()
        self.users = 0


class Turn:
    """The place of one thread in its line. It has none before it has entered."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._first = threading.Event()
        self._first.set()

    def enter(self, enter: Callable[[], T]) -> T:
        """Take the last place, and enter the log by `enter`, one thread at a time: so both have the same order.

        If another thread is at it for long, as when servers do not answer, this one does not wait for it.
        """
        is_alone = self._line.entering.acquire(timeout=_ENTERING_SECONDS)
        try:
            with self._line.lock:
                if self._line.turns:
                    self._first.clear()
                self._line.turns.append(self)
            return enter()
        finally:
            if is_alone:
                self._line.entering.release()

    @property
    def is_behind(self) -> bool:
        """Return whether another thread of this process stands before this one."""
        return not self._first.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until this thread is the first in its line, but no longer than that."""
        self._first.wait(seconds)

    def leave(self) -> None:
        """Give the place up, and wake the thread that is the first now."""
        with self._line.lock:
            if self in self._line.turns:
                self._line.turns.remove(self)
            if self._line.turns:
                self._line.turns[0]._first.set()


class Lines:
    """The lines of this process, by what they commit to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[Hashable, _Line] = {}

    @contextmanager
    def line_up(self, key: Hashable) -> Iterator[Turn]:
        """Yield a turn in the line of this key, and leave it at the end."""
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            line.users += 1
        turn = Turn(line)
        try:
            yield turn
        finally:
            turn.leave()
            with self._lock:
                line.users -= 1
                if not line.users:
                    del self._lines[key]


class CommitWatch:
    """Watches the transaction that others wait for, and asks again for its commit while it stays COMMITTING.

    A transaction in any other state is left to its writer: only COMMITTING says that the writer has decided.
    """

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self._controller = pravega.controller
        self._stream = stream
        self._transaction: uuid.UUID | None = None
        self._reminder: Reminder | None = None

    def note(self, states: Mapping[uuid.UUID, TransactionStatus]) -> None:
        """Note what the controller says of those who may be in the way, and ask again for one COMMITTING for long."""
        committing = [one for one, state in states.items() if state is TransactionStatus.COMMITTING]
        if self._transaction not in committing:
            self._transaction = committing[0] if committing else None
            self._reminder = make_commit_reminder(self._stream, committing[0]) if committing else None
        if self._reminder is not None and (transaction := self._transaction) is not None:
            self._reminder.ask_if_due(lambda: self._controller.commit_transaction(self._stream, transaction))

    def explain(self) -> str:
        """Say for an error message which transaction is not getting done, and what to do; "" if none is."""
        if self._reminder is None:
            return ""
        return (
            f" Transaction {self._transaction} has been COMMITTING for at least {self._reminder.seconds:.0f} s; "
            f"{self._reminder.explain()}. CALL <catalog>.system.commit_transaction(table => '{self._stream.scope}."
            f"{self._stream.name}', transaction => '{self._transaction}') asks for its commit once more and waits for "
            "it; if that does not help, look at the controller's log."
        )
