"""The files of a lake that have the events of some slices, whoever wrote them, and what is read of them."""

from __future__ import annotations

import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyiceberg.catalog import load_catalog

from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.lake.file_writer import FileWriter, NewFiles, read_rows
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.lake_catalogs import open_catalog
from pyspark_pravega.datasource.lake.lake_columns import make_lake_schema
from pyspark_pravega.datasource.lake.lake_files import name_file
from pyspark_pravega.datasource.positions.lake_history import History
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.conditions import COLUMN, LITERAL, Condition, Term
from pyspark_pravega.datasource.scan.lake_reader import LakePartition, plan_lake, read_in_order
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, LakeError

STREAM = Stream("scope", "events")
SLICES = [SegmentSlice(segment, *ends) for segment in (0, 1, 2) for ends in ((0, 100), (5, 15), (20, 30))]


def load(settings: dict[str, str]) -> LakeTable:
    lake = LakeTable.load(json.dumps(settings), "ns.events")
    assert lake is not None
    return lake


def find(lake: LakeTable) -> list[list[tuple[int, int, bool]]]:
    listed = lake.find_files(STREAM, SLICES)
    assert listed == [files for piece in SLICES for files in lake.find_files(STREAM, [piece])]
    return [[(file.first, file.last, file.ordered) for file in files] for files in listed]


def test_files_of_slices(tmp_path: Path) -> None:
    """All at once are the same as one after the other."""
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}", "token": "no"}
    schema = make_lake_schema(T.StructType([T.StructField("id", T.LongType())]))
    lake = LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM, "day")
    assert set(lake.io.properties) == {"warehouse"}
    cut, since = StreamCut(STREAM, {0: 0, 1: 0}), None
    for number, offset in enumerate((0, 10, 20)):
        paths = []
        for segment in (0, 1):
            place = {"_segment": make_segment_name(STREAM, segment), "_event_length": 1}
            rows = [{"id": 1, "_offset": offset + more, **place} for more in (0, 5)]
            paths.append(f"{lake.folder}/{name_file(f'{segment}-{number}')}")
            with lake.io.new_output(paths[-1]).create() as output:
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), output)
        until = History(cut, cut, number, {0: (0, offset + 10), 1: (0, offset + 10)}, frozenset(), 4 * number, None)
        lake.add_files(paths, since, until)
        since = until
    own = [(0, 5, True), (10, 15, True), (20, 25, True)]
    assert find(load(settings)) == [own, own[:2], own[2:]] * 2 + [[]] * 3

    iceberg = load_catalog("lake", **settings).load_table("ns.events")
    iceberg.overwrite(iceberg.scan().to_arrow())
    rewritten = [(0, 25, False)]
    assert find(load(settings)) == [rewritten] * 6 + [[]] * 3


def compare(column: str, operator: str, value: int) -> Condition:
    return Condition(
        (Term(COLUMN, 0, None, column), Term(LITERAL, 0, "timestamp", str(value)), Term(operator, 2, None, None))
    )


