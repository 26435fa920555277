"""Folds changes into the current rows of a table: the latest state of each primary key, without deleted ones.

Entries (see `entries`) are folded in the order of their events. Of two entries of a key, this one counts:

* a row that a snapshot read replaces whatever came before it;
* a change replaces what came before it, unless its position in the database's log is older and its time is not newer
  than all that its key has shown: then it was written again after a restart of the connector, and newer changes of its
  key exist. A change that is older in position but newer in time is of a log that has started over. Positions are
  compared if they have the same origin; equal ones are not older;
* against a row of a snapshot, a change must be older both in position and in the database's time: a transaction that
  was open while the snapshot was taken has older positions, but was committed later;
* for what a truncation clears, see `Truncation.clears`.

A column whose value was not sent (`unavailable`) keeps its former value for the key, null if there is none.

Entries are kept in memory up to a limit, and reduced to one for each key when they have doubled. Beyond the limit they
go to temporary files by a hash of the key, each of which is folded by itself in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from .clearing import Clearings
from .entries import EntryReader, EventLocations
from .fold import KeyFold, LeftOut, Reduction
from .names import DELETED, Mask, Names, Numbers, OlderPositions, read_numbers, replace_columns
from .order import KeyOrder, find_last, take_rows
from .row_history import RowState


class CurrentRows(KeyFold):
    """Takes changes in order and returns the resulting rows. Must be closed: it may hold temporary files."""

    def __init__(
        self, key: Sequence[str], columns: Sequence[str], memory: int, ages: OlderPositions = OlderPositions.BY_TIME
    ) -> None:
        """Begin without rows. `columns` are those to return, without the key's; `memory` is in bytes."""
        self._names = Names(ages)
        self.clearings = Clearings()
        self.left_out = LeftOut()
        self._reader = EntryReader(key, columns, self._names)
        self._latest = _Latest(key, columns, self._names, self.left_out)
        super().__init__(key, memory, self._latest)

    def resume(self, state: RowState) -> None:
        """Continue where another fold ended, whose state is read when it is needed. Call this first."""
        for origin in state.origins:
            self._names.origin(origin)  # which gets the same number as there
        self.clearings.update(state.cleared)
        self._latest.renews = state.scattered
        self.begin_with([state.entries])

    def state(self, segments: Iterable[int]) -> RowState:
        """Return what another fold needs to `resume`, without entries: `rows` passes these to `keep`.

        Truncations and marks of other segments than these are left out.
        """
        own, cleared = set(segments), Clearings()
        cleared.update(clearing for clearing in self.clearings if clearing.segment in own)
        return RowState([*self._names.origin_texts], cleared, ())

    def feed(self, changes: pa.RecordBatch, locations: EventLocations) -> None:
        """Take the changes of some events of one segment, after all earlier events.

        They have the columns `op`, `before`, `after`, `ts`, `unavailable` and `position` of a changelog. Raises
        MalformedEventError for a change whose row is unknown.
        """
        self.add(self._reader.read(changes, locations, self.clearings))

    def rows(self, keep: Callable[[pa.Table], None] | None = None) -> Iterator[pa.Table]:
        """Yield the current rows, each once: columns by `name_value`, and NUMBERS. Nothing may be fed after this.

        `keep` gets the entries with which another fold can go on.
        """
        return self.rows_among(self.results(keep))

    def rows_among(self, states: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows among the last entries of keys."""
        for entries in states:
            is_row = (read_numbers(entries, "kind") != DELETED) & ~self.clearings.find_cleared(entries, self._names)
            rows = entries if is_row.all() else entries.filter(pa.array(is_row))
            if len(rows):
                yield rows


class _Latest(Reduction):
    """Keeps the one entry of each key that counts."""

    def __init__(self, key: Sequence[str], columns: Sequence[str], names: Names, left_out: LeftOut) -> None:
        self._key, self._columns, self._names, self._left_out = tuple(key), tuple(columns), names, left_out
        self.renews = False
        """Whether all entries are kept in a new order, also those of keys without new entries."""

    def has_to_read_all(self) -> bool:
        return self.renews

    def list_unchanged(self, states: pa.Table) -> list[pa.Table]:
        return [states]

    def reduce(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        last = find_last(entries, self._key)
        if last is not None:
            return take_rows(entries, last[self._is_remembered(entries, last)]), []
        order = KeyOrder(entries, self._key, self._names)
        self._left_out.note(entries, order.left_out)
        indices = order.last[self._is_remembered(entries, order.entries[order.last])]
        indices = indices[np.argsort(order.entries[indices])]
        state = order.take_entries(indices, self._columns)
        return replace_columns(state, time=order.newest(indices)), []

    def _is_remembered(self, entries: pa.Table, last: Numbers) -> Mask:
        """Return which of the last entries stay: a deletion only if its position can show that a later one is older."""
        kind, origin = (read_numbers(entries, name)[last] for name in ("kind", "origin"))
        remembered: Mask = (kind != DELETED) | (origin >= 0)
        return remembered
