"""Borders that scans note: later scans divide segments there, and wrong ones never lead to a wrong row."""

from __future__ import annotations

import itertools
import json
import random
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import ANY
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME
from pyspark_pravega.datasource.scan import division, noted_borders
from pyspark_pravega.datasource.scan.noted_borders import NotedBorders, _merge
from pyspark_pravega.datasource.scan.reader import SegmentScanReader, list_slices
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import MalformedEventError
from tests.datasource.scans import insert, rows, scan

SPACING = 128 << 10
WINDOW = str(64 << 10)
EVENTS = [random.Random(5).randbytes(1 + number * 37 % 6000) for number in range(1000)]


@pytest.fixture(autouse=True)
def _near_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_borders, "SPACING", SPACING)
    monkeypatch.setattr(division, "SPACING", SPACING)


def append(pravega: Pravega, stream: Stream, payloads: list[bytes]) -> None:
    """Append events as other programs do, to the only segment."""
    with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
        for payload in payloads:
            appender.append(frame(pa.array([payload], pa.binary())), 1)
        appender.flush()


@pytest.fixture
def table(pravega: Pravega, new_stream: Callable[..., Stream]) -> StreamTable:
    """A table of one segment with 3 MB of events of other programs, without a commit log."""
    stream = new_stream(1)
    append(pravega, stream, EVENTS)
    return StreamTable(stream, "raw", "none", RAW_SCHEMA)


def read(pravega: Pravega, table: StreamTable, parts: int) -> tuple[list[object], list[int]]:
    """The events that a scan yields, partition by partition, and the bytes of its parts."""
    planned = scan(pravega, table, ["event"], min_partitions=str(parts), read_window=WINDOW)
    events = [row["event"] for row in rows(planned)]
    assert isinstance(planned.reader, SegmentScanReader)
    slices = [list_slices(partition) for partition in planned.reader.planned]
    return events, [sum(one.read.end - one.read.start for one in shared) for shared in slices]


def list_borders(events: list[bytes]) -> list[int]:
    return list(itertools.accumulate((len(event) + 8 for event in events), initial=0))


def list_noted(pravega: Pravega, stream: Stream) -> list[int]:
    return NotedBorders(pravega, stream).find([0]).get(0, [])


def put_row(pravega: Pravega, stream: Stream, value: bytes) -> None:
    """Store the row of a segment as a damaged or malicious one could be."""
    pravega.key_value_table(stream.scope, TABLE_NAME).put(NotedBorders(pravega, stream)._key(0), value, ANY)


def put_borders(pravega: Pravega, stream: Stream, borders: list[int]) -> None:
    deltas = [border - before for before, border in itertools.pairwise([0, *borders])]
    put_row(pravega, stream, json.dumps({"stream": stream.name, "segment": 0, "borders": deltas}).encode())


def test_the_second_scan_of_what_others_wrote_is_divided(pravega: Pravega, table: StreamTable) -> None:
    events, parts = read(pravega, table, 8)
    assert events == EVENTS and len(parts) == 1, "nothing is known yet"
    noted = list_noted(pravega, table.stream)
    assert set(noted) <= set(list_borders(EVENTS)) and len(noted) >= sum(parts) // (SPACING + 64 * 1024 + 6000) - 1
    assert all(border - before >= SPACING for before, border in itertools.pairwise([0, *noted]))
    events, parts = read(pravega, table, 8)
    assert events == EVENTS and len(parts) == 8
    assert max(parts) < 1.5 * sum(parts) / 8
    planned = scan(pravega, table, ["event"], min_partitions="8")
    assert planned.about == {"parts": "8, at borders noted by scans"}
    assert read(pravega, table, 1) == (EVENTS, [sum(parts)])
    assert list_noted(pravega, table.stream) == noted, "nothing new was seen"


def test_what_is_new_is_noted_too(pravega: Pravega, table: StreamTable) -> None:
    read(pravega, table, 1)
    before = list_noted(pravega, table.stream)
    append(pravega, table.stream, EVENTS)
    assert read(pravega, table, 4)[0] == [*EVENTS, *EVENTS]
    after = list_noted(pravega, table.stream)
    assert after[: len(before)] == before and len(after) > 1.8 * len(before)
    assert set(after) <= set(list_borders([*EVENTS, *EVENTS]))
    head = list_borders(EVENTS)[600]
    pravega.controller.truncate_stream(StreamCut(table.stream, {0: head}))
    append(pravega, table.stream, EVENTS)
    rest = [*EVENTS[600:], *EVENTS, *EVENTS]
    assert read(pravega, table, 4)[0] == rest
    assert min(list_noted(pravega, table.stream)) > head, "those before the head are of no use"
    events, parts = read(pravega, table, 4)
    assert events == rest and len(parts) == 4


