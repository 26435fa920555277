"""Compacts a lake: tasks write small files as larger ones, which a commit puts in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..lake.file_writer import FILE_BYTES, FILES, FileWriter, NewFiles, make_rows, read_rows
from ..lake.iceberg import LakeTable
from ..lake.lake_files import LakeFile
from ..positions.snapshot import SegmentSlice
from ..scan.lake_reader import LakePartition, errors_of_files, read_in_order
from ..scan.planned_scan import PlannedReader, RowSource

_SMALL_BYTES = FILE_BYTES // 2


class CompactionReader(PlannedReader[NewFiles, LakePartition]):
    """Writes the files of each partition once more; its rows name the new ones."""

    def batches(self, partition: LakePartition) -> Iterator[pa.RecordBatch]:
        """Write one partition. A task that is tried again writes other files, and those of the first are orphans."""
        schema, written, segment = self.plan.schema, list[str](), str(partition.files[0].segment)
        with errors_of_files(segment), FileWriter(self.plan, written) as files:
            for batch in read_in_order(partition, segment, schema.names):
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                files.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        yield make_rows(written)


def plan_compaction(lake: LakeTable) -> tuple[RowSource, str] | None:
    """Return what writes the events of small files into larger ones, and the small files; None if there are none.

    Files that other programs have written stay as they are. Raises LakeError.
    """
    groups = [group for run in lake.find_small_files(_SMALL_BYTES) for group in _divide(run) if len(group) > 1]
    if not groups:
        return None
    partitions = [
        # The number of the segment does not matter: the files have its name.
        LakePartition(SegmentSlice(0, group[0].first, group[-1].last + 1), tuple(group), True, lake.io)
        for group in groups
    ]
    plan = NewFiles(lake.schema, lake.io, lake.folder, lake.unit)
    former = json.dumps([file.path for group in groups for file in group])
    return RowSource(CompactionReader(plan, partitions), FILES, FILES), former


def _divide(run: Sequence[LakeFile]) -> list[list[LakeFile]]:
    """Divide neighbours into groups with about the bytes of one file."""
    groups: list[list[LakeFile]] = []
    for file in run:
        if not groups or sum(one.bytes for one in groups[-1]) + file.bytes > FILE_BYTES:
            groups.append([])
        groups[-1].append(file)
    return groups


def finish_compaction(lake: LakeTable, former: str, files: Sequence[str]) -> None:
    """Put the files that tasks have written in place of the former ones. Raises ConcurrentChangeError, LakeError."""
    paths, rows = read_rows(files)
    lake.replace_files(json.loads(former), paths, rows)
