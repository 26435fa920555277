"""Holds the few rows of an INSERT back in its only task, so that one append can store them without a transaction."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client.routing import SegmentRouter
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.single_append import make_append_id
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.errors import EventTooLargeError, InvalidRowError
from pyspark_pravega.formats.core.text_lengths import make_length_check

from ..tables.row_keys import make_key_hasher
from ..tables.stream_table import StreamTable
from .reports import HeldRows, InsertMessage, SegmentWrite

_FEW_BYTES = 64 * 1024
"""Most bytes of rows, and of their events, that are held back: they travel to the driver in the task's report."""


def read_few(rows: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], bool]:
    """Return the first rows, and whether these are all."""
    first, size = list[pa.RecordBatch](), 0
    for batch in rows:
        first.append(batch)
        size += batch.nbytes
        if size > _FEW_BYTES:
            return first, False
    return first, True


def hold_rows(
    table: StreamTable,
    columns: tuple[StructType, int | None],
    segments: Sequence[SegmentRange],
    batches: Sequence[pa.RecordBatch],
) -> InsertMessage | None:
    """Return the report of a task that holds all its rows back; None if these need a transaction.

    They do if they are many, go to several segments, or cannot be written. `columns` are the schema of the rows, and
    the encoding id of their events. Rows without keys go to one segment.
    """
    schema, encoding_id = columns
    encoder, fit = table.make_encoder(schema, encoding_id), make_length_check(table.schema)
    hash_keys, router = make_key_hasher(table, schema), SegmentRouter(segments)
    anywhere = random.random()
    try:
        rows = [fit(batch) for batch in batches if batch.num_rows]
        if not rows:
            return InsertMessage(0, 0, {})
        hashed = [np.full(batch.num_rows, anywhere) if hash_keys is None else hash_keys(batch) for batch in rows]
        places = np.unique(router.places(np.concatenate(hashed)))
        if len(places) > 1:
            return None
        data = b"".join(frame(encoder.encode(batch)) for batch in rows)
    except (EventTooLargeError, InvalidRowError):
        return None  # the writer that comes next says which row, and what is visible
    segment = router.segment_ids[places[0]]
    if len(data) > _FEW_BYTES or (transaction := make_append_id(segment)) is None:
        return None
    count = sum(batch.num_rows for batch in rows)
    written = {segment: SegmentWrite(len(data), count, (), resumed=False)}
    held = HeldRows(data, table, schema, batches)
    return InsertMessage(0, count, written, bytes=len(data), transaction=transaction, held=held)
