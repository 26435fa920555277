"""Offsets in checkpoints: every format ever written is read, and what does not fit is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.changes_offset import ChangesOffset
from pyspark_pravega.datasource.stream_source.merged_source import MergedOffset
from pyspark_pravega.datasource.stream_source.offset import SourceOffset, check_offset, list_columns_read
from pyspark_pravega.errors import CheckpointError

GOLDEN = Path(__file__).parent / "golden"
"""Texts as they stand in checkpoints. None may be changed: a new format gets new files."""
STREAM = Stream("plant", "temperatures")
CUT = StreamCut(STREAM, {1: 4096, 1 << 32 | 2: 0})
COLUMNS = {"id": "int", "place": "string"}
BEGIN = StreamCut(STREAM, {0: 100, 1: 17})
SOURCE_OFFSETS = {
    "table-1.json": SourceOffset(CUT, "plant/temperatures/0", COLUMNS),
    "table-1-first.json": SourceOffset(CUT, "plant/temperatures/0", COLUMNS, BEGIN.positions),
    "table-1-marks.json": SourceOffset(CUT, "plant/temperatures/0", COLUMNS, marks=512),
    "table-1-reader.json": SourceOffset(CUT, None, COLUMNS),
    "table-1-created.json": SourceOffset(CUT, "plant/temperatures/0@1:1795850000123", COLUMNS),
    "table-1-reader-created.json": SourceOffset(CUT, "@1:1795850000123", COLUMNS),
}
SEVERAL_OFFSETS = {
    "several-1.json": MergedOffset(
        {
            "pressures$valve": SourceOffset(StreamCut(Stream("plant", "pressures"), {0: 17}), None, {"id": "int"}),
            "temperatures": SOURCE_OFFSETS["table-1-first.json"],
        }
    ),
    "several-1-time.json": MergedOffset({"temperatures": SOURCE_OFFSETS["table-1-marks.json"]}, 1795850000123),
}
POSITIONS = {
    "changes-0.json": ChangesOffset(CUT, 12, ChangesOffset(BEGIN, 0)),
    "changes-0-begin.json": ChangesOffset(BEGIN, 0),
    "changes-0-created.json": ChangesOffset(CUT, 12, ChangesOffset(BEGIN, 0), created=(1, 1795850000123)),
    "changes-0-known.json": ChangesOffset(CUT, 12, ChangesOffset(BEGIN, 0), known=15, created=(1, 1795850000123)),
}


def test_there_is_an_example_of_every_format() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {*SOURCE_OFFSETS, *SEVERAL_OFFSETS, *POSITIONS}


@pytest.mark.parametrize("name", SOURCE_OFFSETS)
def test_offsets_of_tables(name: str) -> None:
    text = (GOLDEN / name).read_text().strip()
    assert SourceOffset.from_json(text) == SOURCE_OFFSETS[name]
    assert SOURCE_OFFSETS[name].to_json() == text  # of the newest format only


@pytest.mark.parametrize("name", SEVERAL_OFFSETS)
def test_offsets_of_several_streams(name: str) -> None:
    text = (GOLDEN / name).read_text().strip()
    assert MergedOffset.from_json(text) == SEVERAL_OFFSETS[name]
    assert SEVERAL_OFFSETS[name].to_json() == text  # of the newest format only


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": 2, "streams": {}}', "has format 2, but this version of pyspark-pravega knows formats up to 1"),
        ('{"format": 1, "streams": []}', "is not one of several streams"),
        ('{"format": 1, "streams": {"a": {"format": 1}}}', "its offset .* is not one that a Pravega"),
        (SOURCE_OFFSETS["table-1.json"].to_json(), "is not one of several streams"),
        ("{", "is not one of several streams"),
    ],
)
def test_texts_that_are_no_offset_of_several_streams(text: str, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        MergedOffset.from_json(text)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_of_streams_of_changes(name: str) -> None:
    text = (GOLDEN / name).read_text().strip()
    assert ChangesOffset.from_json(text) == POSITIONS[name]
    assert POSITIONS[name].to_json() == text  # of the newest format only


def change_members(**members: Any) -> str:
    return json.dumps({**json.loads(SOURCE_OFFSETS["table-1.json"].to_json()), **members})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (change_members(format=2), "has format 2, but this version of pyspark-pravega knows formats up to 1"),
        (change_members(positions=[]), "its offset .* is not one that a Pravega"),
        (change_members(positions={"x": 1}), "its offset .* is not one that a Pravega"),
        ('{"stream": "a/b", "version": 1, "positions": {}, "begin": null}', "its offset .* is not one that a Pravega"),
        ("17", "its offset .* is not one that a Pravega"),
        ("{", "its offset .* is not one that a Pravega"),
    ],
)
def test_texts_that_are_no_offset(text: str, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        SourceOffset.from_json(text)


def table(**columns: Any) -> StructType:
    return StructType([StructField(name, type()) for name, type in columns.items()])


def test_what_may_change_about_a_table() -> None:
    offset = SOURCE_OFFSETS["table-1-created.json"]
    identity = "plant/temperatures/0"
    # Nothing contradicts: a former release, a user who may only read, another segment, the same time.
    for known in (identity, None, "@2:7", f"{identity}@2:7", f"{identity}@1:1795850000123"):
        check_offset(offset, STREAM, known, table(id=IntegerType, place=StringType))
        check_offset(SOURCE_OFFSETS["table-1.json"], STREAM, known, table(id=IntegerType, place=StringType))
    check_offset(offset, STREAM, identity, table(id=IntegerType, place=StringType))
    check_offset(offset, STREAM, None, table(note=LongType, place=StringType, id=IntegerType))
    for stream, other, columns, words in (
        (Stream("plant", "t"), identity, table(id=IntegerType, place=StringType), "on stream plant/temperatures, but"),
        (STREAM, "plant/temperatures/4", table(id=IntegerType, place=StringType), "dropped and recreated"),
        (STREAM, f"{identity}@1:2", table(id=IntegerType, place=StringType), "1970-01-01 00:00:00.002.* in another cl"),
        (STREAM, "@1:2", table(id=IntegerType, place=StringType), "created at 2026-11-28 .* in another cluster"),
        (STREAM, identity, table(id=IntegerType), "read column place .string. of stream"),
        (STREAM, identity, table(id=LongType, place=StringType), "Column id of stream .* was int .* is bigint now"),
    ):
        with pytest.raises(CheckpointError, match=words):
            check_offset(offset, stream, other, columns)


def test_long_types_are_told_apart() -> None:
    long = StructType([StructField(f"field_{number}", IntegerType()) for number in range(20)])
    other = StructType([*long.fields[:-1], StructField("field_19", LongType())])
    first, second = (
        list_columns_read(one, one)
        for one in (StructType([StructField("s", column_type)]) for column_type in (long, other))
    )
    assert first["s"].startswith("struct:")
    assert len(first["s"]) < 30
    assert first != second
    assert list_columns_read(table(a=IntegerType, b=StringType), table(b=StringType, _offset=LongType)) == {
        "b": "string"
    }


@pytest.mark.parametrize("text", ["{", "[]", "{}", *(offset.to_json() for offset in SOURCE_OFFSETS.values())])
def test_positions_of_changes_are_not_offsets_of_tables(text: str) -> None:
    with pytest.raises(CheckpointError, match="is not one of a stream of changes. Start the query with a new"):
        ChangesOffset.from_json(text)
