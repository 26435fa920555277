"""Describes a planned scan: where its rows come from, how much it reads, and where that ends."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypedDict, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..commit_log.log_table import HeadRow
from ..positions.snapshot import SegmentSlice
from ..workers.user_errors import shorten_errors

Plan = TypeVar("Plan")
Partition = TypeVar("Partition", bound=InputPartition)


class PlannedReader(DataSourceReader, Generic[Plan, Partition]):
    """Spark's reader of planned partitions, which have endpoints and tokens, over kept connections.

    All tasks share its `plan`. An empty stream has no `planned` partitions.
    """

    def __init__(self, plan: Plan, partitions: Sequence[Partition]) -> None:
        self.plan, self.planned = plan, list(partitions)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the planned partitions; one empty partition stands for an empty stream."""
        return self.planned or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """Yield the partition's rows; MalformedEventError names the first event that does not fit."""
        if type(partition) is not InputPartition:
            batches = self.batches(cast(Partition, partition))
            while (batch := _next_batch(batches)) is not None:
                yield batch

    def batches(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Read one planned partition, in a task."""
        raise NotImplementedError

    def read_all(self) -> Iterator[pa.RecordBatch]:
        """Read what was planned in this process, one partition after the other."""
        return chain.from_iterable(map(self.batches, self.planned))

    def __getstate__(self) -> dict[str, Any]:
        return {"plan": self.plan, "planned": []}  # tasks get theirs from Spark


@shorten_errors
def _next_batch(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)


@dataclass(frozen=True)
class Lookup:
    """The slots of keys whose blocks of a file a task needs, and the name of a local copy with these blocks alone.

    See `changes/key_blocks.py`. Where there is a copy of the whole file, the task uses that.
    """

    slots: tuple[int, ...]
    copy: str


@dataclass(frozen=True)
class TaskFiles:
    """The files of rows that a task needs for a group, and the beginning of the name of the one that it may write."""

    before: tuple[str, ...]
    after: str | None
    lookup: Lookup | None = None


@dataclass(frozen=True)
class PlannedRows:
    """What the checkpoint of a stream of changes knows of rows after a batch, see `changes/states.py`.

    `known` is that as text, after the batch with this `number`; `obsolete` are files that are no longer needed. `tasks`
    has the files of each partition's groups. A scan of current rows has a `folder` instead, whose files its planning
    must know, and nothing else is known of it: see `changes/remembered_rows.py`.
    """

    number: int
    known: str | None
    obsolete: tuple[str, ...]
    tasks: tuple[tuple[TaskFiles, ...], ...]
    folder: str | None = None


@dataclass(frozen=True)
class RowSource:
    """Where the rows of a scan come from: a reader of partitions, and the schema of the rows.

    `output` is the schema of the tasks' batches: that of the rows, and COUNTS_COLUMN if tasks count anything.
    """

    reader: PlannedReader[Any, Any]
    schema: StructType
    output: StructType

    @property
    def counted(self) -> bool:
        """Return whether batches may hold counts."""
        return len(self.output) > len(self.schema)


@dataclass(frozen=True)
class PlannedScan:
    """The source of a scan's rows, how many bytes of how many segments it reads, and where these end."""

    source: RowSource
    bytes: int
    segments: int
    tail: Mapping[int, int]
    newest: int = 0
    """The newest version that was known, where versions count."""
    whole: bool = True
    """False if only the facts for EXPLAIN were planned, and the source reads nothing."""
    search: PlannedReader[Any, Any] | None = None
    """The search to run before the whole scan can be planned, see `changes/truncations.py`."""
    affinities: Sequence[int] = ()
    """A number for each partition, if given: one executor should read those with the same number."""
    keyed: tuple[int, int] | None = None
    """How many segments can have the routing keys of the conditions, of how many; None if that is unknown."""
    rows: PlannedRows | None = None
    """The files of the known rows, for a stream of their changes and a scan that remembers them."""
    head: HeadRow | None = None
    """The head row of the commit log, if every event is a row and the scan contains all of its versions."""
    about: Mapping[str, str] = field(default_factory=dict)
    """How the "start" and the "end" were found, if they are approximate, and the "parts" of divided segments."""
    known: int | None = None
    """The number of rows, if only that is asked for, and it was found without reading them."""

    @property
    def reader(self) -> PlannedReader[Any, Any]:
        assert self.whole, "the scan must be planned again before it runs"
        return self.source.reader

    @classmethod
    def of(cls, source: RowSource, slices: Sequence[SegmentSlice]) -> PlannedScan:
        """Return the scan of a source whose rows lie in these slices."""
        return cls(source, **measure_extent(slices))

    @classmethod
    def unfinished(
        cls,
        schema: StructType,
        slices: Sequence[SegmentSlice],
        search: PlannedReader[Any, Any] | None = None,
        rows: PlannedRows | None = None,
    ) -> PlannedScan:
        """Return what is known of a scan that must be planned again."""
        source = RowSource(PlannedReader(None, []), schema, schema)
        return cls(source, **measure_extent(slices), whole=False, search=search, rows=rows)


class Extent(TypedDict):
    """How much a scan reads, and where that ends, by segment."""

    bytes: int
    segments: int
    tail: Mapping[int, int]


def measure_extent(slices: Sequence[SegmentSlice]) -> Extent:
    return Extent(
        bytes=sum(piece.end - piece.start for piece in slices),
        segments=len(slices),
        tail={piece.segment_id: piece.end for piece in slices},
    )


@dataclass(frozen=True)
class EarlierScan:
    """The end of an earlier scan of the same changes, and the newest version that it knew."""

    tail: Mapping[int, int]
    newest: int
