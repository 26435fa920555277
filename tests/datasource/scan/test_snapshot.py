"""What a scan fixes at planning: byte ranges between two cuts, on streams in all states."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.stream import ScalingPolicy, SegmentRange, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice, take_snapshot
from pyspark_pravega.errors import DataLossError, InvalidOptionError, StreamNotFoundError
from tests.datasource.transactions import EVENT_BYTES as E
from tests.datasource.transactions import insert_into_all


def cut_at_the_end(stream: Stream, slices: list[SegmentSlice]) -> StreamCut:
    """The positions where the slices end."""
    return StreamCut(stream, {piece.segment_id: piece.end for piece in slices})


def snapshot(
    pravega: Pravega,
    stream: Stream,
    start: StreamCut | None = None,
    end: StreamCut | None = None,
    *,
    fail_on_data_loss: bool = True,
) -> list[SegmentSlice]:
    settled = CommitLog(pravega, stream).measure_settled
    return take_snapshot(pravega, stream, (start, end), fail_on_data_loss=fail_on_data_loss, measure_settled=settled)


def split_of(pravega: Pravega, stream: Stream) -> list[SegmentRange]:
    """Split segment 0 and write one event to each of the three segments, which are returned."""
    pravega.controller.scale_stream(stream, [0], [(0, 0.25), (0.25, 0.5)])
    insert_into_all(pravega, stream, 3)
    return pravega.controller.current_segments(stream)


@pytest.fixture
def stream(pravega: Pravega, new_stream: Callable[..., Stream]) -> Stream:
    """Two segments, 0 and 1, with three events each."""
    made = new_stream(2)
    insert_into_all(pravega, made, 2, rows=3)
    return made


@pytest.fixture
def split(pravega: Pravega, stream: Stream) -> list[SegmentRange]:
    """The stream's three segments after a split of segment 0, with one event in each; segment 1 has four then."""
    return split_of(pravega, stream)


