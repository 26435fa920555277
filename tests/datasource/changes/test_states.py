"""A history that goes on where another ended, by way of a file, is the history of all changes in one."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.entries import EventLocations, value_name
from pyspark_pravega.datasource.changes.rows.history import RowHistory, Truncation
from pyspark_pravega.datasource.changes.states import RowStates
from tests.datasource.changes.rows.test_history import EVERYTHING, SIGNS, applied, history
from tests.datasource.single_changes import SCHEMA, Change

Found = list[tuple[str, int, str | None, int]]


def batch_of(
    states: RowStates,
    names: tuple[str, str],
    changes: Sequence[tuple[int, Change]],
    *,
    memory: int = 1 << 28,
    truncations: Sequence[Truncation] | None = None,
) -> Found:
    """The history of changes, each with its offset, from one named state to another."""
    before, after = names
    with RowHistory(["id"], ["v"], memory, truncations, EVERYTHING) as rows, states.read(before) as state:
        if state is not None:
            rows.resume(state)
        tables = []
        for offset, change in changes:
            batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
            tables += rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))
        with states.write(after, before) as keep:
            tables += list(rows.rest(keep))
    return [
        (SIGNS[row["change"]], row[value_name("id")], row[value_name("v")], row["version"])
        for table in tables
        for row in table.to_pylist()
    ]


def in_batches(directory: Path, changes: Sequence[Change], ends: Sequence[int], memory: int = 1 << 28) -> Found:
    states = RowStates(directory)
    found: Found = []
    numbered = list(enumerate(changes))
    begin = 0
    for number, end in enumerate(ends):
        found += batch_of(states, (f"g-{number}", f"g-{number + 1}"), numbered[begin:end], memory=memory)
        begin = end
    return found


@pytest.mark.parametrize("seed", range(3))
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
    assert applied(parts) == applied(whole)


def test_only_the_last_two_states_are_kept(tmp_path: Path) -> None:
    in_batches(tmp_path, [Change("c", number, "a", number) for number in range(5)], [1, 2, 2, 5])
    assert sorted(os.listdir(tmp_path)) == ["g-3", "g-4"]


def test_a_batch_can_be_done_again(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    assert batch_of(states, ("g-0", "g-1"), [(0, Change("c", 1, "a", 1))]) == [("+", 1, "a", 1)]
    again = [(1, Change("u", 1, "b", 2))]
    expected = [("<", 1, "a", 2), (">", 1, "b", 2)]
    assert [batch_of(states, ("g-1", "g-2"), again) for _ in range(3)] == [expected] * 3


def test_a_batch_that_fails_leaves_no_state(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    with pytest.raises(RuntimeError, match="broken"), states.write("g-1", None):
        raise RuntimeError("broken")
    assert os.listdir(tmp_path) == []
    with states.read("g-1") as state:
        assert state is None


def test_a_state_of_no_rows(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    assert batch_of(states, ("g-0", "g-1"), []) == []
    assert batch_of(states, ("g-1", "g-2"), [(0, Change("c", 1, "a", 1))]) == [("+", 1, "a", 1)]


def test_truncations_are_remembered(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    first = Change("c", 1, "a", 10, ts=1)
    assert len(batch_of(states, ("g-0", "g-1"), [(0, first), (1, Change("t", at=20, ts=2))])) == 2
    # What the connector delivers again was truncated, too.
    assert batch_of(states, ("g-1", "g-2"), [(2, first)]) == []
    assert batch_of(states, ("g-2", "g-3"), [(3, Change("c", 1, "b", 30, ts=3))]) == [("+", 1, "b", 30)]


def test_a_truncation_of_another_segment_that_comes_late_deletes_what_is_older(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    rows = [(0, Change("c", 1, "a", 10, ts=1)), (1, Change("c", 2, "b", 10, ts=1)), (2, Change("u", 2, "c", 30, ts=3))]
    assert len(batch_of(states, ("g-0", "g-1"), rows, truncations=[])) == 4
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as other:
        batch = pa.RecordBatch.from_pylist([Change("t", at=20, ts=2).row()], schema=SCHEMA)
        other.feed(batch, EventLocations(5, np.array([0]), np.array([1])))
        late = other.truncations
    assert batch_of(states, ("g-1", "g-2"), [], truncations=late) == [("-", 1, "a", 20)]
    assert batch_of(states, ("g-2", "g-3"), [(3, Change("d", 2, at=40))], truncations=[]) == [("-", 2, "c", 40)]


def test_states_of_queries_that_ended_are_removed(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x")
    (tmp_path / "new").write_bytes(b"x")
    os.utime(tmp_path / "old", (1, 1))
    batch_of(RowStates(tmp_path), ("g-0", "g-1"), [])
    assert sorted(os.listdir(tmp_path)) == ["g-1", "new"]


def test_versions_of_a_row_ascend_over_batches_without_positions(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    changes = [Change("c", 1, "a"), Change("u", 1, "b"), Change("d", 1), Change("c", 1, "c"), Change("d", 1)]
    found: Found = []
    for number, change in enumerate(changes):
        found += batch_of(states, (f"g-{number}", f"g-{number + 1}"), [(number, change)])
    assert [row[3] for row in found] == [0, 1, 1, 2, 3, 4]
    assert found == history(changes)


def test_the_origin_of_a_truncation_is_not_taken_for_another(tmp_path: Path) -> None:
    states = RowStates(tmp_path)
    first = [(0, Change("c", 1, "a", 10, ts=1, origin="postgresql/a"))]
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as other:
        batch = pa.RecordBatch.from_pylist([Change("t", at=900, ts=2, origin="postgresql/b").row()], schema=SCHEMA)
        other.feed(batch, EventLocations(5, np.array([0]), np.array([1])))
        truncations = other.truncations
    assert [row[0] for row in batch_of(states, ("g-0", "g-1"), first, truncations=truncations)] == ["+", "-"]
    # Another server's positions say nothing about the truncation's, even if lower.
    again = [(1, Change("c", 1, "b", 20, ts=3, origin="postgresql/c"))]
    assert [row[:3] for row in batch_of(states, ("g-1", "g-2"), again, truncations=[])] == [("+", 1, "b")]
