"""What the tests of scans and commits share: connections and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration


@pytest.fixture(scope="session")
def pravega(client_config: ClientConfig) -> Iterator[Pravega]:
    """The tests' connection to `cluster`."""
    with connect(client_config) as connected:
        yield connected


@pytest.fixture
def new_stream(pravega: Pravega, scope: str) -> Callable[..., Stream]:
    """A function from a number of segments (and a name) to a new stream of the test's scope."""

    def make(segments: int = 1, name: str = "stream") -> Stream:
        stream = Stream(scope, name)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))
        return stream

    return make
