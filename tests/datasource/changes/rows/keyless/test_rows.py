"""Tables without a primary key: equal rows are counted, whatever the order and the segments of events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.keyless.rows import KeylessRows
from pyspark_pravega.datasource.changes.rows.row_history import AFTER, INSERT
from pyspark_pravega.datasource.tables.change_range import Bounds
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import POSITION_TYPE

COLUMNS = ("v", "w", "xs")
ROW = pa.struct([("v", pa.string()), ("w", pa.float64()), ("xs", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("before", ROW),
        ("after", ROW),
        ("marks", pa.struct([("snapshot", pa.string()), ("row", pa.int64())])),
        ("ts", pa.timestamp("us", "UTC")),
        ("unavailable", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ("position", POSITION_TYPE),
    ]
)
SECOND = 1_000_000
EVERYTHING = Bounds("version", -(2**63), 2**63 - 1)

Value = str | None


@dataclass(frozen=True)
class Change:
    """One change: the row before and after it, by the value of `v`; `at` is the position, None if it is not told."""

    op: str | None
    before: Value = None
    after: Value = None
    at: int | None = None
    ts: int | None = None
    time: int | None = None
    without: tuple[str, ...] = ()
    segment: int = 0
    snapshot: str = "false"
    origin: str = "postgresql/x/db"
    row: int | None = None

    def event(self) -> dict[str, Any]:
        after = values(self.after) if self.op in ("c", "r", "u") else None
        for name in self.without:
            assert after is not None
            after[name] = None
        return {
            "op": self.op,
            "before": values(self.before) if self.op in ("u", "d") and self.before != "none" else None,
            "after": after,
            "marks": {"snapshot": self.snapshot, "row": self.row},
            "ts": self.ts,
            "unavailable": list(self.without),
            "position": {
                "origin": None if self.at is None else self.origin,
                "major": self.at,
                "minor": 0,
                "row": self.row or 0,
                "time": self.time,
            },
        }


def values(v: Value) -> dict[str, Any]:
    """A row whose other columns hold what is hard to compare."""
    return {"v": v, "w": float("nan") if v is None else float(len(v)), "xs": None if v == "a" else [1, None]}


def feed_in_batches(keyless: KeylessRows, changes: Iterable[Change], size: int) -> None:
    offsets: Counter[int] = Counter()
    run: list[Change] = []
    for change in [*changes, None]:
        if run and (change is None or change.segment != run[0].segment or len(run) == size):
            segment = run[0].segment
            batch = pa.RecordBatch.from_pylist([change.event() for change in run], schema=SCHEMA)
            at = offsets[segment] + np.arange(len(run))
            keyless.feed(batch, EventLocations(segment, at, np.ones(len(run), np.int64)))
            offsets[segment] += len(run)
            run = []
        if change is not None:
            run.append(change)


def rows_of(
    changes: Iterable[Change], memory: int = 1 << 28, size: int = 100, *, lenient: bool = False
) -> Counter[Value]:
    with KeylessRows(COLUMNS, ["v"], memory, lenient=lenient) as keyless:
        feed_in_batches(keyless, changes, size)
        assert (keyless._files is not None) == (memory < 1 << 28)
        return Counter(value for part in keyless.results() for value in part.column(name_value("v")).to_pylist())


def history_of(changes: Iterable[Change], within: Bounds = EVERYTHING, memory: int = 1 << 28) -> list[dict[str, Any]]:
    with KeylessRows(COLUMNS, ["v"], memory, within) as keyless:
        feed_in_batches(keyless, changes, 100)
        return [row for part in keyless.results() for row in part.to_pylist()]


def apply_history(history: Iterable[dict[str, Any]]) -> Counter[Value]:
    found: Counter[Value] = Counter()
    for row in history:
        found[row[name_value("v")]] += 1 if row["change"] in (INSERT, AFTER) else -1
    assert min(found.values(), default=0) >= 0
    return +found


def test_equal_rows_are_counted() -> None:
    changes = [Change("c", after="a"), Change("c", after="a"), Change("c", after=None), Change("c", after="b")]
    assert rows_of(changes) == {"a": 2, None: 1, "b": 1}
    changes += [Change("d", "a"), Change("u", "b", "a"), Change("d", None), Change(None), Change("m")]
    assert rows_of(changes) == {"a": 2}
    assert apply_history(history_of(changes)) == {"a": 2}


def test_the_order_of_segments_does_not_matter() -> None:
    changes = [Change("u", "a", "b", segment=0), Change("d", "c", segment=0)]
    changes += [Change("c", after="c", segment=1), Change("c", after="a", segment=1)]
    assert rows_of(changes) == {"b": 1}


def test_a_log_that_has_begun_again_gives_positions_again() -> None:
    first = Change("c", after="a", at=10, time=SECOND, ts=SECOND, row=0, origin="mysql/x/1/bin")
    same = replace(first, time=9 * SECOND, ts=9 * SECOND)
    assert rows_of([first, replace(first, ts=5 * SECOND), same]) == {"a": 2}
    assert apply_history(history_of([first, same, replace(same, ts=20 * SECOND)])) == {"a": 2}
    # A truncation of the former log clears no rows of the new one, and the other way round.
    truncate = Change("t", at=99, time=2 * SECOND, ts=2 * SECOND, segment=1)
    assert rows_of([first, truncate, same]) == {"a": 1}
    assert rows_of([first, replace(truncate, at=1, time=8 * SECOND, ts=8 * SECOND), same]) == {"a": 1}


def test_a_value_that_was_not_sent_is_that_of_before() -> None:
    changes = [Change("c", after="a"), Change("u", "a", "a", without=("v", "xs")), Change("u", "a", "b")]
    assert rows_of(changes) == {"b": 1}


COPIED = [Change("c", after="a", at=7, ts=SECOND + second) for second in range(3)]


def repeat_at(changes: Iterable[Change], ts: int) -> list[Change]:
    return [replace(change, ts=ts) for change in changes]


def test_what_a_copy_writes_at_once_counts_and_what_is_delivered_again_does_not() -> None:
    assert rows_of(COPIED) == {"a": 3}
    assert rows_of([*COPIED, *repeat_at(COPIED, 60 * SECOND)]) == {"a": 3}
    update = Change("u", "a", "b", at=8, ts=2 * SECOND)
    again = [*repeat_at(COPIED, 60 * SECOND), *repeat_at([update], 61 * SECOND)]
    changes = [*COPIED, update, *again, Change("d", "b", at=9, ts=62 * SECOND)]
    assert rows_of(changes) == {"a": 2}
    assert apply_history(history_of(changes)) == {"a": 2}
    # Nothing tells that these are the same.
    assert rows_of([replace(copied, at=None) for copied in COPIED] * 2) == {"a": 6}
    assert rows_of([replace(copied, ts=None) for copied in COPIED] * 2) == {"a": 6}


def test_a_delivery_that_was_cut_off_is_not_the_one_that_counts() -> None:
    assert rows_of([*COPIED[:2], *repeat_at(COPIED, 60 * SECOND)]) == {"a": 3}
    assert rows_of([*COPIED, *repeat_at(COPIED[:1], 60 * SECOND), *repeat_at(COPIED[:2], 90 * SECOND)]) == {"a": 3}


@pytest.mark.parametrize("origin", ["mysql/x/1/b", "maxwell/None/1/b", "sqlserver/x/db"])
def test_where_a_position_is_that_of_one_row_it_tells_alone(origin: str) -> None:
    """Maxwell's time of a change is that of the database, and so the same again."""
    rows = [Change("c", after="a", at=7, ts=5, origin=origin, row=number) for number in range(3)]
    assert rows_of([*rows, *rows]) == {"a": 3}
    assert rows_of([replace(row, ts=None) for row in (*rows, *rows)]) == {"a": 3}
    without_row = [replace(row, row=None) for row in rows]
    assert rows_of(without_row) == ({"a": 1} if origin.startswith("sqlserver") else {"a": 3})


