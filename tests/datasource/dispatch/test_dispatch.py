"""Writes into several streams: one transaction for each, each of them once, whatever dies between two commits."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.dispatch import dispatch as dispatching
from pyspark_pravega.datasource.dispatch import roster as rosters
from pyspark_pravega.datasource.dispatch.dispatch import Dispatch
from pyspark_pravega.datasource.dispatch.dispatch_task import DispatchMessage, DispatchSpec, DispatchWriter
from pyspark_pravega.datasource.dispatch.roster import QueryRun, Roster
from pyspark_pravega.datasource.insert.commit import WriteSettings
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch
from pyspark_pravega.datasource.insert.ledger import Epoch, name_writer_of_query
from pyspark_pravega.datasource.insert.outcomes import Unit
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA
from pyspark_pravega.errors import (
    InvalidRowError,
    InvalidSchemaError,
    QueryFencedError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o
from tests.datasource.insert.test_commit import visible
from tests.datasource.transactions import SETTINGS, raw_table

SPAWN = multiprocessing.get_context("spawn")
QUERY = "6e0d9c1c-51a0-4b8e-9d0a-3d9f0f6b6b12"
RUN = QueryRun(name_writer_of_query(QUERY), "first")
ROWS = StructType().add("event", BinaryType()).add("target", StringType())
Rows = Sequence[tuple[bytes, str | None]]


def epoch(number: int, run: str = "first") -> Epoch:
    return Epoch.of_query(QUERY, number, run, f"what {number} reads")


class Write:
    """One write: its tasks, and its commit."""

    def __init__(
        self,
        pravega: Pravega,
        base: Stream,
        settings: WriteSettings = SETTINGS,
        query: QueryRun | None = RUN,
    ) -> None:
        self._pravega = pravega
        settings = replace(settings, unit=Unit.MICRO_BATCH)
        roster = Roster.begin(pravega, base, query)
        self._spec = DispatchSpec(raw_table(base), pravega.config, o.resolve(), settings, "target", RAW_SCHEMA, roster)
        self.dispatch = Dispatch(pravega, raw_table(base), roster, settings)

    def task(self, rows: Rows) -> DispatchMessage:
        events, targets = zip(*rows, strict=True)
        batch = pa.record_batch([pa.array(events, pa.binary()), pa.array(targets, pa.string())], ROWS.names)
        report = DispatchWriter(self._spec).write(iter([batch, batch.slice(0, 0)]))
        assert isinstance(report, DispatchMessage)
        return report

    def commit(self, messages: Sequence[DispatchMessage], of: Epoch | None) -> int:
        return self.dispatch.commit(messages, of, again=False)


def rows_of(number: int, streams: Sequence[Stream]) -> Rows:
    return [(b"epoch %d row %d" % (number, row), streams[row % len(streams)].name) for row in range(30)]


def write(pravega: Pravega, base: Stream, streams: Sequence[Stream], of: Epoch) -> int:
    """Do one epoch with two tasks."""
    one, rows = Write(pravega, base), rows_of(of.number, streams)
    return one.commit([one.task(rows[:11]), one.task(rows[11:])], of)


def stored_rosters(pravega: Pravega, base: Stream) -> list[dict[str, Any]]:
    """What the rows of rosters say, of all writes to a stream."""
    rows = [json.loads(row.value) for row in CommitLog(pravega, base).list_companions()]
    return [row for row in rows if "write" in row]


def check(pravega: Pravega, streams: Sequence[Stream], epochs: int) -> None:
    """Every row is once in its stream, and every epoch is one version there."""
    for stream in streams:
        wanted = [row for number in range(epochs) for row, name in rows_of(number, streams) if name == stream.name]
        assert visible(pravega, stream) == sorted(wanted)
        assert len(CommitLog(pravega, stream).versions()) == epochs


@pytest.fixture
def streams(new_stream: Callable[..., Stream]) -> list[Stream]:
    """Three streams of one scope, in the order in which they are committed."""
    return [new_stream(2, name) for name in ("cold", "hot", "warm")]


def test_every_row_is_in_its_stream(pravega: Pravega, streams: list[Stream], new_stream: Callable[..., Stream]) -> None:
    base = new_stream(1, "any")
    for number in range(2):
        assert write(pravega, base, streams, epoch(number)) == 30
    check(pravega, streams, 2)
    assert visible(pravega, base) == []
    assert write(pravega, base, streams, epoch(1)) == 30
    check(pravega, streams, 2)
    [kept] = stored_rosters(pravega, base)
    assert kept == {"write": None, "transactions": {}, "runs": ["first"]}


def die(config: ClientConfig, base: Stream, streams: Sequence[Stream], commits: int, when: str) -> None:
    """Write epoch 1, and be killed before or after one of its commits."""
    done, committed = 0, commit_epoch

    @functools.wraps(commit_epoch)
    def commit(*arguments: Any, **options: Any) -> int:
        nonlocal done
        done += 1
        if when == "before" and done == commits:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = committed(*arguments, **options)
        if done == commits:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    setattr(dispatching, "commit_epoch", commit)  # noqa: B010
    with connect(config) as pravega:
        write(pravega, base, streams, epoch(1))


@pytest.mark.parametrize(
    ("commits", "when"),
    [
        (1, "after"),
        *(
            pytest.param(*other, marks=pytest.mark.long)
            for other in ((1, "before"), (2, "before"), (2, "after"), (3, "before"), (3, "after"))
        ),
    ],
)
def test_a_driver_killed_between_the_commits_of_two_streams(
    pravega: Pravega, client_config: ClientConfig, streams: list[Stream], commits: int, when: str
) -> None:
    base = streams[0]
    write(pravega, base, streams, epoch(0))
    driver = SPAWN.Process(target=die, args=(client_config, base, streams, commits, when))
    driver.start()
    driver.join(60)
    assert driver.exitcode == -signal.SIGKILL
    there = commits - (when == "before")
    assert [len(visible(pravega, stream)) for stream in streams] == [20] * there + [10] * (3 - there)
    for _ in range(2):
        assert write(pravega, base, streams, epoch(1, "second")) == 30
        check(pravega, streams, 2)
    write(pravega, base, streams, epoch(2, "second"))
    check(pravega, streams, 3)


def test_an_attempt_that_runs_again_doubles_nothing(pravega: Pravega, streams: list[Stream]) -> None:
    for number, lost in ((0, b""), (1, b"lost ")):  # the same rows, and other ones
        one, rows = Write(pravega, streams[0]), rows_of(number, streams)
        one.task([(lost + event, name) for event, name in rows[:11]])
        messages = [one.task(rows[:11]), one.task(rows[11:])]
        assert one.commit(messages, epoch(number)) == 30
        check(pravega, streams, number + 1)


def test_tasks_at_the_same_time_share_the_transactions(pravega: Pravega, streams: list[Stream]) -> None:
    one, rows = Write(pravega, streams[0]), rows_of(0, streams)
    messages: list[DispatchMessage] = []
    tasks = [
        threading.Thread(target=lambda first=first: messages.append(one.task(rows[first : first + 5])))  # type: ignore[misc]
        for first in range(0, 30, 5)
    ]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert len(messages) == 6
    assert len({report.transaction for message in messages for report in message.streams.values()}) == 3
    assert one.commit(messages, epoch(0)) == 30
    check(pravega, streams, 1)


def test_an_abort_ends_every_transaction(pravega: Pravega, streams: list[Stream]) -> None:
    one = Write(pravega, streams[0])
    message = one.task(rows_of(0, streams))
    one.dispatch.abort()
    for name, report in message.streams.items():
        status = pravega.controller.transaction_status(Stream(streams[0].scope, name), report.transaction)
        assert status in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    assert [visible(pravega, stream) for stream in streams] == [[], [], []]
    with pytest.raises(QueryFencedError, match="Another attempt of this write"):
        one.task(rows_of(0, streams))


def test_transactions_are_kept_alive_between_tasks_and_commit(pravega: Pravega, streams: list[Stream]) -> None:
    """The tasks have ended, and nobody but the driver knows of the transactions: it reads of them in the roster."""
    one = Write(pravega, streams[0], replace(SETTINGS, lease=10.0))
    one.dispatch.keep_alive()
    message = one.task(rows_of(0, streams))
    transactions = {Stream(streams[0].scope, name): one.transaction for name, one in message.streams.items()}
    pinged = threading.Event()
    ping = pravega.controller.ping_transaction
    seen = set()

    def note(stream: Stream, transaction: Any, lease_ms: int) -> None:
        ping(stream, transaction, lease_ms)
        if threading.current_thread().name.startswith("roster"):
            seen.add(transaction)
            if seen == set(transactions.values()):
                pinged.set()

    pravega.controller.ping_transaction = note  # type: ignore[method-assign]
    try:
        assert pinged.wait(60)
    finally:
        del pravega.controller.ping_transaction
    assert one.commit([message], epoch(0)) == 30
    check(pravega, streams, 1)


def test_a_roster_that_was_begun_anew(pravega: Pravega, streams: list[Stream]) -> None:
    """A zombie's tasks, and its driver, do nothing to the transactions of the attempt that replaced it."""
    zombie = Write(pravega, streams[0])
    late = zombie.task(rows_of(0, streams))
    new = Write(pravega, streams[0])
    messages = [new.task(rows_of(0, streams))]
    with pytest.raises(QueryFencedError, match="Another attempt of this write"):
        zombie.task(rows_of(0, streams))
    zombie.dispatch.abort()
    assert new.commit(messages, epoch(0, "second")) == 30
    check(pravega, streams, 1)
    with pytest.raises(QueryFencedError):
        zombie.commit([late], Epoch.of_query(QUERY, 0, "first", "what something else reads"))
    check(pravega, streams, 1)


