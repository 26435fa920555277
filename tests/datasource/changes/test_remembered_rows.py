"""A scan that goes on from remembered rows finds what a scan of all events finds; what it cannot trust, it leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes import key_blocks
from pyspark_pravega.datasource.changes.group_reader import GroupPartition
from pyspark_pravega.datasource.changes.key_blocks import find_slots
from pyspark_pravega.datasource.changes.remembered_rows import RememberedGroup
from pyspark_pravega.datasource.changes.rows.clearing import Clearing
from pyspark_pravega.datasource.changes.rows.current import CurrentRows
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.datasource.changes.rows.row_history import RowState
from pyspark_pravega.datasource.changes.states import WHOLE, RowStates
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.planned_scan import Lookup
from tests.datasource.changes.rows.test_database import KEYS, Database, Event, clearings_of, current, in_segment
from tests.datasource.single_changes import SCHEMA, Change

LARGE, SMALL = 1 << 28, 3_000


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


def partition(end: int, before: str | None, after: str | None, segment: int = 0) -> RememberedGroup:
    return RememberedGroup(GroupPartition((SegmentSlice(segment, 0, end),), {}, ""), "origin", before, after)


@contextmanager
def recalled(part: RememberedGroup, *, changing: bool = False) -> Iterator[RowState | None]:
    with ExitStack() as opened:
        yield part.recall(opened, changing=changing)


def scan(
    part: RememberedGroup, events: Sequence[Event], clearings: Sequence[Clearing] = (), memory: int = LARGE
) -> tuple[dict[int, str], int]:
    """Scan all events of a segment, as a task does. Return the rows, and how many events were read."""
    with recalled(part) as state, CurrentRows(["id"], ["v"], memory) as rows:
        begin = 0
        if state is not None:
            rows.resume(state)
            left = part.without(state).pieces
            begin = left[0].start if left else len(events)
        for clearing in clearings:
            rows.clearings.add(clearing)
        found = []
        if state is not None and begin == len(events):
            found = [
                row for one in rows.rows_among(e for file in state.entries for e in file) for row in one.to_pylist()
            ]
        else:
            for offset, change in events[begin:]:
                batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
                rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))
            with part.write(rows.state(piece.segment_id for piece in part.events.pieces), ["id"]) as keep:
                found = [row for one in rows.rows(keep) for row in one.to_pylist()]
    assert len({row[name_value("id")] for row in found}) == len(found)
    return {row[name_value("id")]: row[name_value("v")] for row in found}, len(events) - begin


def look_up(part: RememberedGroup, events: Sequence[Event], clearings: Sequence[Clearing], keys: set[int]) -> None:
    """Compare the rows of some keys, by their blocks and newer events, with those that all events lead to."""
    asked = pa.table({name_value("id"): pa.array(sorted(keys), pa.int64())})
    part = replace(part, lookup=Lookup(tuple(find_slots(asked, ["id"]).tolist()), ".copy"))
    with recalled(part) as state, CurrentRows(["id"], ["v"], LARGE) as rows:
        assert state is not None
        rows.resume(state)
        for clearing in clearings:
            rows.clearings.add(clearing)
        left = part.without(state).pieces
        for offset, change in events[left[0].start :] if left else ():
            batch = pa.RecordBatch.from_pylist([change.row()], schema=SCHEMA)
            rows.feed(batch, EventLocations(change.segment, np.array([offset]), np.array([1])))
        found = [row for one in rows.rows() for row in one.to_pylist()]
    expected = current(events, clearings, LARGE, 1000)
    assert {row[name_value("id")]: row[name_value("v")] for row in found if row[name_value("id")] in keys} == {
        key: v for key, v in expected.items() if key in keys
    }


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("memory", [LARGE, SMALL])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_scans_that_go_on_find_what_scans_of_all_events_find(
    seed: int, memory: int, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_blocks, "_BLOCK_BYTES", 300)  # one or two rows
    rng = random.Random(seed * 10 + segments)
    database = Database(rng, segments)
    before: dict[int, str] = {}
    read: dict[int, int] = {}
    for number in range(6):
        database.live(rng.randrange(40))
        clearings = clearings_of(database.events) if segments > 1 else []
        found: dict[int, str] = {}
        for segment in range(segments):
            events = in_segment(database.events, segment)
            if not events:
                continue
            name = f"q{segment}-{segment}-{len(events):09}-x{number}"
            part = partition(len(events), before.get(segment), name, segment)
            if part.before is not None:
                look_up(part, events, clearings, set(rng.sample(range(KEYS), 2)))
            rows, new = scan(part, events, clearings, memory)
            assert rows == current(events, clearings, LARGE, 1000)
            assert new == len(events) - read.get(segment, 0)
            if new:
                before[segment] = name + WHOLE
            read[segment] = len(events)
            found |= rows
    assert found == database.rows


def test_a_file_that_was_continued_often_has_few_blocks() -> None:
    events = numbered(*(Change("c", key, "a", 10 + key) for key in range(50)))
    before, sizes = None, []
    for number in range(45):
        name = f"q-0-{len(events):09}-x"
        rows, _ = scan(partition(len(events), before, name), events)
        assert len(rows) == 50 and (not number or rows[number - 1] == str(number))
        before = name + WHOLE
        with recalled(partition(len(events), before, None)) as state:
            assert state is not None
            sizes.append(sum(1 for file in state.entries for _ in file))
        look_up(partition(len(events), before, None), events, [], {number - 1, number, 60})
        events.append((len(events), Change("u", number, str(number + 1), 100 + number)))
    assert max(sizes) > 10, "blocks are taken over"
    assert max(sizes) <= 20 and sizes.count(1) >= 2, "and put together when they are many"


def test_a_statement_sees_rows_of_a_connector_whatever_its_key(caplog: pytest.LogCaptureFixture) -> None:
    scan(partition(3, None, "q-0-000000003-x"), EVENTS)
    part = replace(partition(3, "q-0-000000003-x.whole", None), lookup=Lookup((1,), ".copy"))
    for changing, rows in ((False, 0), (True, 2), (False, 0)):
        with recalled(part, changing=changing) as state:
            assert state is not None and sum(len(e) for file in state.entries for e in file) == rows
    states = RowStates().directory
    (states / "q-0-000000003-x.whole").rename(states / ".copy")  # as if only some blocks were there
    for changing in (False, True):
        with recalled(part, changing=changing) as state:
            assert (state is None) == changing
    assert not caplog.text and not (states / ".copy").exists()
    with recalled(part) as state:
        assert state is None and "rows in q-0-000000003-x.whole cannot" in caplog.text


def numbered(*changes: Change) -> list[Event]:
    return list(enumerate(changes))


EVENTS = numbered(Change("c", 1, "a", 10, ts=1), Change("c", 2, "b", 11, ts=2), Change("u", 1, "c", 12, ts=3))


def test_what_is_deleted_stays_deleted_when_older_changes_come_again() -> None:
    events = numbered(Change("c", 1, "a", 10), Change("d", 1, at=20), Change("c", 2, "b", 21))
    assert scan(partition(3, None, "q-0-000000003-x"), events) == ({2: "b"}, 3)
    again = [*events, (3, Change("c", 1, "a", 10))]
    assert scan(partition(4, "q-0-000000003-x.whole", "q-0-000000004-x"), again) == ({2: "b"}, 1)


def test_values_that_are_not_sent_come_from_remembered_rows() -> None:
    scan(partition(3, None, "q-0-000000003-x"), EVENTS)
    more = [*EVENTS, (3, Change("u", 2, at=13, without=("v",)))]
    assert scan(partition(4, "q-0-000000003-x.whole", "q-0-000000004-x"), more) == ({1: "c", 2: "b"}, 1)


def test_origins_keep_their_meaning() -> None:
    """Positions of another log say nothing about those before."""
    events = [*EVENTS, (3, Change("u", 1, "other", 1, origin="postgresql/y/db")), (4, Change("d", 2, at=13))]
    scan(partition(5, None, "q-0-000000005-x"), events)
    more = [*events, (5, Change("u", 1, "last", 2, origin="postgresql/y/db")), (6, Change("c", 2, "old", 12))]
    found = scan(partition(7, "q-0-000000005-x.whole", "q-0-000000007-x"), more)
    assert found == ({1: "last"}, 2)


def test_truncations_of_other_segments_are_not_remembered() -> None:
    """Another scan finds those that it reads: it may end before the others."""
    elsewhere = clearings_of([(0, Change("t", at=50, ts=50, segment=7))])
    part = partition(3, None, "q-0-000000003-x")
    assert scan(part, EVENTS, elsewhere) == ({}, 3)
    again = partition(3, "q-0-000000003-x.whole", "q-0-000000003-x")
    assert scan(again, EVENTS) == ({1: "c", 2: "b"}, 0)
    assert scan(again, EVENTS, elsewhere) == ({}, 0)
    own = [*EVENTS, (3, Change("t", at=51, ts=51))]
    assert scan(partition(4, None, "q-0-000000004-x"), own) == ({}, 4)
    assert scan(partition(4, "q-0-000000004-x.whole", None), own) == ({}, 0)


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "harm",
    [flip, lambda content: content[:-1], lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"x"],
    ids=["flipped", "cut-off", "half", "empty", "short"],
)
def test_a_damaged_file_is_not_used(harm: object, caplog: pytest.LogCaptureFixture) -> None:
    assert callable(harm)
    scan(partition(3, None, "q-0-000000003-x"), EVENTS)
    file = RowStates().directory / "q-0-000000003-x.whole"
    file.write_bytes(harm(file.read_bytes()))
    harmed = file.read_bytes()
    with recalled(partition(3, file.name, None)) as state:
        assert state is None and not file.exists(), "the next task fetches it again"
    file.write_bytes(harmed)
    part = partition(3, file.name, "q-0-000000003-x")
    assert scan(part, EVENTS) == ({1: "c", 2: "b"}, 3)
    assert file.name in caplog.text and "All events are read" in caplog.text
    assert scan(part, EVENTS) == ({1: "c", 2: "b"}, 0), "the file was written again"


def test_a_file_that_is_missing_or_of_other_events_is_not_used() -> None:
    file = "q-0-000000003-x.whole"
    assert scan(partition(3, file, "q-0-000000003-x"), EVENTS) == ({1: "c", 2: "b"}, 3)
    kept = (RowStates().directory / file).read_bytes()
    right = partition(4, file, "q-0-000000004-x")
    later, other, shorter, elsewhere = (
        replace(right, events=replace(right.events, pieces=(SegmentSlice(0, 1, 4),))),
        replace(right, origin="another"),
        partition(2, file, "q-0-000000002-x"),
        partition(4, file, "q-0-000000004-x", segment=1),
    )
    for wrong in (later, other, shorter, elsewhere):
        (RowStates().directory / file).write_bytes(kept)
        with recalled(wrong) as state:
            assert state is None
    (RowStates().directory / file).write_bytes(kept)
    with recalled(right) as state:
        assert state is not None and right.without(state).pieces == (SegmentSlice(0, 3, 4),)


def test_a_state_of_segments_before_they_were_merged_goes_before_the_others() -> None:
    scan(partition(3, None, "q-0-000000003-x"), EVENTS)
    pieces = (SegmentSlice(0, 0, 3), SegmentSlice(1, 0, 5), SegmentSlice(7, 0, 2))
    merged = RememberedGroup(GroupPartition(pieces, {}, ""), "origin", "q-0-000000003-x.whole", None)
    with recalled(merged) as state:
        assert state is not None and merged.without(state).pieces == pieces[1:]


def test_a_scan_that_does_not_end_leaves_nothing() -> None:
    part = partition(3, None, "q-0-000000003-x")
    with CurrentRows(["id"], ["v"], LARGE) as rows, pytest.raises(GeneratorExit), part.write(rows.state([0]), ["id"]):
        raise GeneratorExit
    assert list(RowStates().directory.iterdir()) == []
