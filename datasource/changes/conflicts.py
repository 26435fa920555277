"""Finds what others have changed in a table of changes since a statement read it: its conflicts.

A statement asks when its transaction has its turn in the commit log, so that no other transaction of the log comes in
between. Programs that append without the log are seen up to that moment. Rows that a compaction repeats are no changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.errors import ConcurrentChangeError, DuplicateKeyError, MalformedEventError, shorten
from pyspark_pravega.formats.changes.feed import MARKS, OWN_CONNECTOR, READ, list_key_columns
from pyspark_pravega.formats.core.arrow_types import replace_char_types
from pyspark_pravega.sql import options as o

from ..lake.open_lake import BELIEVED_SECONDS, find_history, open_lake
from ..positions.snapshot import SegmentSlice, drop_empty, measure_segments
from ..scan.conditions import Condition, Sieve
from ..scan.counts import Counts
from ..scan.scan_request import WantedRows
from ..tables.open_table import OpenRead
from ..tables.row_keys import KeyPositions, hash_primary_key, write_primary_key
from .current_rows import plan_current_rows
from .group_planning import find_in_lake, make_group_plan, make_partitions
from .group_reader import group_changes
from .rows.clearing import AllClearings
from .rows.entries import EntryReader, EventLocations, name_value
from .rows.names import DELETED, Names, read_numbers

_MOST_BYTES = 64 << 20
"""Bytes of new events that are compared with a statement; more are a conflict."""


class Isolation(StrEnum):
    """What a statement depends on: all rows that it has read, or those that it writes."""

    SERIALIZABLE = "serializable"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class StatementReads:
    """What a statement has read: the events before its `ends`, by segment, and there the rows of its conditions.

    The `conditions` are None if it may depend on any row.
    """

    ends: Mapping[int, int]
    conditions: Sequence[Condition] | None


class Conflict(StrEnum):
    """What becomes of a row that is inserted with a key that the table has."""

    REPLACE = "replace"
    FAIL = "fail"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Conflict:
        return cls(settings.get(o.INSERT_CONFLICT.key, o.INSERT_CONFLICT.default).lower())


def find_ends_without(read: OpenRead, keys: KeyPositions) -> Mapping[int, int]:
    """Return the ends of the segments of a table that has no row of these keys.

    Reads the keys of all rows. Raises DuplicateKeyError.
    """
    columns = StructType([read.table.schema[name] for name in list_key_columns(read.table.settings)])
    planned, write = plan_current_rows(read, WantedRows(columns)), write_primary_key(read.table, columns)
    for rows in planned.reader.read_all():
        _refuse_existing(read, write(rows), keys)
    return planned.tail


def check_still_without(read: OpenRead, ends: Mapping[int, int], keys: KeyPositions) -> None:
    """Raise DuplicateKeyError if others have written rows of these keys after the ends."""
    write = write_primary_key(read.table, read.table.schema)
    for entries in read_new_entries(read, find_new_events(read, ends)):
        written = entries.filter(pa.array(read_numbers(entries, "kind") != DELETED))
        _refuse_existing(read, write(list_keys(read, written)), keys)


def _refuse_existing(read: OpenRead, texts: pa.LargeStringArray, keys: KeyPositions) -> None:
    exists = np.isin(hash_keys(texts), keys)
    if exists.any():
        key = texts.filter(pa.array(exists))[0].as_py()
        raise DuplicateKeyError(
            f"Stream {read.stream} has a row of the key {shorten(key)}, and '{o.INSERT_CONFLICT.key}'="
            f"'{Conflict.FAIL}' says that no new row replaces it. Nothing is written. Choose another key, or DELETE "
            "that row first; to change it, use UPDATE, a MERGE whose ON compares the key, or upsert in Python."
        )


def check_conflicts(read: OpenRead, reads: StatementReads, keys: KeyPositions, isolation: Isolation) -> None:
    """Raise ConcurrentChangeError if others have changed rows that a statement depends on.

    `keys` are those of the rows that it changes, as `InsertMessage.keys` has them.
    """
    columns = read.table.schema
    hash_key = hash_primary_key(read.table, columns)
    sieve = _make_sieve(reads.conditions, columns) if isolation is Isolation.SERIALIZABLE else None
    for entries in read_new_entries(read, find_new_events(read, reads.ends)):
        values = {name: entries.column(name_value(name)).combine_chunks() for name in columns.names}
        if np.isin(hash_key(list_keys(read, entries)), keys).any():
            raise _make_error(read, "changed rows that it changes too")
        if isolation is Isolation.SNAPSHOT:
            continue
        if sieve is None or read_numbers(entries, "missing").any() or sieve.mask(values).true_count:
            raise _make_error(read, "changed rows that it has read, or would have read")


def _make_sieve(conditions: Sequence[Condition] | None, columns: StructType) -> Sieve | None:
    """Return the sieve for rows that conditions let through; None if that may be any row."""
    about_rows = [one for one in conditions or () if set(one.columns) <= set(columns.names)]
    return Sieve(about_rows, replace_char_types(columns)) if about_rows else None


def find_new_events(read: OpenRead, ends: Mapping[int, int]) -> list[SegmentSlice]:
    """Return the events that the stream has now and that do not lie before the ends.

    Raises ConcurrentChangeError if some of them were removed again, or if they are too many to be compared.
    """
    history = find_history(read, oldest=BELIEVED_SECONDS)
    new = select_new_events(read, ends, measure_segments(read.pravega, read.stream, history=history))
    if sum(piece.end - piece.start for piece in new) > _MOST_BYTES:
        raise _make_error(read, f"wrote more than {_MOST_BYTES >> 20} MiB")
    return new


def select_new_events(read: OpenRead, ends: Mapping[int, int], pieces: Sequence[SegmentSlice]) -> list[SegmentSlice]:
    """Return what does not lie before the ends of all that a stream has.

    Raises ConcurrentChangeError if some of that may have been removed.
    """
    if ends.keys() - {piece.segment_id for piece in pieces} or any(
        piece.start > ends.get(piece.segment_id, 0) for piece in pieces
    ):
        raise _make_error(read, "removed events, perhaps some that they had written since it began")
    return drop_empty(replace(piece, start=ends.get(piece.segment_id, 0)) for piece in pieces)


def list_keys(read: OpenRead, entries: pa.Table) -> pa.RecordBatch:
    """Return the columns of the primary key of some changes."""
    key = list_key_columns(read.table.settings)
    return pa.RecordBatch.from_arrays([entries.column(name_value(name)).combine_chunks() for name in key], names=key)


def read_new_entries(read: OpenRead, slices: Sequence[SegmentSlice]) -> Iterator[pa.Table]:
    """Yield the changes of rows in some events, with the columns of the table.

    Raises ConcurrentChangeError for a change of all rows, and for an event that cannot be read.
    """
    columns = read.table.schema
    in_lake = find_in_lake(read.table, open_lake(read, oldest=BELIEVED_SECONDS), slices)
    plan = replace(make_group_plan(read, columns, columns), in_lake=in_lake)
    key = list_key_columns(read.table.settings)
    rest = [name for name in columns.names if name not in key]
    reader, clearings = EntryReader(key, rest, Names()), AllClearings()
    try:
        for partition in make_partitions(read.pravega, read.table, [[piece] for piece in slices]):
            for changes, locations in group_changes(plan, partition, columns, Counts()):
                entries = reader.read(*_leave_out_repeated(changes, locations), clearings)
                if clearings.all or clearings.marks:
                    raise _make_error(read, "changed all rows, by a truncation or a snapshot")
                if len(entries):
                    yield entries
    except MalformedEventError as error:
        raise _make_error(read, f"wrote what cannot be read ({error.message})") from error


def _leave_out_repeated(changes: pa.RecordBatch, locations: EventLocations) -> tuple[pa.RecordBatch, EventLocations]:
    if MARKS.name not in changes.schema.names or not (reads := pc.equal(changes.column("op"), READ)).true_count:
        return changes, locations
    is_own = pc.equal(pc.struct_field(changes.column(MARKS.name), "connector"), OWN_CONNECTOR)
    others = pc.invert(pc.fill_null(pc.and_(reads, is_own), False))
    return changes.filter(others), locations.take(np.flatnonzero(others.to_numpy(zero_copy_only=False)))


def _make_error(read: OpenRead, what: str) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"While the statement ran, others {what}, in stream {read.stream}. It wrote nothing. Run it again."
    )
