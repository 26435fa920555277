"""What the tests of scans and commits share: streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration


@pytest.fixture
def new_stream(pravega: Pravega, scope: str) -> Callable[..., Stream]:
    """A function from a number of segments (and a name) to a new stream of the test's scope."""

    def make(segments: int = 1, name: str = "stream") -> Stream:
        stream = Stream(scope, name)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))
        return stream

    return make
