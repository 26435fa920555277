"""The task's side of INSERT, DELETE, UPDATE and MERGE on a key-value table: puts and removes entries by keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import ANY, MAX_BATCH_KEYS, KeyValueTable
from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.format import Encoder
from pyspark_pravega.formats.core.text_lengths import make_length_check

from ..insert.reports import InsertMessage
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection
from ..workers.user_errors import shorten_errors
from .entry_scan import open_same_entries, require_keys, select_value_columns
from .epochs import add_epoch, put_entries_of_epoch
from .keys import encode_keys

_REQUEST_BYTES = 2 << 20
"""The most bytes of values that are written together, unless one is larger."""
_THREADS = 8
"""Partitions that are written to at the same time."""


@dataclass(frozen=True)
class UpsertSpec:
    """The plan of all tasks of a write. `schema` describes the rows; `epoch` is the epoch of a micro-batch, if any."""

    table: StreamTable
    config: ClientConfig
    schema: StructType
    epoch: int | None = None


class UpsertWriter(DataSourceArrowWriter):
    """Spark's writer of INSERT for tasks. Among rows with the same key in one task, the last one counts."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._spec = spec

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; all are stored when this returns.

        Raises InvalidRowError, and for servers that do not answer ServerUnavailableError or ServerTimeoutError. Rows
        before the error may be stored.
        """
        spec, count = self._spec, 0
        context = TaskContext.get()
        with borrow_connection(spec.config) as pravega, ThreadPoolExecutor(_THREADS) as threads:
            entries, values = open_same_entries(pravega, spec.table), Values(spec)
            fit = make_length_check(spec.table.schema)
            for batch in iterator:
                count += batch.num_rows
                try:
                    rows = add_epoch(spec.table, fit(batch), spec.epoch)
                    written = dict(zip(encode_keys(require_keys(spec.table), rows), values.of(rows), strict=True))
                except InvalidRowError as error:
                    raise InvalidRowError(
                        f"Table {spec.table.stream}: {error.message} Rows before it may be visible."
                    ) from None
                if spec.epoch is None:
                    put_entries(entries, written, threads)
                else:
                    put_entries_of_epoch(entries, spec.table, spec.epoch, written, threads)
        return InsertMessage(context.partitionId() if context is not None else 0, count, {})


class Values:
    """Encodes the values of entries."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._columns = select_value_columns(spec.table, spec.schema)
        self._encoder = make_value_encoder(spec.table, spec.schema)

    def of(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return the value of each row. Raises InvalidRowError."""
        batch = rows.select(self._columns.names)
        return list(self._encoder.encode(batch).to_pylist())


def make_value_encoder(table: StreamTable, rows: StructType) -> Encoder:
    """Return the encoder of the values of rows. Raises InvalidSchemaError."""
    return table.make_encoder(select_value_columns(table, rows))


def put_entries(entries: KeyValueTable, written: Mapping[bytes, bytes | None], threads: ThreadPoolExecutor) -> None:
    """Write entries, and remove those without a value, in several partitions at the same time; wait for all."""
    of_partitions: dict[int, list[bytes]] = {}
    for key in written:
        of_partitions.setdefault(entries.find_partition(key), []).append(key)

    def put(keys: list[bytes]) -> None:
        gone = [key for key in keys if written[key] is None]
        for at in range(0, len(gone), MAX_BATCH_KEYS):
            entries.delete_many(gone[at : at + MAX_BATCH_KEYS])
        part: list[tuple[bytes, bytes, int]] = []
        size = 0
        for key in keys:
            value = written[key]
            if value is None:
                continue
            if part and (len(part) == MAX_BATCH_KEYS or size + len(value) > _REQUEST_BYTES):
                entries.put_many(part)
                part, size = [], 0
            part.append((key, value, ANY))
            size += len(value)
        if part:
            entries.put_many(part)

    list(threads.map(cancellation.carry_over(put), of_partitions.values()))


def remove_entries(pravega: Pravega, table: StreamTable) -> None:
    """Remove all entries of a table; entries that are written meanwhile may stay or go."""
    entries = open_same_entries(pravega, table)
    entries.check_writable()
    for partition in range(len(entries.segments())):
        for page in entries.list_key_pages(partition):
            for at in range(0, len(page), MAX_BATCH_KEYS):
                entries.delete_many([key.key for key in page[at : at + MAX_BATCH_KEYS]])


class KeyedWriter(DataSourceArrowWriter):
    """Spark's writer of DELETE, UPDATE and MERGE for tasks. A row has `operation`, the old key `id`, the new `row`."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._spec = spec
        self._fit = make_length_check(spec.table.schema)

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Make the changes of one task in their order; all are stored when this returns.

        Raises InvalidRowError, including for a row that would get another key.
        """
        spec, count = self._spec, 0
        with borrow_connection(spec.config) as pravega, ThreadPoolExecutor(_THREADS) as threads:
            entries = open_same_entries(pravega, spec.table)
            values = Values(spec) if spec.schema.fields else None
            for batch in iterator:
                count += batch.num_rows
                put_entries(entries, self._find_changed(batch, values), threads)
        return InsertMessage(0, count, {})

    def _find_changed(self, batch: pa.RecordBatch, values: Values | None) -> dict[bytes, bytes | None]:
        """Return the new value of each key; None if the entry is to be removed."""
        keys, table = require_keys(self._spec.table), self._spec.table
        changed: list[tuple[int, bytes, bytes | None]] = []
        for operation in ("delete", "update", "insert"):
            places = pc.indices_nonzero(pc.equal(batch.column("operation"), operation))
            if not len(places):
                continue
            chosen = batch.take(places)
            if operation == "delete":
                gone = encode_keys(keys, _take_columns(chosen, "id"))
                changed += [(row, key, None) for row, key in zip(places.to_pylist(), gone, strict=True)]
                continue
            assert values is not None
            rows = self._fit(_take_columns(chosen, "row"))
            new = encode_keys(keys, rows)
            if operation == "update" and encode_keys(keys, _take_columns(chosen, "id")) != new:
                raise InvalidRowError(
                    f"Table {table.stream}: a row would get another key. The columns {', '.join(keys.names)} cannot "
                    "be changed: DELETE the row, and INSERT it with its new key. Other rows may have been changed."
                )
            changed += zip(places.to_pylist(), new, values.of(rows), strict=True)
        return {key: value for _, key, value in sorted(changed, key=lambda one: one[0])}


def _take_columns(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(batch.column(name))
