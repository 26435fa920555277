"""What is known of streams: it answers without the controller, and is given up when it does not hold any more."""

from __future__ import annotations

import logging
import uuid

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments import known_streams, store
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration, get_segment_number
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import StreamNotFoundError

CONTROLLER = "pyspark_pravega.client.controller.channel"


def learn(pravega: Pravega, stream: Stream) -> None:
    """Note what the controller says of the segments, as the first scan of a stream does."""
    segments, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    infos = pravega.segments.segment_infos(stream, segments)
    pravega.known_streams.learn_segments(stream, segments, infos)


def make(pravega: Pravega, stream: Stream, segments: int) -> None:
    pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))


def drop(pravega: Pravega, stream: Stream) -> None:
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)


def test_the_controller_is_asked_once(pravega: Pravega, scope: str, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(scope, "stream")
    make(pravega, stream, 3)
    assert pravega.known_streams.segment_infos(stream) is None
    learn(pravega, stream)
    origin = pravega.known_streams.origin(stream)
    caplog.set_level(logging.DEBUG)
    assert pravega.known_streams.origin(stream) == origin
    infos = pravega.known_streams.segment_infos(stream)
    assert infos is not None and len(infos) == 3
    assert [record for record in caplog.records if record.name == CONTROLLER] == []
    assert any(record.getMessage().startswith("look up 3 segments") for record in caplog.records)


def test_a_stream_that_another_program_scales_truncates_and_makes_again(
    pravega: Pravega, client_config: ClientConfig, scope: str
) -> None:
    stream, known = Stream(scope, "stream"), pravega.known_streams
    with connect(client_config) as other:
        make(other, stream, 2)
        first, second = (segment.segment_id for segment in other.controller.current_segments(stream))
        learn(pravega, stream)
        origin = known.origin(stream)
        other.controller.scale_stream(stream, [first], [(0, 0.25), (0.25, 0.5)])
        assert known.segment_infos(stream) is None
        learn(pravega, stream)
        infos = known.segment_infos(stream)
        assert infos is not None and len(infos) == 4 and infos[first].sealed

        current = [segment.segment_id for segment in other.controller.current_segments(stream)]
        other.controller.truncate_stream(StreamCut(stream, dict.fromkeys(current, 0)))
        left = known.segment_infos(stream)
        assert left is not None and sorted(left) == sorted(current) and second in current
        assert known.origin(stream) == origin

        drop(other, stream)
        assert known.segment_infos(stream) is None
        with pytest.raises(StreamNotFoundError):
            known.origin(stream)
        make(other, stream, 5)
        assert known.segment_infos(stream) is None
        assert known.origin(stream) == min(
            get_segment_number(segment.segment_id) for segment in other.controller.current_segments(stream)
        )
        assert known.origin(stream) > origin


def test_an_unknown_creation_is_asked_for_again_only_later(
    client_config: ClientConfig, scope: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(scope, "stream")
    caplog.set_level(logging.DEBUG)
    with connect(client_config) as pravega:
        make(pravega, stream, 1)
        known = pravega.known_streams
        with monkeypatch.context() as unset:
            unset.setattr(store, "_CREATION_TIME", uuid.uuid4())  # the server answers as for a segment without the time
            unset.setattr(known_streams, "UNKNOWN_SECONDS", 1000.0)
            assert known.creation(stream) is None
            caplog.clear()
            assert known.creation(stream) is None
            origin, unknown = known.identify(stream)
            assert (origin, unknown) == (0, None)
            assert [message for message in caplog.messages if "an attribute of" in message] == []

            unset.setattr(known_streams, "UNKNOWN_SECONDS", 0.0)
            other = Stream(scope, "other")
            make(pravega, other, 1)
            assert known.creation(other) is None
        found = known.creation(other)
        assert found is not None and found[0] == 0
        caplog.clear()
        assert known.creation(other) == found
        assert caplog.messages == []


def test_nothing_is_noted_of_a_stream_that_was_scaled_or_sealed_meanwhile(pravega: Pravega, scope: str) -> None:
    stream, known = Stream(scope, "stream"), pravega.known_streams
    make(pravega, stream, 1)
    segments, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    infos = pravega.segments.segment_infos(stream, segments)
    pravega.controller.scale_stream(stream, segments, [(0, 0.5), (0.5, 1)])
    known.learn_segments(stream, segments, infos)
    assert known.segment_infos(stream) is None
    pravega.controller.seal_stream(stream)
    learn(pravega, stream)
    assert known.segment_infos(stream) is None


def test_positions_of_segments_that_were_a_position_before(
    pravega: Pravega, client_config: ClientConfig, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream, known = Stream(scope, "stream"), pravega.known_streams
    with connect(client_config) as other:
        make(other, stream, 2)
        begin = other.controller.head(stream)
        first, second = sorted(begin.positions)
        ahead = StreamCut(stream, {first: 5, second: 0})
        assert known.find_infos_between(begin, ahead) is None  # nobody has said yet that it is a position
        assert known.is_cut(begin)
        caplog.set_level(logging.DEBUG, CONTROLLER)
        assert known.is_cut(ahead)
        found = known.find_infos_between(begin, ahead)
        assert found is not None and sorted(found) == sorted(other.controller.list_segments_between(begin, begin)[0])
        assert known.find_infos_between(ahead, begin) is None
        assert [record for record in caplog.records if "isStreamCutValid" in record.getMessage()] == []
        assert not known.is_cut(StreamCut(stream, {first: 0})) and not known.is_cut(StreamCut(stream, {}))

        other.controller.scale_stream(stream, [first], [(0, 0.25), (0.25, 0.5)])
        after = StreamCut(stream, {each.segment_id: 0 for each in other.controller.current_segments(stream)})
        assert known.find_infos_between(begin, after) is None
        assert known.is_cut(ahead) and known.is_cut(after) and known.is_cut(ahead)
        assert any("isStreamCutValid" in message for message in caplog.messages)

        assert known.find_infos_between(begin, ahead) is not None
        other.controller.truncate_stream(after)
        assert known.find_infos_between(begin, ahead) is None  # one of their segments is gone
        assert known.is_cut(after)
        drop(other, stream)
        make(other, stream, 2)
        assert not known.is_cut(begin) and not known.is_cut(after) and known.find_infos_between(begin, begin) is None
