"""Folding of old versions in the commit log: none is lost or seen twice, whoever dies, reads or folds meanwhile."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import KeyValueTable
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, ChangeCounts, Version, make_row_key
from pyspark_pravega.datasource.commit_log.versions import FOLDED, encode_checkpoint, read_checkpoint
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.errors import ConditionalUpdateError, InvalidOptionError
from tests.datasource.test_commit_log import events_of_versions
from tests.datasource.transactions import die_in_commit, insert_into_all, insert_many, log_rows, record_versions

SPAWN = multiprocessing.get_context("spawn")


def rows_of_log(pravega: Pravega, stream: Stream) -> tuple[int, int]:
    """How many versions have a row of their own, and how many checkpoints there are."""
    rows = log_rows(pravega, stream.scope)
    return sum("rows" in row for row in rows), sum("folded" in row for row in rows)


def publish(pravega: Pravega, stream: Stream, versions: int) -> None:
    """Publish versions of transactions without events, which takes a small part of the time of INSERTs."""
    log, end = CommitLog(pravega, stream), measure_tail(pravega, stream)
    for number in range(versions):
        transaction = uuid.uuid4()
        assert log.enter(transaction, rows=number, operation="TEST")
        assert log.publish(transaction, lambda: end) is not None


def check(log: CommitLog, versions: list[Version]) -> None:
    """The log has these versions, wherever they are looked for."""
    newest = versions[-1].number
    assert log.versions() == versions
    for number in (1, 2, FOLDED - 1, FOLDED, FOLDED + 1, newest - FOLDED, newest - 1, newest):
        assert log.versions(number, number) == [versions[number - 1]]
        assert log.versions(number, number + 2) == versions[number - 1 : number + 2]
        assert log.versions(2, number) == versions[1:number]
        found = log.find_newest_by(versions[number - 1].timestamp)
        assert found == [version for version in versions if version.timestamp <= versions[number - 1].timestamp][-1]
    assert log.find_newest_by(versions[0].timestamp - 1) is None
    assert log.has_version_of(versions[3].transaction)
    assert not log.has_version_of(uuid.uuid4())


@pytest.mark.parametrize(("before", "each"), [(2 * FOLDED - 9, 6), pytest.param(0, FOLDED + 2, marks=pytest.mark.long)])
def test_writers_fold_what_is_old(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream], before: int, each: int
) -> None:
    """Each version still has the events of exactly one of the INSERTs of two processes; those before have none."""
    stream, all_versions = new_stream(2), before + 2 * each
    record_versions(pravega, stream, before)
    with ProcessPoolExecutor(2, mp_context=SPAWN) as processes:
        made = [processes.submit(insert_many, client_config, stream, 2, each) for _ in range(2)]
        assert [one.result() for one in made] == [each] * 2
    assert rows_of_log(pravega, stream) == (all_versions - FOLDED, 1)
    seen = events_of_versions(pravega, stream)
    assert sorted(seen) == list(range(1, all_versions + 1))
    assert all(list(events.values()) == [2] * (number > before) for number, events in seen.items())
    assert len({text for events in seen.values() for text in events}) == 2 * each
    versions = CommitLog(pravega, stream).versions()
    assert [(version.rows, version.operation) for version in versions[before:]] == [(2, "INSERT")] * 2 * each
    check(CommitLog(pravega, stream), versions)


STEPS: dict[str, tuple[str, str]] = {
    "before the checkpoint": ("put", "before"),
    "after the checkpoint": ("put", "after"),
    "after the removal": ("delete_many", "after"),
}


def die(config: ClientConfig, stream: Stream, step: str) -> None:
    """Fold, and be killed at a step."""
    name, when = STEPS[step]
    act = getattr(KeyValueTable, name)

    @functools.wraps(act)
    def last_step(*arguments: Any, **options: Any) -> Any:
        if when == "after":
            act(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    with connect(config) as pravega:
        setattr(KeyValueTable, name, last_step)
        CommitLog(pravega, stream).fold()


def test_a_folder_that_is_killed(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
) -> None:
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED - 1)
    log = CommitLog(pravega, stream)
    assert (log.fold(), rows_of_log(pravega, stream)) == (0, (2 * FOLDED - 1, 0))
    versions = log.versions()
    # The version that folds is published without, as older releases do.
    for step in STEPS:
        if step == "before the checkpoint":
            publish_without_folding(pravega, stream)
            versions = log.versions()
        folder = SPAWN.Process(target=die, args=(client_config, stream, step))
        folder.start()
        folder.join(60)
        assert folder.exitcode == (-signal.SIGKILL)
        check(log, versions)
        if step == "after the checkpoint":
            assert rows_of_log(pravega, stream) == (2 * FOLDED - 1, 1)
    assert rows_of_log(pravega, stream) == (FOLDED, 1)
    assert log.fold() == 0


def publish_without_folding(pravega: Pravega, stream: Stream) -> None:
    log, end, transaction = CommitLog(pravega, stream), measure_tail(pravega, stream), uuid.uuid4()
    assert log.enter(transaction, rows=0, operation="TEST")
    log.wait_for_turn(transaction, lambda: end)
    head = log.head()
    assert log._publish(head, head.queue[0], end)


def test_who_publishes_for_a_writer_that_is_silent_folds(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
) -> None:
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED - 1)
    writer = SPAWN.Process(target=die_in_commit, args=(client_config, stream, 1, "after"))
    writer.start()
    writer.join(60)
    insert_into_all(pravega, stream, 1)
    assert rows_of_log(pravega, stream) == (FOLDED + 1, 1)


@pytest.mark.parametrize(
    ("before", "more"), [(4 * FOLDED - 20, 40), pytest.param(3 * FOLDED, 2 * FOLDED, marks=pytest.mark.long)]
)
def test_folders_readers_and_writers_at_once(
    pravega: Pravega, new_stream: Callable[..., Stream], before: int, more: int
) -> None:
    stream = new_stream()
    record_versions(pravega, stream, before)
    log = CommitLog(pravega, stream)
    known = log.versions()
    done = threading.Event()

    def fold() -> int:
        made = 0
        while not done.is_set():
            try:
                made += CommitLog(pravega, stream).fold()
            except ConditionalUpdateError:
                continue
        return made

    def read() -> None:
        reader, times = CommitLog(pravega, stream), 0
        while times < 4 or not done.is_set():
            assert reader.versions(1, len(known)) == known
            assert reader.versions(FOLDED + 3, FOLDED + 9) == known[FOLDED + 2 : FOLDED + 9]
            assert reader.versions(7, 7) == [known[6]]
            times += 1

    with ThreadPoolExecutor(5) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        folders = [threads.submit(fold) for _ in range(2)]
        writing = threads.submit(publish, pravega, stream, more)
        try:
            writing.result()
        finally:
            done.set()
        assert [thread.exception() for thread in readers + folders] == [None] * 4
    log.fold()
    folded = (before + more) // FOLDED - 1
    assert rows_of_log(pravega, stream) == (before + more - folded * FOLDED, folded)
    assert log.versions(1, len(known)) == known
    check(log, log.versions())


def test_a_stream_that_is_made_again(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Others delete a stream, and leave its rows: those of the new one count, and no folder removes them."""
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED - 1)
    publish(pravega, stream, 1)
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    assert new_stream() == stream
    log = CommitLog(pravega, stream)
    assert log.versions() == []
    publish(pravega, stream, 3)
    assert [version.rows for version in log.versions()] == [0, 1, 2]
    assert log.versions(2, 2) == log.versions()[1:2]
    assert log.versions(4, 4) == []
    assert log.fold() == 0
    insert_into_all(pravega, stream, 1)
    record_versions(pravega, stream, 2 * FOLDED - 5)
    publish(pravega, stream, 1)
    versions = log.versions()
    assert [version.number for version in versions] == list(range(1, 2 * FOLDED + 1))
    assert len({version.cut for version in versions}) == 2
    assert rows_of_log(pravega, stream)[1] == 1
    check(log, versions)


