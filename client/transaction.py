"""One transaction from begin to commit or abort, kept alive in the background."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_pravega.errors import (
    AuthenticationError,
    ClientClosedError,
    InvalidOptionError,
    PermissionDeniedError,
    PravegaError,
    ServerFailedError,
    ServerTimeoutError,
    StreamNotFoundError,
    TlsError,
    TransactionNotOpenError,
    TransactionOutcomeUnknownError,
)

from .cancellation import run_in_background
from .controller.transactions import SHORTEST_LEASE_MS, CreatedTransaction, TransactionStatus
from .retry import limit_retries
from .stream import MAX_EPOCH, SegmentRange, Stream, transaction_epoch, transaction_segment_id

if TYPE_CHECKING:
    from .controller.controller import Controller

_log = logging.getLogger(__name__)

PINGS_PER_LEASE = 3

_FIRST_LEASE_MS = 87_000
"""A server lets a transaction live 1000 times its first lease at most, and a day: this one allows for the day."""

_FAILURES = 10
"""So often a server may fail to take a commit; a call that fails is repeated some times before that is said."""

_LOOK_SECONDS = 0.002
_MERGING_SECONDS = 0.25
"""Pauses between looks at whether a commit has merged its segments; after so long, the controller is asked anyway."""

_REFUSED = (AuthenticationError, InvalidOptionError, PermissionDeniedError, TlsError)
"""Answers to a commit after which nothing has been committed."""


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
        self.begun_at = time.monotonic()
        """When it was begun, as far as this process knows."""
        self._stop = threading.Event()
        self._pinger: threading.Thread | None = None
        self._failure: PravegaError | None = None
        self._decided = False

    @classmethod
    def begin(cls, controller: Controller, stream: Stream, lease_ms: int) -> Transaction:
        """Open a transaction that can be kept alive for a day, whatever the lease that pings give it.

        See `Controller.create_transaction` for the limits of the lease and the errors.
        """
        if lease_ms >= _FIRST_LEASE_MS:
            created = controller.create_transaction(stream, lease_ms)
        else:
            created = _create_for_a_day(controller, stream, lease_ms)
        return cls(controller, stream, created.id, created.segments, lease_ms, created.token)

    @classmethod
    def rejoin(cls, controller: Controller, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> Transaction:
        """Join a transaction that was begun elsewhere, in whatever state it is.

        Raises StreamNotFoundError, also for an id whose epoch the stream does not have.
        """
        epoch = transaction_epoch(transaction)
        if epoch > MAX_EPOCH:
            raise StreamNotFoundError(f"stream '{stream}' has no epoch {epoch}, which no stream can have")
        segments = [
            replace(segment, segment_id=transaction_segment_id(segment.segment_id, transaction))
            for segment in controller.epoch_segments(stream, epoch)
        ]
        return cls(controller, stream, transaction, segments, lease_ms)

    @property
    def failure(self) -> PravegaError | None:
        """Why the keep-alive gave up, a TransactionNotOpenError: the transaction has ended. None while all is well."""
        return self._failure

    def keep_alive(self) -> None:
        """Ping from a daemon thread, three times per lease, until commit, abort or `stop`.

        Only the server's word that the transaction has ended ends the pings: one that fails otherwise is repeated, as
        others may keep the transaction alive too.
        """
        if self._pinger is None:
            self._pinger = threading.Thread(
                target=self._ping_until_stopped, name=f"keep-alive {self.stream} {self.id}", daemon=True
            )
            self._pinger.start()

    def ping(self) -> None:
        """Begin the lease anew. Raises TransactionNotOpenError."""
        self._controller.ping_transaction(self.stream, self.id, self.lease_ms)

    def _ping_until_stopped(self) -> None:
        period = self.lease_ms / 1000 / PINGS_PER_LEASE
        pause = period
        while not self._stop.wait(pause):
            try:
                self.ping()
                pause = period
            except ClientClosedError:
                return  # whoever closed it has done with the transaction
            except PravegaError as error:
                if self._decided or self._stop.is_set():
                    # A ping that overlaps with the commit finds the transaction no longer open.
                    return
                _log.warning("Transaction %s on stream %s cannot be kept alive: %s", self.id, self.stream, error)
                if isinstance(error, TransactionNotOpenError):
                    self._failure = error
                    return
                pause = min(period, 1.0)

    def stop(self) -> None:
        """End the keep-alive and leave the transaction as it is, e.g. for another process to decide about."""
        self._stop.set()

    def status(self) -> TransactionStatus:
        """Tell how far the transaction is."""
        return self._controller.transaction_status(self.stream, self.id)

    def explain_end(self) -> TransactionNotOpenError:
        """Return an error that says what has become of a transaction that takes no more events."""
        status = self.status()
        told = f"transaction {self.id} on stream '{self.stream}'"
        if self._failure is not None:
            return TransactionNotOpenError(self._failure.message)
        if status in (TransactionStatus.ABORTING, TransactionStatus.ABORTED):
            return TransactionNotOpenError(
                f"{told} was aborted: by somebody, or by the server because it had no sign of life for the lease of "
                f"{self.lease_ms / 1000:g} s. Nothing of it is visible"
            )
        if status in (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED):
            return TransactionNotOpenError(f"{told} is committed already")
        if status is TransactionStatus.OPEN:
            return TransactionNotOpenError(f"{told} is sealed, because it is about to be committed")
        return TransactionNotOpenError(f"{told} is not known to the server: it ended long ago, or never began")

    def commit(
        self,
        timeout: float = 300.0,
        event_time: tuple[str, int] | None = None,
        merged: Callable[[], bool] | None = None,
    ) -> None:
        """Commit and wait until it is done: then all readers can see it.

        `event_time`: a writer's name and the time it notes, no event after these being older; see `note_time`.
        `merged`: whether a segment store has merged all of the transaction's segments. That is the last step before
        the controller calls the transaction committed, and cheaper to ask for: the controller is asked right after it.

        A lost answer is no failure: the server is asked how far it is, and for the commit again while it is not begun.
        Raises TransactionNotOpenError if it is aborted or unknown (nothing of it is visible), ServerTimeoutError if
        the server is not done after `timeout` seconds (it will be, some time), TransactionOutcomeUnknownError if it
        cannot be asked or fails each time, AuthenticationError, PermissionDeniedError.
        """
        # Pings go on until the request is accepted: it may take several tries.
        self._decided = True
        deadline = time.monotonic() + timeout
        writer, noted = event_time or ("", None)
        pause, state, failures = 0.01, "OPEN", 0
        while True:
            error: PravegaError | None = None
            try:
                if state == "OPEN":
                    self._controller.commit_transaction(self.stream, self.id, writer=writer, event_time=noted)
                    self._stop.set()
                if merged is not None and _wait_until_merged(
                    merged, min(_MERGING_SECONDS, deadline - time.monotonic())
                ):
                    merged, pause = None, _LOOK_SECONDS
                state = self.status().name
            except (TransactionNotOpenError, *_REFUSED):
                raise
            except PravegaError as failed:
                _log.warning("Committing transaction %s on stream %s: %s", self.id, self.stream, failed)
                error = failed
                failures += isinstance(failed, ServerFailedError)
            if state == "COMMITTED":
                return
            if state not in ("OPEN", "COMMITTING"):
                raise TransactionNotOpenError(
                    f"transaction {self.id} on stream '{self.stream}' was not committed: it is {state.lower()}; "
                    "nothing of it is visible"
                )
            if error is not None and (failures == _FAILURES or time.monotonic() + pause > deadline):
                raise TransactionOutcomeUnknownError(
                    f"whether transaction {self.id} on stream '{self.stream}' was committed could not be found out: "
                    f"{error.message}; look at the data before you write it again"
                ) from error
            if time.monotonic() + pause > deadline:
                raise ServerTimeoutError(
                    f"transaction {self.id} on stream '{self.stream}' is being committed but was not done after "
                    f"{timeout:.3g} s; it needs no further action to become visible"
                )
            time.sleep(pause)
            pause = min(pause * 1.2, 0.5)

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


def _wait_until_merged(merged: Callable[[], bool], seconds: float) -> bool:
    """Look again and again whether a commit has merged its segments, so long at most; also True if nobody tells."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with limit_retries(_MERGING_SECONDS):
                if merged():
                    return True
        except PravegaError as error:
            _log.debug("Only the controller tells how far a commit is: %s", error)
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _create_for_a_day(controller: Controller, stream: Stream, lease_ms: int) -> CreatedTransaction:
    """Create a transaction whose first lease is longer than the wanted one, which it gets by a ping.

    Nobody waits for that ping: should it fail, the first lease counts until the next one.
    """
    if lease_ms < SHORTEST_LEASE_MS:
        return controller.create_transaction(stream, lease_ms)  # refused, unless the server has other limits
    try:
        created = controller.create_transaction(stream, _FIRST_LEASE_MS)
    except InvalidOptionError:
        return controller.create_transaction(stream, lease_ms)  # a server with a lower limit

    def ping() -> None:
        try:
            controller.ping_transaction(stream, created.id, lease_ms)
        except PravegaError as error:  # it may have ended meanwhile, or the connection
            _log.debug("Transaction %s keeps its first lease: %s", created.id, error)

    run_in_background(ping)
    return created
