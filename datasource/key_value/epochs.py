"""The epochs of entries: a column in which a streaming query says which of its micro-batches wrote a row.

Epochs grow with every micro-batch, and with every repetition of one. An entry with a greater epoch is left alone, by
writes on the condition that the entry is still the one that was read. So a late task of an earlier attempt, or an
earlier micro-batch that is repeated, replaces nothing that a later one has written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.errors import ConditionalUpdateError
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Decoder
from pyspark_pravega.sql import options as o

from ..tables.stream_table import StreamTable

LOG = logging.getLogger(__name__)

AT_ONCE = 120
"""Entries that are written in one step: they are read before, a few in each request."""


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


@dataclass(frozen=True)
class EpochWrite:
    """Writes the entries of one epoch, except where one with a greater epoch is."""

    entries: KeyValueTable
    table: StreamTable
    epoch: int

    def put(self, written: Sequence[tuple[bytes, bytes]]) -> None:
        """Write keys with values in one step, or in smaller ones if others write to them in the meantime."""
        while True:
            entries = self.entries.get_many([key for key, _ in written])
            epochs = self._read_epochs([None if entry is None else entry.value for entry in entries])
            mine = [
                (key, value, NOT_EXISTS if entry is None else entry.version)
                for (key, value), entry, epoch in zip(written, entries, epochs, strict=True)
                if epoch is None or epoch <= self.epoch
            ]
            try:
                if mine:
                    self.entries.put_many(mine)
            except ConditionalUpdateError:
                if len(written) == 1:
                    continue
                half = len(written) // 2
                self.put(written[:half])
                return self.put(written[half:])
            if left_alone := len(written) - len(mine):
                name, epoch = self.table.stream, self.epoch
                LOG.info("Key-value table %s: %d rows of epoch %d came after later ones.", name, left_alone, epoch)
            return

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
        column = find_epoch_column(self.table)
        assert column is not None
        return self.table.make_decoder(StructType([self.table.schema[column]]))


def _decode(decoder: Decoder, values: Sequence[bytes]) -> list[int | None]:
    return decoder.decode(EventBuffer.of(list(values))).column(0).to_pylist() if values else []
