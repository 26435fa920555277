"""The fold of changes to current rows: which of two changes counts, what truncations clear, memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.current import CurrentRows
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.names import OlderPositions
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import POSITION_TYPE
from tests.datasource.single_changes import ROW, SCHEMA, Change


def feed(rows: CurrentRows, changes: Iterable[Change], start: int = 0) -> None:
    """One change per batch, as unfavourable as can be."""
    for offset, change in enumerate(changes, start):
        batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
        rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))


def fold(
    changes: Sequence[Change], memory: int = 1 << 28, ages: OlderPositions = OlderPositions.BY_TIME
) -> dict[Any, Any]:
    with CurrentRows(["id"], ["v"], memory, ages) as rows:
        feed(rows, changes)
        found = [row for part in rows.rows() for row in part.to_pylist()]
    assert len({row[name_value("id")] for row in found}) == len(found)
    return {row[name_value("id")]: row[name_value("v")] for row in found}


def test_later_changes_replace_earlier_ones_and_deletions_remove() -> None:
    changes = [Change("c", 1, "a"), Change("c", 2, "b"), Change("u", 1, "c"), Change("d", 2), Change(None), Change("m")]
    assert fold(changes) == {1: "c"}
    assert fold([*changes, Change("c", 2, "again")]) == {1: "c", 2: "again"}


def test_a_change_that_is_delivered_again_replaces_nothing_newer() -> None:
    changes = [Change("c", 1, "a", 10), Change("u", 1, "b", 20), Change("c", 1, "a", 10)]
    assert fold(changes) == {1: "b"}
    assert fold([*changes, Change("u", 1, "b", 20), Change("u", 1, "c", 30)]) == {1: "c"}
    assert fold([Change("c", 1, "a", 10), Change("d", 1, at=20), Change("c", 1, "a", 10)]) == {}
    assert fold([Change("c", 1, "a", 10), Change("u", 1, "same position", 10)]) == {1: "same position"}


def test_deletions_are_kept_whose_positions_can_show_that_later_events_are_older() -> None:
    deletions = [Change("d", 1, at=20), Change("d", 2)]
    for more in ([], [Change("c", 3, "a", 10), Change("c", 4, "b", 30)]):  # in order, or not
        kept: list[pa.Table] = []
        with CurrentRows(["id"], ["v"], 1 << 28) as rows:
            feed(rows, [*deletions, *more])
            assert sum(map(len, rows.rows(kept.append))) == len(more)
        assert sorted(pa.concat_tables(kept).column(name_value("id")).to_pylist()) == [1, *(each.id for each in more)]


def test_a_snapshot_replaces_what_came_before_it() -> None:
    assert fold([Change("u", 1, "a", 200), Change("r", 1, "b", 50), Change("u", 1, "c", 60)]) == {1: "c"}
    assert fold([Change("u", 1, "a", 200), Change("r", 1, "b", 50)]) == {1: "b"}
    assert fold([Change("d", 1, at=200), Change("r", 1, "b", 50)]) == {1: "b"}


def test_a_change_after_a_snapshot_is_old_only_if_position_and_time_are() -> None:
    snapshot = Change("r", 1, "snapshot", 100, time=1000)
    assert fold([snapshot, Change("u", 1, "old", 90, time=900)]) == {1: "snapshot"}
    # A transaction that was open when the snapshot began.
    assert fold([snapshot, Change("u", 1, "open", 90, time=1100)]) == {1: "open"}
    assert fold([snapshot, Change("u", 1, "no time", 90)]) == {1: "no time"}


def test_a_change_of_a_log_that_has_begun_again_counts() -> None:
    """After RESET MASTER, or when a backup was restored: its position is older, and its time newer."""
    former = [Change("c", 1, "a", 500, time=10), Change("u", 1, "b", 900, time=20)]
    assert fold([*former, Change("u", 1, "new", 5, time=30)]) == {1: "new"}
    assert fold([*former, Change("u", 1, "new", 5, time=30), Change("u", 1, "newer", 6, time=40)]) == {1: "newer"}
    assert fold([*former, Change("d", 1, at=5, time=30)]) == {}
    assert fold([Change("d", 1, at=900, time=20), Change("c", 1, "back", 5, time=30)]) == {1: "back"}
    # What is delivered again of the new log is older in both.
    new = [Change("u", 1, "new", 5, time=30), Change("u", 1, "newer", 6, time=40)]
    assert fold([*former, *new, new[0]]) == {1: "newer"}
    # The clock of a server that takes over may be behind: newer positions count.
    assert fold([*former, Change("u", 1, "c", 901, time=15)]) == {1: "c"}


def test_the_greatest_time_of_a_key_tells_what_is_delivered_again() -> None:
    """MySQL's time is when a statement began, so that it may go back while positions ascend."""
    first, second = Change("u", 1, "a", 1, time=6), Change("u", 1, "b", 2, time=5)
    assert fold([first, second, first]) == {1: "b"}
    assert fold([first, second, first, Change("u", 1, "c", 1, time=7)]) == {1: "c"}
    third = Change("u", 1, "c", 3, time=4)
    assert fold([first, second, third, first, second]) == {1: "c"}
    # A snapshot replaces what came before, with its times.
    assert fold([first, second, Change("r", 1, "s", 1, time=3), Change("u", 1, "c", 0, time=4)]) == {1: "c"}


