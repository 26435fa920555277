"""How often each row is in a bag, from entries that add it and entries that remove it; see `row_bag`.

Truncations and snapshots are boundaries. Between two of them, the span of each, rows are counted by themselves: a
truncation leaves none, and a snapshot finds all that are there again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.datasource.key_order import groups_of
from pyspark_pravega.datasource.row_changes import (
    SNAPSHOT,
    UNKNOWN,
    VALUE,
    Names,
    Numbers,
    Truncates,
    numbers_of,
    older,
)
from pyspark_pravega.datasource.row_history import (
    AFTER,
    DELETE,
    INSERT,
    AllTruncates,
    Truncation,
    Within,
    version_of,
)
from pyspark_pravega.errors import MalformedEventError

Mask = npt.NDArray[np.bool_]

ROW = ""
"""The column of entries that tells rows apart: no column of a table has this name."""

_POSITION = ("major", "minor", "row")
_ONE_DELIVERY = 1_000_000
"""Microseconds within which a connector handles changes of one position that it delivers once."""


@dataclass
class Snapshot:
    """What tells whether a change is before a snapshot; `offsets` is where it begins, by segment."""

    origin: int
    position: tuple[int, int, int]
    time: int
    ts: int
    offsets: dict[int, int] = field(default_factory=dict)


class Snapshots:
    """The snapshots seen that have a position."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], Snapshot] = {}

    def note(self, entries: pa.Table) -> None:
        """Note those that rows among the entries were read for."""
        read = (numbers_of(entries, "kind") == SNAPSHOT) & (numbers_of(entries, "origin") >= 0)
        names = ("origin", *_POSITION, "time", "ts", "segment", "offset")
        for row in np.stack([numbers_of(entries, name)[read] for name in names], axis=1).tolist():
            origin, major, minor, place, time, ts, segment, offset = row
            known = (origin, major, minor, place)
            found = self._found.setdefault(known, Snapshot(origin, (major, minor, place), time, ts))
            found.time, found.ts = min(found.time, time), min(found.ts, ts)
            found.offsets[segment] = min(found.offsets.get(segment, offset), offset)

    @property
    def all(self) -> list[Snapshot]:
        """In the order in which they were first seen."""
        return list(self._found.values())


Boundary = Truncation | Snapshot


