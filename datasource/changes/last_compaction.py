"""Knows where a table of changes was compacted last, by a row of its commit log, and begins scans of its rows there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark_pravega.client.key_value.key_value_table import Entry
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import PermissionDeniedError
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import compute_row_number, encode_row
from ..positions.snapshot import SegmentSlice, drop_empty, find_end_within
from ..tables.open_table import OpenRead

LOG = logging.getLogger(__name__)
ROW_NUMBER = compute_row_number("compaction")


@dataclass(frozen=True)
class LastCompaction:
    """The cut of the last compaction, and the `end` of the stream after it.

    All current rows result from the changes between the two, so that those before the cut need not be read.
    """

    cut: StreamCut
    end: StreamCut

    @classmethod
    def find_in(cls, stored: Entry | None, origin: int) -> LastCompaction | None:
        """Read it from its row, if there is one; one about an older stream of the name does not count."""
        row = {} if stored is None else json.loads(stored.value)
        if row.get("origin") != origin:
            return None
        return cls(StreamCut.from_text(row["cut"]), StreamCut.from_text(row["end"]))

    def make_row(self, _stored: Entry | None, origin: int) -> bytes:
        return encode_row({"cut": self.cut.to_text(), "end": self.end.to_text(), "origin": origin})


def begin_at_last_compaction(
    read: OpenRead, slices: Sequence[SegmentSlice], ends: Mapping[int, int]
) -> Sequence[SegmentSlice]:
    """Leave out what lies before the last compaction of a table that is compacted by itself.

    The next compaction removes that, perhaps before a query has read it. `ends` are those of the segments that were
    measured: a scan that ended before the compaction did reads all that there is.
    """
    if o.COMPACT_AFTER.key not in read.table.settings:
        return slices
    try:
        last = CommitLog(read.pravega, read.stream).read_companion(ROW_NUMBER, LastCompaction.find_in)
    except PermissionDeniedError as error:
        LOG.debug("Where stream %s was compacted last is not known: %s", read.stream, error)
        return slices
    if last is None or any(ends.get(segment, 0) < end for segment, end in last.end.positions.items()):
        return slices
    starts = [max(piece.start, find_end_within(piece.segment_id, last.cut)) for piece in slices]
    pairs = zip(slices, starts, strict=True)
    return drop_empty(replace(piece, start=min(start, piece.end)) for piece, start in pairs)
