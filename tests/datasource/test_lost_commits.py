"""Commits that the controller loses after it has accepted them: whoever waits for one asks for it again."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
import trustme

from pyspark_pravega.client import Pravega, connect, reminder
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.changes.changes_offset import ChangesOffset, find_end_position
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch
from pyspark_pravega.datasource.positions.snapshot import measure_tail, take_snapshot
from pyspark_pravega.errors import ServerTimeoutError
from pyspark_pravega.sql import options as o
from tests.datasource.insert.test_commit import visible
from tests.datasource.stream_source.queries import Query
from tests.datasource.transactions import SETTINGS, begin_insert
from tests.forgetful_controller import ForgetfulController, open_forgetful, serve_forgetful

ROWS = [b"row %d" % number for number in range(12)]
QUERY = "7b7c2f0e-93a4-4a53-8f6b-5c20a3d9e2f1"


@dataclass
class Loss:
    """A stream whose controller has lost the commit of a transaction with `ROWS`; its writer is gone."""

    pravega: Pravega
    handler: ForgetfulController
    stream: Stream
    transaction: Transaction

    def check(self, versions: int = 1, rows: int = len(ROWS)) -> None:
        """It was committed after all, as a version of its own once somebody has written."""
        assert self.transaction.status() is TransactionStatus.COMMITTED
        assert self.handler.asked["commitTransaction"] >= 2  # a busy controller may be asked once more meanwhile
        assert len(visible(self.pravega, self.stream)) == rows
        found = [version.rows for version in CommitLog(self.pravega, self.stream).versions()]
        assert len(found) == versions and sum(found) == (rows if versions else 0)


@pytest.fixture
def forgetful(
    client_config: ClientConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[tuple[Pravega, ForgetfulController]]:
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 0.3)
    caplog.set_level(logging.WARNING)
    with open_forgetful(client_config) as (handler, config), connect(config) as pravega:
        yield pravega, handler


def lose_commit(pravega: Pravega, handler: ForgetfulController, stream: Stream) -> Loss:
    """Let a writer die right after it has asked for its commit, and the controller forget that."""
    insert, _ = begin_insert(pravega, stream, ROWS)
    transaction, log = insert.transaction, CommitLog(pravega, stream)
    pravega.segments.seal_segments(stream, [one.segment_id for one in transaction.segments], transaction.id)
    assert log.enter(transaction.id, rows=len(ROWS), operation="INSERT")
    log.wait_for_turn(transaction.id, lambda: measure_tail(pravega, stream))
    handler.forgets["commitTransaction"] = 1
    pravega.controller.commit_transaction(stream, transaction.id)
    transaction.stop()
    assert transaction.status() is TransactionStatus.COMMITTING
    return Loss(pravega, handler, stream, transaction)


@pytest.fixture
def loss(forgetful: tuple[Pravega, ForgetfulController], new_stream: Callable[..., Stream]) -> Loss:
    return lose_commit(*forgetful, new_stream(2))


def test_a_reader(loss: Loss, caplog: pytest.LogCaptureFixture) -> None:
    log = CommitLog(loss.pravega, loss.stream)
    slices = take_snapshot(
        loss.pravega, loss.stream, (None, None), fail_on_data_loss=True, measure_settled=log.measure_settled
    )
    assert sum(piece.end - piece.start for piece in slices) == sum(8 + len(row) for row in ROWS)
    loss.check(versions=0)
    assert f"asking the controller again to commit transaction {loss.transaction.id}" in caplog.text


def test_a_reader_of_a_version(loss: Loss) -> None:
    """What is committed is one only when it is published, for which it waits a second."""
    cut, head = CommitLog(loss.pravega, loss.stream).tail(
        lambda until: until or measure_tail(loss.pravega, loss.stream)
    )
    assert head.version == 0 and sum(cut.positions.values()) == sum(8 + len(row) for row in ROWS)
    loss.check(versions=0)


def append_event(loss: Loss) -> None:
    """Append an event without a transaction: a stream in which nothing is new is not looked at more closely."""
    (segment, *_) = loss.pravega.controller.current_segments(loss.stream)
    with SegmentAppender(loss.pravega.segments, loss.stream, segment.segment_id, uuid.uuid4()) as appender:
        appender.append(frame(pa.array([b"something new"])), 1)
        appender.flush()


def test_a_stream_of_events(loss: Loss) -> None:
    query = Query(loss.pravega, loss.stream, {"start-stream-cut": "earliest"})
    append_event(loss)
    batch = query.next(query.start())
    assert batch is not None and batch.count == len(ROWS) + 1
    loss.check(versions=0, rows=len(ROWS) + 1)


def test_a_stream_of_changes(loss: Loss) -> None:
    since = ChangesOffset(loss.pravega.controller.head(loss.stream), 0)
    append_event(loss)
    end = find_end_position(loss.pravega, loss.stream, o.resolve(read={}), since)
    assert end.cut == measure_tail(loss.pravega, loss.stream)
    loss.check(versions=0, rows=len(ROWS) + 1)


def test_the_next_writer(loss: Loss, caplog: pytest.LogCaptureFixture) -> None:
    insert, messages = begin_insert(loss.pravega, loss.stream, ROWS[:2])
    assert insert.commit(messages) == 2
    loss.check(versions=2, rows=len(ROWS) + 2)
    assert f"asking the controller again to commit transaction {loss.transaction.id}" in caplog.text


def test_its_own_writer(forgetful: tuple[Pravega, ForgetfulController], new_stream: Callable[..., Stream]) -> None:
    pravega, handler = forgetful
    insert, messages = begin_insert(pravega, new_stream(2), ROWS)
    handler.forgets["commitTransaction"] = 1
    assert insert.commit(messages) == len(ROWS)
    Loss(pravega, handler, insert.transaction.stream, insert.transaction).check()


def write_epoch(pravega: Pravega, stream: Stream, run: str) -> tuple[Insert, int]:
    insert, messages = begin_insert(pravega, stream, ROWS)
    try:
        return insert, commit_epoch(insert, messages, Epoch.of_query(QUERY, 0, run, "what it reads"))
    finally:
        insert.transaction.stop()


def test_a_micro_batch(forgetful: tuple[Pravega, ForgetfulController], new_stream: Callable[..., Stream]) -> None:
    """The writer's time ends before the controller remembers; the next run asks at once, and writes nothing twice."""
    (pravega, handler), stream = forgetful, new_stream(2)
    handler.forgets["commitTransaction"] = 1
    insert, rows = write_epoch(pravega, stream, "first")
    assert rows == len(ROWS)
    Loss(pravega, handler, stream, insert.transaction).check()


