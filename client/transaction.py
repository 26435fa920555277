"""A transaction from its begin to its commit or abort, kept alive in the background."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark_pravega import errors

from .cancellation import run_in_background
from .controller.transaction_calls import SHORTEST_LEASE_MS, CreatedTransaction, TransactionStatus
from .reminder import Reminder
from .retry import limit_retries
from .stream import MAX_EPOCH, SegmentRange, Stream, get_transaction_epoch, make_transaction_segment_id

if TYPE_CHECKING:
    from .controller.controller import Controller

_log = logging.getLogger(__name__)

PINGS_PER_LEASE = 3

_FIRST_LEASE_MS = 87_000
"""A server lets a transaction live at most 1000 times its first lease, and at most a day: this lease allows a day."""

_FAILURES = 10
"""Failed commit attempts before giving up; each attempt already includes some repeated calls."""

_LOOK_SECONDS = 0.002
"""Seconds between two looks whether a commit has merged its segments."""

_MERGING_SECONDS = 0.25
"""Seconds of such looks, after which the controller is asked instead."""

_REFUSED = (errors.AuthenticationError, errors.InvalidOptionError, errors.PermissionDeniedError, errors.TlsError)
"""Answers to a commit after which nothing has been committed."""


@dataclass(eq=False, repr=False)
class Transaction:
    """A transaction on one stream. Every writer that knows its id can append to it; this object ends it.

    The object is made by `begin` or `rejoin`. If it is dropped, the transaction stays open until its lease ends.

    `id`: unique only within the stream. `segments`: where to append. Their ids carry the transaction's epoch.
    `lease_ms`: milliseconds that the transaction lives after each ping. `token`: a delegation token to append with; ""
    after `rejoin`, and without authentication. `begun_at`: when it began, as far as this process knows
    (`time.monotonic`).

    Examples
    --------
    >>> transaction = Transaction.begin(pravega.controller, Stream("plant", "temperatures"), lease_ms=30_000)
    >>> transaction.keep_alive()
    >>> segment = transaction.segments[0].segment_id
    >>> with SegmentAppender(
    ...     pravega.segments, transaction.stream, segment, uuid.uuid4(), transaction.id
    ... ) as appender:
    ...     appender.append(frame(pa.array([b"21.5", b"21.7"])), 2)
    ...     appender.flush()
    >>> transaction.commit()
    """

    controller: Controller
    stream: Stream
    id: uuid.UUID
    segments: list[SegmentRange]
    lease_ms: int
    token: str = ""
    begun_at: float = field(default_factory=time.monotonic, init=False)
    failure: errors.PravegaError | None = field(default=None, init=False)
    """Why the keep-alive gave up, a TransactionNotOpenError; None as long as it has not."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._pinger: threading.Thread | None = None
        self._decided = False

    @classmethod
    def begin(cls, controller: Controller, stream: Stream, lease_ms: int) -> Transaction:
        """Begin a transaction that can be kept alive for a day, even with a short lease.

        `lease_ms`: milliseconds that the transaction lives after each ping, see `Controller.create_transaction`.

        Raises InvalidOptionError if the lease is out of bounds; StreamNotFoundError, StreamSealedError.
        """
        if lease_ms >= _FIRST_LEASE_MS:
            created = controller.create_transaction(stream, lease_ms)
        else:
            created = _create_for_a_day(controller, stream, lease_ms)
        return cls(controller, stream, created.id, created.segments, lease_ms, created.token)

    @classmethod
    def rejoin(cls, controller: Controller, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> Transaction:
        """Return a transaction that another process has begun, whatever state it is in.

        Raises StreamNotFoundError if there is no such stream, or it does not have the epoch of the id.
        """
        epoch = get_transaction_epoch(transaction)
        if epoch > MAX_EPOCH:
            raise errors.StreamNotFoundError(f"stream '{stream}' has no epoch {epoch}: no stream can have so many")
        segments = [
            replace(segment, segment_id=make_transaction_segment_id(segment.segment_id, transaction))
            for segment in controller.epoch_segments(stream, epoch)
        ]
        return cls(controller, stream, transaction, segments, lease_ms)

    def keep_alive(self) -> None:
        """Ping from a daemon thread, three times per lease, until commit, abort or `stop`.

        Failed pings are repeated, since others may keep the transaction alive, until the server says that it has ended.
        """
        if self._pinger is None:
            self._pinger = threading.Thread(
                target=self._ping_until_stopped, name=f"keep-alive {self.stream} {self.id}", daemon=True
            )
            self._pinger.start()

    def ping(self) -> None:
        """Renew the lease. Raises TransactionNotOpenError."""
        self.controller.ping_transaction(self.stream, self.id, self.lease_ms)

    def _ping_until_stopped(self) -> None:
        period = self.lease_ms / 1000 / PINGS_PER_LEASE
        pause = period
        while not self._stop.wait(pause):
            try:
                self.ping()
                pause = period
            except errors.ClientClosedError:
                return  # whoever closed the connection needs the transaction no longer
            except errors.PravegaError as error:
                if self._decided or self._stop.is_set():
                    # A ping that overlaps the commit finds that the transaction is no longer open.
                    return
                _log.warning("Transaction %s on stream %s cannot be kept alive: %s", self.id, self.stream, error)
                if isinstance(error, errors.TransactionNotOpenError):
                    self.failure = error
                    return
                pause = min(period, 1.0)

    def stop(self) -> None:
        """End the keep-alive and leave the transaction as it is, e.g. for another process to commit."""
        self._stop.set()

    def status(self) -> TransactionStatus:
        """Return the state of the transaction, as the controller knows it."""
        return self.controller.transaction_status(self.stream, self.id)

    def explain_end(self) -> errors.TransactionNotOpenError:
        """Return the error for a transaction that takes no more events; it says what has become of it."""
        status = self.status()
        title = f"transaction {self.id} on stream '{self.stream}'"
        if self.failure is not None:
            return errors.TransactionNotOpenError(self.failure.message)
        if status in (TransactionStatus.ABORTING, TransactionStatus.ABORTED):
            return errors.TransactionNotOpenError(
                f"{title} was aborted: by a client, or by the server because nobody pinged it during the lease of "
                f"{self.lease_ms / 1000:g} s. No event of it is visible"
            )
        if status in (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED):
            return errors.TransactionNotOpenError(f"{title} is already committed")
        if status is TransactionStatus.OPEN:
            return errors.TransactionNotOpenError(f"{title} is sealed, because it is about to be committed")
        return errors.TransactionNotOpenError(f"{title} is not known to the server: it ended long ago, or never began")

    def commit(
        self,
        timeout: float = 300.0,
        event_time: tuple[str, int] | None = None,
        merged: Callable[[], bool] | None = None,
    ) -> None:
        """Commit, and wait until the commit is done: then all readers see the events.

        If an answer is lost, the server is asked for the state of the transaction, and for the commit again as long as
        that has not begun, and if it does not get done.

        `timeout`: seconds to wait. `event_time`: a writer's name and a time: the writer promises that no later event is
        older; see `Controller.note_time`. `merged`: returns whether the segment stores have merged the last segments of
        the transaction. Soon after, the controller calls it committed; that is cheaper to ask for than the controller,
        which is asked right after.

        Raises TransactionNotOpenError if the transaction is aborted or unknown, so that no event of it is visible;
        ServerTimeoutError if the commit has begun and may still be done, although the server was reminded of it;
        TransactionOutcomeUnknownError if the server cannot be asked, or fails each time; AuthenticationError,
        PermissionDeniedError.
        """
        # Pings continue until the request is accepted, which may take several tries.
        self._decided = True
        deadline = time.monotonic() + timeout
        writer, noted = event_time or ("", None)
        pause, state, failures = 0.01, TransactionStatus.OPEN, 0
        reminder = make_commit_reminder(self.stream, self.id)

        def ask() -> None:
            self.controller.commit_transaction(self.stream, self.id, writer=writer, event_time=noted)

        while True:
            error: errors.PravegaError | None = None
            try:
                if state is TransactionStatus.OPEN:
                    ask()
                    self._stop.set()
                if merged is not None and _wait_until_merged(
                    merged, min(_MERGING_SECONDS, deadline - time.monotonic())
                ):
                    merged, pause = None, _LOOK_SECONDS
                state = self.status()
            except (errors.TransactionNotOpenError, *_REFUSED):
                raise
            except errors.PravegaError as failed:
                _log.warning("Committing transaction %s on stream %s: %s", self.id, self.stream, failed)
                error = failed
                failures += isinstance(failed, errors.ServerFailedError)
            if state is TransactionStatus.COMMITTED:
                return
            if state not in (TransactionStatus.OPEN, TransactionStatus.COMMITTING):
                raise errors.TransactionNotOpenError(
                    f"transaction {self.id} on stream '{self.stream}' was not committed: it is {state.name.lower()}; "
                    "no event of it is visible"
                )
            if error is not None and (failures == _FAILURES or time.monotonic() + pause > deadline):
                raise errors.TransactionOutcomeUnknownError(
                    f"it is unknown whether transaction {self.id} on stream '{self.stream}' was committed: "
                    f"{error.message}; look at the data before you write it again"
                ) from error
            if time.monotonic() + pause > deadline:
                raise errors.ServerTimeoutError(
                    f"transaction {self.id} on stream '{self.stream}' is being committed but was not done after "
                    f"{timeout:.3g} s; {reminder.explain()}. Do not write its events again: they become visible once "
                    "the server has done it, and whoever waits for them asks for that again"
                )
            if state is TransactionStatus.COMMITTING and error is None:
                reminder.ask_if_due(ask)
            time.sleep(pause)
            pause = min(pause * 1.2, 0.5)

    def abort(self) -> None:
        """Abort the transaction unless it is aborted or forgotten. Raises TransactionNotOpenError after a commit."""
        self._stop.set()
        try:
            self.controller.abort_transaction(self.stream, self.id)
        except errors.TransactionNotOpenError:
            if self.status() in (TransactionStatus.COMMITTED, TransactionStatus.COMMITTING):
                raise

    def __repr__(self) -> str:
        return f"Transaction({self.stream}, {self.id})"


def make_commit_reminder(stream: Stream, transaction: uuid.UUID) -> Reminder:
    """Make what asks again for the commit of a transaction; only once the controller calls it COMMITTING."""
    return Reminder(f"commit transaction {transaction} on stream '{stream}'")


def _wait_until_merged(merged: Callable[[], bool], seconds: float) -> bool:
    """Wait at most `seconds` until a commit has merged its segments; return False if it has not.

    True also if the segment stores cannot be asked: only the controller can tell then.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with limit_retries(_MERGING_SECONDS):
                if merged():
                    return True
        except errors.PravegaError as error:
            _log.debug("Only the controller can tell the state of a commit: %s", error)
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _create_for_a_day(controller: Controller, stream: Stream, lease_ms: int) -> CreatedTransaction:
    """Create a transaction with a long first lease, and give it the wanted one by a ping.

    Nobody waits for that ping: if it fails, the first lease counts until the next ping.
    """
    if lease_ms < SHORTEST_LEASE_MS:
        return controller.create_transaction(stream, lease_ms)  # the server refuses it, unless it has other limits
    try:
        created = controller.create_transaction(stream, _FIRST_LEASE_MS)
    except errors.InvalidOptionError:
        return controller.create_transaction(stream, lease_ms)  # the server has a lower limit

    def ping() -> None:
        try:
            controller.ping_transaction(stream, created.id, lease_ms)
        except errors.PravegaError as error:  # the transaction or the connection may have ended
            _log.debug("Transaction %s keeps its first lease: %s", created.id, error)

    run_in_background(ping)
    return created
