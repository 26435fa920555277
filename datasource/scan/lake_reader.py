"""Reads the events of a slice that a lake has: the rows of its files, in the order of the events."""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.errors import LakeError, PravegaError, format_count

from ..lake.iceberg import FileIO, LakeTable
from ..lake.lake_columns import ENCODING, ERROR, LENGTH, OF_PLACE, OFFSET, RAW, SEGMENT
from ..lake.lake_files import LakeFile
from ..positions.snapshot import SegmentSlice
from ..tables.stream_table import StreamTable
from .conditions import Condition
from .counts import Counts
from .event_plan import EventScanPlan
from .lake_conditions import translate_conditions
from .slice_decoder import SliceDecoder

BATCH_ROWS = 65_536


@dataclass
class LakePartition(InputPartition):
    """A slice of a segment whose events a lake has, the files with them, and what reads these.

    `is_whole`: all events of the slice are read, so that their bytes are those of the slice.
    """

    read: SegmentSlice
    files: tuple[LakeFile, ...]
    in_order: bool
    io: FileIO = field(repr=False)
    wanted: WantedInLake | None = None
    is_whole: bool = False

    @property
    def needs_sorting(self) -> bool:
        """Return whether rows must come in order, and another program has rewritten files: events in any order."""
        return self.in_order and not all(file.ordered for file in self.files)


@dataclass(frozen=True)
class WantedInLake:
    """An expression on some columns of a lake. Rows that do not fulfil it may be left out."""

    expression: pc.Expression
    columns: frozenset[str]


def split_slices(lake: LakeTable, slices: Sequence[SegmentSlice]) -> tuple[list[SegmentSlice], list[SegmentSlice]]:
    """Return what a lake has of slices, and what is left of these for the segment stores."""
    tiered, left = [], []
    for piece in slices:
        border = min(lake.find_end(piece.segment_id, piece.start), piece.end)
        if border > piece.start:
            tiered.append(replace(piece, end=border))
        if border < piece.end or piece.start == piece.end:
            left.append(replace(piece, start=border))
    return tiered, left


def plan_lake(
    lake: LakeTable,
    table: StreamTable,
    slices: Sequence[SegmentSlice],
    conditions: Sequence[Condition],
    *,
    in_order: bool,
) -> list[LakePartition]:
    """Return partitions for slices that a lake has: for each, one with all its files if rows must come in order.

    Otherwise each file has one. Rows that do not fulfil the conditions may be left out. Raises LakeError.
    """
    if not slices:
        return []
    columns = StructType([column for column in table.schema if column.name in lake.columns])
    expression = translate_conditions(conditions, columns) if conditions else None
    names = frozenset(name for condition in conditions for name in condition.columns) & set(columns.names)
    wanted = None if expression is None else WantedInLake(lake.compile(expression), names | {ERROR})
    io, partitions = lake.io, []
    for piece, files in zip(slices, lake.find_files(table.stream, slices, expression), strict=True):
        if not files:
            continue
        parts: list[tuple[SegmentSlice, tuple[LakeFile, ...]]]
        is_ordered = all(file.ordered for file in files)
        if in_order:
            parts = [(piece, tuple(files))]
        elif is_ordered:
            borders = pairwise([piece.start, *(file.first for file in files[1:]), piece.end])
            parts = [
                (SegmentSlice(piece.segment_id, *ends), (file,)) for file, ends in zip(files, borders, strict=True)
            ]
        else:
            parts = [(piece, (file,)) for file in files]
        is_whole = wanted is None and (in_order or is_ordered)
        partitions += [LakePartition(part, chosen, in_order, io, wanted, is_whole) for part, chosen in parts]
    return partitions


def describe_files(lake: LakeTable | None, partitions: Iterable[LakePartition]) -> dict[str, str]:
    """Return what EXPLAIN says of the files that a scan reads; nothing for a table without a lake."""
    if lake is None:
        return {}
    return {"lake": f"{format_count(sum(len(one.files) for one in partitions), 'file')} of {lake.name}"}


