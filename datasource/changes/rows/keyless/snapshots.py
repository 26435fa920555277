"""Finds where the snapshots of a table without a primary key begin, and which entries lie before them.

Debezium marks the first and the last row of a table in a snapshot (`source.snapshot`; the only row of a table as the
last one). The rows of a snapshot are those that the connector handled from the first one on. Without such marks, the
rows of one position in the database's log form a snapshot.

A snapshot replaces what was there once it is complete: its last row has come, or changes after it have. A snapshot that
never became complete is ignored, unless there is nothing before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..clearing import BEGINS, LAST_OF_TABLE, MARKS_OF_SNAPSHOTS, has_older_position
from ..names import POSITION, SNAPSHOT, UNKNOWN, Columns, Mask, Names, Numbers

_NEVER = 2**63 - 1


@dataclass
class Snapshot:
    """The begin of a snapshot: in the database, in time, and (`offsets`) in each segment."""

    origin: int
    position: tuple[int, int, int]
    time: int
    ts: int
    offsets: dict[int, int] = field(default_factory=dict)
    complete: bool = True

    def clears(self, numbers: Columns, names: Names) -> Mask:
        """Return which entries were made before the snapshot, given that none of them belongs to it."""
        ts, time = numbers["ts"], numbers["time"]
        before: Mask = (ts != UNKNOWN) & (ts < self.ts)
        for segment, first in self.offsets.items():
            before |= (numbers["segment"] == segment) & (numbers["offset"] < first)
        # Written again after it. A transaction that was open at its begin has an older position, but ended later.
        again = (numbers["origin"] == self.origin) & has_older_position(self.position, numbers)
        before |= again & (self.origin >= 0) & (time != UNKNOWN) & (time < self.time)
        return before


class Snapshots:
    """Finds the snapshots among entries, all of which must be noted first."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, str, Snapshot]] = []
        self._by_position: dict[tuple[int, ...], Snapshot] = {}
        self._first_change, self._last_change = _NEVER, UNKNOWN

    def note(self, numbers: Columns, marks: npt.NDArray[np.str_]) -> None:
        """Note some entries of one segment; `marks` are the texts of `source.snapshot`."""
        read = numbers["kind"] == SNAPSHOT
        times = numbers["ts"][~read & (numbers["ts"] != UNKNOWN)]
        if len(times):
            self._first_change = min(self._first_change, int(times.min()))
            self._last_change = max(self._last_change, int(times.max()))
        if not read.any():
            return
        for row in np.flatnonzero(read & (numbers["ts"] != UNKNOWN) & np.isin(marks, MARKS_OF_SNAPSHOTS)).tolist():
            value = {name: int(column[row]) for name, column in numbers.items()}
            position = (value["major"], value["minor"], value["row"])
            offsets = {value["segment"]: value["offset"]}
            snapshot = Snapshot(value["origin"], position, value["time"], value["ts"], offsets)
            self._marks.append((value["ts"], str(marks[row]), snapshot))
        rows = np.flatnonzero(read & (numbers["origin"] >= 0))
        positions = np.stack([numbers[name][rows] for name in ("origin", *POSITION)])
        order = np.lexsort(positions)
        new = np.append(np.ones(min(1, len(order)), np.bool_), (np.diff(positions[:, order]) != 0).any(axis=0))
        begins = np.flatnonzero(new)
        if len(begins):
            least = [
                np.minimum.reduceat(numbers[name][rows][order], begins).tolist() for name in ("time", "ts", "offset")
            ]
            segment = int(numbers["segment"][0])
            for (origin, *at), time, ts, offset in zip(positions[:, order[begins]].T.tolist(), *least, strict=True):
                position = (at[0], at[1], at[2])
                known_snapshot = self._by_position.setdefault((origin, *position), Snapshot(origin, position, time, ts))
                known_snapshot.time, known_snapshot.ts = min(known_snapshot.time, time), min(known_snapshot.ts, ts)
                known_snapshot.offsets[segment] = min(known_snapshot.offsets.get(segment, offset), offset)

    @cached_property
    def _marked(self) -> list[Snapshot]:
        """Return the snapshots whose beginning is marked, in their order."""
        snapshots: list[Snapshot] = []
        begins = {mark for _, mark, _ in self._marks if mark in BEGINS}
        for _, mark, snapshot in sorted(self._marks, key=lambda marked: marked[0]):
            # Connectors that mark no beginning mark the end of all tables.
            if mark in BEGINS or ((not snapshots or snapshots[-1].complete) and (begins or mark == LAST_OF_TABLE)):
                snapshots.append(snapshot)
                snapshot.complete = mark not in BEGINS
            elif snapshots:
                snapshots[-1].complete = True
        if snapshots and self._last_change > snapshots[-1].ts:
            snapshots[-1].complete = True
        return snapshots

    @cached_property
    def all(self) -> list[Snapshot]:
        """Return the snapshots in their order; those that are not `complete` do not count."""
        snapshots = list(self._marked)
        first = snapshots[0].ts if snapshots else _NEVER
        snapshots += [snapshot for snapshot in self._by_position.values() if snapshot.ts < first]
        snapshots.sort(key=lambda one: (one.ts, one.position))
        rest_is_read = False
        for one in snapshots:
            rest_is_read = rest_is_read or one.complete or self._first_change < one.ts
            # A part of the rows is better than none.
            one.complete = one.complete or not rest_is_read
        return snapshots

    def of_rows(self, numbers: Columns) -> Numbers:
        """Return the number, in `all`, of each entry's snapshot; -1 for changes, and if it is unknown."""
        own = np.full(len(numbers["kind"]), -1, np.int64)
        read = numbers["kind"] == SNAPSHOT
        marked = np.array([number for number, one in enumerate(self.all) if id(one) in map(id, self._marked)], np.int64)
        begins = np.array([self.all[number].ts for number in marked.tolist()], np.int64)
        behind = np.searchsorted(begins, numbers["ts"], side="right")
        chosen = read & (numbers["ts"] != UNKNOWN) & (behind > 0)
        own[chosen] = marked[behind[chosen] - 1]
        rest = read & (own < 0) & (numbers["origin"] >= 0)
        for number in set(range(len(self.all))).difference(marked.tolist()) if rest.any() else ():
            here = rest & (numbers["origin"] == self.all[number].origin)
            for name, value in zip(POSITION, self.all[number].position, strict=True):
                here &= numbers[name] == value
            own[here] = number
        return own

    def find_after_changes(self, numbers: Columns, own: Numbers) -> Mask:
        """Return which rows may exist already: their snapshot is unknown, and changes came before them."""
        unknown: Mask = (numbers["kind"] == SNAPSHOT) & (own < 0) & (numbers["ts"] > self._first_change)
        return unknown
