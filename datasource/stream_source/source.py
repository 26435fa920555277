"""Defines what a streaming query asks of the table that it reads: rows of one stream or of several, or changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..scan.planned_scan import PlannedScan
from ..tables.open_table import OpenTable
from ..tables.stream_table import StreamTable
from .admission import Limits
from .memory import SourceMemory


@dataclass(frozen=True)
class MicroBatchEnd:
    """Where a micro-batch ends, and where the table ends now: offsets. `metrics`: how far the query will be behind.

    The end is where the micro-batch begins if there is none. Streams of changes say nothing of the end of the table.
    """

    offset: str
    latest: str | None
    metrics: Mapping[str, str]


@dataclass(frozen=True)
class KeptRows:
    """The rows that a checkpoint has where a micro-batch of changes begins: `known` is what is known of its `files`.

    `retain` is the number of batches that Spark keeps to repeat them.
    """

    known: str | None
    files: tuple[str, ...]
    retain: int


@dataclass(frozen=True)
class BatchRange:
    """The offsets between which a micro-batch lies; of changes, the rows before it, and what a search has `found`."""

    since: str
    until: str
    kept: KeptRows | None = None
    found: tuple[str, ...] | None = None


LoadMembers: TypeAlias = Callable[[Pravega, o.Options, str, Sequence[str], StructType], list[StreamTable]]
"""Loads the tables of streams to read as one, by their names in a scope; for the columns of those that are read."""


@dataclass(frozen=True)
class StreamReader:
    """A query that reads a table as a stream: the columns that it needs, and the checkpoint, which identifies it.

    `name` is the table's, for messages; `id` tells its stream from one recreated under its name. `hold` keeps the
    connection until the query stops.
    """

    name: str
    id: str | None
    columns: StructType
    checkpoint: str
    memory: SourceMemory
    hold: Callable[[], Callable[[], None]]
    load_members: LoadMembers

    def consume(self, opened: OpenTable, begin: StreamCut, *, several: bool = False) -> None:
        """Let the query's consumer, if it has one, hold what it has yet to read: one in each of `several` streams."""
        if (consumer := opened.options.get(o.CONSUMER)) is not None:
            name = f"{consumer}-of-{begin.stream.name}" if several else consumer
            self.memory.consume(opened.pravega, name, begin, self.checkpoint, self.hold)


class StreamSource(ABC):
    """A table as one streaming query reads it. Offsets are texts, which Spark keeps in the query's checkpoint."""

    @abstractmethod
    def start(self) -> str:
        """Return the offset at which a query without a checkpoint begins."""

    @abstractmethod
    def last(self) -> str:
        """Return the offset at which the table ends now."""

    @abstractmethod
    def limits(self) -> Limits:
        """Return the limits in a query's options. Raises InvalidOptionError for a drift in times that a table lacks."""

    @abstractmethod
    def end(self, since: str, last: str | None, limits: Limits) -> MicroBatchEnd:
        """Return where the next micro-batch ends: not beyond `last`, and within limits.

        Raises CheckpointError for offsets that do not fit, DataLossError for events that were removed too early.
        """

    @abstractmethod
    def plan(self, batch: BatchRange) -> PlannedScan:
        """Plan what a micro-batch reads. Raises the errors of `end`."""

    @abstractmethod
    def check(self, offset: str) -> None:
        """Raise CheckpointError or DataLossError for an offset at which reading cannot continue."""

    @abstractmethod
    def commit(self, until: str) -> None:
        """Note that the query needs nothing before an offset any more."""

    def plan_real_time(self, since: str) -> PlannedScan:
        """Plan how the tasks of a real-time batch follow the stream's segments. Raises UnsupportedOperationError."""
        raise UnsupportedOperationError("Only the rows of one stream can be followed in real-time mode.")

    def end_of_real_time(self, reached: Mapping[int, int]) -> str:
        """Return the offset that the tasks of a real-time batch have reached."""
        raise UnsupportedOperationError("Only the rows of one stream can be followed in real-time mode.")
