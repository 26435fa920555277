"""The changes of a table, as a streaming query reads them: rows that were inserted, or changes of rows with keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pyspark_pravega.client.recent import Recent

from ..changes.appended import find_start_of_appended, plan_new_appended
from ..changes.changes_offset import ChangesOffset, check_endless, check_positions, find_end_of_batch, find_tail
from ..changes.row_changes import check_key_of_table
from ..changes.row_changes_stream import ChangesBatch, SegmentGroups, check_stream_of_rows, plan_new_row_changes
from ..positions.identity import find_creation
from ..scan.planned_scan import PlannedScan
from ..scan.scan_request import Search
from ..stream_source.admission import Limits, read_limits
from ..stream_source.source import BatchRange, MicroBatchEnd, StreamReader, StreamSource
from ..stream_source.tiered_segments import find_head
from ..tables.open_table import OpenRead, OpenTable


class ChangesSource(StreamSource):
    """Reads the changes of a table. An offset is a position between two transactions.

    A consumer, if the query has one, holds back what it has yet to read; of rows before it, the checkpoint has a state.
    """

    _needs_log: ClassVar[bool]
    """Whether users must be allowed to read the commit log, because all versions are its own."""

    def __init__(self, opened: OpenTable, reader: StreamReader, read: Callable[[], OpenRead]) -> None:
        """Take a table and its reader. `read` prepares the table for one read."""
        self._opened, self._reader, self._read = opened, reader, read
        self._changes = opened.table.changes_range

    def last(self) -> str:
        opened = self._opened
        return find_tail(opened.pravega, opened.stream, opened.options, needs_log=self._needs_log).to_json()

    def limits(self) -> Limits:
        return read_limits(self._opened.options)

    def check(self, offset: str) -> None:
        ChangesOffset.from_json(offset)

    def end(self, since: str, last: str | None, limits: Limits) -> MicroBatchEnd:
        begin = ChangesOffset.from_json(since)
        bound = None if last is None else ChangesOffset.from_json(last)
        end = find_end_of_batch(self._opened, self._reader, begin, bound, limits, needs_log=self._needs_log)
        self._reader.consume(self._opened, begin.cut)
        return MicroBatchEnd(since if end is begin else end.to_json(), None, {})

    def commit(self, until: str) -> None:
        self._reader.memory.note_committed(self._reader.checkpoint, ChangesOffset.from_json(until).cut)

    def _read_range(self, batch: BatchRange) -> tuple[ChangesOffset, ChangesOffset]:
        since, until = ChangesOffset.from_json(batch.since), ChangesOffset.from_json(batch.until)
        since = check_positions(self._opened.pravega, self._opened.stream, since, until)
        self._reader.consume(self._opened, since.cut)
        return since, until


class AppendedSource(ChangesSource):
    """Reads the rows that come to a table of events, with the versions that brought them."""

    _needs_log = True

    def start(self) -> str:
        check_endless(self._changes, self._opened.options)
        return find_start_of_appended(self._opened, self._changes.bounds()).to_json()

    def plan(self, batch: BatchRange) -> PlannedScan:
        check_endless(self._changes, self._opened.options)
        since, until = self._read_range(batch)
        return plan_new_appended(self._read(), self._reader.columns, since, until, self._reader.checkpoint)


class RowChangesSource(ChangesSource):
    """Reads the changes of the rows of a table of changes."""

    _needs_log = False

    def __init__(self, opened: OpenTable, reader: StreamReader, read: Callable[[], OpenRead]) -> None:
        super().__init__(opened, reader, read)
        self._groups: SegmentGroups = Recent()

    def start(self) -> str:
        check_stream_of_rows(self._opened.table, self._changes, self._opened.options)
        self._changes.bounds()
        created = find_creation(self._opened.pravega, self._opened.stream)
        return ChangesOffset(find_head(self._opened), 0, created=created).to_json()

    def plan(self, batch: BatchRange) -> PlannedScan:
        check_stream_of_rows(self._opened.table, self._changes, self._opened.options)
        since, until = self._read_range(batch)
        check_key_of_table(self._opened.options)
        assert batch.kept is not None
        search = Search.of_request(batch.found)
        new = ChangesBatch(self._reader, since, until, batch.kept, self._groups, search)
        return plan_new_row_changes(self._read(), self._changes, new)
