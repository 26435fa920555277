"""Writes and deletes rows for a program without Spark: one INSERT each, committed by the code of Spark's INSERT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pyspark_pravega.datasource.changes.conflicts import Conflict, StatementReads
from pyspark_pravega.datasource.insert.change_task import DELETED, ChangesWriter, KeyedRowsWriter
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import DeferredInsert, Insert, can_defer, write_here
from pyspark_pravega.datasource.insert.noted_times import note_stored
from pyspark_pravega.datasource.insert.prepare import find_epoch_of_application, refuse_columns, write_settings
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.conditions import can_evaluate
from pyspark_pravega.datasource.tables.hidden_columns import FORMER_ROW
from pyspark_pravega.errors import InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, replace_char_types
from pyspark_pravega.sql import options as o

from ..protocol.service_replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import WRITE_AGAIN, explain_dropped_streams
from ..storage.spelling import prefix_table
from ..writing.insert_start import select_statement_options
from ..writing.row_changes import Statement, make_commit
from .arrow_rows import RowsOfTable
from .filters import read_conditions
from .scan import Scan, read_batches

_ROWS = 16_384
"""Rows that are encoded together."""


def append(catalog: Catalog, described: TableDescription, rows: object, settings: Mapping[str, str]) -> int:
    """Append rows to a table in one transaction; see `Table.append`."""
    pravega, table = catalog.pravega, described.table
    with prefix_table(catalog, described.table), explain_dropped_streams(WRITE_AGAIN):
        columns, batches = replace_char_types(described.schema), _conform_batches(described, rows)
        options = catalog.options(write=settings)
        refuse_columns(options, "in Python without Spark", o.STREAM_COLUMN, o.DELETE_COLUMN)
        prepared = open_table(pravega, table, options).prepare_insert(columns)
        table, plain = prepared.table, prepared.make_plain_writer(columns)
        if plain is not None:
            report = plain.write(batches)
            assert isinstance(report, InsertMessage)
            note_stored(pravega, table.stream, [report.reached], None)
            return report.rows
        epoch = find_epoch_of_application(options)
        if epoch is not None:
            epoch = replace(epoch, seen=read_seen_state(pravega, table, epoch))
        writer, request = prepared.choose_writer(), None
        if writer is not InsertWriter:
            request = make_commit(catalog, Statement(table, "INSERT", None, Conflict.of(table.settings)))
        if epoch is None and can_defer(table, writer):
            deferred = DeferredInsert.begin(pravega, table, write_settings(options))
            return write_here(deferred, columns, batches, deferred.commit)
        insert = Insert.begin(pravega, table, write_settings(options))

        def commit(reports: Sequence[InsertMessage]) -> int:
            if epoch is not None:
                return commit_epoch(insert, reports, epoch)
            return insert.commit(reports, request)

        return write_here(insert, columns, batches, commit, writer)


def upsert(catalog: Catalog, described: TableDescription, rows: object, settings: Mapping[str, str]) -> int:
    """Write rows of a table of changes in place of those of the same keys; see `Table.upsert`."""
    with prefix_table(catalog, described.table), explain_dropped_streams(WRITE_AGAIN):
        batches = _conform_batches(described, rows)
        options = catalog.options(write=select_statement_options(settings))
        refuse_columns(options, "by upsert, which deletes no row", o.DELETE_COLUMN)
        prepared = open_table(catalog.pravega, described.table, options).prepare_changes("upsert")
        request = make_commit(catalog, Statement(prepared.table, "UPSERT", None))
        insert = Insert.begin(catalog.pravega, prepared.table, write_settings(options))
        columns = replace_char_types(described.schema)
        return write_here(insert, columns, batches, lambda reports: insert.commit(reports, request), KeyedRowsWriter)


def delete(scan: Scan, settings: Mapping[str, str]) -> int:
    """Delete the rows of a scan of all columns in one transaction; see `Table.delete`."""
    catalog, table = scan.catalog, scan.described.table
    with prefix_table(catalog, table), explain_dropped_streams(WRITE_AGAIN):
        options = catalog.options(write=select_statement_options(settings))
        prepared = open_table(catalog.pravega, table, options).prepare_changes("DELETE")
        planned = scan.plan()
        conditions = None
        if scan.condition is not None:
            every = read_conditions(scan.condition, arrow_schema(table.schema))
            conditions = [one for one, usable in zip(every, can_evaluate(every, table.schema), strict=True) if usable]
        statement = Statement(prepared.table, "DELETE", StatementReads(planned.tail, conditions))
        request = make_commit(catalog, statement)
        insert = Insert.begin(catalog.pravega, prepared.table, write_settings(options))
        return write_here(
            insert,
            table.schema,
            _make_deletions(read_batches(scan, planned)),
            lambda reports: insert.commit(reports, request),
            ChangesWriter,
        )


def _open_reader(rows: object) -> pa.RecordBatchReader:
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    raise InvalidSchemaError(
        f"'rows' is a {type(rows).__name__}; give a pyarrow Table, RecordBatch or RecordBatchReader, or an object "
        "that exports Arrow data, such as a Polars data frame or a DuckDB relation"
    )


def _conform_batches(described: TableDescription, rows: object) -> Iterator[pa.RecordBatch]:
    """Return rows as rows of the table, of which few are read at once. Raises InvalidSchemaError at once."""
    reader = _open_reader(rows)
    table_rows = RowsOfTable(reader.schema, described.schema)
    return (
        table_rows.conform(batch.slice(first, _ROWS)) for batch in reader for first in range(0, batch.num_rows, _ROWS)
    )


def _make_deletions(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `ChangesWriter` takes for rows that are to be deleted."""
    for batch in rows:
        if batch.num_rows:
            former = pa.StructArray.from_arrays([batch.to_struct_array()], names=[FORMER_ROW])
            operations = pa.array([DELETED] * batch.num_rows)
            yield pa.record_batch([operations, former], names=["operation", "former"])
