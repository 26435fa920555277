"""Begins and describes UPDATE, DELETE and MERGE on tables of changes: each is one transaction of changes of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyspark_pravega.datasource.changes.conflicts import Isolation, StatementReads, check_conflicts
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.tables.bad_events import BadEventRule
from pyspark_pravega.datasource.tables.open_table import OpenRead
from pyspark_pravega.datasource.tables.primary_key import KeyPositions
from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.service_replies import ScanEnds
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import name_table_and_stream


def make_commit(catalog: Catalog, request: r.CommitChanges) -> Callable[[Sequence[InsertMessage]], CommitRequest]:
    """Return the function that says how the reports of a statement's tasks are committed.

    The function raises InvalidRowError if they change a row twice.
    """

    def describe(reports: Sequence[InsertMessage]) -> CommitRequest:
        keys = np.concatenate([np.zeros(0), *(report.keys for report in reports if report.keys is not None)])
        if len(np.unique(keys)) < len(keys):
            raise InvalidRowError(
                f"The {request.statement} gives one key to two rows, or gives a row the key that another one had "
                "before, so that the order of these changes would decide. Nothing is written. Change keys in two "
                "statements, or choose one of the rows: each key may be changed once."
            )
        return CommitRequest(request.statement, request.again, check=lambda: _check(catalog, request, keys))

    return describe


def _check(catalog: Catalog, request: r.CommitChanges, keys: KeyPositions) -> None:
    """Raise ConcurrentChangeError if others have changed what the statement depends on."""
    if not request.ends:
        return
    ends = _merge_ends(request.ends)
    table = request.table
    options = catalog.options(read={}, properties=table.scan_properties)
    isolation = Isolation(table.settings.get(o.CHANGES_ISOLATION.key, o.CHANGES_ISOLATION.default))
    with prefix_errors("Table", name_table_and_stream(catalog, table)):
        read = OpenRead(catalog.pravega, open_table(catalog.pravega, table, options).table, options, BadEventRule())
        check_conflicts(read, StatementReads(ends, request.conditions), keys, isolation)


def _merge_ends(ends: Sequence[ScanEnds]) -> dict[int, int]:
    """Return the earliest end of the scans of a statement in each segment; 0 where one of them has not read it."""
    tails = [dict(end.tail) for of_scan in ends for end in of_scan.ends]
    segments = {segment for tail in tails for segment in tail}
    return {segment: min(tail.get(segment, 0) for tail in tails) for segment in segments}