def test_only_whole_scans_that_fail_at_bad_events_note_borders(pravega: Pravega, table: StreamTable) -> None:
    cut = StreamCut(table.stream, {0: list_borders(EVENTS)[3]}).to_text()
    rows(scan(pravega, table, ["event"], read_window=WINDOW, mode="dropmalformed"))
    rows(scan(pravega, table, ["event"], read_window=WINDOW, start_stream_cut=cut))
    rows(scan(pravega, table, ["event"], read_window=WINDOW, limit=999))
    assert list_noted(pravega, table.stream) == []


def check_wrong_borders(pravega: Pravega, table: StreamTable, seed: int, trials: int) -> None:
    """Scans with random borders yield all rows, or fail; then the row is gone, and the next scan yields all rows."""
    chosen, true = random.Random(seed), list_borders(EVENTS)[1:-1]
    outcomes = {"all rows": 0, "refused": 0}
    assert read(pravega, table, 1)[0] == EVENTS  # and makes the table of the rows
    for _ in range(trials):
        number = chosen.randrange(1, 30)
        false = chosen.choice([0, 0, 1, 5]) if chosen.random() < 0.5 else 0
        borders = {*chosen.sample(true, number), *(chosen.randrange(1, true[-1]) for _ in range(false))}
        put_borders(pravega, table.stream, sorted(borders))
        parts = chosen.choice([2, 4, 8, 16])
        try:
            events, _ = read(pravega, table, parts)
        except MalformedEventError as error:
            assert "divided at borders that earlier scans had noted; in case one is wrong, they were removed" in str(
                error
            )
            assert not borders <= set(true)
            assert list_noted(pravega, table.stream) == []
            outcomes["refused"] += 1
            events, _ = read(pravega, table, parts)
        else:
            outcomes["all rows"] += 1
        assert events == EVENTS
    assert min(outcomes.values()) > trials // 20


def test_wrong_borders_never_lead_to_wrong_rows(pravega: Pravega, table: StreamTable) -> None:
    check_wrong_borders(pravega, table, seed=1, trials=100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_many_wrong_borders_never_lead_to_wrong_rows(pravega: Pravega, table: StreamTable, seed: int) -> None:
    check_wrong_borders(pravega, table, seed, trials=100)


def make_events(chosen: random.Random) -> list[bytes]:
    """Random events, some of which have frames of events inside them, up to their own end."""
    greatest, events = chosen.choice([10, 300, 5000]), list[bytes]()
    for _ in range(chosen.randrange(10, 200)):
        payload = chosen.randbytes(chosen.randrange(greatest))
        if chosen.random() < 0.1:
            payload = bytes(frame(pa.array([payload, b"", payload], pa.binary())))
        events.append(payload)
    return events


def choose_borders(chosen: random.Random, events: list[bytes]) -> list[int]:
    """Random borders of events; of every second stream, a place inside an event too: that of a frame, or any."""
    true = list_borders(events)
    borders = set(chosen.sample(true[1:-1], chosen.randrange(1, 8)))
    if chosen.random() < 0.5:
        inside = [begin + 8 for begin, end in itertools.pairwise(true) if end - begin > 8]
        borders |= {chosen.choice(inside) if chosen.random() < 0.5 and inside else chosen.randrange(1, true[-1])}
    return sorted(borders)


def check_random_streams(pravega: Pravega, scope: str, seed: int, trials: int) -> None:
    """Of each stream, a scan in parts yields what one in one piece does, or it fails and the next one does."""
    chosen, outcomes = random.Random(seed), {"whole": 0, "divided": 0, "refused": 0}
    for trial in range(trials):
        stream, events = Stream(scope, f"stream-{trial}"), make_events(chosen)
        pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=1)))
        append(pravega, stream, events)
        table = StreamTable(stream, "raw", "none", RAW_SCHEMA)
        assert read(pravega, table, 1)[0] == events
        CommitLog(pravega, stream).make_ready()
        borders, parts = choose_borders(chosen, events), chosen.choice([2, 3, 8])
        put_borders(pravega, stream, borders)
        try:
            found, sizes = read(pravega, table, parts)
            outcomes["divided" if len(sizes) > 1 else "whole"] += 1
        except MalformedEventError:
            assert not set(borders) <= set(list_borders(events))
            outcomes["refused"] += 1
            found, _ = read(pravega, table, parts)
        assert found == events, (seed, trial)
    assert outcomes["divided"] > trials // 4 and outcomes["refused"] > trials // 20, outcomes


@pytest.fixture
def _very_near_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_borders, "SPACING", 64)
    monkeypatch.setattr(division, "SPACING", 64)


