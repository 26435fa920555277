"""The controller's calls against a real one: scopes, streams, segments, stream cuts, key-value tables, failures."""

from __future__ import annotations

import importlib.resources
import multiprocessing
import pickle
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.stream import (
    Access,
    RetentionPolicy,
    ScalingPolicy,
    SegmentRange,
    Stream,
    StreamConfiguration,
    make_key_value_table_stream,
    make_segment_id,
)
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    KeyValueTableNotFoundError,
    PravegaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamExistsError,
    StreamNotFoundError,
    StreamSealedError,
    UnsupportedOperationError,
)

FIXED_TWO = StreamConfiguration(ScalingPolicy(min_segments=2))


@pytest.fixture(scope="module")
def controller(client_config: ClientConfig) -> Iterator[Controller]:
    with Controller(client_config) as connected:
        yield connected


@pytest.fixture
def stream(controller: Controller, scope: str) -> Stream:
    """A new stream with two segments, 0 and 1."""
    made = Stream(scope, "stream")
    controller.create_stream(made, FIXED_TWO)
    return made


@pytest.fixture
def absent(scope: str) -> Stream:
    return Stream(scope, "absent")


# Scopes


def test_a_scope_comes_and_goes(controller: Controller, scope: str) -> None:
    name = f"{scope}.child"
    assert not controller.scope_exists(name)
    controller.create_scope(name)
    assert controller.scope_exists(name)
    assert {scope, name, "_system"} <= set(controller.list_scopes())
    with pytest.raises(ScopeExistsError, match=name):
        controller.create_scope(name)
    controller.delete_scope(name)
    assert name not in controller.list_scopes()
    with pytest.raises(ScopeNotFoundError, match=name):
        controller.delete_scope(name)


def test_scope_names_pravega_does_not_take(controller: Controller) -> None:
    with pytest.raises(InvalidNameError, match="'a b'"):
        controller.create_scope("a b")


def test_a_scope_with_something_in_it_stays_and_stays_whole(controller: Controller, scope: str) -> None:
    """A refusal by the server itself would leave a scope in which nothing can be created."""
    tagged = StreamConfiguration(tags=("x",))
    controller.create_stream(Stream(scope, "one"), tagged)
    with pytest.raises(ScopeNotEmptyError, match="1 stream, 0 key-value tables"):
        controller.delete_scope(scope)
    assert controller.stream_configuration(Stream(scope, "one")) == tagged
    assert controller.create_key_value_table(scope, "table", 1, 8)
    controller.create_stream(Stream(scope, "two"), tagged)
    with pytest.raises(ScopeNotEmptyError, match="2 streams, 1 key-value table "):
        controller.delete_scope(scope)
    controller.update_stream(Stream(scope, "one"), StreamConfiguration())
    assert controller.stream_configuration(Stream(scope, "one")).tags == ()


# Streams


def test_a_stream_comes_and_goes(controller: Controller, scope: str) -> None:
    stream = Stream(scope, "a-stream.1")
    assert not controller.stream_exists(stream)
    controller.create_stream(stream, FIXED_TWO)
    assert controller.stream_exists(stream)
    assert controller.list_streams(scope) == ["_MARKa-stream.1", "a-stream.1"]
    with pytest.raises(StreamExistsError, match="'a-stream.1' already exists"):
        controller.create_stream(stream, FIXED_TWO)
    with pytest.raises(UnsupportedOperationError, match="not sealed"):
        controller.delete_stream(stream)
    controller.seal_stream(stream)
    controller.seal_stream(stream)
    controller.delete_stream(stream)
    assert controller.list_streams(scope) == []
    with pytest.raises(StreamNotFoundError, match="'a-stream.1'"):
        controller.delete_stream(stream)


def test_stream_names_pravega_does_not_take(controller: Controller, scope: str) -> None:
    with pytest.raises(InvalidNameError, match="'a b'"):
        controller.create_stream(Stream(scope, "a b"), FIXED_TWO)


