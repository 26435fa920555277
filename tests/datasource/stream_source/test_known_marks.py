"""Watermarks that a query has read: a read that fails in the middle is repeated whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_pravega.client import ClientConfig, Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.watermarks import Watermark
from pyspark_pravega.datasource.stream_source import reading_queries
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.errors import ServerTimeoutError

MARKS = [Watermark(time, time, {0: time}, {0: (0.0, 1.0)}) for time in range(1, 5)]


def test_a_read_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = True

    def read(pravega: Pravega, stream: Stream, begin: int, end: int) -> Iterator[tuple[int, Watermark]]:
        for at, mark in enumerate(MARKS, 1):
            if fails and at == 4:
                raise ServerTimeoutError("the server is away")
            if begin < at <= end:
                yield at, mark

    monkeypatch.setattr(reading_queries, "read_watermarks", read)
    marks = reading_queries.KnownMarks(Pravega(ClientConfig("tcp://localhost:1")), Stream("s", "t"))
    with pytest.raises(ServerTimeoutError):
        marks.times({0: 3}, {0: 9}, 4)
    fails = False
    for _ in range(2):
        marks.times({0: 3}, {0: 9}, 4)
        assert [mark.time for _, mark in marks._marks] == [3, 4]


def test_types_of_a_stream_and_streams_created_again_are_remembered_apart() -> None:
    """Their rows are elsewhere, and so are the watermarks that they have passed."""
    memory, pravega = SourceMemory(), Pravega(ClientConfig("tcp://localhost:1"))
    members = [("t", "s/t/0"), ("t", "s/t/4294967297"), ("t$a", "s/t/0"), ("t$b", "s/t/0")]
    marks = [memory.marks(pravega, Stream("s", "t"), "checkpoint", member) for member in (*members, *members)]
    assert marks[:4] == marks[4:] and len(set(map(id, marks))) == 4
