"""Counts how often each row exists, from entries that add it and entries that remove it; see `rows`.

Truncations and snapshots are boundaries. In each span between two of them, rows are counted separately: a truncation
leaves none, and a snapshot reads all existing ones again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pyspark_pravega.errors import MalformedEventError

from ..clearing import AllClearings, Truncation
from ..entries import VALUE
from ..fold import LeftOut, Reduction
from ..names import (
    NUMBERS,
    SNAPSHOT,
    UNKNOWN,
    Columns,
    Mask,
    Names,
    Numbers,
    OlderPositions,
    compute_version,
    find_times,
    make_comparable_times,
    read_numbers,
)
from ..order import number_groups
from ..row_history import AFTER, BEFORE, DELETE, INSERT, Within
from .snapshots import Snapshot, Snapshots

_LOG = logging.getLogger(__name__)

ROW = ""
"""The column of entries that identifies rows: no column of a table has this name."""

_SAME = ("change", "origin", "major", "minor", "row")
_NOT_COMPLETE = -2
_ONE_DELIVERY = 2_000_000
"""The longest pause, in microseconds, between changes of one position in a single delivery."""


@dataclass(frozen=True)
class KeylessCounts(Reduction):
    """Counts rows once all entries have come, and returns the last ones or, with `within`, what each change did.

    `lenient`: events may be missing, so a removed row need not exist.
    """

    names: Names
    truncates: AllClearings
    snapshots: Snapshots
    within: Within | None
    lenient: bool
    left_out: LeftOut

    def reduce(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Drop entries that a truncation has cleared already, if the history does not matter."""
        if self.within is None and self.truncates.last:
            entries = entries.filter(pa.array(~self.truncates.find_cleared(entries, self.names)))
        return entries, []

    def finish(self, state: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Return the counted rows, or the history. Raises MalformedEventError for an entry whose row is unknown."""
        state = state.combine_chunks()
        numbers = {name: read_numbers(state, name) for name in (*NUMBERS, "change", "unique")}
        own = self.snapshots.of_rows(numbers)
        self._check_rows_read(numbers, own)
        rows = number_groups(state, (ROW,))
        counted = ~_find_redelivered(rows, numbers, self.names.ages)
        boundaries = self._boundaries
        indices = {id(boundary): index for index, boundary in enumerate(boundaries)}
        own = np.array([*(indices.get(id(snapshot), _NOT_COMPLETE) for snapshot in self.snapshots.all), -1])[own]
        counted &= own != _NOT_COMPLETE
        self.left_out.note(state, np.flatnonzero(~counted & (numbers["change"] != BEFORE)))
        chosen = np.flatnonzero(counted)
        spans = self._spans({name: column[chosen] for name, column in numbers.items()}, own[chosen], boundaries)
        counts = _Counts(rows[chosen], spans, np.isin(numbers["change"][chosen], [INSERT, AFTER]))
        last = counts.missing[counts.spans[counts.missing] == len(boundaries)]
        if len(last) and not self.lenient:
            raise _make_missing_row_error(numbers, int(chosen[last[0]]))
        if len(last):
            _LOG.warning("%d removals of rows that do not exist are left out.", len(last))
        if self.within is None:
            return state, [state.take(pa.array(chosen[counts.left[counts.spans[counts.left] == len(boundaries)]]))]
        history = _History(state.take(pa.array(chosen)), counts, own[chosen], boundaries, self.names)
        return state, history.select(self.within)

    @cached_property
    def _boundaries(self) -> list[Truncation | Snapshot]:
        """Return the snapshots and, if the history matters, the truncations, in their order."""
        boundaries: list[tuple[int, tuple[int, int, int], Truncation | Snapshot]] = []
        if self.within is not None:
            boundaries += [(one.moment.ts, one.moment.position, one) for one in dict.fromkeys(self.truncates.all)]
        boundaries += [(one.ts, one.position, one) for one in self.snapshots.all if one.complete]
        return [ranked[-1] for ranked in sorted(boundaries, key=lambda ranked: ranked[:2])]

    def _check_rows_read(self, numbers: Columns, own: Numbers) -> None:
        for row in np.flatnonzero(self.snapshots.find_after_changes(numbers, own))[:1]:
            raise MalformedEventError(
                f"The event at offset {numbers['offset'][row]} of segment {numbers['segment'][row]} has a row of a "
                "snapshot without a begin or a position. Without a primary key, it is unknown whether the row exists "
                "already: set the table property 'primary-key', or read the table's changelog."
            )

    def _spans(self, numbers: Columns, own: Numbers, boundaries: Sequence[Truncation | Snapshot]) -> Numbers:
        """Return the number of boundaries before each entry; `own` is the number of its own snapshot."""
        spans = np.zeros(len(own), np.int64)
        if self.within is None:
            # Only entries behind all boundaries count.
            spans[:] = len(boundaries)
            spans[self.truncates.find_cleared_numbers(numbers, self.names)] = -1
            if boundaries:
                before = boundaries[-1].clears(numbers, self.names)
                spans[np.where(own >= 0, own < len(boundaries) - 1, before)] = -1
            return spans
        left = [(np.arange(len(own)), 0, len(boundaries))]
        while left:
            entries, low, high = left.pop()
            if low == high or not len(entries):
                spans[entries] = low
                continue
            middle = (low + high) // 2
            part = {name: column[entries] for name, column in numbers.items()}
            before = boundaries[middle].clears(part, self.names) & (own[entries] < middle)
            left += [(entries[before], low, middle), (entries[~before], middle + 1, high)]
        return spans


def _make_missing_row_error(numbers: Columns, row: int) -> MalformedEventError:
    return MalformedEventError(
        f"The event at offset {numbers['offset'][row]} of segment {numbers['segment'][row]} removes a row that "
        "does not exist there. Without a primary key, all values together identify a row: if the table has a key, "
        "set the table property 'primary-key', for example 'id' or 'order_id,line_no'. If it has none, the database "
        "must log whole rows (REPLICA IDENTITY FULL), from a snapshot on, and no column with a default may have been "
        "added since. The table's changelog can be read in any case."
    )


class _Counts:
    """Counts how many of each row the entries of each span leave; entries are given by their numbers.

    `left` are the entries whose rows remain, the last ones among equal rows. `missing` are those that remove a row that
    does not exist, the first ones among equal rows.
    """

    def __init__(self, rows: Numbers, spans: Numbers, adds: Mask) -> None:
        """Count these entries. Equal values in `rows` stand for equal rows."""
        self.rows, self.spans = rows, spans
        order = np.lexsort([adds, rows, spans])
        cells = np.cumsum(_find_changes(spans[order]) | _find_changes(rows[order])) - 1
        count = int(cells[-1]) + 1 if len(cells) else 0
        added, removed = (np.bincount(cells[adds[order] == value], minlength=count) for value in (True, False))
        # In a cell, entries that remove come first, and each kind is in the order of the entries.
        rank = np.arange(len(order)) - np.append(0, np.cumsum(added + removed))[cells]
        removing = ~adds[order]
        self.missing: Numbers = np.sort(order[removing & (rank < (removed - added)[cells])])
        net = np.minimum(added - removed, added)
        self.left: Numbers = np.sort(order[~removing & (rank >= (added + removed - net)[cells])])

    def differences(self, left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
        """Return the entries whose rows are only on the left, and those whose rows are only on the right."""
        most = len(self.rows) + 1
        on_left, on_right = (self.rows[side] * most + _rank(self.rows[side]) for side in (left, right))
        return left[~np.isin(on_left, on_right)], right[~np.isin(on_right, on_left)]


class _History:
    """Derives the history of rows from the effects of changes on their counts."""

    def __init__(
        self,
        entries: pa.Table,
        counts: _Counts,
        own: Numbers,
        boundaries: Sequence[Truncation | Snapshot],
        names: Names,
    ) -> None:
        self._entries = entries
        version, times = read_numbers(entries, "version"), find_times(entries, names)
        remains = np.ones(len(entries), np.bool_)
        # A row in a snapshot counts only if it does not exist already.
        remains[counts.missing] = remains[own >= 0] = False
        self._parts: list[tuple[Numbers, ...]] = [
            (np.flatnonzero(remains), read_numbers(entries, "change")[remains], version[remains], times[remains])
        ]
        left = _split_by_number(counts.left, counts.spans[counts.left], len(boundaries))
        read = _split_by_number(np.arange(len(own)), own, len(boundaries))
        for number, boundary in enumerate(boundaries):
            gone = left[number]
            if isinstance(boundary, Snapshot):
                gone, new = counts.differences(gone, read[number])
                self._parts.append((new, np.full(len(new), INSERT), version[new], times[new]))
                origin, position = names.origin_text(boundary.origin), boundary.position
                at = boundary.time if boundary.time != UNKNOWN else boundary.ts
            else:
                origin, position = boundary.origin, boundary.moment.position
                at = boundary.moment.time if boundary.moment.time != UNKNOWN else boundary.moment.ts
            if len(gone):
                same = (DELETE, compute_version(origin, position), at)
                self._parts.append((gone, *(np.full(len(gone), value) for value in same)))

    def select(self, within: Within) -> list[pa.Table]:
        """Return the wanted part of the history."""
        rows, change, version, time = map(np.concatenate, zip(*self._parts, strict=True))
        chosen = within(version, time)
        if not chosen.any():
            return []
        table = self._entries.select([name for name in self._entries.column_names if name.startswith(VALUE)])
        table = table.take(pa.array(rows[chosen]))
        for name, numbers in (("change", change), ("version", version), ("timestamp", time)):
            table = table.append_column(name, pa.array(numbers[chosen], pa.int64()))
        return [table]


def _find_redelivered(rows: Numbers, numbers: Columns, ages: OlderPositions) -> Mask:
    """Return which entries repeat another one with the same position and the same time of the database.

    If a position belongs to one row, these are all but the first. Otherwise, among several deliveries of a position,
    these are all but the one with the most copies of the row: the others may have been cut off.
    """
    again = np.zeros(len(rows), np.bool_)
    same = [numbers[name] for name in _SAME]
    if ages is not OlderPositions.REDELIVERY:
        same.append(make_comparable_times(numbers["time"]))  # at other times, they are of two logs
    suspects = np.flatnonzero((numbers["origin"] >= 0) & (numbers["kind"] != SNAPSHOT))
    ts = numbers["ts"]
    order = suspects[np.lexsort([ts[suspects], rows[suspects], *(column[suspects] for column in same)])]
    if len(order) < 2:
        return again
    new = _find_changes(rows[order])
    for column in same:
        new |= _find_changes(column[order])
    runs = np.cumsum(new) - 1
    is_known = ts[order] != UNKNOWN
    pause = np.append(False, (np.diff(np.where(is_known, ts[order], 0)) > _ONE_DELIVERY) & is_known[1:] & is_known[:-1])
    deliveries = np.cumsum(new | pause) - 1
    sizes = np.bincount(deliveries)
    of_run = runs[np.flatnonzero(new | pause)]
    # The largest of each run, the first of equal ones.
    ranked = np.lexsort([np.arange(len(sizes)), -sizes, of_run])
    best = np.zeros(len(sizes), np.bool_)
    best[ranked[_find_changes(of_run[ranked])]] = True
    again[order] = np.where(numbers["unique"][order] == 1, ~new, ~best[deliveries])
    return again


def _find_changes(numbers: Numbers) -> Mask:
    """Return where a number differs from the one before it."""
    return np.append(np.ones(min(1, len(numbers)), np.bool_), numbers[1:] != numbers[:-1])


def _rank(rows: Numbers) -> Numbers:
    """Return the rank of each entry among those with an equal row, from 0."""
    order = np.argsort(rows, kind="stable")
    new = _find_changes(rows[order])
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) - np.flatnonzero(new)[np.cumsum(new) - 1] if len(rows) else 0
    return ranks


def _split_by_number(values: Numbers, numbers: Numbers, count: int) -> list[Numbers]:
    """Return the values of each number from 0 to `count` - 1."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [values[order[begin:end]] for begin, end in itertools.pairwise(bounds)]
