"""Batch scans on real servers, planned as both front doors do and read as tasks do."""

from __future__ import annotations

import json
import logging
import random
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.reader import (
    BATCH_EVENTS,
    ENOUGH_TASKS,
    MODERATE_BYTES,
    SMALL_BYTES,
    Sharing,
    SlicePartition,
    list_slices,
)
from pyspark_pravega.datasource.tables.hidden_columns import HIDDEN_COLUMNS
from pyspark_pravega.errors import DataLossError, InvalidOptionError, MalformedEventError
from tests.datasource.scans import batches, begin_numbers, insert, insert_numbers, keyed_table, rows, scan, values
from tests.datasource.transactions import log_rows, raw_table

MIB = 1 << 20


def check_order_by_key(planned: PlannedScan) -> None:
    """The values of each key grow, in the order in which Spark returns rows: partition by partition."""
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for row in rows(planned):
        found[row["k"]].append(row["v"])
    for key, in_order in found.items():
        assert in_order == sorted(in_order), f"key {key}"


def insert_raw(pravega: Pravega, stream: Stream, payloads: list[bytes]) -> None:
    insert(pravega, raw_table(stream), pa.record_batch([pa.array(payloads, pa.binary())], names=["event"]))


def tail(pravega: Pravega, stream: Stream) -> StreamCut:
    ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    infos = pravega.segments.segment_infos(stream, ids)
    return StreamCut(stream, {one: infos[one].write_offset for one in ids})


