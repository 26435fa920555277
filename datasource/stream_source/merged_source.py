"""Reads several streams in one query: an offset for each, limits over all of them, streams that come and go.

Each stream is read as if it were alone. A new stream enters at its head: the micro-batch of the first offset with it
reads nothing of it, so that a micro-batch that is repeated reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.segments.range_reader import Border
from pyspark_pravega.errors import CheckpointError, DataLossError, StreamNotFoundError

from ..positions.snapshot import SegmentSlice
from .admission import NO_LIMITS, Limits, Walker, admit
from .batch_planning import TOO_FEW_REST, StreamedTable, TableStream
from .event_time_drift import keep_in_step
from .frontier import Frontier, pause_between_looks
from .memory import QueryMemory
from .offset import START_ANEW, SourceOffset, check_offset, describe_other_stream, is_of_earlier_stream

FORMAT = 1
"""The version of the JSON below, which contains that of `SourceOffset`."""
_SEGMENTS_OF_A_LOOK = 8
"""How many segments more cost as much as looking at another stream."""
_FEW_STREAMS = 16
"""The most streams that are reported one by one."""
_THREADS = 8
_SUMMED = ("bytesBehind", "estimatedEventsBehind", "lostBytes", "lostRanges")
T = TypeVar("T")
_Segment: TypeAlias = tuple[str, int]
"""The name of a stream, and the id of one of its segments."""


@dataclass(frozen=True)
class MergedOffset:
    """The end of a micro-batch of several streams: an offset of each, by its name."""

    offsets: Mapping[str, SourceOffset]

    def to_json(self) -> str:
        """Return the text that Spark keeps."""
        streams = {name: json.loads(offset.to_json()) for name, offset in sorted(self.offsets.items())}
        return json.dumps({"format": FORMAT, "streams": streams})

    @classmethod
    def from_json(cls, text: str) -> MergedOffset:
        """Read what `to_json` wrote. Raises CheckpointError for anything else."""
        try:
            value = json.loads(text)
            format, streams = value["format"], value["streams"]
            if format == FORMAT:
                return cls({name: SourceOffset.from_json(json.dumps(stream)) for name, stream in streams.items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"The checkpoint's offset {text} is not one of several streams ({type(error).__name__}: {error}). Does "
                f"the checkpoint belong to another query? {START_ANEW}"
            ) from None
        raise CheckpointError(
            f"The checkpoint's offset has format {format}, but this version of pyspark-pravega knows formats up to "
            f"{FORMAT}. Run the query with the version that wrote the checkpoint, or a newer one."
        )


@dataclass(frozen=True)
class MergedBatchEnd:
    """Where a micro-batch ends, where its segments end now, and how far the query will then be behind."""

    offset: MergedOffset
    latest: MergedOffset
    metrics: Mapping[str, str]


@dataclass(frozen=True)
class MemberStream:
    """One of the streams, and the memory of reading it."""

    read: StreamedTable
    stream: TableStream
    memory: QueryMemory


class MergedTableStream:
    """The streams that one query reads now, by name.

    `strict`: removed events end the query. `drift`: how far segments may be ahead of the slowest one in event time.
    """

    def __init__(self, members: Mapping[str, MemberStream], *, strict: bool, drift: timedelta | None = None) -> None:
        self._members = members
        self._strict = strict
        self._drift = drift

    def read_offset(self, text: str) -> MergedOffset:
        """Read an offset from the checkpoint. Raises CheckpointError for one that does not fit.

        Raises DataLossError for a missing stream, and CheckpointError for one that was dropped and recreated, unless
        it may be skipped.
        """
        offsets = MergedOffset.from_json(text).offsets
        gone = sorted(offsets.keys() - self._members.keys())
        if gone and self._strict:
            raise DataLossError(
                f"The query has read stream {', '.join(gone)} so far, which is missing now: it was dropped, or "
                "the options do not name it any more. Name it again, or set the read option 'fail-on-data-loss' to "
                "false to continue without it."
            )
        made_again = {
            name
            for name, member in self._members.items()
            if name in offsets and is_of_earlier_stream(offsets[name], member.read.identity)
        }
        if made_again and self._strict:
            first = self._members[min(made_again)].read
            reason = describe_other_stream(first.stream, str(offsets[min(made_again)].identity), str(first.identity))
            others = f" So it is with {', '.join(sorted(made_again)[1:])}." if len(made_again) > 1 else ""
            raise CheckpointError(
                f"{reason}{others} It then reads all streams again. Or set the read option 'fail-on-data-loss' to "
                "false to continue, with the new stream from its oldest event on."
            )
        # One that was recreated is a new stream, which enters at its head.
        positions = {name: offsets[name] for name in offsets if name in self._members and name not in made_again}
        for name, offset in positions.items():
            read = self._members[name].read
            check_offset(offset, read.stream, read.identity, read.table.schema)
        return MergedOffset(positions)

    def start(self) -> MergedOffset:
        """Return where a query without a checkpoint begins."""
        return MergedOffset(self._find_of_members(list(self._members), TableStream.start))

    def last(self) -> MergedOffset:
        """Return where a query that reads all present events ends."""
        return MergedOffset(self._find_of_members(list(self._members), TableStream.last))

    def end(
        self,
        since: MergedOffset,
        last: MergedOffset | None = None,
        limits: Limits = NO_LIMITS,
        memory: QueryMemory | None = None,
    ) -> MergedBatchEnd:
        """Return where the next micro-batch ends: `since` itself if nothing is new, or not enough.

        Raises DataLossError for events that were removed before the query could read them.
        """
        memory = QueryMemory() if memory is None else memory
        lasts = None if last is None else last.offsets
        read = [name for name in since.offsets if lasts is None or name in lasts]
        frontiers = self._find_of_each(read, lambda name: self._frontier(name, since, last))
        begins = {
            (name, segment): at for name, frontier in frontiers.items() for segment, at in frontier.begins.items()
        }
        ends = {(name, segment): at for name, frontier in frontiers.items() for segment, at in frontier.ends.items()}
        walker = _MergedWalker({name: self._members[name].stream.walker() for name in frontiers})
        due = begins != ends and (last is not None or memory.is_due(walker, _MergedBacklog(begins, ends), limits))
        # Streams that are gone keep their offsets. Others may not move: then this is no longer where they began.
        reached = {
            name: offset if offset.is_first else replace(offset, begin=None)
            for name, offset in since.offsets.items()
            if name in frontiers or name not in read
        }
        if due:
            memory.begin(Frontier({}, {}))
            positions = admit(walker, begins, ends | self._find_ends_in_step(frontiers, limits), limits)
            for name, frontier in frontiers.items():
                self._members[name].memory.begin(frontier)
                if frontier.bytes:
                    mine = {segment: positions[name, segment] for segment in frontier.begins}
                    reached[name] = self._members[name].stream.reached(
                        since.offsets[name], mine, None if lasts is None else lasts[name]
                    )
        new = [name for name in self._members if name not in since.offsets and (lasts is None or name in lasts)]
        if not due and not new:
            self._rest(begins, waits=begins != ends)
        # Streams that were dropped since they were found are left out: the query has not read them.
        reached |= self._find_of_members(new, TableStream.head)
        latest = {name: self._members[name].read.offset(frontier.tails) for name, frontier in frontiers.items()}
        metrics = self._sum_progress(reached if due else {}, frontiers)
        return MergedBatchEnd(
            MergedOffset(reached) if due or new else since, MergedOffset({**reached, **latest}), metrics
        )

    def slices(self, since: MergedOffset, until: MergedOffset) -> dict[str, list[SegmentSlice]]:
        """Return what a micro-batch reads of which streams. Raises DataLossError for removed events."""
        # A first micro-batch that is repeated may get another start, but its end says where it began.
        first = {name: offset for name, offset in until.offsets.items() if offset.begin is not None}
        begun = {**first, **since.offsets}
        names = [name for name in until.offsets if name in begun]
        return self._find_of_each(
            names,
            lambda name: self._use_unless_gone(
                lambda: self._members[name].stream.slices(begun[name], until.offsets[name])
            ),
        )

    def _rest(self, begins: Mapping[_Segment, int], *, waits: bool) -> None:
        """Pause before another look. `waits`: there are rows, but fewer than the query wants at once."""
        if waits:
            cancellation.sleep(TOO_FEW_REST)
        else:
            pause_between_looks(len(begins) + _SEGMENTS_OF_A_LOOK * len(self._members))

    def _frontier(self, name: str, since: MergedOffset, last: MergedOffset | None) -> Frontier | None:
        return self._use_unless_gone(
            lambda: self._members[name].stream.frontier(
                since.offsets[name], None if last is None else last.offsets[name]
            )
        )

    def _find_ends_in_step(self, frontiers: Mapping[str, Frontier], limits: Limits) -> dict[_Segment, int]:
        """Return the ends of segments that the drift in event time bounds."""
        drift = self._drift
        if drift is None or limits == NO_LIMITS:  # the trigger `once` takes everything
            return {}
        looks = self._find_of_each(
            list(frontiers),
            lambda name: self._members[name].stream.measure_time_ahead(
                frontiers[name], self._members[name].memory.pace
            ),
        )
        common_ends = keep_in_step(looks, drift)
        return {(name, segment): end for name, ends in common_ends.items() for segment, end in ends.items()}

    def _find_of_members(
        self, names: Sequence[str], find: Callable[[TableStream], SourceOffset]
    ) -> dict[str, SourceOffset]:
        return self._find_of_each(names, lambda name: self._use_unless_gone(lambda: find(self._members[name].stream)))

    def _use_unless_gone(self, use: Callable[[], T]) -> T | None:
        try:
            return use()
        except StreamNotFoundError:
            if self._strict:
                raise
            return None

    def _find_of_each(self, names: Sequence[str], find: Callable[[str], T | None]) -> dict[str, T]:
        """Return what `find` returns for each stream, unless it is None. Streams are handled at the same time."""
        with ThreadPoolExecutor(_THREADS) as threads:
            values = list(threads.map(cancellation.carry_over(find), names))
        return {name: one for name, one in zip(names, values, strict=True) if one is not None}

    def _sum_progress(
        self, reached: Mapping[str, SourceOffset], frontiers: Mapping[str, Frontier]
    ) -> Mapping[str, str]:
        """Return the sums of the streams' metrics, but the seconds of the stream that is furthest behind."""
        metrics = dict.fromkeys(_SUMMED[:2], "0")
        seconds: list[float] = []
        for name, frontier in frontiers.items():
            member = self._members[name]
            positions = reached[name].cut.positions if name in reached and frontier.bytes else frontier.begins
            progress = self._use_unless_gone(
                partial(member.stream.measure_progress, positions, frontier, member.memory)
            )
            if progress is None:
                continue
            for key in _SUMMED:
                if key in progress:
                    metrics[key] = str(int(metrics.get(key, "0")) + int(progress[key]))
            if len(frontiers) <= _FEW_STREAMS:
                metrics[f"bytesBehind.{name}"] = progress["bytesBehind"]
            seconds += [float(progress["secondsBehind"])] if "secondsBehind" in progress else []
        if seconds:
            metrics["secondsBehind"] = f"{max(seconds):.1f}"
        return metrics


@dataclass(frozen=True)
class _MergedBacklog:
    begins: Mapping[_Segment, int]
    ends: Mapping[_Segment, int]


class _MergedWalker:
    """Walks over the events of segments of several streams."""

    def __init__(self, walkers: Mapping[str, Walker]) -> None:
        self._walkers = walkers

    def walk(self, segment: _Segment, start: int, end: int, most_bytes: int | None, most_events: int | None) -> Border:
        name, segment_id = segment
        return self._walkers[name].walk(segment_id, start, end, most_bytes, most_events)


__all__ = ["MemberStream", "MergedOffset", "MergedTableStream"]
