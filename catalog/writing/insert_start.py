"""What a write begins with, and what it ends with: its options, its handle, the reports of its tasks."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.datasource.insert.change_task import ChangesWriter
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.ledger import Epoch
from pyspark_pravega.datasource.insert.outcomes import Unit
from pyspark_pravega.datasource.insert.task import InsertSpec, InsertWriter
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, TransactionMismatchError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.options import SettableAs, find_option

from ..protocol.service_replies import InsertHandle

_FIXED = (o.FORMAT, o.FRAMING)
"""Options that are fixed for a table, though a write without a catalog may name them."""

_OF_SCANS = (o.READ_WINDOW, o.CURRENT_ROWS_MEMORY, o.CURRENT_ROWS_REMEMBERED_IN)
"""Options of a statement that changes rows which say how its scan reads."""


def select_write_options(table: StreamTable, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a streaming query without those that count only when toTable makes the table.

    Raises InvalidOptionError for a format or framing other than the table's, and for options that name single writes.
    """
    left = {}
    for key, text in options.items():
        option = find_option(key)
        if option in (o.TXN_APP_ID, o.TXN_VERSION):
            raise InvalidOptionError(
                f"'{key}' is for batches that are written in foreachBatch. A query that writes into a table is "
                "identified by its own id, and writes each of its micro-batches once. Leave it out."
            )
        if option in _FIXED:
            has = find_table_kind(table).format_of(table) if option is o.FORMAT else table.framing
            if text.strip().lower() != has:
                raise InvalidOptionError(
                    f"'{key}'='{text}' does not fit: the table exists, and has '{has}'. Leave the option out, "
                    "or write into another table."
                )
        elif option is None or SettableAs.PROPERTY not in option.allowed or SettableAs.WRITE in option.allowed:
            left[key] = text
    return left


def select_statement_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an UPDATE, DELETE or MERGE without those that only say how its scan reads.

    Raises InvalidOptionError for options that make a write happen once, which such a statement does not, and for those
    with which it would read other rows than the table has now.
    """
    left = {}
    for key, text in options.items():
        option = find_option(key)
        if option in (o.TXN_APP_ID, o.TXN_VERSION):
            raise InvalidOptionError(f"'{key}' is for INSERT. A statement that changes rows does not take it.")
        if option is None or SettableAs.READ not in option.allowed:
            left[key] = text
        elif option not in _OF_SCANS:
            taken = ", ".join(f"'{one.key}'" for one in _OF_SCANS)
            raise InvalidOptionError(
                f"'{key}'='{text}' is for SELECT. A statement that changes rows reads them as they are now; of the "
                f"options of a read it takes {taken}."
            )
    return left


Report = TypeVar("Report", bound=WriterCommitMessage)


class WriteKind(StrEnum):
    """How an INSERT writes, as its handle says."""

    WITHOUT_TRANSACTION = "without transaction"
    TRANSACTION = "transaction"
    SINGLE_TASK = "single task"
    SEVERAL_STREAMS = "several streams"


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch of a streaming query: the id of the query, that of its run, and the number of the micro-batch."""

    query: str
    run: str
    number: int


def _find_unit(changes_rows: bool, is_micro_batch: bool) -> Unit:
    return Unit.MICRO_BATCH if is_micro_batch else Unit.STATEMENT if changes_rows else Unit.INSERT


@dataclass(frozen=True)
class InsertStart:
    """How an INSERT begins: the schema of its rows, the number of its tasks, and its write options (`given`).

    `number` is the number of the call that begins it, for `Inserts.abort_begun_by`. The tasks use the `writer`.
    """

    number: int
    schema: StructType
    tasks: int
    given: Mapping[str, str]
    micro_batch: MicroBatch | None = None
    writer: Callable[[InsertSpec], InsertWriter] = InsertWriter

    @property
    def unit(self) -> Unit:
        """Return what messages call the write."""
        return _find_unit(self.writer is ChangesWriter, self.micro_batch is not None)

    def make_handle(self, kind: WriteKind, id: str, seen: str | None = None) -> InsertHandle:
        """Make the handle that ends the INSERT."""
        return InsertHandle(kind, id, self.tasks, dict(self.given), seen)


@dataclass(frozen=True)
class InsertEnd:
    """How an INSERT is committed: its handle, the pickled reports of its tasks in base64, its epoch if it has one.

    `again` says that an earlier service process may have committed it already. An `epoch` is committed once, however
    often it is written. `statement` is how one that changes rows is committed.
    """

    handle: InsertHandle
    messages: Sequence[str]
    again: bool
    epoch: Epoch | None = None
    statement: CommitRequest | None = None

    @property
    def unit(self) -> Unit:
        """Return what messages call the write."""
        return _find_unit(self.statement is not None, self.epoch is not None)

    def load_all(self) -> list[Any]:
        """Return the reports that have come."""
        pickles = CPickleSerializer()
        return [pickles.loads(base64.b64decode(message)) for message in self.messages]

    def load_complete(self, kind: type[Report], abort: Callable[[], None]) -> list[Report]:
        """Return the reports. Aborts and raises TransactionMismatchError unless each task has sent one of this type."""
        reports = self.load_all()
        if len(reports) != self.handle.tasks or not all(isinstance(report, kind) for report in reports):
            abort()
            raise TransactionMismatchError(
                f"{len(reports)} of {self.handle.tasks} tasks reported what they wrote; nothing was committed."
            )
        return reports
