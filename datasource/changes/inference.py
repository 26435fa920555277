"""The columns of a table of changes whose DDL declares none: from the schemas that come with its events."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.range_reader import DEFAULT_WINDOW, SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.changes.feed import find_change_format
from pyspark_pravega.formats.core.events import EventBuffer

from ..scan.snapshot import take_snapshot
from ..tables.stream_table import StreamTable
from .current_rows_planning import with_schemas


def infer_columns(pravega: Pravega, stream: Stream, format: str, settings: Mapping[str, str]) -> StructType | None:
    """Return the columns of the newest event with a schema, in the first 16 MiB of the newest segment that has one.

    None if there is none. Raises StreamNotFoundError, InvalidOptionError.
    """
    found = find_change_format(format)
    table = with_schemas(StreamTable(stream, format, "none", StructType([]), settings=settings))
    slices = take_snapshot(
        pravega, stream, start=None, end=None, fail_on_data_loss=False, settled=lambda measure: measure(None)
    )
    for piece in reversed(slices):
        reader = SegmentRangeReader(
            pravega.segments, stream, piece.segment_id, piece.start, piece.end, window_bytes=DEFAULT_WINDOW
        )
        window = next(iter(reader), None)
        if window is not None:
            events = EventBuffer(window.data, window.starts, window.lengths)
            columns = found.columns(events, table.settings)
            if columns is not None:
                return columns
    return None
