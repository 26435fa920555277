"""Describes a planned scan: the reader of its partitions, and what there is to tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from .snapshot import SegmentSlice


@dataclass(frozen=True)
class PlannedScan:
    """A planned scan: its reader, the schema of its rows, how many bytes of how many segments, and where they end.

    `output` is what tasks make: the rows, with BAD_EVENTS_COLUMN behind them if bad events are counted.
    """

    reader: DataSourceReader
    schema: StructType
    output: StructType
    bytes: int
    segments: int
    tail: Mapping[int, int]
    newest: int = 0
    """The newest version that was known, where versions count."""
    affinities: Sequence[int] = ()
    """For each partition, if given, a number: the same executor should read those of the same number."""

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


@dataclass(frozen=True)
class EarlierScan:
    """The end of an earlier scan of the same changes, and the newest version that it knew."""

    tail: Mapping[int, int]
    newest: int
