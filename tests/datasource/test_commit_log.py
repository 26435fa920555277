"""The commit log on real servers: no version is lost, no scan sees a part of a transaction, nobody blocks another."""

from __future__ import annotations

import json
import logging
import multiprocessing
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.commit_log import commit_log
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, make_row_key
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.ledger import Epoch, EpochRecorder
from pyspark_pravega.datasource.positions.snapshot import measure_tail, take_snapshot
from pyspark_pravega.errors import ServerTimeoutError, TransactionNotOpenError
from tests.datasource.transactions import (
    EVENT_BYTES,
    PAYLOAD_BYTES,
    SETTINGS,
    begin_insert,
    die_in_commit,
    insert_into_all,
    insert_many,
    log_rows,
    record_versions,
    remove_rows,
)

COMMITS = 30
MOST_COMMITS = 600
"""After so many commits a part of one has surely been seen, if it can be: 30 were too few once in some hundred runs."""
FEW_COMMITS = 10
SPAWN = multiprocessing.get_context("spawn")


def content(pravega: Pravega, stream: Stream) -> int:
    """How many transactions of one event for each segment a scan sees now; none of them in part."""
    settled = CommitLog(pravega, stream).measure_settled
    slices = take_snapshot(pravega, stream, (None, None), fail_on_data_loss=True, measure_settled=settled)
    if not slices:
        return 0
    assert len(slices) == len(pravega.controller.current_segments(stream))
    (length,) = {piece.end for piece in slices}
    assert length % EVENT_BYTES == 0
    return length // EVENT_BYTES


def tail(pravega: Pravega, stream: Stream) -> StreamCut:
    ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    infos = pravega.segments.segment_infos(stream, ids)
    return StreamCut(stream, {one: infos[one].write_offset for one in ids})


def wait_for(pravega: Pravega, stream: Stream, transaction: uuid.UUID, status: TransactionStatus) -> None:
    deadline = time.monotonic() + 60
    while pravega.controller.transaction_status(stream, transaction) is not status:
        assert time.monotonic() < deadline, f"transaction {transaction} did not become {status}"
        time.sleep(0.05)


class Entered:
    """A transaction with one event for each segment, entered in the log by a writer of its own."""

    def __init__(self, pravega: Pravega, stream: Stream, segments: int) -> None:
        insert, _ = begin_insert(pravega, stream, [b" " * (EVENT_BYTES - 8)] * segments)
        self.transaction: Transaction = insert.transaction
        self.log = CommitLog(pravega, stream)
        assert self.log.enter(self.transaction.id, rows=1, operation="TEST")
        self._tail = lambda: tail(pravega, stream)

    def commit(self) -> None:
        self.transaction.commit(60)

    def publish(self) -> int | None:
        return self.log.publish(self.transaction.id, self._tail)


