"""The task's side of UPDATE, DELETE and MERGE on a table of changes: writes changes of rows as events."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import CharType, StructType

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.client.segments.event_frames import frame_by_place
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.errors import shorten
from pyspark_pravega.formats.changes import feed
from pyspark_pravega.formats.core.writing import spread

from ..commit_log.log_table import ChangeCounts
from ..tables.row_keys import KeyPositions, write_primary_key
from .reports import InsertMessage, SegmentWrite
from .task import InsertSpec, InsertWriter, TaskRows
from .task_output import TaskOutput

DELETED_BY = "deleted-by"
"""Not an option: the column of a write that says which rows are deleted."""
INSERTED, UPDATED, DELETED = "insert", "update", "delete"
"""The adapter's names of what Spark asks for."""
_NAMED = 10_000  # rows, of whose keys a task reports the texts, so that errors can name one
_LETTERS = {INSERTED: feed.CREATE, UPDATED: feed.UPDATE, DELETED: feed.DELETE}


class _KeyedRows(TaskRows):
    """Rows, with their keys for the report."""

    def __init__(self, spec: InsertSpec, partition: int, output: TaskOutput) -> None:
        super().__init__(spec, partition, output)
        self._write = write_primary_key(spec.table, spec.schema)
        self._keys: list[KeyPositions] = []
        self._names: list[str] = []

    def _note(self, rows: pa.RecordBatch) -> None:
        super()._note(rows)
        keys = self._write(rows)
        self._keys.append(hash_keys(keys))
        self._names += map(shorten, keys.slice(0, _NAMED - len(self._names)).to_pylist())

    def report(self, finished: Mapping[SegmentAddress, SegmentWrite]) -> InsertMessage:
        report = super().report(finished)
        report.keys = report.created = np.concatenate([np.zeros(0), *self._keys])
        report.key_names = self._names
        return report


class _Changes(TaskRows):
    """The changes of a task, each routed by the key of its row."""

    def __init__(self, spec: InsertSpec, partition: int, output: TaskOutput) -> None:
        super().__init__(spec, partition, output)
        self._counts = Counter[str]()

    def _take(self, batch: pa.RecordBatch) -> None:
        changes = self._read(batch)
        payloads = cast(feed.ChangeEncoder, self._encoder).encode_changes(changes)
        is_written = payloads.is_valid()
        rows = _choose_rows(changes).filter(is_written)
        frame_by_place(payloads.drop_null(), self._router.places(rows), len(self._segments), self._find_room)
        self._output.take_filled()
        self._note(rows)
        self._note_letters(changes.operations.filter(is_written))

    def _note_letters(self, letters: pa.StringArray) -> None:
        """Note the letters of the changes whose rows were noted last."""
        self._counts.update(letters.to_pylist())

    def report(self, finished: Mapping[SegmentAddress, SegmentWrite]) -> InsertMessage:
        report = super().report(finished)
        report.changes = ChangeCounts(*(self._counts[letter] for letter in (feed.CREATE, feed.UPDATE, feed.DELETE)))
        return report

    @abstractmethod
    def _read(self, batch: pa.RecordBatch) -> feed.RowChanges:
        """Return the changes that rows of Spark stand for. Raises InvalidRowError."""


class _ChangedRows(_Changes, _KeyedRows):
    """The changes that a statement makes, with the keys of their rows."""

    def __init__(self, spec: InsertSpec, partition: int, output: TaskOutput) -> None:
        super().__init__(spec, partition, output)
        self._key = feed.list_key_columns(spec.table.settings)
        self._chars = [name for name in self._key if isinstance(spec.table.schema[name].dataType, CharType)]
        self._created: list[KeyPositions] = []

    def _note_letters(self, letters: pa.StringArray) -> None:
        super()._note_letters(letters)
        self._created.append(self._keys[-1][pc.equal(letters, feed.CREATE).to_numpy(zero_copy_only=False)])

    def report(self, finished: Mapping[SegmentAddress, SegmentWrite]) -> InsertMessage:
        report = super().report(finished)
        report.created = np.concatenate([np.zeros(0), *self._created])
        return report

    def _read(self, batch: pa.RecordBatch) -> feed.RowChanges:
        """Return the changes. An update of the key is a deletion and a creation."""
        letters = pa.array([_LETTERS[name] for name in batch.column("operation").to_pylist()], pa.string())
        former = _make_nullable(batch.column("former").flatten()[0])
        row = (
            _make_nullable(batch.column("row")) if "row" in batch.schema.names else pa.nulls(len(letters), former.type)
        )
        fitted = self._fit(pa.RecordBatch.from_struct_array(row.drop_null())).to_struct_array()
        row = spread(fitted, row.is_valid().to_numpy(zero_copy_only=False))
        row = _keep_unpadded(former, row, self._chars)
        is_moved = pc.equal(letters, feed.UPDATE).to_numpy(zero_copy_only=False) & _differ(former, row, self._key)
        if not is_moved.any():
            return feed.RowChanges(letters, former, row)
        twice = np.repeat(np.arange(len(letters)), is_moved + 1)
        is_second = np.append(False, twice[1:] == twice[:-1])
        is_first = is_moved[twice] & ~is_second
        letters = letters.take(pa.array(twice))
        letters = pc.if_else(pa.array(is_first), feed.DELETE, pc.if_else(pa.array(is_second), feed.CREATE, letters))
        return feed.RowChanges(letters, _take(former, twice, is_second), _take(row, twice, is_first))