def test_what_cannot_be_known_goes_as_the_property_says() -> None:
    times: list[tuple[int | None, int | None]] = [(None, None), (None, 9), (9, None), (9, 9)]
    for before, after in times:
        changes = [Change("u", 1, "before", 20, time=before), Change("u", 1, "after", 10, time=after)]
        assert fold(changes) == fold(changes, ages=OlderPositions.REDELIVERY) == {1: "before"}
        assert fold(changes, ages=OlderPositions.NEW_LOG) == {1: "after"}
    newer = [Change("u", 1, "before", 20, time=8), Change("u", 1, "after", 10, time=9)]
    assert fold(newer, ages=OlderPositions.REDELIVERY) == {1: "before"}
    assert fold(newer[::-1], ages=OlderPositions.NEW_LOG) == {1: "before"}
    older = [Change("u", 1, "before", 20, time=9), Change("u", 1, "after", 10, time=8)]
    assert fold(older, ages=OlderPositions.NEW_LOG) == {1: "before"}


def test_what_is_left_out_is_counted() -> None:
    first = Change("c", 1, "a", 10)
    changes = [first, Change("u", 1, "b", 20), Change("c", 2, "b", 25), first, first]
    with CurrentRows(["id"], ["v"], 1 << 28) as rows:
        feed(rows, changes, 100)
        list(rows.rows())
        assert (rows.left_out.count, rows.left_out.first) == (2, (0, 103))


def test_positions_of_different_origins_are_not_compared() -> None:
    assert fold([Change("c", 1, "a", 20), Change("u", 1, "b", 10, origin="another")]) == {1: "b"}
    assert fold([Change("c", 1, "a", 20), Change("u", 1, "b")]) == {1: "b"}


def test_values_that_were_not_sent_are_kept() -> None:
    first = Change("c", 1, "large", 10)
    update = Change("u", 1, at=20, without=("v",))
    assert fold([first, update, Change("u", 1, at=30, without=("v",))]) == {1: "large"}
    assert fold([update]) == {1: None}
    assert fold([first, Change("u", 1, "new", 15), update]) == {1: "new"}
    # What was deleted is not kept, and what came again too late neither.
    assert fold([first, Change("d", 1, at=15), update]) == {1: None}
    assert fold([first, Change("u", 1, "new", 15), Change("c", 1, "large", 10), update]) == {1: "new"}


def test_an_update_of_the_key_removes_the_former_one() -> None:
    assert fold([Change("c", 1, "a"), Change("u", 2, "a", former=1)]) == {2: "a"}
    assert fold([Change("c", 1, "a"), Change("u", 1, "b", former=1)]) == {1: "b"}


def test_truncations_clear_what_came_before_them() -> None:
    before, after = Change("c", 1, "a", 10, ts=1), Change("c", 2, "b", 30, ts=3)
    truncate = Change("t", at=20, ts=2)
    assert fold([before, truncate, after]) == {2: "b"}
    # Delivered again, or read in another order because another segment has them: positions count.
    for changes in ([before, after, truncate], [truncate, before, after], [truncate, after, before]):
        assert fold([Change(**{**vars(change), "segment": place}) for place, change in enumerate(changes)]) == {2: "b"}


def test_truncations_of_a_log_that_has_begun_again() -> None:
    """By place in the same segment, by the connector's time in another one."""
    old, new = Change("c", 1, "old", 900, time=10, ts=11), Change("c", 2, "new", 5, time=30, ts=31)
    truncate, again = Change("t", at=950, time=20, ts=21), Change("t", at=2, time=25, ts=26)
    for segments in ((0, 0, 0), (0, 1, 0), (0, 1, 2)):
        for clearing in (truncate, again, Change("t", at=3, time=26, ts=27)):
            placed = [
                Change(**{**vars(change), "segment": segment})
                for change, segment in zip((old, clearing, new), segments, strict=True)
            ]
            assert fold(placed) == {2: "new"}
    # Delivered again: those of the new log are older than the row in both.
    assert fold([old, again, new, Change("t", at=2, time=25, ts=40)]) == {2: "new"}
    assert fold([old, truncate, again, new, Change("t", at=2, time=25, ts=40)]) == {2: "new"}


