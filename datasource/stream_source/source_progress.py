"""Measures the progress of a streaming query: how far it is behind its stream, for Spark's report of a micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import PermissionDeniedError

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from .admission import Walk
from .frontier import SegmentOffsets, StreamSegments
from .memory import QueryMemory

_FEW_SEGMENTS = 16
"""The most segments that are reported one by one."""
_SAMPLE = 64 * 1024
"""Bytes of events that the number of events behind is estimated from."""


class Progress:
    """Measures how far positions are behind the end of a stream."""

    def __init__(self, pravega: Pravega, segments: StreamSegments, log: CommitLog, walk: Walk[int]) -> None:
        self._pravega = pravega
        self._segments = segments
        self._log = log
        self._walk = walk

    def measure(self, reached: SegmentOffsets, tail: SegmentOffsets, memory: QueryMemory) -> Mapping[str, str]:
        """Return the metrics that Spark reports of a query; `tail` are the ends of the segments that it has `reached`.

        A query at the tail costs nothing. Bytes are those that the stream has now; the number of events is estimated
        from the size of the next ones. Seconds are those since the publication of the oldest version that is not
        completely read; they are left out if there are no versions.
        """
        behind, later = self._measure_bytes_behind(reached, tail)
        total = sum(behind.values())
        metrics = {"bytesBehind": str(total)}
        if len(behind) <= _FEW_SEGMENTS:
            stream = self._segments.stream
            for segment, size in sorted(behind.items()):
                metrics[f"bytesBehind.{make_segment_name(stream, segment).removeprefix(f'{stream}/')}"] = str(size)
        if total == 0:
            metrics["estimatedEventsBehind"] = metrics["secondsBehind"] = "0"
        else:
            metrics["estimatedEventsBehind"] = str(_estimate_events(self._walk, behind, reached))
            if (seconds := self._measure_seconds_behind(reached, later, memory)) is not None:
                metrics["secondsBehind"] = f"{seconds:.1f}"
        if memory.lost_ranges:
            metrics["lostBytes"] = str(memory.lost_bytes)
            metrics["lostRanges"] = str(memory.lost_ranges)
        return metrics

    def _measure_bytes_behind(
        self, reached: SegmentOffsets, tail: SegmentOffsets
    ) -> tuple[dict[int, int], Collection[int]]:
        """Return the unread bytes of each segment, and the segments that follow those in `reached`."""
        if reached.keys() <= tail.keys() and all(
            self._segments.find_sealed_end(segment) is None for segment in reached
        ):
            return {segment: tail[segment] - offset for segment, offset in reached.items()}, ()
        cut = StreamCut(self._segments.stream, dict(reached))
        later, _ = self._pravega.controller.list_segments_between(cut, None)
        infos = self._segments.infos({*reached, *later})
        behind = {
            segment: max(info.write_offset - max(reached.get(segment, 0), info.start_offset), 0)
            for segment, info in infos.items()
        }
        return behind, set(later) - reached.keys()

    def _measure_seconds_behind(
        self, reached: SegmentOffsets, later: Collection[int], memory: QueryMemory
    ) -> float | None:
        def is_read(version: Version) -> bool:
            # A segment that is neither reached nor later has been read completely.
            return all(
                segment not in later and offset <= reached.get(segment, offset)
                for segment, offset in version.cut.positions.items()
            )

        try:
            unread = self._find_first_unread(is_read, memory.unread_version)
        except PermissionDeniedError:
            return None
        if unread is None:
            return None
        memory.unread_version = unread.number
        return max(time.time() - unread.timestamp / 1_000_000, 0.0)

    def _find_first_unread(self, is_read: Callable[[Version], bool], first: int) -> Version | None:
        """Return the first version that is not completely read, searching from `first` in steps that double."""
        low, step = first, 1
        while (version := self._log.version(low + step - 1)) is not None and is_read(version):
            low, step = low + step, step * 2
        candidates = self._log.versions(low, low + step - 1)
        return next((version for version in candidates if not is_read(version)), None)


def _estimate_events(walk: Walk[int], behind: Mapping[int, int], reached: SegmentOffsets) -> int:
    largest = max(behind, key=lambda segment: behind[segment])
    start = reached.get(largest, 0)
    sample = walk(largest, start, start + behind[largest], _SAMPLE, None)
    if not sample.events:  # the next event is larger than the sample
        return max(sum(behind.values()) // max(behind[largest], 1), 1)
    return max(round(sum(behind.values()) * sample.events / (sample.offset - start)), 1)
