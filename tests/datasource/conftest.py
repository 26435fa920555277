"""What the tests of scans and commits share: streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from tests.scopes import Sweeper


@pytest.fixture(scope="module")
def read_scope(client_config: ClientConfig, _sweeper: Sweeper) -> Iterator[str]:
    """A scope for the streams of a module that its tests only read."""
    yield from _sweeper.scope(client_config)


@pytest.fixture(scope="module")
def new_read_stream(pravega: Pravega, read_scope: str) -> Callable[[int, str], Stream]:
    """A function from a number of segments and a name to a new stream of `read_scope`."""

    def make(segments: int, name: str) -> Stream:
        stream = Stream(read_scope, name)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))
        return stream

    return make


@pytest.fixture
def new_stream(pravega: Pravega, scope: str) -> Callable[..., Stream]:
    """A function from a number of segments (and a name) to a new stream of the test's scope."""

    def make(segments: int = 1, name: str = "stream") -> Stream:
        stream = Stream(scope, name)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))
        return stream

    return make
