"""The ledger: an epoch is committed once, whatever dies, runs out or is copied; or its writer is fenced by name."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionCalls, TransactionStatus
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert import ledger
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch, EpochRecorder, LedgerRow
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.scan.borders import count_events_by_log
from pyspark_pravega.errors import QueryFencedError, TransactionNotOpenError, TransactionOutcomeUnknownError
from tests.datasource.insert.test_commit import visible
from tests.datasource.scans import scan
from tests.datasource.transactions import SETTINGS, begin_insert, log_rows, raw_table, remove_rows

SPAWN = multiprocessing.get_context("spawn")
QUERY = "6e0d9c1c-51a0-4b8e-9d0a-3d9f0f6b6b11"
POINTS: dict[str, tuple[Any, str, str]] = {
    "before seal": (SegmentStore, "seal_segments", "before"),
    "before record": (CommitLog, "enter", "before"),
    "after record": (CommitLog, "enter", "after"),
    "after turn": (CommitLog, "wait_for_turn", "after"),
    "after commit is asked for": (TransactionCalls, "commit_transaction", "after"),
    "after commit": (Transaction, "commit", "after"),
    "after publish": (CommitLog, "publish", "after"),
}
"""Steps of docs/design/streaming-sink.md: what does each, and whether the process dies before or after it."""
FEW_POINTS = ("before record", "after record", "after commit")


def epoch(number: int, run: str = "first", *, query: str = QUERY, offsets: str | None = None) -> Epoch:
    return Epoch.of_query(query, number, run, offsets or f"what {number} reads")


def rows_of(number: int) -> list[bytes]:
    return [b"epoch %d row %d" % (number, row) for row in range(20)]


def write(pravega: Pravega, stream: Stream, of: Epoch, rows: Sequence[bytes] | None = None) -> int:
    """Do one epoch: its task, and its commit."""
    insert, messages = begin_insert(pravega, stream, rows_of(of.number) if rows is None else rows)
    return finish(pravega, stream, insert, messages, of)


def finish(pravega: Pravega, stream: Stream, insert: Insert, messages: Sequence[InsertMessage], of: Epoch) -> int:
    try:
        return commit_epoch(insert, messages, of)
    finally:
        insert.transaction.stop()


def versions(pravega: Pravega, stream: Stream) -> int:
    return len(CommitLog(pravega, stream).versions())


def check(pravega: Pravega, stream: Stream, epochs: int) -> None:
    """Every epoch is there once, and is one version."""
    assert visible(pravega, stream) == sorted(row for number in range(epochs) for row in rows_of(number))
    assert versions(pravega, stream) == epochs


def read_recorded(pravega: Pravega, stream: Stream, of: Epoch) -> LedgerRow:
    entry = EpochRecorder(stream, of, 0)
    return CommitLog(pravega, stream).read_companion(entry.number, entry.row)


def die(config: ClientConfig, stream: Stream, number: int, point: str) -> None:
    """Write an epoch, and be killed at a point of its commit."""
    owner, name, when = POINTS[point]
    step = getattr(owner, name)

    @functools.wraps(step)
    def last_step(*arguments: Any, **options: Any) -> Any:
        if when == "after":
            step(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    with connect(config) as pravega:
        insert, messages = begin_insert(pravega, stream, rows_of(number))
        setattr(owner, name, last_step)
        commit_epoch(insert, messages, epoch(number))


@pytest.mark.parametrize(
    "point", [*FEW_POINTS, *(pytest.param(one, marks=pytest.mark.long) for one in POINTS if one not in FEW_POINTS)]
)
def test_a_driver_killed_at_any_step(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream], point: str
) -> None:
    stream = new_stream(3)
    write(pravega, stream, epoch(0))
    driver = SPAWN.Process(target=die, args=(client_config, stream, 1, point))
    driver.start()
    driver.join(60)
    assert driver.exitcode == -signal.SIGKILL
    for _ in range(2):  # the second time it is known to be done
        assert write(pravega, stream, epoch(1, "second")) == len(rows_of(1))
        check(pravega, stream, 2)
    write(pravega, stream, epoch(2, "second"))
    check(pravega, stream, 3)
    assert read_recorded(pravega, stream, epoch(3, "second")).done
    head = CommitLog(pravega, stream).head()
    assert head is not None and head.committing == ()
    assert count_events_by_log(pravega, stream, scan(pravega, raw_table(stream), ["event"])) == 60


def test_a_replay_leaves_no_transaction_behind(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    write(pravega, stream, epoch(0))
    write(pravega, stream, epoch(1))
    for number in (0, 1):
        insert, messages = begin_insert(pravega, stream, rows_of(number))
        finish(pravega, stream, insert, messages, epoch(number))
        assert insert.transaction.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    check(pravega, stream, 2)


def record(pravega: Pravega, stream: Stream, of: Epoch) -> Transaction:
    """Do an epoch up to `record`, as a driver leaves it that dies then."""
    insert, _ = begin_insert(pravega, stream, rows_of(of.number))
    insert.transaction.stop()
    entry = EpochRecorder(stream, of, len(rows_of(of.number)))
    entered = CommitLog(pravega, stream).enter(insert.transaction.id, rows=1, operation="STREAM", companion=entry)
    assert entered
    return insert.transaction


def test_a_recorded_transaction_that_ran_out_is_replaced(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    former = record(pravega, stream, epoch(0))
    former.abort()  # as its lease would do
    write(pravega, stream, epoch(0, "second"))
    check(pravega, stream, 1)
    assert read_recorded(pravega, stream, epoch(0, "second")).transaction != former.id


def test_one_that_ran_out_and_has_no_rows_the_second_time(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    record(pravega, stream, epoch(0)).abort()
    write(pravega, stream, epoch(0, "second"), [])
    assert visible(pravega, stream) == []
    write(pravega, stream, epoch(0, "third"), [])
    write(pravega, stream, epoch(1, "third"))
    assert visible(pravega, stream) == sorted(rows_of(1))


def test_a_lease_that_ran_out_before_the_commit(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    insert, messages = begin_insert(pravega, stream, rows_of(0))
    pravega.controller.abort_transaction(stream, insert.transaction.id)
    with pytest.raises(TransactionNotOpenError, match=str(insert.transaction.id)):
        finish(pravega, stream, insert, messages, epoch(0))
    write(pravega, stream, epoch(0))
    check(pravega, stream, 1)


def test_a_zombie_is_fenced(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    write(pravega, stream, epoch(0, "zombie"))
    sleeping, messages = begin_insert(pravega, stream, rows_of(1))
    write(pravega, stream, epoch(0, "new"))  # all that the new run has done is to repeat what is there
    with pytest.raises(QueryFencedError, match=r"\(new\).*\(zombie\) may not continue"):
        finish(pravega, stream, sleeping, messages, epoch(1, "zombie"))
    write(pravega, stream, epoch(1, "new"))
    check(pravega, stream, 2)


def test_a_zombie_that_has_recorded_its_epoch(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The new run commits what the zombie has recorded; the zombie wakes up, and finds that done."""
    stream = new_stream(2)
    zombie = record(pravega, stream, epoch(0, "zombie"))
    write(pravega, stream, epoch(0, "new"))
    assert read_recorded(pravega, stream, epoch(0, "new")).transaction == zombie.id
    awake = Insert(pravega, raw_table(stream), zombie, SETTINGS)
    log = CommitLog(pravega, stream)
    entry = EpochRecorder(stream, epoch(0, "zombie"), 1)
    awake.publish(1, CommitRequest("STREAM", again=True, log=log, companion=entry))
    check(pravega, stream, 1)
    with pytest.raises(QueryFencedError):
        write(pravega, stream, epoch(1, "zombie"))


