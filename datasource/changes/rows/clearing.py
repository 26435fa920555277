"""Finds the rows that truncations and complete snapshots clear, wherever their events lie.

A truncation has no key, and a snapshot has no event for a missing row. So their events may lie in other segments than
the rows that they clear. What they clear does not depend on the order in which they and the rows are read.

Debezium marks the first and the last row of a table in a snapshot (`source.snapshot`; the only row of a table as the
last one). An interrupted snapshot has a first row only, and begins again with another one. A snapshot is complete when
its last row has come, and then replaces everything that was there when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from .names import POSITION, SNAPSHOT, UNKNOWN, Columns, Mask, Moment, Names, is_position_older, read_columns

BEGINS = ("first", "first_in_data_collection")
LAST_OF_TABLE = "last_in_data_collection"
ENDS = ("last", LAST_OF_TABLE)
MARKS_OF_SNAPSHOTS = (*BEGINS, *ENDS)
TABLE_OF_MARK = ("connector", "name", "db", "schema", "table")
"""The members of a source block that identify a table."""
_TIME_OF_CHANGE = "oracle/"
"""LogMiner says when a row was changed, not when the change was committed."""


@dataclass(frozen=True)
class Mark:
    """The first or the last (`ends`) row in a snapshot of a `table` (TABLE_OF_MARK joined by `/`)."""

    origin: str | None
    segment: int
    moment: Moment
    ends: bool
    table: str = ""

    def is_read_with(self, begin: Mark) -> bool:
        """Return whether this may end the snapshot with that begin: all rows of a snapshot have one position."""
        return self.origin == begin.origin and self.moment.position == begin.moment.position


@dataclass(frozen=True)
class CompleteSnapshot:
    """A complete snapshot: the place of its first row, and when the connector handled the last one (`ended`).

    `since` is the database's time from which its rows were read, UNKNOWN if its first row is not known.
    """

    origin: str | None
    segment: int
    moment: Moment
    ended: int
    since: int = UNKNOWN

    def clears(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries were made before the snapshot began. Rows that it has read are left out.

        The place decides in the same segment, and the connector's time in another one, unless position and database
        time both contradict it. A change that is older in both was delivered again.
        """
        moment = self.moment
        ts, time = numbers["ts"], numbers["time"]
        here = numbers["segment"] == self.segment
        before: Mask = np.where(here, numbers["offset"] < moment.offset, (ts != UNKNOWN) & (ts < moment.ts))
        origin = names.origin(self.origin)
        if origin < 0:
            return before
        older_position = has_older_position(moment.position, numbers)
        changes = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT)
        changes &= (time != UNKNOWN) & (moment.time != UNKNOWN)
        newer = changes & ~here & ~older_position & (time >= moment.time)
        before &= ~newer
        if not str(self.origin).startswith(_TIME_OF_CHANGE):
            before |= changes & older_position & (time < moment.time)
        return before & ~self._find_at_position(numbers, origin)

    def has_read(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries are rows of the snapshot, given that none of them is from before it."""
        matching = (numbers["ts"] >= self.moment.ts) & (numbers["ts"] <= self.ended)
        origin = names.origin(self.origin)
        if origin >= 0:
            matching |= self._find_at_position(numbers, origin)
        rows: Mask = matching & (numbers["kind"] == SNAPSHOT)
        return rows

    def _find_at_position(self, numbers: Columns, origin: int) -> Mask:
        """Return which rows were read at the snapshot's position: they belong to it wherever its first row lies."""
        matching: Mask = (numbers["kind"] == SNAPSHOT) & (numbers["origin"] == origin)
        for name, value in zip(POSITION, self.moment.position, strict=True):
            matching &= numbers[name] == value
        # A log that has started over has the same positions again, at another time.
        if self.since != UNKNOWN:
            matching &= (numbers["time"] == UNKNOWN) | (numbers["time"] >= self.since)
        return matching


def has_older_position(position: tuple[int, int, int], numbers: Columns) -> Mask:
    """Return which entries have an older position than this one."""
    return is_position_older([numbers[name] for name in POSITION], position)


def find_complete(marks: Iterable[Mark]) -> list[CompleteSnapshot]:
    """Return the complete snapshots, in their order; none for a stream with several tables.

    In such a stream the rows of different tables cannot be distinguished, and a snapshot replaces the rows that it
    read. An end without a begin is that of a table with one row, or the rest of a longer snapshot, whose rows have its
    position. If that is unknown, it means nothing.
    """
    snapshots: list[CompleteSnapshot] = []
    begin: Mark | None = None
    marks = list(marks)
    if len({mark.table for mark in marks}) > 1:
        return snapshots
    order = sorted(marks, key=lambda mark: (mark.moment.ts, mark.ends, mark.segment, mark.moment.offset))
    for mark in order:
        if not mark.ends:
            begin = mark
            continue
        if begin is not None and None not in (begin.origin, mark.origin) and not mark.is_read_with(begin):
            begin = None  # it was interrupted
        first = begin or (mark if mark.origin is not None else None)
        if first is not None:
            since = UNKNOWN if begin is None else begin.moment.time
            snapshots.append(CompleteSnapshot(first.origin, first.segment, first.moment, mark.moment.ts, since))
        begin = None
    return snapshots


@dataclass(frozen=True)
class Truncation:
    """A truncation, and the place of its event. Positions of the same origin can be compared."""

    origin: str | None
    segment: int
    moment: Moment

    def clears(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries, given by their NUMBERS, were made before this.

        For changes of the same origin the position decides, unless the times contradict it. In that case, for rows of
        snapshots, and where positions cannot be compared, the order of events decides: the place in the same segment,
        and in another one the time at which the connector handled both.
        """
        moment, origin = self.moment, names.origin(self.origin)
        ts = numbers["ts"]
        elsewhere = (ts < moment.ts) & (ts != UNKNOWN)
        by_place: Mask = np.where(numbers["segment"] == self.segment, numbers["offset"] < moment.offset, elsewhere)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        if not comparable.any():
            return by_place
        by_position = has_older_position(moment.position, numbers)
        decided = comparable & ~names.ages.find_contradicted(by_position, numbers["time"], moment.time)
        return np.where(decided, by_position, by_place)

    def is_before(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries come after this: by place in its own segment, in others by position or time."""
        moment, origin = self.moment, names.origin(self.origin)
        comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
        by_position = is_position_older(moment.position, [numbers[name] for name in POSITION])
        decided = comparable & ~names.ages.find_contradicted(by_position, moment.time, numbers["time"])
        by_time = (numbers["ts"] > moment.ts) & (moment.ts != UNKNOWN)
        elsewhere = np.where(decided, by_position, by_time)
        return np.where(numbers["segment"] == self.segment, numbers["offset"] > moment.offset, elsewhere)


Clearing = Truncation | Mark
"""An event that removes rows of other events: a truncation, or a mark of a snapshot that may be complete."""


def list_members(clearing: Clearing) -> list[Any]:
    """Return the values of a clearing for JSON, from which `read_clearing` makes an equal one."""
    mark = [clearing.ends, clearing.table] if isinstance(clearing, Mark) else []
    return [clearing.origin, clearing.segment, list(astuple(clearing.moment)), *mark]


def read_clearing(origin: str | None, segment: int, moment: Sequence[Any], *mark: Any) -> Clearing:
    """Return the clearing with these values; states of earlier releases have marks without a table."""
    position, *rest = moment
    location = origin, segment, Moment(tuple(position), *rest)
    return Mark(*location, *mark) if mark else Truncation(*location)


@dataclass
class Clearings:
    """The truncations that matter, by origin and segment, and the marks of snapshots.

    A truncation that another one covers is left out.
    """

    last: dict[tuple[str | None, int], list[Moment]] = field(default_factory=dict)
    marks: set[Mark] = field(default_factory=set)

    def add(self, clearing: Clearing) -> None:
        if isinstance(clearing, Mark):
            self.marks.add(clearing)
            return
        moments = self.last.setdefault((clearing.origin, clearing.segment), [])
        if not any(moment.covers(clearing.moment) for moment in moments):
            moments[:] = [moment for moment in moments if not clearing.moment.covers(moment)]
            moments.append(clearing.moment)

    def update(self, clearings: Iterable[Clearing]) -> None:
        for clearing in clearings:
            self.add(clearing)

    def snapshots(self) -> list[CompleteSnapshot]:
        """Return the complete snapshots, in their order."""
        return find_complete(self.marks)

    @property
    def truncations(self) -> list[Truncation]:
        """Return the truncations that matter."""
        return [Truncation(*at, moment) for at, moments in self.last.items() for moment in moments]

    def __iter__(self) -> Iterator[Clearing]:
        yield from self.truncations
        yield from self.marks

    def find_cleared(self, entries: pa.Table, names: Names) -> Mask:
        """Return which entries are cleared; see `clears` of Truncation and of CompleteSnapshot."""
        if not self.last and not self.marks:
            return np.zeros(len(entries), np.bool_)
        return self.find_cleared_numbers(read_columns(entries), names)

    def find_cleared_numbers(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries, given by their NUMBERS, are cleared."""
        gone = np.zeros(len(numbers["kind"]), np.bool_)
        for truncation in self.truncations:
            gone |= truncation.clears(numbers, names)
        for snapshot in self.snapshots():
            gone |= snapshot.clears(numbers, names)
        return gone


@dataclass
class AllClearings(Clearings):
    """Remembers all truncations, not only those that matter."""

    all: list[Truncation] = field(default_factory=list)

    def add(self, clearing: Clearing) -> None:
        super().add(clearing)
        if isinstance(clearing, Truncation):
            self.all.append(clearing)
