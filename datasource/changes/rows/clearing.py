"""Tells which rows a truncation clears, wherever its event and theirs lie.

A truncation has no key, so it may lie in another segment than the rows it clears. What it clears does not depend on the
order in which it and the rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from .age import UNKNOWN, Mask, Numbers, OlderPositions, older
from .names import NUMBERS, SNAPSHOT, Names, numbers_of

POSITION = ("major", "minor", "row")

Columns = dict[str, Numbers]
"""NUMBERS of entries by name."""


@dataclass(frozen=True)
class Moment:
    """Where a change is in the database's log, when it was made, when the connector handled it, and its offset."""

    position: tuple[int, int, int]
    time: int
    ts: int
    offset: int

    def covers(self, other: Moment) -> bool:
        """Tell whether nothing is before the other moment that is not before this one."""
        known = [(each.time == UNKNOWN, each.ts == UNKNOWN) for each in (self, other)]
        return (
            known[0] == known[1]
            and self.position >= other.position
            and self.time >= other.time
            and self.ts >= other.ts
            and self.offset >= other.offset
        )


@dataclass(frozen=True)
class Truncation:
    """One truncation, whose event lies in a segment. Positions of the same origin can be compared."""

    origin: str | None
    segment: int
    moment: Moment

    def clears(self, numbers: Columns, names: Names, ages: OlderPositions) -> Mask:
        """Tell which entries, told by their NUMBERS, were made before this.

        A change of the same origin is if its position is, unless the times say otherwise. Then, for a row of a
        snapshot, and where positions cannot be compared, the order of events counts: the place in the same segment, and
        in another one the time at which the connector handled both.
        """
        moment, origin = self.moment, names.origin(self.origin)
        ts = numbers["ts"]
        elsewhere = (ts < moment.ts) & (ts != UNKNOWN)
        place: Mask = np.where(numbers["segment"] == self.segment, numbers["offset"] < moment.offset, elsewhere)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        if not comparable.any():
            return place
        by_position = older_than(moment.position, numbers)
        time = np.full(len(ts), moment.time)
        decided = comparable & ~ages.contradicted(by_position, numbers["time"], time)
        found: Mask = np.where(decided, by_position, place)
        return found


    def is_before(self, numbers: Columns, names: Names, ages: OlderPositions) -> Mask:
        """Tell which entries come after this: by place in its own segment, in others by position or time."""
        moment, origin = self.moment, names.origin(self.origin)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        position = [np.full(len(comparable), each) for each in moment.position]
        by_position = older(position, [numbers[name] for name in POSITION])
        time = np.full(len(comparable), moment.time)
        decided = comparable & ~ages.contradicted(by_position, time, numbers["time"])
        by_time = (numbers["ts"] > moment.ts) & (moment.ts != UNKNOWN)
        elsewhere = np.where(decided, by_position, by_time)
        after: Mask = np.where(numbers["segment"] == self.segment, numbers["offset"] > moment.offset, elsewhere)
        return after


def older_than(position: tuple[int, int, int], numbers: Columns) -> Mask:
    """Tell which entries have an older position than this one."""
    count = len(numbers["major"])
    return older([numbers[name] for name in POSITION], [np.full(count, each) for each in position])


@dataclass
class Truncates:
    """The truncations that count, by origin and segment: those that another one covers are left out.

    `ages` says what older positions mean.
    """

    ages: OlderPositions = OlderPositions.BY_TIME
    last: dict[tuple[str | None, int], list[Moment]] = field(default_factory=dict)

    def add(self, truncation: Truncation) -> None:
        """Note one."""
        moments = self.last.setdefault((truncation.origin, truncation.segment), [])
        if not any(each.covers(truncation.moment) for each in moments):
            moments[:] = [each for each in moments if not truncation.moment.covers(each)]
            moments.append(truncation.moment)

    def update(self, other: Truncates) -> None:
        """Note all of another."""
        for each in other:
            self.add(each)

    def __iter__(self) -> Iterator[Truncation]:
        return (Truncation(*place, moment) for place, moments in self.last.items() for moment in moments)

    def cleared(self, entries: pa.Table, names: Names) -> Mask:
        """Tell which entries were made before a truncation; see `Truncation.clears`."""
        if not self.last:
            return np.zeros(len(entries), np.bool_)
        return self.cleared_by({name: numbers_of(entries, name) for name in NUMBERS}, names)

    def cleared_by(self, numbers: Columns, names: Names) -> Mask:
        """Tell which entries, told by their NUMBERS, were made before a truncation."""
        gone = np.zeros(len(numbers["kind"]), np.bool_)
        for each in self:
            gone |= each.clears(numbers, names, self.ages)
        return gone


class AllTruncates(Truncates):
    """Remembers each of the truncations seen, not only those that count."""

    def __init__(self, ages: OlderPositions = OlderPositions.BY_TIME) -> None:
        super().__init__(ages)
        self.all: list[Truncation] = []

    def add(self, truncation: Truncation) -> None:
        """Note one."""
        super().add(truncation)
        self.all.append(truncation)
