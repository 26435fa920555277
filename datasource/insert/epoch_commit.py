"""Commits an epoch: finishes its recorded transaction, or else records this one and commits it.

docs/design/streaming-sink.md has the steps, and explains why nothing is lost or doubled wherever they are cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import TransactionNotOpenError, TransactionOutcomeUnknownError

from ..commit_log.commit_log import CommitLog
from ..tables.stream_table import StreamTable
from .commit import CommitRequest, WriteSettings
from .insert import Insert
from .ledger import Epoch, EpochRecorder, LedgerRow
from .outcomes import clean_up
from .reports import InsertMessage

LOG = logging.getLogger(__name__)

_ABORTED = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


def read_seen_state(pravega: Pravega, table: StreamTable, epoch: Epoch) -> str:
    """Return the state of a writer's row in the ledger, for a write that begins now.

    Raises QueryFencedError, and PermissionDeniedError for a user who could not commit the epoch.
    """
    log, entry = CommitLog(pravega, table.stream), EpochRecorder(table.stream, epoch, 0)
    log.make_ready()
    return log.read_companion(entry.number, entry.row).state


def commit_epoch(
    insert: Insert,
    messages: Sequence[InsertMessage],
    epoch: Epoch,
    log: CommitLog | None = None,
    checked: CommitRequest | None = None,
) -> int:
    """Make the rows of an epoch visible once, however often it is committed; return their number.

    The epoch can be committed again, whatever happened to it. `log` is the one that committed the query's last epoch:
    passing it on spares most reads. `checked` has the checks of the commit. Raises QueryFencedError if another run, or
    another batch with the same number, has taken the epoch's place, and the errors of `Insert.commit`.
    """
    pravega, table = insert.pravega, insert.table
    rows = sum(message.rows for message in messages)
    entry = EpochRecorder(table.stream, epoch, rows)
    log = log or CommitLog(pravega, table.stream, timeout=insert.settings.commit_timeout)
    try:
        row = log.read_companion(entry.number, entry.row)
        if row.epoch > epoch.number:
            clean_up(insert.abort)
            return 0
        former = _FormerTransaction(pravega, table, insert.settings, log, row, entry)
        if row.epoch == epoch.number:
            if checked is not None and not row.done:
                former.abort()  # unless its commit has been asked for: others may have changed what it depends on
            if former.finish_commit():
                log.replace_companion(entry.number, partial(entry.make_value_when_taken_over, row))
                if row.transaction != insert.transaction.id:
                    clean_up(insert.abort)
                return row.rows
            entry.replaces = row.transaction
            if rows == 0:
                log.replace_companion(entry.number, partial(entry.make_value_when_emptied, row))
        elif not row.done:
            former.abort()
    except BaseException:
        clean_up(insert.abort)
        raise
    request = replace(checked or CommitRequest(), operation=_name_operation(epoch), log=log, companion=entry)
    return insert.commit(messages, replace(request, writer=epoch.writer, watermark=epoch.watermark))


def finish_recorded(
    pravega: Pravega, table: StreamTable, settings: WriteSettings, log: CommitLog, row: LedgerRow
) -> bool:
    """Finish the epoch that a row records; return whether it is committed, which the row then says.

    Raises the errors of its commit.
    """
    if row.done:
        return True
    entry = EpochRecorder(table.stream, Epoch(row.writer, row.epoch), row.rows)
    former = _FormerTransaction(pravega, table, settings, log, row, entry)
    if not former.finish_commit():
        return False
    former.note_done()
    return True


@dataclass(frozen=True)
class _FormerTransaction:
    """The transaction that the ledger recorded last, in a `row`. `entry` records the epoch that is being committed."""

    pravega: Pravega
    table: StreamTable
    settings: WriteSettings
    log: CommitLog
    row: LedgerRow
    entry: EpochRecorder

    def finish_commit(self) -> bool:
        """Finish the commit, and return whether it is committed. Otherwise no row of it is or will be visible.

        Raises TransactionOutcomeUnknownError if the server has forgotten it, and it has no version.
        """
        row, stream = self.row, self.table.stream
        if row.done or row.transaction is None:
            return True
        transaction = Transaction.rejoin(self.pravega.controller, stream, row.transaction, self.settings.lease_ms)
        status = transaction.status()
        if status in _ABORTED:
            return False
        if status is TransactionStatus.UNKNOWN:
            if self.log.has_version_of(row.transaction):
                return True
            raise TransactionOutcomeUnknownError(
                f"Batch {row.epoch} of {row.writer} was being committed to stream {stream} when its driver died, and "
                f"the server has forgotten transaction {row.transaction} since. Either all of its rows are visible, or "
                "none: look at the table, and continue with a new checkpoint that starts after it or with it."
            )
        transaction.keep_alive()
        try:
            operation = _name_operation(self.entry.epoch)
            request = CommitRequest(operation, again=True, log=self.log, companion=self.entry)
            Insert(self.pravega, self.table, transaction, self.settings).publish(row.rows, request)
        except TransactionNotOpenError as error:
            LOG.warning("Stream %s, %s: %s. It is replaced.", stream, self.entry.epoch, error.message)
            return False
        finally:
            transaction.stop()
        return True

    def abort(self) -> None:
        """Finish the transaction of an earlier epoch: abort it, unless it is being committed already."""
        assert self.row.transaction is not None
        try:
            self.pravega.controller.abort_transaction(self.table.stream, self.row.transaction)
        except TransactionNotOpenError:
            if self.finish_commit():
                self.note_done()

    def note_done(self) -> None:
        """Note in the ledger that the transaction is committed, unless its row is about another one by now."""
        transaction = self.row.transaction
        assert transaction is not None
        self.log.replace_companion(
            self.entry.number, lambda stored, origin: self.entry.make_value_when_published(transaction, stored)
        )


def _name_operation(epoch: Epoch) -> str:
    return "STREAM" if epoch.run is not None else "INSERT"
