"""Defines the door of a kind of table: what can be asked of every kind, and which rows a scan wants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refusal
from pyspark_pravega.sql.table_settings import TableSettings

from ..changes.position import Position, Wanted
from ..changes.row_changes_stream import ChangesMemory, Checkpoint
from ..changes.truncations import Search
from ..insert.prepare import plain_writer
from ..positions.snapshot import SegmentSlice
from ..scan.conditions import Condition
from ..scan.event_times import EventTimes
from ..scan.places import Places
from ..scan.planned_scan import EarlierScan, PlannedScan
from ..tables.change_range import ChangeRange
from ..tables.stream_table import StreamTable


@dataclass(frozen=True)
class WantedRows:
    """The rows that a scan wants, by default all up to now. A kind of table reads more where it cannot tell.

    At most `limit` rows are wanted; `few` may be enough though no limit says so, then a scan of events reads little at
    first. `tail` is that of an earlier scan with the same start, by segment, in bytes. `places` says which events are
    wanted, where these are rows. `conditions` are those that are evaluated on the rows: what cannot have rows that
    fulfil them may be left out. `search` is what may be done for the scan before. With `counted` the tasks tell what
    they have counted, see `scan/counts.py`.
    """

    limit: int | None = None
    few: bool = False
    tail: Mapping[int, int] | None = None
    places: Places | None = None
    conditions: Sequence[Condition] = ()
    search: Search = field(default_factory=Search)
    counted: bool = False


ALL_ROWS = WantedRows()


class TableKind(ABC):
    """A kind of table. All methods take a table of this kind.

    Those about streams and changes raise UnsupportedOperationError where a kind has none.
    """

    hidden_columns: ClassVar[Sequence[str]]
    """The names of the METADATA_COLUMNS that such a table has."""
    rows_have_keys: ClassVar[bool]
    """Whether a primary key can tell which row an event is about."""
    columns_in_events: ClassVar[bool]
    """Whether CREATE TABLE without columns can take them from events that are there."""
    events_are_rows: ClassVar[bool]
    """Whether each event is a row for good, so that the table can be read as a stream of its rows."""

    of_stream: ClassVar[bool] = True
    """Whether it is a stream, or a part of one, and so has versions, a commit log and metadata tables."""

    @abstractmethod
    def name(self, table: StreamTable) -> str:
        """Return the name of the table in its scope."""

    @abstractmethod
    def check_settings(self, columns: StructType, settings: TableSettings) -> TableSettings:
        """Return the settings of a table with these columns, with column names spelled as the columns.

        Raises InvalidOptionError for settings that do not fit the columns.
        """

    @abstractmethod
    def plan_scan(
        self,
        pravega: Pravega,
        table: StreamTable,
        required: StructType,
        options: o.Options,
        wanted: WantedRows = ALL_ROWS,
    ) -> PlannedScan:
        """Fix what a scan reads.

        `required` are the columns Spark needs, metadata columns among them, nested ones pruned. `options` have the
        table's `scan_properties` in them. Raises InvalidOptionError for stream cuts or a dead-letter stream that do not
        fit, InvalidSchemaError for columns that the table does not have, DataLossError, StreamNotFoundError,
        PermissionDeniedError.
        """

    def plan_micro_batch(
        self,
        pravega: Pravega,
        table: StreamTable,
        slices: Sequence[SegmentSlice],
        required: StructType,
        options: o.Options,
        query: str,
        times: EventTimes | None = None,
    ) -> PlannedScan:
        """Fix how a micro-batch of a streaming query reads these slices; arguments and errors of `plan_scan`.

        `query` tells it from others, also when it goes on. `times` are those of its rows, where they are asked for.
        Raises UnsupportedOperationError for a table that is not streamed like that.
        """
        self._refuse("readStream", table)

    @abstractmethod
    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        """Return the table as one INSERT of rows with this schema sees it.

        Raises UnsupportedOperationError for a table that cannot be written to, InvalidOptionError for a routing key
        or codec that does not fit, InvalidSchemaError for columns that do not.
        """

    def plain_writer(
        self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options
    ) -> DataSourceArrowWriter | None:
        """Return the tasks' writer of a write without a transaction, None for one that is a transaction.

        The table is one that `prepare_insert` returned. Raises InvalidOptionError for options that do not fit.
        """
        return plain_writer(pravega, table, rows, options)

    def row_changes_writer(
        self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options
    ) -> DataSourceArrowWriter:
        """Return the tasks' writer of a statement that removes, replaces and inserts rows with this schema.

        Raises UnsupportedOperationError for a table whose rows are not told by keys.
        """
        raise UnsupportedOperationError(f"Single rows of {table.stream} cannot be changed.")

    def refusal(self, statement: str, name: str) -> str:
        """Return the sentence that refuses a statement which no table of this kind knows."""
        return refusal(statement, name)

    @abstractmethod
    def row_key(self, table: StreamTable) -> list[str]:
        """Return the columns that tell which row a change is of; none where every change is a row of its own."""

    def changes_schema(self, table: StreamTable, *, permissive: bool) -> StructType:
        """Return the columns of the table's changes. `permissive`: bad events are rows of nulls.

        Raises InvalidSchemaError when the table has a column of the same name as one of CHANGE_COLUMNS.
        """
        self._refuse("CHANGES", table)

    def plan_changes(
        self,
        pravega: Pravega,
        table: StreamTable,
        changes: ChangeRange,
        required: StructType,
        options: o.Options,
        *,
        limit: int | None = None,
        earlier: EarlierScan | None = None,
        search: Search | None = None,
        conditions: Sequence[Condition] = (),
    ) -> PlannedScan:
        """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

        `required` are those of `changes_schema` that Spark needs. `conditions`, where `events_are_rows`, are about the
        version alone: changes of others are not wanted. Raises what `plan_scan` does, and
        InvalidOptionError for a range without sense.
        """
        self._refuse("CHANGES", table)

    def start_of_changes(
        self, pravega: Pravega, table: StreamTable, changes: ChangeRange, options: o.Options
    ) -> Position:
        """Return where a stream of changes begins that has no checkpoint yet.

        Raises InvalidOptionError for a range that is none of a stream, or has no sense.
        """
        self._refuse("CHANGES", table)

    def end_of_changes(
        self, pravega: Pravega, table: StreamTable, options: o.Options, since: Position, wanted: Wanted
    ) -> Position:
        """Return where the next batch of a stream of changes ends: `since` itself, after a pause, if nothing is new."""
        self._refuse("CHANGES", table)

    def plan_new_changes(
        self,
        pravega: Pravega,
        table: StreamTable,
        changes: ChangeRange,
        required: StructType,
        options: o.Options,
        since: Position,
        until: Position,
        checkpoint: Checkpoint,
        memory: ChangesMemory,
        search: Search,
    ) -> PlannedScan:
        """Fix what a batch of a stream of changes reads. `checkpoint` is what the query keeps.

        Raises what `plan_changes` does, and InvalidOptionError for positions that are none of the stream.
        """
        self._refuse("CHANGES", table)

    def _refuse(self, statement: str, table: StreamTable) -> NoReturn:
        raise UnsupportedOperationError(self.refusal(statement, str(table.stream)))