def count_read_bytes(partitions: list[LakePartition], columns: list[str]) -> tuple[int, int]:
    """Read some partitions; return how many bytes that took, as the kernel counts them, and the number of rows."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before, rows = count(), 0
    for partition in partitions:
        segment = make_segment_name(STREAM, partition.read.segment_id)
        rows += sum(len(batch) for batch in read_in_order(partition, segment, columns))
    return count() - before, rows


def test_a_condition_that_keeps_one_day_of_thirty_reads_that_day(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    columns = T.StructType([T.StructField("at", T.TimestampType()), T.StructField("text", T.StringType())])
    schema = make_lake_schema(columns)
    lake = LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM, "day")
    days, of_day, second, random, written = 30, 30_000, 1_000_000, Random(5), list[str]()
    with FileWriter(NewFiles(schema, lake.io, lake.folder, lake.unit), written) as files:
        for day in range(days):
            times = [(day * 86_400 + number * 2) * second for number in range(of_day)]
            rows = {
                "at": pa.array(times, pa.timestamp("us", "UTC")),
                "text": [random.randbytes(50).hex() for _ in times],
                "_segment": [make_segment_name(STREAM, 0)] * of_day,
                "_offset": range(day * of_day, (day + 1) * of_day),
                "_event_length": [80] * of_day,
                "_commit_timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            }
            missing = {field.name: pa.nulls(of_day, field.type) for field in schema if field.name not in rows}
            files.write(pa.RecordBatch.from_pydict(rows | missing, schema=schema))
    paths, count = read_rows(written)
    assert len(paths) == days
    cut = StreamCut(STREAM, {0: count})
    lake.add_files(paths, None, History(cut, cut, 1, {0: (0, count)}, frozenset(), count, None))
    table, pieces = StreamTable(STREAM, "json", "none", columns), [SegmentSlice(0, 0, count)]

    def plan(*conditions: Condition) -> list[LakePartition]:
        return plan_lake(load(settings), table, pieces, conditions, in_order=False)

    every = plan()
    [day_file] = every[12].files
    day = 12 * 86_400 * second
    wanted = plan(compare("at", ">=", day), compare("at", "<", day + 86_400 * second))
    read, rows_read = count_read_bytes(wanted, schema.names)
    assert rows_read == of_day and read <= 1.1 * day_file.bytes
    read_of_all, rows_of_all = count_read_bytes(every, schema.names)
    assert rows_of_all == count and read_of_all > 25 * read
    # Of the columns, only those that a query names are read.
    assert count_read_bytes(wanted, ["at"])[0] < read // 4
    print(f"{read} bytes of a file with {day_file.bytes}, of {read_of_all}")


def test_columns_of_bad_events_are_read_only_of_files_that_may_have_some(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    columns, segment = T.StructType([T.StructField("id", T.LongType())]), make_segment_name(STREAM, 0)
    lake = LakeTable.create(json.dumps(settings), "ns.events", make_lake_schema(columns), STREAM, "none")
    contents: list[tuple[bool, list[str | None]]] = [
        (True, [None] * 4),
        (True, [None, None, None, "bad"]),
        (False, [None] * 4),
        (False, [None, "bad", None, None]),
    ]
    paths, rows = list[str](), list[dict[str, Any]]()
    for number, (has_statistics, errors) in enumerate(contents):
        paths.append(f"{lake.folder}/{name_file(str(number))}")
        places = [{"_segment": segment, "_offset": number * 4 + index} for index in range(4)]
        values = [{"_error": error, "_raw": error and b"x"} for error in errors]
        rows += values
        table = pa.Table.from_pylist([a | b for a, b in zip(places, values, strict=True)], schema=lake.schema)
        counted = True if has_statistics else ["_segment", "_offset"]
        with lake.io.new_output(paths[-1]).create() as output:
            pq.write_table(table, output, row_group_size=2, write_statistics=counted)
    cut = StreamCut(STREAM, {0: 16})
    lake.add_files(paths, None, History(cut, cut, 1, {0: (0, 16)}, frozenset(), 16, None))
    slices = [SegmentSlice(0, 0, 16)]
    [partition] = plan_lake(load(settings), StreamTable(STREAM, "json", "none", columns), slices, [], in_order=True)
    assert [sorted(file.empty) for file in partition.files] == [["_error", "_raw"], [], [], []]
    batches = read_in_order(partition, segment, ["_error", "_raw"])
    assert [row for batch in batches for row in batch.to_pylist()] == rows


def test_orphans_are_old_files_that_no_snapshot_has(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    schema = make_lake_schema(T.StructType([T.StructField("id", T.LongType())]))
    lake = LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM, "day")
    folder = Path(lake.folder.removeprefix("file://"))
    assert lake.find_orphans(time.time()) == {}, "there is no folder yet"
    paths = []
    for number in range(4):
        row = {"id": number, "_segment": "s", "_offset": number, "_event_length": 1}
        paths.append(f"{lake.folder}/{name_file(str(number))}")
        with lake.io.new_output(paths[-1]).create() as output:
            pq.write_table(pa.Table.from_pylist([row], schema=schema), output)
        os.utime(folder / name_file(str(number)), (1_000 + number, 1_000 + number))
    (folder / "of-another-program.parquet").write_bytes(b"")
    os.utime(folder / "of-another-program.parquet", (1, 1))
    cut = StreamCut(STREAM, {0: 4})
    lake.add_files(paths[:1], None, History(cut, cut, 1, {0: (0, 1)}, frozenset(), 1, None))
    # A former snapshot has this file, and the newest one has not.
    lake.replace_files(paths[:1], paths[1:2], 1)
    size = (folder / name_file("2")).stat().st_size
    assert load(settings).find_orphans(1_003) == {paths[2]: size}
    assert load(settings).find_orphans(1_004) == {paths[2]: size, paths[3]: size}
    lake.remove_files([paths[2]])
    assert sorted(path.name for path in folder.iterdir()) == [
        "of-another-program.parquet",
        *(name_file(number) for number in "013"),
    ]


@pytest.mark.parametrize(
    ("unit", "files"), [("none", [7]), ("month", [1, 4, 2]), ("day", [1, 2, 2, 2]), ("hour", [1, 1, 1, 2, 2])]
)
def test_files_have_the_events_of_one_partition(tmp_path: Path, unit: str, files: list[int]) -> None:
    """The first event has no version, and the others are of two hours of one day, another day, and another month."""
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    schema = make_lake_schema(T.StructType([T.StructField("id", T.LongType())]))
    lake, written = LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM, unit), list[str]()
    moments = ["2024-02-01 10:59:59", "2024-02-01 11:00:00", *["2024-02-29 23:59:59"] * 2, *["2024-03-01 00:00:00"] * 2]
    times = [None, *(datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in moments)]
    rows = {"_commit_timestamp": times, "_segment": [make_segment_name(STREAM, 0)] * 7, "_offset": range(7)}
    with FileWriter(NewFiles(schema, lake.io, lake.folder, lake.unit), written) as writer:
        columns = {field.name: pa.array(rows.get(field.name, [None] * 7), field.type) for field in schema}
        writer.write(pa.RecordBatch.from_pydict(columns, schema=schema))
    assert [count for _, count in map(json.loads, written)] == files
    cut = StreamCut(STREAM, {0: 7})
    lake.add_files(read_rows(written)[0], None, History(cut, cut, 1, {0: (0, 7)}, frozenset(), 7, None))
    assert load(settings).unit == unit
    assert len(load(settings).find_files(STREAM, [SegmentSlice(0, 0, 7)])[0]) == len(files)
    lake.check_origin(STREAM, unit)
    other = "day" if unit == "hour" else "hour"
    told = rf"'lake.partition-by'='{unit}', and the table has 'lake.partition-by'='{other}' \('day' if it is not set\)"
    with pytest.raises(LakeError, match=told):
        lake.check_origin(STREAM, other)


@pytest.mark.parametrize(("column", "transform"), [("_commit_timestamp", "year"), ("_offset", "bucket[4]")])
def test_partitions_that_tier_cannot_make(tmp_path: Path, column: str, transform: str) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    schema = make_lake_schema(T.StructType([T.StructField("id", T.LongType())]))
    LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM, "none")
    with load_catalog("lake", **settings).load_table("ns.events").update_spec() as spec:
        spec.add_field(column, transform, "part")
    lake, told = load(settings), rf"'{re.escape(transform)}'\)\], .* of one hour or day or month of _commit_timestamp"
    for act in (lambda: lake.unit, lambda: lake.check_origin(STREAM, "day")):
        with pytest.raises(LakeError, match=told):
            act()


def test_a_catalog_that_cannot_be_opened() -> None:
    """Its properties may come from confs or the environment."""
    told = r"by its properties type, uri\. Correct .*<name>\.lake\.\*', or PRAVEGA_LAKE if no such conf is set"
    with pytest.raises(InvalidOptionError, match=told) as error:
        LakeTable.load(json.dumps({"type": "sql", "uri": "hidden"}), "ns.events")
    assert "hidden" not in str(error.value)


def test_threads_at_once_open_a_catalog_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = json.dumps({"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"})
    opened, barrier = list[str](), Barrier(8)

    def load_and_note(name: str, **properties: str) -> Any:
        opened.append(name)
        return load_catalog(name, **properties)

    def open_together(_: int) -> Any:
        barrier.wait()
        return open_catalog(settings)

    monkeypatch.setattr("pyiceberg.catalog.load_catalog", load_and_note)
    with ThreadPoolExecutor(8) as threads:
        catalogs = list(threads.map(open_together, range(8)))
    assert opened == ["lake"] and all(one is catalogs[0] for one in catalogs)