def test_a_scope_that_is_not_there(controller: Controller, scope: str) -> None:
    missing = f"{scope}-x"
    calls = (
        lambda: controller.list_streams(missing),
        lambda: controller.create_stream(Stream(missing, "s"), FIXED_TWO),
        lambda: controller.list_key_value_tables(missing),
        lambda: controller.create_key_value_table(missing, "t", 1, 8),
    )
    for call in calls:
        with pytest.raises(ScopeNotFoundError, match=missing):
            call()
    assert not controller.stream_exists(Stream(missing, "s"))


def test_a_stream_that_is_not_there(controller: Controller, absent: Stream) -> None:
    cut = StreamCut(absent, {0: 0})
    calls = (
        lambda: controller.stream_configuration(absent),
        lambda: controller.update_stream(absent, FIXED_TWO),
        lambda: controller.seal_stream(absent),
        lambda: controller.delete_stream(absent),
        lambda: controller.truncate_stream(cut),
        lambda: controller.current_segments(absent),
        lambda: controller.epoch_segments(absent, 0),
        lambda: controller.head(absent),
        lambda: controller.list_segments_between(cut, None),
        lambda: controller.scale_stream(absent, [0], [(0.0, 1.0)]),
        lambda: controller.create_transaction(absent, 10_000),
    )
    for call in calls:
        with pytest.raises(StreamNotFoundError, match="'absent'"):
            call()
    assert not controller.stream_exists(absent)


@pytest.mark.parametrize(
    "configuration",
    [
        StreamConfiguration(),
        StreamConfiguration(ScalingPolicy("fixed", min_segments=5), RetentionPolicy("time", 86_400_000)),
        StreamConfiguration(ScalingPolicy("by-rate-kb", 1000, 2, 3), RetentionPolicy("size", 1 << 30, 1 << 40)),
        StreamConfiguration(ScalingPolicy("by-rate-events", 50, 4, 1), RetentionPolicy("time", 1, 2), ("b", "a.x")),
        StreamConfiguration(rollover_size_bytes=1 << 20, timestamp_aggregation_timeout_ms=5000, tags=("ü",)),
    ],
)
def test_settings_come_back_as_they_were_given(
    controller: Controller, scope: str, configuration: StreamConfiguration
) -> None:
    created, updated = Stream(scope, "created"), Stream(scope, "updated")
    expected = replace(configuration, tags=tuple(sorted(configuration.tags)))
    controller.create_stream(created, configuration)
    assert controller.stream_configuration(created) == expected
    controller.create_stream(updated, StreamConfiguration(retention=RetentionPolicy("size", 7), tags=("old",)))
    controller.update_stream(updated, configuration)
    assert controller.stream_configuration(updated) == expected


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        (StreamConfiguration(ScalingPolicy("some", 1, 2, 1)), "must be fixed, by-rate-kb or"),  # type: ignore[arg-type]
        (StreamConfiguration(ScalingPolicy(min_segments=0)), "number of segments is 0"),
        (StreamConfiguration(ScalingPolicy(min_segments=1 << 31)), "number of segments"),
        (StreamConfiguration(ScalingPolicy("by-rate-kb", 0, 2, 1)), "target rate of by-rate-kb is 0"),
        (StreamConfiguration(ScalingPolicy("by-rate-events", 10, 1, 1)), "scale factor of by-rate-events is 1"),
        (StreamConfiguration(retention=RetentionPolicy("age", 1)), "must be time or size"),  # type: ignore[arg-type]
        (StreamConfiguration(retention=RetentionPolicy("time", 0)), "retention minimum is 0"),
        (StreamConfiguration(retention=RetentionPolicy("size", 10, 9)), "retention maximum is 9"),
        (StreamConfiguration(rollover_size_bytes=-1), "rollover_size_bytes is -1"),
    ],
)
def test_settings_that_cannot_work(
    controller: Controller, scope: str, configuration: StreamConfiguration, reason: str
) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        controller.create_stream(Stream(scope, "s"), configuration)


