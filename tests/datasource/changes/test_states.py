"""A history that goes on where another ended, by way of a file, is the history of all changes in one."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.clearing import Clearing
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.row_history import RowHistory
from pyspark_pravega.datasource.changes.states import PART, WHOLE, RowStates
from tests.datasource.changes.rows.test_current import read
from tests.datasource.changes.rows.test_history import EVERYTHING, SIGNS, apply_history, history
from tests.datasource.single_changes import SCHEMA, Change

Found = list[tuple[str, int, str | None, int]]


class Batches:
    """A stream of changes of one group, batch by batch. Each batch has its number in the name of its state."""

    def __init__(self, directory: Path, memory: int = 1 << 28) -> None:
        self.states, self.memory = RowStates(directory), memory
        self.files: list[tuple[str, ...]] = [()]
        """The files of the state after each batch, the newest first."""

    def take(
        self,
        changes: Sequence[tuple[int, Change]],
        truncations: Sequence[Clearing] | None = None,
        *,
        after: int = -1,
        group: int = 0,
        more: Sequence[tuple[str, ...]] = (),
    ) -> Found:
        """The history of changes, each with its offset, that go on where batch `after` ended, and groups `more`."""
        before = [files for files in (self.files[after], *more) if files]
        number = (len(self.files) + after) % len(self.files) + 1
        name = f"q-{group}-{number:09}-x"
        with RowHistory(["id"], ["v"], self.memory, truncations, EVERYTHING) as rows, ExitStack() as opened:
            rows.resume([opened.enter_context(self.states.read(files)) for files in before])
            tables = []
            for offset, change in changes:
                batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
                tables += rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))
            grows = len(before) == 1 and self.states.has_to_be_extended(before[0])
            with self.states.write(name, [file for files in before for file in files]) as state:
                tables += list(rows.finish(state.add, changed=grows))
                state.whole = rows.kept_all
        chain = () if rows.kept_all else before[0]
        file = name + (WHOLE if rows.kept_all else PART)
        self.files[number:] = [(file, *chain)]
        return [
            (SIGNS[row["change"]], row[name_value("id")], row[name_value("v")], row["version"])
            for table in tables
            for row in table.to_pylist()
        ]


def in_batches(directory: Path, changes: Sequence[Change], ends: Sequence[int], memory: int = 1 << 28) -> Found:
    batches = Batches(directory, memory)
    found: Found = []
    numbered = list(enumerate(changes))
    begin = 0
    for end in ends:
        found += batches.take(numbered[begin:end])
        begin = end
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 3))])
@pytest.mark.parametrize("memory", [1 << 28, 20_000])
def test_batches_give_the_same_history(tmp_path: Path, seed: int, memory: int) -> None:
    rng = random.Random(seed)
    changes = []
    for number in range(400):
        at = rng.choice([number, number, number, rng.randrange(number + 1)])
        common: dict[str, Any] = {"at": at, "time": at, "ts": number}
        common["origin"] = rng.choice(["postgresql/a", "postgresql/b"]) if number % 5 == 0 else "postgresql/a"
        if rng.random() < 0.02:
            changes.append(Change("t", **{**common, "at": number}))
            continue
        op = rng.choice("cuuud")
        without = ("v",) if op == "u" and rng.random() < 0.3 else ()
        changes.append(Change(op, rng.randrange(30), None if without else str(number), without=without, **common))
    ends = [*sorted(rng.sample(range(400), 7)), 400]
    whole, parts = history(changes), in_batches(tmp_path, changes, ends, memory)
    assert sorted(parts, key=str) == sorted(whole, key=str)
    assert apply_history(parts) == apply_history(whole)


def wide(number: int, v: str = "a", at: int = 1) -> tuple[int, Change]:
    return number, Change("c", number, v * 1000, at)


def test_a_batch_writes_what_changed(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    batches.take([wide(number) for number in range(100)])
    assert batches.take([wide(7, "b", 2)]) == [("<", 7, "a" * 1000, 2), (">", 7, "b" * 1000, 2)]
    assert batches.take([wide(8, "c", 3), wide(7, "c", 3)])[:2] == [
        ("<", 8, "a" * 1000, 3),
        (">", 8, "c" * 1000, 3),
    ]
    newest, older, whole = batches.files[-1]
    assert [name.rpartition(".")[2] for name in (newest, older, whole)] == ["part", "part", "whole"]
    sizes = [(tmp_path / name).stat().st_size for name in (newest, older, whole)]
    assert max(sizes[:2]) * 10 < sizes[2]


def test_a_state_of_many_changes_is_written_whole_again(tmp_path: Path) -> None:
    """So that what a task reads does not grow."""
    batches = Batches(tmp_path)
    batches.take([wide(number) for number in range(100)])
    lengths = []
    for number in range(40):
        batches.take([wide(number % 3, "b", number + 2)])
        lengths.append(len(batches.files[-1]))
    assert max(lengths) == 16 and lengths.count(1) == 2
    batches.take([wide(number, "c", 100) for number in range(80)])
    batches.take([wide(1, "d", 101)])
    assert len(batches.files[-1]) == 1


def test_files_that_nobody_needs_are_removed(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    batches.take([wide(number) for number in range(100)])
    for number in range(20):
        batches.take([wide(3, "b", number + 2)])
    # The files before the last whole one are still there until the next batch, so that its batch can be done again.
    assert set(batches.files[-1]) == set(os.listdir(tmp_path))


def test_a_task_of_an_old_batch_removes_nothing_new(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    batches.take([wide(number) for number in range(10)])
    former = list(batches.files)
    batches.take([wide(1, "b", 2)])
    batches.take([wide(2, "b", 3)])
    newest = batches.files[-1]
    batches.files = former
    batches.take([wide(1, "b", 2)])  # by an executor that was slow
    assert set(newest) <= set(os.listdir(tmp_path))


def test_a_batch_can_be_done_again(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    assert batches.take([(0, Change("c", 1, "a", 1))]) == [("+", 1, "a", 1)]
    again = [(1, Change("u", 1, "b", 2))]
    expected = [("<", 1, "a", 2), (">", 1, "b", 2)]
    assert [batches.take(again, after=1) for _ in range(3)] == [expected] * 3


def test_groups_that_become_one_keep_their_rows(tmp_path: Path) -> None:
    """Each numbers the servers of its positions by itself."""
    low, high = Batches(tmp_path), Batches(tmp_path)
    low.take([(0, Change("c", 1, "a", 10, origin="postgresql/a")), (1, Change("c", 2, "a", 10, origin="postgresql/b"))])
    high.take([(0, Change("c", 3, "a", 50, origin="postgresql/b", segment=1))], group=1)
    old = [
        (2, Change("u", 3, "older", 40, origin="postgresql/b", segment=2)),
        (3, Change("u", 1, "newer", 40, origin="postgresql/a", segment=2)),
        (4, Change("u", 2, "newer", 40, origin="postgresql/b", segment=2)),
    ]
    found = low.take(old, more=[high.files[-1]])
    assert sorted(found) == [
        ("<", 1, "a", 40),
        ("<", 2, "a", 40),
        (">", 1, "newer", 40),
        (">", 2, "newer", 40),
    ]
    assert low.files[-1][0].endswith(WHOLE)
    last = low.take([(5, Change("d", key, at=60, origin="postgresql/b", segment=2)) for key in (1, 2, 3)])
    assert sorted(row[:3] for row in last) == [("-", 1, "newer"), ("-", 2, "newer"), ("-", 3, "a")]


def test_a_batch_that_fails_leaves_no_state(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    with pytest.raises(RuntimeError, match="broken"), states.write("q-0-000000001-x"):
        raise RuntimeError("broken")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError), states.read(["q-0-000000001-x.whole"]):
        pass


def test_a_state_of_no_rows(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    assert batches.take([]) == []
    assert batches.take([(0, Change("c", 1, "a", 1))]) == [("+", 1, "a", 1)]


def test_truncations_are_remembered(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    first = Change("c", 1, "a", 10, ts=1)
    assert len(batches.take([(0, first), (1, Change("t", at=20, ts=2))])) == 2
    # What the connector delivers again was truncated, too.
    assert batches.take([(2, first)]) == []
    assert batches.take([(3, Change("c", 1, "b", 30, ts=3))]) == [("+", 1, "b", 30)]


def test_a_truncation_of_another_segment_that_comes_late_deletes_what_is_older(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    rows = [(0, Change("c", 1, "a", 10, ts=1)), (1, Change("c", 2, "b", 10, ts=1)), (2, Change("u", 2, "c", 30, ts=3))]
    assert len(batches.take(rows, [])) == 4
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as other:
        batch = pa.RecordBatch.from_pylist([Change("t", at=20, ts=2).row()], schema=SCHEMA)
        other.feed(batch, EventLocations(5, np.array([0]), np.array([1])))
        late = other.truncations
    assert batches.take([], late) == [("-", 1, "a", 20)]
    assert batches.take([(3, Change("d", 2, at=40))], []) == [("-", 2, "c", 40)]


def test_a_snapshot_is_complete_batches_after_it_began(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    old = [read(1, 100, 1000, "first"), read(2, 100, 1001), read(3, 100, 1002, "last")]
    assert len(batches.take(list(enumerate(old)))) == 3
    assert batches.take([(3, read(1, 900, 2000, "first"))]) == []
    assert batches.take([(4, read(4, 900, 2001))]) == [("+", 4, "read", 900)]
    last = [(5, read(3, 900, 2002, "last"))]
    assert [batches.take(last, after=3) for _ in range(2)] == [[("-", 2, "read", 900)]] * 2
    # What the connector delivers again was not read, too.
    assert batches.take([(6, Change("c", 2, "older", 90, 2100, 900))]) == []
    assert batches.take([(7, Change("c", 2, "b", 910, 2200, 2200))]) == [("+", 2, "b", 910)]


def test_states_of_queries_that_ended_are_removed(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x")
    (tmp_path / "new").write_bytes(b"x")
    os.utime(tmp_path / "old", (1, 1))
    batches = Batches(tmp_path)
    batches.take([])
    assert sorted(os.listdir(tmp_path)) == ["new", *batches.files[-1]]


def test_versions_of_a_row_ascend_over_batches_without_positions(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    changes = [Change("c", 1, "a"), Change("u", 1, "b"), Change("d", 1), Change("c", 1, "c"), Change("d", 1)]
    found: Found = []
    for number, change in enumerate(changes):
        found += batches.take([(number, change)])
    assert [row[3] for row in found] == [0, 1, 1, 2, 3, 4]
    assert found == history(changes)


def test_the_origin_of_a_truncation_is_not_taken_for_another(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    first = [(0, Change("c", 1, "a", 10, ts=1, origin="postgresql/a"))]
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as other:
        batch = pa.RecordBatch.from_pylist([Change("t", at=900, ts=2, origin="postgresql/b").row()], schema=SCHEMA)
        other.feed(batch, EventLocations(5, np.array([0]), np.array([1])))
        truncations = other.truncations
    assert [row[0] for row in batches.take(first, truncations)] == ["+", "-"]
    # Another server's positions say nothing about the truncation's, even if lower.
    again = [(1, Change("c", 1, "b", 20, ts=3, origin="postgresql/c"))]
    assert [row[:3] for row in batches.take(again, [])] == [("+", 1, "b")]
