"""Reads several streams in one query: an offset for each, limits over all of them, streams that come and go.

Each stream is read as if it were alone. A new stream enters at its head: the micro-batch of the first offset with it
reads nothing of it, so that a micro-batch that is repeated reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.segments.range_reader import Border
from pyspark_pravega.errors import CheckpointError, DataLossError, StreamNotFoundError

from ..positions.snapshot import SegmentSlice
from .admission import NO_LIMITS, Limits, admit
from .batch_planning import TOO_FEW_REST, BatchEnd, TableStream
from .event_time_drift import keep_in_step
from .frontier import Frontier, pause_between_looks
from .memory import QueryMemory
from .offset import FORMAT, SourceOffset, check_offset, describe_other_stream, is_of_earlier_stream, read_offset

_SEGMENTS_OF_A_LOOK = 8
"""How many segments more cost as much as looking at another stream."""
_FEW_STREAMS = 16
"""The most streams that are reported one by one."""
_SUMMED = ("bytesBehind", "estimatedEventsBehind", "lostBytes", "lostRanges")
T = TypeVar("T")
_Segment: TypeAlias = tuple[str, int]
"""The name of a stream, and the id of one of its segments."""


@dataclass(frozen=True)
class MergedOffset:
    """The end of a micro-batch of several streams: an offset of each, by its name, and the event `time` of them all."""

    offsets: Mapping[str, SourceOffset]
    time: int | None = None

    def to_json(self) -> str:
        """Return the text that Spark keeps."""
        streams = {name: json.loads(offset.to_json()) for name, offset in sorted(self.offsets.items())}
        time = {} if self.time is None else {"time": self.time}
        return json.dumps({"format": FORMAT, "streams": streams, **time})

    @classmethod
    def from_json(cls, text: str) -> MergedOffset:
        """Read what `to_json` wrote. Raises CheckpointError for anything else."""

        def read(value: dict[str, Any]) -> MergedOffset:
            offsets = {name: SourceOffset.from_json(json.dumps(one)) for name, one in value["streams"].items()}
            return cls(offsets, int(value["time"]) if "time" in value else None)

        return read_offset(text, "of several streams", read)


@dataclass(frozen=True)
class MemberStream:
    """One of the streams, and the memory of reading it."""

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
        whole = MergedOffset.from_json(text)
        offsets = whole.offsets
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
            if name in offsets and is_of_earlier_stream(offsets[name], member.stream.identity)
        }
        if made_again and self._strict:
            first = self._members[min(made_again)].stream
            reason = describe_other_stream(first.stream, str(offsets[min(made_again)].identity), str(first.identity))
            others = f" So it is with {', '.join(sorted(made_again)[1:])}." if len(made_again) > 1 else ""
            raise CheckpointError(
                f"{reason}{others} It then reads all streams again. Or set the read option 'fail-on-data-loss' to "
                "false to continue, with the new stream from its oldest event on."
            )
        # One that was recreated is a new stream, which enters at its head.
        positions = {name: offsets[name] for name in offsets if name in self._members and name not in made_again}
        for name, offset in positions.items():
            member = self._members[name].stream
            check_offset(offset, member.stream, member.identity, member.table.schema)
        return MergedOffset(positions, whole.time)

    def start(self) -> MergedOffset:
        """Return where a query without a checkpoint begins."""
        return MergedOffset(self._ask_each(self._members, lambda name, member: member.stream.start()))

    def last(self) -> MergedOffset:
        """Return where a query that reads all present events ends."""
        return MergedOffset(self._ask_each(self._members, lambda name, member: member.stream.last()))

    def end(
        self, since: MergedOffset, last: MergedOffset | None, limits: Limits, memory: QueryMemory
    ) -> BatchEnd[MergedOffset]:
        """Return where the next micro-batch ends: `since` itself if nothing is new, or not enough.

        Raises DataLossError for events that were removed before the query could read them.
        """
        lasts = None if last is None else last.offsets
        read = [name for name in since.offsets if lasts is None or name in lasts]
        frontiers = self._ask_each(
            read,
            lambda name, member: member.stream.frontier(since.offsets[name], None if lasts is None else lasts[name]),
        )
        begins = {
            (name, segment): at for name, frontier in frontiers.items() for segment, at in frontier.begins.items()
        }
        ends = {(name, segment): at for name, frontier in frontiers.items() for segment, at in frontier.ends.items()}
        due = begins != ends and (last is not None or memory.is_due(self._walk, begins, ends, limits))
        # Streams that are gone keep their offsets. Others may not move: then this is no longer where they began.
        reached = {
            name: replace(offset, begin=offset.begin if offset.is_first else None, marks=None)
            for name, offset in since.offsets.items()
            if name in frontiers or name not in read
        }
        if due:
            memory.begin(Frontier({}, {}))
            positions = admit(self._walk, begins, ends | self._find_ends_in_step(frontiers, limits), limits)
            for name, frontier in frontiers.items():
                self._members[name].memory.begin(frontier)
                if frontier.bytes:
                    mine = {segment: positions[name, segment] for segment in frontier.begins}
                    reached[name] = self._members[name].stream.reached(
                        since.offsets[name], mine, None if lasts is None else lasts[name]
                    )
        new = [name for name in self._members if name not in since.offsets and (lasts is None or name in lasts)]
        if not due and not new:
            if begins != ends:  # there are rows, but fewer than the query wants at once
                cancellation.sleep(TOO_FEW_REST)
            else:
                pause_between_looks(len(begins) + _SEGMENTS_OF_A_LOOK * len(self._members))
        # Streams that were dropped since they were found are left out: the query has not read them.
        reached |= self._ask_each(new, lambda name, member: member.stream.head())
        latest = {name: self._members[name].stream.offset(frontier.tails) for name, frontier in frontiers.items()}
        metrics = self._sum_progress(reached if due else {}, frontiers)
        return BatchEnd(MergedOffset(reached) if due or new else since, MergedOffset({**reached, **latest}), metrics)

    def slices(self, since: MergedOffset, until: MergedOffset) -> dict[str, list[SegmentSlice]]:
        """Return what a micro-batch reads of which streams. Raises DataLossError for removed events."""
        # A first micro-batch that is repeated may get another start, but its end says where it began.
        first = {name: offset for name, offset in until.offsets.items() if offset.begin is not None}
        begun = {**first, **since.offsets}
        names = [name for name in until.offsets if name in begun]
        return self._ask_each(names, lambda name, member: member.stream.slices(begun[name], until.offsets[name]))

    def _walk(self, segment: _Segment, start: int, end: int, most_bytes: int | None, most_events: int | None) -> Border:
        name, segment_id = segment
        return self._members[name].stream.walk(segment_id, start, end, most_bytes, most_events)

    def _find_ends_in_step(self, frontiers: Mapping[str, Frontier], limits: Limits) -> dict[_Segment, int]:
        """Return the ends of segments that the drift in event time bounds."""
        drift = self._drift
        if drift is None or limits == NO_LIMITS:  # the trigger `once` takes everything
            return {}
        looks = self._ask_each(
            frontiers, lambda name, member: member.stream.measure_time_ahead(frontiers[name], member.memory.pace)
        )
        common_ends = keep_in_step(looks, drift)
        return {(name, segment): end for name, ends in common_ends.items() for segment, end in ends.items()}

    def _ask_each(self, names: Iterable[str], ask: Callable[[str, MemberStream], T | None]) -> dict[str, T]:
        """Return what `ask` returns for each stream, unless it is None. Streams are asked at the same time.

        A stream that is gone is left out if the query may continue without it.
        """

        def ask_unless_gone(name: str) -> T | None:
            try:
                return ask(name, self._members[name])
            except StreamNotFoundError:
                if self._strict:
                    raise
                return None

        answers = zip(names, cancellation.map_side_by_side(ask_unless_gone, names), strict=True)
        return {name: answer for name, answer in answers if answer is not None}

    def _sum_progress(
        self, reached: Mapping[str, SourceOffset], frontiers: Mapping[str, Frontier]
    ) -> Mapping[str, str]:
        """Return the sums of the streams' metrics, but the seconds of the stream that is furthest behind."""

        def measure(name: str, member: MemberStream) -> Mapping[str, str]:
            frontier = frontiers[name]
            positions = reached[name].cut.positions if name in reached and frontier.bytes else frontier.begins
            return member.stream.measure_progress(positions, frontier.tails, member.memory)

        metrics = dict.fromkeys(_SUMMED[:2], "0")
        seconds: list[float] = []
        for name, progress in self._ask_each(frontiers, measure).items():
            for key in _SUMMED:
                if key in progress:
                    metrics[key] = str(int(metrics.get(key, "0")) + int(progress[key]))
            if len(frontiers) <= _FEW_STREAMS:
                metrics[f"bytesBehind.{name}"] = progress["bytesBehind"]
            seconds += [float(progress["secondsBehind"])] if "secondsBehind" in progress else []
        if seconds:
            metrics["secondsBehind"] = f"{max(seconds):.1f}"
        return metrics
