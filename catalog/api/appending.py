"""Appends Arrow data to a table: one INSERT, encoded and committed by the code of Spark's INSERT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.noted_times import note_stored
from pyspark_pravega.datasource.insert.prepare import find_epoch_of_application, refuse_stream_column, write_settings
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.errors import InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import replace_char_types

from ..protocol.replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import WRITE_AGAIN, explain_dropped_streams, prefix_errors
from ..storage.spelling import name_table_and_stream
from .conforming import RowsOfTable

_ROWS = 16_384
"""Rows that are encoded together."""


def append(catalog: Catalog, described: TableDescription, rows: object, given: Mapping[str, str]) -> int:
    """Append rows to a table in one transaction; see `Table.append`."""
    pravega, table = catalog.pravega, described.table
    with prefix_errors("Table", name_table_and_stream(catalog, described.table)), explain_dropped_streams(WRITE_AGAIN):
        reader = _open_reader(rows)
        columns = replace_char_types(described.schema)
        assert isinstance(columns, StructType)
        batches = _conform_batches(reader, RowsOfTable(reader.schema, described.schema))
        options = catalog.options(write=given)
        refuse_stream_column(options, "in Python without Spark")
        prepared = open_table(pravega, table, options).prepare_insert(columns)
        table, plain = prepared.table, prepared.plain_writer(columns)
        if plain is not None:
            report = _check_report(plain.write(batches))
            note_stored(pravega, table.stream, [report.reached], None)
            return report.rows
        epoch = find_epoch_of_application(options)
        if epoch is not None:
            epoch = replace(epoch, seen=read_seen_state(pravega, table, epoch))
        insert = Insert.begin(pravega, table, write_settings(options))
        try:
            try:
                report = _check_report(InsertWriter(insert.spec(columns)).write(batches))
            except BaseException:
                insert.abort()
                raise
            if epoch is None:
                return insert.commit([report])
            return commit_epoch(insert, [report], epoch)
        finally:
            insert.transaction.stop()


def _open_reader(rows: object) -> pa.RecordBatchReader:
    match rows:
        case pa.RecordBatchReader():
            return rows
        case pa.Table():
            return rows.to_reader(max_chunksize=_ROWS)
        case pa.RecordBatch():
            return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    raise InvalidSchemaError(
        f"'rows' is a {type(rows).__name__}; give a pyarrow Table, RecordBatch or RecordBatchReader, or an object "
        "that exports Arrow data, such as a Polars data frame or a DuckDB relation"
    )


def _conform_batches(reader: pa.RecordBatchReader, wanted: RowsOfTable) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for first in range(0, batch.num_rows, _ROWS):
            yield wanted.conform(batch.slice(first, _ROWS))


def _check_report(message: object) -> InsertMessage:
    assert isinstance(message, InsertMessage)
    return message