def test_truncations_and_snapshots() -> None:
    truncate = Change("t", at=20, ts=2, segment=9)
    # By the time the connector handled them: a snapshot's position may be that of another server.
    assert fold([Change("r", 1, "old", 30, ts=1), truncate]) == {}
    assert fold([Change("r", 1, "new", 10, ts=3), truncate]) == {1: "new"}
    same = Change("t", at=20, ts=2)
    assert fold([Change("r", 1, "old", 30, ts=2), same, Change("r", 2, "new", 10, ts=2)]) == {2: "new"}


def read(id: int, at: int, time: int, mark: str = "true", segment: int = 0) -> Change:
    """A row that a snapshot at a position reads; the connector handles it at that time."""
    return Change("r", id, "read", at, time, time, snapshot=mark, segment=segment)


def test_a_complete_snapshot_replaces_what_was_there() -> None:
    old = [read(1, 100, 1000, "first"), read(2, 100, 1001), read(3, 100, 1002, "last")]
    change = Change("c", 7, "changed", 110, 1100, 1100)
    second = [read(1, 900, 2000, "first_in_data_collection"), read(3, 900, 2001, "last_in_data_collection")]
    assert fold([*old, change, *second]) == {1: "read", 3: "read"}
    later = Change("c", 2, "later", 910, 2100, 2100)
    assert fold([*old, change, *second, later]) == {1: "read", 2: "later", 3: "read"}
    # One that was interrupted replaces what it read, and counts once it is complete.
    assert fold([*old, change, second[0]]) == {1: "read", 2: "read", 3: "read", 7: "changed"}
    assert fold([*old, change, second[0], *second]) == {1: "read", 3: "read"}
    # An incremental one has neither begin nor end.
    incremental = [read(1, 900, 2000, "incremental"), read(3, 900, 2001, "incremental")]
    assert fold([*old, change, *incremental]) == {1: "read", 2: "read", 3: "read", 7: "changed"}
    # What is delivered again is not revived, and a transaction that was open is not lost.
    assert fold([*old, change, *second, Change("c", 7, "changed", 110, 2200, 1100)]) == {1: "read", 3: "read"}
    assert fold([*old, *second, Change("c", 9, "open", 890, 2200, 2005)]) == {1: "read", 3: "read", 9: "open"}
    # Rows of INSERT have no position: their place or the connector's time tells.
    assert fold([*old, Change("c", 8, "inserted", ts=1500), *second]) == {1: "read", 3: "read"}
    assert fold([*old, *second, Change("c", 8, "inserted", ts=2500)]) == {1: "read", 3: "read", 8: "inserted"}


def test_snapshots_of_several_tables_replace_what_they_read() -> None:
    """As where shards go into one stream: which row is of which table is not known."""
    first = [read(1, 100, 1000, "first"), read(2, 100, 1001, "last")]
    second = [replace(row, table="u") for row in (read(3, 100, 1002, "first"), read(4, 100, 1003, "last"))]
    assert fold([*first, *second]) == {1: "read", 2: "read", 3: "read", 4: "read"}
    assert fold([*first, *second, *first]) == {1: "read", 2: "read", 3: "read", 4: "read"}


def test_a_transaction_that_was_open_during_a_snapshot_of_oracle() -> None:
    """Its time is that of the change, before the snapshot, and it was committed after it."""
    first = [read(1, 100, 1000, "first"), read(2, 100, 1001, "last")]
    oracle = [replace(row, origin="oracle/x/db") for row in (*first, Change("c", 3, "open", 90, 1100, 900))]
    assert fold(oracle) == {1: "read", 2: "read", 3: "open"}


def test_a_snapshot_at_the_position_of_an_earlier_one() -> None:
    """RESET MASTER begins with the same file and place again."""
    first = [read(1, 157, 10, "first"), read(2, 157, 10, "last")]
    assert fold([*first, read(1, 157, 100, "first"), read(3, 157, 100, "last")]) == {1: "read", 3: "read"}


def test_an_end_is_not_that_of_a_snapshot_at_another_position() -> None:
    interrupted = [read(1, 100, 1000, "first_in_data_collection"), read(2, 100, 1001)]
    assert fold([*interrupted, read(1, 130, 2000, "last_in_data_collection")]) == {1: "read"}


