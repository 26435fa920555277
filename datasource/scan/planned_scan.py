"""Describes a planned scan: where its rows come from, how much it reads, and where that ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypedDict

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..commit_log.table import HeadRow
from ..positions.snapshot import SegmentSlice


class _UnplannedReader(DataSourceReader):
    """The reader of a scan that was not planned whole."""

    def read(self, partition: InputPartition) -> NoReturn:
        raise AssertionError("the scan is to be planned again before it is run")


@dataclass(frozen=True)
class TaskFiles:
    """The files of the checkpoint that a task needs, and the beginning of the name of the one that it writes."""

    before: tuple[str, ...]
    after: str


@dataclass(frozen=True)
class PlannedRows:
    """What the checkpoint of a stream of changes knows of rows once a batch is done, see `changes/known_rows.py`.

    `known` is the text that says so, of the batch of this `number`; `obsolete` are files that nobody needs any more.
    There are `tasks` for all partitions.
    """

    number: int
    known: str
    obsolete: tuple[str, ...]
    tasks: tuple[TaskFiles, ...]


@dataclass(frozen=True)
class RowSource:
    """Where the rows of a scan come from: a reader of partitions, and the schema of the rows.

    `output` is what tasks make: the rows, with COUNTS_COLUMN behind them if tasks count anything.
    """

    reader: DataSourceReader
    schema: StructType
    output: StructType

    @classmethod
    def unplanned(cls, schema: StructType) -> RowSource:
        """Return the source of a scan that is to be planned again, of which only the schema is known."""
        return cls(_UnplannedReader(), schema, schema)

    @property
    def counted(self) -> bool:
        """Return whether batches may tell counts."""
        return len(self.output) > len(self.schema)


@dataclass(frozen=True)
class PlannedScan:
    """A planned scan: the source of its rows, how many bytes of how many segments it reads, and where these end."""

    source: RowSource
    bytes: int
    segments: int
    tail: Mapping[int, int]
    newest: int = 0
    """The newest version that was known, where versions count."""
    whole: bool = True
    """False if only what EXPLAIN shows was planned, and the source reads nothing."""
    search: DataSourceReader | None = None
    """What is to be read before the whole scan can be planned, see `changes/truncations.py`."""
    affinities: Sequence[int] = ()
    """For each partition, if given, a number: the same executor should read those of the same number."""
    keyed: tuple[int, int] | None = None
    """How many segments can have the routing keys that conditions name, of how many; None if that was not told."""
    rows: PlannedRows | None = None
    """The files of the rows that are known, in a stream of their changes."""
    head: HeadRow | None = None
    """The head row of the commit log, all of whose versions are in the scan, if every event of the stream is a row."""
    known: int | None = None
    """How many rows there are, where that was found without reading them, and only it is asked for."""

    @property
    def reader(self) -> DataSourceReader:
        """Return the reader of the partitions."""
        return self.source.reader

    @classmethod
    def of(cls, source: RowSource, slices: Sequence[SegmentSlice], affinities: Sequence[int] = ()) -> PlannedScan:
        """Put the source of the rows of these slices together with what the slices tell."""
        return cls(source, **extent_of(slices), affinities=affinities)

    @classmethod
    def unfinished(
        cls, schema: StructType, slices: Sequence[SegmentSlice], search: DataSourceReader | None
    ) -> PlannedScan:
        """Tell what is known of a scan that is to be planned again."""
        return cls(RowSource.unplanned(schema), **extent_of(slices), whole=False, search=search)


class Extent(TypedDict):
    """How much a scan reads, and where that ends, by segment."""

    bytes: int
    segments: int
    tail: Mapping[int, int]


def extent_of(slices: Sequence[SegmentSlice]) -> Extent:
    """Return how much lies in slices, and where they end."""
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
