"""The current rows of a change table: of each primary key the latest state, deleted ones gone.

A fold over entries (`row_changes`) in the order of their events. Which of two entries of a key counts:

* a row that a snapshot read replaces whatever came before it;
* a change replaces what came before it, unless its position in the database's log is older: then it was written again
  after a restart of the connector, and its key has gone on since. Positions are compared when they have the same
  origin; equal ones are not older;
* against a row of a snapshot, a change must be older both in position and in the database's time: a transaction that
  was open while the snapshot was taken has older positions, but was committed later;
* what a truncation cleared is told by `Truncates.cleared`.

A column whose value was not sent (`unavailable`) keeps the value that its key had before, null if it was never seen.

Entries are kept in memory up to a limit and reduced to one for each key when they have doubled. Beyond the limit they
go to temporary files by a hash of the key, each of which is folded by itself in the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.datasource.row_changes import (
    DELETED,
    SNAPSHOT,
    UNKNOWN,
    EntryReader,
    Names,
    Numbers,
    Places,
    Truncates,
    numbers_of,
    older,
    value_name,
)

_REDUCE_ENTRIES = 1 << 18
"""Fewer entries than this are not worth a reduction."""
_FILES = 32
_DEEPEST = 5
"""How often entries of one file may be divided again: 32 ** 5 parts."""
_FILE_BATCH = 1 << 22
"""Bytes of entries that are collected before they go to their files."""


class CurrentRows:
    """Takes changes in order and gives the rows there are in the end. To be closed: it may hold temporary files."""

    def __init__(self, key: Sequence[str], columns: Sequence[str], memory: int) -> None:
        """`columns` are the wanted ones apart from the key's, `memory` is in bytes."""
        self._names = Names()
        self.truncates = Truncates()
        self._reader = EntryReader(key, columns, self._names)
        self._fold = _Fold(tuple(key), tuple(columns), memory, self._names, 0)

    def feed(self, changes: pa.RecordBatch, places: Places) -> None:
        """Take the changes of some events of one segment, after all events before them.

        They have the columns `op`, `before`, `after`, `ts`, `unavailable` and `position` of a changelog. Raises
        MalformedEventError for a change whose row cannot be told.
        """
        self._fold.add(self._reader.read(changes, places, self.truncates))

    def rows(self) -> Iterator[pa.Table]:
        """The current rows, each once: columns by `value_name`, and NUMBERS. Nothing may be fed after this."""
        for entries in self._fold.results():
            there = (numbers_of(entries, "kind") != DELETED) & ~self.truncates.cleared(entries, self._names)
            found = entries if there.all() else entries.filter(pa.array(there))
            if len(found):
                yield found

    @property
    def spilled(self) -> bool:
        """Whether the limit of memory was exceeded."""
        return self._fold.spilled

    def close(self) -> None:
        """Remove temporary files."""
        self._fold.close()

    def __enter__(self) -> CurrentRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Fold:
    """Entries in memory or in files. `depth` counts how often they were divided by their key's hash."""

    def __init__(self, key: tuple[str, ...], columns: tuple[str, ...], memory: int, names: Names, depth: int) -> None:
        self._key, self._columns, self._memory, self._names, self._depth = key, columns, memory, names, depth
        self._entries: list[pa.Table] = []
        self._count = self._bytes = 0
        self._reduced = 0
        self._files: _Files | None = None

    @property
    def spilled(self) -> bool:
        return self._files is not None

    def add(self, entries: pa.Table) -> None:
        if not len(entries):
            return
        self._entries.append(entries)
        self._count += len(entries)
        self._bytes += entries.nbytes
        if self._files is not None:
            if self._bytes >= _FILE_BATCH:
                self._to_files()
            return
        # A reduction holds its input and its output.
        if self._bytes > self._memory // 3 or self._count - self._reduced >= max(_REDUCE_ENTRIES, self._reduced):
            self._reduce()
            if self._bytes > self._memory // 4 and self._depth < _DEEPEST:
                self._files = _Files(self._key, self._depth)
                self._to_files()

    def results(self) -> Iterator[pa.Table]:
        if self._files is None:
            self._reduce()
            yield from self._entries
            return
        self._to_files()
        for parts in self._files.parts():
            fold = _Fold(self._key, self._columns, self._memory, self._names, self._depth + 1)
            try:
                for entries in parts:
                    fold.add(entries)
                yield from fold.results()
            finally:
                fold.close()

    def close(self) -> None:
        self._entries = []
        if self._files is not None:
            self._files.close()

    def _to_files(self) -> None:
        assert self._files is not None
        if self._entries:
            self._files.add(pa.concat_tables(self._entries).combine_chunks())
        self._entries, self._count, self._bytes = [], 0, 0

    def _reduce(self) -> None:
        if self._count == self._reduced:
            return
        entries = pa.concat_tables(self._entries).combine_chunks()
        self._entries = [_reduced(entries, self._key, self._columns, self._names)]
        self._count = self._reduced = len(self._entries[0])
        self._bytes = self._entries[0].nbytes


class _Files:
    """Entries in temporary files by a hash of their key, in order."""

    def __init__(self, key: tuple[str, ...], depth: int) -> None:
        self._key, self._depth = key, depth
        self._directory = tempfile.TemporaryDirectory(prefix="pravega-current-rows-")
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def add(self, entries: pa.Table) -> None:
        texts = [entries.column(value_name(name)).combine_chunks() for name in self._key]
        shown = [pc.fill_null(_text(array), "\0") for array in texts]
        joined = pc.binary_join_element_wise(*shown, "\1") if len(shown) > 1 else shown[0]
        hashes = hash_keys(joined) * float(_FILES**self._depth)
        parts = ((hashes - np.floor(hashes)) * _FILES).astype(np.int64)
        for part in np.unique(parts).tolist():
            chosen = entries.take(pa.array(np.flatnonzero(parts == part)))
            writer = self._writers.get(part)
            if writer is None:
                path = Path(self._directory.name) / str(part)
                writer = self._writers[part] = pa.ipc.new_stream(str(path), entries.schema)
            writer.write_table(chosen)

    def parts(self) -> Iterator[Iterator[pa.Table]]:
        for part, writer in self._writers.items():
            writer.close()
            path = Path(self._directory.name) / str(part)
            yield self._part(path)
            path.unlink()

    def _part(self, path: Path) -> Iterator[pa.Table]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch])

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._directory.cleanup()


