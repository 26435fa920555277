"""More tasks than segments: a scan divides a segment where versions end, and returns the same rows in their order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import ANY
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, make_row_key
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.borders import _divide_at
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.reader import (
    ENOUGH_TASKS,
    LARGE_BYTES,
    MODERATE_BYTES,
    SMALL_BYTES,
    choose_part_bytes,
    list_slices,
)
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql import options as o
from tests.datasource.scans import insert_numbers, keyed_table, rows, scan

VERSIONS, EVENTS = 8, 20_000
MIB = 1 << 20


@pytest.mark.parametrize("seed", range(50))
def test_parts_begin_and_end_at_borders(seed: int) -> None:
    """200 random segments each: the parts are the segment, cut at borders only, and as equal as the borders allow."""
    chosen = random.Random(seed)
    stream = Stream("s", "t")
    for _ in range(200):
        start, size, most = chosen.randrange(1000), chosen.randrange(1, 10_000), chosen.randrange(1, 5000)
        piece = SegmentSlice(0, start, start + size)
        borders = [chosen.randrange(start + size + 1000) for _ in range(chosen.randrange(60))]
        others = [StreamCut(stream, {1: 7}), StreamCut(stream, {1 << 32: 7})]
        cuts = [StreamCut(stream, {0: border}) for border in borders] + others
        chosen.shuffle(cuts)
        parts = _divide_at(cuts, piece, most)
        assert [parts[0].start, parts[-1].end] == [piece.start, piece.end]
        assert all(one.end == other.start for one, other in pairwise(parts))
        assert {part.end for part in parts[:-1]} <= set(borders)
        assert all(part.start < part.end for part in parts) and len(parts) <= -(-size // most)
        inside = sorted({start, start + size, *(one for one in borders if start < one < start + size)})
        gap = max(after - before for before, after in pairwise(inside))
        assert max(part.end - part.start for part in parts) <= min(most, size) + gap


@pytest.mark.parametrize(
    ("size", "tasks", "read", "expected"),
    [
        (10 * MIB, None, {}, MODERATE_BYTES),
        (ENOUGH_TASKS * 20 * MIB, None, {}, 20 * MIB),
        (1 << 40, None, {}, LARGE_BYTES),
        (1 << 30, 128, {}, MODERATE_BYTES),
        (1 << 30, 32, {}, 32 * MIB),
        (8 * MIB, 4, {"min-partitions": "8"}, MIB),
        (8 * MIB, 4, {"max-bytes-per-task": "2m"}, 2 * MIB),
        (8 * MIB, 4, {"max-bytes-per-task": "2m", "min-partitions": "8"}, MIB),
        (1 << 40, None, {"max-bytes-per-task": "100g"}, 100 << 30),
        (8, 4, {"min-partitions": "100"}, 1),
        (0, 4, {"min-partitions": "100"}, 1),
    ],
)
def test_the_size_of_a_part(size: int, tasks: int | None, read: dict[str, str], expected: int) -> None:
    assert choose_part_bytes([SegmentSlice(0, 5, 5 + size)], tasks, o.resolve(read=read)) == expected


def list_parts(planned: PlannedScan) -> list[SegmentSlice]:
    return [one.piece for partition in planned.reader.planned for one in list_slices(partition)]  # type: ignore[attr-defined]


class TestScans:
    def test_the_same_rows_in_the_same_order(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(1))
        for first in range(0, VERSIONS * EVENTS, EVENTS):
            insert_numbers(pravega, table, first, first + EVENTS, keys=7)
        whole = scan(pravega, table)
        assert len(whole.reader.partitions()) == 1
        divided = scan(pravega, table, min_partitions=str(VERSIONS))
        sizes = [one.end - one.start for one in list_parts(divided)]
        assert len(divided.reader.partitions()) == len(sizes) == VERSIONS
        assert min(sizes) > SMALL_BYTES and max(sizes) < 1.2 * sum(sizes) / len(sizes)
        assert (divided.bytes, divided.segments, divided.tail) == (whole.bytes, 1, whole.tail)
        expected = rows(whole)
        assert [row["v"] for row in expected] == list(range(VERSIONS * EVENTS))
        assert rows(divided) == expected
        small = scan(pravega, table, max_bytes_per_task=str(sum(sizes) // VERSIONS + 1000))
        assert list_parts(small) == list_parts(divided) and len(small.reader.partitions()) == VERSIONS
        halves = scan(pravega, table, min_partitions="2")
        assert len(halves.reader.partitions()) == 2 and rows(halves) == expected
        few = scan(pravega, table, limit=3, min_partitions=str(VERSIONS))
        assert len(few.reader.partitions()) == 1 and rows(few) == expected[:3]
        lenient = scan(pravega, table, mode="dropmalformed", min_partitions=str(VERSIONS))
        assert len(lenient.reader.partitions()) == 1 and rows(lenient) == expected
        log = CommitLog(pravega, table.stream)
        cut = log.versions(5, 5)[0].cut.to_text()
        later = scan(pravega, table, start_stream_cut=cut, min_partitions="64")
        assert len(later.reader.partitions()) == 3 and rows(later) == expected[5 * EVENTS :]

    def test_what_others_wrote_stays_whole(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(1))
        insert_numbers(pravega, table, 0, VERSIONS * EVENTS)
        planned = scan(pravega, table, min_partitions="8")
        assert len(list_parts(planned)) == 1, "one version has one part"

    def test_a_false_border_is_an_error(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(1))
        for first in range(0, 4 * EVENTS, EVENTS):
            insert_numbers(pravega, table, first, first + EVENTS)
        log = pravega.key_value_table(table.stream.scope, TABLE_NAME)
        key = make_row_key(table.stream, 2)
        stored = log.get(key)
        assert stored is not None
        row = json.loads(stored.value)
        ((segment, end),) = StreamCut.from_text(row["cut"]).positions.items()
        row["cut"] = StreamCut(table.stream, {segment: end - 11}).to_text()
        log.put(key, json.dumps(row).encode(), ANY)
        planned = scan(pravega, table, min_partitions="2")
        assert list_parts(planned)[0].end == end - 11
        with pytest.raises(PravegaError, match=rf"{end - 11}"):
            rows(planned)
