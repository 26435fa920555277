"""Writes files of a lake, in tasks: each has events of one segment and one partition, in their order."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StringType, StructField, StructType

from .iceberg import UNPARTITIONED, FileIO
from .lake_columns import OFFSET, TIME, UNITS
from .lake_files import name_file

_GROUP_BYTES = 64 << 20
"""Bytes of Arrow's memory in a row group: about 128 MB of events as JSON."""
FILE_BYTES = 128 << 20
"""Bytes of a file after which the next one begins. A file is what one task reads, as Parquet's row groups are large."""
FILES = StructType([StructField("file", StringType())])
"""The rows of tasks: a file with its number of rows, as JSON."""


@dataclass(frozen=True)
class NewFiles:
    """What tasks need to write files: their columns, the storage, the folder there, and the unit of its partitions."""

    schema: pa.Schema
    io: FileIO = field(repr=False)
    folder: str
    unit: str


class FileWriter:
    """Writes the files of one slice of a segment, whose events come in their order; `written` gets a text for each."""

    def __init__(self, target: NewFiles, written: list[str]) -> None:
        self._target, self._written = target, written
        self._pending: list[pa.RecordBatch] = []
        self._part: int | None = None
        self._sink: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._path, self._rows = "", 0

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, type: object, *_: object) -> None:
        if type is None:
            self._end_file()
        elif self._sink is not None:
            self._sink.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write events. Those of another partition begin a file."""
        parts = _number_partitions(batch.column(TIME), self._target.unit)
        borders = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        for start, end in pairwise(borders):
            if end == start:
                continue
            if parts[start] != self._part:
                self._end_file()
                self._part = int(parts[start])
            self._pending.append(batch.slice(start, end - start))
            if sum(one.nbytes for one in self._pending) >= _GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        if self._writer is None:
            self._path = f"{self._target.folder}/{name_file(uuid.uuid4().hex)}"
            self._sink = self._target.io.new_output(self._path).create()
            names = [name for name in self._target.schema.names if name != OFFSET]
            encodings = {OFFSET: "DELTA_BINARY_PACKED"}
            # Without Arrow's own schema in it, all readers get a text as the same type, whichever wrote it.
            self._writer = pq.ParquetWriter(
                self._sink,
                self._target.schema,
                compression="zstd",
                use_dictionary=names,
                column_encoding=encodings,
                store_schema=False,
            )
        group = pa.Table.from_batches(self._pending)
        self._writer.write_table(group, row_group_size=max(len(group), 1))
        self._rows += len(group)
        self._pending = []
        if self._sink.tell() >= FILE_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._pending:
            self._write_group()
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
            self._written.append(json.dumps([self._path, self._rows]))
        self._writer, self._sink, self._rows = None, None, 0


def _number_partitions(times: pa.Array, unit: str) -> npt.NDArray[np.int64]:
    """Return a number for the partition of each time; a missing time has that of a moment before 1970."""
    numbers = times.cast(pa.int64()).fill_null(-1).to_numpy()
    if unit == UNPARTITIONED:
        return np.zeros(len(numbers), np.int64)
    parts: npt.NDArray[np.int64] = numbers.astype("M8[us]").astype(f"M8[{UNITS[unit]}]").astype(np.int64)
    return parts


def make_rows(written: Sequence[str]) -> pa.RecordBatch:
    """Return the rows of a task that has written files."""
    return pa.record_batch([pa.array(written, pa.string())], names=FILES.names)


def read_rows(rows: Sequence[str]) -> tuple[list[str], int]:
    """Return the paths of all files that tasks have written, and how many rows these have together."""
    files = [json.loads(row) for row in rows]
    return [path for path, _ in files], sum(count for _, count in files)