def test_snapshots_in_other_segments() -> None:
    old = [read(1, 100, 1000, "first", 0), read(2, 100, 1001, "true", 1), read(3, 100, 1002, "last", 2)]
    second = [read(1, 5, 2000, "first", 0), read(3, 5, 2001, "last", 2)]
    assert fold([*old, *second]) == fold([*second, old[1]]) == {1: "read", 3: "read"}
    other = read(4, 5, 2000, "true", 1)
    assert fold([old[1], other, *second]) == {1: "read", 3: "read", 4: "read"}
    # A table of one row has an end only.
    alone = read(1, 900, 3000, "last_in_data_collection", 0)
    assert fold([*old, *second, other, alone]) == {1: "read"}
    # So has what retention has left of a snapshot; rows of its position are of it.
    assert fold([*old[1:], Change("c", 7, "older", 50, 500, 500)][::-1]) == {2: "read", 3: "read"}


def test_a_deletion_without_key_is_an_error() -> None:
    batch = pa.RecordBatch.from_pylist([Change("d", 1).row() | {"before": None}], schema=SCHEMA)
    with CurrentRows(["id"], ["v"], 1 << 28) as rows:
        with pytest.raises(MalformedEventError, match="offset 7 of segment 3 deletes a row, but has no 'before'"):
            rows.feed(batch, EventLocations(3, np.array([7]), np.array([1])))


def model(changes: Sequence[Change]) -> dict[Any, Any]:
    """The rules once more, change by change."""
    state: dict[int, Change | None] = {}
    last: dict[int, Change] = {}
    newest: dict[int, int] = {}
    for change in changes:
        assert change.id is not None
        current = last.get(change.id)
        if current is not None and change.op != "r" and None not in (change.at, current.at):
            older = change.at < current.at  # type: ignore[operator]
            if current.op != "r" and change.time is not None:
                older = older and change.time <= newest[change.id]
            if current.op == "r":
                older = older and None not in (change.time, current.time) and change.time < current.time  # type: ignore[operator]
            if older:
                continue
        former = state.get(change.id)
        value = change.v
        if change.without:
            value = former.v if former is not None else None
        last[change.id] = change
        shown = -1 if change.time is None else change.time
        comparable = change.op != "r" and current is not None and None not in (change.at, current.at)
        newest[change.id] = max(shown, newest[change.id]) if comparable else shown
        state[change.id] = None if change.op == "d" else Change("c", change.id, value)
    return {key: change.v for key, change in state.items() if change is not None}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("memory", [1 << 28, 20_000])
def test_any_changes_fold_as_one_by_one(seed: int, memory: int) -> None:
    rng = random.Random(seed)
    changes = []
    for number in range(400):
        op = rng.choice("cuuudr")
        at = rng.choice([None, number, number, rng.randrange(number + 1)])
        if op != "d" and rng.random() < 0.3:
            changes.append(Change(op, rng.randrange(30), at=at, time=rng.randrange(400), without=("v",)))
        else:
            changes.append(Change(op, rng.randrange(30), str(number), at=at, time=rng.randrange(400)))
    expected = model(changes)
    # A deletion whose position is not told is forgotten with its key.
    assert fold(changes, memory) == expected
    with CurrentRows(["id"], ["v"], memory) as rows:
        table = pa.RecordBatch.from_pylist([change.row() for change in changes], schema=SCHEMA)
        rows.feed(table, EventLocations(0, np.arange(len(changes)), np.ones(len(changes), np.int64)))
        found = {row[name_value("id")]: row[name_value("v")] for part in rows.rows() for row in part.to_pylist()}
    assert found == expected


def test_many_keys_in_little_memory_and_their_files_are_removed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    count = 50_000
    ids = pa.array(np.arange(count) % 20_000)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat("u", count),
            pa.nulls(count, SCHEMA.field("before").type),
            pa.StructArray.from_arrays([ids, ids.cast(pa.string()), ids.cast(pa.string())], fields=list(ROW)),
            pa.nulls(count, SCHEMA.field("ts").type),
            pa.nulls(count, SCHEMA.field("unavailable").type),
            pa.nulls(count, POSITION_TYPE),
            pa.nulls(count, SCHEMA.field("marks").type),
        ],
        schema=SCHEMA,
    )
    with CurrentRows(["id"], ["v"], 1 << 20) as current:
        for begin in range(0, count, 1000):
            current.feed(
                rows.slice(begin, 1000), EventLocations(0, np.arange(begin, begin + 1000), np.ones(1000, np.int64))
            )
        found = [row for part in current.rows() for row in part.column(name_value("id")).to_pylist()]
        assert current._files is not None and list(tmp_path.iterdir())
    assert sorted(found) == list(range(20_000))
    assert list(tmp_path.iterdir()) == []
