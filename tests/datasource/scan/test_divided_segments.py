"""More tasks than segments: a scan divides a segment where versions end, and returns the same rows in their order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.key_value.key_value_table import ANY
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, make_row_key
from pyspark_pravega.datasource.commit_log.versions import FOLDED
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan import division
from pyspark_pravega.datasource.scan.division import PartSize, _divide_at, _list_borders, _list_cuts
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.reader import SMALL_BYTES, Sharing, SlicePartition, list_slices
from pyspark_pravega.errors import PravegaError
from tests.datasource.scans import insert_numbers, keyed_table, rows, scan
from tests.datasource.transactions import record_versions

VERSIONS, EVENTS = 8, 20_000
MIB = 1 << 20


@pytest.mark.parametrize("seed", range(50))
def test_parts_begin_and_end_at_borders(seed: int) -> None:
    """200 random segments each: the parts are the segment, cut at borders only, and larger only where there is none."""
    chosen = random.Random(seed)
    stream = Stream("s", "t")
    for _ in range(200):
        start, size, most = chosen.randrange(1000), chosen.randrange(1, 10_000), chosen.randrange(1, 5000)
        piece = SegmentSlice(0, start, start + size)
        borders = [chosen.randrange(start + size + 1000) for _ in range(chosen.randrange(60))]
        others = [StreamCut(stream, {1: 7}), StreamCut(stream, {1 << 32: 7})]
        cuts = [StreamCut(stream, {0: border}) for border in borders] + others
        chosen.shuffle(cuts)
        offsets = _list_borders(cuts).get(0, [])
        even = _divide_at(offsets, piece, PartSize(most, evenly=True))
        assert [even[0].start, even[-1].end] == [piece.start, piece.end]
        assert all(one.end == other.start for one, other in pairwise(even)) and len(even) <= -(-size // most)
        assert {part.end for part in even[:-1]} <= set(borders) and all(part.start < part.end for part in even)
        parts = _divide_at(offsets, piece, PartSize(most))
        assert [parts[0].start, parts[-1].end] == [piece.start, piece.end]
        assert all(one.end == other.start for one, other in pairwise(parts))
        assert {part.end for part in parts[:-1]} <= set(borders)
        for part in parts:
            inside = [one for one in borders if part.start < one < part.end]
            assert part.start < part.end and (part.end - part.start <= most or not inside)
        assert all(other.end - one.start > most for one, other in pairwise(parts)), "two parts would fit into one"


PARTS = [SegmentSlice(0, 5, 5 + 400 * MIB), SegmentSlice(1, 0, 10 * MIB), SegmentSlice(2, 0, 10 * MIB)]


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (Sharing(), None),
        (Sharing(cores=64), None),
        (Sharing(any_order=True), None),
        (Sharing(64, any_order=True), PartSize(16 * MIB, evenly=True, by_log=False)),
        (Sharing(4, any_order=True), PartSize(420 * MIB // 8, evenly=True, by_log=False)),
        (Sharing(64, most=7 * MIB, any_order=True), PartSize(7 * MIB)),
        (Sharing(64, least=3, any_order=True), PartSize(140 * MIB, evenly=True)),
        (Sharing(most=16 * MIB), PartSize(16 * MIB)),
        (Sharing(least=3, most=16 * MIB), PartSize(16 * MIB)),
        (Sharing(least=100, most=16 * MIB), PartSize(-(-420 * MIB // 100), evenly=True)),
        (Sharing(least=10**9), PartSize(1, evenly=True)),
    ],
)
def test_the_size_of_a_part(sharing: Sharing, expected: PartSize | None) -> None:
    assert sharing.find_part_size(PARTS) == expected


@pytest.mark.parametrize(
    ("sharing", "tasks"),
    [
        (Sharing(), [1, 1, 1]),
        (Sharing(2), [1, 2]),
        (Sharing(2, least=3), [1, 1, 1]),
        (Sharing(2, most=10 * MIB), [1, 1, 1]),
        (Sharing(2, most=20 * MIB), [1, 2]),
    ],
)
def test_parts_that_share_a_task(sharing: Sharing, tasks: list[int]) -> None:
    slices = [SlicePartition(piece, Endpoint("localhost", 1), "") for piece in PARTS]
    assert [len(list_slices(partition)) for partition in sharing.group(slices)] == tasks


def list_parts(planned: PlannedScan) -> list[SegmentSlice]:
    return [one.piece for partition in planned.reader.planned for one in list_slices(partition)]


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
        small = scan(pravega, table, max_bytes_per_task=str(max(sizes)))
        assert list_parts(small) == list_parts(divided) and len(small.reader.partitions()) == VERSIONS
        large = scan(pravega, table, max_bytes_per_task=str(max(sizes) * 4))
        assert [one.end - one.start for one in list_parts(large)] == [sum(sizes[:4]), sum(sizes[4:])]
        assert len(large.reader.partitions()) == 2 and rows(large) == expected
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

    def test_very_many_versions(
        self, pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then only some checkpoints of the log are read."""
        table = keyed_table(new_stream(1))
        for first in range(0, 4000, 1000):
            insert_numbers(pravega, table, first, first + 1000)
            record_versions(pravega, table.stream, 140)
        log = CommitLog(pravega, table.stream)
        assert (log.fold(), log.newest()) == (3, 564)
        expected = rows(scan(pravega, table))
        assert len(list_parts(scan(pravega, table, min_partitions="8"))) == 4
        monkeypatch.setattr(division, "_MOST_CHECKPOINTS", 2)
        assert len(_list_cuts(log)) == FOLDED
        few = scan(pravega, table, min_partitions="8")
        assert len(list_parts(few)) == 3 and rows(few) == expected

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
