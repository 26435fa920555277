"""Watches a commit in flight on a stream, and asks again for one that the controller does not get done.

The commit log has only one transaction at a time asked to commit. If the controller loses that request, everybody
waits for it: so everybody asks again, readers too if they have the right.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.reminder import Reminder
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import make_commit_reminder


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
