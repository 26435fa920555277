"""Lets the commits of one process to a stream wait for each other, and two of them for those of other processes.

The first two of a line stand in the log's queue, where writers of all processes meet: so the second one is ready when
the first one leaves, and a writer of another process waits for two of a crowd, not for all of it. The others sleep: if
each looked at the head row until its turn comes, 64 threads would do so 56 times for each INSERT, and slow it down.

The commit log has only one transaction at a time asked to commit. If the controller loses that request, everybody
waits for it: so everybody asks again, readers too if they have the right.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from weakref import WeakValueDictionary

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.reminder import Reminder
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import make_commit_reminder

_ENTERED_AT_ONCE = 2


class _Line:
    """Threads of this process that commit to one stream, in their order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turns: deque[Turn] = deque()

    def move_up(self) -> None:
        """Wake the first one, and who may enter: each after the one before it has. The caller has the lock."""
        for place, turn in enumerate(islice(self.turns, _ENTERED_AT_ONCE)):
            turn.may_enter.set()
            if place == 0:
                turn.is_first.set()
            if not turn.has_entered:
                break


class Turn:
    """The place of one thread in a line."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.may_enter = threading.Event()
        """Set when at most one other is left before this one, and has entered the log."""
        self.is_first = threading.Event()
        self.has_entered = False
        with line.lock:
            line.turns.append(self)
            line.move_up()

    def note_entered(self) -> None:
        """Note that this thread has entered the log, and let the next one do so if it may."""
        with self._line.lock:
            self.has_entered = True
            self._line.move_up()

    def leave(self) -> None:
        """Give the place up, and wake those who have moved up."""
        with self._line.lock:
            if self in self._line.turns:
                self._line.turns.remove(self)
            self._line.move_up()


class Lines:
    """The lines of this process, by what they commit to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: WeakValueDictionary[Hashable, _Line] = WeakValueDictionary()

    @contextmanager
    def line_up(self, key: Hashable) -> Iterator[Turn]:
        """Yield the last place in the line of this key, and give it up at the end."""
        with self._lock:
            turn = Turn(self._lines.setdefault(key, _Line()))
        try:
            yield turn
        finally:
            turn.leave()


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
