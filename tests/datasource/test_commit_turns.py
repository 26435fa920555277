"""The threads of one process wait for each other when they commit, and not for the log."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import Cancellation, Cancelled, activate, postpone
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import _LINES, CommitLog
from pyspark_pravega.datasource.commit_log.log_table import HeadRow
from pyspark_pravega.datasource.commit_log.turns import Lines
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.errors import ServerTimeoutError, StreamNotFoundError
from tests.datasource.transactions import (
    EVENT_BYTES,
    PAYLOAD_BYTES,
    SETTINGS,
    begin_insert,
    insert_into_all,
    list_committing,
    log_rows,
)


def test_first_come_first_served() -> None:
    """Two of a line are in the log, and each other one enters when one of them leaves."""
    lines, entered, served = Lines(), list[int](), list[int]()
    threads: list[threading.Thread] = []

    def serve(number: int) -> None:
        with lines.line_up("a") as turn:
            turn.may_enter.wait(60)
            entered.append(number)
            turn.note_entered()
            turn.is_first.wait(60)
            assert entered[len(served) :] in ([number], [number, number + 1])
            served.append(number)

    with lines.line_up("a") as first, lines.line_up("b") as other:
        assert first.is_first.is_set() and other.is_first.is_set()
        for number in range(5):
            threads.append(threading.Thread(target=serve, args=(number,)))
            threads[-1].start()
            while len(lines._lines["a"].turns) < number + 2:
                assert threads[-1].is_alive()
        with lines.line_up("a") as last:
            assert not (last.may_enter.is_set() or last.is_first.is_set())
        assert not entered, "the first one has not entered yet"
        first.note_entered()
        while not entered:
            assert threads[0].is_alive()
        assert (entered, served) == ([0], [])
    for thread in threads:
        thread.join()
    assert entered == served == [0, 1, 2, 3, 4]
    del first, other, last
    assert not lines._lines


def test_a_turn_ends_with_an_error() -> None:
    lines = Lines()
    with pytest.raises(ZeroDivisionError), lines.line_up("a"):
        raise ZeroDivisionError
    with lines.line_up("a") as turn:
        assert turn.is_first.is_set()


def test_those_who_wait_do_not_look_at_the_log(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, each, looks = 12, 2, list[Stream]()
    read_head = CommitLog._head

    def count(log: CommitLog) -> HeadRow:
        looks.append(log._stream)
        return read_head(log)

    stream = new_stream(1)
    insert_into_all(pravega, stream, 1)
    monkeypatch.setattr(CommitLog, "_head", count)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: insert_into_all(pravega, stream, 1), range(threads * each)))
    assert looks.count(stream) <= 5 * threads * each
    head, *versions = log_rows(pravega, stream.scope)
    assert (head["version"], head["committing"]) == (threads * each + 1, [])
    assert len({row["transaction"] for row in versions}) == len(versions)


def test_a_turn_that_does_not_come(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The second in line is in the log, where others see it, and leaves it when its time is over."""
    stream = new_stream(1)
    insert_into_all(pravega, stream, 1)
    before, _ = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])
    late, late_messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES], replace(SETTINGS, commit_timeout=0.5))
    log = CommitLog(pravega, stream)
    with ThreadPoolExecutor(1) as pool, log.line_up("INSERT"):
        assert log.enter(before.transaction.id, rows=1, operation="INSERT")
        waiting = pool.submit(late.commit, late_messages)
        while len(looked := list_committing(CommitLog(pravega, stream))) < 2:
            assert not waiting.done()
        assert looked == (before.transaction.id, late.transaction.id)
        with pytest.raises(ServerTimeoutError, match="did not get its turn.*run it"):
            waiting.result()
        assert list_committing(CommitLog(pravega, stream)) == (before.transaction.id,)
        log.withdraw(before.transaction.id)
    insert_into_all(pravega, stream, 1)
    assert list_committing(CommitLog(pravega, stream)) == ()


