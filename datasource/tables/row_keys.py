"""Hashes the keys of rows, by which these are routed: a table's routing key, or the primary key of its changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.formats.changes.debezium.writing import RowDocuments
from pyspark_pravega.formats.changes.feed import list_key_columns

from .named_columns import RoutingKey, compute_key_positions
from .stream_table import StreamTable

_GOLDEN = 0.618
"""The multiples of this number lie far from each other in [0, 1)."""
_SPREAD_ROWS = 1000
"""The fewest rows of a batch that go to several segments. A smaller one, as in real time, takes a single append."""
KeyPositions: TypeAlias = npt.NDArray[np.float64]
"""Keys as the positions of their texts in the key space: different for different keys but by rare chance."""


def write_primary_key(table: StreamTable, rows: StructType) -> Callable[[pa.RecordBatch], pa.LargeStringArray]:
    """Return the function that writes the primary key as Debezium does, such as `{"id":1}`."""
    names = list_key_columns(table.settings)
    texts = RowDocuments(StructType([StructField(name, rows[name].dataType, False) for name in names]), table.settings)
    return lambda batch: texts.documents(batch.select(names)).cast(pa.large_string())


def hash_primary_key(table: StreamTable, rows: StructType) -> Callable[[pa.RecordBatch], KeyPositions]:
    """Return the function that hashes the primary key as Debezium writes it."""
    write = write_primary_key(table, rows)
    return lambda batch: hash_keys(write(batch))


def choose_key_positions(table: StreamTable, rows: StructType) -> Callable[[pa.RecordBatch], KeyPositions]:
    """Return the function that positions the rows of a task.

    Positions are hashes of the routing key, or of the primary key of changes, as Debezium writes it. Else large batches
    are spread evenly, and small ones go to a segment each: to all segments in turns, from a random one on.
    """
    begin = random.random()

    def spread(batch: pa.RecordBatch) -> KeyPositions:
        nonlocal begin
        begin += _GOLDEN
        count = batch.num_rows
        return np.mod(begin + (np.arange(count) / count if count >= _SPREAD_ROWS else np.zeros(count)), 1.0)

    return make_key_hasher(table, rows) or spread


def make_key_hasher(table: StreamTable, rows: StructType) -> Callable[[pa.RecordBatch], KeyPositions] | None:
    """Return the function that hashes the keys of rows; None if rows have no keys."""
    if table.routing_key:
        # As Pravega's own clients hash their keys.
        key = RoutingKey.of(table.routing_key, rows)
        return lambda batch: compute_key_positions(key.texts(batch))
    if list_key_columns(table.settings):
        return hash_primary_key(table, rows)
    return None
