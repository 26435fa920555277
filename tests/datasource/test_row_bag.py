"""Tables without a primary key: equal rows are counted, whatever the order and the segments of events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.change_range import Bounds
from pyspark_pravega.datasource.row_bag import RowBag
from pyspark_pravega.datasource.row_changes import Places, value_name
from pyspark_pravega.datasource.row_history import AFTER, INSERT
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.change_feed import POSITION_TYPE

COLUMNS = ("v", "w", "xs")
ROW = pa.struct([("v", pa.string()), ("w", pa.float64()), ("xs", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("before", ROW),
        ("after", ROW),
        ("source", pa.map_(pa.string(), pa.string())),
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

    def event(self) -> dict[str, Any]:
        after = row(self.after) if self.op in ("c", "r", "u") else None
        for name in self.without:
            assert after is not None
            after[name] = None
        return {
            "op": self.op,
            "before": row(self.before) if self.op in ("u", "d") and self.before != "none" else None,
            "after": after,
            "source": [("snapshot", self.snapshot)],
            "ts": self.ts,
            "unavailable": list(self.without),
            "position": {
                "origin": None if self.at is None else "postgresql/x/db",
                "major": self.at,
                "minor": 0,
                "row": 0,
                "time": self.time,
            },
        }


def row(v: Value) -> dict[str, Any]:
    """A row whose other columns hold what is hard to compare."""
    return {"v": v, "w": float("nan") if v is None else float(len(v)), "xs": None if v == "a" else [1, None]}


def fed(bag: RowBag, changes: Iterable[Change], size: int) -> None:
    offsets: Counter[int] = Counter()
    run: list[Change] = []
    for change in [*changes, None]:
        if run and (change is None or change.segment != run[0].segment or len(run) == size):
            segment = run[0].segment
            batch = pa.RecordBatch.from_pylist([each.event() for each in run], schema=SCHEMA)
            at = offsets[segment] + np.arange(len(run))
            bag.feed(batch, Places(segment, at, np.ones(len(run), np.int64)))
            offsets[segment] += len(run)
            run = []
        if change is not None:
            run.append(change)


def rows_of(changes: Iterable[Change], memory: int = 1 << 28, size: int = 100) -> Counter[Value]:
    with RowBag(COLUMNS, ["v"], memory) as bag:
        fed(bag, changes, size)
        assert bag.spilled == (memory < 1 << 28)
        return Counter(each for part in bag.results() for each in part.column(value_name("v")).to_pylist())


def history_of(changes: Iterable[Change], within: Bounds = EVERYTHING, memory: int = 1 << 28) -> list[dict[str, Any]]:
    with RowBag(COLUMNS, ["v"], memory, within) as bag:
        fed(bag, changes, 100)
        return [each for part in bag.results() for each in part.to_pylist()]


def applied(history: Iterable[dict[str, Any]]) -> Counter[Value]:
    found: Counter[Value] = Counter()
    for each in history:
        found[each[value_name("v")]] += 1 if each["change"] in (INSERT, AFTER) else -1
    assert min(found.values(), default=0) >= 0
    return +found


def test_equal_rows_are_counted() -> None:
    changes = [Change("c", after="a"), Change("c", after="a"), Change("c", after=None), Change("c", after="b")]
    assert rows_of(changes) == {"a": 2, None: 1, "b": 1}
    changes += [Change("d", "a"), Change("u", "b", "a"), Change("d", None), Change(None), Change("m")]
    assert rows_of(changes) == {"a": 2}
    assert applied(history_of(changes)) == {"a": 2}


def test_the_order_of_segments_does_not_matter() -> None:
    changes = [Change("u", "a", "b", segment=0), Change("d", "c", segment=0)]
    changes += [Change("c", after="c", segment=1), Change("c", after="a", segment=1)]
    assert rows_of(changes) == {"b": 1}


def test_a_value_that_was_not_sent_is_that_of_before() -> None:
    changes = [Change("c", after="a"), Change("u", "a", "a", without=("v", "xs")), Change("u", "a", "b")]
    assert rows_of(changes) == {"b": 1}


def test_what_a_copy_writes_at_once_counts_and_what_is_delivered_again_does_not() -> None:
    copied = [Change("c", after="a", at=7, ts=SECOND + each) for each in range(3)]
    after_restart = [replace(each, ts=60 * SECOND) for each in copied]
    assert rows_of(copied) == {"a": 3}
    assert rows_of([*copied, *after_restart]) == {"a": 3}
    update = Change("u", "a", "b", at=8, ts=2 * SECOND)
    changes = [*copied, update, *after_restart, replace(update, ts=61 * SECOND), Change("d", "b", at=9, ts=62 * SECOND)]
    assert rows_of(changes) == {"a": 2}
    assert applied(history_of(changes)) == {"a": 2}
    # Nothing tells that these are the same.
    assert rows_of([replace(each, at=None) for each in changes[:3]] * 2) == {"a": 6}


def test_truncations_clear_what_was_before_them() -> None:
    changes = [
        Change("c", after="a", at=1),
        Change("c", after="a", at=3, segment=1),
        Change("t", at=2, time=5 * SECOND),
        Change("d", "a", at=4, segment=1),
        Change("c", after="b", at=5),
    ]
    assert rows_of(changes) == {"b": 1}
    assert applied(history_of(changes)) == {"b": 1}
    cleared = [each for each in history_of(changes) if each["version"] == 2]
    assert [(each[value_name("v")], each["change"], each["timestamp"]) for each in cleared] == [("a", 1, 5 * SECOND)]


def test_a_snapshot_takes_the_place_of_all_before_it() -> None:
    first = [Change("r", after=each, at=10, ts=SECOND, time=SECOND) for each in ("a", "a", "b")]
    between = [Change("c", after="c", at=20, ts=2 * SECOND, time=2 * SECOND), Change("d", "a", at=21, time=2 * SECOND)]
    second = [Change("r", after=each, at=30, ts=3 * SECOND, time=3 * SECOND) for each in ("b", "c", "c")]
    # A transaction that was open when the snapshot began has an older position.
    later = [Change("c", after="d", at=25, ts=4 * SECOND, time=4 * SECOND)]
    changes = [*first, *between, *second, *later]
    assert rows_of(changes) == {"b": 1, "c": 2, "d": 1}
    history = history_of(changes)
    assert applied(history) == {"b": 1, "c": 2, "d": 1}
    # Of the second snapshot only what differs: a second c, and no a any more.
    assert [(each[value_name("v")], each["change"]) for each in history if each["version"] == 30] == [
        ("c", 0),
        ("a", 1),
    ]
    assert applied(history_of(changes, Bounds("version", 0, 29))) == {"a": 1, "b": 1, "c": 1, "d": 1}
    # A change that comes again behind the snapshot.
    again = replace(between[0], ts=5 * SECOND)
    assert rows_of([*first, *second, again]) == {"b": 1, "c": 2}


def test_a_row_that_cannot_be_told_is_an_error() -> None:
    with pytest.raises(MalformedEventError, match="offset 1 of segment 0 changes a row.*'primary-key'"):
        rows_of([Change("c", after="a"), Change("u", "none", "b")])
    with pytest.raises(
        MalformedEventError, match="offset 1 of segment 0 removes a row that is not among.*'primary-key'"
    ):
        rows_of([Change("c", after="a"), Change("d", "b")])
    with pytest.raises(MalformedEventError, match="removes a row that is not among"):
        history_of([Change("c", after="a"), Change("d", "b")])
    with pytest.raises(MalformedEventError, match="incremental snapshot"):
        rows_of([Change("r", after="a", at=1, snapshot="incremental")])


@pytest.mark.parametrize("seed", range(30))
def test_any_changes_count_as_one_by_one(seed: int) -> None:
    """A database without order: changes in random segments, truncations and new snapshots, changes delivered again."""
    chance = random.Random(seed)
    rows: Counter[Value] = Counter()
    changes: list[Change] = []
    since: list[Change] = []
    values = [None, "a", "b", "c", "", "1:a", "a:1"]
    for at in range(300):
        now = at * SECOND
        step = chance.random()
        segment = chance.randrange(3)
        if step < 0.02:
            rows.clear()
            since = [Change("t", at=at, ts=now, time=now, segment=segment)]
        elif step < 0.03:
            since = [
                Change("r", after=each, at=at, ts=now, time=now, segment=chance.randrange(3))
                for each in rows.elements()
            ]
        elif step < 0.5 or not rows:
            value = chance.choice(values)
            rows[value] += 1
            since = [Change("c", after=value, at=at, ts=now, time=now, segment=segment)]
        else:
            former = chance.choice(sorted(rows.elements(), key=repr))
            rows[former] -= 1
            rows = +rows
            value = chance.choice(values)
            if step < 0.75:
                since = [Change("d", former, at=at, ts=now, time=now, segment=segment)]
            else:
                rows[value] += 1
                since = [Change("u", former, value, at=at, ts=now, time=now, segment=segment)]
        changes += since
        if step > 0.97:
            begin = next((n for n in reversed(range(len(changes))) if changes[n].op in ("r", "t")), -1) + 1
            part = changes[max(begin, len(changes) - 10) :]
            changes += [replace(each, ts=now + SECOND // 2 + 1 + 2 * SECOND) for each in part]
    # A connector that is restarted writes a second at least after what it writes again; so do the segments' places.
    changes.sort(key=lambda each: each.segment)
    assert rows_of(changes) == rows
    assert rows_of(changes, memory=20_000, size=7) == rows
    assert applied(history_of(changes)) == rows
