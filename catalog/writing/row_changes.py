"""Begins and describes UPDATE, DELETE and MERGE on tables of changes: each is one transaction of changes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pyspark_pravega.datasource.changes.conflicts import Isolation, StatementReads, check_conflicts
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.tables.bad_events import BadEventRule
from pyspark_pravega.datasource.tables.open_table import OpenRead
from pyspark_pravega.datasource.tables.primary_key import KeyPositions
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.service_replies import ScanEnds
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table


@dataclass(frozen=True)
class Statement:
    """A statement that changes rows of a table: its name, and what it has read; None if it has read nothing."""

    table: StreamTable
    name: str
    reads: StatementReads | None

    @classmethod
    def of(cls, request: r.CommitChanges) -> Statement:
        """Return the statement that a request commits."""
        reads = StatementReads(ends, request.conditions) if (ends := _merge_ends(request.ends)) is not None else None
        return cls(request.table, request.statement, reads)


def make_commit(catalog: Catalog, statement: Statement, *, again: bool = False) -> CommitRequest:
    """Return how a statement is committed: its check raises InvalidRowError if it changes a row twice."""
    return CommitRequest(statement.name, again, check=partial(_check, catalog, statement))


def _check(catalog: Catalog, statement: Statement, reports: Sequence[InsertMessage]) -> None:
    """Raise ConcurrentChangeError if others have changed what the statement depends on."""
    keys: KeyPositions = np.concatenate([np.zeros(0), *(one.keys for one in reports if one.keys is not None)])
    if len(np.unique(keys)) < len(keys):
        raise InvalidRowError(
            f"The {statement.name} gives one key to two rows, or gives a row the key that another one had "
            "before, so that the order of these changes would decide. Nothing is written. Change keys in two "
            "statements, or choose one of the rows: each key may be changed once."
        )
    if statement.reads is None:
        return
    table = statement.table
    options = catalog.options(read={}, properties=table.scan_properties)
    isolation = Isolation(table.settings.get(o.CHANGES_ISOLATION.key, o.CHANGES_ISOLATION.default).lower())
    with prefix_table(catalog, table):
        read = OpenRead(catalog.pravega, table, options, BadEventRule())
        check_conflicts(read, statement.reads, keys, isolation)


def _merge_ends(ends: Sequence[ScanEnds]) -> dict[int, int] | None:
    """Return the earliest end of the scans of a statement in each segment; 0 where one of them has not read it.

    A scan with an end in the past always reads the same, and does not count. None if there is no other.
    """
    tails = [end.offsets() for of_scan in ends for end in of_scan.ends if not end.end]
    if not tails:
        return None
    segments = {segment for tail in tails for segment in tail}
    return {segment: min(tail.get(segment, 0) for tail in tails) for segment in segments}
