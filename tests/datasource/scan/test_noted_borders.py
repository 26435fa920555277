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
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME
from pyspark_pravega.datasource.scan import division, noted_borders
from pyspark_pravega.datasource.scan.noted_borders import NotedBorders, _merge
from pyspark_pravega.datasource.scan.reader import SegmentScanReader, list_slices
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import MalformedEventError
from tests.datasource.scans import rows, scan

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


def put_borders(pravega: Pravega, stream: Stream, borders: list[int]) -> None:
    """Store the row of a segment as a damaged or malicious one could be."""
    deltas = [border - before for before, border in itertools.pairwise([0, *borders])]
    value = json.dumps({"stream": stream.name, "segment": 0, "borders": deltas}).encode()
    notes = NotedBorders(pravega, stream)
    pravega.key_value_table(stream.scope, TABLE_NAME).put(notes._key(0), value, ANY)


def test_the_second_scan_of_what_others_wrote_is_divided(pravega: Pravega, table: StreamTable) -> None:
    events, parts = read(pravega, table, 8)
    assert events == EVENTS and len(parts) == 1, "nothing is known yet"
    noted = NotedBorders(pravega, table.stream).of(0)
    assert set(noted) <= set(list_borders(EVENTS)) and len(noted) >= sum(parts) // (SPACING + 64 * 1024 + 6000) - 1
    assert all(border - before >= SPACING for before, border in itertools.pairwise([0, *noted]))
    events, parts = read(pravega, table, 8)
    assert events == EVENTS and len(parts) == 8
    assert max(parts) < 1.5 * sum(parts) / 8
    planned = scan(pravega, table, ["event"], min_partitions="8")
    assert planned.about == {"parts": "8, at borders noted by scans"}
    assert read(pravega, table, 1) == (EVENTS, [sum(parts)])
    assert NotedBorders(pravega, table.stream).of(0) == noted, "nothing new was seen"


def test_what_is_new_is_noted_too(pravega: Pravega, table: StreamTable) -> None:
    read(pravega, table, 1)
    before = NotedBorders(pravega, table.stream).of(0)
    append(pravega, table.stream, EVENTS)
    assert read(pravega, table, 4)[0] == [*EVENTS, *EVENTS]
    after = NotedBorders(pravega, table.stream).of(0)
    assert after[: len(before)] == before and len(after) > 1.8 * len(before)
    assert set(after) <= set(list_borders([*EVENTS, *EVENTS]))
    head = list_borders(EVENTS)[600]
    pravega.controller.truncate_stream(StreamCut(table.stream, {0: head}))
    append(pravega, table.stream, EVENTS)
    rest = [*EVENTS[600:], *EVENTS, *EVENTS]
    assert read(pravega, table, 4)[0] == rest
    assert min(NotedBorders(pravega, table.stream).of(0)) > head, "those before the head are of no use"
    events, parts = read(pravega, table, 4)
    assert events == rest and len(parts) == 4


def test_only_whole_scans_that_fail_at_bad_events_note_borders(pravega: Pravega, table: StreamTable) -> None:
    cut = StreamCut(table.stream, {0: list_borders(EVENTS)[3]}).to_text()
    rows(scan(pravega, table, ["event"], read_window=WINDOW, mode="dropmalformed"))
    rows(scan(pravega, table, ["event"], read_window=WINDOW, start_stream_cut=cut))
    rows(scan(pravega, table, ["event"], read_window=WINDOW, limit=999))
    assert NotedBorders(pravega, table.stream).of(0) == []


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
            assert "divided at borders that earlier scans had noted; they were removed" in str(error)
            assert not borders <= set(true)
            assert NotedBorders(pravega, table.stream).of(0) == []
            outcomes["refused"] += 1
            events, _ = read(pravega, table, parts)
        else:
            outcomes["all rows"] += 1
        assert events == EVENTS
    assert min(outcomes.values()) > trials // 20


def test_wrong_borders_never_lead_to_wrong_rows(pravega: Pravega, table: StreamTable) -> None:
    check_wrong_borders(pravega, table, seed=1, trials=100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_many_wrong_borders_never_lead_to_wrong_rows(pravega: Pravega, table: StreamTable, seed: int) -> None:
    check_wrong_borders(pravega, table, seed, trials=100)


def test_merged_borders() -> None:
    """Known borders stay as they are, so that scans of the same bytes do not write the row again and again."""
    assert _merge([], [SPACING, 3 * SPACING], 0) == [SPACING, 3 * SPACING]
    assert _merge([SPACING], [SPACING - 1, SPACING * 2 - 1, 2 * SPACING], 0) == [SPACING, 2 * SPACING]
    assert _merge([5 * SPACING], [SPACING, 9 * SPACING], 2 * SPACING) == [5 * SPACING, 9 * SPACING]
    many = [SPACING * number for number in range(1, 100_000)]
    kept = _merge([], many, 0)
    assert 1000 < len(kept) <= 4096 and kept == sorted(kept)
    assert _merge(kept, many, 0) == kept


def test_users_who_may_only_read(secure_scope: str, secure_client_config: Callable[..., ClientConfig]) -> None:
    """They note nothing, use what others have noted, and learn how to do without borders that are wrong."""
    stream = Stream(secure_scope, "borders")
    table = StreamTable(stream, "raw", "none", RAW_SCHEMA)
    with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
        admin.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=1)))
        append(admin, stream, EVENTS)
        assert read(reader, table, 4)[0] == EVENTS
        assert NotedBorders(admin, stream).of(0) == []
        assert read(admin, table, 4)[0] == EVENTS
        events, parts = read(reader, table, 4)
        assert events == EVENTS and len(parts) == 4
        put_borders(admin, stream, [sum(parts) // 2])
        with pytest.raises(MalformedEventError, match="read it in one piece, with 'min-partitions'='1'"):
            read(reader, table, 4)
        assert read(reader, table, 1)[0] == EVENTS
