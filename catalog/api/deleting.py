"""Deletes rows of tables of changes from Python, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pyspark_pravega.datasource.changes.conflicts import StatementReads
from pyspark_pravega.datasource.insert.change_task import DELETED, ChangesWriter
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.prepare import write_settings
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.conditions import can_evaluate
from pyspark_pravega.datasource.tables.hidden_columns import FORMER_ROW
from pyspark_pravega.formats.core.arrow_types import arrow_schema

from ..storage.reporting import WRITE_AGAIN, explain_dropped_streams
from ..storage.spelling import prefix_table
from ..writing.insert_start import select_statement_options
from ..writing.open_writes import write_here
from ..writing.row_changes import Statement, make_commit
from .filters import read_conditions
from .scan import Scan, read_whole_rows

_STATEMENT = "DELETE"


def delete(scan: Scan, settings: Mapping[str, str]) -> int:
    """Delete the rows of a scan of all columns in one transaction; see `Table.delete`."""
    catalog, table = scan.catalog, scan.described.table
    with prefix_table(catalog, table), explain_dropped_streams(WRITE_AGAIN):
        options = catalog.options(write=select_statement_options(settings))
        prepared = open_table(catalog.pravega, table, options).prepare_changes(_STATEMENT)
        planned = scan.plan()
        conditions = None
        if scan.condition is not None:
            every = read_conditions(scan.condition, arrow_schema(table.schema))
            conditions = [one for one, usable in zip(every, can_evaluate(every, table.schema), strict=True) if usable]
        statement = Statement(prepared.table, _STATEMENT, StatementReads(planned.tail, conditions))
        request = make_commit(catalog, statement)
        insert = Insert.begin(catalog.pravega, prepared.table, write_settings(options))
        return write_here(
            insert,
            table.schema,
            _make_deletions(read_whole_rows(scan, planned)),
            lambda reports: insert.commit(reports, request),
            ChangesWriter,
        )


def _make_deletions(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `ChangesWriter` takes for rows that are to be deleted."""
    for batch in rows:
        if batch.num_rows:
            former = pa.StructArray.from_arrays([batch.to_struct_array()], names=[FORMER_ROW])
            operations = pa.array([DELETED] * batch.num_rows)
            yield pa.record_batch([operations, former], names=["operation", "former"])
