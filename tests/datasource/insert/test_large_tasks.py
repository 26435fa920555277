"""Tasks that outgrow their memory append before their input has ended; nothing of a failed attempt becomes visible."""

from __future__ import annotations

import multiprocessing
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.insert import sealing
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.reports import InsertMessage, SegmentWrite
from pyspark_pravega.datasource.insert.sealing import find_winning_ranges
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import PravegaError, ServerUnavailableError, TransactionMismatchError
from tests.cutting_proxy import CommandProxy
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.insert.test_commit import visible
from tests.datasource.insert.test_plain_task import (
    PADDED,
    PADDING,
    check_all_in_order,
    make_padded_rows,
)
from tests.datasource.transactions import SETTINGS, raw_table

SPAWN = multiprocessing.get_context("spawn")
ROWS = 1200
STEP = 100
assert 10 * SETTINGS.spool_memory < ROWS * PADDING


class AttemptLostError(Exception):
    """The end of an attempt."""


def batches(end: int = ROWS, before: Callable[[int], None] = lambda first: None) -> Iterator[pa.RecordBatch]:
    """Rows in batches of about a megabyte; `before` is called before each."""
    for first in range(0, end, STEP):
        before(first)
        yield make_padded_rows(first, first + STEP)


def write(insert: Insert, rows: Iterable[pa.RecordBatch]) -> InsertMessage:
    """Run a task of an INSERT in this process."""
    message = InsertWriter(insert.spec(insert.table.schema)).write(iter(rows))
    assert isinstance(message, InsertMessage)
    return message


def lose(insert: Insert, after: int) -> None:
    """Run an attempt that ends after so many rows."""

    def fail(first: int) -> None:
        if first >= after:
            raise AttemptLostError

    with pytest.raises(AttemptLostError):
        write(insert, batches(before=fail))


def lengths(pravega: Pravega, insert: Insert) -> list[int]:
    """The lengths of the segments of a transaction."""
    ids = [segment.segment_id for segment in insert.transaction.segments]
    infos = pravega.segments.segment_infos(insert.transaction.stream, ids, insert.transaction.id)
    return [infos[one].write_offset for one in ids]


@pytest.fixture
def padded(new_stream: Callable[..., Stream]) -> StreamTable:
    """A table of large rows with keys, over three segments."""
    return StreamTable(new_stream(3), "json", "none", PADDED, routing_key="k")


def test_it_appends_before_its_input_has_ended(
    pravega: Pravega, padded: StreamTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It needs no local disk for that."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not-there"))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "neither"))
    insert = Insert.begin(pravega, padded, SETTINGS)

    def look(first: int) -> None:
        if first == ROWS - STEP:
            wait_until(lambda: min(lengths(pravega, insert)) > 0, "the first blocks")

    message = write(insert, batches(before=look))
    assert insert.commit([message]) == ROWS
    check_all_in_order(pravega, padded, ROWS)


