"""Requests that the controller accepts and then loses: whoever waits for them asks again, where that helps."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pyspark_pravega.client import Pravega, reminder
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.controller.reader_group_calls import Holding, ReaderGroup
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.reminder import LONGEST_SECONDS, Reminder
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import (
    InvalidOptionError,
    PermissionDeniedError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamNotFoundError,
)
from tests.forgetful_controller import ForgetfulController, open_forgetful

LEASE_MS = 30_000
HALVES = [(0.0, 0.25), (0.25, 0.5)]
"""The key ranges that segment 0 of two is divided into."""
DIVIDED = [2 | 1 << 32, 3 | 1 << 32, 1]
"""The segments that there are then."""


@pytest.fixture
def forgetful(
    client_config: ClientConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[tuple[Controller, ForgetfulController]]:
    """A controller that forgets, reached by a client that asks again soon."""
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 0.3)
    caplog.set_level(logging.WARNING)
    with open_forgetful(client_config) as (handler, config), Controller(config) as controller:
        yield controller, handler


@pytest.fixture
def stream(pravega: Pravega, scope: str) -> Stream:
    made = Stream(scope, "stream")
    pravega.controller.create_stream(made, StreamConfiguration(ScalingPolicy(min_segments=2)))
    return made


def group_of(stream: Stream) -> ReaderGroup:
    return ReaderGroup(stream.scope, "consumer", uuid.uuid4(), 0, Holding.MANUAL, (StreamCut(stream, {}),))


def test_a_segment_whose_store_is_away_is_waited_for(
    forgetful: tuple[Controller, ForgetfulController], stream: Stream
) -> None:
    controller, handler = forgetful
    handler.fails["getURI"] = 8
    assert controller.segment_location(stream, 0).port
    assert handler.calls["getURI"] == 9


class TestReminder:
    def test_pauses_grow(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        asking, asked = Reminder("seal it"), []
        for _ in range(300):
            asking.ask_if_due(lambda: asked.append(time.monotonic() - 100))
            now += 1
        assert asked == [5, 15, 35, 75, 135, 195, 255]
        assert asking.pause == LONGEST_SECONDS
        assert asking.explain() == "it was asked for again 7 times"
        assert caplog.messages[:2] == [
            f"After {seconds} s: asking the controller again to seal it." for seconds in (5, 15)
        ]

    def test_who_may_not_ask_waits_on(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        monkeypatch.setattr(reminder, "FIRST_SECONDS", 0.0)
        errors = [ServerUnavailableError("away"), PermissionDeniedError("no right")]

        def ask() -> None:
            raise errors.pop(0)

        asking = Reminder("commit it")
        assert "not asked for again yet" in asking.explain()
        for _ in range(5):
            asking.ask_if_due(ask)
        assert not errors, "asked twice: after the refusal no more"
        assert asking.explain() == "this user may not ask for it again (no right)"
        assert caplog.messages[1::2] == [
            "Asking again failed: [PRAVEGA_SERVER_UNAVAILABLE] away",
            "Waiting without asking: [PRAVEGA_PERMISSION_DENIED] no right",
        ]


def test_a_commit(
    forgetful: tuple[Controller, ForgetfulController], stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    controller, handler = forgetful
    transaction = Transaction.begin(controller, stream, LEASE_MS)
    handler.forgets["commitTransaction"] = 1
    transaction.commit(60)
    assert transaction.status() is TransactionStatus.COMMITTED
    assert handler.asked["commitTransaction"] == 2
    assert f"asking the controller again to commit transaction {transaction.id} on stream '{stream}'" in caplog.text


def test_a_commit_that_is_lost_for_good(forgetful: tuple[Controller, ForgetfulController], stream: Stream) -> None:
    controller, handler = forgetful
    transaction = Transaction.begin(controller, stream, LEASE_MS)
    handler.forgets["commitTransaction"] = 1
    handler.holds.set()
    with pytest.raises(ServerTimeoutError, match=r"not done after 2 s; it was asked for again \d times\. Do not write"):
        transaction.commit(2)
    assert handler.asked["commitTransaction"] > 2


def test_nothing_is_asked_twice_that_gets_done(
    forgetful: tuple[Controller, ForgetfulController], stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 60.0)
    controller, handler = forgetful
    Transaction.begin(controller, stream, LEASE_MS).commit(60)
    controller.scale_stream(stream, [0], HALVES, timeout=60)
    group = controller.create_reader_group(group_of(stream))
    controller.delete_reader_group(replace(group, generation=controller.update_reader_group(group)))
    controller.seal_stream(stream)
    controller.delete_stream(stream)
    once = "createTransaction commitTransaction scale createReaderGroup updateReaderGroup deleteReaderGroup "
    assert {call: handler.calls[call] for call in f"{once}sealStream deleteStream".split()} == dict.fromkeys(
        f"{once}sealStream deleteStream".split(), 1
    )


def test_what_a_reminder_takes_is_not_waited_for_twice(
    client_config: ClientConfig, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminder, "FIRST_SECONDS", 1.5)
    with open_forgetful(client_config) as (handler, config), Controller(replace(config, retry_timeout=4)) as controller:
        handler.forgets["sealStream"] = 1
        handler.holds.set()
        began = time.monotonic()
        with pytest.raises(ServerTimeoutError):
            controller.seal_stream(stream, lambda: time.sleep(2))
        # 1.5 s for the first request, 2 for the reminder, and the least that the second one has: 1 instead of 2.5.
        assert time.monotonic() - began < 5.5
        assert handler.asked["sealStream"] == 2


def test_an_abort(forgetful: tuple[Controller, ForgetfulController], pravega: Pravega, stream: Stream) -> None:
    """Nobody waits for its end: what is ABORTING will never be seen. To abort it again makes the server go on."""
    controller, handler = forgetful
    transaction = Transaction.begin(controller, stream, LEASE_MS)
    handler.forgets["abortTransaction"] = 1
    transaction.abort()
    assert transaction.status() is TransactionStatus.ABORTING
    assert pravega.controller.transaction_status(stream, transaction.id) is TransactionStatus.OPEN
    transaction.abort()
    assert handler.asked["abortTransaction"] == 2
    assert transaction.status() in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


def test_a_seal_and_a_deletion(
    forgetful: tuple[Controller, ForgetfulController],
    pravega: Pravega,
    stream: Stream,
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller, handler = forgetful
    handler.forgets.update(sealStream=1, deleteStream=1)
    reminded: list[bool] = []
    controller.seal_stream(stream, lambda: reminded.append(True))
    assert pravega.controller.current_segments(stream) == [] and reminded == [True]
    controller.delete_stream(stream)
    assert not pravega.controller.stream_exists(stream)
    assert handler.asked == {"sealStream": 2, "deleteStream": 2}
    assert f"again to seal stream '{stream}'" in caplog.text and f"again to delete stream '{stream}'" in caplog.text


def test_a_deletion_whose_answer_comes_late_is_done(
    forgetful: tuple[Controller, ForgetfulController], pravega: Pravega, stream: Stream, scope: str
) -> None:
    """The second request finds nothing any more."""
    controller, handler = forgetful
    pravega.controller.seal_stream(stream)
    pravega.controller.create_key_value_table(scope, "table", 1, 4)
    handler.forgets.update(deleteStream=1, deleteKeyValueTable=1)
    handler.late = {"deleteStream", "deleteKeyValueTable"}
    controller.delete_stream(stream)
    controller.delete_key_value_table(scope, "table")
    assert handler.asked == {"deleteStream": 2, "deleteKeyValueTable": 2}


def test_a_key_value_table(
    forgetful: tuple[Controller, ForgetfulController], pravega: Pravega, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    controller, handler = forgetful
    pravega.controller.create_key_value_table(scope, "table", 1, 4)
    handler.forgets["deleteKeyValueTable"] = 1
    controller.delete_key_value_table(scope, "table")
    assert pravega.controller.list_key_value_tables(scope) == []
    assert handler.asked["deleteKeyValueTable"] == 2
    assert f"again to delete key-value table '{scope}/table'" in caplog.text


def test_a_consumer(
    forgetful: tuple[Controller, ForgetfulController],
    pravega: Pravega,
    stream: Stream,
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller, handler = forgetful
    handler.forgets.update(createReaderGroup=1, deleteReaderGroup=1)
    wanted = group_of(stream)
    group = controller.create_reader_group(wanted)
    assert group.id == wanted.id
    assert pravega.controller.subscribers(stream) == [(stream.scope, "consumer")]
    controller.delete_reader_group(group)
    assert pravega.controller.subscribers(stream) == []
    assert handler.asked == {"createReaderGroup": 2, "deleteReaderGroup": 2}
    assert "again to create consumer 'consumer'" in caplog.text and "again to drop consumer 'consumer'" in caplog.text


def test_a_scaling(
    forgetful: tuple[Controller, ForgetfulController],
    pravega: Pravega,
    stream: Stream,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Asked twice, the stream is scaled once."""
    controller, handler = forgetful
    handler.forgets["scale"] = 1
    controller.scale_stream(stream, [0], HALVES)
    assert [one.segment_id for one in pravega.controller.current_segments(stream)] == DIVIDED
    assert handler.asked["scale"] == 2
    assert f"again to scale stream '{stream}'" in caplog.text


