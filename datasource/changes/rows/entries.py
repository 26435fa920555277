"""Makes entries of changes of rows: one for each change of one key, in columns, as folds take them.

An entry has the values of its key, those of the wanted columns, and what decides which of two entries of a key counts:
the kind of change, where the database made it, when the connector handled it and where its event lies in the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import DELETE, OPERATIONS, READ, TRUNCATE, UPDATE, UPSERTS

Numbers = npt.NDArray[np.int64]

UNKNOWN = -(2**63)
"""A time that an event does not tell."""

STREAMED, SNAPSHOT, DELETED = 0, 1, 2
"""Kinds of entries: a change as it happened, a row as a snapshot found it, a key that is gone."""

NUMBERS = ("kind", "origin", "major", "minor", "row", "time", "ts", "missing", "segment", "offset", "length")
"""The whole numbers of an entry.

`origin` is the number of a Names' origin, -1 if the position is unknown; `missing` that of a set of columns without
value; `time` and `ts` are microseconds since 1970, of the database and of the connector.
"""

VALUE = "value."
_CODES = pa.array(OPERATIONS)
_LETTERS = np.array([*OPERATIONS, ""])


class Names:
    """Numbers texts and sets that occur over and over."""

    def __init__(self) -> None:
        self._origins: dict[str, int] = {}
        self._texts: list[str] = []
        self.missing: list[frozenset[str]] = [frozenset()]

    def origin(self, text: str | None) -> int:
        """Return the number of an origin, -1 for None."""
        if text is None:
            return -1
        if text not in self._origins:
            self._origins[text] = len(self._texts)
            self._texts.append(text)
        return self._origins[text]

    def origin_text(self, number: int) -> str | None:
        """Return the origin of a number."""
        return self._texts[number] if number >= 0 else None

    @property
    def origin_texts(self) -> list[str]:
        """Return the origins by number."""
        return list(self._texts)

    def origins(self, texts: pa.Array) -> Numbers:
        """Return the number of each origin, -1 for null."""
        coded = texts.dictionary_encode()
        numbers = [*map(self.origin, coded.dictionary.to_pylist()), -1]
        found: Numbers = np.array(numbers, np.int64)[_filled(coded.indices, len(numbers) - 1)]
        return found

    def missing_sets(self, lists: pa.Array) -> Numbers:
        """Return the number of each list as a set, 0 for null and the empty one."""
        # Arrow joins only lists whose elements may be null.
        joined = pc.binary_join(lists.cast(pa.list_(pa.string())), "\0")
        coded = pc.fill_null(joined, "").dictionary_encode()
        numbers = [self._missing_set(text) for text in coded.dictionary.to_pylist()]
        found: Numbers = np.array(numbers, np.int64)[coded.indices.to_numpy()]
        return found

    def _missing_set(self, joined: str) -> int:
        columns = frozenset(joined.split("\0")) if joined else self.missing[0]
        if columns not in self.missing:
            self.missing.append(columns)
        return self.missing.index(columns)


@dataclass(frozen=True)
class Truncate:
    """The last of the truncations that one segment has of one origin, by each measure."""

    position: tuple[int, int, int]
    time: int
    ts: int
    offset: int

    def later(self, other: Truncate) -> Truncate:
        """Return the later of both, by each measure."""
        return Truncate(
            max(self.position, other.position),
            max(self.time, other.time),
            max(self.ts, other.ts),
            max(self.offset, other.offset),
        )


@dataclass
class Truncates:
    """The truncations seen, by origin and segment. In which order they and the rows are seen does not matter."""

    last: dict[tuple[str | None, int], Truncate] = field(default_factory=dict)

    def add(self, origin: str | None, segment: int, truncate: Truncate) -> None:
        """Note one."""
        found = self.last.get((origin, segment))
        self.last[(origin, segment)] = truncate if found is None else found.later(truncate)

    def update(self, other: Truncates) -> None:
        """Note all of another."""
        for (origin, segment), truncate in other.last.items():
            self.add(origin, segment, truncate)

    def cleared(self, entries: pa.Table, names: Names) -> npt.NDArray[np.bool_]:
        """Tell which entries were made before a truncation; see `cleared_by`."""
        if not self.last:
            return np.zeros(len(entries), np.bool_)
        return self.cleared_by({name: numbers_of(entries, name) for name in NUMBERS}, names)

    def cleared_by(self, numbers: dict[str, Numbers], names: Names) -> npt.NDArray[np.bool_]:
        """Tell which entries, told by their NUMBERS, were made before a truncation.

        A change is before a truncation of its own origin if its position is. For a row of a snapshot, or where
        positions cannot be compared, it is the place that counts in the same segment, and in another segment the time
        at which the connector handled both.
        """
        count = len(numbers["kind"])
        gone = np.zeros(count, np.bool_)
        position = [numbers[name] for name in ("major", "minor", "row")]
        for (text, segment), last in self.last.items():
            origin = names.origin(text)
            comparable = (numbers["origin"] == origin) & (numbers["kind"] != SNAPSHOT) & (origin >= 0)
            by_position = older(position, [np.full(count, each) for each in last.position])
            by_offset = numbers["offset"] < last.offset
            by_time = (numbers["ts"] < last.ts) & (numbers["ts"] != UNKNOWN)
            by_place = np.where(numbers["segment"] == segment, by_offset, by_time)
            gone |= np.where(comparable, by_position, by_place)
        return gone


def older(left: Sequence[Numbers], right: Sequence[Numbers]) -> npt.NDArray[np.bool_]:
    """Tell whether the left position comes before the right one; positions as columns, the first counts most."""
    result: npt.NDArray[np.bool_] = left[-1] < right[-1]
    for a, b in zip(left[-2::-1], right[-2::-1], strict=True):
        result = (a < b) | ((a == b) & result)
    return result


def numbers_of(entries: pa.Table, name: str) -> Numbers:
    """Return one of NUMBERS of all entries."""
    numbers: Numbers = entries.column(name).to_numpy()
    return numbers


@dataclass(frozen=True)
class EventLocations:
    """The locations of the events of a batch: their segment, and the offset and length of each with its frame."""

    segment: int
    offsets: Numbers
    lengths: Numbers

    def part(self, first: int, last: int) -> EventLocations:
        """Return the locations of the events from `first` to `last` - 1."""
        return EventLocations(self.segment, self.offsets[first:last], self.lengths[first:last])

    def without(self, events: Sequence[int]) -> EventLocations:
        """Return the locations of all but these events."""
        return EventLocations(self.segment, np.delete(self.offsets, events), np.delete(self.lengths, events))


class EntryReader:
    """Makes entries of decoded changes, whose images have the key's columns and the wanted ones."""

    def __init__(self, key: Sequence[str], columns: Sequence[str], names: Names) -> None:
        """`columns` are the wanted ones apart from the key's."""
        self._key = list(key)
        self._columns = list(columns)
        self._names = names

    def read(self, changes: pa.RecordBatch, locations: EventLocations, truncates: Truncates) -> pa.Table:
        """Make the entries of a batch, in order. Truncations are noted apart; what changes no row is left out.

        Raises MalformedEventError for a change whose row cannot be told, naming the place of its event.
        """
        codes = operations(changes)
        kinds = np.where(codes == READ, SNAPSHOT, np.where(codes == DELETE, DELETED, STREAMED))
        numbers = {"kind": kinds.astype(np.int64), **entry_numbers(changes, locations, self._names)}
        note_truncates(codes == TRUNCATE, numbers, self._names, truncates)
        deleted = codes == DELETE
        chosen = np.flatnonzero(deleted | np.isin(codes, UPSERTS))
        before, after = members(changes.column("before")), members(changes.column("after"))
        self._check_deletes(changes.column("before"), deleted, locations)
        keys = {name: _chosen(deleted, before[name], after[name]) for name in self._key}
        entries = {name: array.take(pa.array(chosen)) for name, array in keys.items()}
        entries |= {name: after[name].take(pa.array(chosen)) for name in self._columns}
        moved = self._moved(codes, before, after)
        table = entry_table(entries, {name: column[chosen] for name, column in numbers.items()})
        return table if not len(moved) else self._with_moves(table, chosen, moved, before)

    def _check_deletes(self, before: pa.Array, deleted: npt.NDArray[np.bool_], locations: EventLocations) -> None:
        if not deleted.any():
            return
        unknown = deleted & before.is_null().to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(unknown)[:1]:
            raise MalformedEventError(
                f"The event at offset {locations.offsets[place]} of segment {locations.segment} deletes a row, but has "
                "no 'before' that tells its key. Set a replica identity in the database, or read the table's changelog."
            )

    def _moved(self, codes: npt.NDArray[np.str_], before: dict[str, pa.Array], after: dict[str, pa.Array]) -> Numbers:
        """Find the updates that change the key."""
        moved = np.zeros(len(codes), np.bool_)
        known = codes == UPDATE
        for name in self._key:
            differs = pc.not_equal(before[name], after[name])
            known &= before[name].is_valid().to_numpy(zero_copy_only=False)
            moved |= pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
        return np.flatnonzero(moved & known)

    def _with_moves(self, table: pa.Table, chosen: Numbers, moved: Numbers, before: dict[str, pa.Array]) -> pa.Table:
        """Add a deletion of the former key before each update that changed it."""
        where = np.searchsorted(chosen, moved)
        gone = table.take(pa.array(where))
        for name in table.column_names:
            place = table.column_names.index(name)
            column = name.removeprefix(VALUE)
            if name.startswith(VALUE) and column in self._key:
                gone = gone.set_column(place, name, before[column].take(pa.array(moved)))
            elif name.startswith(VALUE):
                gone = gone.set_column(place, name, pa.nulls(len(moved), table.schema.field(name).type))
            elif name in ("kind", "missing"):
                value = DELETED if name == "kind" else 0
                gone = gone.set_column(place, name, pa.array(np.full(len(moved), value, np.int64)))
        both = pa.concat_tables([gone, table])
        order = np.argsort(np.concatenate([where * 2, np.arange(len(table)) * 2 + 1]), kind="stable")
        return both.take(pa.array(order))


