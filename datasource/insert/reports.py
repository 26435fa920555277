"""What the tasks of a write report to the driver."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ..commit_log.log_table import ChangeCounts
from ..tables.row_keys import KeyPositions
from ..tables.stream_table import StreamTable


@dataclass(frozen=True)
class SegmentWrite:
    """The bytes and events that one task put into one segment of the transaction.

    `ranges` are the bytes that this attempt appended itself; `resumed` says that an earlier attempt with the same
    content had appended the rest.
    """

    bytes: int
    events: int
    ranges: tuple[tuple[int, int], ...]
    resumed: bool
    retries: int = 0


@dataclass(frozen=True)
class HeldRows:
    """The few rows of a task that has appended nothing: as framed `events` of one segment, and as they came."""

    events: bytes
    table: StreamTable
    schema: StructType
    batches: Sequence[pa.RecordBatch]


@dataclass
class InsertMessage(WriterCommitMessage):
    """A task's report: the number of rows and, by segment id, what it wrote there.

    `lost` are rows that a write of the mode `best-effort` has given up. `reached` is the event time that the rows have
    reached, in milliseconds since 1970; see `ReachedTime`. `bytes` are those of the events, with their headers, and
    `retries` the connections that were lost in the meantime, for Spark's metrics. `keys` are those of changed rows,
    `created` those of inserted ones, `key_names` texts of the first `keys`, shortened. `ends` are those of the segments
    that the task has read of its table. `changes` are counted by a task that does more than insert rows. `transaction`
    is the one that has its events, or the single append that will store those that are `held`.
    """

    partition: int
    rows: int
    segments: dict[int, SegmentWrite]
    lost: int = 0
    reached: int | None = None
    bytes: int = 0
    retries: int = 0
    keys: KeyPositions | None = None
    key_names: Sequence[str] = ()
    changes: ChangeCounts | None = None
    created: KeyPositions | None = None
    ends: Mapping[int, int] | None = None
    transaction: uuid.UUID | None = None
    held: HeldRows | None = None
