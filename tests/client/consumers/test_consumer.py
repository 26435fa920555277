"""Consumers on a real server: who may use a name, where they are, and what Java's tools see of them."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from click.testing import CliRunner

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import (
    Consumer,
    drop_consumer,
    drop_consumers_of,
    list_consumers,
    list_consumers_of_scope,
    list_consumers_of_scopes,
)
from pyspark_pravega.client.consumers.group_state import GroupLog
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import RetentionPolicy, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.commands.cli import main
from pyspark_pravega.errors import ConsumerInUseError, ConsumerNotFoundError, UnsupportedOperationError
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Foreign

KEEPING = StreamConfiguration(scaling=ScalingPolicy(min_segments=2), retention=RetentionPolicy("size", 1))
EVENT = 13
"""Bytes of one event, its header included."""


@pytest.fixture
def kept(pravega: Pravega, scope: str) -> Stream:
    """A stream of two segments, 0 and 1, with retention, and ten events in its first one."""
    stream = Stream(scope, "kept")
    pravega.controller.create_stream(stream, KEEPING)
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        appender.append(frame(pa.array([b"event"] * 10)), 10)
        appender.flush()
    return stream


def at(stream: Stream, events: int) -> StreamCut:
    return StreamCut(stream, {0: events * EVENT, 1: 0})


def position(pravega: Pravega, stream: Stream) -> StreamCut | None:
    (found,) = list_consumers(pravega, stream)
    return found.position


def test_a_consumer_is_where_it_was_moved(pravega: Pravega, kept: Stream) -> None:
    consumer = Consumer.register(pravega, kept, "nightly", at(kept, 2))
    for events in (2, 2, 5, 9):
        consumer.move(at(kept, events))
        assert position(pravega, kept) == at(kept, events)
    (found,) = list_consumers_of_scope(pravega, kept.scope)
    assert (found.stream, found.name, found.bytes_behind) == (kept, "nightly", EVENT)
    assert list(list_consumers_of_scopes(pravega, ["dropped-meanwhile", kept.scope])) == [found]


def test_the_newest_owner_moves_a_consumer_alone(pravega: Pravega, kept: Stream) -> None:
    old = Consumer.register(pravega, kept, "nightly", at(kept, 1))
    new = Consumer.register(pravega, kept, "nightly", at(kept, 3))
    with pytest.raises(ConsumerInUseError, match="'nightly' .* was taken over by another query"):
        old.move(at(kept, 9))
    assert position(pravega, kept) == at(kept, 3)
    new.move(at(kept, 4))
    assert position(pravega, kept) == at(kept, 4)


def test_a_query_that_begins_earlier_holds_from_there(pravega: Pravega, kept: Stream) -> None:
    Consumer.register(pravega, kept, "nightly", at(kept, 8))
    Consumer.register(pravega, kept, "nightly", at(kept, 1))
    assert position(pravega, kept) == at(kept, 1)


def test_a_name_is_for_one_stream(pravega: Pravega, kept: Stream) -> None:
    other = Stream(kept.scope, "other")
    pravega.controller.create_stream(other, KEEPING)
    Consumer.register(pravega, kept, "nightly", at(kept, 1))
    with pytest.raises(ConsumerInUseError, match=f"'nightly' .* is taken by .* of stream {kept}, not of '{other}'"):
        Consumer.register(pravega, other, "nightly", pravega.controller.head(other))


def test_a_stream_made_again_takes_the_name_anew(pravega: Pravega, kept: Stream) -> None:
    old = Consumer.register(pravega, kept, "nightly", at(kept, 1))
    pravega.controller.seal_stream(kept)
    pravega.controller.delete_stream(kept)
    pravega.controller.create_stream(kept, KEEPING)
    head = pravega.controller.head(kept)
    Consumer.register(pravega, kept, "nightly", head)
    assert position(pravega, kept) == head
    with pytest.raises(ConsumerInUseError, match="'nightly' .* was taken over"):
        old.move(at(kept, 2))


def test_a_consumer_whose_stream_was_deleted_can_be_dropped_once_it_is_made_again(
    pravega: Pravega, kept: Stream
) -> None:
    Consumer.register(pravega, kept, "nightly", at(kept, 1))
    pravega.controller.seal_stream(kept)
    pravega.controller.delete_stream(kept)
    with pytest.raises(UnsupportedOperationError, match=f"stream '{kept}' no longer exists"):
        drop_consumer(pravega, kept.scope, "nightly")
    pravega.controller.create_stream(kept, KEEPING)
    drop_consumer(pravega, kept.scope, "nightly")
    assert pravega.controller.reader_group(kept.scope, "nightly") is None


def test_a_stream_without_retention_is_refused(pravega: Pravega, scope: str) -> None:
    stream = Stream(scope, "all")
    pravega.controller.create_stream(stream, StreamConfiguration())
    with pytest.raises(UnsupportedOperationError, match=f"'{stream}' has no retention policy.*'retention.type'='size'"):
        Consumer.register(pravega, stream, "nightly", pravega.controller.head(stream))
    assert pravega.controller.reader_group(scope, "nightly") is None


def test_a_dropped_consumer_moves_no_more(pravega: Pravega, kept: Stream) -> None:
    consumer = Consumer.register(pravega, kept, "nightly", at(kept, 1))
    drop_consumer(pravega, kept.scope, "nightly")
    assert list_consumers(pravega, kept) == []
    with pytest.raises(ConsumerNotFoundError, match="'nightly' .* was dropped"):
        consumer.move(at(kept, 2))
    with pytest.raises(ConsumerNotFoundError, match="no consumer 'nightly'"):
        drop_consumer(pravega, kept.scope, "nightly")


def test_positions_do_not_pile_up(pravega: Pravega, kept: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_pravega.client.consumers.group_state._MOST_BYTES", 2000)
    consumer = Consumer.register(pravega, kept, "nightly", at(kept, 0))
    log = Stream(kept.scope, "_RGnightly")
    for events in range(1, 11):
        consumer.move(at(kept, events))
    (start,) = pravega.controller.head(log).positions.values()
    assert start > 0
    assert position(pravega, kept) == at(kept, 10)


def test_java_sees_a_sane_reader_group(pravega: Pravega, kept: Stream, foreign: Foreign, cluster: ClusterInfo) -> None:
    java = foreign.connect(cluster)
    consumer = Consumer.register(pravega, kept, "nightly", at(kept, 1))
    consumer.move(at(kept, 4))
    seen = java.reader_group(kept.scope, "nightly")
    assert (seen.streams, seen.readers, seen.unread) == ([str(kept)], 0, 6 * EVENT)
    java.delete_reader_group(kept.scope, "nightly")
    assert list_consumers(pravega, kept) == []


def test_reader_groups_of_java_are_left_alone(
    pravega: Pravega, kept: Stream, foreign: Foreign, cluster: ClusterInfo
) -> None:
    java = foreign.connect(cluster)
    java.create_reader_group(kept.scope, kept.name, "plain", holding=False)
    java.create_reader_group(kept.scope, kept.name, "holding", holding=True)
    for name in ("plain", "holding"):
        with pytest.raises(ConsumerInUseError, match=f"'{name}' .* reader group of another client"):
            Consumer.register(pravega, kept, name, at(kept, 1))
        with pytest.raises(ConsumerInUseError, match="drop it with Pravega's own tools"):
            drop_consumer(pravega, kept.scope, name)
    (found,) = list_consumers(pravega, kept)
    assert (found.name, found.position, found.bytes_behind) == ("holding", None, None)
    assert GroupLog(pravega, kept.scope, "plain").read() is not None


def test_a_consumer_that_is_half_made(pravega: Pravega, kept: Stream) -> None:
    """While a reader group is created or dropped, its record is there without its stream, or with a sealed one."""
    Consumer.register(pravega, kept, "nightly", at(kept, 3))
    states = Stream(kept.scope, "_RGnightly")
    for step in (pravega.controller.seal_stream, pravega.controller.delete_stream):
        step(states)
        [found] = list_consumers(pravega, kept)
        assert (found.name, found.position, found.bytes_behind) == ("nightly", None, None)
        with pytest.raises(ConsumerInUseError, match="drop stream .* again in a moment"):
            drop_consumers_of(pravega, kept)
    pravega.controller.create_stream(states, StreamConfiguration())  # without it the group could not be deleted


def test_the_command_lists_and_drops(pravega: Pravega, kept: Stream) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        uri = str(pravega.config.controller_uri)
        result = CliRunner().invoke(main, ["consumers", *arguments, "--controller-uri", uri])
        assert "Traceback" not in result.output
        return result.exit_code, result.output

    Consumer.register(pravega, kept, "nightly", at(kept, 3))
    table, consumer = f"`{kept.scope}`.kept", f"`{kept.scope}`.nightly"
    for named in (table, f"pravega.{table}", table.strip("`").replace("`", "").replace("-", "_")):
        code, shown = run("list", named)
        header, row = shown.splitlines()
        assert code == 0 and header.split() == ["CONSUMER", "STREAM", "BYTES", "BEHIND", "POSITION"]
        assert row.split() == [consumer, table, str(7 * EVENT), at(kept, 3).to_text()]
    assert consumer in run("list")[1]
    assert run("drop", consumer) == (0, f"Dropped consumer {consumer}.\n")
    assert run("list", table) == (0, f"There are no consumers of {table}.\n")
    code, shown = run("drop", consumer)
    assert code == 1 and "[PRAVEGA_CONSUMER_NOT_FOUND]" in shown
    code, shown = run("drop", "nightly")
    assert code == 1 and "'nightly' is not the name of a consumer" in shown
