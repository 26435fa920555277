"""Writes without a transaction: every event is stored, those of a key in order, whatever is scaled meanwhile."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.wire.commands import MAX_BLOCK
from pyspark_pravega.datasource.insert.plain_task import PlainSpec, PlainWriter
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.tables.row_keys import KeyPositions, choose_key_positions
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import ServerUnavailableError, StreamSealedError
from tests.cutting_proxy import CuttingProxy
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.scans import KEYED, keyed_table, rows, scan, values

BATCHES = 12
EVENTS = 2000
KEYS = 20
HALVES = [(0.0, 0.5), (0.5, 1.0)]
PADDING = 10_000
PADDED = StructType([*KEYED, StructField("padding", StringType())])


def numbers(before: Callable[[int], None] = lambda number: None) -> Iterator[pa.RecordBatch]:
    """Batches of ascending numbers, each with the key number % KEYS; `before` is called before each batch."""
    for batch in range(BATCHES):
        before(batch)
        ascending = range(batch * EVENTS, (batch + 1) * EVENTS)
        columns = [pa.array([value % KEYS for value in ascending], pa.int32()), pa.array(ascending, pa.int64())]
        yield pa.record_batch(columns, names=["k", "v"])


def make_padded_rows(first: int, last: int) -> pa.RecordBatch:
    """The numbers from `first` to `last` - 1 with their keys, in much longer events."""
    ascending = range(first, last)
    columns = [
        pa.array([value % KEYS for value in ascending], pa.int32()),
        pa.array(ascending, pa.int64()),
        pa.array(["x" * PADDING] * len(ascending)),
    ]
    return pa.record_batch(columns, names=["k", "v", "padding"])


def write(
    pravega: Pravega, table: StreamTable, batches: Iterator[pa.RecordBatch], lossy: bool = False
) -> InsertMessage:
    """Run a task."""
    message = PlainWriter(PlainSpec(table, pravega.config, table.schema, None, lossy)).write(batches)
    assert isinstance(message, InsertMessage)
    return message


def check_all_in_order(pravega: Pravega, table: StreamTable, events: int = BATCHES * EVENTS) -> None:
    """All numbers are there once, and those of a key in their order: later segments have greater numbers."""
    found: list[dict[str, Any]] = rows(scan(pravega, table, ["k", "v", "_segment", "_offset"]))
    found.sort(key=lambda row: (int(re.match(r".*?(\d+)\.#epoch", row["_segment"])[1]), row["_offset"]))
    assert sorted(row["v"] for row in found) == list(range(events))
    for key in range(KEYS):
        numbers_of_key = [row["v"] for row in found if row["k"] == key]
        assert numbers_of_key == list(range(key, events, KEYS))


def test_rows_without_keys_are_spread_and_small_batches_are_not_cut() -> None:
    table = replace(keyed_table(Stream("scope", "stream")), routing_key=None)
    positions = choose_key_positions(table, table.schema)

    def position(size: int) -> KeyPositions:
        return positions(pa.record_batch({"k": pa.array(range(size), pa.int32())}))

    small = [position(size) for size in (1, 2, 999) * 40]
    assert all(len(set(of_batch.tolist())) == 1 for of_batch in small)
    in_quarters = np.histogram([of_batch[0] for of_batch in small], 4, (0, 1))[0]
    assert all(25 <= count <= 35 for count in in_quarters.tolist())
    large = np.histogram(position(4000), 4, (0, 1))[0]
    assert all(999 <= count <= 1001 for count in large.tolist())


@pytest.mark.parametrize("keyed", [True, False])
def test_everything_is_stored_while_the_stream_is_scaled(
    pravega: Pravega, new_stream: Callable[..., Stream], keyed: bool
) -> None:
    stream = new_stream(1)
    table = replace(keyed_table(stream), routing_key="k" if keyed else None)

    def scale(number: int) -> None:
        if number % 3 == 1:
            ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
            pravega.controller.scale_stream(stream, ids, HALVES if len(ids) == 1 else [(0.0, 1.0)])

    message = write(pravega, table, numbers(scale))
    assert (message.rows, message.lost) == (BATCHES * EVENTS, 0)
    if keyed:
        check_all_in_order(pravega, table)
    else:
        assert values(scan(pravega, table)) == list(range(BATCHES * EVENTS))


def test_a_batch_of_several_blocks_for_a_segment_that_is_sealed(
    pravega: Pravega, new_stream: Callable[..., Stream]
) -> None:
    """Spark's batches are longer than a block if their rows are: no part of one is forgotten."""
    assert (EVENTS - KEYS) * PADDING > MAX_BLOCK
    stream = new_stream(1)
    table = StreamTable(stream, "json", "none", PADDED, routing_key="k")

    def batches() -> Iterator[pa.RecordBatch]:
        yield make_padded_rows(0, KEYS)
        pravega.controller.scale_stream(stream, [0], HALVES)
        yield make_padded_rows(KEYS, EVENTS)
        ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        pravega.controller.scale_stream(stream, ids, [(0.0, 1.0)])
        yield make_padded_rows(EVENTS, EVENTS + KEYS)

    message = write(pravega, table, batches())
    assert (message.rows, message.lost) == (EVENTS + KEYS, 0)
    check_all_in_order(pravega, table, EVENTS + KEYS)