def test_truncations_clear_what_was_before_them() -> None:
    changes = [
        Change("c", after="a", at=1),
        Change("c", after="a", at=3, segment=1),
        Change("t", at=2, time=5 * SECOND),
        Change("d", "a", at=4, segment=1),
        Change("c", after="b", at=5),
    ]
    assert rows_of(changes) == {"b": 1}
    assert apply_history(history_of(changes)) == {"b": 1}
    cleared = [row for row in history_of(changes) if row["version"] == 2]
    assert [(row[name_value("v")], row["change"], row["timestamp"]) for row in cleared] == [("a", 1, 5 * SECOND)]


def snapshot(rows: str, at: int | None, ts: int, segments: Sequence[int] = (0,), **more: Any) -> list[Change]:
    """The rows of a snapshot, with the marks of Debezium."""
    marks = ["first_in_data_collection", *["true"] * (len(rows) - 2), "last_in_data_collection"][-len(rows) :]
    return [
        Change(
            "r",
            after=row,
            at=at,
            ts=ts + place,
            time=ts,
            snapshot=mark,
            segment=segments[place % len(segments)],
            **more,
        )
        for place, (row, mark) in enumerate(zip(rows, marks, strict=True))
    ]


def test_a_snapshot_takes_the_place_of_all_before_it() -> None:
    first = snapshot("aab", 10, SECOND)
    between = [Change("c", after="c", at=20, ts=2 * SECOND, time=2 * SECOND), Change("d", "a", at=21, time=2 * SECOND)]
    # A transaction that was open when the snapshot began has an older position.
    behind = [Change("c", after="d", at=25, ts=4 * SECOND, time=4 * SECOND)]
    changes = [*first, *between, *snapshot("bcc", 30, 3 * SECOND), *behind]
    assert rows_of(changes) == {"b": 1, "c": 2, "d": 1}
    history = history_of(changes)
    assert apply_history(history) == {"b": 1, "c": 2, "d": 1}
    # Of the second snapshot only what differs: a second c, and no a any more.
    differences = [(row[name_value("v")], row["change"]) for row in history if row["version"] == 30]
    assert differences == [("c", 0), ("a", 1)]
    assert apply_history(history_of(changes, Bounds("version", 0, 29))) == {"a": 1, "b": 1, "c": 1, "d": 1}
    # A change that comes again behind the snapshot.
    again = replace(between[0], ts=5 * SECOND)
    assert rows_of([*first, *snapshot("bcc", 30, 3 * SECOND), again]) == {"b": 1, "c": 2}