def test_a_run_that_was_replaced_begins_no_roster(pravega: Pravega, streams: list[Stream]) -> None:
    """The micro-batch of the new run goes on, and its transactions are in the roster still."""
    assert write(pravega, streams[0], streams, epoch(0)) == 30
    new = Write(pravega, streams[0], query=QueryRun(name_writer_of_query(QUERY), "second"))
    half = new.task(rows_of(1, streams)[:11])
    with pytest.raises(QueryFencedError, match=r"Another run \(second\) of query .*\(first\) may not continue"):
        Write(pravega, streams[0])
    assert new.commit([half, new.task(rows_of(1, streams)[11:])], epoch(1, "second")) == 30
    check(pravega, streams, 2)
    [kept] = stored_rosters(pravega, streams[0])
    assert kept == {"write": None, "transactions": {}, "runs": ["first", "second"]}


def test_a_write_that_is_no_query_leaves_no_row(pravega: Pravega, streams: list[Stream]) -> None:
    one = Write(pravega, streams[0], query=None)
    assert one.commit([one.task(rows_of(0, streams))], None) == 30
    check(pravega, streams, 1)
    assert stored_rosters(pravega, streams[0]) == []


def test_a_stream_that_is_missing(pravega: Pravega, streams: list[Stream]) -> None:
    one = Write(pravega, streams[0])
    with pytest.raises(StreamNotFoundError, match=r"There is no stream .*/nowhere, which 'target' names.*CREATE TABLE"):
        one.task([*rows_of(0, streams), (b"x", "nowhere")])
    one.dispatch.abort()
    assert [visible(pravega, stream) for stream in streams] == [[], [], []]