@dataclass(frozen=True)
class BagCounts:
    """Counts rows when all entries of them have come: those of the end or, with `within`, what each change did."""

    names: Names
    truncates: AllTruncates
    snapshots: Snapshots
    within: Within | None

    def reduce(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Whether an entry is delivered again can only be told in the end."""
        return entries, []

    def finish(self, state: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Raises MalformedEventError for an entry that removes a row which is not there."""
        state = state.combine_chunks()
        rows = groups_of(state, (ROW,))
        once = ~_delivered_again(state, rows)
        state, rows = state.filter(pa.array(once)), rows[once]
        boundaries = self._boundaries()
        counts = _Counts(state, rows, self._spans(state, boundaries))
        if self.within is not None:
            return state, list(_history(state, counts, boundaries, self.names, self.within))
        return state, [state.take(pa.array(np.sort(counts.left(len(boundaries)))))]

    def fork(self) -> BagCounts:
        """It keeps nothing."""
        return self

    def needs_all(self) -> bool:
        """Every row is given."""
        return True

    def _boundaries(self) -> list[Boundary]:
        """In their order."""
        found: list[tuple[int, tuple[int, int, int], Boundary]] = []
        for each in dict.fromkeys(self.truncates.all):
            found.append((each.truncate.ts, each.truncate.position, each))
        found += [(each.ts, each.position, each) for each in self.snapshots.all]
        return [each[-1] for each in sorted(found, key=lambda each: each[:2])]

    def _spans(self, entries: pa.Table, boundaries: Sequence[Boundary]) -> Numbers:
        """How many boundaries each entry is behind."""
        spans = np.full(len(entries), len(boundaries), np.int64)
        for number, boundary in reversed(list(enumerate(boundaries))):
            if isinstance(boundary, Truncation):
                one = Truncates()
                one.add(boundary.origin, boundary.segment, boundary.truncate)
                spans[one.cleared(entries, self.names)] = number
            else:
                spans[_before(entries, boundary)] = number
                own = _rows_of(entries, boundary)
                spans[own] = np.maximum(spans[own], number + 1)
        return spans


class _Counts:
    """How many of each row the entries of each span leave."""

    def __init__(self, entries: pa.Table, rows: Numbers, spans: Numbers) -> None:
        """`rows` are the numbers of the rows that entries add or remove, equal for equal rows."""
        self._entries, self._rows, self._spans = entries, rows, spans
        self._adds = np.isin(numbers_of(entries, "change"), [INSERT, AFTER])

    def left(self, span: int) -> Numbers:
        """The entries whose rows are left in a span, in no order. Raises MalformedEventError."""
        here = np.flatnonzero(self._spans == span)
        added, removed = here[self._adds[here]], here[~self._adds[here]]
        counts = np.bincount(self._rows[added], minlength=int(self._rows.max(initial=-1)) + 1)
        counts -= np.bincount(self._rows[removed], minlength=len(counts))
        for place in removed[counts[self._rows[removed]] < 0][:1]:
            raise MalformedEventError(
                f"The event at offset {numbers_of(self._entries, 'offset')[place]} of segment "
                f"{numbers_of(self._entries, 'segment')[place]} removes a row that is not among those before it. "
                "Without a primary key, rows are told by all of their values: if the table has one, set the table "
                "property 'primary-key', for example 'id' or 'order_id,line_no'. If it has none, the database must log "
                "whole rows (REPLICA IDENTITY FULL), from a snapshot on, and no column may have been added since with "
                "a default. The table's changelog can be read in any case."
            )
        rank = _rank(self._rows[added])
        # Of equal rows, the last ones are taken to be there.
        total = np.bincount(self._rows[added], minlength=len(counts))
        return added[rank >= (total - counts)[self._rows[added]]]

    def differences(self, left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
        """Which of these entries' rows are only on the left, and which only on the right."""
        most = len(self._entries) + 1
        on_left, on_right = (self._rows[each] * most + _rank(self._rows[each]) for each in (left, right))
        return left[~np.isin(on_left, on_right)], right[~np.isin(on_right, on_left)]


def _rank(rows: Numbers) -> Numbers:
    """The how manieth of its row each entry is, from 0."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])[: len(ranked)])
    within = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
    found = np.empty(len(rows), np.int64)
    found[order] = within
    return found


def _history(
    entries: pa.Table, counts: _Counts, boundaries: Sequence[Boundary], names: Names, within: Within
) -> Iterator[pa.Table]:
    """What the changes did to the bag, span by span."""
    change, version = numbers_of(entries, "change"), numbers_of(entries, "version")
    time = _known(numbers_of(entries, "time"), numbers_of(entries, "ts"))
    # What a snapshot finds counts only where it is not there already.
    own = np.zeros(len(entries), np.bool_)
    for each in boundaries:
        if isinstance(each, Snapshot):
            own |= _rows_of(entries, each)
    yield from _given(entries, np.flatnonzero(~own), change, version, time, within)
    counts.left(len(boundaries))  # nothing may be removed that is not there
    for span, boundary in enumerate(boundaries):
        gone = counts.left(span)
        if isinstance(boundary, Truncation):
            origin, position = boundary.origin, boundary.truncate.position
            at = boundary.truncate.time if boundary.truncate.time != UNKNOWN else boundary.truncate.ts
        else:
            origin, position = names.origin_text(boundary.origin), boundary.position
            at = boundary.time if boundary.time != UNKNOWN else boundary.ts
            gone, new = counts.differences(gone, np.flatnonzero(_rows_of(entries, boundary)))
            yield from _given(entries, new, change, version, time, within)
        every = np.ones(len(entries), np.int64)
        yield from _given(entries, gone, every * DELETE, every * version_of(origin, position), every * at, within)


def _given(
    entries: pa.Table, rows: Numbers, change: Numbers, version: Numbers, time: Numbers, within: Within
) -> Iterator[pa.Table]:
    rows = np.sort(rows[within(version[rows], time[rows])])
    if len(rows):
        table = entries.select([name for name in entries.column_names if name.startswith(VALUE)])
        table = table.take(pa.array(rows))
        for name, numbers in (("change", change), ("version", version), ("timestamp", time)):
            table = table.append_column(name, pa.array(numbers[rows], pa.int64()))
        yield table


def _known(times: Numbers, else_times: Numbers) -> Numbers:
    return np.where(times != UNKNOWN, times, else_times)


def _delivered_again(entries: pa.Table, rows: Numbers) -> Mask:
    """Which entries say again what another one says."""
    again = np.zeros(len(entries), np.bool_)
    suspects = np.flatnonzero((numbers_of(entries, "origin") >= 0) & (numbers_of(entries, "kind") != SNAPSHOT))
    same = [rows, *(numbers_of(entries, name) for name in ("change", "origin", *_POSITION))]
    ts = numbers_of(entries, "ts")
    order = suspects[np.lexsort([ts[suspects], *(each[suspects] for each in same)])]
    if len(order) < 2:
        return again
    repeats = np.logical_and.reduce([each[order][1:] == each[order][:-1] for each in same])
    later = repeats & (np.diff(ts[order]) > _ONE_DELIVERY)
    # Once it is delivered again, all that follow are.
    delivery = np.append(0, np.cumsum(later))
    begins = np.maximum.accumulate(np.where(np.append(False, repeats), 0, np.arange(len(order))))
    again[order] = delivery > delivery[begins]
    return again


def _rows_of(entries: pa.Table, snapshot: Snapshot) -> Mask:
    found: Mask = (numbers_of(entries, "kind") == SNAPSHOT) & (numbers_of(entries, "origin") == snapshot.origin)
    for name, value in zip(_POSITION, snapshot.position, strict=True):
        found &= numbers_of(entries, name) == value
    return found


def _before(entries: pa.Table, snapshot: Snapshot) -> Mask:
    """Which entries were made before a snapshot."""
    segment, offset, time, ts = (numbers_of(entries, name) for name in ("segment", "offset", "time", "ts"))
    position = [numbers_of(entries, name) for name in _POSITION]
    comparable = numbers_of(entries, "origin") == snapshot.origin
    by_position = comparable & older(position, [np.full(len(entries), each) for each in snapshot.position])
    by_position &= (numbers_of(entries, "kind") == SNAPSHOT) | ((time != UNKNOWN) & (time < snapshot.time))
    by_place, elsewhere = np.zeros(len(entries), np.bool_), np.ones(len(entries), np.bool_)
    for each, first in snapshot.offsets.items():
        by_place |= (segment == each) & (offset < first)
        elsewhere &= segment != each
    by_time = elsewhere & ~comparable & (ts != UNKNOWN) & (ts < snapshot.ts)
    before: Mask = by_position | by_place | by_time
    return before
