"""What changes do to rows: inserts, deletes, updates with both images, truncations; with any amount of memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.rows.clearing import Clearing, Truncation
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.log_versions import LogVersions
from pyspark_pravega.datasource.changes.rows.names import Names
from pyspark_pravega.datasource.changes.rows.row_history import AFTER, BEFORE, DELETE, INSERT, RowHistory
from pyspark_pravega.datasource.tables.change_range import TIMESTAMP, VERSION, Bounds, ChangeRange
from pyspark_pravega.errors import InvalidOptionError, MalformedEventError
from tests.datasource.changes.rows.test_current import fold, read
from tests.datasource.single_changes import SCHEMA, Change

pytestmark = pytest.mark.slow

EVERYTHING = ChangeRange(VERSION, None).bounds()
SIGNS = {INSERT: "+", DELETE: "-", BEFORE: "<", AFTER: ">"}


def history(
    changes: Sequence[Change],
    *,
    memory: int = 1 << 28,
    bounds: Bounds = EVERYTHING,
    truncations: Sequence[Clearing] | None = None,
    one_batch: bool = False,
    log: LogVersions | None = None,
) -> list[tuple[str, int, str | None, int]]:
    """Sign, key, value and version of each change of a row, in order."""
    found = []
    with RowHistory(["id"], ["v"], memory, truncations, bounds, Names(log=log)) as rows:
        tables = []
        if one_batch:
            batch = pa.RecordBatch.from_pylist([change.row() for change in changes], schema=SCHEMA)
            count = len(changes)
            tables += rows.feed(batch, EventLocations(0, np.arange(count), np.ones(count, np.int64)))
        else:
            for offset, change in enumerate(changes):
                batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
                tables += rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))
        for table in (*tables, *rows.finish()):
            for row in table.to_pylist():
                found.append((SIGNS[row["change"]], row[name_value("id")], row[name_value("v")], row["version"]))
    return found


def test_each_change_is_what_it_does_to_the_row() -> None:
    changes = [
        Change("c", 1, "a", 10),
        Change("u", 1, "b", 20),
        Change("r", 2, "x", 25),
        Change(None),
        Change("d", 1, at=30),
        Change("c", 1, "c", 40),
    ]
    assert history(changes) == [
        ("+", 1, "a", 10),
        ("<", 1, "a", 20),
        (">", 1, "b", 20),
        ("+", 2, "x", 25),
        ("-", 1, "b", 30),
        ("+", 1, "c", 40),
    ]


def test_a_range_gives_images_of_rows_that_are_older() -> None:
    changes = [Change("c", 1, "a", 10, time=1), Change("u", 1, "b", 20, time=2), Change("d", 1, at=30, time=3)]
    assert history(changes, bounds=Bounds(VERSION, 20, 20)) == [("<", 1, "a", 20), (">", 1, "b", 20)]
    assert history(changes, bounds=Bounds(TIMESTAMP, 3, 9)) == [("-", 1, "b", 30)]
    assert history(changes, bounds=Bounds(VERSION, 31, 99)) == []


def test_what_is_known_already_is_no_change() -> None:
    first = Change("c", 1, "a", 10)
    assert history([first, first]) == [("+", 1, "a", 10)]
    assert history([first, Change("u", 1, "b", 20), first]) == [("+", 1, "a", 10), ("<", 1, "a", 20), (">", 1, "b", 20)]
    assert history([first, Change("r", 1, "a", 50)]) == [("+", 1, "a", 10)]
    assert history([first, Change("r", 1, "z", 50)]) == [("+", 1, "a", 10), ("<", 1, "a", 50), (">", 1, "z", 50)]
    # An update that changed no value was made all the same.
    assert history([first, Change("u", 1, "a", 20)])[1:] == [("<", 1, "a", 20), (">", 1, "a", 20)]
    assert history([Change("d", 1, at=5)]) == []


def test_nulls_and_nan_are_compared_as_values() -> None:
    null = Change("c", 1, None, 10)
    assert history([null, Change("r", 1, None, 50)]) == [("+", 1, None, 10)]
    assert len(history([null, Change("r", 1, "", 50)])) == 3


def test_values_that_were_not_sent_are_those_of_before() -> None:
    changes = [Change("c", 1, "large", 10), *(Change("u", 1, at=at, without=("v",)) for at in (20, 30))]
    assert history(changes)[1:] == [
        ("<", 1, "large", 20),
        (">", 1, "large", 20),
        ("<", 1, "large", 30),
        (">", 1, "large", 30),
    ]


def test_an_update_of_the_key_is_a_delete_and_an_insert() -> None:
    changes = [Change("c", 1, "a", 10), Change("u", 2, "a", 20, former=1)]
    assert history(changes) == [("+", 1, "a", 10), ("-", 1, "a", 20), ("+", 2, "a", 20)]


def test_a_truncation_deletes_what_there_is() -> None:
    changes = [
        Change("c", 1, "a", 10, ts=1),
        Change("c", 2, "b", 11, ts=1),
        Change("t", at=20, ts=2),
        Change("c", 1, "again", 30, ts=3),
    ]
    expected = [("+", 1, "a", 10), ("+", 2, "b", 11), ("-", 1, "a", 20), ("-", 2, "b", 20), ("+", 1, "again", 30)]
    assert history(changes) == history(changes, one_batch=True) == expected
    # What the connector delivers again was truncated, too.
    assert history([*changes, changes[1]]) == expected
    assert history(changes[:3]) == expected[:4]


def test_a_truncation_in_another_segment_comes_by_its_position() -> None:
    others: list[Truncation] = []
    changes = [Change("c", 1, "a", 10, ts=1), Change("u", 1, "b", 30, ts=3)]
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as rows:
        batch = pa.RecordBatch.from_pylist([Change("t", at=20, ts=2).row()], schema=SCHEMA)
        rows.feed(batch, EventLocations(5, np.array([0]), np.array([1])))
        others += rows.truncations
    expected = [("+", 1, "a", 10), ("-", 1, "a", 20), ("+", 1, "b", 30)]
    assert history(changes, truncations=others) == expected
    assert history(changes[:1], truncations=others) == expected[:2]


def test_a_truncation_among_siblings() -> None:
    """Segments that scaling made of one are read one after the other, whatever came first."""
    with RowHistory(["id"], ["v"], 1 << 28, None, EVERYTHING) as rows:
        batch = pa.RecordBatch.from_pylist([Change("t", at=20, ts=2).row()], schema=SCHEMA)
        rows.feed(batch, EventLocations(2, np.array([0]), np.array([1])))
        noted = rows.truncations
    expected = [("+", 1, "a", 10), ("-", 1, "a", 20), ("+", 1, "b", 30)]
    changes = [Change("c", 1, "a", 10, ts=1), Change("u", 1, "b", 30, ts=3)]
    truncate = Change("t", at=20, ts=2, segment=2)
    for segment, order in ((1, [*changes, truncate]), (3, [truncate, *changes])):
        placed = [Change(**{**vars(change), "segment": segment if change.op != "t" else 2}) for change in order]
        assert history(placed, truncations=noted) == expected


def test_a_complete_snapshot_deletes_what_it_lacks() -> None:
    old = [read(1, 100, 1000, "first"), read(2, 100, 1001), read(3, 100, 1002, "last")]
    second = [read(1, 900, 2000, "first"), read(3, 900, 2001, "last")]
    inserts = [("+", id, "read", 100) for id in (1, 2, 3)]
    assert history([*old, *second]) == history([*old, *second], one_batch=True) == [*inserts, ("-", 2, "read", 900)]
    again = Change("c", 2, "again", 910, 2100, 2100)
    expected = [*inserts, ("-", 2, "read", 900), ("+", 2, "again", 910)]
    assert history([*old, *second, again]) == history([*old, *second, again], one_batch=True) == expected
    assert history([*old, second[0]]) == inserts
    # Of a log that has begun again: versions of a row ascend all the same.
    new = [read(1, 5, 2000, "first"), read(3, 5, 2001, "last"), Change("c", 2, "again", 6, 2100, 2100)]
    assert history([*old, *new]) == [*inserts, ("-", 2, "read", 101), ("+", 2, "again", 102)]


def test_many_truncations() -> None:
    changes = []
    for at in range(0, 4000, 4):
        changes += [Change("c", 1, "a", at + 1), Change("c", 2, "b", at + 2), Change("t", at=at + 3)]
    found = history(changes, one_batch=True)
    assert len(found) == 4000
    assert apply_history(found) == {}


def test_versions_of_a_row_ascend() -> None:
    """So that Spark nets its changes in their order."""
    # A transaction that was open while the snapshot was taken; one position for several changes; none at all.
    late = [Change("r", 1, "a", 50, time=1), Change("u", 1, "b", 45, time=2)]
    same = [Change("c", 1, "a", 5), Change("u", 1, "b", 5), Change("d", 1, at=5)]
    without = [Change("c", 1, "a", 5), Change("u", 1, "b"), Change("u", 1, "c", 9)]
    assert [row[3] for row in history(late)] == [50, 51, 51]
    assert [row[3] for row in history(same)] == [5, 6, 6, 7]
    assert [row[3] for row in history(without)] == [5, 6, 6, 9, 9]
    assert history([Change("c", 1, "a")]) == [("+", 1, "a", 0)]


def test_numbers_of_a_position_that_are_too_large_for_a_version() -> None:
    with pytest.raises(MalformedEventError, match="has more than 23 bits"):
        history([Change("c", 1, "a", 1 << 23, origin="mysql/x/1/bin")])


def apply_history(found: Sequence[tuple[str, int, str | None, int]]) -> dict[int, str | None]:
    """The rows that a history leads to; every change must fit the row it finds."""
    rows: dict[int, str | None] = {}
    for sign, key, value, _ in found:
        if sign == "+":
            assert key not in rows
            rows[key] = value
        elif sign == "-":
            assert rows.pop(key) == value
        elif sign == "<":
            assert rows[key] == value
        else:
            assert key in rows
            rows[key] = value
    return rows


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
@pytest.mark.parametrize("memory", [1 << 28, 20_000])
def test_the_history_leads_to_the_current_rows(seed: int, memory: int) -> None:
    rng = random.Random(seed)
    changes = []
    for number in range(400):
        at = rng.choice([number, number, number, rng.randrange(number + 1)])
        common: dict[str, Any] = {"at": at, "time": at, "ts": number}
        if rng.random() < 0.01:
            changes.append(Change("t", **{**common, "at": number}))
            continue
        op = rng.choice("cuuud")
        without = ("v",) if op == "u" and rng.random() < 0.3 else ()
        changes.append(Change(op, rng.randrange(30), None if without else str(number), without=without, **common))
    found = history(changes, memory=memory)
    assert apply_history(found) == fold(changes)
    assert apply_history(history(changes, one_batch=True, memory=memory)) == fold(changes)
    if memory > 1 << 20:
        # In files changes come key by key.
        assert sorted(found, key=str) == sorted(history(changes, memory=20_000), key=str)


def test_ranges() -> None:
    def bounds(*range: Any) -> tuple[int, int]:
        found = ChangeRange(VERSION, *range).bounds()
        return found.low, found.high

    assert bounds("3", "7") == (3, 7)
    assert bounds("3", "7", False, False) == (4, 6)
    assert bounds("0/16B3748") == (0x16B3748, 2**63 - 1)
    assert bounds(None) == (1 - 2**63, 2**63 - 1)
    for wrong in (("x",), ("1.5",), ("7", "3"), ("9" * 19,), ("",)):
        with pytest.raises(InvalidOptionError, match="CHANGES"):
            bounds(*wrong)


def test_more_keys_than_sixteen_bits_can_number() -> None:
    rng, keys, known = random.Random(5), 70_000, dict[int, str]()
    changes, expected = [], []
    for at in range(100_000):
        key = at if at < keys else rng.randrange(keys)
        op = "d" if key in known and rng.random() < 0.2 else "u"
        changes.append(Change(op, key, None if op == "d" else str(at), at, time=at))
        former = known.pop(key, None)
        if op == "d":
            expected.append(("-", key, former, at))
            continue
        known[key] = str(at)
        images = [("+", key, str(at), at)] if former is None else [("<", key, former, at), (">", key, str(at), at)]
        expected += images
    assert history(changes, one_batch=True) == expected


@pytest.mark.parametrize("memory", [1 << 28, 20_000, 500])
def test_a_version_of_the_log_changes_each_row_once(memory: int) -> None:
    """What a version did leads from the rows before it to those after it, wherever a reduction ends."""
    for seed in range(4):
        chosen = random.Random(seed)
        changes = [Change(chosen.choice("cud"), chosen.randrange(5), str(number)) for number in range(200)]
        ends = sorted({*chosen.sample(range(1, 200), 12), 200})
        log = LogVersions({0: {"ends": ends, "numbers": range(7, 7 + len(ends)), "times": [-1] * len(ends)}})
        found, begin = history(changes, memory=memory, log=log), 0
        rows: dict[int, str] = {}
        for version, end in enumerate(ends, 7):
            now = dict(rows)
            for change in changes[begin:end]:
                assert change.id is not None and change.v is not None
                now.pop(change.id, None)
                now |= {change.id: change.v} if change.op != "d" else {}
            gone = {key: v for key, v in rows.items() if now.get(key) != v}
            come = {key: v for key, v in now.items() if rows.get(key) != v}
            here = [each for each in found if each[3] == version]
            assert {each[1]: each[2] for each in here if each[0] in "-<"} == gone
            assert {each[1]: each[2] for each in here if each[0] in "+>"} == come
            assert len(here) == len(gone) + len(come)
            rows, begin = now, end
        assert {each[3] for each in found} <= {*range(7, 7 + len(ends))}


def test_what_others_wrote_before_a_compaction_is_a_change() -> None:
    """It belongs to the version of the compaction, which hides the rows that this repeats, and nothing else."""
    log = LogVersions({0: {"ends": [1, 4], "numbers": [1, 2], "times": [-1, -1]}}, hidden=(2,))
    changes = [Change("c", 1, "a"), Change("u", 1, "b"), Change("r", 1, "b"), Change("r", 2, "c")]
    assert history(changes, log=log) == [("+", 1, "a", 1), ("<", 1, "a", 2), (">", 1, "b", 2)]