def test_a_sealed_stream(controller: Controller, stream: Stream) -> None:
    head = controller.head(stream)
    controller.seal_stream(stream)
    assert controller.current_segments(stream) == []
    assert controller.head(stream) == head
    assert sorted(controller.list_segments_between(head, None)[0]) == [0, 1]
    calls = (
        lambda: controller.update_stream(stream, FIXED_TWO),
        lambda: controller.truncate_stream(head),
        lambda: controller.create_transaction(stream, 10_000),
        lambda: controller.scale_stream(stream, [0], [(0.0, 0.5)]),
    )
    for call in calls:
        with pytest.raises(StreamSealedError, match="sealed"):
            call()


# Segments and stream cuts


def test_segments_of_a_new_stream(controller: Controller, stream: Stream) -> None:
    both = [SegmentRange(0, 0.0, 0.5), SegmentRange(1, 0.5, 1.0)]
    head = StreamCut(stream, {0: 0, 1: 0})
    assert controller.current_segments(stream) == both
    assert controller.epoch_segments(stream, 0) == both
    assert controller.head(stream) == head
    for start, end in ((head, None), (head, head), (StreamCut(stream, {}), None), (StreamCut(stream, {}), head)):
        segments, token = controller.list_segments_between(start, end)
        assert sorted(segments) == [0, 1]
        assert isinstance(token, str)
    assert controller.successors(stream, 0) == {}
    with pytest.raises(StreamNotFoundError, match="no epoch 9"):
        controller.epoch_segments(stream, 9)


def test_scaling_and_the_cuts_around_it(controller: Controller, stream: Stream) -> None:
    head = controller.head(stream)
    controller.scale_stream(stream, [0], [(0.0, 0.25), (0.25, 0.5)])
    low, high = SegmentRange(make_segment_id(2, 1), 0.0, 0.25), SegmentRange(make_segment_id(3, 1), 0.25, 0.5)
    rest = SegmentRange(1, 0.5, 1.0)
    assert controller.current_segments(stream) == [low, high, rest]
    assert controller.successors(stream, 0) == {low: [0], high: [0]}
    tail = StreamCut(stream, {segment.segment_id: 0 for segment in (low, high, rest)})
    assert sorted(controller.list_segments_between(head, tail)[0]) == sorted([0, *tail.positions])
    assert sorted(controller.list_segments_between(tail, None)[0]) == sorted(tail.positions)

    controller.scale_stream(stream, [low.segment_id, high.segment_id], [(0.0, 0.5)])
    merged = SegmentRange(make_segment_id(4, 2), 0.0, 0.5)
    assert controller.current_segments(stream) == [merged, rest]
    assert {segment: sorted(before) for segment, before in controller.successors(stream, low.segment_id).items()} == {
        merged: [low.segment_id, high.segment_id]
    }
    assert controller.epoch_segments(stream, 1) == [low, high, rest]

    controller.truncate_stream(tail)
    assert controller.head(stream) == tail
    with pytest.raises(InvalidOptionError, match="must not lie before the present head"):
        controller.truncate_stream(head)


@pytest.mark.parametrize(
    ("sealed", "ranges"),
    [
        ([0], [(0.0, 0.4)]),
        ([0], [(0.0, 0.6)]),
        ([7], [(0.0, 0.5)]),
        ([0, 1], [(0.0, 1.0)]),  # One segment would be left of the two that the policy wants.
    ],
)
def test_scaling_that_cannot_be(
    controller: Controller, stream: Stream, sealed: list[int], ranges: list[tuple[float, float]]
) -> None:
    with pytest.raises(InvalidOptionError, match="must cover exactly"):
        controller.scale_stream(stream, sealed, ranges)
    assert [segment.segment_id for segment in controller.current_segments(stream)] == [0, 1]


