"""Finds the versions of the commit log that the events of segments belong to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark_pravega.client.stream import Stream, make_segment_name

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from ..positions.snapshot import SegmentSlice, find_end_within


@dataclass(frozen=True)
class SegmentVersions:
    """The versions that the events of one segment belong to.

    Those before `ends[i]` (and not before `ends[i - 1]`) belong to version `numbers[i]` (-1 if it does not count yet),
    which was published at `times[i]` (microseconds since 1970, -1 if not yet). The last end is that of the slice.
    """

    ends: tuple[int, ...]
    numbers: tuple[int, ...]
    times: tuple[int, ...]


def find_versions_after_starts(log: CommitLog, slices: Sequence[SegmentSlice]) -> list[Version]:
    """Return the versions of a log that end behind the start of a slice; most often, these are the newest ones."""
    versions: list[Version] = []
    first, step = log.newest() + 1, 1
    while first > 1:
        first, last = max(1, first - step), first - 1
        versions = log.versions(first, last) + versions
        if versions and all(find_end_within(piece.segment_id, versions[0].cut) <= piece.start for piece in slices):
            break
        step *= 4
    return versions


def find_first_unread(
    log: CommitLog, reached: Mapping[int, int], later: Collection[int], first: int = 1
) -> Version | None:
    """Return the first version that does not lie completely before some positions; None if all do.

    `later` are segments that follow those with positions. The versions before `first` lie before the positions.
    """

    def is_unread(number: int) -> bool:
        ends = None if (version := log.version(number)) is None else version.cut.positions
        # A segment that is neither reached nor later has been read completely.
        return ends is None or any(one in later or end > reached.get(one, end) for one, end in ends.items())

    step = 1
    while not is_unread(first + step - 1):
        first, step = first + step, step * 4
    return log.version(first + bisect_left(range(first, first + step - 1), True, key=is_unread))


def map_segment_versions(
    stream: Stream, slices: Iterable[SegmentSlice], versions: Sequence[Version], first: int
) -> dict[str, SegmentVersions]:
    """Return the versions of the events in slices, by segment. `versions` are those from the first on."""
    whole: dict[int, SegmentSlice] = {}
    for piece in slices:  # two of a segment, if what lies between them was removed before its lake had it
        before = whole.setdefault(piece.segment_id, piece)
        whole[piece.segment_id] = replace(before, start=min(before.start, piece.start), end=max(before.end, piece.end))
    return {
        make_segment_name(stream, segment): find_segment_versions(piece, versions, first)
        for segment, piece in whole.items()
    }


def map_published_versions(
    stream: Stream, slices: Iterable[SegmentSlice], versions: Sequence[Version], first: int = 1
) -> dict[str, SegmentVersions]:
    """Return the same with -1 in place of the version that is not published yet."""

    def hide(segment: SegmentVersions) -> SegmentVersions:
        pairs = zip(segment.numbers, segment.times, strict=True)
        return replace(segment, numbers=tuple(-1 if time < 0 else number for number, time in pairs))

    return {name: hide(segment) for name, segment in map_segment_versions(stream, slices, versions, first).items()}


def find_segment_versions(piece: SegmentSlice, versions: Iterable[Version], first: int) -> SegmentVersions:
    """Return the versions of the events in a slice; events after the newest version belong to the next one."""
    ends, numbers, times = [], [], []
    reached, newest = piece.start, first - 1
    for version in versions:
        newest = max(newest, version.number)
        end = min(find_end_within(piece.segment_id, version.cut), piece.end)
        if end > reached and version.number >= first:
            ends.append(end)
            numbers.append(version.number)
            times.append(version.timestamp)
            reached = end
    if reached < piece.end:
        ends.append(piece.end)
        numbers.append(newest + 1)
        times.append(-1)
    return SegmentVersions(tuple(ends), tuple(numbers), tuple(times))
