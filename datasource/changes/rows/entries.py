"""Turns changes of rows into entries for folds: one for each change of one key, in columns.

An entry has the values of its key and of the wanted columns, and the numbers that decide which of two entries of a key
counts: the kind of change, where the database made it, when the connector handled it, and where its event lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import DELETE, MARKS, OPERATIONS, READ, TRUNCATE, UPDATE, UPSERTS
from pyspark_pravega.formats.core.arrow_types import make_array

from .clearing import ENDS, MARKS_OF_SNAPSHOTS, TABLE_OF_MARK, Clearings, Mark, Truncation
from .names import DELETED, SNAPSHOT, STREAMED, UNKNOWN, Moment, Names, Numbers, fill_nulls, replace_columns

_Codes = npt.NDArray[np.int32]

VALUE = "value."
_CODES = pa.array(OPERATIONS)
_MARKS = pa.array(MARKS_OF_SNAPSHOTS)
_LETTERS = np.array([*OPERATIONS, ""])
_KINDS = np.array([{READ: SNAPSHOT, DELETE: DELETED}.get(letter, STREAMED) for letter in (*OPERATIONS, "")], np.int64)
_OF_ROWS = np.array([letter == DELETE or letter in UPSERTS for letter in (*OPERATIONS, "")])


@dataclass(frozen=True)
class EventLocations:
    """The locations of the events of a batch: their segment, and the offset and length of each with its frame."""

    segment: int
    offsets: Numbers
    lengths: Numbers

    def take(self, events: slice | Numbers) -> EventLocations:
        return EventLocations(self.segment, self.offsets[events], self.lengths[events])

    def without(self, events: Sequence[int]) -> EventLocations:
        return self.take(np.delete(np.arange(len(self.offsets)), events))


class EntryReader:
    """Makes entries from decoded changes, whose images have the key's columns and the wanted ones."""

    def __init__(self, key: Sequence[str], columns: Sequence[str], names: Names) -> None:
        """Begin without entries. `columns` are those to return, without the key's."""
        self._key = list(key)
        self._columns = list(columns)
        self._names = names

    def read(self, changes: pa.RecordBatch, locations: EventLocations, clearings: Clearings) -> pa.Table:
        """Return the entries of a batch, in order, without changes of no row.

        Truncations go to the `clearings`, as do marks of snapshots if changes have MARKS. Raises MalformedEventError
        for a change whose row is unknown, naming the place of its event.
        """
        codes = _find_operation_codes(changes)
        letters = {letter for letter, count in zip(OPERATIONS, np.bincount(codes).tolist(), strict=False) if count}
        numbers = {"kind": _KINDS[codes], **find_entry_numbers(changes, locations, self._names)}
        if TRUNCATE in letters:
            note_truncates(codes == OPERATIONS.index(TRUNCATE), numbers, self._names, clearings)
        if READ in letters and MARKS.name in changes.schema.names:
            _note_marks(codes == OPERATIONS.index(READ), changes, numbers, self._names, clearings)
        before, after = flatten_struct(changes.column("before")), flatten_struct(changes.column("after"))
        keys = {name: after[name] for name in self._key}
        if DELETE in letters:
            deleted = codes == OPERATIONS.index(DELETE)
            self._check_deletes(changes.column("before"), deleted, locations)
            keys = {name: pc.if_else(pa.array(deleted), before[name], after[name]) for name in self._key}
        entries = keys | {name: after[name] for name in self._columns}
        moved = self._find_moved(codes, before, after) if UPDATE in letters else np.zeros(0, np.int64)
        chosen = np.flatnonzero(_OF_ROWS[codes])
        if len(chosen) < len(codes):
            entries = {name: array.take(make_array(chosen)) for name, array in entries.items()}
            numbers = {name: column[chosen] for name, column in numbers.items()}
        table = make_entry_table(entries, numbers)
        return table if not len(moved) else self._insert_moves(table, chosen, moved, before)

    def _check_deletes(self, before: pa.Array, deleted: npt.NDArray[np.bool_], locations: EventLocations) -> None:
        unknown = deleted & before.is_null().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(unknown)[:1]:
            raise MalformedEventError(
                f"The event at offset {locations.offsets[row]} of segment {locations.segment} deletes a row, but has "
                "no 'before' with its key. Set a replica identity in the database, or read the table's changelog."
            )

    def _find_moved(self, codes: _Codes, before: dict[str, pa.Array], after: dict[str, pa.Array]) -> Numbers:
        """Find the updates that change the key."""
        moved = np.zeros(len(codes), np.bool_)
        is_known = codes == OPERATIONS.index(UPDATE)
        for name in self._key:
            differs = pc.not_equal(before[name], after[name])
            is_known &= before[name].is_valid().to_numpy(zero_copy_only=False)
            moved |= pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
        return np.flatnonzero(moved & is_known)

    def _insert_moves(self, table: pa.Table, chosen: Numbers, moved: Numbers, before: dict[str, pa.Array]) -> pa.Table:
        """Add a deletion of the former key before each update that changed it."""
        where = np.searchsorted(chosen, moved)
        gone = table.take(make_array(where))
        for number, field in enumerate(gone.schema):
            column = field.name.removeprefix(VALUE)
            if column in self._key and field.name != column:
                gone = gone.set_column(number, field.name, before[column].take(make_array(moved)))
            elif field.name != column:
                gone = gone.set_column(number, field.name, pa.nulls(len(moved), field.type))
        gone = replace_columns(gone, kind=DELETED, missing=0)
        both = pa.concat_tables([gone, table])
        order = np.argsort(np.concatenate([where * 2, np.arange(len(table)) * 2 + 1]), kind="stable")
        return both.take(make_array(order))