def operations(changes: pa.RecordBatch) -> npt.NDArray[np.str_]:
    """Return the letter of each change, an empty text where there is none."""
    codes = pc.fill_null(pc.index_in(changes.column("op"), _CODES), len(OPERATIONS)).to_numpy(zero_copy_only=False)
    letters: npt.NDArray[np.str_] = _LETTERS[codes]
    return letters


def entry_numbers(changes: pa.RecordBatch, locations: EventLocations, names: Names) -> dict[str, Numbers]:
    """NUMBERS of some changes, but for the kind."""
    position = members(changes.column("position"))
    return {
        "origin": names.origins(position["origin"]),
        "major": _filled(position["major"], 0),
        "minor": _filled(position["minor"], 0),
        "row": _filled(position["row"], 0),
        "time": _filled(position["time"].view(pa.int64()), UNKNOWN),
        "ts": _filled(changes.column("ts").view(pa.int64()), UNKNOWN),
        "missing": names.missing_sets(changes.column("unavailable")),
        "segment": np.full(len(changes), locations.segment, np.int64),
        "offset": locations.offsets.astype(np.int64),
        "length": locations.lengths.astype(np.int64),
    }


def note_truncates(there: npt.NDArray[np.bool_], numbers: dict[str, Numbers], names: Names, found: Truncates) -> None:
    """Note the truncations among changes."""
    for place in np.flatnonzero(there).tolist():
        value = {name: int(column[place]) for name, column in numbers.items()}
        truncate = Truncate((value["major"], value["minor"], value["row"]), value["time"], value["ts"], value["offset"])
        found.add(names.origin_text(value["origin"]), value["segment"], truncate)


def entry_table(values: dict[str, pa.Array], numbers: dict[str, Numbers]) -> pa.Table:
    """Entries of these values by column, and numbers."""
    return pa.table(
        [*values.values(), *map(pa.array, numbers.values())],
        names=[*(value_name(name) for name in values), *numbers],
    )


def value_name(column: str) -> str:
    """Return the name of a column of the table in an entry, where it differs from those of NUMBERS."""
    return VALUE + column


def members(struct: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of a struct by name, null where the struct is."""
    return dict(zip(struct.type.names, struct.flatten(), strict=True))


def _chosen(there: npt.NDArray[np.bool_], yes: pa.Array, no: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(there), yes, no) if there.any() else no


def _filled(array: pa.Array, value: int) -> Numbers:
    numbers: Numbers = pc.fill_null(array, value).to_numpy(zero_copy_only=False)
    return numbers