def test_a_micro_batch_that_the_next_run_finishes(
    forgetful: tuple[Pravega, ForgetfulController], new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    (pravega, handler), stream = forgetful, new_stream(2)
    insert, messages = begin_insert(pravega, stream, ROWS, replace(SETTINGS, commit_timeout=2.0))
    handler.forgets["commitTransaction"] = 1
    handler.holds.set()
    with pytest.raises(ServerTimeoutError, match=f"transaction {insert.transaction.id} .*is being committed"):
        commit_epoch(insert, messages, Epoch.of_query(QUERY, 0, "first", "what it reads"))
    handler.holds.clear()
    handler.asked["commitTransaction"] = 1
    again, rows = write_epoch(pravega, stream, "second")
    assert rows == len(ROWS)
    Loss(pravega, handler, stream, insert.transaction).check()
    assert again.transaction.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


def test_what_a_reader_says_in_the_end(loss: Loss) -> None:
    """It names the transaction, its state, since when, and what to do."""
    loss.handler.holds.set()
    with pytest.raises(ServerTimeoutError) as raised:
        CommitLog(loss.pravega, loss.stream, timeout=2.0).measure_settled(lambda _: None)
    assert re.search(
        rf"Stream {loss.stream} had commits in flight for 2 s, .* Transaction {loss.transaction.id} has been "
        rf"COMMITTING for at least 2 s; it was asked for again \d times\. CALL <catalog>\.system\.commit_transaction\("
        rf"table => '{loss.stream.scope}\.{loss.stream.name}', transaction => '{loss.transaction.id}'\) asks for",
        raised.value.message,
    )
    loss.handler.holds.clear()
    CommitLog(loss.pravega, loss.stream).measure_settled(lambda _: None)


def test_what_a_writer_says_in_the_end(loss: Loss) -> None:
    loss.handler.holds.set()
    insert, messages = begin_insert(loss.pravega, loss.stream, ROWS, replace(SETTINGS, commit_timeout=2.0))
    with pytest.raises(ServerTimeoutError) as raised:
        insert.commit(messages)
    assert re.search(
        rf"did not get its turn\. Transaction {loss.transaction.id} has been COMMITTING for at least \d s; it was "
        r"asked for again .* Raise the option 'transaction.timeout'.*No row of this INSERT is visible",
        raised.value.message,
    )


def test_an_open_transaction_is_left_to_its_writer(
    forgetful: tuple[Pravega, ForgetfulController], new_stream: Callable[..., Stream]
) -> None:
    """Only what the controller calls COMMITTING is asked for by others."""
    (pravega, handler), stream = forgetful, new_stream(2)
    insert, _ = begin_insert(pravega, stream, ROWS)
    log = CommitLog(pravega, stream, timeout=2.0)
    assert log.enter(insert.transaction.id, rows=len(ROWS), operation="INSERT")
    log.measure_settled(lambda _: None)  # what is open is not seen, and holds nobody up
    other, messages = begin_insert(pravega, stream, ROWS, replace(SETTINGS, commit_timeout=2.0))
    with pytest.raises(ServerTimeoutError, match=r"did not get its turn\. Raise the option"):
        other.commit(messages)
    assert handler.calls["commitTransaction"] == 0
    assert insert.transaction.status() is TransactionStatus.OPEN
    insert.abort()


def test_a_reader_without_the_right_to_commit(
    secure_client_config: Callable[..., ClientConfig],
    secure_scope: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It waits as long as others do, and its error says that it may not ask; a writer then helps it."""
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 0.3)
    admin, reader = secure_client_config(), secure_client_config("reader")
    ca, stream = trustme.CA(), Stream(secure_scope, "stream")
    trusted = Path(str(admin.trust_store)).read_bytes()
    (tmp_path / "trust.pem").write_bytes(trusted + ca.cert_pem.bytes())
    of_server = ca.issue_cert("localhost")
    key = of_server.private_key_pem.bytes(), b"".join(one.bytes() for one in of_server.cert_chain_pems)
    channel = grpc.secure_channel(str(admin.controller_endpoints[0]), grpc.ssl_channel_credentials(trusted))
    with serve_forgetful(channel, grpc.ssl_server_credentials([key])) as (handler, address):
        admin, reader = (
            replace(one, controller_uri=address, trust_store=str(tmp_path / "trust.pem")) for one in (admin, reader)
        )
        with connect(admin) as pravega, connect(reader) as limited:
            pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=2)))
            loss = lose_commit(pravega, handler, stream)
            with pytest.raises(ServerTimeoutError) as raised:
                CommitLog(limited, stream, timeout=2.0).measure_settled(lambda _: None)
            assert re.search(
                rf"Transaction {loss.transaction.id} has been COMMITTING for at least 2 s; this user may not ask for "
                r"it again \(cannot commit .* lacks the right READ_UPDATE .*\)\. CALL",
                raised.value.message,
            )
            assert handler.calls["commitTransaction"] == 2, "asked once by the writer, and once by who may not"
            assert loss.transaction.status() is TransactionStatus.COMMITTING
            CommitLog(pravega, stream).measure_settled(lambda _: None)
            CommitLog(limited, stream, timeout=2.0).measure_settled(lambda _: None)
            assert loss.transaction.status() is TransactionStatus.COMMITTED
            assert len(visible(limited, stream)) == len(ROWS)
