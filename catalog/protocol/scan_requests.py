"""Requests to read: to plan scans of rows and of changes, and what streaming queries ask about the tables they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.scan.aggregates.aggregation import Aggregation
from pyspark_pravega.datasource.scan.conditions import Condition
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.source import BatchRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from .service_replies import ScanEnds


@dataclass(frozen=True)
class _OfScan:
    """A request about a scan of a table that was loaded, with these options."""

    table: StreamTable
    columns: StructType
    options: Mapping[str, str]


@dataclass(frozen=True)
class PlanScan(_OfScan):
    """A `PlannedRead` of rows, or of changes if the table was asked for these. `limit` is negative where there is none.

    `ends` come from the former plans of the same query, so that all its scans of a table end at one tail. `found` is
    None until the scan is run, then what the tasks of a `search` found, each in a text. Spark can run as many tasks at
    once as it has `cores`.

    `files` are those of the folder that the plan named until it is run, None if it named none. With an `aggregation`
    that `TakeAggregation` took, `columns` are all of the table, and the scan begins it. The scan evaluates the
    `conditions`, which `TakeConditions` took; if there are any, `every` has all columns of the table. Those `of_joins`
    became known when the query ran; the join evaluates them too.
    """

    limit: int
    ends: ScanEnds | None
    cores: int
    found: tuple[str, ...] | None = None
    aggregation: Aggregation | None = None
    every: StructType | None = None
    conditions: tuple[Condition, ...] = ()
    of_joins: tuple[Condition, ...] = ()
    files: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TakeConditions(_OfScan):
    """Of each of the conditions that Spark asks for, in its order, whether a scan evaluates it: bools.

    `columns` are all of the table, or of its changes.
    """

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class TakeAggregation(_OfScan):
    """Whether a scan of a table should begin the aggregates that Spark asks for: a bool.

    `written` is the aggregation as the query has it, before Spark made sums and counts of AVG.
    """

    aggregation: Aggregation
    written: Aggregation


@dataclass(frozen=True)
class CheckColumnOptions:
    """Raise an error for options of a query that the columns which Spark knows do not reflect; null."""

    table: StreamTable
    options: Mapping[str, str]


@dataclass(frozen=True)
class NoteBorders:
    """Lets the service remember what a task tells it by `NotedBorders.add`."""

    table: StreamTable
    numbers: tuple[int, ...]


PlanningRequest: TypeAlias = PlanScan | CheckColumnOptions | TakeConditions | TakeAggregation | NoteBorders
"""Requests about scans."""


@dataclass(frozen=True)
class StreamQuery:
    """A streaming query, and the table that it reads, or the changes of a table.

    `id` is that of the table's description, `columns` are those that the query needs. Its `checkpoint` identifies it.
    """

    table: StreamTable
    id: str | None
    columns: StructType
    options: Mapping[str, str]
    checkpoint: str


@dataclass(frozen=True)
class _OfQuery:
    """A request of a streaming query."""

    query: StreamQuery


class StartOfStream(_OfQuery):
    """The offset (a text) at which a streaming query without a checkpoint begins."""


class LastOfStream(_OfQuery):
    """The offset at which the table ends now: there a query with `availableNow` ends."""


class LimitsOfStream(_OfQuery):
    """The `Limits` that the options of a query give its micro-batches."""


@dataclass(frozen=True)
class EndOfMicroBatch(_OfQuery):
    """A `MicroBatchEnd`, that of the next micro-batch. `last`: the micro-batch ends at this offset at the latest."""

    since: str
    last: str | None
    limits: Limits


@dataclass(frozen=True)
class PlanMicroBatch(_OfQuery):
    """A `PlannedRead` of what lies between two offsets. Of changes, it has what `PlannedRows` said of the first one."""

    range: BatchRange


@dataclass(frozen=True)
class PlanRealTime(_OfQuery):
    """A `PlannedRead` of all that comes after an offset, of one partition per segment, whose id is its affinity."""

    since: str


@dataclass(frozen=True)
class EndOfRealTime(_OfQuery):
    """The offset that the tasks of a real-time batch have reached: an offset for each segment id."""

    reached: Mapping[str, str]


@dataclass(frozen=True)
class CommitMicroBatch(_OfQuery):
    """The query has finished a micro-batch, and needs nothing before this offset any more; null."""

    until: str


@dataclass(frozen=True)
class StopStream:
    """The query with this checkpoint has stopped; null."""

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
