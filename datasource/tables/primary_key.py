"""Hashes the primary keys of a table of changes, which are the routing keys of its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.formats.changes.debezium.writing import RowDocuments
from pyspark_pravega.formats.changes.feed import list_key_columns

from .stream_table import StreamTable

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