@pytest.mark.usefixtures("_very_near_borders")
def test_random_streams(pravega: Pravega, scope: str) -> None:
    check_random_streams(pravega, scope, seed=0, trials=40)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 101))
@pytest.mark.usefixtures("_very_near_borders")
def test_many_random_streams(pravega: Pravega, scope: str, seed: int) -> None:
    check_random_streams(pravega, scope, seed, trials=100)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x\x9c\x00",
        b"[]",
        b"{}",
        b'{"borders": 7}',
        b'{"borders": [1.5, 2.5]}',
        b'{"borders": [true, NaN]}',
        b'{"borders": [900000, -500000, 700000, 0]}',
        b'{"borders": ["400000"]}',
        b'{"borders": [1000000000000000000000000]}',
        b'{"borders": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_rows_that_no_scan_has_written(pravega: Pravega, table: StreamTable, value: bytes) -> None:
    assert read(pravega, table, 1)[0] == EVENTS  # and makes the table of the rows
    put_row(pravega, table.stream, value)
    events, parts = read(pravega, table, 4)
    assert events == EVENTS and len(parts) == 1
    noted = set(list_noted(pravega, table.stream))
    assert len(noted & set(list_borders(EVENTS))) > 10, "the next borders replace the row"
    assert read(pravega, table, 4)[0] == EVENTS


def test_ends_of_versions_where_no_scan_has_been_yet(pravega: Pravega, table: StreamTable) -> None:
    read(pravega, table, 1)
    noted = list_noted(pravega, table.stream)
    rows_of_insert = pa.record_batch([pa.array(EVENTS[:100], pa.binary())], names=["event"])
    for _ in range(10):
        insert(pravega, table, rows_of_insert)
    size = sum(map(len, EVENTS[:100])) + 800
    planned = scan(pravega, table, ["event"], max_bytes_per_task=str(size))
    parts = [one.read.end - one.read.start for one in planned.reader.planned]
    assert planned.about["parts"].endswith(", at borders noted by scans and ends of versions")
    assert len(parts) > len(noted) * SPACING // size and max(parts) < 3 * size
    assert [row["event"] for row in rows(planned)] == [*EVENTS, *(EVENTS[:100] * 10)]


def test_merged_borders() -> None:
    """Known borders stay as they are, so that scans of the same bytes do not write the row again and again."""
    assert _merge([], [SPACING, 3 * SPACING], 0) == [SPACING, 3 * SPACING]
    assert _merge([SPACING], [SPACING - 1, SPACING * 2 - 1, 2 * SPACING], 0) == [SPACING, 2 * SPACING]
    assert _merge([5 * SPACING], [SPACING, 9 * SPACING], 2 * SPACING) == [5 * SPACING, 9 * SPACING]
    many = [SPACING * number for number in range(1, 100_000)]
    kept = _merge([], many, 0)
    assert 1900 < len(kept) <= 2048 and kept == sorted(kept)
    assert _merge(kept, many, 0) == kept
    assert _merge([1 << 60], [SPACING], 0) == [SPACING, 1 << 60], "one that is far behind the end does no harm"


def test_users_who_may_only_read(secure_scope: str, secure_client_config: Callable[..., ClientConfig]) -> None:
    """They note nothing and remember borders, use what others have noted, and learn how to do without wrong ones."""
    stream = Stream(secure_scope, "borders")
    table = StreamTable(stream, "raw", "none", RAW_SCHEMA)
    with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
        admin.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=1)))
        append(admin, stream, EVENTS)
        assert read(reader, table, 4) == (EVENTS, [sum(len(event) + 8 for event in EVENTS)])
        assert list_noted(admin, stream) == []
        events, parts = read(reader, table, 4)
        assert events == EVENTS and len(parts) == 4
        append(admin, stream, EVENTS)
        assert read(reader, table, 4)[0] == [*EVENTS, *EVENTS]
        remembered = list_noted(reader, stream)
        assert set(remembered) <= set(list_borders([*EVENTS, *EVENTS])) and remembered[-1] > sum(parts)
        numbers = (0, 0, 0, 2, SPACING, 3 * SPACING, 1, 7, 5 * SPACING, 1, 6 * SPACING)
        other = NotedBorders(reader, Stream(secure_scope, "other"))
        other.remember(numbers)
        assert other.find([0, (1 << 32) + 7]) == {0: [SPACING, 3 * SPACING], (1 << 32) + 7: [6 * SPACING]}
        assert read(admin, table, 4)[0] == [*EVENTS, *EVENTS]
        put_borders(admin, stream, [sum(parts) // 2])
        with pytest.raises(MalformedEventError, match="read the segment in one piece, with 'min-partitions'='1'"):
            read(reader, table, 4)
        assert read(reader, table, 1)[0] == [*EVENTS, *EVENTS]
