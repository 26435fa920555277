"""Begins and describes UPDATE, DELETE and MERGE on tables of changes: each is one transaction of changes of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pyspark_pravega.datasource.changes import conflicts
from pyspark_pravega.datasource.changes.conflicts import Conflict, Isolation, StatementReads
from pyspark_pravega.datasource.changes.current_rows import plan_current_rows
from pyspark_pravega.datasource.insert.change_task import KeyedRowsWriter
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.prepare import TRANSACTIONAL, refuse_columns
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertSpec, InsertWriter
from pyspark_pravega.datasource.insert.whole_result import FormerRows, WholeResultWriter
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.scan.scan_request import WantedRows
from pyspark_pravega.datasource.tables.bad_events import BadEventRule
from pyspark_pravega.datasource.tables.open_table import OpenRead
from pyspark_pravega.datasource.tables.row_keys import KeyPositions
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import DuplicateKeyError, InvalidOptionError, InvalidRowError
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.service_replies import ScanEnds
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table


@dataclass(frozen=True)
class Statement:
    """A statement that changes rows of a table: its name, and what it has read; None if it has read nothing.

    `conflict` is what becomes of rows that it inserts with keys that the table has.
    """

    table: StreamTable
    name: str
    reads: StatementReads | None
    conflict: Conflict = Conflict.REPLACE

    @classmethod
    def of(cls, request: r.CommitInsert) -> Statement | None:
        """Return the statement that a request commits; None for an INSERT that nothing has to be compared with."""
        table, conflict = request.table, Conflict.of(request.table.settings)
        match request:
            case r.CommitChanges():
                ends = _merge_ends(request.ends)
                reads = None if ends is None else StatementReads(ends, request.conditions)
                return cls(table, request.statement, reads, conflict)
            case r.CommitEpoch():
                return cls(table, "STREAM", None)
        return cls(table, "INSERT", None, conflict) if conflict is Conflict.FAIL else None


def choose_writer(
    catalog: Catalog, prepared: TableKind, request: r.BeginInsert
) -> Callable[[InsertSpec], InsertWriter]:
    """Return what makes the writers of tasks.

    Raises UnsupportedOperationError and InvalidOptionError for what cannot be checked.
    """
    table, options = prepared.table, prepared.options
    mode = request.output_mode if isinstance(request, r.BeginEpoch) else None
    writer = prepared.choose_writer(mode)
    if request.keyed:
        refuse_columns(options, "in a batch that reads the table which it writes: use MERGE", o.DELETE_COLUMN)
        return KeyedRowsWriter
    if mode != "complete":
        return writer
    refuse_columns(options, "in outputMode('complete'), which deletes what the result lacks", o.DELETE_COLUMN)
    if (write_mode := options.get(o.WRITE_MODE)) != TRANSACTIONAL:
        raise InvalidOptionError(
            f"'{options.name(o.WRITE_MODE)}'='{write_mode}' asks for no transaction, but outputMode('complete') needs "
            f"one. Set the write option '{o.WRITE_MODE.key}' to '{TRANSACTIONAL}'."
        )
    planned = plan_current_rows(open_rows(catalog, table), WantedRows(table.schema))
    former = FormerRows(planned.reader, planned.reader.planned, planned.tail)
    return partial(WholeResultWriter, former=former)


def make_commit(catalog: Catalog, statement: Statement, *, again: bool = False) -> CommitRequest:
    """Return how a statement is committed: with checks, which raise InvalidRowError if it changes a row twice."""
    checks = _Checks(catalog, statement)
    return CommitRequest(statement.name, again, check=checks.check, look_ahead=checks.look_ahead)


class _Checks:
    """The checks of one statement, before it waits for its turn and then."""

    def __init__(self, catalog: Catalog, statement: Statement) -> None:
        self._catalog, self._statement = catalog, statement
        self._ends: Mapping[int, int] | None = None
        """Up to where the table has no row of the keys that the statement inserts; None if that does not matter."""

    def look_ahead(self, reports: Sequence[InsertMessage]) -> None:
        """Raise DuplicateKeyError if the table has rows that the statement may not replace."""
        statement, keys = self._statement, _join(one.keys for one in reports)
        each, counts = np.unique(keys, return_counts=True)
        if len(each) < len(keys):
            what = "INSERT or MERGE" if statement.name == "INSERT" and statement.reads is not None else statement.name
            repeated = set(each[counts > 1])
            named = (pair for one in reports for pair in zip(one.key_names, _join([one.keys]), strict=False))
            key = next((f"the key {name}" for name, position in named if position in repeated), "a key")
            unique = statement.reads is None and statement.conflict is Conflict.FAIL
            raise (DuplicateKeyError if unique else InvalidRowError)(
                f"The {what} changes the row of {key} more than once, so that the order would decide. Nothing is "
                "written. Choose one of the changes, or make them in two statements: each key may be changed once."
            )
        created = _join(one.created for one in reports)
        if statement.conflict is Conflict.FAIL and len(created):
            with prefix_table(self._catalog, statement.table):
                self._ends = conflicts.find_ends_without(open_rows(self._catalog, statement.table), created)

    def check(self, reports: Sequence[InsertMessage]) -> None:
        """Raise ConcurrentChangeError or DuplicateKeyError if others have changed what the statement depends on."""
        table, reads = self._statement.table, self._statement.reads
        isolation = Isolation(table.settings.get(o.CHANGES_ISOLATION.key, o.CHANGES_ISOLATION.default).lower())
        with prefix_table(self._catalog, table):
            read = open_rows(self._catalog, table)
            if self._ends is not None:
                conflicts.check_still_without(read, self._ends, _join(one.created for one in reports))
            if reads is not None:
                conflicts.check_conflicts(read, reads, _join(one.keys for one in reports), isolation)
            for ends in (one.ends for one in reports if one.ends is not None):
                conflicts.check_conflicts(read, StatementReads(ends, None), np.zeros(0), Isolation.SERIALIZABLE)


def _join(keys: Iterable[KeyPositions | None]) -> KeyPositions:
    joined: KeyPositions = np.concatenate([np.zeros(0), *(some for some in keys if some is not None)])
    return joined


def open_rows(catalog: Catalog, table: StreamTable) -> OpenRead:
    """Return a table of changes for a read of rows that something depends on: no bad event is left out."""
    options = catalog.options(read={}, properties=table.scan_properties)
    return OpenRead(catalog.pravega, table, options, BadEventRule())


def _merge_ends(ends: Sequence[ScanEnds]) -> dict[int, int] | None:
    """Return the earliest end of the scans of a statement in each segment; 0 where one of them has not read it.

    A scan with an end in the past always reads the same, and does not count. None if there is no other.
    """
    tails = [dict(end.tail) for of_scan in ends for end in of_scan.ends if not end.end]
    if not tails:
        return None
    segments = {segment for tail in tails for segment in tail}
    return {segment: min(tail.get(segment, 0) for tail in tails) for segment in segments}
