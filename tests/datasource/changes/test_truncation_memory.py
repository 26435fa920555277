"""Each event is searched for truncations once: what was found is remembered with the stream, and shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.truncations import TruncationMemory
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.ledger import read_ledger, read_ledgers
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.planned_scan import EarlierScan, PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest, Search
from pyspark_pravega.datasource.tables.stream_table import StreamTable, find_kind_of_format
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.sql.options import resolve
from tests.catalog.tables.test_debezium import write
from tests.datasource.scans import rows
from tests.datasource.transactions import remove_rows
from tests.debezium import Record

SEARCH = Search()
SCHEMA = StructType([StructField("id", LongType(), False), StructField("v", StringType())])
EXPLAIN = Search.of_request(None)


def change_table(stream: Stream) -> StreamTable:
    kind = find_kind_of_format("debezium-json")
    return StreamTable(stream, "debezium-json", "none", SCHEMA, settings={"primary-key": "id"}, kind=kind)


def event(op: str, at: int, key: int | None = None, v: str = "x") -> Record:
    after = None if key is None else {"id": key, "v": v}
    source = {"connector": "postgresql", "name": "n", "db": "d", "lsn": at, "ts_ms": at}
    value = json.dumps({"op": op, "before": None, "after": after, "source": source, "ts_ms": at})
    return Record(json.dumps({"id": key}), value.encode())


def plan_current_rows(pravega: Pravega, table: StreamTable, search: Search = SEARCH, **options: str) -> PlannedScan:
    read = resolve(read={name.replace("_", "-"): value for name, value in options.items()}, env={})
    return open_table(pravega, table, read).plan_scan(ScanRequest(SCHEMA, search=search))


def found(scan: PlannedScan) -> list[tuple[Any, ...]]:
    assert scan.whole
    return sorted((row["id"], row["v"]) for row in rows(scan))


def count_searched_bytes(pravega: Pravega, table: StreamTable) -> int:
    """How many bytes are known to have been searched."""
    return sum(last - first for first, last in TruncationMemory(pravega, table).recall().ranges.values())


@pytest.fixture
def table(pravega: Pravega, new_stream: Callable[..., Stream]) -> StreamTable:
    """Rows in several segments, of which one truncation clears those of the keys below 10."""
    stream = new_stream(3)
    events = [event("c", 10, key) for key in range(10)]
    write(pravega, stream, [*events, event("t", 20), *(event("c", 30, key) for key in range(10, 20))])
    return change_table(stream)


def size(pravega: Pravega, stream: Stream) -> int:
    ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    return sum(info.write_offset for info in pravega.segments.segment_infos(stream, ids).values())


def rest(keys: Sequence[int]) -> list[tuple[int, str]]:
    return [(key, "x") for key in keys]


def test_what_was_searched_is_known_to_others(
    pravega: Pravega, client_config: ClientConfig, table: StreamTable
) -> None:
    assert count_searched_bytes(pravega, table) == 0
    assert found(plan_current_rows(pravega, table)) == rest(range(10, 20))
    assert count_searched_bytes(pravega, table) == size(pravega, table.stream)
    with connect(client_config) as other:
        assert found(plan_current_rows(other, table, EXPLAIN)) == rest(range(10, 20)), "nothing is left to search"


def test_what_is_remembered_is_no_row_of_a_writer(pravega: Pravega, table: StreamTable) -> None:
    """Rows of both kinds stand in one table, beside the commits of the scope."""
    plan_current_rows(pravega, table)
    assert count_searched_bytes(pravega, table) > 0
    assert read_ledger(CommitLog(pravega, table.stream)) == []
    assert list(read_ledgers(pravega, table.stream.scope)) == []


def test_explain_searches_nothing(pravega: Pravega, table: StreamTable) -> None:
    shown = plan_current_rows(pravega, table, EXPLAIN)
    assert not shown.whole and shown.search is None
    assert shown.bytes == size(pravega, table.stream)
    assert count_searched_bytes(pravega, table) == 0


def test_only_new_events_are_searched(pravega: Pravega, table: StreamTable) -> None:
    plan_current_rows(pravega, table)
    before = size(pravega, table.stream)
    write(pravega, table.stream, [event("t", 40), event("c", 50, 3)])
    run = plan_current_rows(pravega, table, Search(most=1))
    assert run.search is not None
    pieces = [piece for partition in run.search.partitions() for piece in partition.pieces]  # type: ignore[attr-defined]
    assert sum(piece.end - piece.start for piece in pieces) == size(pravega, table.stream) - before
    assert found(plan_current_rows(pravega, table)) == [(3, "x")]
    assert len(TruncationMemory(pravega, table).recall().truncations) == 2


def test_many_bytes_are_searched_by_tasks(pravega: Pravega, table: StreamTable) -> None:
    run = plan_current_rows(pravega, table, Search(most=1))
    assert not run.whole and run.search is not None
    texts = [
        text
        for partition in run.search.partitions()
        for batch in run.search.read(partition)
        for text in batch.column("found").to_pylist()
    ]
    assert len(texts) == 3, "one task for each segment"
    assert found(plan_current_rows(pravega, table, Search(1, tuple(texts)))) == rest(range(10, 20))
    assert found(plan_current_rows(pravega, table, Search(1))) == rest(range(10, 20))


def test_the_end_of_a_scan_hides_later_truncations(pravega: Pravega, table: StreamTable) -> None:
    """What is remembered of the whole stream counts for each scan as far as it reads."""
    before = plan_current_rows(pravega, table)
    write(pravega, table.stream, [event("t", 40)])
    assert found(plan_current_rows(pravega, table)) == []
    request = ScanRequest(SCHEMA, earlier=EarlierScan(before.tail, before.newest))
    earlier = open_table(pravega, table, resolve(env={})).plan_scan(request)
    assert found(earlier) == rest(range(10, 20))


def test_truncations_that_retention_has_removed_count_no_more(pravega: Pravega, table: StreamTable) -> None:
    assert found(plan_current_rows(pravega, table)) == rest(range(10, 20))
    ids = [segment.segment_id for segment in pravega.controller.current_segments(table.stream)]
    infos = pravega.segments.segment_infos(table.stream, ids)
    memory = TruncationMemory(pravega, table).recall()
    [truncation] = memory.truncations
    assert truncation.segment in infos
    positions = dict.fromkeys(ids, 0) | {truncation.segment: infos[truncation.segment].write_offset}
    pravega.controller.truncate_stream(StreamCut(table.stream, positions))
    left = found(plan_current_rows(pravega, table))
    forgetful = replace(table, settings={**table.settings, "debezium.decimal": "string"})
    assert left == found(plan_current_rows(pravega, forgetful)), "as without a memory"
    assert set(left) & set(rest(range(10)))


def test_other_settings_have_a_memory_of_their_own(pravega: Pravega, table: StreamTable) -> None:
    plan_current_rows(pravega, table)
    other = replace(table, settings={**table.settings, "debezium.unavailable-value": "?"})
    assert count_searched_bytes(pravega, table) > 0
    assert count_searched_bytes(pravega, other) == 0
    same = replace(table, settings={**table.settings, "primary-key": "v"})
    assert count_searched_bytes(pravega, same) == count_searched_bytes(pravega, table)


def test_dropping_the_table_forgets(pravega: Pravega, table: StreamTable) -> None:
    plan_current_rows(pravega, table)
    remove_rows(CommitLog(pravega, table.stream))
    assert count_searched_bytes(pravega, table) == 0


def test_a_truncation_that_cannot_be_read_fails_the_query_alone(pravega: Pravega, table: StreamTable) -> None:
    write(pravega, table.stream, [Record(None, b'{"op":"t", ?}')])
    plan_current_rows(pravega, table, EXPLAIN)
    with pytest.raises(MalformedEventError, match="cannot be decoded"):
        plan_current_rows(pravega, table)
    assert count_searched_bytes(pravega, table) == 0, "a search that failed is done again"


@pytest.mark.parametrize("user", ["reader", "no-tables"])
def test_without_the_right_to_write(
    secure_client_config: Callable[..., ClientConfig], secure_scope: str, user: str
) -> None:
    stream = Stream(secure_scope, "stream")
    table = change_table(stream)
    with connect(secure_client_config()) as admin, connect(secure_client_config(user)) as reader:
        admin.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=3)))
        write(admin, stream, [event("c", 10, 1), event("t", 20), event("c", 30, 2)])
        assert found(plan_current_rows(reader, table)) == [(2, "x")]
        assert count_searched_bytes(reader, table) == size(admin, stream), "it is remembered in this process"
        assert count_searched_bytes(admin, table) == 0, "for its login"
        write(admin, stream, [event("t", 40), event("c", 50, 3)])
        assert found(plan_current_rows(reader, table)) == [(3, "x")]