def test_a_scaling_that_is_done_is_not_done_again(
    forgetful: tuple[Controller, ForgetfulController], pravega: Pravega, stream: Stream
) -> None:
    """The controller refuses the second request, since its segments are sealed; the first one's end counts."""
    controller, handler = forgetful
    handler.forgets["scale"] = 1
    handler.late = {"scale"}
    controller.scale_stream(stream, [0], HALVES)
    assert [one.segment_id for one in pravega.controller.current_segments(stream)] == DIVIDED
    assert handler.asked["scale"] == 2


def test_a_scaling_that_is_lost_for_good(
    forgetful: tuple[Controller, ForgetfulController], pravega: Pravega, stream: Stream
) -> None:
    controller, handler = forgetful
    handler.forgets["scale"] = 1
    handler.holds.set()
    with pytest.raises(ServerTimeoutError, match=r"not finished after 2 s; it was asked for again \d times, and"):
        controller.scale_stream(stream, [0], HALVES, timeout=2)
    assert len(pravega.controller.current_segments(stream)) == 2


def test_the_same_scaling_twice_at_once_is_one(pravega: Pravega, stream: Stream) -> None:
    """What asking again relies on, on the real controller alone: it goes on with the scaling that it has accepted."""
    calls, purpose = pravega.controller._channel, pravega.controller._stream_purpose("scale", stream)
    entries = [pb.ScaleRequest.KeyRangeEntry(start=start, end=end) for start, end in HALVES]
    info = pb.StreamInfo(scope=stream.scope, stream=stream.name)
    request = pb.ScaleRequest(streamInfo=info, sealedSegments=[0], newKeyRanges=entries, scaleTimestamp=1)
    answers = [calls.call("scale", request, purpose)[0].status for _ in range(3)]
    refused = (pb.ScaleResponse.PRECONDITION_FAILED, pb.ScaleResponse.FAILURE)
    assert answers[0] == pb.ScaleResponse.STARTED
    assert set(answers[1:]) <= {pb.ScaleResponse.STARTED, *refused}
    deadline = time.monotonic() + 60
    while [one.segment_id for one in pravega.controller.current_segments(stream)] != DIVIDED:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert calls.call("scale", request, purpose)[0].status in refused
    assert [one.segment_id for one in pravega.controller.current_segments(stream)] == DIVIDED


