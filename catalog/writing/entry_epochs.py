"""Begins writes to key-value tables. Their tasks write for themselves, so nothing stays open here.

DELETE, UPDATE and MERGE by key need only their tasks' function. A micro-batch needs an epoch. What was given is kept
with the table's columns: the last epoch, and for each query its newest runs and the epochs of its newest micro-batches.
A micro-batch gets a greater epoch than all before it, also when the newest one of its query is repeated; an older one
that is repeated gets the epoch that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_pravega.datasource.key_value.epochs import find_epoch_column
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidSchemaError, KeyValueTableNotFoundError, QueryFencedError
from pyspark_pravega.sql import options as o

from ..protocol import BeginKeyedWrite
from ..protocol.service_replies import InsertBegun
from ..storage.catalogs import Catalog
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import prefix_table
from .insert_start import InsertStart, MicroBatch


def begin_keyed_write(catalog: Catalog, request: BeginKeyedWrite) -> InsertBegun:
    """Begin a DELETE, UPDATE or MERGE by key: return its tasks' function.

    Raises UnsupportedOperationError, InvalidOptionError.
    """
    table = request.table
    with prefix_table(catalog, table):
        options = catalog.options(write=request.options)
        writer = open_table(catalog.pravega, table, options).make_keyed_writer(request.schema)
    return InsertBegun(None, pickle_write(writer), PYTHON)


KEPT_BATCHES = 20
KEPT_RUNS = 20
KEPT_QUERIES = 64
_EPOCHS = "epochs"


def begin_epoch_of_entries(catalog: Catalog, table: StreamTable, start: InsertStart) -> int | None:
    """Return the epoch of a micro-batch; None for another write, and for a table without epochs.

    Raises QueryFencedError if another run of the query has begun, or the micro-batch is older than what is kept;
    InvalidSchemaError if the query computes the column itself; PermissionDeniedError without READ_UPDATE on the table
    in which the catalog keeps columns.
    """
    column, micro_batch = find_epoch_column(table), start.micro_batch
    if column is None or micro_batch is None:
        return None
    if any(name.lower() == column.lower() for name in start.schema.names):
        raise InvalidSchemaError(
            f"The rows have the column {column}, but the key-value table {table.stream} has "
            f"'{o.EPOCH_COLUMN.key}'='{column}': the sink writes its epochs. Leave the column out of the query: "
            f".drop('{column}')."
        )
    number = 0

    def change(row: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal number
        if row.get("segment") != table.first_segment:
            raise KeyValueTableNotFoundError(
                f"The key-value table {table.stream} has been dropped and recreated. Start the query again."
            )
        number, epochs = _give(table, row.get(_EPOCHS) or {"last": 0, "queries": {}}, micro_batch)
        return {**row, _EPOCHS: epochs}

    ScopeTable(catalog.pravega, table.stream.scope).change(RowKind.KEY_VALUE_TABLE, table.stream.name, change)
    return number


def _give(table: StreamTable, epochs: Mapping[str, Any], batch: MicroBatch) -> tuple[int, Mapping[str, Any]]:
    """Return the epoch of a micro-batch, and what to keep."""
    queries = dict(epochs["queries"])
    former = queries.pop(batch.query, {"runs": [], "batches": {}})
    runs = list(former["runs"])
    if batch.run in runs[:-1]:
        raise QueryFencedError(
            f"Another run ({runs[-1]}) of query {batch.query} has begun to write to the key-value table "
            f"{table.stream}; this one ({batch.run}) may not continue, and no row of its micro-batch {batch.number} is "
            "written. Two runs have one id: was the driver thought dead, or the checkpoint copied? Stop one of them."
        )
    if batch.run not in runs:
        runs = [*runs, batch.run][-KEPT_RUNS:]
    batches = {int(number): epoch for number, epoch in former["batches"].items()}
    last = epochs["last"]
    if batch.number >= max(batches, default=-1):
        last = batches[batch.number] = last + 1
    elif batch.number not in batches:
        raise QueryFencedError(
            f"The key-value table {table.stream} has the micro-batches of query {batch.query} up to number "
            f"{max(batches)}, but only knows the epochs of the last {KEPT_BATCHES}. Number {batch.number} is not among "
            "them: was the checkpoint restored to an older state? Start with a new checkpoint; its rows replace these."
        )
    newest = dict(sorted(batches.items())[-KEPT_BATCHES:])
    queries[batch.query] = {"runs": runs, "batches": {str(number): epoch for number, epoch in newest.items()}}
    kept = dict(list(queries.items())[-KEPT_QUERIES:])
    return batches[batch.number], {"last": last, "queries": kept}
