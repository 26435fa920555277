"""Histories of a small database, whose own rows at the end are what every way of folding its changes must lead to.

Its log begins again now and then. Its connector takes snapshots, some of which are interrupted, and delivers again what
it has written since its offsets were last stored. Events of a key stay in the key's segment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.clearing import AllClearings, Clearing
from pyspark_pravega.datasource.changes.rows.current import CurrentRows
from pyspark_pravega.datasource.changes.rows.entries import EntryReader, EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.names import Names
from tests.datasource.changes.rows.test_history import apply_history, history
from tests.datasource.changes.test_states import Batches, Found
from tests.datasource.single_changes import SCHEMA, Change

pytestmark = pytest.mark.slow

KEYS = 6
Event = tuple[int, Change]
"""The offset of an event in its segment, and the event."""


class Database:
    """A table, its log and its connector, whose `events` are by segment in the order in which they were written."""

    def __init__(self, rng: random.Random, segments: int) -> None:
        self.rng, self.segments = rng, segments
        self.rows: dict[int, str] = {}
        self.events: list[Event] = []
        self.position, self.time = 500, 1000
        self._offsets = [0] * segments
        self._stored = 0
        """How many of this life's changes need not be delivered again."""
        self._life: list[Change] = []

    def write(self, change: Change) -> None:
        """Let the connector write an event now."""
        self.time += 1
        segment = (change.id or 0) % self.segments if change.op != "t" else self.rng.randrange(self.segments)
        change = Change(**{**vars(change), "ts": self.time, "segment": segment})
        self.events.append((self._offsets[segment], change))
        self._offsets[segment] += 1

    def change(self, *, seen: bool = True) -> None:
        """Change a row; the connector sees it or, where its log is lost, does not."""
        self.position += self.rng.randrange(1, 3)
        self.time += 2
        key = self.rng.randrange(KEYS)
        # The time is when the statement began.
        common = {"at": self.position, "time": self.time - self.rng.randrange(20)}
        if key in self.rows and self.rng.random() < 0.4:
            del self.rows[key]
            change = Change("d", key, **common)  # type: ignore[arg-type]
        elif self.rng.random() < 0.03:
            self.rows.clear()
            change = Change("t", at=self.position, time=self.time)
        else:
            op = "u" if key in self.rows else "c"
            self.rows[key] = f"{self.time}"
            change = Change(op, key, self.rows[key], **common)  # type: ignore[arg-type]
        if seen:
            self._life.append(change)
            self.write(change)

    def restart(self) -> None:
        """Deliver again what was written since the offsets were last stored.

        The table is read before all of it has come. But a truncation alone would clear rows whose statements began
        before it and were done after it, until they come again, too.
        """
        again = self._life[self._stored :]
        if all(change.op != "t" for change in again):
            again = again[: self.rng.randrange(len(again) + 1)]
        for change in again:
            self.write(change)

    def snapshot(self, *, interrupted: bool = False) -> None:
        """Read all rows, or the first ones."""
        ids = sorted(self.rows)
        self.time += 5
        for number, key in enumerate(ids[: len(ids) // 2] if interrupted else ids):
            mark = "last" if number == len(ids) - 1 else "first" if number == 0 else "true"
            self.write(Change("r", key, self.rows[key], self.position, time=self.time, snapshot=mark))

    def begin_log_again(self) -> None:
        """Lose the log and the changes that were in it, and be read by a snapshot."""
        for _ in range(self.rng.randrange(8)):
            self.change(seen=False)
        self.position, self.time = self.rng.randrange(200), self.time + 50
        self._life, self._stored = [], 0
        while len(self.rows) < 2:
            self.change(seen=False)
        if self.rng.random() < 0.5:
            self.snapshot(interrupted=True)
            self.change(seen=False)
            while len(self.rows) < 2:
                self.change(seen=False)
        self.snapshot()

    def live(self, steps: int) -> None:
        """Do something, over and over."""
        for _ in range(steps):
            what = self.rng.random()
            if what < 0.04:
                self.begin_log_again()
            elif what < 0.08:
                self.restart()
            elif what < 0.14:
                self._stored = len(self._life)
            else:
                self.change()


def clearings_of(events: Sequence[Event]) -> list[Clearing]:
    """What the search finds in all segments."""
    found, reader = AllClearings(), EntryReader(["id"], [], Names())
    for offset, change in events:
        batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
        reader.read(batch, EventLocations(change.segment, np.array([offset]), np.array([1])), found)
    return [*found.all, *found.marks]


def in_segment(events: Sequence[Event], segment: int) -> list[Event]:
    return [event for event in events if event[1].segment == segment]


def current(events: Sequence[Event], clearings: Sequence[Clearing], memory: int, size: int) -> dict[int, str]:
    """The current rows of some events of one segment, a batch of some size at a time."""
    with CurrentRows(["id"], ["v"], memory) as rows:
        for clearing in clearings:
            rows.clearings.add(clearing)
        for begin in range(0, len(events), size):
            part = events[begin : begin + size]
            batch = pa.RecordBatch.from_pylist([change.row() for _, change in part], schema=SCHEMA)
            offsets = np.array([offset for offset, _ in part])
            rows.feed(batch, EventLocations(part[0][1].segment, offsets, np.ones(len(part), np.int64)))
        found = [row for part in rows.rows() for row in part.to_pylist()]
    return {row[name_value("id")]: row[name_value("v")] for row in found}


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_all_ways_lead_to_the_rows_of_the_database(seed: int, segments: int, tmp_path: Path) -> None:
    rng = random.Random(seed * 10 + segments)
    database = Database(rng, segments)
    database.live(120)
    clearings = clearings_of(database.events) if segments > 1 else []
    rows: list[dict[int, str]] = [{}, {}, {}, {}]
    for segment in range(segments):
        events = in_segment(database.events, segment)
        for place, (memory, size) in enumerate([(1 << 28, 1000), (1 << 28, 3), (3_000, 7)]):
            rows[place] |= current(events, clearings, memory, size)
        changes = [change for _, change in events]
        rows[3] |= apply_history(history(changes, truncations=clearings if segments > 1 else None))
    assert rows == [database.rows] * 4

    ends = [*sorted(rng.sample(range(len(database.events)), 4)), len(database.events)]
    streams = [Batches(tmp_path / str(segment)) for segment in range(segments)]
    found: list[Found] = [[] for _ in streams]
    begin = 0
    for end in ends:
        batch = database.events[begin:end]
        begin = end
        new = clearings_of(batch) if segments > 1 else None
        for segment, stream in enumerate(streams):
            found[segment] += stream.take(in_segment(batch, segment), new)
    streamed = [apply_history(one) for one in found]
    assert {key: value for part in streamed for key, value in part.items()} == database.rows