def read_operations(changes: pa.RecordBatch) -> npt.NDArray[np.str_]:
    """Return the letter of each change, an empty text where there is none."""
    return _LETTERS[_find_operation_codes(changes)]


def _find_operation_codes(changes: pa.RecordBatch) -> _Codes:
    """Return the place of each change's letter in OPERATIONS, one more than the last where there is none."""
    codes = pc.fill_null(pc.index_in(changes.column("op"), _CODES), len(OPERATIONS))
    operation_codes: _Codes = codes.to_numpy(zero_copy_only=False)
    return operation_codes


def find_entry_numbers(changes: pa.RecordBatch, locations: EventLocations, names: Names) -> dict[str, Numbers]:
    """Return the NUMBERS of some changes, except for the kind."""
    position = flatten_struct(changes.column("position"))
    return {
        "origin": names.origins(position["origin"]),
        "major": fill_nulls(position["major"], 0),
        "minor": fill_nulls(position["minor"], 0),
        "row": fill_nulls(position["row"], 0),
        "time": fill_nulls(position["time"].view(pa.int64()), UNKNOWN),
        "ts": fill_nulls(changes.column("ts").view(pa.int64()), UNKNOWN),
        "missing": names.missing_sets(changes.column("unavailable")),
        "segment": np.full(len(changes), locations.segment, np.int64),
        "offset": locations.offsets.astype(np.int64),
        "length": locations.lengths.astype(np.int64),
    }


def note_truncates(
    truncates: npt.NDArray[np.bool_], numbers: dict[str, Numbers], names: Names, clearings: Clearings
) -> None:
    """Note the truncations among changes."""
    for row in np.flatnonzero(truncates).tolist():
        clearings.add(Truncation(*_read_place(numbers, row, names)))


def _note_marks(
    read: npt.NDArray[np.bool_],
    changes: pa.RecordBatch,
    numbers: dict[str, Numbers],
    names: Names,
    clearings: Clearings,
) -> None:
    told = flatten_struct(changes.column(MARKS.name))
    texts = told["snapshot"]
    marked = pc.is_in(texts, _MARKS).to_numpy(zero_copy_only=False) & read & (numbers["ts"] != UNKNOWN)
    for row in np.flatnonzero(marked).tolist():
        table = "/".join(str(told[name][row].as_py()) for name in TABLE_OF_MARK if name in told)
        clearings.add(Mark(*_read_place(numbers, row, names), texts[row].as_py() in ENDS, table))


def _read_place(numbers: dict[str, Numbers], row: int, names: Names) -> tuple[str | None, int, Moment]:
    value = {name: int(column[row]) for name, column in numbers.items()}
    moment = Moment((value["major"], value["minor"], value["row"]), value["time"], value["ts"], value["offset"])
    return names.origin_text(value["origin"]), value["segment"], moment


def make_entry_table(values: dict[str, pa.Array], numbers: dict[str, Numbers]) -> pa.Table:
    """Return entries with these values, by column, and numbers."""
    return pa.table(
        [*values.values(), *map(make_array, numbers.values())], names=[*(name_value(name) for name in values), *numbers]
    )


def name_value(column: str) -> str:
    """Return the name of a table's column in an entry, which differs from those of NUMBERS."""
    return VALUE + column


def flatten_struct(struct: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of a struct by name, null where the struct is."""
    return dict(zip(struct.type.names, struct.flatten(), strict=True))
