"""The files of a lake that have the events of some slices, whoever wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from pyiceberg.catalog import load_catalog

from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.lake_columns import make_lake_schema
from pyspark_pravega.datasource.lake.lake_files import name_file
from pyspark_pravega.datasource.positions.lake_history import History
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice

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
    lake = LakeTable.create(json.dumps(settings), "ns.events", schema, STREAM)
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
