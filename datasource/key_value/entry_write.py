"""The task's side of INSERT, DELETE, UPDATE and MERGE on a key-value table: puts and removes entries by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import ANY, MAX_BATCH_KEYS, KeyValueTable
from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.text_lengths import make_length_check

from ..insert.reports import InsertMessage
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection
from ..workers.spark_socket import acknowledge
from ..workers.user_errors import shorten_errors
from .entry_scan import open_same_entries, require_keys, select_value_columns
from .epochs import AT_ONCE, EpochWrite, add_epoch
from .keys import encode_keys

_REQUEST_BYTES = 2 << 20
"""The most bytes of values that are written together, unless one is larger."""


@dataclass(frozen=True)
class UpsertSpec:
    """The plan of all tasks of a write. `schema` describes the rows; `epoch` is the epoch of a micro-batch, if any."""

    table: StreamTable
    config: ClientConfig
    schema: StructType
    epoch: int | None = None


class EntryWriter(DataSourceArrowWriter):
    """Spark's writer for tasks."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._spec = spec

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, in their order; all are stored when this returns.

        Raises InvalidRowError, and for servers that do not answer ServerUnavailableError or ServerTimeoutError. Rows
        before the error may be stored.
        """
        spec, count = self._spec, 0
        context = TaskContext.get()
        with borrow_connection(spec.config) as pravega:
            entries = open_same_entries(pravega, spec.table)
            epoch = None if spec.epoch is None else EpochWrite(entries, spec.table, spec.epoch)
            for batch in iterator:
                acknowledge()
                count += batch.num_rows
                put_entries(entries, self._find_written(batch), epoch)
        return InsertMessage(context.partitionId() if context is not None else 0, count, {})

    def _find_written(self, batch: pa.RecordBatch) -> Mapping[bytes, bytes | None]:
        """Return the new value of each key; None if the entry is to be removed."""
        raise NotImplementedError

    @cached_property
    def _fit(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        return make_length_check(self._spec.table.schema)

    @cached_property
    def _encode(self) -> Callable[[pa.RecordBatch], list[bytes]]:
        return make_value_encoder(self._spec.table, self._spec.schema)


class UpsertWriter(EntryWriter):
    """The writer of INSERT. Among rows with the same key in one task, the last one counts."""

    def _find_written(self, batch: pa.RecordBatch) -> Mapping[bytes, bytes | None]:
        table = self._spec.table
        try:
            rows = add_epoch(table, self._fit(batch), self._spec.epoch)
            return dict(zip(encode_keys(require_keys(table), rows), self._encode(rows), strict=True))
        except InvalidRowError as error:
            raise InvalidRowError(f"Table {table.stream}: {error.message} Rows before it may be visible.") from None


def make_value_encoder(table: StreamTable, rows: StructType) -> Callable[[pa.RecordBatch], list[bytes]]:
    """Return the function that encodes the value of each row, which may raise InvalidRowError.

    Raises InvalidSchemaError for rows that do not fit the table.
    """
    columns = select_value_columns(table, rows)
    encoder = table.make_encoder(columns)
    return lambda batch: list(encoder.encode(batch.select(columns.names)).to_pylist())


def put_entries(entries: KeyValueTable, written: Mapping[bytes, bytes | None], epoch: EpochWrite | None = None) -> None:
    """Write entries, and remove those without a value, in several partitions at the same time; wait for all.

    An `epoch` leaves entries of later epochs alone.
    """
    of_partitions: dict[int, list[bytes]] = {}
    for key in written:
        of_partitions.setdefault(entries.find_partition(key), []).append(key)

    def put(keys: list[bytes]) -> None:
        gone = [key for key in keys if written[key] is None]
        for at in range(0, len(gone), MAX_BATCH_KEYS):
            entries.delete_many(gone[at : at + MAX_BATCH_KEYS])
        present = [(key, value) for key in keys if (value := written[key]) is not None]
        for step in _split_steps(present, MAX_BATCH_KEYS if epoch is None else AT_ONCE):
            if epoch is None:
                entries.put_many([(key, value, ANY) for key, value in step])
            else:
                epoch.put(step)

    map_side_by_side(put, of_partitions.values())


def _split_steps(written: Sequence[tuple[bytes, bytes]], most: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """Yield keys with values, so many as are written together: at most `most`."""
    step: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in written:
        if step and (len(step) == most or size + len(value) > _REQUEST_BYTES):
            yield step
            step, size = [], 0
        step.append((key, value))
        size += len(value)
    if step:
        yield step


def remove_entries(pravega: Pravega, table: StreamTable) -> None:
    """Remove all entries of a table; entries that are written meanwhile may stay or go."""
    entries = open_same_entries(pravega, table)
    entries.check_writable()
    for partition in range(len(entries.segments())):
        for page in entries.list_key_pages(partition):
            for at in range(0, len(page), MAX_BATCH_KEYS):
                entries.delete_many([key.key for key in page[at : at + MAX_BATCH_KEYS]])


class KeyedWriter(EntryWriter):
    """The writer of DELETE, UPDATE and MERGE. A row has `operation`, the old key `id`, the new `row`."""

    def _find_written(self, batch: pa.RecordBatch) -> Mapping[bytes, bytes | None]:
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
            rows = self._fit(_take_columns(chosen, "row"))
            new = encode_keys(keys, rows)
            if operation == "update" and encode_keys(keys, _take_columns(chosen, "id")) != new:
                raise InvalidRowError(
                    f"Table {table.stream}: a row would get another key. The columns {', '.join(keys.names)} cannot "
                    "be changed: DELETE the row, and INSERT it with its new key. Other rows may have been changed."
                )
            changed += zip(places.to_pylist(), new, self._encode(rows), strict=True)
        return {key: value for _, key, value in sorted(changed, key=lambda one: one[0])}


def _take_columns(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(batch.column(name))
