"""A batch scan: one partition per segment slice, each read and decoded by one task, exactly repeatable."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.serializers import read_int
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.event_frames import HEADER_BYTES
from pyspark_pravega.client.reader import SegmentRangeReader, Window
from pyspark_pravega.client.stream import segment_name
from pyspark_pravega.datasource.snapshot import SegmentSlice
from pyspark_pravega.datasource.stream_table import StreamTable, WriterSchemas
from pyspark_pravega.datasource.user_errors import concise
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.events import EventBuffer
from pyspark_pravega.formats.format import BadEvent, Decoder, find_format

METADATA_COLUMNS: dict[str, tuple[StructField, str]] = {
    "_segment": (StructField("_segment", StringType(), False), "Name of the segment that holds the event."),
    "_offset": (StructField("_offset", LongType(), False), "Byte offset of the event in its segment."),
    "_event_pointer": (
        StructField("_event_pointer", StringType(), False),
        "The event's pointer in the text form of Pravega's Java client.",
    ),
}
"""Hidden columns by name, each with its documentation. A data column of the same name hides them."""

BATCH_EVENTS = 16_384
BATCH_BYTES = 4 << 20


@dataclass
class SlicePartition(InputPartition):
    """One segment slice, with where planning found the segment and a token to read it."""

    piece: SegmentSlice
    endpoint: Endpoint
    token: str


@dataclass(frozen=True)
class ScanPlan:
    """All that tasks share. `schema` is what Spark asked for, data and metadata columns in its order.

    `columns` are the data columns to decode. When Spark needs only the number of rows it still gets one
    column, the `carrier`, which is filled with nulls and never decoded.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    columns: StructType
    limit: int | None
    fail_on_data_loss: bool
    window_bytes: int
    writer_schemas: WriterSchemas


class SegmentScanReader(DataSourceReader):
    """Spark's reader: partitions made at planning, each read with a connection of its own."""

    def __init__(self, plan: ScanPlan, partitions: Sequence[SlicePartition]) -> None:
        self._plan = plan
        self._partitions = list(partitions)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per slice; one empty partition stands for an empty stream."""
        return self._partitions or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the slice's events in order; MalformedEventError names the first that does not fit."""
        if isinstance(partition, SlicePartition):
            batches = _read_slice(self._plan, partition)
            while (batch := _next(batches)) is not None:
                yield batch

    def __getstate__(self) -> dict[str, Any]:
        return {"_plan": self._plan, "_partitions": []}  # tasks get theirs from Spark


@concise
def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)


def _read_slice(plan: ScanPlan, partition: SlicePartition) -> Iterator[pa.RecordBatch]:
    stream = plan.table.stream
    piece = partition.piece
    left = plan.limit
    with connect(plan.config) as pravega:
        pravega.segments.seed_location(stream, piece.segment_id, partition.endpoint)
        pravega.segments.seed_token(stream, partition.token)
        batches = _Batches(plan, segment_name(stream, piece.segment_id))
        reader = SegmentRangeReader(
            pravega.segments,
            stream,
            piece.segment_id,
            piece.start,
            piece.end,
            window_bytes=plan.window_bytes,
            fail_on_data_loss=plan.fail_on_data_loss,
        )
        for window in reader:
            for first, last in _chunks(window.lengths):
                if left is not None:
                    last = min(last, first + left)
                    left -= last - first
                yield batches.batch(window, first, last)
                if left == 0:
                    return


def _chunks(lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Cut a window into runs of events that make batches of a good size."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        by_bytes = int(np.searchsorted(ends, done + BATCH_BYTES, side="right"))
        last = max(first + 1, min(by_bytes, first + BATCH_EVENTS, len(lengths)))
        yield first, last
        first = last


class _Batches:
    """Makes the Arrow batches of one segment."""

    def __init__(self, plan: ScanPlan, segment: str) -> None:
        self._segment = segment
        self._schema: pa.Schema = to_arrow_schema(plan.schema, timezone="UTC")
        self._decoder: Decoder | None = None
        if plan.columns.fields:
            table = plan.table
            resolve = plan.writer_schemas if table.framed else None
            self._decoder = find_format(table.format).decoder(plan.columns, table.schema_text, resolve, table.settings)
        self._columns = set(plan.columns.fieldNames())

    def batch(self, window: Window, first: int, last: int) -> pa.RecordBatch:
        starts, lengths = window.starts[first:last], window.lengths[first:last]
        offsets = window.base + starts - HEADER_BYTES
        decoded = None
        if self._decoder is not None:
            try:
                decoded = self._decoder.decode(EventBuffer(window.data, starts, lengths))
            except BadEvent as bad:
                raise MalformedEventError(
                    f"The event at offset {offsets[bad.index]} of segment {self._segment} cannot be decoded: "
                    f"{bad.reason}. Its bytes can be read with spark.read.format('pravega').option('format', 'raw')."
                ) from None
        arrays = []
        for field in self._schema:
            if field.name in self._columns and decoded is not None:
                arrays.append(decoded.column(field.name))
            elif field.name in METADATA_COLUMNS:
                arrays.append(self._metadata(field.name, offsets, lengths))
            else:
                arrays.append(pa.nulls(last - first, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _metadata(self, name: str, offsets: Any, lengths: Any) -> pa.Array:
        if name == "_offset":
            return pa.array(offsets, pa.int64())
        if name == "_segment":
            return pa.repeat(self._segment, len(offsets))
        return pc.binary_join_element_wise(
            f"{self._segment}:",
            pc.cast(pa.array(offsets), pa.string()),
            "-",
            pc.cast(pa.array(lengths + HEADER_BYTES), pa.string()),
            "",
        )


def pickled_read(reader: DataSourceReader, schema: StructType) -> tuple[str, list[str]]:
    """Return what Spark would get from its planning worker, in base64: the read function and the partitions.

    The catalog service plans in its own process, so that a scan starts no planning worker.
    """
    from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

    from pyspark_pravega.datasource.source import PravegaDataSource

    out = io.BytesIO()
    write_read_func_and_partitions(
        out,
        reader=reader,
        data_source=PravegaDataSource({}),
        schema=schema,
        max_arrow_batch_size=BATCH_EVENTS,
        binary_as_bytes=True,
    )
    out.seek(0)
    function = out.read(read_int(out))
    partitions = [out.read(read_int(out)) for _ in range(read_int(out))]
    return _text(function), [_text(partition) for partition in partitions]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
