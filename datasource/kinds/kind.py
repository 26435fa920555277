"""Defines what a kind of table can do, and what it refuses by default."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import Option
from pyspark_pravega.sql.refusals import describe_refusal

from ..commit_log.commit_log import CommitLog
from ..insert.plain_task import PlainSpec, PlainWriter
from ..insert.prepare import BEST_EFFORT, TRANSACTIONAL, find_epoch_of_application
from ..insert.task import InsertWriter, find_encoding_id
from ..positions.snapshot import measure_tail
from ..scan.conditions import Condition
from ..scan.planned_scan import PlannedScan
from ..scan.push_down import PushDown
from ..scan.scan_request import ScanRequest, WantedRows
from ..stream_source.source import StreamReader, StreamSource
from ..tables.open_table import OpenTable
from ..tables.stream_table import StreamTable
from ..tables.table_settings import OF_LAKE, TableSettings

_TRUNCATIONS = 5
"""How many times a truncation is tried beside others."""


@dataclass(frozen=True)
class TableKind(OpenTable, ABC):
    """An open table of one kind. Class attributes and methods need no connection.

    Methods about streams and changes raise UnsupportedOperationError in kinds without these.
    """

    hidden_columns: ClassVar[Sequence[str]]
    """The names of the hidden columns that such a table has."""
    rows_have_keys: ClassVar[bool] = False
    """Whether a primary key can identify the row of an event."""
    columns_in_events: ClassVar[bool] = False
    """Whether CREATE TABLE without columns can infer them from existing events."""
    events_are_rows: ClassVar[bool] = False
    """Whether each event is a permanent row, so that the table can be read as a stream of its rows."""
    unsupported: ClassVar[Sequence[str]] = ()
    """Which of the statements about which kinds are asked are not possible; `refusal` says why."""
    refusal = staticmethod(describe_refusal)
    """Returns the sentence that refuses a statement which tables of this kind, with a name, do not support."""
    options_of_columns: ClassVar[Sequence[Option[Any]]] = ()
    """The options of a query that change the columns which it reads."""
    takes_updates: ClassVar[bool] = False
    """Whether rows that are written replace those with the same keys, at once and without a transaction."""
    writes_changes: ClassVar[bool] = False
    """Whether UPDATE, DELETE and MERGE write changes of rows, those of a statement in one transaction."""

    @classmethod
    def name_of(cls, table: StreamTable) -> str:
        """Return the name of a table in its scope."""
        return table.stream.name

    @classmethod
    def events_of(cls, table: StreamTable) -> StreamTable:
        """Return the table whose rows are a table's events: the table itself, or its changelog."""
        return table

    @classmethod
    def row_key_of(cls, table: StreamTable) -> list[str]:
        """Return the columns that identify the row of a change; none if every change is a separate row."""
        return []

    @classmethod
    def check_settings(cls, columns: StructType, settings: TableSettings) -> TableSettings:
        """Return the settings of a table with these columns, with column names spelled like the columns.

        Raises InvalidOptionError for settings that do not fit the columns, or tables of this kind.
        """
        for option in OF_LAKE:
            if option.key in settings.scan_properties:
                raise InvalidOptionError(
                    f"'{option.key}' does not apply: only a table of events or changes of one stream can have a "
                    "lake. Leave it out."
                )
        return settings

    @classmethod
    def check_supports(cls, statement: str, name: str, table: StreamTable) -> None:
        """Raise UnsupportedOperationError for a statement, or a call of the Python API, that is `unsupported`.

        `name` is the table's, for the message.
        """
        if statement in cls.unsupported:
            raise UnsupportedOperationError(cls.refusal(statement, name).replace("<stream>", cls.name_of(table)))

    @classmethod
    def format_of(cls, table: StreamTable) -> str:
        """Return the table property `format` of a table."""
        return table.format

    @classmethod
    def refusal_to_truncate(cls, name: str, whole: str) -> str | None:
        """Return why the events of a table cannot be removed, after "... not possible on"; None if they can be.

        `name` is the table's, `whole` the name of its stream: the table may be a part of it.
        """
        return f"{name}, a part of a stream. Truncate {whole}."

    @classmethod
    def truncate(cls, pravega: Pravega, table: StreamTable) -> None:
        """Remove all events that a table has now, if `refusal_to_truncate` gives no reason against it.

        A commit at the same time is removed or kept as a whole. Raises StreamSealedError, StreamNotFoundError,
        PermissionDeniedError.
        """
        if o.LAKE.key in table.scan_properties:
            raise UnsupportedOperationError(
                f"Stream {table.stream} has a lake, whose rows a table keeps. Remove events that the lake has from the "
                "stream by the procedure truncate_stream, or drop the table and its lake."
            )
        controller, log = pravega.controller, CommitLog(pravega, table.stream)
        for tries in range(1, _TRUNCATIONS + 1):
            # The server accepts any offsets. These are the ends of segments, which never lie within an event: the
            # server appends and merges whole events. Nor do they divide a transaction.
            cut: StreamCut = log.measure_settled(lambda version: version or measure_tail(pravega, table.stream))
            head = controller.head(table.stream)
            if cut == head:
                return
            try:
                controller.truncate_stream(cut)
                return
            except InvalidOptionError:
                # Retention or another program truncates at the same time, perhaps behind the cut.
                if tries == _TRUNCATIONS or controller.head(table.stream) == head:
                    raise

    @classmethod
    def changes_schema_of(cls, table: StreamTable, *, permissive: bool) -> StructType:
        """Return the columns of a table's changes. `permissive`: bad events are rows of nulls.

        Raises InvalidSchemaError if the table has a column with the name of one of CHANGE_COLUMNS.
        """
        cls._refuse("CHANGES", table)

    def plan_scan(self, request: ScanRequest) -> PlannedScan:
        """Fix what a scan reads: of the rows, or of the changes in a range if the statement asks for these.

        Raises InvalidOptionError for unsuitable stream cuts, ranges or dead-letter streams, InvalidSchemaError for
        columns that the table does not have, DataLossError, StreamNotFoundError, PermissionDeniedError.
        """
        scan = PushDown.of(self, request, self._can_choose)
        plan = self._plan_rows if self.table.asked.changes is None else self._plan_changes
        return scan.finish(plan(scan.wanted))

    def open_stream(self, reader: StreamReader) -> StreamSource:
        """Return what a streaming query reads: the rows, or the changes if the query asks for them.

        Raises UnsupportedOperationError for a table that cannot be streamed like that, and InvalidOptionError for
        options with which it cannot.
        """
        self._refuse("CHANGES" if self.table.asked.changes else "readStream", self.table)

    @abstractmethod
    def prepare_insert(self, rows: StructType) -> Self:
        """Return the table for one INSERT of rows with this schema.

        Raises UnsupportedOperationError for a table that cannot be written to, InvalidOptionError for a routing key
        or codec that does not fit, InvalidSchemaError for columns that do not.
        """

    def choose_writer(self, output_mode: str | None = None) -> type[InsertWriter]:
        """Return the class of the tasks' writers of a write with a transaction: a batch, or a query of that mode."""
        return InsertWriter

    def make_plain_writer(self, rows: StructType, epoch: int | None = None) -> DataSourceArrowWriter | None:
        """Return the tasks' writer of a write without a transaction; None for a write with one.

        The table is one that `prepare_insert` returned. `epoch` is what a micro-batch writes into the column of epochs
        of a key-value table that has one. Raises InvalidOptionError for options that do not fit, and for the epoch of
        an application, which such a write does not have.
        """
        find_epoch_of_application(self.options)
        mode, memory = self.options.get(o.WRITE_MODE), self.options.get(o.SPOOL_MEMORY)
        if mode == TRANSACTIONAL:
            return None
        encoding_id = find_encoding_id(self.pravega, self.table)
        return PlainWriter(PlainSpec(self.table, self.pravega.config, rows, encoding_id, mode == BEST_EFFORT, memory))

    def make_keyed_writer(self, rows: StructType) -> DataSourceArrowWriter:
        """Return the tasks' writer of a statement that removes, replaces and inserts rows with this schema.

        Raises UnsupportedOperationError for a table whose rows have no keys.
        """
        raise UnsupportedOperationError(f"Single rows of {self.stream} cannot be changed.")

    def prepare_changes(self, statement: str = "UPDATE") -> Self:
        """Return the table for one statement that changes rows, if it `writes_changes`.

        Raises UnsupportedOperationError for a table whose rows cannot be changed, and the errors of `prepare_insert`.
        """
        self._refuse(statement, self.table)

    @abstractmethod
    def _plan_rows(self, rows: WantedRows) -> PlannedScan:
        """Fix what is read for the wanted rows."""

    def _plan_changes(self, rows: WantedRows) -> PlannedScan:
        """Fix what is read for the wanted changes."""
        self._refuse("CHANGES", self.table)

    def _can_choose(self, condition: Condition) -> bool:
        """Return whether a condition on rows, or on changes, chooses events before they are decoded."""
        return False

    @classmethod
    def _refuse(cls, statement: str, table: StreamTable) -> NoReturn:
        raise UnsupportedOperationError(cls.refusal(statement, str(table.stream)))
