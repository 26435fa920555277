"""The time that tasks have to look up keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.key_value.entry_scan import EntryScanReader, KeyPartition, open_entries
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.conditions import COLUMN, LITERAL, Condition, Term
from pyspark_pravega.datasource.scan.scan_request import WantedRows
from pyspark_pravega.datasource.tables.stream_table import KeyColumn, KeyColumns, StreamTable, make_entries_table
from pyspark_pravega.errors import ServerTimeoutError
from pyspark_pravega.sql import options as o
from tests.cutting_proxy import CuttingProxy

COLUMNS = StructType().add("id", IntegerType(), False).add("value", BinaryType())


@pytest.fixture
def table(pravega: Pravega, scope: str) -> Iterator[StreamTable]:
    """A key-value table with the entries 0 to 9."""
    found = make_entries_table(Stream(scope, "k"), "raw", COLUMNS, KeyColumns((KeyColumn("id", "int", 4),)))
    entries = open_entries(pravega, found)
    entries.create(1, 4)
    for number in range(10):
        entries.put(_key(number), b"%d" % number)
    yield found
    entries.drop()


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def plan(pravega: Pravega, table: StreamTable, options: Mapping[str, str]) -> EntryScanReader:
    """Plan a scan of two keys."""
    numbers = (Term(LITERAL, 0, "int", "3"), Term(LITERAL, 0, "int", "5"))
    condition = Condition((Term(COLUMN, 0, None, "id"), *numbers, Term("IN", 3, None, None)))
    opened = open_table(pravega, table, o.resolve(read=options))
    reader = opened._plan_rows(WantedRows(COLUMNS, conditions=[condition])).source.reader
    assert isinstance(reader, EntryScanReader)
    return reader


def test_lookups_in_time(pravega: Pravega, table: StreamTable) -> None:
    reader = plan(pravega, table, {"lookup-keys.timeout": "1min"})
    [partition] = reader.partitions()
    assert isinstance(partition, KeyPartition)
    rows = [row for batch in reader.batches(partition) for row in batch.to_pylist()]
    assert rows == [{"id": 3, "value": b"3"}, {"id": 5, "value": b"5"}]


def test_lookups_that_take_longer(pravega: Pravega, table: StreamTable) -> None:
    """The controller, which a task asks where the entries are, is away. Alone, each request tries for 10 minutes."""
    reader = plan(pravega, table, {"lookup-keys.timeout": "300ms"})
    [partition] = reader.partitions()
    assert isinstance(partition, KeyPartition)
    with closing(CuttingProxy(pravega.config.controller_endpoints[0])) as controller:
        address = f"tcp://localhost:{controller.endpoint.port}"
        reader.plan = replace(reader.plan, config=replace(pravega.config, controller_uri=address, retry_timeout=600))
        controller.away.set()
        controller.cut_all()
        with pytest.raises(ServerTimeoutError, match=r"the 2 keys of a task .* 'lookup-keys.timeout'='0.3s'"):
            list(reader.batches(partition))
