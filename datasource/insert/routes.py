"""Routes rows: finds the position of each in the key space of the stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.formats.changes.feed import list_key_columns

from ..tables.named_columns import RoutingKey, compute_key_positions
from ..tables.primary_key import KeyPositions, hash_primary_key
from ..tables.stream_table import StreamTable

_GOLDEN = 0.618
"""The multiples of this number lie far from each other in [0, 1)."""


def choose_key_positions(
    table: StreamTable, rows: StructType, partition: int
) -> Callable[[pa.RecordBatch], KeyPositions]:
    """Return the function that positions the rows of a task.

    Positions are hashes of the routing key, or of the primary key of changes, as Debezium writes it. Else the rows are
    spread evenly, with a different beginning in each task.
    """

    def spread(batch: pa.RecordBatch) -> KeyPositions:
        shares: KeyPositions = np.arange(batch.num_rows) / max(batch.num_rows, 1)
        return np.mod(shares + partition * _GOLDEN, 1.0)

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
