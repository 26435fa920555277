"""Requests of streaming queries about what they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.tables.stream_table import StreamTable


@dataclass(frozen=True)
class _OfQuery:
    """A request of a streaming query: its table, the `id` of that table's description, the columns that it needs."""

    table: StreamTable
    id: str | None
    columns: StructType
    options: Mapping[str, str]


@dataclass(frozen=True)
class StartOfStream(_OfQuery):
    """The offset (a text) at which a streaming query without a checkpoint begins."""


@dataclass(frozen=True)
class LastOfStream(_OfQuery):
    """The offset at which the table ends now: there a query with `availableNow` ends."""


@dataclass(frozen=True)
class LimitsOfStream(_OfQuery):
    """The `Limits` that the options of a query give its micro-batches."""


@dataclass(frozen=True)
class EndOfMicroBatch(_OfQuery):
    """A `MicroBatchEnd`, that of the next micro-batch.

    `last`: the micro-batch ends at this offset at the latest. `checkpoint` identifies the query.
    """

    since: str
    last: str | None
    limits: Limits
    checkpoint: str


@dataclass(frozen=True)
class PlanMicroBatch(_OfQuery):
    """A `PlannedRead` of what lies between two offsets. `checkpoint` identifies the query."""

    since: str
    until: str
    checkpoint: str


@dataclass(frozen=True)
class PlanRealTime(_OfQuery):
    """A `PlannedRead` of all that comes after an offset, of one partition per segment, whose id is its affinity."""

    since: str
    checkpoint: str


@dataclass(frozen=True)
class EndOfRealTime(_OfQuery):
    """The offset that the tasks of a real-time batch have reached: an offset for each segment id."""

    reached: Mapping[str, str]


@dataclass(frozen=True)
class CommitMicroBatch(_OfQuery):
    """The query with this checkpoint has finished a micro-batch, and needs nothing before this offset any more."""

    until: str
    checkpoint: str


@dataclass(frozen=True)
class StopStream(_OfQuery):
    """The query with this checkpoint has stopped."""

    checkpoint: str


StreamRequest: TypeAlias = (
    StartOfStream
    | LastOfStream
    | LimitsOfStream
    | EndOfMicroBatch
    | PlanMicroBatch
    | PlanRealTime
    | EndOfRealTime
    | CommitMicroBatch
)
"""Requests of a streaming query about the table that it reads."""