def test_what_is_no_name_of_a_stream(pravega: Pravega, streams: list[Stream]) -> None:
    for name in (None, "", "other/stream", "a$b", "_internal", "a`b"):
        one = Write(pravega, streams[0])
        with pytest.raises(InvalidRowError, match="'target'.*No row of this micro-batch is visible"):
            one.task([*rows_of(0, streams), (b"x", name)])
        one.dispatch.abort()
    assert [visible(pravega, stream) for stream in streams] == [[], [], []]


def test_a_table_with_other_columns(pravega: Pravega, streams: list[Stream]) -> None:
    one = Write(pravega, streams[0])
    one._spec = replace(one._spec, table=replace(one._spec.table, schema=ROWS))
    with pytest.raises(InvalidSchemaError, match=f"Stream {streams[1]}, which 'target' names.*is not a table like"):
        one.task([(b"x", streams[1].name)])
    one.dispatch.abort()


def test_too_many_streams(pravega: Pravega, streams: list[Stream], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "MOST_STREAMS", 2)
    one = Write(pravega, streams[0])
    with pytest.raises(UnsupportedOperationError, match="at most 2 streams.*No row of it is visible"):
        one.task(rows_of(0, streams))
    one.dispatch.abort()
    assert [visible(pravega, stream) for stream in streams] == [[], [], []]