def test_a_place_in_the_log_that_does_not_come(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The third in line never enters the log; commits of another kind enter it meanwhile."""
    stream, settings = new_stream(1), replace(SETTINGS, commit_timeout=0.5)
    log = CommitLog(pravega, stream)
    insert, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES], settings)
    with log.line_up("INSERT"):
        log.enter(unknown := uuid.uuid4(), rows=1, operation="INSERT")
        with CommitLog(pravega, stream).line_up("INSERT"):
            with pytest.raises(ServerTimeoutError, match="0.5 s, and this one did not get its turn.*run it"):
                insert.commit(messages)
            assert list_committing(CommitLog(pravega, stream)) == (unknown,)
            other, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])
            assert other.commit(messages, CommitRequest("DELETE")) == 1  # it takes the unknown one out
    insert_into_all(pravega, stream, 1)
    assert [*measure_tail(pravega, stream).positions.values()] == [2 * EVENT_BYTES]


@pytest.mark.parametrize("place", ["in the log", "in memory"])
def test_a_commit_that_is_given_up_while_it_waits(
    pravega: Pravega, new_stream: Callable[..., Stream], place: str
) -> None:
    """Nothing of it is left, and whoever waits behind it moves up. Once it has its turn, it is done."""
    stream = new_stream(1)
    log, call = CommitLog(pravega, stream), Cancellation()
    before, _ = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])
    insert, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])

    def commit() -> int:
        with activate(call), postpone():
            return insert.commit(messages)

    with ThreadPoolExecutor(2) as pool, log.line_up("INSERT"), ExitStack() as opened:
        assert log.enter(before.transaction.id, rows=1, operation="INSERT")
        if place == "in memory":
            opened.enter_context(CommitLog(pravega, stream).line_up("INSERT"))
            waiting = pool.submit(commit)
            while max(len(line.turns) for line in _LINES._lines.values()) < 3:
                assert not waiting.done()
        else:
            waiting = pool.submit(commit)
            while len(list_committing(CommitLog(pravega, stream))) < 2:
                assert not waiting.done()
        behind = pool.submit(insert_into_all, pravega, stream, 1)
        call.cancel()
        with pytest.raises(Cancelled):
            waiting.result(10)
        while (status := insert.transaction.status()) is TransactionStatus.ABORTING:
            time.sleep(0.01)
        assert status is TransactionStatus.ABORTED
        opened.close()
        while len(list_committing(CommitLog(pravega, stream))) < 2:
            assert not behind.done()
        before.transaction.commit(60)
        log.publish(before.transaction.id, lambda: measure_tail(pravega, stream))
    behind.result()
    assert [version.rows for version in log.versions()] == [1, 1] and list_committing(CommitLog(pravega, stream)) == ()
    assert [*measure_tail(pravega, stream).positions.values()] == [2 * EVENT_BYTES]

    last, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])
    with activate(call), postpone():  # the call is cancelled, but nobody is before it
        assert last.commit(messages) == 1


def test_what_others_do_while_a_commit_waits_in_memory(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """They commit its transaction, or drop the stream and make another one of its name, which keeps its versions."""
    stream = new_stream(1)
    other = CommitLog(pravega, stream)
    insert_into_all(pravega, stream, 1)

    def begin() -> tuple[Insert, list[InsertMessage]]:
        return begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])

    @contextmanager
    def waiting() -> Iterator[tuple[Insert, Future[int]]]:
        """A commit behind one that has not entered the log. It knows the stream from before."""
        log, (insert, messages) = CommitLog(pravega, stream), begin()
        log.learn_origin()
        with ThreadPoolExecutor(1) as pool, CommitLog(pravega, stream).line_up("INSERT"):
            commit = pool.submit(insert.commit, messages, CommitRequest(again=True, log=log))
            while max(len(line.turns) for line in _LINES._lines.values()) < 2:
                assert not commit.done()
            yield insert, commit

    with waiting() as (insert, commit):
        assert other.enter(insert.transaction.id, rows=1, operation="INSERT")
        insert.transaction.commit(60)
        assert other.publish(insert.transaction.id, lambda: measure_tail(pravega, stream)) == 2
    assert commit.result() == 1
    assert [version.number for version in other.versions()] == [1, 2]

    with waiting() as (_, commit):
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=1)))
        for _ in range(2):
            insert, messages = begin()
            assert insert.commit(messages, CommitRequest("DELETE")) == 1
    with pytest.raises(StreamNotFoundError, match="was deleted, and made again"):
        commit.result()
    assert [version.operation for version in CommitLog(pravega, stream).versions()] == ["DELETE", "DELETE"]
    insert_into_all(pravega, stream, 1)
    assert [version.number for version in CommitLog(pravega, stream).versions()] == [1, 2, 3]


def test_one_that_stands_first_in_the_log_and_second_in_its_line(
    pravega: Pravega, new_stream: Callable[..., Stream]
) -> None:
    """It looks at the log before the one that stands before it in line takes it for dead."""
    stream, unknown = new_stream(1), [uuid.UUID(int=number) for number in range(900, 920)]
    insert_into_all(pravega, stream, 1)
    insert, messages = begin_insert(pravega, stream, [b" " * PAYLOAD_BYTES])
    log, others = CommitLog(pravega, stream), CommitLog(pravega, stream)
    for transaction in unknown[1:]:
        assert others.enter(transaction, rows=1, operation="INSERT")
    with ThreadPoolExecutor(1) as pool, log.line_up("INSERT"):
        assert log._turn is not None
        log._turn.note_entered()
        committing = pool.submit(insert.commit, messages)
        while insert.transaction.id not in list_committing(CommitLog(pravega, stream)):
            assert not committing.done()
        for transaction in unknown[1:]:
            others.withdraw(transaction)
        assert others.enter(unknown[0], rows=1, operation="INSERT")
        log.wait_for_turn(unknown[0], lambda: measure_tail(pravega, stream))
        others.withdraw(unknown[0])
        assert committing.result() == 1


def test_a_turn_that_comes_as_the_time_ends(
    pravega: Pravega,
    new_stream: Callable[..., Stream],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server is asked once it is this one's turn, and gets some seconds to answer."""
    stream, really_wait = new_stream(2), CommitLog.wait_for_turn

    def wait_until_late(log: CommitLog, transaction: uuid.UUID, tail: Callable[[], StreamCut]) -> None:
        really_wait(log, transaction, tail)
        log.deadline = time.monotonic() - 1

    monkeypatch.setattr(CommitLog, "wait_for_turn", wait_until_late)
    insert_into_all(pravega, stream, 2)
    assert [version.rows for version in CommitLog(pravega, stream).versions()] == [2]
    assert "turned out to be committed" not in caplog.text
