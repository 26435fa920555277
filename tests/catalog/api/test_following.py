"""follow: every row once, in the order of its key, behind a position that can be stored."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog.api import following
from pyspark_pravega.catalog.api.scan import Scan, read_planned
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.errors import (
    CheckpointError,
    DataLossError,
    InvalidOptionError,
    InvalidSchemaError,
    UnsupportedOperationError,
)


def numbers(first: int, last: int) -> pa.Table:
    return pa.table({"k": pa.array([n % 10 for n in range(first, last)], pa.int32()), "n": range(first, last)})


@pytest.fixture
def table(api: PravegaCatalog, scope: str) -> Table:
    """Numbers, routed by their last digit, over 2 segments."""
    columns = pa.schema([("k", pa.int32()), ("n", pa.int64())])
    properties = {"routing-key": "k", "scaling.min-segments": "2"}
    return api.create_table(f"`{scope}`.numbers", columns, properties=properties)


def test_every_row_comes_once_in_the_order_of_its_key(pravega: Pravega, table: Table, scope: str) -> None:
    table.append(numbers(0, 5000))
    position, found, batches = None, [], 0
    for total in (5000, 5500, 6000):
        for new in table.follow(position=position, available_now=True, options={"max-rows-per-trigger": "700"}):
            assert new.rows.num_rows <= 700
            found += new.rows.to_pylist()
            position, batches = new.position, batches + 1
        assert len(found) == total
        if total == 5000:
            stream = Stream(scope, "numbers")
            first = pravega.controller.current_segments(stream)[0]
            middle = (first.min_key + first.max_key) / 2
            ranges = [(first.min_key, middle), (middle, first.max_key)]
            pravega.controller.scale_stream(stream, [first.segment_id], ranges)
        table.append(numbers(total, total + 500))
    assert batches >= 8
    assert sorted(row["n"] for row in found) == list(range(6000))
    for key in range(10):
        of_key = [row["n"] for row in found if row["k"] == key]
        assert of_key == sorted(of_key)


def test_parts_of_a_segment_are_read_side_by_side(
    api: PravegaCatalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 'unordered', a batch has as many tasks as are asked for; otherwise these options are refused."""
    table = api.create_table(f"`{scope}`.one", numbers(0, 1).schema, properties={"scaling.min-segments": "1"})
    for number in range(6):
        table.append(numbers(1000 * number, 1000 * (number + 1)))
    tasks: list[int] = []

    def note(scan: Scan, planned: PlannedScan) -> pa.Table:
        tasks.append(len(planned.reader.planned))
        return read_planned(scan, planned)

    monkeypatch.setattr(following, "read_planned", note)
    divided = {"min-partitions": "6"}
    choices: list[dict[str, str]] = [{}, {"unordered": "true", **divided}]
    for options in choices:
        [new] = table.follow(available_now=True, options=options)
        assert sorted(new.rows.column("n").to_pylist()) == list(range(6000))
    assert tasks == [1, 6]
    with pytest.raises(InvalidOptionError, match="'min-partitions'='6' is given, .* set 'unordered'='true'"):
        table.follow(options=divided)


def test_new_rows_come_as_they_are_appended(spark: SparkSession, table: Table) -> None:
    table.append(numbers(0, 10))

    def write() -> None:
        time.sleep(0.5)
        spark.sql(f"INSERT INTO {table.name} VALUES (1, 100)")
        table.append(numbers(10, 12))

    writer = threading.Thread(target=write)
    writer.start()
    found: list[int] = []
    for new in table.follow(["n"], start="latest", timeout=60):
        found += new.rows["n"].to_pylist()
        if len(found) == 3:
            break
    writer.join()
    assert sorted(found) == [10, 11, 100]
    assert list(table.follow(position=new.position, timeout=0)) == []


def test_filters_start_and_hidden_columns(table: Table) -> None:
    table.append(numbers(0, 100))
    table.append(numbers(100, 200))
    (new,) = table.follow(["n", "_offset"], pc.field("k") == 3, start=2, available_now=True)
    assert sorted(new.rows["n"].to_pylist()) == list(range(103, 200, 10))
    assert new.rows.schema.names == ["n", "_offset"] and all(new.rows["_offset"].to_pylist())
    (new,) = table.follow(filter=pc.field("n") < 0, available_now=True)
    assert new.rows.num_rows == 0 and list(table.follow(position=new.position, available_now=True)) == []


def test_retention_waits_until_the_next_rows_are_asked_for(
    api: PravegaCatalog, pravega: Pravega, table: Table, scope: str
) -> None:
    stream = Stream(scope, "numbers")

    def position() -> StreamCut | None:
        [consumer] = list_consumers(pravega, stream)
        return consumer.position

    table.set_properties({"retention.type": "size", "retention.minimum": "1g"})
    ends = [pravega.controller.head(stream)]
    options = {"consumer": "mine"}
    followed = table.follow(options=options)
    for first in (0, 100, 200):
        table.append(numbers(first, first + 100))
        ends.append(StreamCut.from_text(table.history()[-1].position))
        assert next(followed).rows["n"].to_pylist()
    del followed  # as at the end of a program
    assert position() == ends[2], "the program may not be done with the last rows"
    options |= {"start-stream-cut": "consumer"}
    [rest] = [new.rows["n"].to_pylist() for new in table.follow(options=options, available_now=True)]
    assert sorted(rest) == list(range(200, 300)) and position() == ends[3]


def test_positions_that_mean_nothing_any_more(api: PravegaCatalog, pravega: Pravega, table: Table, scope: str) -> None:
    few = {"max-rows-per-trigger": "10"}
    for first in (0, 100, 300):
        table.append(numbers(first, first + 100))
    begin = next(table.follow(options=few))
    other = api.create_table(f"`{scope}`.others", table.schema)
    with pytest.raises(CheckpointError, match="belongs to a query on stream"):
        other.follow(position=begin.position)
    with pytest.raises(CheckpointError, match="is damaged"):
        table.follow(position="{}")
    pravega.controller.truncate_stream(StreamCut.from_text(table.history()[1].position))
    with pytest.raises(DataLossError, match="were removed before this query could read them"):
        next(table.follow(position=begin.position))
    lossy = {"fail-on-data-loss": "false"}
    left = [each.rows["n"].to_pylist() for each in table.follow(position=begin.position, timeout=0, options=lossy)]
    assert sorted(number for each in left for number in each) == list(range(300, 400))


def test_mistakes_are_named(api: PravegaCatalog, table: Table, scope: str) -> None:
    properties = {"format": "kvtable", "primary-key": "id"}
    columns = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    entries = api.create_table(f"`{scope}`.entries", columns, properties=properties)
    with pytest.raises(UnsupportedOperationError, match=r"follow is not possible on .*entries: .*scan\(\)"):
        entries.follow()
    with pytest.raises(UnsupportedOperationError, match="_event_time"):
        table.follow(["_event_time"])
    with pytest.raises(InvalidSchemaError, match="There is no column m"):
        table.follow(["m"])