def test_cuts_that_do_not_fit_the_stream(controller: Controller, stream: Stream) -> None:
    unknown, partial = StreamCut(stream, {77: 0}), StreamCut(stream, {0: 0})
    of_no_epoch, empty = StreamCut(stream, {make_segment_id(0, 5): 0, make_segment_id(1, 5): 0}), StreamCut(stream, {})
    assert controller.is_stream_cut_valid(controller.head(stream))
    for cut in (unknown, partial, of_no_epoch, empty):
        assert not controller.is_stream_cut_valid(cut)
    for cut in (unknown, partial):
        with pytest.raises(InvalidOptionError, match="cover the whole key space"):
            controller.truncate_stream(cut)
    for cut in (unknown, of_no_epoch):
        with pytest.raises(InvalidOptionError, match="is not a position in stream"):
            controller.list_segments_between(cut, None)
    with pytest.raises(InvalidOptionError, match="lies after"):
        controller.list_segments_between(StreamCut(stream, {0: 8, 1: 0}), controller.head(stream))
    with pytest.raises(StreamNotFoundError):
        controller.is_stream_cut_valid(StreamCut(Stream(stream.scope, "absent"), {0: 0}))
    with pytest.raises(InvalidOptionError, match="different streams"):
        controller.list_segments_between(StreamCut(stream, {0: 0}), StreamCut(Stream("a", "b"), {0: 0}))


def test_where_segments_are(controller: Controller, stream: Stream) -> None:
    location = controller.segment_location(stream, 0)
    assert location.host not in ("", "0.0.0.0")
    with socket.create_connection((location.host, location.port), timeout=10):
        pass


# Key-value tables


def test_a_key_value_table_comes_and_goes(controller: Controller, scope: str) -> None:
    assert controller.list_key_value_tables(scope) == []
    assert controller.create_key_value_table(scope, "table", 3, 16, 8)
    assert not controller.create_key_value_table(scope, "table", 3, 16, 8)
    assert controller.list_key_value_tables(scope) == ["table"]
    assert controller.key_value_table_configuration(scope, "table").partitions == 3
    assert controller.segment_location(make_key_value_table_stream(scope, "table"), 0).port > 0
    controller.delete_key_value_table(scope, "table")
    for call in (controller.key_value_table_configuration, controller.delete_key_value_table):
        with pytest.raises(KeyValueTableNotFoundError, match="'table'"):
            call(scope, "table")


@pytest.mark.parametrize(
    ("name", "partitions", "key_length", "kind"),
    [("_t", 1, 8, InvalidNameError), ("t", 0, 8, InvalidOptionError), ("t", 1, 0, InvalidOptionError)],
)
def test_key_value_tables_that_cannot_be(
    controller: Controller, scope: str, name: str, partitions: int, key_length: int, kind: type[PravegaError]
) -> None:
    with pytest.raises(kind):
        controller.create_key_value_table(scope, name, partitions, key_length)


# Connection


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port nobody listens at, and nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_nothing_listening(dead_port: int) -> None:
    config = ClientConfig(f"tcp://127.0.0.1:{dead_port}", retry_timeout=0.5)
    with Controller(config) as controller, pytest.raises(ServerUnavailableError) as caught:
        controller.list_scopes()
    assert f"127.0.0.1:{dead_port}" in str(caught.value)
    assert "connection refused" in str(caught.value)
    assert "gave up after" in str(caught.value)


def test_a_host_that_is_not_there() -> None:
    config = ClientConfig("tcp://no-such-host.invalid:9090", retry_timeout=0.5)
    with Controller(config) as controller, pytest.raises(ServerUnavailableError, match="no-such-host.invalid"):
        controller.list_scopes()


def test_a_server_that_says_nothing(silent_port: int) -> None:
    config = ClientConfig(f"tcp://127.0.0.1:{silent_port}", request_timeout=0.5, retry_timeout=1.0)
    with Controller(config) as controller, pytest.raises((ServerTimeoutError, ServerUnavailableError)):
        controller.list_scopes()


