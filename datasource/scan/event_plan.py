"""Describes what the tasks of one scan of events share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.client.config import ClientConfig

from ..tables.hidden_columns import REACHED_COLUMN
from ..tables.stream_table import StreamTable, WriterSchemas
from .bad_events import BadEventRule
from .counts import with_counts
from .event_times import SegmentTimes
from .places import Places


@dataclass(frozen=True)
class SegmentVersions:
    """To which version the events of one segment belong.

    Those before `ends[i]` (and not before `ends[i - 1]`) to version `numbers[i]`, which was published at `times[i]`
    (microseconds since 1970, -1 if it was not yet); the last end is that of what is read.
    """

    ends: tuple[int, ...]
    numbers: tuple[int, ...]
    times: tuple[int, ...]


@dataclass(frozen=True)
class EventScanPlan:
    """All that tasks share. `schema` is what Spark asked for, data and metadata columns in its order.

    `columns` are the data columns to decode: those that are asked for where a bad event ends the query, and all of
    the table's otherwise, so that the same events are bad whatever is asked for. When Spark needs only the number
    of rows it still gets one column, the carrier, which is filled with nulls.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    columns: StructType
    limit: int | None
    fail_on_data_loss: bool
    window_bytes: int
    writer_schemas: WriterSchemas
    bad_events: BadEventRule
    counted: bool
    """Bad events are counted: rows carry COUNTS_COLUMN."""
    versions: Mapping[str, SegmentVersions] | None = None
    """By the name of a segment, where rows are changes and have CHANGE_COLUMNS."""
    query: str | None = None
    """Names the streaming query: it reads the same slice again when a micro-batch is done again."""
    positioned: bool = False
    """Rows carry REACHED_COLUMN; only with `counted`."""
    few: bool = False
    """A few rows may be enough, without a `limit` of them: so little is read at first."""
    places: Places | None = None
    """Conditions on places of events: others are not decoded."""
    times: Mapping[str, SegmentTimes] | None = None
    """By the name of a segment, where `_event_time` is asked for."""

    @property
    def output(self) -> StructType:
        """Return the columns of the batches that tasks make."""
        if not self.counted:
            return self.schema
        more = [REACHED_COLUMN] if self.positioned else []
        return StructType([*with_counts(self.schema), *more])
