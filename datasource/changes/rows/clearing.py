"""Finds the rows that truncations and complete snapshots clear, wherever their events lie.

A truncation has no key, and a snapshot has no event for a missing row. So their events may lie in other segments than
the rows that they clear. What they clear does not depend on the order in which they and the rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from .names import (
    NUMBERS,
    POSITION,
    SNAPSHOT,
    UNKNOWN,
    Columns,
    Mask,
    Moment,
    Names,
    OlderPositions,
    is_position_older,
    numbers_of,
)
from .snapshots import CompleteSnapshot, Mark, find_complete, has_older_position


@dataclass(frozen=True)
class Truncation:
    """A truncation, and the place of its event. Positions of the same origin can be compared."""

    origin: str | None
    segment: int
    moment: Moment

    def clears(self, numbers: Columns, names: Names, ages: OlderPositions) -> Mask:
        """Return which entries, given by their NUMBERS, were made before this.

        For changes of the same origin the position decides, unless the times contradict it. In that case, for rows of
        snapshots, and where positions cannot be compared, the order of events decides: the place in the same segment,
        and in another one the time at which the connector handled both.
        """
        moment, origin = self.moment, names.origin(self.origin)
        ts = numbers["ts"]
        elsewhere = (ts < moment.ts) & (ts != UNKNOWN)
        place: Mask = np.where(numbers["segment"] == self.segment, numbers["offset"] < moment.offset, elsewhere)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        if not comparable.any():
            return place
        by_position = has_older_position(moment.position, numbers)
        time = np.full(len(ts), moment.time)
        decided = comparable & ~ages.find_contradicted(by_position, numbers["time"], time)
        found: Mask = np.where(decided, by_position, place)
        return found

    def is_before(self, numbers: Columns, names: Names, ages: OlderPositions) -> Mask:
        """Return which entries come after this: by place in its own segment, in others by position or time."""
        moment, origin = self.moment, names.origin(self.origin)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        position = [np.full(len(comparable), number) for number in moment.position]
        by_position = is_position_older(position, [numbers[name] for name in POSITION])
        time = np.full(len(comparable), moment.time)
        decided = comparable & ~ages.find_contradicted(by_position, time, numbers["time"])
        by_time = (numbers["ts"] > moment.ts) & (moment.ts != UNKNOWN)
        elsewhere = np.where(decided, by_position, by_time)
        after: Mask = np.where(numbers["segment"] == self.segment, numbers["offset"] > moment.offset, elsewhere)
        return after


Clearing = Truncation | Mark
"""An event that removes rows of other events: a truncation, or a mark of a snapshot that may be complete."""


@dataclass
class Clearings:
    """The truncations that matter, by origin and segment, and the marks of snapshots.

    A truncation that another one covers is left out. `ages` says what older positions mean.
    """

    ages: OlderPositions = OlderPositions.BY_TIME
    last: dict[tuple[str | None, int], list[Moment]] = field(default_factory=dict)
    marks: set[Mark] = field(default_factory=set)

    def add(self, clearing: Clearing) -> None:
        """Note a truncation or mark."""
        if isinstance(clearing, Mark):
            self.marks.add(clearing)
            return
        moments = self.last.setdefault((clearing.origin, clearing.segment), [])
        if not any(moment.covers(clearing.moment) for moment in moments):
            moments[:] = [moment for moment in moments if not clearing.moment.covers(moment)]
            moments.append(clearing.moment)

    def update(self, other: Clearings) -> None:
        """Note all that another object has."""
        for truncation in other:
            self.add(truncation)
        self.marks |= other.marks

    def snapshots(self) -> list[CompleteSnapshot]:
        """Return the complete snapshots, in their order."""
        return find_complete(self.marks)

    def __iter__(self) -> Iterator[Truncation]:
        return (Truncation(*place, moment) for place, moments in self.last.items() for moment in moments)

    def find_cleared(self, entries: pa.Table, names: Names) -> Mask:
        """Return which entries are cleared; see `clears` of Truncation and of CompleteSnapshot."""
        if not self.last and not self.marks:
            return np.zeros(len(entries), np.bool_)
        return self.find_cleared_numbers({name: numbers_of(entries, name) for name in NUMBERS}, names)

    def find_cleared_numbers(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries, given by their NUMBERS, are cleared."""
        gone = np.zeros(len(numbers["kind"]), np.bool_)
        for truncation in self:
            gone |= truncation.clears(numbers, names, self.ages)
        for snapshot in self.snapshots():
            gone |= snapshot.clears(numbers, names)
        return gone


class AllClearings(Clearings):
    """Remembers all truncations, not only those that matter."""

    def __init__(self, ages: OlderPositions = OlderPositions.BY_TIME) -> None:
        super().__init__(ages)
        self.all: list[Truncation] = []

    def add(self, clearing: Clearing) -> None:
        """Note a truncation or mark."""
        super().add(clearing)
        if isinstance(clearing, Truncation):
            self.all.append(clearing)