@pytest.mark.parametrize("at", [10, None])
def test_a_snapshot_at_the_same_position_is_another(at: int | None) -> None:
    """The log of an idle database does not move; SQL Server's snapshots have no position."""
    changes = [*snapshot("aab", at, SECOND), *snapshot("aab", at, 900 * SECOND)]
    assert rows_of(changes) == {"a": 2, "b": 1}
    assert apply_history(history_of(changes)) == {"a": 2, "b": 1}
    assert rows_of([*snapshot("a", at, SECOND), *snapshot("b", at, 2 * SECOND)]) == {"b": 1}


def test_a_snapshot_counts_when_it_is_complete() -> None:
    cut_off = snapshot("abc", 10, SECOND)[:2]
    assert rows_of(cut_off) == {"a": 1, "b": 1}
    assert rows_of([*cut_off, *snapshot("abc", 10, 5 * SECOND)[:1]]) == {"a": 1}
    assert rows_of([*cut_off, *snapshot("abc", 10, 5 * SECOND)]) == {"a": 1, "b": 1, "c": 1}
    whole = [*snapshot("ab", 10, SECOND), Change("c", after="c", at=11, ts=2 * SECOND)]
    assert rows_of([*whole, *snapshot("abcd", 20, 9 * SECOND)[:2]]) == {"a": 1, "b": 1, "c": 1}
    aborted = [*whole, *snapshot("abcd", 20, 9 * SECOND)[:3], *snapshot("cd", 20, 20 * SECOND)]
    assert rows_of(aborted) == {"c": 1, "d": 1}
    assert apply_history(history_of(aborted)) == {"c": 1, "d": 1}


def test_rows_before_a_snapshot_may_lie_in_other_segments() -> None:
    before = [Change("c", after="a", at=1000 + at, ts=SECOND, time=9 * SECOND) for at in range(3)]
    # The database was restored, or its clock is another.
    assert rows_of([*before, *snapshot("ab", 50, 5 * SECOND, segments=[1, 2])]) == {"a": 1, "b": 1}


def test_snapshots_without_marks_are_told_by_their_position() -> None:
    first = [Change("r", after=value, at=10, ts=SECOND, segment=value == "b") for value in "aab"]
    second = [
        Change("r", after=value, at=20, ts=2 * SECOND, snapshot=mark) for value, mark in (("a", "true"), ("c", "last"))
    ]
    assert rows_of([*first, *second]) == {"a": 1, "c": 1}
    unknown = [Change("r", after="a", ts=SECOND), Change("c", after="b", ts=2 * SECOND)]
    assert rows_of(unknown) == {"a": 1, "b": 1}
    with pytest.raises(MalformedEventError, match="without a begin or a position.*'primary-key'"):
        rows_of([*unknown, Change("r", after="a", ts=3 * SECOND)])