def test_what_changed_since_it_was_read_is_not_removed(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder sleeps before it removes rows, and wakes up when the stream was made again and has a version."""
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED)
    remove = KeyValueTable.delete_many

    def late(table: KeyValueTable, keys: Any, versions: Any = None) -> None:
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        new_stream()
        publish(pravega, stream, 1)
        remove(table, keys, versions)

    monkeypatch.setattr(KeyValueTable, "delete_many", late)
    log = CommitLog(pravega, stream)
    with pytest.raises(ConditionalUpdateError):
        log.fold()
    assert [(version.number, version.rows) for version in CommitLog(pravega, stream).versions()] == [(1, 0)]


def test_a_folder_that_meets_versions_of_a_new_stream(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """It has read the head row before the stream was made again, and the other rows after."""
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED)
    log = CommitLog(pravega, stream)
    old = log.head().origin
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    new_stream()
    publish(pravega, stream, 1)
    assert not log._fold_up_to(FOLDED, old)
    assert [(version.number, version.rows) for version in CommitLog(pravega, stream).versions()] == [(1, 0)]


def test_what_folders_that_died_have_left_is_removed(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints of two of them still have their rows beside them."""
    stream = new_stream()
    record_versions(pravega, stream, 4 * FOLDED - 1)
    log = CommitLog(pravega, stream)
    versions = log.versions()
    with monkeypatch.context() as patched:
        patched.setattr(KeyValueTable, "delete_many", lambda *arguments: None)
        assert log.fold() == 2
    assert rows_of_log(pravega, stream) == (4 * FOLDED - 3, 2)
    assert log.fold() == 2
    assert rows_of_log(pravega, stream) == (2 * FOLDED - 1, 2)
    assert log.versions() == versions


@pytest.mark.parametrize("value", [b"{", b"{}", b'{"version": 5, "cut": ""}'])
def test_a_commit_stands_that_cannot_fold(
    pravega: Pravega, new_stream: Callable[..., Stream], caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    stream = new_stream()
    publish(pravega, stream, 1)
    log = CommitLog(pravega, stream)
    head = log.head()
    assert log._replace(head, replace(head, version=2 * FOLDED - 1))
    pravega.key_value_table(stream.scope, TABLE_NAME).put(make_row_key(stream, FOLDED), value)
    publish(pravega, stream, 1)
    assert "were not folded" in caplog.text
    assert log.newest() == 2 * FOLDED


def test_older_releases_refuse_checkpoints_by_name(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They make a stream cut of the text that is in the place of one. Whoever measures the end never does."""
    stream = new_stream()
    record_versions(pravega, stream, 2 * FOLDED - 1)
    publish(pravega, stream, 1)
    [checkpoint] = [row for row in log_rows(pravega, stream.scope) if "folded" in row]
    assert (checkpoint["version"], checkpoint["stream"]) == (FOLDED, stream.name)
    with pytest.raises(InvalidOptionError, match="folded by a newer pyspark-pravega: upgrade this one"):
        StreamCut.from_text(checkpoint["cut"])
    log = CommitLog(pravega, stream)
    now = log.head()
    before = iter([replace(now, version=FOLDED - 2), replace(now, version=FOLDED - 1), replace(now, version=FOLDED)])
    monkeypatch.setattr(log, "head", lambda: next(before, now))
    assert log.measure_settled(lambda until: until) == measure_tail(pravega, stream)


def test_checkpoints_keep_cuts_of_streams_that_are_scaled() -> None:
    stream = Stream("s", "t")
    cuts = [{0: 5, 1: 0}, {0: 5, 1: 70}, {1: 80, 2**32 + 2: 0, 2**32 + 3: 9}, {2**33 + 4: 12}, {2**33 + 4: 12}]
    versions = [
        Version(number, StreamCut(stream, cut), 1_700_000_000_000_000 + number * 1000, number, "INSERT", uuid.uuid4())
        for number, cut in enumerate(cuts, 129)
    ]
    versions[3] = replace(versions[3], operation="MERGE", changes=ChangeCounts(1, 2, 1))
    assert read_checkpoint(stream, json.loads(encode_checkpoint(stream, 0, versions))) == versions