def test_the_blocks_of_lost_attempts_are_left_behind(pravega: Pravega, padded: StreamTable) -> None:
    """Two attempts of a task are lost in the middle, and another task writes at the same time."""
    insert = Insert.begin(pravega, padded, SETTINGS)
    lose(insert, ROWS // 2)
    message = write(insert, batches())
    lose(insert, ROWS - STEP)
    assert sum(lengths(pravega, insert)) > message.bytes
    assert insert.commit([message]) == ROWS
    check_all_in_order(pravega, padded, ROWS)
    assert insert.transaction.status() in (TransactionStatus.ABORTED, TransactionStatus.ABORTING)


def test_both_attempts_of_a_task_at_the_same_time(pravega: Pravega, padded: StreamTable) -> None:
    """As with speculation: their blocks lie between each other, and one of them wins."""
    insert, other = Insert.begin(pravega, padded, SETTINGS), batches()
    reports: list[InsertMessage] = []

    def interleave() -> Iterator[pa.RecordBatch]:
        for batch in batches():
            yield batch
            if batch.column("v")[0].as_py() == ROWS // 2:
                reports.append(write(insert, other))

    reports.append(write(insert, interleave()))
    for report in reports:
        assert all(len(written.ranges) >= 1 and not written.resumed for written in report.segments.values())
    assert insert.commit(reports[:1]) == ROWS
    check_all_in_order(pravega, padded, ROWS)


def test_connections_that_are_cut_between_two_blocks(
    pravega: Pravega, client_config: ClientConfig, padded: StreamTable
) -> None:
    """Blocks whose acknowledgements were lost are found again, so that they can be distinguished from foreign ones."""
    insert = Insert.begin(pravega, padded, SETTINGS)
    lose(insert, ROWS // 2)
    store = pravega.controller.segment_location(padded.stream, 0)
    with closing(CommandProxy(store)) as proxy:
        spec = insert.spec(padded.schema)
        spec = replace(spec, endpoints=dict.fromkeys(spec.endpoints, proxy.endpoint))
        cuts = []

        def cut(first: int) -> None:
            if first % (3 * STEP) == 0:
                proxy.cut_all()
                cuts.append(first)

        message = InsertWriter(spec).write(batches(before=cut))
        assert proxy.connections >= 2
    assert isinstance(message, InsertMessage)
    assert message.retries > 0
    assert insert.commit([message]) == ROWS
    check_all_in_order(pravega, padded, ROWS)


def test_more_segments_than_connections(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    table = StreamTable(new_stream(40), "json", "none", PADDED, routing_key="v")
    insert = Insert.begin(pravega, table, SETTINGS)
    lose(insert, ROWS // 2)
    message = write(insert, batches())
    assert len(message.segments) == 40
    assert insert.commit([message]) == ROWS
    found = [int(re.findall(rb'"v":(\d+)', event)[0]) for event in visible(pravega, table.stream)]
    assert sorted(found) == list(range(ROWS))


def test_a_copy_that_fails_in_one_segment(
    pravega: Pravega, padded: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is visible, and both transactions are gone."""
    insert = Insert.begin(pravega, padded, SETTINGS)
    lose(insert, ROWS // 2)
    message = write(insert, batches())
    last, fresh = max(message.segments), list[uuid.UUID]()
    copy = sealing._Copying.copy

    def fail(self: sealing._Copying, segment_id: int, ranges: Iterable[tuple[int, int]]) -> None:
        fresh.append(self.target)
        if segment_id == last:
            raise ServerUnavailableError("the segment store cannot be reached")
        copy(self, segment_id, ranges)

    monkeypatch.setattr(sealing._Copying, "copy", fail)
    with pytest.raises(ServerUnavailableError, match="No row of this INSERT is visible; run it again"):
        insert.commit([message])
    assert visible(pravega, padded.stream) == []
    for transaction in (insert.transaction.id, fresh[0]):
        status = pravega.controller.transaction_status(padded.stream, transaction)
        assert status in (TransactionStatus.ABORTED, TransactionStatus.ABORTING)


def test_a_stream_that_was_scaled_meanwhile(pravega: Pravega, padded: StreamTable) -> None:
    """Its present segments cannot take a copy, for events do not tell their keys. Without one, nothing changes."""
    for lost, middle in ((0, 0.3), (ROWS // 2, 0.4)):
        insert = Insert.begin(pravega, padded, SETTINGS)
        if lost:
            lose(insert, lost)
        message = write(insert, batches())
        ids = [segment.segment_id for segment in pravega.controller.current_segments(padded.stream)]
        pravega.controller.scale_stream(padded.stream, ids, [(0.0, middle), (middle, 0.7), (0.7, 1.0)])
        if lost:
            with pytest.raises(TransactionMismatchError, match=r"was scaled while .* run it again"):
                insert.commit([message])
        else:
            assert insert.commit([message]) == ROWS
    check_all_in_order(pravega, padded, ROWS)


def test_a_transaction_that_ends_while_a_task_appends(pravega: Pravega, padded: StreamTable) -> None:
    insert = Insert.begin(pravega, padded, SETTINGS)

    def abort(first: int) -> None:
        if first == ROWS // 2:
            pravega.controller.abort_transaction(padded.stream, insert.transaction.id)
            ended = (TransactionStatus.ABORTED,)
            wait_until(lambda: insert.transaction.status() in ended, "the end of the transaction")

    with pytest.raises(PravegaError, match=f"Transaction {insert.transaction.id} .*was aborted"):
        write(insert, batches(before=abort))


def test_adjacent_ranges_of_different_tasks_are_one() -> None:
    def report(*ranges: tuple[int, int]) -> InsertMessage:
        return InsertMessage(0, 1, {7: SegmentWrite(1, 1, ranges, False)})

    assert find_winning_ranges([report((0, 10), (20, 30)), report((10, 20)), report((40, 50))]) == {
        7: [(0, 30), (40, 50)]
    }


PEAKS = (60, 300)
"""Megabytes that a task writes."""


def peak_of(config: ClientConfig, stream: Stream, megabytes: int) -> int:
    """Run a task of so many megabytes in this process; return the most bytes of memory that it has had."""

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(megabytes):
            yield pa.record_batch([pa.array([b"x" * 1000] * 1000, pa.binary())], names=["event"])

    with connect(config) as pravega:
        insert = Insert.begin(pravega, raw_table(stream), replace(SETTINGS, spool_memory=1 << 22))
        message = InsertWriter(insert.spec(RAW_SCHEMA)).write(rows())
        assert isinstance(message, InsertMessage) and message.bytes > megabytes * 1_000_000
        insert.abort()
    found = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def test_memory_does_not_grow_with_the_task(client_config: ClientConfig, new_stream: Callable[..., Stream]) -> None:
    stream, peaks = new_stream(2), []
    for megabytes in PEAKS:
        with SPAWN.Pool(1) as pool:
            peaks.append(pool.apply(peak_of, (client_config, stream, megabytes)))
    assert peaks[1] - peaks[0] < 16 << 20, peaks