def test_a_row_that_cannot_be_told_is_an_error() -> None:
    with pytest.raises(MalformedEventError, match="offset 1 of segment 0 changes an unknown row.*'primary-key'"):
        rows_of([Change("c", after="a"), Change("u", "none", "b")])
    with pytest.raises(
        MalformedEventError, match="offset 1 of segment 0 removes a row that does not exist there.*'primary-key'"
    ):
        rows_of([Change("c", after="a"), Change("d", "b")])
    with pytest.raises(MalformedEventError, match="removes a row that does not exist there"):
        history_of([Change("c", after="a"), Change("d", "b")])
    with pytest.raises(MalformedEventError, match="incremental snapshot"):
        rows_of([Change("r", after="a", at=1, snapshot="incremental")])
    # Where events may be left out, a row need not be there; nor before a snapshot.
    assert rows_of([Change("c", after="a"), Change("d", "b")], lenient=True) == {"a": 1}
    retained = [Change("d", "b", ts=1), *snapshot("a", 7, SECOND)]
    assert rows_of(retained) == {"a": 1}
    assert apply_history(history_of(retained)) == {"a": 1}


def test_equal_rows_beyond_the_memory() -> None:
    """They cannot be divided by their hash."""
    changes = [Change("c", after="a", at=at, ts=at) for at in range(20_000)]
    with KeylessRows(COLUMNS, ["v"], 100_000) as keyless:
        feed_in_batches(keyless, changes, 1000)
        assert sum(len(part) for part in keyless.results()) == 20_000


class Database:
    """A table and its log: records of a position each, which change one row or, by COPY, several."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.rows, self.log = chance, Counter[Value](), list[list[Change]]()
        self._values = [None, "a", "b", "c", "", "1:a", "a:1"]

    def write(self, time: int) -> None:
        at, step = len(self.log) + 1, self.chance.random()
        value, there = self.chance.choice(self._values), sorted(self.rows.elements(), key=repr)
        if step < 0.02:
            record = [Change("t")]
            self.rows.clear()
        elif step < 0.3 or not there:
            record = [
                Change("c", after=self.chance.choice([value, value, "a"])) for _ in range(self.chance.randrange(1, 6))
            ]
            self.rows.update(change.after for change in record)
        else:
            former = self.chance.choice(there)
            record = [Change("d", former)] if step < 0.6 else [Change("u", former, value)]
            self.rows -= Counter([former])
            self.rows.update([] if step < 0.6 else [value])
        self.log.append([replace(change, at=at, time=time, row=row) for row, change in enumerate(record)])


def deliver_changes(seed: int, kind: str) -> tuple[list[Change], Counter[Value]]:
    """What a connector writes that stops and goes back at any time, and the rows of the database in the end."""
    chance = random.Random(f"{seed} {kind}")
    database, found = Database(chance), list[Change]()
    clock, skew, done, stored = 0, chance.choice([-9, 0, 9]) * SECOND, 0, 0
    origin = {"postgresql": "postgresql/x/db", "mysql": "mysql/x/1/b"}[kind]

    def give(change: Change) -> None:
        number = None if kind == "postgresql" else change.row
        found.append(replace(change, ts=clock, origin=origin, row=number, segment=chance.randrange(3)))

    for _ in range(250):
        clock += chance.randrange(SECOND // 2)
        step = chance.random()
        if step < 0.5:
            database.write(clock + skew)
        elif step < 0.9:
            if done < len(database.log):
                record = database.log[done]
                cut = chance.randrange(len(record) + 1) if chance.random() < 0.1 else len(record)
                for change in record[:cut]:
                    clock += chance.randrange(5)
                    give(change)
                done += 1
                if cut < len(record) or chance.random() < 0.1:
                    done = stored
                    clock += chance.randrange(3, 60) * SECOND
                elif chance.random() < 0.3:
                    stored = done
        elif step < 0.92:
            rows = sorted(database.rows.elements(), key=repr)
            for cut in (chance.randrange(len(rows) + 1) if chance.random() < 0.5 else 0, len(rows)):
                clock += SECOND
                if rows:
                    marks = ["first_in_data_collection", *["true"] * len(rows), "last_in_data_collection"]
                    marks = [*marks[: len(rows) - 1], marks[-1]]
                    for value, mark in list(zip(rows, marks, strict=True))[:cut]:
                        clock += chance.randrange(5)
                        give(Change("r", after=value, at=len(database.log), time=clock + skew, snapshot=mark))
            if rows:
                done = stored = len(database.log)
            clock += SECOND
    for record in database.log[done:]:
        clock += SECOND
        for change in record:
            give(change)
    # Each segment in its own order.
    return sorted(found, key=lambda one: one.segment), +database.rows


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
@pytest.mark.parametrize("seed", range(15))
def test_any_changes_count_as_in_the_database(seed: int, kind: str) -> None:
    changes, rows = deliver_changes(seed, kind)
    assert rows_of(changes) == rows
    assert rows_of(changes, memory=20_000, size=7) == rows
    assert apply_history(history_of(changes)) == rows
    assert apply_history(history_of(changes, memory=20_000)) == rows
