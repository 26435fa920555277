"""The driver's side of a write into several streams: keeps their transactions alive, and commits one after the other.

Each stream has its own commit log and its own ledger. So each commit is one of an INSERT or of an epoch of its stream,
and happens once however often it is repeated; docs/design/streaming-sink.md has the steps.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import PINGS_PER_LEASE, Transaction
from pyspark_pravega.errors import PravegaError, TransactionMismatchError, TransactionNotOpenError

from ..insert.commit import CommitRequest, WriteSettings
from ..insert.epoch_commit import commit_epoch
from ..insert.insert import Insert
from ..insert.ledger import Epoch
from ..insert.outcomes import Unit, clean_up
from ..insert.reports import InsertMessage
from ..tables.stream_table import StreamTable
from .dispatch_task import DispatchMessage
from .roster import Roster

LOG = logging.getLogger(__name__)

_PARTS = {Unit.INSERT: Unit.PART_OF_INSERT, Unit.MICRO_BATCH: Unit.PART_OF_MICRO_BATCH}


@dataclass(frozen=True)
class _Part:
    """What the tasks wrote for one stream."""

    insert: Insert
    messages: Sequence[InsertMessage]


class Dispatch:
    """One write into several streams. `table` is its target."""

    def __init__(self, pravega: Pravega, table: StreamTable, roster: Roster, settings: WriteSettings) -> None:
        self._pravega, self._table, self.roster = pravega, table, roster
        self._settings = settings
        self._ended = threading.Event()

    def keep_alive(self) -> None:
        """Keep the transactions of the roster alive, from a daemon thread, until `stop`."""
        threading.Thread(target=self._ping_until_stopped, name=f"roster {self.roster.id}", daemon=True).start()

    def stop(self) -> None:
        """Leave the transactions as they are."""
        self._ended.set()

    def commit(self, messages: Sequence[DispatchMessage], epoch: Epoch | None, *, again: bool) -> int:
        """Make the rows for each stream visible at once, one stream after the other; return the number of all rows.

        Raises the errors of `Insert.commit` and `commit_epoch`. Then the rows for earlier streams are visible, as the
        message says. `again` is as in `CommitRequest`.
        """
        parts = self._rejoin(messages)
        self.stop()
        self._abort_others(parts)
        rows, done = 0, list[str]()
        try:
            for name, part in parts.items():
                if epoch is None:
                    rows += part.insert.commit(part.messages, CommitRequest(again=again))
                else:
                    rows += commit_epoch(part.insert, part.messages, epoch)
                done.append(name)
        except PravegaError as error:
            for name, part in parts.items():
                if name not in done:
                    clean_up(part.insert.abort)
            if not done:
                raise
            raise type(error)(
                f"{error.message.rstrip('.')}. The rows of this write for {len(done)} of {len(parts)} streams are "
                f"visible already: {', '.join(done)}"
            ) from error
        finally:
            for part in parts.values():
                part.insert.transaction.stop()
            clean_up(lambda: self.roster.end(self._pravega))
        return rows

    def abort(self) -> None:
        """Abort the transactions of all streams."""
        self.stop()
        for name, transaction in self.roster.transactions(self._pravega).items():
            self._abort(name, transaction)
        self.roster.end(self._pravega)

    def _abort_others(self, parts: Mapping[str, _Part]) -> None:
        """Abort the transactions that only lost attempts of tasks have joined."""

        def abort() -> None:
            for name, transaction in self.roster.transactions(self._pravega).items():
                if name not in parts or parts[name].insert.transaction.id != transaction:
                    self._abort(name, transaction)

        clean_up(abort)

    def _abort(self, name: str, transaction: uuid.UUID) -> None:
        with suppress(TransactionNotOpenError):
            self._pravega.controller.abort_transaction(self._stream(name), transaction)

    def _rejoin(self, messages: Sequence[DispatchMessage]) -> Mapping[str, _Part]:
        """Return the parts of the write by stream, in the order in which they are committed."""
        unit = _PARTS[self._settings.unit]
        settings, lease = replace(self._settings, unit=unit), self._settings.lease_ms
        parts = {}
        for name in sorted({name for message in messages for name in message.streams}):
            reports = [message.streams[name] for message in messages if name in message.streams]
            transactions: set[uuid.UUID] = {report.transaction for report in reports}
            if len(transactions) != 1:
                raise TransactionMismatchError(
                    f"The tasks wrote to {len(transactions)} transactions of stream {self._stream(name)}; nothing was "
                    "committed."
                )
            transaction = Transaction.rejoin(self._pravega.controller, self._stream(name), transactions.pop(), lease)
            table = replace(self._table, stream=self._stream(name))
            insert = Insert(self._pravega, table, transaction, settings)
            parts[name] = _Part(insert, [report.message for report in reports])
        for part in parts.values():
            part.insert.transaction.keep_alive()
        return parts

    def _stream(self, name: str) -> Stream:
        return Stream(self._table.stream.scope, name)

    def _ping_until_stopped(self) -> None:
        lease = self._settings.lease_ms
        while not self._ended.wait(self._settings.lease / PINGS_PER_LEASE):
            try:
                for name, transaction in self.roster.transactions(self._pravega).items():
                    self._pravega.controller.ping_transaction(self._stream(name), transaction, lease)
            except PravegaError as error:
                if not self._ended.is_set():
                    LOG.warning("A write to %s cannot be kept alive: %s", self._table.stream, error)
