"""Describes the plan that the tasks of one scan of events share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.client.config import ClientConfig

from ..tables.bad_events import BadEventRule
from ..tables.hidden_columns import REACHED_COLUMN
from ..tables.stream_table import StreamTable
from ..tables.writer_schemas import WriterSchemas
from .counts import add_counts
from .event_times import SegmentTimes
from .places import Places
from .segment_versions import SegmentVersions


@dataclass(frozen=True)
class EventScanPlan:
    """The plan of all tasks. `schema` is what Spark asked for, data and hidden columns in its order.

    `columns` are the data columns to decode: the requested ones if a bad event ends the query, and otherwise all of the
    table's, so that the same events are bad whatever is requested. If Spark needs only the number of rows, it still
    gets one column, the carrier, which is filled with nulls.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    columns: StructType
    limit: int | None
    fail_on_data_loss: bool
    window_bytes: int
    max_expansion: int
    writer_schemas: WriterSchemas
    bad_events: BadEventRule
    counted: bool
    """Whether tasks report counts: rows carry COUNTS_COLUMN."""
    versions: Mapping[str, SegmentVersions] | None = None
    """By the name of a segment, if rows are changes with CHANGE_COLUMNS, or have a column of VERSION_COLUMNS."""
    query: str | None = None
    """The streaming query, which reads the same slice again when a micro-batch is repeated."""
    positioned: bool = False
    """Whether rows carry REACHED_COLUMN; only with `counted`."""
    few: bool = False
    """Whether a few rows may be enough, even without a `limit`: little is read at first then."""
    places: Places | None = None
    """The conditions on places: events elsewhere are not decoded."""
    times: Mapping[str, SegmentTimes] | None = None
    """By the name of a segment, if a column of TIME_COLUMNS is requested."""

    @property
    def output(self) -> StructType:
        """Return the columns of the batches that tasks make."""
        if not self.counted:
            return self.schema
        more = [REACHED_COLUMN] if self.positioned else []
        return StructType([*add_counts(self.schema), *more])
