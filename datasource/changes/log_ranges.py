"""Finds the versions of the commit log for changes without positions, and whether a range of them can be read.

Only events tell whether a table has such changes. So tasks raise what is wrong with a range when they meet one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pyspark_pravega.client.stream import get_segment_epoch
from pyspark_pravega.errors import DataLossError, InvalidOptionError, PermissionDeniedError, PravegaError
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import COMPACT
from ..lake.open_lake import BELIEVED_SECONDS, open_lake
from ..positions.snapshot import SegmentSlice
from ..scan.event_planning import measure_slices
from ..scan.segment_versions import find_segment_versions
from ..stream_source.tiered_segments import find_head
from ..tables.change_range import LAST, VERSION, Bounds
from ..tables.open_table import OpenRead
from .appended import find_version_range
from .rows.log_versions import LogVersions


def number_changes(
    read: OpenRead, slices: Sequence[SegmentSlice], first: int = 1, last: int | None = None, *, begins: bool = True
) -> LogVersions | None:
    """Return the versions of events from the first version on, measured before; None if the log has no versions.

    `begins`: the scan begins where the range does. If it has no events, what is wrong with the range is raised here.
    """
    log, changes = CommitLog(read.pravega, read.stream), read.table.changes_range
    bounds = changes.bounds()
    try:
        versions = log.versions(first, last)
    except PermissionDeniedError as error:
        return LogVersions({}, refusal=error)  # changes with positions have no need of it
    if not versions and first == 1:
        return None
    refusal = _find_refusal(read, log, bounds) if begins and changes.start is not None else None
    if refusal is not None and not slices:
        raise refusal
    segments = {piece.segment_id: asdict(find_segment_versions(piece, versions, first)) for piece in slices}
    # Without a start, the rows that are left come first, even if they are repeated ones.
    repeated = [version.number for version in versions if version.operation == COMPACT and changes.start is not None]
    compares = changes.net or (bounds.unit == VERSION and (bounds.low > 1 or bounds.high < LAST))
    return LogVersions(segments, tuple(repeated), refusal, compares)


def _find_refusal(read: OpenRead, log: CommitLog, bounds: Bounds) -> PravegaError | None:
    """Return the error if the start of a range does not exist, or events after it were removed."""
    try:
        first, _, versions = find_version_range(log, bounds)
        if first > 1:
            measure_slices(read, versions[0].cut, None, open_lake(read, oldest=BELIEVED_SECONDS))
            return None
    except (InvalidOptionError, DataLossError) as error:
        return error
    head = find_head(read, oldest=BELIEVED_SECONDS).positions
    if not read.options.get(o.FAIL_ON_DATA_LOSS) or not (any(head.values()) or any(map(get_segment_epoch, head))):
        return None
    return DataLossError(
        f"The first changes of stream {read.stream} were removed. SELECT has the rows that are left. Start from a "
        "later version or time, or set 'fail-on-data-loss' to false to read what is left."
    )
