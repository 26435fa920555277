"""Facts about streams from earlier calls, which the segment store confirms before they count.

A segment store answers in a fraction of the time that the controller takes. Its answers prove the facts, because:

- If a stream is dropped and created again under its name, the new one continues the old one's numbers of segments. So a
  segment that exists belongs to the stream for which it is known.
- A segment is sealed before others replace it. So segments that were current are all still current while none
  of them is sealed or gone. Earlier segments can only disappear.
- Whether segments cover the key space once never changes. So they make a position of the stream as long as they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from pyspark_pravega.errors import PermissionDeniedError, SegmentNotFoundError, StreamNotFoundError

from .. import cancellation
from ..controller.controller import Controller
from ..recent import Recent
from ..stream import SegmentRange, Stream, get_segment_epoch, get_segment_number
from ..stream_cut import StreamCut
from .store import SegmentInfo, SegmentStore

UNKNOWN_SECONDS = 1.0
"""Seconds for which an unknown time stays so: those of a planning, while the next offset of a query asks again."""

_MOST_EPOCHS = 256
_ENCODINGS = 4
KEPT = 1024
"""Encoding ids of a stream, and streams, that are kept: those noted or asked for last."""


@dataclass(frozen=True)
class KnownFacts:
    """What earlier calls have found out about a stream, or noted."""

    first: tuple[int, ...] = ()
    """The segments of epoch 0."""
    creation: tuple[int, int] | None = None
    """A segment, and when it was created."""
    unknown_until: float = 0.0
    """Until when nobody is asked again for that (`time.monotonic`)."""
    segments: tuple[int, ...] = ()
    current: tuple[int, ...] = ()
    """The segments from the head to the tail, and those of them that took appends; empty if they are not known."""
    registered: bool = False
    """Whether the registry has a schema of the stream: only a hint."""
    logged: bool = False
    """Whether a commit log mentions the stream: only a hint."""
    encodings: tuple[int, ...] = (0,)
    """Encoding ids that the events probably have, as a hint: the first of all, and the last ones noted."""
    cover: frozenset[int] = frozenset()
    """The segments of the last stream cut that was found to be valid."""
    ranges: Mapping[int, SegmentRange] = field(default_factory=dict)
    """By segment."""


class KnownStreams:
    """The known facts about the streams of one cluster. Thread-safe."""

    def __init__(self, store: SegmentStore, controller: Controller) -> None:
        self._store = store
        self._controller = controller
        self._known: Recent[Stream, KnownFacts] = Recent(KEPT)

    def origin(self, stream: Stream) -> int:
        """Return the number of a stream's first segment, which distinguishes it from later streams of its name.

        Raises StreamNotFoundError, and PermissionDeniedError for users without READ_UPDATE.
        """
        first = self.find(stream).first
        if not first or not self._store.segment_infos(stream, first[:1]):
            first = tuple(segment.segment_id for segment in self._controller.epoch_segments(stream, 0))
            facts = self.find(stream)
            self._known.put(stream, replace(facts, first=first) if facts.first in ((), first) else KnownFacts(first))
        return min(map(get_segment_number, first))

    def identify(self, stream: Stream) -> tuple[int | None, tuple[int, int] | None]:
        """Return the number of a stream's first segment, and one of its segments with the time of its creation.

        The former is None for users without READ_UPDATE, the latter if the store does not know. One request confirms
        what is known: another time is that of another cluster at the same address. Raises StreamNotFoundError, and
        PermissionDeniedError for users without READ.
        """
        facts = self.find(stream)
        if facts.creation is not None:
            segment, created = facts.creation
            time = self._find_creation_time(stream, segment)
            if time == created and facts.first:
                return min(map(get_segment_number, facts.first)), facts.creation
            if time != created:
                self._known.put(stream, replace(facts, creation=None) if time is None else KnownFacts())
        try:
            return self.origin(stream), self.creation(stream)
        except PermissionDeniedError:
            return None, self.creation(stream)

    def creation(self, stream: Stream) -> tuple[int, int] | None:
        """Return one of a stream's segments and when it was created, in milliseconds; None if the store does not know.

        It is asked for once; if it is unknown, again after UNKNOWN_SECONDS. Raises StreamNotFoundError,
        PermissionDeniedError.
        """
        facts = self.find(stream)
        if facts.creation is None and monotonic() >= facts.unknown_until:
            time = self._find_creation_time(stream, segment := min(facts.first)) if facts.first else None
            if time is None:  # the first segments may have been truncated
                segment = min(self._controller.head(stream).positions)
                time = self._find_creation_time(stream, segment)
            creation = None if time is None else (segment, time)
            facts = self.note(stream, creation=creation, unknown_until=monotonic() + UNKNOWN_SECONDS)
        return facts.creation

    def _find_creation_time(self, stream: Stream, segment: int) -> int | None:
        try:
            return self._store.creation_times(stream, [segment])[segment]
        except SegmentNotFoundError:
            return None

    def segment_infos(self, stream: Stream) -> dict[int, SegmentInfo] | None:
        """Return the states of all segments from the stream's head to its tail; None if they are not known."""
        facts = self.find(stream)
        if not facts.current:
            return None
        infos = self._store.segment_infos(stream, facts.segments)
        if all(segment in infos and not infos[segment].sealed for segment in facts.current):
            return infos
        self.note(stream, segments=(), current=())
        return None

    def find_origin_if_whole(self, stream: Stream) -> int | None:
        """Return the number of the first segment of a stream that was never scaled and never truncated.

        None for other streams, and if that is not known. Raises the errors of `origin`.
        """
        infos = self.segment_infos(stream)
        if infos is None:
            return None
        if not self.find(stream).first:
            self.origin(stream)
        facts = self.find(stream)
        made_with = set(facts.first)
        whole = made_with == set(facts.segments) == set(facts.current) == set(infos)
        if not whole or any(info.start_offset for info in infos.values()):
            return None
        return min(map(get_segment_number, made_with))

    def learn_segments(self, stream: Stream, segments: Sequence[int], infos: dict[int, SegmentInfo]) -> None:
        """Note the segments that the controller listed from the head to the tail, and their states after that.

        Asks the controller which of them are current. Notes nothing about a stream that is sealed or being scaled.
        """
        if all(info.sealed for info in infos.values()):
            return
        current = tuple(segment.segment_id for segment in self._controller.current_segments(stream))
        open_ones = {segment for segment, info in infos.items() if not info.sealed}
        if current and set(current) <= open_ones & set(segments):
            self.note(stream, segments=tuple(segments), current=current)

    def is_cut(self, cut: StreamCut) -> bool:
        """Return whether a cut's segments cover its stream's keys once, at any offsets. Raises StreamNotFoundError."""
        if self._find_infos_of_valid_cut(cut) is not None:
            return True
        valid = self._controller.is_stream_cut_valid(cut)
        if valid:
            self.note(cut.stream, cover=frozenset(cut.positions))
        return valid

    def find_infos_between(self, start: StreamCut, end: StreamCut) -> dict[int, SegmentInfo] | None:
        """Return the states of all segments between two cuts; None if unknown, or if `start` lies after `end`."""
        if start.positions.keys() != end.positions.keys():
            return None
        if any(offset > end.positions[segment] for segment, offset in start.positions.items()):
            return None
        return self._find_infos_of_valid_cut(start)

    def _find_infos_of_valid_cut(self, cut: StreamCut) -> dict[int, SegmentInfo] | None:
        """Return the states of the segments of a cut that is known to be valid; None for other cuts."""
        if not cut.positions or self.find(cut.stream).cover != cut.positions.keys():
            return None
        infos = self._store.segment_infos(cut.stream, cut.positions)
        return infos if infos.keys() == cut.positions.keys() else None

    def ranges(self, stream: Stream, segments: Sequence[int]) -> dict[int, SegmentRange]:
        """Return the key ranges of segments, as far as they can be found.

        Those of segments that are no longer current are listed with the epochs in which the segments were created, for
        which only users with READ_UPDATE may ask.
        """
        facts = self.find(stream)
        by_segment = {segment: facts.ranges[segment] for segment in segments if segment in facts.ranges}
        if len(by_segment) < len(segments):
            missing = set(segments)
            by_segment |= _select(missing, self._controller.current_segments(stream))
            epochs = {get_segment_epoch(segment) for segment in missing - by_segment.keys()}
            if len(epochs) <= _MOST_EPOCHS:
                for ranges in cancellation.map_side_by_side(partial(self._list_epoch, stream), epochs):
                    by_segment |= _select(missing, ranges)
            self.note(stream, ranges=by_segment)
        return by_segment

    def _list_epoch(self, stream: Stream, epoch: int) -> Sequence[SegmentRange]:
        try:
            return self._controller.epoch_segments(stream, epoch)
        except (PermissionDeniedError, StreamNotFoundError):
            return ()

    def note_encoding(self, stream: Stream, encoding_id: int, exists: bool = True) -> None:
        """Note whether the schema registry has this encoding id for the stream."""
        facts = self.find(stream)
        if exists != (encoding_id in facts.encodings):
            others = tuple(known_id for known_id in facts.encodings if known_id != encoding_id)
            self.note(stream, encodings=(*others, encoding_id)[-_ENCODINGS:] if exists else others)

    def find(self, stream: Stream) -> KnownFacts:
        """Return what is known of a stream, of which nothing is confirmed yet."""
        return self._known.find(stream) or KnownFacts()

    def note(self, stream: Stream, **facts: Any) -> KnownFacts:
        """Note facts by the names that they have in `KnownFacts`."""
        former = self.find(stream)
        noted = replace(former, **facts)
        if noted != former:
            self._known.put(stream, noted)
        return noted


def _select(segment_ids: set[int], ranges: Iterable[SegmentRange]) -> dict[int, SegmentRange]:
    return {segment.segment_id: segment for segment in ranges if segment.segment_id in segment_ids}
