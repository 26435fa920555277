"""One transaction from begin to commit or abort, kept alive in the background."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_pravega.client.stream import SegmentRange, Stream, transaction_epoch, transaction_segment_id
from pyspark_pravega.errors import PravegaError, ServerTimeoutError, TransactionNotOpenError

if TYPE_CHECKING:
    from pyspark_pravega.client.controller import Controller, TransactionStatus

_log = logging.getLogger(__name__)

PINGS_PER_LEASE = 3


class Transaction:
    """A transaction on one stream. Whoever knows its id can append to it; this object decides about it.

    The transaction is not aborted when the object goes away: its lease ends by itself.
    """

    def __init__(
        self,
        controller: Controller,
        stream: Stream,
        transaction: uuid.UUID,
        segments: list[SegmentRange],
        lease_ms: int,
        token: str = "",
    ) -> None:
        self._controller = controller
        self.stream = stream
        self.id = transaction
        self.segments = segments
        self.lease_ms = lease_ms
        self.token = token
        self._stop = threading.Event()
        self._pinger: threading.Thread | None = None
        self._failure: PravegaError | None = None
        self._decided = False

    @classmethod
    def begin(cls, controller: Controller, stream: Stream, lease_ms: int) -> Transaction:
        """Open a transaction; see `Controller.create_transaction` for the limits of the lease and the errors."""
        created = controller.create_transaction(stream, lease_ms)
        return cls(controller, stream, created.id, created.segments, lease_ms, created.token)

    @classmethod
    def rejoin(cls, controller: Controller, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> Transaction:
        """A transaction that was begun elsewhere, in whatever state it is. Raises StreamNotFoundError."""
        segments = [
            replace(segment, segment_id=transaction_segment_id(segment.segment_id, transaction))
            for segment in controller.epoch_segments(stream, transaction_epoch(transaction))
        ]
        return cls(controller, stream, transaction, segments, lease_ms)

    @property
    def failure(self) -> PravegaError | None:
        """Why the keep-alive gave up; None while all is well. The transaction is lost then, or will be soon."""
        return self._failure

    def keep_alive(self) -> None:
        """Ping from a daemon thread, three times per lease, until commit, abort or `stop`."""
        if self._pinger is None:
            self._pinger = threading.Thread(
                target=self._ping_until_stopped, name=f"keep-alive {self.stream} {self.id}", daemon=True
            )
            self._pinger.start()

    def _ping_until_stopped(self) -> None:
        period = self.lease_ms / 1000 / PINGS_PER_LEASE
        while not self._stop.wait(period):
            try:
                self._controller.ping_transaction(self.stream, self.id, self.lease_ms)
            except PravegaError as error:
                if self._decided or self._stop.is_set():
                    # A ping that overlaps with the commit finds the transaction no longer open.
                    return
                self._failure = error
                _log.warning("Transaction %s on stream %s cannot be kept alive: %s", self.id, self.stream, error)
                return

    def stop(self) -> None:
        """End the keep-alive and leave the transaction as it is, e.g. for another process to decide about."""
        self._stop.set()

    def status(self) -> TransactionStatus:
        """How far the transaction is."""
        return self._controller.transaction_status(self.stream, self.id)

    def commit(self, timeout: float = 300.0) -> None:
        """Commit and wait until it is done: then all readers can see it.

        May be called again after a failure. Raises TransactionNotOpenError if it is aborted or unknown
        (nothing of it is visible), ServerTimeoutError if the server is not done after `timeout` seconds (it
        will be, some time).
        """
        # Pings go on until the request is accepted: it may take several tries.
        self._decided = True
        self._controller.commit_transaction(self.stream, self.id)
        self._stop.set()
        self._wait_committed(timeout)

    def _wait_committed(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        pause = 0.01
        while True:
            state = self.status().name
            if state == "COMMITTED":
                return
            if state not in ("OPEN", "COMMITTING"):
                raise TransactionNotOpenError(
                    f"transaction {self.id} on stream '{self.stream}' was not committed: it is {state.lower()}; "
                    "nothing of it is visible"
                )
            if time.monotonic() + pause > deadline:
                raise ServerTimeoutError(
                    f"transaction {self.id} on stream '{self.stream}' is being committed but was not done after "
                    f"{timeout:g} s; it needs no further action to become visible"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def abort(self) -> None:
        """Drop the transaction. Nothing happens if it is aborted already, or forgotten.

        Raises TransactionNotOpenError if it is committed.
        """
        self._stop.set()
        try:
            self._controller.abort_transaction(self.stream, self.id)
        except TransactionNotOpenError:
            if self.status().name in ("COMMITTED", "COMMITTING"):
                raise

    def __repr__(self) -> str:
        return f"Transaction({self.stream}, {self.id})"