def read_lake(
    plan: EventScanPlan, decoder: SliceDecoder, partition: LakePartition
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a slice, as many as the decoder has `left`. Raises LakeError, MalformedEventError."""
    segment = make_segment_name(plan.table.stream, partition.read.segment_id)
    names = [name for name in plan.schema.names if name in plan.columns.names]
    complete = list(dict.fromkeys([*names, LENGTH, ERROR, RAW, OFFSET, ENCODING]))
    is_whole = partition.is_whole and decoder.left is None and not plan.few
    needs_all = partition.needs_sorting or decoder.needs_places
    columns = complete if needs_all else [*names, ERROR, *([LENGTH] if plan.counted and not is_whole else [])]
    begun = False
    with errors_of_files(plan.table.stream):
        for events in read_in_order(partition, segment, columns):
            if events.column(ERROR).null_count < len(events) and OFFSET not in columns and decoder.fails_on_bad_events:
                # This event ends the query, by an error that says where it is.
                for again in read_in_order(partition, segment, complete):
                    decoder.convert(again, names)
            if plan.counted and not (begun and is_whole):
                size = partition.read.end - partition.read.start
                if not is_whole:
                    size = pc.sum(events.column(LENGTH)).as_py() + HEADER_BYTES * len(events)
                yield decoder.report(Counts(slices=0 if begun else 1, bytes=size))
            begun = True
            yield from decoder.convert(events, names)
            if decoder.left == 0:
                break


def read_offsets(lake: LakeTable, stream: Stream, piece: SegmentSlice) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the offsets of the events that a lake has of a slice, in their order. Raises LakeError."""
    [files] = lake.find_files(stream, [piece])
    partition = LakePartition(piece, tuple(files), True, lake.io)
    with errors_of_files(stream):
        for batch in read_in_order(partition, make_segment_name(stream, piece.segment_id), [OFFSET]):
            yield batch.column(OFFSET).to_numpy()


def read_in_order(partition: LakePartition, segment: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files that lie in a slice, with offsets that grow if rows must come in order."""
    read = (_read_file(partition, file, segment, columns) for file in partition.files)
    if not partition.needs_sorting:
        yield from chain.from_iterable(read)
    elif batches := list(chain.from_iterable(read)):
        # A file may lack columns that were added later, or have smaller numbers than others.
        rows = pa.concat_tables(map(pa.Table.from_batches, zip(batches)), promote_options="permissive")
        yield from rows.sort_by(OFFSET).to_batches(max_chunksize=BATCH_ROWS)


def _read_file(
    partition: LakePartition, file: LakeFile, segment: str, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds  # workers without a lake need not load it

    piece, conditions = partition.read, []
    if not file.ordered:
        conditions.append(pc.field(SEGMENT) == segment)
    if not file.ordered or file.first < piece.start:
        conditions.append(pc.field(OFFSET) >= piece.start)
    if not file.ordered or file.last >= piece.end:
        conditions.append(pc.field(OFFSET) < piece.end)
    with partition.io.new_input(file.path).open() as opened:
        fragment = ds.ParquetFileFormat().make_fragment(opened)
        physical = fragment.physical_schema
        present = set(physical.names) - file.empty
        if partition.wanted is not None and partition.wanted.columns <= set(physical.names):
            conditions.append(partition.wanted.expression)
        scanner = ds.Scanner.from_fragment(
            fragment,
            schema=physical,
            columns=[name for name in columns if name in present],
            filter=reduce(operator.and_, conditions) if conditions else None,
            batch_size=BATCH_ROWS,
        )
        for batch in scanner.to_batches():
            if len(batch):
                yield _add_missing(batch, columns)


def _add_missing(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Add the columns that a file lacks, because it was written before the table had them, or has no values of."""
    if batch.schema.names == list(columns):
        return batch
    arrays = [
        batch.column(name)
        if name in batch.schema.names
        else pa.nulls(len(batch), OF_PLACE[name][0] if name in OF_PLACE else pa.null())
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def errors_of_files(source: Stream | str) -> Iterator[None]:
    """Make a LakeError of what goes wrong with files of a stream, or of a segment."""
    try:
        yield
    except PravegaError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise LakeError(
            f"A file of the lake of {source} cannot be read: {error}. If it was removed after this query began, "
            "run the query again."
        ) from error
