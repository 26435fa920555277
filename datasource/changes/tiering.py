"""Moves events of a stream into its lake: tasks write files, and one commit adds them together with the new history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import get_segment_epoch
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.spark_types import make_nullable

from ..commit_log.commit_log import CommitLog
from ..lake.file_writer import FILES, FileWriter, NewFiles, make_rows, read_rows
from ..lake.iceberg import LakeTable
from ..lake.lake_columns import ENCODING, ERROR, OFFSET, RAW, SEGMENT, convert_batch, make_lake_schema
from ..positions.identity import identify
from ..positions.lake_history import History
from ..positions.points_in_time import Point
from ..positions.snapshot import SegmentSlice, find_end_within
from ..scan.event_planning import EventSelection, Measured, measure_slices, plan_events
from ..scan.planned_scan import PlannedReader, RowSource
from ..scan.reader import ScanPartition, SegmentScanReader, list_slices
from ..scan.scan_request import WantedRows
from ..scan.segment_versions import map_published_versions
from ..tables.bad_events import PERMISSIVE, BadEventRule
from ..tables.hidden_columns import HIDDEN_COLUMNS, VERSION_COLUMNS
from ..tables.open_table import OpenRead, OpenTable


@dataclass(frozen=True)
class Tiering:
    """A tiering that tasks carry out: what the lake had before it, and what it has after it, without new rows."""

    since: History | None
    until: History

    def to_json(self) -> str:
        since = None if self.since is None else self.since.to_json()
        return json.dumps({"since": since, "until": self.until.to_json()})

    @classmethod
    def from_json(cls, text: str) -> Tiering:
        value = json.loads(text)
        since = None if value["since"] is None else History.from_json(value["since"])
        return cls(since, History.from_json(value["until"]))


@dataclass(frozen=True)
class TierPlan:
    """What tasks share: the reader of the events, and the files that they write."""

    reader: SegmentScanReader
    target: NewFiles


class TierReader(PlannedReader[TierPlan, ScanPartition]):
    """Writes the events of each task into files, at least one for each partition of the lake; its rows name these."""

    def batches(self, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        """Write one partition. A task that is tried again writes other files, and those of the first are orphans."""
        target, written = self.plan.target, list[str]()
        whole = is_change_format(self.plan.reader.plan.table.format)  # folds read changes as the stream has them
        for piece in list_slices(partition):
            with FileWriter(target, written) as files:
                for batch in self.plan.reader.batches(piece):
                    files.write(convert_batch(batch, target.schema, whole=whole))
        yield make_rows(written)


def plan_tiering(
    opened: OpenTable, lake: LakeTable, until: Point, least_bytes: int = 0
) -> tuple[Tiering, RowSource] | None:
    """Fix which events a tiering moves: those behind the lake's history, up to a version or the end.

    Returns None if there are none, or fewer bytes of them than the least.

    Raises DataLossError if events behind the lake's history were removed before, and the errors of a scan.
    """
    pravega, stream, table = opened.pravega, opened.stream, opened.table
    log, since = CommitLog(pravega, stream), lake.history
    if since is not None and until.version is not None and until.version <= since.version:
        return None
    begin = pravega.controller.head(stream) if since is None else since.cut
    slices = measure_slices(opened, begin, until.cut)
    if not slices or sum(piece.end - piece.start for piece in slices) < least_bytes:
        return None
    first = 1 if since is None else since.version + 1
    versions = [version for version in log.versions(first, until.version) if lies_within(version.cut, until.cut)]
    schema = make_lake_schema(table.schema)
    hidden = [HIDDEN_COLUMNS[name][0] for name in (SEGMENT, OFFSET, RAW, ERROR, ENCODING)]
    columns = StructType([*make_nullable(table.schema), *hidden, *(field for field, _ in VERSION_COLUMNS.values())])
    read = OpenRead(pravega, table, opened.options, BadEventRule(PERMISSIVE))
    selection = EventSelection(versions=map_published_versions(stream, slices, versions, first))
    planned = plan_events(read, Measured(slices), WantedRows(columns), selection)
    assert isinstance(planned.reader, SegmentScanReader)
    plan = TierPlan(planned.reader, NewFiles(schema, lake.io, lake.folder, lake.unit))
    before = since or History(begin, begin, 0, {}, frozenset(), 0, identify(pravega, stream))
    newest = max((version.number for version in versions), default=before.version)
    history = _extend(opened, replace(before, version=newest), until.cut, slices)
    return Tiering(since, history), RowSource(TierReader(plan, planned.reader.planned), FILES, FILES)


def lies_within(cut: StreamCut, until: StreamCut) -> bool:
    """Return whether a cut lies before the cut of a tail, or at it."""
    newest = max(map(get_segment_epoch, until.positions), default=-1)
    return all(
        offset <= find_end_within(segment, until)
        and (segment in until.positions or get_segment_epoch(segment) <= newest)
        for segment, offset in cut.positions.items()
    )


def _extend(opened: OpenTable, before: History, until: StreamCut, slices: Sequence[SegmentSlice]) -> History:
    """Return a history with more slices, up to a cut. Raises DataLossError if there is a gap."""
    stream, ranges = opened.stream, dict(before.ranges)
    for piece in slices:
        first, end = ranges.get(piece.segment_id, (piece.start, piece.start))
        if end != piece.start:
            raise DataLossError(
                f"The lake has segment {piece.segment_id} of stream {stream} up to byte {end}, but the stream begins "
                f"at byte {piece.start}: what lies between was removed before it was tiered. Reads with "
                "'fail-on-data-loss'='false' have what is left in both. Make another table for what follows."
            )
        ranges[piece.segment_id] = first, piece.end
    segments, _ = opened.pravega.controller.list_segments_between(before.begin, until)
    return replace(before, cut=until, ranges=ranges, ended=frozenset(segments) - until.positions.keys())


def finish_tiering(lake: LakeTable, tiering: Tiering, files: Sequence[str]) -> int:
    """Commit the files that the tasks of a tiering have written; return the number of their rows.

    Raises ConcurrentChangeError if another tiering was faster, and LakeError.
    """
    paths, count = read_rows(files)
    before = 0 if tiering.since is None else tiering.since.rows
    lake.add_files(paths, tiering.since, replace(tiering.until, rows=before + count))
    return count