@pytest.fixture(scope="module")
def read_stream(pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> Stream:
    """One as `stream`, which tests only read."""
    made = new_read_stream(2, "stream")
    for _ in range(3):
        insert_into_all(pravega, made, 2)
    return made


@pytest.fixture(scope="module")
def read_split(pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> tuple[Stream, list[SegmentRange]]:
    """One as `stream` with its segments after `split`, which tests only read."""
    made = new_read_stream(2, "split")
    insert_into_all(pravega, made, 2, rows=3)
    return made, split_of(pravega, made)


@pytest.fixture(scope="module")
def truncated(pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> Stream:
    """One as `stream` that has lost two events of segment 0; tests only read it."""
    made = new_read_stream(2, "truncated")
    insert_into_all(pravega, made, 2, rows=3)
    pravega.controller.truncate_stream(cut(made, s0=2, s1=0))
    return made


@pytest.fixture(scope="module")
def removed(pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> tuple[Stream, list[SegmentRange]]:
    """One as `read_split` that has lost segment 0 and the events of segment 1; tests only read it."""
    made = new_read_stream(2, "removed")
    insert_into_all(pravega, made, 2, rows=3)
    split = split_of(pravega, made)
    pravega.controller.truncate_stream(cut_at(made, split, 0, 0, 4))
    wait_for_removal(pravega, made, 0)
    return made, split


def cut(stream: Stream, **events: int) -> StreamCut:
    """A cut after so many events of segments s0, s1, ..."""
    return StreamCut(stream, {int(name[1:]): count * E for name, count in events.items()})


def cut_at(stream: Stream, segments: list[SegmentRange], *events: int) -> StreamCut:
    counts = zip(segments, events, strict=True)
    return StreamCut(stream, {segment.segment_id: count * E for segment, count in counts})


class TestWithoutCuts:
    def test_an_empty_stream_has_no_slices(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        assert snapshot(pravega, new_stream(3)) == []

    def test_segments_without_events_are_left_out(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream(4)
        insert_into_all(pravega, stream, 4)
        pravega.controller.scale_stream(stream, [2], [(0.5, 0.6), (0.6, 0.75)])
        assert snapshot(pravega, stream) == [SegmentSlice(one, 0, E) for one in range(4)]

    def test_from_head_to_tail(self, pravega: Pravega, read_stream: Stream) -> None:
        found = snapshot(pravega, read_stream)
        assert found == [SegmentSlice(0, 0, 3 * E), SegmentSlice(1, 0, 3 * E)]
        assert cut_at_the_end(read_stream, found) == cut(read_stream, s0=3, s1=3)

    def test_segments_of_all_epochs(self, pravega: Pravega, stream: Stream, split: list[SegmentRange]) -> None:
        low, high, rest = (segment.segment_id for segment in split)
        pravega.controller.scale_stream(stream, [high, rest], [(0.25, 1.0)])
        insert_into_all(pravega, stream, 2)
        found = snapshot(pravega, stream)
        merged = pravega.controller.current_segments(stream)[1].segment_id
        lengths = {0: 3, 1: 4, low: 2, high: 1, merged: 1}
        assert found == [SegmentSlice(segment, 0, count * E) for segment, count in sorted(lengths.items())]

    def test_a_sealed_stream_is_there_to_its_end(
        self, pravega: Pravega, stream: Stream, split: list[SegmentRange]
    ) -> None:
        before = snapshot(pravega, stream)
        pravega.controller.seal_stream(stream)
        assert snapshot(pravega, stream) == before
        assert sum(piece.end - piece.start for piece in before) == 9 * E

    def test_begins_where_the_stream_was_truncated(self, pravega: Pravega, stream: Stream) -> None:
        pravega.controller.truncate_stream(cut(stream, s0=2, s1=3))
        assert snapshot(pravega, stream) == [SegmentSlice(0, 2 * E, 3 * E)]

    def test_removed_segments_are_no_loss(self, pravega: Pravega, stream: Stream, split: list[SegmentRange]) -> None:
        pravega.controller.truncate_stream(cut_at(stream, split, 0, 1, 4))
        wait_for_removal(pravega, stream, 0)
        assert snapshot(pravega, stream) == [SegmentSlice(split[0].segment_id, 0, E)]

    def test_truncated_beyond_the_tail(self, pravega: Pravega, stream: Stream) -> None:
        """The server lets others do so; what is appended up to there is hidden from every reader."""
        request = pb.StreamCut(streamInfo=pb.StreamInfo(scope=stream.scope, stream=stream.name))
        request.cut.update({0: 100 * E, 1: E})
        reply, _ = pravega.controller._channel.call(
            "truncateStream", request, pravega.controller._stream_purpose("truncate", stream, "READ_UPDATE")
        )
        assert reply.status == pb.UpdateStreamStatus.SUCCESS
        assert snapshot(pravega, stream) == [SegmentSlice(1, E, 3 * E)]

    def test_a_stream_that_is_not_there(self, pravega: Pravega, scope: str) -> None:
        with pytest.raises(StreamNotFoundError, match=f"'absent' in scope '{scope}'"):
            snapshot(pravega, Stream(scope, "absent"))


class TestWithCuts:
    def test_between_two(self, pravega: Pravega, read_stream: Stream) -> None:
        stream = read_stream
        first, last = cut(stream, s0=1, s1=2), cut(stream, s0=3, s1=2)
        assert snapshot(pravega, stream, first) == [SegmentSlice(0, E, 3 * E), SegmentSlice(1, 2 * E, 3 * E)]
        assert snapshot(pravega, stream, None, last) == [SegmentSlice(0, 0, 3 * E), SegmentSlice(1, 0, 2 * E)]
        assert snapshot(pravega, stream, first, last) == [SegmentSlice(0, E, 3 * E)]
        assert snapshot(pravega, stream, first, first) == []
        assert snapshot(pravega, stream, cut(stream, s0=3, s1=3)) == []

    def test_parts_add_up(self, pravega: Pravega, read_split: tuple[Stream, list[SegmentRange]]) -> None:
        """Before a cut and after it is everything, wherever it lies, even in several epochs at once."""
        stream, split = read_split
        low, high, rest = split
        whole = pieces(snapshot(pravega, stream))
        for middle in (
            cut(stream, s0=0, s1=0),
            cut(stream, s0=1, s1=2),
            cut(stream, s0=3, s1=4),
            cut_at(stream, split, 0, 0, 3),
            cut_at(stream, split, 1, 0, 4),
            cut_at(stream, [low, high, rest], 1, 1, 4),
        ):
            before, after = snapshot(pravega, stream, None, middle), snapshot(pravega, stream, middle)
            assert pieces(before).isdisjoint(pieces(after))
            assert pieces(before) | pieces(after) == whole

    def test_the_end_does_not_move(self, pravega: Pravega, stream: Stream) -> None:
        end = cut_at_the_end(stream, snapshot(pravega, stream))
        before = snapshot(pravega, stream, None, end)
        insert_into_all(pravega, stream, 2)
        pravega.controller.scale_stream(stream, [0, 1], [(0.0, 0.3), (0.3, 1.0)])
        insert_into_all(pravega, stream, 2)
        pravega.controller.seal_stream(stream)
        assert snapshot(pravega, stream, None, end) == before


class TestCutsThatDoNotFit:
    @pytest.mark.parametrize("option", ["start", "end"])
    def test_of_another_stream(
        self, pravega: Pravega, read_stream: Stream, read_split: tuple[Stream, list[SegmentRange]], option: str
    ) -> None:
        other = cut(read_split[0], s0=0, s1=0)
        with pytest.raises(InvalidOptionError, match=f"'{option}-stream-cut' is a cut of stream .*/split, .*/stream"):
            snapshot(pravega, read_stream, **dict[str, Any]({option: other}))

    def test_of_an_older_stream_of_the_name(self, pravega: Pravega, stream: Stream, split: list[SegmentRange]) -> None:
        old = [cut(stream, s0=1, s1=1), cut_at(stream, split, 1, 1, 1)]
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=2)))
        insert_into_all(pravega, stream, 2)
        for option in ("start", "end"):
            for one in old:
                message = f"'{option}-stream-cut' .* is not a position .* recreated"
                with pytest.raises(InvalidOptionError, match=message):
                    snapshot(pravega, stream, **dict[str, Any]({option: one}))

    @pytest.mark.parametrize("option", ["start", "end"])
    def test_of_a_part_of_the_key_space_or_unknown_segments(
        self, pravega: Pravega, read_split: tuple[Stream, list[SegmentRange]], option: str
    ) -> None:
        stream, split = read_split
        wrong = (
            cut(stream, s0=1),
            cut(stream, s0=1, s1=1, s7=1),
            cut(stream, s8=1, s9=1),
            StreamCut(stream, {}),
            cut_at(stream, split[:2], 1, 1),
            StreamCut(stream, {0: 0, 1: 0, split[0].segment_id: 0}),
        )
        for one in wrong:
            with pytest.raises(InvalidOptionError, match=f"'{option}-stream-cut' .* is not a position"):
                snapshot(pravega, stream, **dict[str, Any]({option: one}))

    @pytest.mark.parametrize("option", ["start", "end"])
    def test_beyond_the_tail(self, pravega: Pravega, read_stream: Stream, option: str) -> None:
        stream = read_stream
        message = f"'{option}-stream-cut' asks for offset {4 * E} of segment 1 of stream {stream}, .* {3 * E}"
        with pytest.raises(InvalidOptionError, match=message):
            snapshot(pravega, stream, **dict[str, Any]({option: cut(stream, s0=3, s1=4)}))

    def test_the_start_after_the_end(self, pravega: Pravega, read_split: tuple[Stream, list[SegmentRange]]) -> None:
        stream, split = read_split
        old, new = cut(stream, s0=3, s1=3), cut_at(stream, split, 0, 0, 4)
        for start, end in (
            (old, cut(stream, s0=2, s1=2)),
            (cut(stream, s0=1, s1=2), cut(stream, s0=2, s1=1)),
            (new, old),
            (cut_at(stream, split, 1, 1, 4), new),
        ):
            with pytest.raises(InvalidOptionError, match="start and the end of the read contradict.*lies after"):
                snapshot(pravega, stream, start, end)


class TestDataLoss:
    """What was truncated is an error if the query asks for it by a cut, unless it allows for that."""

    def test_the_start_before_the_head(self, pravega: Pravega, truncated: Stream) -> None:
        stream = truncated
        for start in (cut(stream, s0=0, s1=0), cut(stream, s0=1, s1=3)):
            lost = rf"[Bb]ytes {start.positions[0]} to {2 * E} of segment 0 of stream {stream} .*fail-on-data-loss"
            with pytest.raises(DataLossError, match=lost):
                snapshot(pravega, stream, start)
        left = [SegmentSlice(0, 2 * E, 3 * E), SegmentSlice(1, E, 3 * E)]
        assert snapshot(pravega, stream, cut(stream, s0=1, s1=1), fail_on_data_loss=False) == left
        assert snapshot(pravega, stream, cut(stream, s0=2, s1=1)) == left

    def test_a_segment_was_removed(self, pravega: Pravega, removed: tuple[Stream, list[SegmentRange]]) -> None:
        stream, split = removed
        start, end = cut(stream, s0=1, s1=4), cut_at(stream, split, 1, 1, 4)
        left = [SegmentSlice(segment.segment_id, 0, E) for segment in split[:2]]
        for until in (None, end):
            with pytest.raises(DataLossError, match=f"[Ss]egment 0 of stream {stream} was removed"):
                snapshot(pravega, stream, start, until)
            assert snapshot(pravega, stream, start, until, fail_on_data_loss=False) == left

    def test_the_end_before_the_head(self, pravega: Pravega, removed: tuple[Stream, list[SegmentRange]]) -> None:
        """Nothing is left of what a scan up to there would have seen."""
        stream, _ = removed
        for end in (cut(stream, s0=3, s1=3), cut(stream, s0=1, s1=4)):
            with pytest.raises(DataLossError, match=f"[Aa]ll events of stream {stream} up to the requested end"):
                snapshot(pravega, stream, None, end)
            assert snapshot(pravega, stream, None, end, fail_on_data_loss=False) == []

    def test_the_end_before_the_head_in_part(self, pravega: Pravega, truncated: Stream) -> None:
        stream = truncated
        for fail_on_data_loss in (True, False):
            found = snapshot(pravega, stream, None, cut(stream, s0=1, s1=2), fail_on_data_loss=fail_on_data_loss)
            assert found == [SegmentSlice(1, 0, 2 * E)]


def pieces(slices: list[SegmentSlice]) -> set[tuple[int, int]]:
    """Every event of some slices, as segment and offset."""
    return {(piece.segment_id, offset) for piece in slices for offset in range(piece.start, piece.end, E)}


def wait_for_removal(pravega: Pravega, stream: Stream, segment: int) -> None:
    deadline = time.monotonic() + 60
    while pravega.segments.segment_infos(stream, [segment]):
        assert time.monotonic() < deadline, f"segment {segment} was not removed"
        time.sleep(0.05)