class _RepeatedRows(_Changes):
    """Rows that the table has already."""

    def _read(self, batch: pa.RecordBatch) -> feed.RowChanges:
        rows = _make_nullable(batch.to_struct_array())
        return feed.RowChanges(pa.array([feed.READ] * len(rows)), pa.nulls(len(rows), rows.type), rows)


class _RowsAndDeletions(_Changes):
    """Rows that replace those of their keys, and keys whose rows are deleted."""

    def __init__(self, spec: InsertSpec, partition: int, output: TaskOutput) -> None:
        self._column = spec.table.settings[DELETED_BY]
        columns = [field for field in spec.schema if field.name != self._column]
        super().__init__(replace(spec, schema=StructType(columns)), partition, output)

    def _read(self, batch: pa.RecordBatch) -> feed.RowChanges:
        is_deleted = pc.fill_null(batch.column(self._column), False)
        rows = _make_nullable(self._fit(batch.drop_columns([self._column])).to_struct_array())
        every, gone = np.arange(len(rows)), is_deleted.to_numpy(zero_copy_only=False)
        letters = pc.if_else(is_deleted, feed.DELETE, feed.CREATE)
        return feed.RowChanges(letters, _take(rows, every, ~gone), _take(rows, every, gone))


class ChangesWriter(InsertWriter):
    """Spark's writer for tasks. Its rows have an `operation`, the row `former`, and the new `row` if there can be one.

    `former` is a struct of one column with the whole row, as the scan of the statement has read it.
    """

    rows_of_task = _ChangedRows


class DeletingWriter(InsertWriter):
    """Spark's writer for tasks whose rows say, by the column of DELETED_BY, which of them are deleted."""

    rows_of_task = _RowsAndDeletions


class RepeatingWriter(InsertWriter):
    """Writes rows of the table again, as a snapshot reads them."""

    rows_of_task = _RepeatedRows


class KeyedRowsWriter(InsertWriter):
    """Spark's writer for tasks whose reports have the keys of the rows."""

    rows_of_task = _KeyedRows


def _make_nullable(images: pa.StructArray) -> pa.StructArray:
    """Return the images with columns that may be null, as they are where an image is."""
    fields = [field.with_nullable(True) for field in images.type]
    return pa.StructArray.from_arrays(images.flatten(), fields=fields, mask=images.is_null())


def _keep_unpadded(former: pa.StructArray, row: pa.StructArray, names: Sequence[str]) -> pa.StructArray:
    """Return the rows with former values in those of these columns that differ only in blanks at the end.

    Others may write CHAR keys without padding, and an event with padding would be about another key.
    """
    if not names:
        return row
    columns = dict(zip(row.type.names, row.flatten(), strict=True))
    for name in names:
        before = pc.struct_field(former, name)
        is_same = pc.equal(*(pc.utf8_rtrim(texts, " ") for texts in (before, columns[name])))
        columns[name] = pc.if_else(pc.fill_null(is_same, False), before, columns[name])
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(row.type), mask=row.is_null())


def _take(images: pa.StructArray, entries: npt.NDArray[np.int64], is_absent: npt.NDArray[np.bool_]) -> pa.StructArray:
    return images.take(pa.array(entries, mask=is_absent))


def _differ(former: pa.StructArray, row: pa.StructArray, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which rows have other values in some of these columns; false where one of both rows is absent."""
    differ = np.zeros(len(former), np.bool_)
    for name in names:
        columns = (pc.struct_field(images, name) for images in (former, row))
        differ |= pc.fill_null(pc.not_equal(*columns), False).to_numpy(zero_copy_only=False)
    return differ


def _choose_rows(changes: feed.RowChanges) -> pa.RecordBatch:
    """Return the row of each change: the new one, or the former one if it is deleted."""
    count = len(changes.operations)
    is_gone = changes.after.is_null().to_numpy(zero_copy_only=False)
    both = pa.concat_arrays([changes.after, changes.before])
    return pa.RecordBatch.from_struct_array(both.take(pa.array(np.arange(count) + count * is_gone)))
