"""Folds the changes of a table without a primary key: of equal rows, only the number matters.

A change adds the row in its `after` and removes the one in its `before`, which must therefore be whole, as PostgreSQL
writes it with REPLICA IDENTITY FULL and MySQL with binlog_row_image=FULL. Only sums count, so that neither the order of
events nor their segments matter, with three exceptions:

* a truncation clears rows, see `Truncation.clears`;
* the rows of a snapshot replace all rows before it, see `snapshots`;
* a connector delivers changes again after a restart. Positions show which, if each belongs to one row. PostgreSQL
  gives one position to all rows that a COPY writes to a page, which may be equal: the connector delivers those
  together, and redelivers them some seconds later.

`counts` does the counting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import CREATE, MARKS, READ, TRUNCATE, UPDATE
from pyspark_pravega.formats.changes.feed import DELETE as DELETION

from ..clearing import AllClearings
from ..entries import (
    EventLocations,
    find_entry_numbers,
    flatten_struct,
    make_entry_table,
    note_truncates,
    read_operations,
)
from ..fold import KeyFold, LeftOut, convert_to_text
from ..names import DELETED, SNAPSHOT, STREAMED, Names, Numbers, compute_versions
from ..row_history import AFTER, BEFORE, DELETE, INSERT, Within
from .keyless_counts import ROW, KeylessCounts
from .snapshots import Snapshots

_BY_ROW = ("mysql", "mariadb", "maxwell")
"""Connectors whose positions identify rows if they have the number of the row in its event (`row`)."""
_ALWAYS = ("sqlserver",)
"""Connectors whose positions always identify rows."""


class KeylessRows(KeyFold):
    """Takes changes and returns the resulting rows, or what each change did. Must be closed."""

    def __init__(
        self,
        columns: Sequence[str],
        output_names: Sequence[str],
        memory: int,
        within: Within | None = None,
        *,
        lenient: bool = False,
        names: Names | None = None,
    ) -> None:
        """Begin without rows. `columns` are all of the table, `output_names` those of the results; `memory`: in bytes.

        With `within` the result is the history, otherwise the last rows. `lenient`: events may be missing, so that a
        removed row need not exist.
        """
        self._columns, self._wanted = tuple(columns), tuple(output_names)
        self._names = names or Names()
        self._truncates = AllClearings()
        self._snapshots = Snapshots()
        self._with_versions = within is not None
        self.left_out = LeftOut()
        counts = KeylessCounts(self._names, self._truncates, self._snapshots, within, lenient, self.left_out)
        super().__init__((ROW,), memory, counts)

    def feed(self, changes: pa.RecordBatch, locations: EventLocations) -> None:
        """Take the changes of some events, with whole images and MARKS.

        Raises MalformedEventError for a change without its former row, and for an incremental snapshot.
        """
        op = read_operations(changes)
        numbers = find_entry_numbers(changes, locations, self._names)
        note_truncates(op == TRUNCATE, numbers, self._names, self._truncates)
        marks_by_name = flatten_struct(changes.column(MARKS.name))
        marks = pc.fill_null(marks_by_name["snapshot"], "").to_numpy(zero_copy_only=False).astype(np.str_)
        _check(changes, op, marks, locations)
        numbers["unique"] = self._has_own_position(numbers["origin"], marks_by_name["row"])
        before, after = flatten_struct(changes.column("before")), flatten_struct(changes.column("after"))
        for number in np.unique(numbers["missing"][numbers["missing"] > 0]).tolist():
            here = pa.array(numbers["missing"] == number)
            for name in self._names.missing[number]:
                after[name] = pc.if_else(here, before[name], after[name])
        numbers["missing"] = np.zeros(len(op), np.int64)
        of_update = op == UPDATE
        for chosen, image, kind, change in (
            (of_update | (op == DELETION), before, np.full(len(op), DELETED), np.where(of_update, BEFORE, DELETE)),
            (
                of_update | (op == CREATE) | (op == READ),
                after,
                np.where(op == READ, SNAPSHOT, STREAMED),
                np.where(of_update, AFTER, INSERT),
            ),
        ):
            rows = np.flatnonzero(chosen)
            images = {name: image[name].take(pa.array(rows)) for name in self._columns}
            values = {ROW: _hash_rows(images.values())} | {name: images[name] for name in self._wanted}
            own = {**numbers, "kind": kind.astype(np.int64)}
            entries = make_entry_table(values, {name: column[rows] for name, column in own.items()})
            entries = entries.append_column("change", pa.array(change[rows].astype(np.int64)))
            self._snapshots.note({name: column[rows] for name, column in own.items()}, marks[rows])
            if self._with_versions:
                entries = entries.append_column("version", pa.array(compute_versions(entries, self._names)))
            self.add(entries)

    def _has_own_position(self, origins: Numbers, rows: pa.Array) -> Numbers:
        """Return whether the position of each change belongs to one row, as 1 or 0."""
        connectors = [text.partition("/")[0] for text in self._names.origin_texts]
        by_row, always = (
            np.array([connector in kinds for connector in (*connectors, "")]) for kinds in (_BY_ROW, _ALWAYS)
        )
        has_position = always[origins] | (by_row[origins] & rows.is_valid().to_numpy(zero_copy_only=False))
        numbers: Numbers = has_position.astype(np.int64)
        return numbers


def _check(
    changes: pa.RecordBatch, op: npt.NDArray[np.str_], marks: npt.NDArray[np.str_], locations: EventLocations
) -> None:
    unknown = np.isin(op, [UPDATE, DELETION]) & changes.column("before").is_null().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(unknown)[:1]:
        raise MalformedEventError(
            f"The event at offset {locations.offsets[row]} of segment {locations.segment} changes an unknown "
            "row: it has no 'before', and the table has no primary key. Set the table property 'primary-key', for "
            "example 'id' or 'order_id,line_no', or have the database log whole rows (REPLICA IDENTITY FULL)."
        )
    again = (marks == "incremental") & ((op == READ) | (op == CREATE))
    for row in np.flatnonzero(again)[:1]:
        raise MalformedEventError(
            f"The event at offset {locations.offsets[row]} of segment {locations.segment} is of an incremental "
            "snapshot: without a primary key, it is unknown whether its row exists already. Set the table property "
            "'primary-key', or read the table's changelog."
        )


def _hash_rows(columns: Iterable[pa.Array]) -> pa.Array:
    """Return a hash of each row (128 bits): equal rows have the same text, and others have different ones."""
    parts = []
    for column in columns:
        text = convert_to_text(column)
        # Lengths separate values, whatever they contain.
        parts += [pc.fill_null(pc.cast(pc.binary_length(text), pa.string()), "-"), pc.fill_null(text, "")]
    joined = pc.binary_join_element_wise(*parts, ":")
    hashes = [hashlib.blake2b(row.encode(), digest_size=16).hexdigest() for row in joined.to_pylist()]
    return pa.array(hashes, pa.string())