def _text(array: pa.Array) -> pa.Array:
    """A text for each value: equal for equal ones."""
    if pa.types.is_binary(array.type):
        return pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
    return array.cast(pa.string())


def _reduced(entries: pa.Table, key: Sequence[str], columns: Sequence[str], names: Names) -> pa.Table:
    """One entry for each key, the one that counts, in the order of the events."""
    groups, count = _groups(entries, key)
    kept = np.flatnonzero(~_outdated(entries, groups))
    last = np.full(count, -1, np.int64)
    last[groups[kept]] = kept  # of several for one place numpy keeps the last
    winners = np.sort(last)
    kind, origin = numbers_of(entries, "kind")[winners], numbers_of(entries, "origin")[winners]
    # A key that is gone is only remembered if something older could be told from something newer.
    winners = winners[(kind != DELETED) | (origin >= 0)]
    filled = _former_values(entries, groups, kept, winners, columns, names)
    reduced = entries.take(pa.array(winners))
    for column, array in filled.items():
        reduced = reduced.set_column(reduced.column_names.index(column), column, array)
    place = reduced.column_names.index("missing")
    return reduced.set_column(place, "missing", pa.array(np.zeros(len(winners), np.int64)))


def _groups(entries: pa.Table, key: Sequence[str]) -> tuple[Numbers, int]:
    """The number of each entry's key, from 0, and how many there are."""
    groups = np.zeros(len(entries), np.int64)
    count = 1
    for name in key:
        coded = entries.column(value_name(name)).combine_chunks().dictionary_encode(null_encoding="encode")
        groups = groups * len(coded.dictionary) + coded.indices.to_numpy()
        dense = pa.array(groups).dictionary_encode()
        groups, count = dense.indices.to_numpy().astype(np.int64), len(dense.dictionary)
    return groups, count


def _outdated(entries: pa.Table, groups: Numbers) -> npt.NDArray[np.bool_]:
    """Which entries must not replace what came before them."""
    outdated = np.zeros(len(entries), np.bool_)
    origin = numbers_of(entries, "origin")
    known = np.flatnonzero(origin >= 0)
    position = [numbers_of(entries, name) for name in ("major", "minor", "row")]
    if not len(known) or _ordered(origin[known], [column[known] for column in position]):
        return outdated
    order = np.argsort(groups, kind="stable")
    kind, time = numbers_of(entries, "kind"), numbers_of(entries, "time")
    before, after = order[:-1], order[1:]
    suspect = (groups[before] == groups[after]) & (origin[before] == origin[after]) & (origin[after] >= 0)
    suspect &= (kind[after] != SNAPSHOT) & older([c[after] for c in position], [c[before] for c in position])
    suspects = np.unique(groups[after[suspect]])
    if not len(suspects):
        return outdated
    begins = np.searchsorted(groups[order], suspects, side="left")
    ends = np.searchsorted(groups[order], suspects, side="right")
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        current = order[begin]
        for entry in order[begin + 1 : end]:
            if _is_outdated(int(entry), int(current), kind, origin, position, time):
                outdated[entry] = True
            else:
                current = entry
    return outdated


def _ordered(origin: Numbers, position: Sequence[Numbers]) -> bool:
    """Whether positions never go back, so that none can be older than one before it."""
    if (origin != origin[0]).any():
        return False
    return not older([column[1:] for column in position], [column[:-1] for column in position]).any()


def _is_outdated(
    entry: int, current: int, kind: Numbers, origin: Numbers, position: Sequence[Numbers], time: Numbers
) -> bool:
    if kind[entry] == SNAPSHOT or origin[entry] < 0 or origin[entry] != origin[current]:
        return False
    if tuple(column[entry] for column in position) >= tuple(column[current] for column in position):
        return False
    if kind[current] != SNAPSHOT:
        return True
    return bool(UNKNOWN < time[entry] < time[current])


def _former_values(
    entries: pa.Table, groups: Numbers, kept: Numbers, winners: Numbers, columns: Sequence[str], names: Names
) -> dict[str, pa.ChunkedArray]:
    """The columns in which some winner has to keep the value its key had before."""
    missing = numbers_of(entries, "missing")
    wanted = {each for number in np.unique(missing[winners]).tolist() for each in names.missing[number]}
    found: dict[str, pa.ChunkedArray] = {}
    if not wanted:
        return found
    order = kept[np.argsort(groups[kept], kind="stable")]
    ranked = groups[order]
    places = np.arange(len(order))
    first = np.append(True, ranked[1:] != ranked[:-1])
    begins = np.maximum.accumulate(np.where(first, places, 0))
    ends = np.searchsorted(ranked, groups[winners], side="right") - 1
    for column in columns:
        if column not in wanted:
            continue
        without = np.array([column in each for each in names.missing])[missing[order]]
        seen = np.maximum.accumulate(np.where(without, -1, places))
        former = seen[ends]
        there = former >= begins[ends]
        sources = pa.array(np.where(there, order[np.maximum(former, 0)], 0), mask=~there)
        found[value_name(column)] = entries.column(value_name(column)).take(sources)
    return found
