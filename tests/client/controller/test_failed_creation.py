"""Streams whose creation the controller calls a failure, although they are half made or even whole."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.errors import ServerFailedError, ServerTimeoutError, StreamExistsError

TWO_SEGMENTS = StreamConfiguration(ScalingPolicy(min_segments=2), tags=("a tag",))


class Failing(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes all calls on to the controller, and says of some streams that were created that it failed."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target)
        self.failures = 0
        """Streams that are still to be called failures."""
        self.lost = 0
        """Creations of key-value tables whose answers are still to be late."""
        self.swallowed = 0
        """Creations of key-value tables that will not reach the controller."""
        self._at_end = False
        self.half_made: str | None = None
        """The name of a key-value table that is listed, although there is none."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method

        def pass_on(request: bytes, context: grpc.ServicerContext) -> bytes:
            if method.endswith("/createKeyValueTable") and self.swallowed:
                self.swallowed -= 1
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
            try:
                reply: bytes = self._channel.unary_unary(method)(request)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if method.endswith("/listKeyValueTablesInScope") and self.half_made:
                listed = pb.KVTablesInScopeResponse.FromString(reply)
                self._at_end = not listed.kvtables and not self._at_end  # a list ends with an empty page
                if listed.kvtables or self._at_end:
                    listed.kvtables.add(scope="any", kvtName=self.half_made)
                return listed.SerializeToString()
            if method.endswith("/createStream") and self.failures:
                self.failures -= 1
                return pb.CreateStreamStatus(status=pb.CreateStreamStatus.FAILURE).SerializeToString()
            if method.endswith("/createKeyValueTable") and self.lost:
                self.lost -= 1
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
            return reply

        return grpc.unary_unary_rpc_method_handler(pass_on)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def failing(client_config: ClientConfig) -> Iterator[tuple[Controller, Failing]]:
    """A controller behind one that tells failures."""
    handler = Failing(str(client_config.controller_endpoints[0]))
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads, handlers=(handler,))
        port = server.add_insecure_port("localhost:0")
        server.start()
        with Controller(replace(client_config, controller_uri=f"tcp://localhost:{port}")) as controller:
            yield controller, handler
        server.stop(None).wait()
        handler.close()


def test_it_is_asked_for_again(failing: tuple[Controller, Failing], scope: str) -> None:
    controller, handler = failing
    for failures in (1, 2):
        handler.failures, stream = failures, Stream(scope, f"stream{failures}")
        controller.create_stream(stream, TWO_SEGMENTS)
        assert controller.stream_configuration(stream) == TWO_SEGMENTS
        assert not controller.is_half_made(stream)
    handler.failures = 3
    with pytest.raises(ServerFailedError, match="cannot create stream '.*/stream3'.*FAILURE"):
        controller.create_stream(Stream(scope, "stream3"), TWO_SEGMENTS)
    assert handler.failures == 0


def test_a_stream_of_others_is_theirs(failing: tuple[Controller, Failing], scope: str) -> None:
    controller, handler = failing
    stream = Stream(scope, "stream")
    controller.create_stream(stream, StreamConfiguration())
    handler.failures = 1
    with pytest.raises(StreamExistsError, match="'stream' already exists"):
        controller.create_stream(stream, TWO_SEGMENTS)
    assert controller.stream_configuration(stream) == StreamConfiguration()


def test_a_key_value_table_whose_creation_gets_no_answer(
    failing: tuple[Controller, Failing], pravega: Pravega, scope: str
) -> None:
    controller, handler = failing
    handler.lost = 1
    assert not controller.create_key_value_table(scope, "rows", 1, 4)  # the first request has made it
    assert handler.lost == 0
    table = pravega.key_value_table(scope, "rows")
    table.put(b"1234", b"value")
    assert table.get(b"1234") is not None
    assert not controller.create_key_value_table(scope, "rows", 1, 4)
    table.drop()
    assert table.create(1, 4) and controller.list_key_value_tables(scope) == ["rows"]
    handler.swallowed = 2
    with pytest.raises(ServerTimeoutError, match=f"cannot create key-value table '{scope}/more'"):
        controller.create_key_value_table(scope, "more", 1, 4)
    assert handler.swallowed == 0


def test_a_key_value_table_that_the_controller_leaves_half_made(
    failing: tuple[Controller, Failing], client_config: ClientConfig, scope: str
) -> None:
    """Its name is listed, and nothing else of it is there. It is not asked for again, which would never end."""
    _, handler = failing
    handler.half_made = "rows"
    config = replace(failing[0].config, request_timeout=1.0)
    with Controller(config) as controller:
        with pytest.raises(ServerFailedError, match=f"key-value table '{scope}/rows' is half made.*another name"):
            controller.create_key_value_table(scope, "rows", 1, 4)
        assert controller.create_key_value_table(scope, "others", 1, 4)
