"""The epochs of entries: a column in which a streaming query says which of its micro-batches wrote a row.

Epochs grow with every micro-batch, and with every repetition of one. An entry with a greater epoch is left alone, by
writes on the condition that the entry is still the one that was read. So a late task of an earlier attempt, or an
earlier micro-batch that is repeated, replaces nothing that a later one has written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.errors import ConditionalUpdateError
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Decoder
from pyspark_pravega.sql import options as o

from ..tables.stream_table import StreamTable

LOG = logging.getLogger(__name__)

_AT_ONCE = 120
"""Entries that are written in one step: they are read before, a few in each request."""
_STEP_BYTES = 2 << 20
"""The most bytes of values that are written in one step, unless one is larger."""


def find_epoch_column(table: StreamTable) -> str | None:
    """Return the column of epochs of a key-value table, None if it has none."""
    return table.settings.get(o.EPOCH_COLUMN.key)


def add_epoch_column(table: StreamTable, rows: StructType) -> StructType:
    """Return the columns of rows, with the column of epochs if the table has one."""
    column = find_epoch_column(table)
    if column is None or column in rows.names:
        return rows
    return StructType([*rows, StructField(column, LongType())])


def add_epoch(table: StreamTable, rows: pa.RecordBatch, epoch: int | None) -> pa.RecordBatch:
    """Return rows with the column of epochs, if the table has one: without an epoch it is NULL, unless it is there."""
    column = find_epoch_column(table)
    if column is None or column in rows.schema.names:
        return rows
    return rows.append_column(column, pa.array([epoch] * rows.num_rows, pa.int64()))


def put_entries_of_epoch(
    entries: KeyValueTable, table: StreamTable, epoch: int, written: Mapping[bytes, bytes], threads: ThreadPoolExecutor
) -> None:
    """Write entries, except where one with a greater epoch is; several partitions at the same time. Wait for all."""
    put = _EpochWrite(entries, table, epoch, written)
    of_partitions: dict[int, list[bytes]] = {}
    for key in written:
        of_partitions.setdefault(entries.find_partition(key), []).append(key)
    left_alone = sum(threads.map(cancellation.carry_over(put.put_all), of_partitions.values()))
    if left_alone:
        LOG.info("Key-value table %s: %d rows of epoch %d came after later ones.", table.stream, left_alone, epoch)


@dataclass(frozen=True)
class _EpochWrite:
    """The values that a micro-batch writes, by their keys."""

    entries: KeyValueTable
    table: StreamTable
    epoch: int
    written: Mapping[bytes, bytes]

    def put_all(self, keys: Sequence[bytes]) -> int:
        """Write the entries of some keys of one partition; return how many were left alone."""
        left_alone, step, size = 0, list[bytes](), 0
        for key in keys:
            if step and (len(step) == _AT_ONCE or size + len(self.written[key]) > _STEP_BYTES):
                left_alone += self._put(step)
                step, size = [], 0
            step.append(key)
            size += len(self.written[key])
        return left_alone + (self._put(step) if step else 0)

    def _put(self, keys: Sequence[bytes]) -> int:
        """Write entries in one step, or in smaller ones if others write to them in the meantime."""
        while True:
            entries = self.entries.get_many(keys)
            epochs = self._read_epochs([None if entry is None else entry.value for entry in entries])
            mine = [
                (key, self.written[key], NOT_EXISTS if entry is None else entry.version)
                for key, entry, epoch in zip(keys, entries, epochs, strict=True)
                if epoch is None or epoch <= self.epoch
            ]
            if not mine:
                return len(keys)
            try:
                self.entries.put_many(mine)
            except ConditionalUpdateError:
                if len(keys) == 1:
                    continue
                half = len(keys) // 2
                return self._put(keys[:half]) + self._put(keys[half:])
            return len(keys) - len(mine)

    def _read_epochs(self, values: Sequence[bytes | None]) -> list[int | None]:
        """Return the epochs in values; None for one without an epoch, and for one that cannot be decoded."""
        present = [value for value in values if value is not None]
        try:
            epochs = iter(_decode(self._decoder(), present))
        except BadEvent:
            epochs = iter([self._read_epoch(value) for value in present])
        return [None if value is None else next(epochs) for value in values]

    def _read_epoch(self, value: bytes) -> int | None:
        try:
            return _decode(self._decoder(), [value])[0]
        except BadEvent:
            return None  # another program wrote the entry, and every row replaces such a one

    def _decoder(self) -> Decoder:
        column, table = find_epoch_column(self.table), self.table
        assert column is not None
        return table.make_decoder(StructType([table.schema[column]]))


def _decode(decoder: Decoder, values: Sequence[bytes]) -> list[int | None]:
    epochs: list[int | None] = decoder.decode(EventBuffer.of(list(values))).column(0).to_pylist() if values else []
    return epochs
