"""Compacts a lake: tasks write small files of a segment and day as larger ones, which a commit puts in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..lake.file_writer import FILE_BYTES, FILES, FileWriter, NewFiles, make_rows, read_rows
from ..lake.iceberg import LakeTable
from ..lake.lake_columns import make_lake_schema
from ..positions.snapshot import SegmentSlice
from ..scan.lake_reader import LakePartition, read_in_order
from ..scan.planned_scan import RowSource
from ..scan.reader import PlannedReader
from ..tables.open_table import OpenTable

_SMALL_BYTES = FILE_BYTES // 2


class CompactionReader(PlannedReader[NewFiles, LakePartition]):
    """Writes the files of each partition once more; its rows name the new ones."""

    def batches(self, partition: LakePartition) -> Iterator[pa.RecordBatch]:
        """Write one partition. A task that is tried again writes other files, and those of the first are orphans."""
        schema, written = self._plan.schema, list[str]()
        with FileWriter(self._plan, written) as files:
            for batch in read_in_order(partition, str(partition.files[0].segment), schema.names):
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                files.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        yield make_rows(written)


def plan_compaction(opened: OpenTable, lake: LakeTable) -> tuple[str, RowSource] | None:
    """Return the small files of a lake, and what writes their events into larger ones; None if there are none.

    Files that other programs have written stay as they are. Raises LakeError.
    """
    runs = lake.find_small_files(_SMALL_BYTES)
    partitions = [
        LakePartition(SegmentSlice(0, run[0].first, run[-1].last + 1), tuple(run), True, lake.io) for run in runs
    ]
    plan = NewFiles(make_lake_schema(opened.table.schema), lake.io, lake.folder)
    former = json.dumps([file.path for run in runs for file in run])
    return (former, RowSource(CompactionReader(plan, partitions), FILES, FILES)) if runs else None


def finish_compaction(lake: LakeTable, former: str, files: Sequence[str]) -> None:
    """Put the files that tasks have written in place of the former ones. Raises ConcurrentChangeError, LakeError."""
    paths, rows = read_rows(files)
    lake.replace_files(json.loads(former), paths, rows)