def several(config: ClientConfig, *first: Endpoint) -> ClientConfig:
    """The same cluster with other addresses before its own."""
    scheme = config.controller_uri.partition("://")[0]
    return replace(config, controller_uri=f"{scheme}://{','.join(map(str, [*first, *config.controller_endpoints]))}")


def test_the_next_controller_is_asked_when_one_is_down(client_config: ClientConfig, dead_port: int) -> None:
    with Controller(several(client_config, Endpoint("127.0.0.1", dead_port))) as controller:
        assert "_system" in controller.list_scopes()
        assert "_system" in controller.list_scopes()


def test_the_next_controller_is_asked_when_one_says_nothing(client_config: ClientConfig, silent_port: int) -> None:
    config = replace(several(client_config, Endpoint("127.0.0.1", silent_port)), request_timeout=3.0)
    with Controller(config) as controller:
        assert "_system" in controller.list_scopes()


def test_discovery_addresses_are_used_as_they_stand(client_config: ClientConfig) -> None:
    scheme, _, hosts = client_config.controller_uri.partition("://")
    discovering = {"tcp": "pravega", "tls": "pravegas"}.get(scheme, scheme)
    with Controller(replace(client_config, controller_uri=f"{discovering}://{hosts}")) as controller:
        assert "_system" in controller.list_scopes()


def test_many_threads_share_a_controller(controller: Controller, stream: Stream) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: controller.current_segments(stream), range(64)))
    assert all(answer == answers[0] for answer in answers)


def test_a_controller_pickles_and_connects_anew(controller: Controller, stream: Stream) -> None:
    with pickle.loads(pickle.dumps(controller)) as copy:
        assert copy.config == controller.config
        assert copy.current_segments(stream) == controller.current_segments(stream)


_inherited: list[Controller] = []


def _segments_in_child(stream: Stream) -> list[SegmentRange]:
    return _inherited[0].current_segments(stream)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS' own libraries do not stand a fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_connects_anew(controller: Controller, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    before = controller.current_segments(stream)
    # The child finds the parent's connected controller in its memory.
    monkeypatch.setattr(sys.modules[__name__], "_inherited", [controller])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_segments_in_child, (stream,)).get(60) == before
    assert controller.current_segments(stream) == before


def test_a_closed_controller_says_so(client_config: ClientConfig) -> None:
    controller = Controller(client_config)
    controller.list_scopes()
    controller.close()
    controller.close()
    with pytest.raises(PravegaError, match="is closed"):
        controller.list_scopes()


def test_tokens_are_empty_or_signed(controller: Controller, stream: Stream) -> None:
    for access in Access:
        assert controller.delegation_token(stream, access).count(".") in (0, 2)


# Generated code


@pytest.mark.parametrize("proto", ["client/controller/controller.proto", "catalog/api/substrait.proto"])
def test_the_generated_code_is_that_of_the_proto(proto: str, tmp_path: Path) -> None:
    from grpc_tools import protoc

    generated = importlib.import_module(f"pyspark_pravega.{proto.removesuffix('.proto').replace('/', '.')}_pb2")
    compiled = tmp_path / "controller.pb"
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    arguments = [
        "protoc",
        f"--proto_path={Path(__file__).parents[3]}",
        f"--proto_path={well_known}",
        f"--descriptor_set_out={compiled}",
        f"pyspark_pravega/{proto}",
    ]
    assert protoc.main(arguments) == 0
    expected = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file[0]
    found = descriptor_pb2.FileDescriptorProto()
    generated.DESCRIPTOR.CopyToProto(found)
    for description in (expected, found):
        for message in description.message_type:
            for field in message.field:
                field.ClearField("json_name")
            for nested in message.nested_type:
                for field in nested.field:
                    field.ClearField("json_name")
    assert found == expected