class TestOneWriter:
    def test_enter_commit_publish(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream(2)
        reader = CommitLog(pravega, stream)
        head = reader.head()
        assert head is not None
        assert (head.version, head.committing) == (0, ())
        for version in (1, 2, 3):
            writer = Entered(pravega, stream, 2)
            head = reader.head()
            assert head is not None
            assert (head.version, head.committing) == (version - 1, (writer.transaction.id,))
            writer.commit()
            assert writer.publish() == version
            head = reader.head()
            assert head is not None
            assert (head.version, head.committing) == (version, ())
            record = log_rows(pravega, stream.scope)[version]
            assert {name: record[name] for name in ("stream", "version", "rows", "operation")} == {
                "stream": stream.name,
                "version": version,
                "rows": 1,
                "operation": "TEST",
            }
            assert record["transaction"] == str(writer.transaction.id)
            assert StreamCut.from_text(record["cut"]) == tail(pravega, stream)
            assert abs(record["timestamp_ms"] / 1000 - time.time()) < 3600
            assert content(pravega, stream) == version

    def test_withdraw(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        first, second = Entered(pravega, stream, 1), Entered(pravega, stream, 1)
        for _ in range(2):  # once more does no harm
            first.transaction.abort()
            first.log.withdraw(first.transaction.id)
            head = second.log.head()
            assert head is not None
            assert head.committing == (second.transaction.id,)
        second.commit()
        assert second.publish() == 1

    @pytest.mark.parametrize("scaled", [False, True])
    def test_a_stream_that_is_sealed_before_its_last_version(
        self, pravega: Pravega, new_stream: Callable[..., Stream], scaled: bool
    ) -> None:
        """The version ends where the last segments do, although none takes appends any more."""
        stream = new_stream(2)
        insert_into_all(pravega, stream, 2)
        first = tail(pravega, stream)
        if scaled:
            pravega.controller.scale_stream(stream, [0], [(0.0, 0.25), (0.25, 0.5)])
        insert, _ = begin_insert(pravega, stream, [b"last".ljust(PAYLOAD_BYTES)] * 3)
        log = CommitLog(pravega, stream)
        end = tail(pravega, stream)
        assert log.enter(insert.transaction.id, rows=3, operation="TEST")
        insert.transaction.commit(60)
        pravega.controller.seal_stream(stream)
        entry = EpochRecorder(stream, Epoch("test", 0), 3)
        insert.publish(3, CommitRequest("TEST", again=True, log=log, companion=entry))
        before, last = (version.cut for version in log.versions())
        assert before == first
        assert last.positions.keys() == end.positions.keys()
        assert sum(last.positions.values()) == sum(end.positions.values()) + 3 * EVENT_BYTES
        assert measure_tail(pravega, stream) == last

    def test_nothing_to_withdraw_makes_no_row(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        logged, untouched = new_stream(name="logged"), new_stream(name="untouched")
        Entered(pravega, logged, 1)
        CommitLog(pravega, untouched).withdraw(uuid.uuid4())
        assert [row["stream"] for row in log_rows(pravega, logged.scope)] == ["logged"]

    def test_streams_of_a_scope_have_logs_of_their_own(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        streams = [new_stream(name=name) for name in ("one", "two", "Two", "two.three")]
        for count, stream in enumerate(streams, 1):
            for _ in range(count):
                insert_into_all(pravega, stream, 1)
        for count, stream in enumerate(streams, 1):
            head = CommitLog(pravega, stream).head()
            assert head is not None
            assert head.version == count
        remove_rows(CommitLog(pravega, streams[1]))
        assert {row["stream"] for row in log_rows(pravega, streams[0].scope)} == {"one", "Two", "two.three"}

    def test_a_lost_reply_publishes_no_second_version(
        self, pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The write was done, but all the writer hears, after others wrote too, is that the row has changed."""
        stream = new_stream()
        writer, other = Entered(pravega, stream, 1), Entered(pravega, stream, 1)
        writer.commit()
        write = writer.log._replace

        def as_if_lost(*arguments: object) -> bool:
            if not write(*arguments):  # type: ignore[arg-type]
                return False  # the row as this writer had left it, before the other one entered
            other.log.withdraw(other.transaction.id)
            return False

        monkeypatch.setattr(writer.log, "_replace", as_if_lost)
        assert writer.publish() is None
        assert [row["version"] for row in log_rows(pravega, stream.scope)] == [1, 1]


class TestManyWriters:
    @pytest.mark.long
    def test_no_version_is_lost_or_torn(
        self, pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
    ) -> None:
        """Threads and processes at the same time; each version holds whole transactions and those before."""
        segments, each = 4, 4
        stream = new_stream(segments)
        with ProcessPoolExecutor(2, SPAWN) as processes, ThreadPoolExecutor(2) as threads:
            runs = [
                pool.submit(insert_many, client_config, stream, segments, each)
                for pool in (processes, threads)
                for _ in range(2)
            ]
            total = sum(run.result() for run in runs)
        head, *versions = log_rows(pravega, stream.scope)
        assert (head["version"], head["committing"]) == (total, [])
        assert [row["version"] for row in versions] == list(range(1, total + 1))
        assert len({row["transaction"] for row in versions}) == total
        before = 0
        for row in versions:
            positions = StreamCut.from_text(row["cut"]).positions
            assert len(positions) == segments
            (length,) = set(positions.values())
            assert before <= length
            assert length >= row["version"] * EVENT_BYTES
            before = length
        assert content(pravega, stream) == total


class TestReaders:
    @pytest.mark.parametrize("least", [FEW_COMMITS, pytest.param(COMMITS, marks=pytest.mark.long)])
    def test_snapshots_hold_whole_transactions_only(
        self, pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream], least: int
    ) -> None:
        """While a writer commits again and again to many segments. Without the log, parts are seen in the same run."""
        segments = 16
        stream = new_stream(segments)
        done = threading.Event()

        def look(connection: Pravega, end: StreamCut | None) -> set[int]:
            """The segments' lengths, looked at for a while; more than one length is a part of a transaction."""
            if end is not None:
                return set(end.positions.values())
            for _ in range(20):
                infos = connection.segments.segment_infos(stream, range(segments))
                if len(seen := {info.write_offset for info in infos.values()}) > 1:
                    break
            return seen

        anyhow: list[set[int]] = []
        by_log: list[set[int]] = []

        def watch(
            found: list[set[int]], settled: Callable[[Pravega, Callable[[StreamCut | None], set[int]]], set[int]]
        ) -> None:
            with connect(client_config) as connection:
                while not done.is_set():
                    found.append(settled(connection, partial(look, connection)))

        def torn(found: list[set[int]]) -> list[set[int]]:
            return [seen for seen in list(found) if len(seen) > 1]

        commits = 0
        with ThreadPoolExecutor(2) as readers:
            watching = [
                readers.submit(watch, anyhow, lambda connection, measure: measure(None)),
                readers.submit(
                    watch, by_log, lambda connection, measure: CommitLog(connection, stream).measure_settled(measure)
                ),
            ]
            try:
                while commits < least or (commits < MOST_COMMITS and not torn(anyhow)):
                    insert_into_all(pravega, stream, segments)
                    commits += 1
            finally:
                done.set()
        assert [one.result() for one in watching] == [None, None]
        assert torn(anyhow), f"the test shows nothing: no part of {commits} transactions was seen without the log"
        assert torn(by_log) == []
        lengths = [length for (length,) in by_log]
        assert lengths == sorted(lengths)
        assert len(set(lengths)) > commits // 4, "readers must not have to wait for the end of all commits"
        assert content(pravega, stream) == commits

    def test_what_an_insert_wrote_is_there_when_it_returns(
        self, pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
    ) -> None:
        """Also while another writer commits all the time."""
        segments = 4
        stream = new_stream(segments)
        with ThreadPoolExecutor(1) as other:
            run = other.submit(insert_many, client_config, stream, segments, 6)
            mine = 0
            while not run.done() or mine < 3:
                before = content(pravega, stream)
                insert_into_all(pravega, stream, segments)
                mine += 1
                assert content(pravega, stream) > before
        assert content(pravega, stream) == run.result() + mine

    def test_commits_without_a_gap_give_readers_a_version_to_read(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        """The newest of the versions that were measured while the reader waited."""
        stream = new_stream(2)
        insert_into_all(pravega, stream, 2)
        asked: list[StreamCut | None] = []

        def measure(end: StreamCut | None) -> StreamCut:
            asked.append(end)
            if end is None:
                insert_into_all(pravega, stream, 2)
            return end or tail(pravega, stream)

        found = CommitLog(pravega, stream).measure_settled(measure)
        assert asked == [None, None, found]
        assert found == tail(pravega, stream)
        assert set(found.positions.values()) == {3 * EVENT_BYTES}

    def test_no_gap_and_no_version_is_a_timeout(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        writer = Entered(pravega, stream, 1)
        calls = 0

        def disturbed(end: StreamCut | None) -> None:
            nonlocal calls
            calls += 1
            assert writer.log.enter(uuid.uuid4(), rows=1, operation="TEST")  # another head row each time

        with pytest.raises(ServerTimeoutError, match=f"{stream} had commits in flight"):
            CommitLog(pravega, stream, timeout=0.3).measure_settled(disturbed)
        assert calls > 1
        writer.transaction.abort()

    def test_a_turn_that_does_not_come_in_time(
        self, pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
    ) -> None:
        """Nothing of the second INSERT is visible then, and it leaves no entry; the first one goes on."""
        stream = new_stream(2)
        first = Entered(pravega, stream, 2)
        insert, messages = begin_insert(
            pravega, stream, [b" " * PAYLOAD_BYTES] * 2, replace(SETTINGS, commit_timeout=0.3)
        )
        with pytest.raises(ServerTimeoutError, match="did not get its turn.*No row of this INSERT is visible; run it"):
            insert.commit(messages)
        wait_for(pravega, stream, insert.transaction.id, TransactionStatus.ABORTED)
        head = first.log.head()
        assert head is not None
        assert head.committing == (first.transaction.id,)
        first.commit()
        assert first.publish() == 1
        assert content(pravega, stream) == 1

    def test_the_first_insert_of_a_scope_is_seen_whole(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        """The log's table is not there yet when the scan begins, and is when it has measured."""
        stream = new_stream()
        measured: list[int] = []

        def measure(end: StreamCut | None) -> int:
            cut = tail(pravega, stream)
            if not measured:
                insert_into_all(pravega, stream, 1)
            measured.append(cut.positions[0])
            return cut.positions[0]

        assert CommitLog(pravega, stream).measure_settled(measure) == EVENT_BYTES
        assert measured == [0, EVENT_BYTES]

    def test_a_first_insert_by_another_program_is_seen_whole(
        self, pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
    ) -> None:
        """The scan has measured before it commits, and looks at the log when it has."""
        stream = new_stream(2)
        measured: list[int] = []

        with connect(client_config) as other:

            def measure(end: StreamCut | None) -> int:
                if not measured:
                    writer = Entered(other, stream, 2)
                    measured.append(sum(tail(pravega, stream).positions.values()))
                    writer.commit()
                    assert writer.publish() == 1
                else:
                    measured.append(sum((end or tail(pravega, stream)).positions.values()))
                return measured[-1]

            assert CommitLog(pravega, stream).measure_settled(measure) == 2 * EVENT_BYTES
        assert measured == [0, 2 * EVENT_BYTES]

    def test_where_nothing_is_logged_one_look_is_enough(
        self, pravega: Pravega, new_stream: Callable[..., Stream], caplog: pytest.LogCaptureFixture
    ) -> None:
        stream = new_stream()
        caplog.set_level(logging.DEBUG, "pyspark_pravega.client.controller.channel")
        asked: list[StreamCut | None] = []
        CommitLog(pravega, stream).measure_settled(asked.append)
        looks = [one for one in caplog.messages if one.startswith("getCurrentSegmentsKeyValueTable")]
        assert asked == [None] and len(looks) == 1


class TestVersions:
    @pytest.mark.parametrize(
        ("threads", "moments"),
        [(3, ("during", "after")), pytest.param(6, ("during", "after", "during"), marks=pytest.mark.long)],
    )
    def test_each_holds_one_insert(
        self,
        pravega: Pravega,
        client_config: ClientConfig,
        new_stream: Callable[..., Stream],
        threads: int,
        moments: tuple[str, ...],
    ) -> None:
        """Of several threads, and of processes that die in their commit, while somebody else appends all the time."""
        segments, each = 4, 4
        stream, done = new_stream(segments), threading.Event()

        def insert(thread: int) -> None:
            with connect(client_config) as connection:
                for number in range(each):
                    name = f"thread {thread} {number}"
                    insert_into_all(connection, stream, segments, name, rows=1 + thread * each + number)

        def append() -> int:
            """Append to all segments, as an application does that knows nothing of transactions."""
            blocks, event = 0, frame(pa.array([b"other"], pa.binary()))
            with connect(client_config) as connection, ExitStack() as opened:
                appenders = [
                    opened.enter_context(SegmentAppender(connection.segments, stream, one.segment_id, uuid.uuid4()))
                    for one in connection.controller.current_segments(stream)
                ]
                while not done.is_set():
                    for appender in appenders:
                        appender.append(event, 1)
                        appender.flush()
                    blocks += 1
            return blocks

        dying = [
            SPAWN.Process(target=die_in_commit, args=(client_config, stream, segments, moment)) for moment in moments
        ]
        with ThreadPoolExecutor(threads + 1) as pool:
            appended = pool.submit(append)
            try:
                for process in dying:
                    process.start()
                list(pool.map(insert, range(threads)))
                for process in dying:
                    process.join(120)
                    assert process.exitcode == 7
            finally:
                done.set()
            insert_into_all(pravega, stream, segments, "last")
        records = {record["version"]: record for record in log_rows(pravega, stream.scope) if "cut" in record}
        seen = events_of_versions(pravega, stream)
        assert sorted(seen) == sorted(records) == list(range(1, threads * each + len(moments) + 2))
        others = 0
        names = []
        for version, events in seen.items():
            others += events.pop("other", 0)
            ((name, count),) = events.items()
            assert count == records[version]["rows"], f"version {version} of {name}"
            names.append(name)
        expected = [f"thread {thread} {number}" for thread in range(threads) for number in range(each)]
        assert sorted(names) == sorted([*expected, *moments, "last"])
        assert others > 0, "the test shows nothing: nobody else appended before the last INSERT"
        assert others <= appended.result() * segments


class TestTimes:
    """Versions have times in their order, though the clocks of those who publish them differ."""

    def publish(self, log: CommitLog, end: StreamCut, monkeypatch: pytest.MonkeyPatch, clocks: list[int]) -> None:
        """Publish a version for each clock, which is in seconds since 1970."""
        for clock in clocks:
            transaction = uuid.uuid4()
            assert log.enter(transaction, rows=0, operation="TEST")
            with monkeypatch.context() as patched:
                patched.setattr(time, "time_ns", lambda clock=clock: clock * 10**9)
                assert log.publish(transaction, lambda: end)

    def test_of_clocks_that_differ(
        self, pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = new_stream()
        log = CommitLog(pravega, stream)
        self.publish(log, tail(pravega, stream), monkeypatch, [10, 20, 90, 30, 40, 100])
        assert [version.timestamp // 10**6 for version in log.versions()] == [10, 20, 90, 90, 90, 100]
        found = [log.find_newest_by(second * 10**6) for second in (9, 10, 50, 90, 99, 100)]
        assert [one and one.number for one in found] == [None, 1, 2, 5, 5, 6]

    def test_of_versions_that_older_releases_published(
        self, pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They took the time of their clock, and wrote a head row that tells nothing of times."""
        stream, clocks = new_stream(), [10, 20, 90, 30, 40, 50]
        log, table = CommitLog(pravega, stream), pravega.key_value_table(stream.scope, TABLE_NAME)
        self.publish(log, tail(pravega, stream), monkeypatch, clocks)
        head, *versions = log_rows(pravega, stream.scope)
        del head["timestamp_ms"], head["ordered_from"]
        for row, clock in zip(versions, clocks, strict=True):
            row["timestamp_ms"] = clock * 1000
        for number, row in enumerate([head, *versions]):
            table.put(make_row_key(stream, number), json.dumps(row).encode())
        log = CommitLog(pravega, stream)
        seconds, wanted = (9, 25, 45, 60), [None, 2, 5, 6]
        assert [
            version and version.number for version in (log.find_newest_by(one * 10**6) for one in seconds)
        ] == wanted
        self.publish(log, tail(pravega, stream), monkeypatch, [60, 55])
        wanted[-1] = 8
        assert [
            version and version.number for version in (log.find_newest_by(one * 10**6) for one in seconds)
        ] == wanted


def events_of_versions(pravega: Pravega, stream: Stream) -> dict[int, Counter[str]]:
    """Read the events of each version: how often each text is there."""
    found: dict[int, Counter[str]] = {}
    before: dict[int, int] = {}
    for version in CommitLog(pravega, stream).versions():
        texts = found[version.number] = Counter()
        for segment_id, end in version.cut.positions.items():
            reader = SegmentRangeReader(pravega.segments, stream, segment_id, before.get(segment_id, 0), end)
            for window in reader:
                for start, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True):
                    texts[bytes(window.data[start : start + length]).decode().strip()] += 1
        before = dict(version.cut.positions)
    return found


class TestDeadWriters:
    @pytest.mark.parametrize(
        ("moment", "visible"), [("before", 0), pytest.param("during", 1, marks=pytest.mark.long), ("after", 1)]
    )
    def test_block_nobody(
        self,
        pravega: Pravega,
        client_config: ClientConfig,
        new_stream: Callable[..., Stream],
        monkeypatch: pytest.MonkeyPatch,
        moment: str,
        visible: int,
    ) -> None:
        """A process ends in the middle of its commit; scans and other writers go on, and bring it to its end."""
        stream = new_stream(4)
        insert_into_all(pravega, stream, 4)
        process = SPAWN.Process(target=die_in_commit, args=(client_config, stream, 4, moment))
        process.start()
        process.join(120)
        assert process.exitcode == 7
        reader = CommitLog(pravega, stream)
        head = reader.head()
        assert head is not None
        (dead,) = head.committing
        assert content(pravega, stream) == 1 + visible
        monkeypatch.setattr(commit_log, "TURN_SECONDS", 0.5)
        insert_into_all(pravega, stream, 4)
        assert content(pravega, stream) == 2 + visible
        head = reader.head()
        assert head is not None
        assert (head.version, head.committing) == (2 + visible, ()), "what was committed has a version of its own"
        cuts = [version.cut for version in reader.versions()]
        assert [{*cut.positions.values()} for cut in cuts] == [{EVENT_BYTES * (1 + n)} for n in range(2 + visible)]
        if not visible:
            wait_for(pravega, stream, dead, TransactionStatus.ABORTED)

    def test_a_commit_that_takes_too_long_is_called_that(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        """The server goes on with it; so the transaction is neither aborted nor said to be."""
        stream = new_stream(2)
        commits = 0
        while True:  # the server may be the faster one
            commits += 1
            assert commits < 20
            insert, messages = begin_insert(
                pravega, stream, [b" " * PAYLOAD_BYTES] * 2, replace(SETTINGS, commit_timeout=0.0)
            )
            try:
                insert.commit(messages)
            except ServerTimeoutError as error:
                assert "not asked for again yet. Do not write its events again" in str(error)
                break
        assert content(pravega, stream) == commits
        insert_into_all(pravega, stream, 2)
        head = CommitLog(pravega, stream).head()
        assert head is not None
        assert (head.version, head.committing) == (commits + 1, ())

    def test_an_insert_that_comes_too_late_leaves_no_entry(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        stream = new_stream(2)
        insert, messages = begin_insert(pravega, stream, [b"a", b"b"])
        transaction = insert.transaction
        pravega.segments.seal_segments(stream, [one.segment_id for one in transaction.segments], transaction.id)
        log = CommitLog(pravega, stream)
        assert log.enter(transaction.id, rows=2, operation="TEST")
        pravega.controller.abort_transaction(stream, transaction.id)
        with pytest.raises(TransactionNotOpenError):
            insert.commit(messages)
        insert_into_all(pravega, stream, 2)
        head = log.head()
        assert head is not None
        assert (head.version, head.committing) == (1, ())


class TestStreamsMadeAgain:
    """Under the name of a stream that somebody deleted, who knows nothing of the log."""

    @pytest.fixture
    def again(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> tuple[Stream, Entered]:
        """Such a stream, and a writer that was in the middle of its commit to the old one."""
        stream = new_stream(2)
        for _ in range(3):
            insert_into_all(pravega, stream, 2)
        writer = Entered(pravega, stream, 2)
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=2)))
        return stream, writer

    def test_versions_begin_anew(self, pravega: Pravega, again: tuple[Stream, Entered]) -> None:
        stream, _ = again
        assert content(pravega, stream) == 0
        insert_into_all(pravega, stream, 2)
        head = CommitLog(pravega, stream).head()
        assert head is not None
        assert (head.version, head.committing) == (1, ())
        assert content(pravega, stream) == 1
        record = log_rows(pravega, stream.scope)[1]
        assert StreamCut.from_text(record["cut"]) == tail(pravega, stream)

    def test_the_old_writer_publishes_nothing(self, pravega: Pravega, again: tuple[Stream, Entered]) -> None:
        stream, writer = again
        with pytest.raises(TransactionNotOpenError):
            writer.commit()
        insert_into_all(pravega, stream, 2)
        rows = log_rows(pravega, stream.scope)
        assert writer.publish() is None
        assert log_rows(pravega, stream.scope) == rows

    def test_nothing_is_published_for_a_dropped_stream(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        stream = new_stream()
        writer = Entered(pravega, stream, 1)
        writer.commit()
        remove_rows(writer.log)
        assert writer.publish() is None
        assert log_rows(pravega, stream.scope) == []


class TestDrop:
    def test_remove_deletes_all_rows_of_the_stream(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        """More of them than one request can name."""
        stream, other = new_stream(name="dropped"), new_stream(name="kept")
        insert_into_all(pravega, other, 1)
        record_versions(pravega, stream, 300)
        writer = Entered(pravega, stream, 1)
        writer.commit()
        assert writer.publish() == 301
        remove_rows(writer.log)
        assert {row["stream"] for row in log_rows(pravega, stream.scope)} == {"kept"}
        remove_rows(writer.log)

    def test_remove_without_a_log(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        remove_rows(CommitLog(pravega, stream))
        assert pravega.controller.list_key_value_tables(stream.scope) == []


class TestRights:
    """On a cluster with users."""

    @pytest.fixture
    def stream(self, secure_client_config: Callable[..., ClientConfig], secure_scope: str) -> Stream:
        stream = Stream(secure_scope, "stream")
        with connect(secure_client_config()) as admin:
            admin.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=2)))
        return stream

    def test_readers_need_no_right_to_write(
        self, secure_client_config: Callable[..., ClientConfig], stream: Stream
    ) -> None:
        with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
            assert content(reader, stream) == 0
            insert_into_all(admin, stream, 2)
            assert content(reader, stream) == 1
            head = CommitLog(reader, stream).head()
            assert head is not None
            assert head.version == 1

    def test_a_reader_without_rights_on_the_log_still_scans(
        self, secure_client_config: Callable[..., ClientConfig], stream: Stream
    ) -> None:
        with connect(secure_client_config()) as admin, connect(secure_client_config("no-tables")) as reader:
            insert_into_all(admin, stream, 2)
            assert CommitLog(reader, stream).head() is None
            assert content(reader, stream) == 1

    def test_a_writer_that_may_not_make_the_log_still_writes(
        self, secure_client_config: Callable[..., ClientConfig], stream: Stream, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The user `writer` may write what is there, and make nothing. Once the log is there it is used."""
        with connect(secure_client_config()) as admin, connect(secure_client_config("writer")) as writer:
            insert_into_all(writer, stream, 2)
            assert "no version was recorded" in caplog.text
            assert admin.controller.list_key_value_tables(stream.scope) == []
            insert_into_all(admin, stream, 2)
            assert admin.controller.list_key_value_tables(stream.scope) == [TABLE_NAME]
            insert_into_all(writer, stream, 2)
            head = CommitLog(admin, stream).head()
            assert head is not None
            assert head.version == 2
            assert content(admin, stream) == 3
