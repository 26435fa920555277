"""Describes a planned scan: the reader of its partitions, and what there is to tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..commit_log.table import Head
from ..positions.snapshot import SegmentSlice


class _Nothing(DataSourceReader):
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
class PlannedScan:
    """A planned scan: its reader, the schema of its rows, how many bytes of how many segments, and where they end.

    `output` is what tasks make: the rows, with COUNTS_COLUMN behind them if tasks count anything.
    """

    reader: DataSourceReader
    schema: StructType
    output: StructType
    bytes: int
    segments: int
    tail: Mapping[int, int]
    newest: int = 0
    """The newest version that was known, where versions count."""
    whole: bool = True
    """False if only what EXPLAIN shows was planned, and `reader` reads nothing."""
    search: DataSourceReader | None = None
    """What is to be read before the whole scan can be planned, see `changes/truncation_search.py`."""
    affinities: Sequence[int] = ()
    """For each partition, if given, a number: the same executor should read those of the same number."""
    keyed: tuple[int, int] | None = None
    """How many segments can have the routing keys that conditions name, of how many; None if that was not told."""
    rows: PlannedRows | None = None
    """The files of the rows that are known, in a stream of their changes."""
    head: Head | None = None
    """The head row of the commit log, all of whose versions are in the scan, if every event of the stream is a row."""
    known: int | None = None
    """How many rows there are, where that was found without reading them, and only it is asked for."""

    @classmethod
    def of(
        cls,
        reader: DataSourceReader,
        schema: StructType,
        output: StructType,
        slices: Sequence[SegmentSlice],
        affinities: Sequence[int] = (),
    ) -> PlannedScan:
        """Put the reader of these slices together with what they tell."""
        return cls(
            reader,
            schema,
            output,
            sum(piece.end - piece.start for piece in slices),
            len(slices),
            {piece.segment_id: piece.end for piece in slices},
            affinities=affinities,
        )

    @classmethod
    def unfinished(
        cls, schema: StructType, slices: Sequence[SegmentSlice], search: DataSourceReader | None
    ) -> PlannedScan:
        """Tell what is known of a scan that is to be planned again."""
        return replace(cls.of(_Nothing(), schema, schema, slices), whole=False, search=search)


@dataclass(frozen=True)
class EarlierScan:
    """The end of an earlier scan of the same changes, and the newest version that it knew."""

    tail: Mapping[int, int]
    newest: int