def test_what_is_lost_while_the_stream_is_scaled(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The controller is away when the segments are sealed: what was for the other ones is lost, too."""
    stream = new_stream(2)
    table = StreamTable(stream, "json", "none", PADDED, routing_key="k")
    controller = CuttingProxy(pravega.config.controller_endpoints[0])
    config = replace(
        pravega.config,
        controller_uri=f"tcp://localhost:{controller.endpoint.port}",
        retry_timeout=0.5,
        request_timeout=0.5,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        yield make_padded_rows(0, KEYS)
        ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        wait_until(lambda: len(values(scan(pravega, table))) == KEYS, "the first rows")
        pravega.controller.scale_stream(stream, ids, [(0.0, 0.25), (0.25, 0.5), (0.5, 1.0)])
        controller.away.set()
        controller.cut_all()
        yield make_padded_rows(KEYS, EVENTS)
        yield make_padded_rows(EVENTS, EVENTS + KEYS)

    try:
        message = PlainWriter(PlainSpec(table, config, table.schema, None, True)).write(batches())
    finally:
        controller.close()
    assert isinstance(message, InsertMessage)
    assert message.rows + message.lost == EVENTS + KEYS
    # The last acknowledgements may not have been read.
    assert values(scan(pravega, table)) == list(range(KEYS)) and message.rows <= KEYS


def test_scaling_at_any_moment_of_the_writing(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Segments are sealed under blocks that are on their way."""
    stream = new_stream(1)
    table, ended = keyed_table(stream), threading.Event()

    def scale() -> None:
        while not ended.is_set():
            ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
            pravega.controller.scale_stream(stream, ids, HALVES if len(ids) == 1 else [(0.0, 1.0)])

    scaling = threading.Thread(target=scale)
    scaling.start()
    try:
        message = write(pravega, table, numbers())
    finally:
        ended.set()
        scaling.join()
    assert message.rows == BATCHES * EVENTS
    check_all_in_order(pravega, table)


def test_a_stream_that_is_sealed_while_it_is_written(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)

    def seal(number: int) -> None:
        if number == 3:
            pravega.controller.seal_stream(stream)

    with pytest.raises(StreamSealedError, match=str(stream)):
        write(pravega, keyed_table(stream), numbers(seal))


@pytest.mark.parametrize("lossy", [True, False])
def test_servers_that_are_away(pravega: Pravega, new_stream: Callable[..., Stream], lossy: bool) -> None:
    table = keyed_table(new_stream())
    with socket.socket() as held:  # bound but not listening: it refuses connections
        held.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        config = replace(pravega.config, controller_uri=address, retry_timeout=0.5, request_timeout=0.5)
        writer = PlainWriter(PlainSpec(table, config, table.schema, None, lossy))
        if lossy:
            message = writer.write(numbers())
            assert isinstance(message, InsertMessage)
            assert (message.rows, message.lost) == (0, BATCHES * EVENTS)
        else:
            with pytest.raises(ServerUnavailableError, match="cannot be reached"):
                writer.write(numbers())
