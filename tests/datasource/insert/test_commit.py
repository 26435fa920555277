"""The commit of an INSERT: only what the winning tasks reported becomes visible, whatever else was appended."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.commit import CommitRequest, WriteSettings
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.outcomes import Unit
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import (
    InvalidSchemaError,
    PravegaError,
    ServerUnavailableError,
    TransactionMismatchError,
    TransactionNotOpenError,
    TransactionOutcomeUnknownError,
)
from tests.datasource.transactions import raw_table

SETTINGS = WriteSettings(lease=30.0, commit_timeout=60.0, spool_memory=1 << 20)
ROWS = [b"row %d" % number for number in range(1000)]


@pytest.fixture
def begin(pravega: Pravega, new_stream: Callable[..., Stream]) -> Callable[[], Insert]:
    """A function that begins an INSERT into a new raw table of two segments."""
    stream = new_stream(2)
    table = StreamTable(stream, "raw", "none", RAW_SCHEMA)
    return lambda: Insert.begin(pravega, table, SETTINGS)


def write(insert: Insert, rows: list[bytes]) -> InsertMessage:
    """Run a task of the INSERT in this process."""
    batches = [pa.record_batch([pa.array(rows, pa.binary())], names=["event"])]
    message = InsertWriter(insert.spec(RAW_SCHEMA)).write(iter(batches))
    assert isinstance(message, InsertMessage)
    return message


def leave_behind(pravega: Pravega, insert: Insert, rows: list[bytes]) -> None:
    """Append to every segment of the transaction what an attempt that failed has left there."""
    transaction = insert.transaction
    for segment in transaction.segments:
        with SegmentAppender(
            pravega.segments, transaction.stream, segment.segment_id, uuid.uuid4(), transaction.id
        ) as appender:
            appender.append(frame(pa.array(rows, pa.binary())), len(rows))
            appender.flush()


def visible(pravega: Pravega, stream: Stream) -> list[bytes]:
    """All events of a stream, sorted."""
    events = []
    ids, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    for segment_id, info in pravega.segments.segment_infos(stream, ids).items():
        for window in SegmentRangeReader(pravega.segments, stream, segment_id, 0, info.write_offset):
            for start, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True):
                events.append(bytes(window.data[start : start + length]))
    return sorted(events)


def test_attempts_at_a_wide_table(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """A task with a few rows for each of many segments appends them together: once, however often it is tried."""
    insert = Insert.begin(pravega, raw_table(new_stream(12)), SETTINGS)
    lost, again, won = (write(insert, rows) for rows in (ROWS, ROWS, ROWS[::-1]))
    for attempt, resumed in ((lost, False), (again, True), (won, False)):
        assert len(attempt.segments) == 12
        assert all(written.resumed is resumed for written in attempt.segments.values())
        assert all(sum(end - start for start, end in one.ranges) in (0, one.bytes) for one in attempt.segments.values())
    assert insert.commit([won]) == len(ROWS)
    assert visible(pravega, insert.transaction.stream) == sorted(ROWS)


def test_what_the_tasks_wrote_is_committed(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    assert insert.commit([write(insert, ROWS)]) == len(ROWS)
    stream = insert.transaction.stream
    assert visible(pravega, stream) == sorted(ROWS)
    head = CommitLog(pravega, stream).head()
    assert head is not None
    assert head.version == 1
    assert head.committing == ()


@pytest.mark.parametrize("first", [True, False])
def test_bytes_of_a_failed_attempt_are_left_behind(pravega: Pravega, begin: Callable[[], Insert], first: bool) -> None:
    insert = begin()
    if first:
        leave_behind(pravega, insert, [b"never seen"] * 10)
    message = write(insert, ROWS)
    if not first:
        leave_behind(pravega, insert, [b"never seen"] * 10)
    assert insert.commit([message]) == len(ROWS)
    assert visible(pravega, insert.transaction.stream) == sorted(ROWS)
    assert insert.transaction.status() in (TransactionStatus.ABORTED, TransactionStatus.ABORTING)


def test_the_same_rows_again_are_written_once(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    lost = write(insert, ROWS)
    again = write(insert, ROWS)
    assert all(written.resumed for written in again.segments.values())
    assert {key: one.bytes for key, one in again.segments.items()} == {
        key: one.bytes for key, one in lost.segments.items()
    }
    assert insert.commit([again]) == len(ROWS)
    assert visible(pravega, insert.transaction.stream) == sorted(ROWS)


def test_a_task_without_servers_says_that_nothing_is_visible(begin: Callable[[], Insert]) -> None:
    spec = begin().spec(RAW_SCHEMA)
    with socket.socket() as held:  # bound but not listening: it refuses connections
        held.bind(("127.0.0.1", 0))
        config = replace(
            spec.config,
            controller_uri=f"tcp://127.0.0.1:{held.getsockname()[1]}",
            retry_timeout=0.5,
            request_timeout=0.5,
        )
        writer = InsertWriter(replace(spec, config=config, endpoints={}))
        batch = pa.record_batch([pa.array(ROWS, pa.binary())], names=["event"])
        with pytest.raises(ServerUnavailableError, match=r"cannot be reached.*\. No row of this INSERT is visible"):
            writer.write(iter([batch]))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_micro_batch_that_came_to_nothing_names_its_query(
    pravega: Pravega, begin: Callable[[], Insert], is_sealed: bool
) -> None:
    insert = begin()
    transaction = insert.transaction
    batch = Insert(pravega, insert.table, transaction, replace(SETTINGS, unit=Unit.MICRO_BATCH))
    message = write(batch, ROWS)

    def abort(*_: object) -> None:
        pravega.controller.abort_transaction(transaction.stream, transaction.id)

    if not is_sealed:
        abort()
    with pytest.raises(
        TransactionNotOpenError, match="aborted.*Start the query again, and it continues from its check"
    ):
        batch.commit([message], CommitRequest(look_ahead=abort))


def test_what_cannot_be_told_apart_is_aborted(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    write(insert, ROWS)
    again = write(insert, ROWS)
    leave_behind(pravega, insert, [b"never seen"])
    with pytest.raises(TransactionMismatchError, match="run it again"):
        insert.commit([again])
    assert visible(pravega, insert.transaction.stream) == []


def test_nothing_can_be_appended_once_the_commit_has_begun(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    message = write(insert, ROWS)
    transaction = insert.transaction
    segment = transaction.segments[0].segment_id
    with SegmentAppender(pravega.segments, transaction.stream, segment, uuid.uuid4(), transaction.id) as zombie:
        assert zombie.last_event_number == 0  # it is set up, and sleeps
        insert.commit([message])
        with pytest.raises(PravegaError):
            zombie.append(frame(pa.array([b"too late"], pa.binary())), 1)
            zombie.flush()
    assert visible(pravega, transaction.stream) == sorted(ROWS)


def test_an_aborted_transaction_is_named(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    message = write(insert, ROWS)
    pravega.controller.abort_transaction(insert.transaction.stream, insert.transaction.id)
    with pytest.raises(TransactionNotOpenError, match=str(insert.transaction.id)):
        insert.commit([message])
    assert visible(pravega, insert.transaction.stream) == []


def test_a_commit_that_the_server_cannot_take(pravega: Pravega, scope: str) -> None:
    """Others may create a stream of such a name, which is no path. The commit is not tried for ever."""
    stream = Stream(scope, "..")
    pravega.controller.create_stream(stream, StreamConfiguration())
    insert = Insert.begin(pravega, raw_table(stream), replace(SETTINGS, commit_timeout=3600.0))
    message = write(insert, ROWS)
    reason = "could not be committed and was aborted: .*SERVER_FAILED.* No row of this INSERT is visible; run it again"
    with pytest.raises(TransactionNotOpenError, match=reason):
        insert.commit([message])
    assert visible(pravega, stream) == []


@pytest.mark.parametrize("moment", ["before", "during", "after", "published"])
def test_a_commit_that_another_process_may_have_done(
    pravega: Pravega, begin: Callable[[], Insert], moment: str
) -> None:
    """The service died while it committed, and the one in its place is asked to commit."""
    insert = begin()
    message = write(insert, ROWS)
    transaction = insert.transaction
    stream = transaction.stream
    if moment == "published":
        insert.commit([message])
    else:
        assert CommitLog(pravega, stream).enter(transaction.id, rows=len(ROWS), operation="INSERT")
        if moment == "during":
            pravega.controller.commit_transaction(stream, transaction.id)
        elif moment == "after":
            transaction.commit(60)
    rejoined = Transaction.rejoin(pravega.controller, stream, transaction.id, 30_000)
    again = Insert(pravega, raw_table(stream), rejoined, SETTINGS)
    assert again.commit([message], CommitRequest(again=True)) == len(ROWS)
    assert visible(pravega, stream) == sorted(ROWS)
    head = CommitLog(pravega, stream).head()
    assert head is not None
    assert (head.version, head.committing) == (1, ())


@pytest.mark.parametrize("committed", [True, False])
def test_a_controller_that_does_not_tell_at_first_what_another_process_has_done(
    pravega: Pravega, begin: Callable[[], Insert], monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """It answers again when the transaction is given up, which shows what has become of it."""
    insert = begin()
    message = write(insert, ROWS)
    transaction = insert.transaction
    if committed:
        transaction.commit(60)

    def unreachable(self: Transaction) -> TransactionStatus:
        monkeypatch.undo()
        raise ServerUnavailableError("the controller cannot be reached")

    rejoined = Transaction.rejoin(pravega.controller, transaction.stream, transaction.id, 30_000)
    again = Insert(pravega, raw_table(transaction.stream), rejoined, SETTINGS)
    monkeypatch.setattr(Transaction, "status", unreachable)
    if committed:
        assert again.commit([message], CommitRequest(again=True)) == len(ROWS)
    else:
        with pytest.raises(TransactionNotOpenError, match="was aborted: .*cannot be reached.*No row of this INSERT"):
            again.commit([message], CommitRequest(again=True))
    assert visible(pravega, transaction.stream) == (sorted(ROWS) if committed else [])


def test_a_commit_that_another_process_may_have_copied(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    """It cannot be known whether the copy is on its way: nothing is committed a second time."""
    insert = begin()
    message = write(insert, ROWS)
    leave_behind(pravega, insert, [b"never seen"])
    with pytest.raises(TransactionOutcomeUnknownError, match="look at the table"):
        insert.commit([message], CommitRequest(again=True))
    assert visible(pravega, insert.transaction.stream) == []


def test_a_table_that_was_made_again_with_other_columns(pravega: Pravega, scope: str) -> None:
    stream = Stream(scope, "again")
    made = []
    for column in ("a", "b"):
        pravega.controller.create_stream(stream, StreamConfiguration())
        registry = pravega.registry(scope)
        registry.create_group(stream.name, GroupProperties("Avro", Compatibility("AllowAny")))
        schema = {"type": "record", "name": "again", "fields": [{"name": column, "type": "int"}]}
        registry.add_schema(stream.name, SchemaInfo.of_text("again", "Avro", json.dumps(schema)))
        made.append(load_table(pravega, stream).table)
        if column == "a":
            known = Insert.begin(pravega, made[0], SETTINGS)
            assert known.spec(made[0].schema).encoding_id == known.spec(made[0].schema).encoding_id == 0
            known.abort()
            pravega.controller.seal_stream(stream)
            pravega.controller.delete_stream(stream)
            registry.delete_group(stream.name)
    old, new = made
    assert old.schema_version == new.schema_version
    for _ in range(2):  # the registry has no such encoding, and then one of the new schema
        insert = Insert.begin(pravega, old, SETTINGS)
        with pytest.raises(InvalidSchemaError, match="recreated with other columns"):
            insert.spec(old.schema)
        insert.abort()
        insert = Insert.begin(pravega, new, SETTINGS)
        assert insert.spec(new.schema).encoding_id == 0
        insert.abort()


def test_no_rows_leave_no_version(pravega: Pravega, begin: Callable[[], Insert]) -> None:
    insert = begin()
    assert insert.commit([write(insert, [])]) == 0
    assert insert.transaction.status() in (TransactionStatus.ABORTED, TransactionStatus.ABORTING)
    head = CommitLog(pravega, insert.transaction.stream).head()
    assert head is None or head.version == 0
