"""Finds what each change did to its row: the rows before and after it, in the order of the changes.

The states of rows are those of `current`, entry by entry. A change that leads from no row to one is an insert,
from one to none a delete, from one to another an update with both. An entry that says what is known already gives
nothing: one that is delivered again, or an unchanged row of a snapshot.

A truncation deletes the rows that exist at its place. Among changes of another segment than that of its event, its
place is before the first one with a later position.

The version of a change is its position in the database's log, or that of the commit log, which changes a row once: of
several changes of a row, the last one counts. Spark nets the changes of a row in the order of their
versions, so that these must ascend for each key: a version that does not is replaced by one more than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.formats.core.arrow_types import make_array

from .clearing import AllClearings, Clearing, Clearings, CompleteSnapshot, Mark, Truncation
from .entries import EntryReader, EventLocations, name_value
from .fold import Former, KeyFold, LeftOut, Reduction
from .log_versions import find_own
from .names import (
    DELETED,
    POSITION,
    SNAPSHOT,
    Mask,
    Names,
    Numbers,
    compute_version,
    compute_versions,
    find_times,
    make_ascending,
    read_columns,
    read_numbers,
    replace_columns,
)
from .order import KeyOrder, take_rows

INSERT, DELETE, BEFORE, AFTER = range(4)
"""The kinds of rows in a history: inserted, deleted, before an update, and after it."""

Within = Callable[[Numbers, Numbers], npt.NDArray[np.bool_]]
"""Selects changes by version and by time in microseconds since 1970."""


@dataclass(frozen=True)
class RowState:
    """The state of rows at the end of a history: their last entries, and the origins that the numbers in these mean.

    `cleared` are the truncations so far. Entries may come from several files, see `Former`. `events` is a JSON value
    that says from which events they come, where that matters. `scattered` entries should be sorted again.
    """

    origins: Sequence[str]
    cleared: Clearings
    entries: Former
    events: Any = None
    scattered: bool = False


class RowHistory(KeyFold):
    """Takes changes in order and returns what they did. Must be closed: it may hold temporary files."""

    def __init__(
        self,
        key: Sequence[str],
        columns: Sequence[str],
        memory: int,
        clearings: Sequence[Clearing] | None,
        within: Within,
        names: Names | None = None,
    ) -> None:
        """Begin without changes. `columns` are those of the table, without the key's; `memory` is in bytes.

        `clearings` are those of the whole stream, None if all of its changes come from one segment.
        """
        noted, names = AllClearings(), names or Names()
        truncations = noted.all
        if clearings is not None:
            truncations = [clearing for clearing in clearings if isinstance(clearing, Truncation)]
            noted.marks.update(clearing for clearing in clearings if isinstance(clearing, Mark))
        self.left_out = LeftOut()
        self._noted, self._names, self._truncations, self._before = noted, names, truncations, Clearings()
        self._reader = EntryReader(key, columns, self._names)
        shared = _Shared(
            tuple(key), tuple(columns), self._names, within, truncations, self._before, noted, self.left_out
        )
        super().__init__(key, memory, _Steps(shared))

    def resume(self, states: Sequence[RowState]) -> None:
        """Continue where other histories ended, which share no key. Call this first; states are read when needed."""
        former = []
        for state in states:
            numbers = np.array([*map(self._names.origin, state.origins), -1], np.int64)
            self._before.update(state.cleared)
            former.append([_mark_settled(file, numbers) for file in state.entries])
        self.begin_with(former)

    def feed(self, changes: pa.RecordBatch, locations: EventLocations) -> list[pa.Table]:
        """Take the changes of some events, after all earlier events; return the part of the history that is known.

        Tables have the columns by `name_value`, `change` (INSERT, ...), `version` and `timestamp` in microseconds.
        Raises MalformedEventError for a change whose row is unknown.
        """
        entries = self._reader.read(changes, locations, self._noted)
        entries = entries.append_column("version", pa.array(compute_versions(entries, self._names)))
        return self.add(entries.append_column("settled", pa.array(np.zeros(len(entries), np.int64))))

    def finish(self, keep: Callable[[RowState], None] | None = None, *, changed: bool = False) -> Iterator[pa.Table]:
        """Yield the rest of the history. Nothing may be fed after this.

        `keep` gets what another history needs to `resume`, in one or more parts; with `changed` only the changed rows,
        unless `kept_all` says that it got all.
        """
        if keep is None:
            return self.results()
        cleared = Clearings()
        cleared.update((*self._before, *self._truncations, *self._noted.marks))
        # A row that one of them deletes may get its origin.
        for clearing in cleared:
            self._names.origin(clearing.origin)
        origins = [*self._names.origin_texts]
        keep(RowState(origins, cleared, ()))
        return self.results(
            lambda left: keep(RowState(origins, cleared, [[left.drop_columns("settled")]])), changed=changed
        )

    @property
    def truncations(self) -> list[Truncation]:
        """Return the truncations that were among the changes so far."""
        return self._noted.all


def _mark_settled(file: Iterable[pa.Table], numbers: Numbers) -> Iterator[pa.Table]:
    """Mark entries as former ones, and renumber their origins."""
    for entries in file:
        renumbered = replace_columns(entries, origin=numbers[read_numbers(entries, "origin")])
        yield renumbered.append_column("settled", pa.array(np.ones(len(entries), np.int64)))


@dataclass(frozen=True)
class _Shared:
    """What the steps of all parts of a history share: its columns, and what may still grow.

    `truncations` are those of the whole history, `before` is what cleared rows before it, and `noted` is what was found
    among its changes.
    """

    key: tuple[str, ...]
    columns: tuple[str, ...]
    names: Names
    within: Within
    truncations: list[Truncation]
    before: Clearings
    noted: Clearings
    left_out: LeftOut


class _Steps(Reduction):
    """Finds what new entries change. The state is the last entry of each key, marked as `settled`."""

    def __init__(self, shared: _Shared, applied: Iterable[Truncation | CompleteSnapshot] = ()) -> None:
        self._shared, self._names = shared, shared.names
        self._applied = set(applied)
        self._cleared = Clearings()
        self._cleared.update(clearing for clearing in self._applied if isinstance(clearing, Truncation))

    def fork(self) -> _Steps:
        return _Steps(self._shared, self._applied)

    def reduce(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        whole = self._find_whole_versions(entries)
        state, history = self._take(entries.slice(0, whole))
        if whole < len(entries):
            state = pa.concat_tables([state, entries.slice(whole)]).combine_chunks()
        return state, history

    def _find_whole_versions(self, entries: pa.Table) -> int:
        """Return how many entries come before the last version of the log, which may have more of them."""
        if self._names.log is None or not len(entries):
            return len(entries)
        version, segment, settled = (read_numbers(entries, name) for name in ("version", "segment", "settled"))
        others = (version != version[-1]) | (segment != segment[-1]) | (settled != 0) | ~find_own(entries)
        return int(np.flatnonzero(others).max(initial=-1)) + 1

    def _take(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        history: list[pa.Table] = []
        due = self._find_due_truncations(entries)
        if not due:
            return self._step(entries)
        entries = entries.combine_chunks()
        state, begin = entries.slice(0, 0), 0
        for index, truncation in due:
            state, changes = self._step(pa.concat_tables([state, entries.slice(begin, index - begin)]))
            state, deletes = self._clear(state, truncation)
            history += [*changes, *deletes]
            begin = index
        state, changes = self._step(pa.concat_tables([state, entries.slice(begin)]))
        return state, [*history, *changes]

    def finish(self, state: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        history: list[pa.Table] = []
        if (read_numbers(state, "settled") == 0).any():
            state, history = self._take(state)
        clearings: list[Truncation | CompleteSnapshot] = [*self._list_pending(), *self._find_new_snapshots()]
        for clearing in sorted(clearings, key=_order_in_database):
            state, deletes = self._clear(state, clearing)
            history += deletes
        return state, history

    def has_to_read_all(self) -> bool:
        return bool(self._list_pending() or self._find_new_snapshots())

    def _list_pending(self) -> list[Truncation]:
        return [truncation for truncation in self._shared.truncations if truncation not in self._applied]

    def _find_new_snapshots(self) -> list[CompleteSnapshot]:
        """Return the snapshots that are complete now, but were not where the history begins."""
        noted, before = self._shared.noted, self._shared.before
        if not noted.marks:
            return []
        every = Clearings(marks=noted.marks | before.marks)
        former = before.snapshots()
        return [snapshot for snapshot in every.snapshots() if snapshot not in former and snapshot not in self._applied]

    def _find_due_truncations(self, entries: pa.Table) -> list[tuple[int, Truncation]]:
        """Return the truncations that come before some new entry, each after the place of that entry, in order."""
        pending = self._list_pending()
        if not pending:
            return []
        new = np.flatnonzero(read_numbers(entries, "settled") == 0)
        numbers = {name: column[new] for name, column in read_columns(entries).items()}
        due = []
        for truncation in pending:
            later = truncation.is_before(numbers, self._names)
            if later.any():
                due.append((int(new[int(np.argmax(later))]), truncation))
        return sorted(due, key=lambda one: (one[0], _order_in_database(one[1])))

    def _clear(self, state: pa.Table, clearing: Truncation | CompleteSnapshot) -> tuple[pa.Table, list[pa.Table]]:
        """Delete the rows that a truncation clears, or a snapshot lacks."""
        self._applied.add(clearing)
        moment = clearing.moment
        if isinstance(clearing, Truncation):
            self._cleared.add(clearing)
        numbers = read_columns(state)
        gone = np.flatnonzero((numbers["kind"] != DELETED) & clearing.clears(numbers, self._names))
        if not len(gone):
            return state, []
        marks = self._make_deletions(state.take(pa.array(gone)), clearing)
        former = read_numbers(state, "version")[gone]
        marks = replace_columns(marks, version=np.maximum(former + 1, read_numbers(marks, "version")))
        history = self._make_history(state, marks, np.arange(len(gone)), gone, np.full(len(gone), DELETE))
        marks = replace_columns(marks, time=np.maximum(numbers["time"][gone], moment.time))
        if isinstance(clearing, CompleteSnapshot):
            marks = replace_columns(marks, origin=-1)  # as `_insert_deletions` does
        remains = np.ones(len(state), np.bool_)
        remains[gone] = False
        return pa.concat_tables([state.filter(pa.array(remains)), marks]).combine_chunks(), history

    def _make_deletions(self, entries: pa.Table, clearing: Truncation | CompleteSnapshot) -> pa.Table:
        """Return the entries that delete the rows of these entries."""
        moment = clearing.moment
        deletion = {"kind": DELETED, "missing": 0, "time": moment.time, "ts": moment.ts}
        deletion |= {"origin": self._names.origin(clearing.origin), **dict(zip(POSITION, moment.position, strict=True))}
        deletion["version"] = compute_version(clearing.origin, moment.position)
        return replace_columns(entries, **deletion)

    def _insert_deletions(self, entries: pa.Table, order: KeyOrder, snapshots: Sequence[CompleteSnapshot]) -> pa.Table:
        """Keep the entries that count, with a deletion where a key continues after a snapshot that lacked its row.

        Unlike a truncation, a snapshot deletes nothing before the first event after it: rows that it has read may
        still follow in another segment of the group.
        """
        chosen = order.entries
        numbers = {name: column[chosen] for name, column in read_columns(entries).items()}
        parts, places = [entries.take(pa.array(chosen))], [chosen * 2 + 1]
        left = ~order.first[1:] & (numbers["kind"][:-1] != DELETED)
        for snapshot in snapshots:
            gone, read = snapshot.clears(numbers, self._names), snapshot.has_read(numbers, self._names)
            here = np.flatnonzero(left & gone[:-1] & ~gone[1:] & ~read[1:])
            left[here] = False
            deletions = self._make_deletions(parts[0].take(pa.array(here)), snapshot)
            # Whatever follows counts: its position may be one of another server or log.
            parts.append(replace_columns(deletions, origin=-1, settled=0))
            places.append(chosen[here + 1] * 2)
        sequence = np.argsort(np.concatenate(places), kind="stable")
        return pa.concat_tables(parts).take(pa.array(sequence)).combine_chunks()

    def _step(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Process entries that no truncation separates."""
        shared = self._shared
        stale = self._cleared.find_cleared(entries, self._names) | shared.before.find_cleared(entries, self._names)
        if stale.any():
            entries = entries.filter(pa.array(~stale | (read_numbers(entries, "settled") != 0)))
        order = KeyOrder(entries, shared.key, self._names)
        shared.left_out.note(entries, order.left_out)
        if snapshots := self._find_new_snapshots():
            entries = self._insert_deletions(entries.combine_chunks(), order, snapshots)
            order = KeyOrder(entries, shared.key, self._names)
        entries = order.fill_in(shared.columns)
        if len(replaced := self._find_replaced(entries, order)):
            entries = entries.filter(pa.array(~np.isin(np.arange(len(entries)), replaced)))
            order = KeyOrder(entries, shared.key, self._names)
        entries = self._number_versions(entries, order)
        # Deleted rows stay too: if one comes back, its versions continue.
        kept = order.last[np.argsort(order.entries[order.last])]
        state = take_rows(entries, order.entries[kept])
        state = replace_columns(state, time=order.newest(kept), settled=1)
        return state, self._find_changes(entries, order)

    def _find_replaced(self, entries: pa.Table, order: KeyOrder) -> Numbers:
        """Return the new entries that a later one of the same key and version of the log replaces.

        One that repeats the row, such as those of a compaction, replaces none: the change before it counts.
        """
        if self._names.log is None:
            return np.zeros(0, np.int64)
        new = (find_own(entries) & (read_numbers(entries, "settled") == 0))[order.entries]
        versions = read_numbers(entries, "version")[order.entries]
        repeats = (read_numbers(entries, "kind") == SNAPSHOT)[order.entries]
        again = ~order.first[1:] & new[:-1] & new[1:] & (versions[:-1] == versions[1:]) & ~repeats[1:]
        replaced: Numbers = order.entries[:-1][again]
        return replaced

    def _number_versions(self, entries: pa.Table, order: KeyOrder) -> pa.Table:
        versions = read_numbers(entries, "version")
        sorted_versions = versions[order.entries]
        first = order.first
        if self._names.log is not None:
            own = find_own(entries)[order.entries]
            first = first | (own & np.append(False, own[:-1]))  # the log's versions are as they are
        ascending = make_ascending(sorted_versions, first)
        if ascending is sorted_versions:
            return entries
        versions = versions.copy()
        versions[order.entries] = ascending
        return replace_columns(entries, version=versions)

    def _find_changes(self, entries: pa.Table, order: KeyOrder) -> list[pa.Table]:
        """Return what the new entries do to rows, in the order of their events."""
        former = order.find_former()
        exists = read_numbers(entries, "kind") != DELETED
        is_there, was_there = exists[order.entries], ~order.first & exists[former]
        new = read_numbers(entries, "settled")[order.entries] == 0
        updated = np.flatnonzero(new & is_there & was_there)
        updated = updated[~self._is_known_before(entries, order.entries[updated], former[updated])]
        counts, kinds = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
        for kind, chosen in ((INSERT, new & is_there & ~was_there), (DELETE, new & ~is_there & was_there)):
            counts[order.entries[chosen]], kinds[order.entries[chosen]] = 1, kind
        counts[order.entries[updated]], kinds[order.entries[updated]] = 2, BEFORE
        before = np.zeros(len(entries), np.int64)
        before[order.entries] = former
        causes, kinds = np.repeat(np.arange(len(entries)), counts), np.repeat(kinds, counts)
        kinds[np.cumsum(counts)[order.entries[updated]] - 1] = AFTER
        rows = np.where((kinds == DELETE) | (kinds == BEFORE), before[causes], causes)
        return self._make_history(entries, entries, causes, rows, kinds)

    def _make_history(
        self, rows: pa.Table, causes: pa.Table, cause: Numbers, row: Numbers, kinds: Numbers
    ) -> list[pa.Table]:
        """Return the wanted part of the history that these changes cause."""
        versions, times = read_numbers(causes, "version")[cause], find_times(causes, self._names)[cause]
        chosen = self._shared.within(versions, times)
        if self._names.log is not None:
            repeated = read_numbers(causes, "kind")[cause] == SNAPSHOT
            chosen &= ~(repeated & np.isin(versions, self._names.log.hidden))
        if not chosen.any():
            return []
        if not chosen.all():
            row, kinds, versions, times = row[chosen], kinds[chosen], versions[chosen], times[chosen]
        names = [name_value(name) for name in (*self._shared.key, *self._shared.columns)]
        table = rows.select(names).combine_chunks().take(make_array(row))
        for name, numbers in (("change", kinds), ("version", versions), ("timestamp", times)):
            table = table.append_column(name, make_array(numbers))
        return [table]

    def _is_known_before(self, entries: pa.Table, now: Numbers, former: Numbers) -> Mask:
        """Return which entries are delivered again, or read by a snapshot, with the row unchanged.

        `former` are the entries before them.
        """
        again = read_numbers(entries, "origin")[now] >= 0
        for name in ("minor", "origin", "major", "row"):
            numbers = read_numbers(entries, name)
            again &= numbers[now] == numbers[former]
        suspects = np.flatnonzero(again | (read_numbers(entries, "kind")[now] == SNAPSHOT))
        is_same = np.zeros(len(now), np.bool_)
        if len(suspects):
            same = np.ones(len(suspects), np.bool_)
            for name in self._shared.columns:
                column = entries.column(name_value(name)).combine_chunks()
                left, right = (column.take(make_array(places[suspects])) for places in (former, now))
                same &= _is_equal(left, right)
            is_same[suspects] = same
        return is_same


def _order_in_database(clearing: Truncation | CompleteSnapshot) -> tuple[int, tuple[int, int, int], int]:
    """Return the sort key that puts truncations and snapshots in the order in which the database made them."""
    moment = clearing.moment
    return moment.time, moment.position, moment.ts


def _is_equal(left: pa.Array, right: pa.Array) -> Mask:
    """Return which values are the same; nulls are, and NaN is."""
    if pa.types.is_nested(left.type):
        # Arrow cannot compare nested values, so compare their texts, which works for NaN too.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([repr(a) == repr(b) for a, b in pairs], np.bool_)
    same = pc.fill_null(pc.equal(left, right), False)
    neither = pc.and_(left.is_null(nan_is_null=True), right.is_null(nan_is_null=True))
    nulls = pc.equal(left.is_null(), right.is_null())
    result: Mask = pc.or_(same, pc.and_(neither, nulls)).to_numpy(zero_copy_only=False)
    return result