class TestTasks:
    """Which slices share a task."""

    @pytest.mark.parametrize(
        ("sizes", "tasks"),
        [
            ([], []),
            ([10], [1]),
            ([10, 20, 30], [3]),
            ([SMALL_BYTES // 2] * 5, [2, 2, 1]),
            ([10, SMALL_BYTES + 1, 20, 30, SMALL_BYTES + 1, 30], [1, 1, 2, 1, 1]),
            ([SMALL_BYTES, 1, SMALL_BYTES - 1, 1], [1, 2, 1]),
            ([MODERATE_BYTES // 4] * 64, [4] * ENOUGH_TASKS),
            ([MODERATE_BYTES // 2] * 48, [2] * 24),
            ([MODERATE_BYTES // 4] * (ENOUGH_TASKS + 4), [1] * (ENOUGH_TASKS + 4)),
            ([MODERATE_BYTES + 1] * 64, [1] * 64),
        ],
    )
    def test_small_slices_share_one(self, sizes: list[int], tasks: list[int]) -> None:
        slices = [
            SlicePartition(SegmentSlice(segment, 7, 7 + size), Endpoint("localhost", 1), "")
            for segment, size in enumerate(sizes)
        ]
        found = [list_slices(partition) for partition in Sharing().group(slices)]
        assert list(map(len, found)) == tasks
        assert [piece.read.segment_id for task in found for piece in task] == list(range(len(sizes)))
        for task in found:
            together_bytes = sum(partition.read.end - partition.read.start for partition in task)
            assert len(task) == 1 or together_bytes <= max(SMALL_BYTES, sum(sizes) * 9 / 8 / ENOUGH_TASKS)
            assert len(task) == 1 or together_bytes <= MODERATE_BYTES

    def test_as_many_tasks_as_cores_can_run(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(12))
        insert_numbers(pravega, table, 0, 200_000, keys=1009)
        planned = scan(pravega, table).reader.planned
        slices = [partition for task in planned for partition in list_slices(task)]
        assert [len(Sharing(cores).group(slices)) for cores in (1, 2, 64)] == [2, 4, 12]
        assert [part for task in Sharing(2).group(slices) for part in list_slices(task)] == slices

    def test_a_limit_is_that_of_each_task(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(4))
        insert_numbers(pravega, table, 0, 100)
        for limit in (3, 30, 99, 200):
            (task,) = batches(scan(pravega, table, limit=limit))
            assert sum(batch.num_rows for batch in task) == min(limit, 100)


class TestCompleteness:
    def test_many_segments(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream(12))
        insert_numbers(pravega, table, 0, 3000, keys=101)
        insert_numbers(pravega, table, 3000, 4000, keys=101)
        planned = scan(pravega, table)
        assert planned.segments == 12
        assert len(planned.reader.partitions()) == 1, "small slices share a task"
        assert values(planned) == list(range(4000))
        found = rows(planned)
        assert all(row["k"] == row["v"] % 101 for row in found)  # type: ignore[operator]
        assert len({(row["_segment"], row["_offset"]) for row in found}) == 4000
        assert planned.bytes == sum(
            len(json.dumps({"k": r["k"], "v": r["v"]}, separators=(",", ":"))) + 8 for r in found
        )
        check_order_by_key(planned)

    def test_more_events_than_make_a_batch(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        """Also in windows much smaller than the segment."""
        table = keyed_table(new_stream())
        count = 2 * BATCH_EVENTS + 77
        insert_numbers(pravega, table, 0, count)
        cases: tuple[dict[str, Any], ...] = ({}, {"read_window": "64k"})
        for options in cases:
            (partition,) = batches(scan(pravega, table, ["v", "_offset"], **options))
            assert all(batch.num_rows <= BATCH_EVENTS for batch in partition)
            read = pa.Table.from_batches(partition)
            assert read["v"].to_pylist() == list(range(count))
            offsets = read["_offset"].to_pylist()
            assert offsets[0] == 0
            assert offsets == sorted(set(offsets))

    def test_scaled_streams_keep_the_order_of_each_key(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        """Split, merged, and split again, with transactions before, between and across."""
        stream = new_stream(2)
        table, scale = keyed_table(stream), pravega.controller.scale_stream

        def current() -> list[int]:
            return [segment.segment_id for segment in pravega.controller.current_segments(stream)]

        insert_numbers(pravega, table, 0, 500)
        commit = begin_numbers(pravega, table, 500, 900)
        scale(stream, current()[:1], [(0.0, 0.2), (0.2, 0.5)])
        commit()
        insert_numbers(pravega, table, 900, 1000)
        scale(stream, current()[1:], [(0.2, 1.0)])
        insert_numbers(pravega, table, 1000, 1500)
        scale(stream, current(), [(0.0, 0.1), (0.1, 0.7), (0.7, 0.9), (0.9, 1.0)])
        insert_numbers(pravega, table, 1500, 2000)
        planned = scan(pravega, table)
        assert values(planned) == list(range(2000))
        assert planned.segments > 5
        check_order_by_key(planned)
        pravega.controller.seal_stream(stream)
        assert values(scan(pravega, table)) == list(range(2000))

    def test_an_empty_stream(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream(3)
        table = keyed_table(stream)
        for _ in range(2):
            planned = scan(pravega, table)
            assert len(planned.reader.partitions()) == 1, "Spark wants at least one"
            assert (planned.bytes, rows(planned)) == (0, [])
            pravega.controller.seal_stream(stream)

    def test_a_truncated_and_sealed_stream(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream(2)
        table = keyed_table(stream)
        insert_numbers(pravega, table, 0, 100)
        pravega.controller.truncate_stream(tail(pravega, stream))
        insert_numbers(pravega, table, 100, 200)
        pravega.controller.seal_stream(stream)
        assert values(scan(pravega, table)) == list(range(100, 200))

    def test_the_tail_is_that_of_the_planning(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream(2)
        table = keyed_table(stream)
        insert_numbers(pravega, table, 0, 100)
        planned = scan(pravega, table)
        insert_numbers(pravega, table, 100, 200)
        current = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        pravega.controller.scale_stream(stream, current, [(0.0, 0.4), (0.4, 1.0)])
        insert_numbers(pravega, table, 200, 300)
        assert values(planned) == list(range(100))
        pravega.controller.seal_stream(stream)
        assert values(planned) == list(range(100))

    @pytest.mark.parametrize(
        ("sizes", "windows"),
        [
            ([0, 1, 8 * MIB, 5, 8 * MIB - 1, 0], ("64k", "16m")),
            pytest.param(
                [0, 1, 8 * MIB, 5, 3 * MIB, 8 * MIB - 1, 0, 2 * MIB], ("64k", "1m", "16m"), marks=pytest.mark.long
            ),
        ],
    )
    def test_events_up_to_the_largest(
        self, pravega: Pravega, new_stream: Callable[..., Stream], sizes: list[int], windows: tuple[str, ...]
    ) -> None:
        stream = new_stream()
        chance = random.Random(3)
        payloads = [chance.randbytes(size) for size in sizes]
        insert_raw(pravega, stream, payloads)
        for window in windows:
            (partition,) = batches(scan(pravega, raw_table(stream), read_window=window))
            read = [row for batch in partition for row in batch.to_pylist()]
            assert [row["event"] for row in read] == payloads
            offset = 0
            for row, size in zip(read, sizes, strict=True):
                assert row["_offset"] == offset
                assert row["_event_pointer"] == f"{stream}/0.#epoch.0:{offset}-{size + 8}"
                offset += size + 8

    def test_with_the_right_to_read_alone(
        self, secure_client_config: Callable[..., ClientConfig], secure_scope: str
    ) -> None:
        stream = Stream(secure_scope, "stream")
        table = keyed_table(stream)
        with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
            admin.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=3)))
            insert_numbers(admin, table, 0, 100)
            first = tail(admin, stream).to_text()
            insert_numbers(admin, table, 100, 200)
            assert values(scan(reader, table)) == list(range(200))
            assert values(scan(reader, table, start_stream_cut=first)) == list(range(100, 200))


class TestBounds:
    @pytest.fixture(scope="class")
    @classmethod
    def read_stream(cls, pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> Stream:
        """One as `stream`, which tests only read."""
        return cls.fill(pravega, new_read_stream(3, "bounds"))

    @pytest.fixture
    def stream(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> Stream:
        """Three INSERTs of 100 rows, over three segments."""
        return self.fill(pravega, new_stream(3))

    @staticmethod
    def fill(pravega: Pravega, stream: Stream) -> Stream:
        for first in (0, 100, 200):
            insert_numbers(pravega, keyed_table(stream), first, first + 100)
        return stream

    @pytest.fixture
    def versions(self, pravega: Pravega, stream: Stream) -> list[str]:
        """The texts of the cuts after each INSERT."""
        return [row["cut"] for row in log_rows(pravega, stream.scope)[1:]]

    @pytest.mark.parametrize(
        "options",
        [
            {"start_stream_cut": "earliest"},
            {"end_stream_cut": "latest"},
            {"start_stream_cut": "unbounded", "end_stream_cut": "UNBOUNDED"},
        ],
    )
    def test_by_name(self, pravega: Pravega, read_stream: Stream, options: dict[str, Any]) -> None:
        assert values(scan(pravega, keyed_table(read_stream), **options)) == list(range(300))

    def test_by_the_text_of_a_cut(self, pravega: Pravega, stream: Stream, versions: list[str]) -> None:
        table = keyed_table(stream)
        first, second, third = versions
        assert values(scan(pravega, table, start_stream_cut=first)) == list(range(100, 300))
        assert values(scan(pravega, table, end_stream_cut=second)) == list(range(200))
        assert values(scan(pravega, table, start_stream_cut=first, end_stream_cut=second)) == list(range(100, 200))
        assert values(scan(pravega, table, start_stream_cut=third)) == []
        insert_numbers(pravega, table, 300, 400)
        assert values(scan(pravega, table, start_stream_cut=third)) == list(range(300, 400))
        assert values(scan(pravega, table, end_stream_cut=third)) == list(range(300))

    def test_by_a_wrong_text(self, pravega: Pravega, read_stream: Stream, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(read_stream)
        versions = [version.cut.to_text() for version in CommitLog(pravega, read_stream).versions()]
        other = tail(pravega, new_stream(1, "other")).to_text()
        for key in ("start-stream-cut", "end-stream-cut"):
            for text in ("yesterday", versions[0][:-9], other):
                with pytest.raises(InvalidOptionError, match=key):
                    scan(pravega, table, **dict[str, Any]({key: text}))
        with pytest.raises(InvalidOptionError, match="lies after"):
            scan(pravega, table, start_stream_cut=versions[1], end_stream_cut=versions[0])

    def test_what_is_lost_is_an_error_or_left_out(self, pravega: Pravega, stream: Stream, versions: list[str]) -> None:
        table = keyed_table(stream)
        early = scan(pravega, table)
        lenient = scan(pravega, table, fail_on_data_loss="false")
        pravega.controller.truncate_stream(StreamCut.from_text(versions[1]))
        with pytest.raises(DataLossError, match=f"of stream {stream} were truncated, .*fail-on-data-loss"):
            scan(pravega, table, start_stream_cut=versions[0])
        left = list(range(200, 300))
        assert values(scan(pravega, table, start_stream_cut=versions[0], fail_on_data_loss="false")) == left
        assert values(scan(pravega, table)) == left
        # Planned before, read after.
        with pytest.raises(DataLossError, match=rf"Bytes 0 to [\d,]+ of segment '{stream}/\d"):
            rows(early)
        assert values(lenient) == left


class TestWhatIsAskedFor:
    @pytest.fixture(scope="class")
    @classmethod
    def stream(cls, pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> Stream:
        stream = new_read_stream(3, "asked-for")
        insert_numbers(pravega, keyed_table(stream), 0, 3000)
        return stream

    @pytest.fixture(scope="class")
    @classmethod
    def large(cls, pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> Stream:
        stream = new_read_stream(2, "large")
        insert_numbers(pravega, keyed_table(stream), 0, 400_000)
        return stream

    def test_columns(self, pravega: Pravega, stream: Stream) -> None:
        table = keyed_table(stream)
        for columns in (["v"], ["k"], ["v", "k"], ["_offset"], ["_segment", "v", "_offset"]):
            planned = scan(pravega, table, columns)
            found = [batch for partition in batches(planned) for batch in partition]
            assert {tuple(batch.schema.names) for batch in found} == {tuple(columns)}
            assert sum(batch.num_rows for batch in found) == 3000
        assert values(scan(pravega, table, ["v"])) == list(range(3000))

    def test_a_hidden_column_without_values_is_no_other_one(
        self, pravega: Pravega, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that is declared, and that nothing makes, fails the scan."""
        monkeypatch.setitem(HIDDEN_COLUMNS, "_new", (StructField("_new", StringType()), "Of no event."))
        with pytest.raises(NotImplementedError, match="hidden column _new"):
            batches(scan(pravega, keyed_table(stream), ["_new"]))

    def test_no_column(self, pravega: Pravega, stream: Stream) -> None:
        """A batch without columns would lose its number of rows, so it carries one."""
        planned = scan(pravega, keyed_table(stream), [])
        assert len(planned.source.schema.fields) == 1
        found = [batch for partition in batches(planned) for batch in partition]
        assert sum(batch.num_rows for batch in found) == 3000
        assert all(batch.num_columns == 1 and batch.column(0).null_count == batch.num_rows for batch in found)

    @pytest.mark.parametrize("limit", [1, 7, 500, 100_000])
    def test_limit(self, pravega: Pravega, stream: Stream, limit: int) -> None:
        """Each task reads no more than that; Spark takes the rest away."""
        table = keyed_table(stream)
        full, limited = batches(scan(pravega, table)), batches(scan(pravega, table, limit=limit))
        assert len({row["_segment"] for row in rows(scan(pravega, table))}) > len(full) == len(limited)
        for every, some in zip(full, limited, strict=True):
            assert pa.Table.from_batches(some) == pa.Table.from_batches(every).slice(0, limit)

    def test_a_limit_reads_little(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        """Not even the event after it, be it malformed."""
        stream = new_stream()
        insert_raw(pravega, stream, [b'{"k":1,"v":1}', b'{"k":1,"v":2}', b"{"])
        (partition,) = batches(scan(pravega, keyed_table(stream), ["v"], limit=2))
        assert [batch.to_pydict() for batch in partition] == [{"v": [1, 2]}]

    @pytest.mark.parametrize(("limit", "reads"), [(10, [65_536]), (5_000, [65_536, 262_144, 1_048_576])])
    def test_a_limit_asks_for_few_bytes(
        self,
        pravega: Pravega,
        large: Stream,
        caplog: pytest.LogCaptureFixture,
        limit: int,
        reads: list[int],
    ) -> None:
        """What is read ahead of what is wanted begins with the second piece."""
        caplog.set_level(logging.DEBUG)
        for partition in batches(scan(pravega, keyed_table(large), limit=limit)):
            assert sum(batch.num_rows for batch in partition) == limit
        for segment in (0, 1):
            read = re.findall(rf"reading (\d+) bytes of \S+/{segment}\.", caplog.text)
            assert [int(size) for size in read] in (reads, reads[:-1])


class TestRepetition:
    def test_a_partition_read_again_is_the_same(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        """To the batch, whatever happened to the stream meanwhile."""
        stream = new_stream(2)
        table = keyed_table(stream)
        insert_numbers(pravega, table, 0, 40_000)
        planned = scan(pravega, table, read_window="256k")
        first = batches(planned)
        assert any(len(partition) > 1 for partition in first)
        assert batches(planned) == first
        insert_numbers(pravega, table, 0, 1000)
        assert batches(planned) == first
        pravega.controller.scale_stream(stream, [0, 1], [(0.0, 0.3), (0.3, 1.0)])
        pravega.controller.seal_stream(stream)
        assert batches(planned) == first

    def test_broken_off_and_begun_again(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        table = keyed_table(stream)
        insert_numbers(pravega, table, 0, 40_000)
        planned = scan(pravega, table, read_window="64k")
        (partition,) = planned.reader.partitions()
        whole = list(planned.reader.read(partition))
        attempt = planned.reader.read(partition)
        assert next(attempt) == whole[0]
        attempt.close()
        assert list(planned.reader.read(partition)) == whole


class TestMalformedEvents:
    PAYLOADS = (b'{"k":0,"v":0}', b'{"k":1,"v":1}', b'{"k":2,"v":', b'{"k":3,"v":3}')
    BAD = 2 * (8 + 13)
    """Where the third of them begins."""

    def test_the_error_names_segment_and_offset(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        insert_raw(pravega, stream, list(self.PAYLOADS))
        planned = scan(pravega, keyed_table(stream))
        for _ in range(2):
            with pytest.raises(MalformedEventError, match=rf"offset {self.BAD} of segment {stream}/0\.#epoch\.0 "):
                rows(planned)

    def test_in_the_middle_of_a_large_segment(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        """All batches before it come, and those of other segments."""
        stream = new_stream(2)
        table = keyed_table(stream)
        insert_numbers(pravega, table, 0, 40_000)
        offset = tail(pravega, stream).positions[1]
        insert_raw(pravega, stream, [b'{"k":0,"v":0}', b"?"])  # one to each segment
        insert_numbers(pravega, table, 40_000, 41_000)
        planned = scan(pravega, table, ["v"], read_window="64k")
        good, bad = sorted(planned.reader.partitions(), key=lambda partition: partition.piece.segment_id)  # type: ignore[attr-defined]
        assert sum(batch.num_rows for batch in planned.reader.read(good)) > 10_000
        seen = 0
        with pytest.raises(MalformedEventError, match=f"offset {offset} of segment {stream}/1.#epoch.0 "):
            for batch in planned.reader.read(bad):
                seen += batch.num_rows
        assert seen > 5_000

    def test_counting_does_not_decode(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        insert_raw(pravega, stream, list(self.PAYLOADS))
        for columns in ([], ["_offset", "_segment"]):
            (partition,) = batches(scan(pravega, keyed_table(stream), columns))
            assert sum(batch.num_rows for batch in partition) == 4

    def test_its_bytes_can_be_read_as_raw(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        insert_raw(pravega, stream, list(self.PAYLOADS))
        assert [row["event"] for row in rows(scan(pravega, raw_table(stream)))] == list(self.PAYLOADS)