@pytest.mark.parametrize("what", ["truncateStream", "updateStream", "updateReaderGroup"])
def test_what_cannot_be_asked_for_again(
    forgetful: tuple[Controller, ForgetfulController],
    client_config: ClientConfig,
    pravega: Pravega,
    stream: Stream,
    what: str,
) -> None:
    """The controller refuses the same request while it believes to be at it. So it is sent once; the error says so."""
    _, handler = forgetful
    group = pravega.controller.create_reader_group(group_of(stream))
    configuration = replace(pravega.controller.stream_configuration(stream), tags=("tag",))
    with Controller(replace(forgetful[0].config, request_timeout=1.0)) as impatient:
        calls: dict[str, tuple[Callable[[], object], str, type[Exception], str]] = {
            "truncateStream": (
                lambda: impatient.truncate_stream(StreamCut(stream, {0: 0, 1: 0})),
                "takes no other truncation, nor does its retention remove any events: copy it to a new stream",
                InvalidOptionError,
                "no other truncation may be under way",
            ),
            "updateStream": (
                lambda: impatient.update_stream(stream, configuration),
                "takes no other change of settings: copy it to a new stream",
                ServerFailedError,
                "answered FAILURE",
            ),
            "updateReaderGroup": (
                lambda: impatient.update_reader_group(group),
                "it has lost the request: drop the consumer and create it again",
                ServerFailedError,
                "answered FAILURE",
            ),
        }
        change, advice, refusal, words = calls[what]
        handler.forgets[what] = 1
        with pytest.raises(ServerTimeoutError, match=f"did not answer in time.*{advice}"):
            change()
        assert handler.asked[what] == 1
        with pytest.raises(refusal, match=words):
            change()


def test_a_deletion_that_is_lost_for_good(forgetful: tuple[Controller, ForgetfulController], stream: Stream) -> None:
    controller, handler = forgetful
    controller.seal_stream(stream)
    handler.forgets["deleteStream"] = 1
    handler.holds.set()
    with Controller(replace(controller.config, retry_timeout=4.0)) as impatient:
        with pytest.raises(ServerTimeoutError, match=r"did not answer in time: .* \(gave up after \d tries in 4 s\)"):
            impatient.delete_stream(stream)
    assert handler.asked["deleteStream"] > 1
    handler.holds.clear()
    controller.delete_stream(stream)
    with pytest.raises(StreamNotFoundError):
        controller.current_segments(stream)