def test_two_runs_record_one_epoch_at_once(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Both have seen that it is not recorded; the compare-and-set lets one of them pass."""
    stream = new_stream(2)
    both = [begin_insert(pravega, stream, rows_of(0)) for _ in range(2)]
    entries = [EpochRecorder(stream, epoch(0, run), len(rows_of(0))) for run in ("a", "b")]
    first, messages = both[0]
    assert first.commit(messages, CommitRequest("STREAM", companion=entries[0])) == len(rows_of(0))
    second, messages = both[1]
    with pytest.raises(QueryFencedError, match="just recorded"):
        second.commit(messages, CommitRequest("STREAM", companion=entries[1]))
    assert second.transaction.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    check(pravega, stream, 1)


def test_a_run_that_was_overtaken_between_its_look_and_its_record(
    pravega: Pravega, new_stream: Callable[..., Stream]
) -> None:
    """It was stopped in its first epoch, when it had seen that nothing is recorded; another run has gone on since."""
    stream = new_stream(2)
    sleeping, messages = begin_insert(pravega, stream, rows_of(0))
    entry = EpochRecorder(stream, epoch(0, "zombie"), len(rows_of(0)))
    CommitLog(pravega, stream).read_companion(entry.number, entry.row)
    for number in range(2):
        write(pravega, stream, epoch(number, "new"))
    with pytest.raises(QueryFencedError, match="Another run"):
        sleeping.commit(messages, CommitRequest("STREAM", companion=entry))
    check(pravega, stream, 2)


class _Meanwhile(CommitLog):
    """A log that another run uses between what this one has seen of a row and how it replaces it."""

    def __init__(self, pravega: Pravega, stream: Stream, other: Callable[[], object]) -> None:
        super().__init__(pravega, stream)
        self._other = other

    def replace_companion(self, number: int, change: Callable[[Any, int], bytes | None]) -> None:
        self._other()
        super().replace_companion(number, change)


@pytest.mark.parametrize("committed", [True, False])
def test_a_run_that_went_on_while_another_looked_at_its_last_epoch(
    pravega: Pravega, new_stream: Callable[..., Stream], committed: bool
) -> None:
    """What the first run has recorded meanwhile is not said to be done, and so is not lost when that run dies then."""
    stream = new_stream(2)
    if committed:
        write(pravega, stream, epoch(0, "first"))
    else:
        record(pravega, stream, epoch(0, "first")).abort()
    insert, messages = begin_insert(pravega, stream, rows_of(0) if committed else [])

    def go_on() -> None:
        if not committed:
            write(pravega, stream, epoch(0, "first"))
        record(pravega, stream, epoch(1, "first"))

    with pytest.raises(QueryFencedError, match="just recorded its batch 1"):
        commit_epoch(insert, messages, epoch(0, "second"), _Meanwhile(pravega, stream, go_on))
    assert not read_recorded(pravega, stream, epoch(1, "first")).done
    write(pravega, stream, epoch(1, "third"))
    check(pravega, stream, 2)


def test_a_copied_checkpoint_is_fenced(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    for number in range(3):
        write(pravega, stream, epoch(number))
    for number in range(1, 3):
        with pytest.raises(QueryFencedError, match=f"number {number} has other offsets.*checkpoint copied"):
            write(pravega, stream, epoch(number, "copy", offsets="others"))
    write(pravega, stream, epoch(3))
    check(pravega, stream, 4)


def test_an_epoch_older_than_those_that_are_remembered(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "KEPT_BATCHES", 2)
    stream = new_stream(2)
    for number in range(4):
        write(pravega, stream, epoch(number))
    assert write(pravega, stream, epoch(2)) == 0
    with pytest.raises(QueryFencedError, match="number 1 is not among the last 2, .*restored"):
        write(pravega, stream, epoch(1))
    check(pravega, stream, 4)


def test_queries_of_other_checkpoints_do_not_disturb_each_other(
    pravega: Pravega, new_stream: Callable[..., Stream]
) -> None:
    stream = new_stream(2)
    errors: list[Exception] = []

    def run(query: str) -> None:
        try:
            for number in range(3):
                write(pravega, stream, epoch(number, query, query=query))
                write(pravega, stream, epoch(number, query, query=query))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(str(uuid.uuid4()),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert visible(pravega, stream) == sorted(3 * [row for number in range(3) for row in rows_of(number)])
    assert versions(pravega, stream) == 9


def test_a_stream_made_again_under_its_name(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    for number in range(3):
        write(pravega, stream, epoch(number))
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    pravega.controller.create_stream(stream, StreamConfiguration())
    write(pravega, stream, epoch(2))
    assert visible(pravega, stream) == sorted(rows_of(2))


def test_a_stream_made_again_while_an_application_writes(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    write(pravega, stream, Epoch.of_application("nightly", 1))
    second = Epoch.of_application("nightly", 2)
    second = replace(second, seen=read_seen_state(pravega, raw_table(stream), second))
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    pravega.controller.create_stream(stream, StreamConfiguration())
    with pytest.raises(QueryFencedError, match="was dropped and recreated while version 2 of application nightly"):
        write(pravega, stream, second)
    assert visible(pravega, stream) == []


@pytest.mark.parametrize("published", [True, False])
def test_a_transaction_that_the_server_has_forgotten(
    pravega: Pravega, new_stream: Callable[..., Stream], published: bool
) -> None:
    """After a day the server forgets; a version tells of it, or nothing does."""
    stream = new_stream(2)
    write(pravega, stream, epoch(0))
    forgotten = uuid.UUID(int=7)  # of the stream's epoch 0
    assert pravega.controller.transaction_status(stream, forgotten) is TransactionStatus.UNKNOWN
    log, entry = CommitLog(pravega, stream), EpochRecorder(stream, epoch(0), 1)
    row = read_recorded(pravega, stream, epoch(0))
    known = row.transaction if published else forgotten
    log.replace_companion(entry.number, lambda stored, origin: replace(row, transaction=known, done=False).value())
    if published:
        assert log.has_version_of(known)
        write(pravega, stream, epoch(0))
    else:
        with pytest.raises(TransactionOutcomeUnknownError, match=f"forgotten transaction {forgotten}.*new checkpoint"):
            write(pravega, stream, epoch(0))
    check(pravega, stream, 1)


def test_a_former_epoch_that_nobody_waits_for(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The query has gone on without it, as it does in another write mode: it does not become visible later."""
    stream = new_stream(2)
    former = record(pravega, stream, epoch(0))
    write(pravega, stream, epoch(1))
    assert former.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    assert visible(pravega, stream) == sorted(rows_of(1))
    with pytest.raises(QueryFencedError, match="left no rows"):  # nor does its writer believe that it is done
        write(pravega, stream, epoch(0))


def test_empty_epochs_leave_nothing(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    write(pravega, stream, epoch(0))
    before = log_rows(pravega, stream.scope)
    write(pravega, stream, epoch(1), [])
    assert log_rows(pravega, stream.scope) == before
    write(pravega, stream, epoch(1))
    check(pravega, stream, 2)


def test_versions_of_an_application(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    for number in (3, 3, 2, 7, 5, 7):
        write(pravega, stream, Epoch.of_application("nightly", number))
    write(pravega, stream, Epoch.of_application("other", 3))
    assert visible(pravega, stream) == sorted([*rows_of(3), *rows_of(7), *rows_of(3)])


@pytest.mark.parametrize("others", [1, *(pytest.param(more, marks=pytest.mark.long) for more in (2, 3))])
def test_an_application_that_writes_twice_at_once(
    pravega: Pravega, new_stream: Callable[..., Stream], others: int
) -> None:
    """Whichever version the other write has: the one that was overtaken is refused, and can be done again."""
    stream = new_stream(2)
    mine = Epoch.of_application("nightly", 2)

    def begin() -> Epoch:
        return replace(mine, seen=read_seen_state(pravega, raw_table(stream), mine))

    first = begin()
    insert, messages = begin_insert(pravega, stream, rows_of(2))
    entry = EpochRecorder(stream, first, len(rows_of(2)))
    CommitLog(pravega, stream).read_companion(entry.number, entry.row)
    write(pravega, stream, Epoch.of_application("nightly", others))
    refused = f"application nightly has written version {others} .* while version 2 .*No row of this write is visible"
    with pytest.raises(QueryFencedError, match=refused):
        CommitLog(pravega, stream).enter(insert.transaction.id, rows=1, operation="INSERT", companion=entry)
    with pytest.raises(QueryFencedError, match=refused):
        finish(pravega, stream, insert, messages, first)
    assert insert.transaction.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    assert visible(pravega, stream) == sorted(rows_of(others))
    for _ in range(2):
        write(pravega, stream, begin())
    assert visible(pravega, stream) == sorted([*rows_of(others), *(rows_of(2) if others == 1 else [])])


def test_two_writers_whose_ids_have_one_hash(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = new_stream(2)
    write(pravega, stream, epoch(0))
    entry, other = EpochRecorder(stream, epoch(0), 1), Epoch.of_application("other", 1)
    row = replace(read_recorded(pravega, stream, epoch(0)), writer=other.writer)
    CommitLog(pravega, stream).replace_companion(entry.number, lambda stored, origin: row.value())
    with pytest.raises(QueryFencedError, match="application other.*same hash"):
        write(pravega, stream, epoch(1))
    check(pravega, stream, 1)


def test_rows_go_with_the_table(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    write(pravega, stream, epoch(0))
    write(pravega, stream, Epoch.of_application("nightly", 1))
    remove_rows(CommitLog(pravega, stream))
    assert log_rows(pravega, stream.scope) == []
