"""Folds entries of changes key by key: in memory, and beyond a limit in temporary files by a hash of the key.

A `Reduction` decides what results: `current` keeps one entry for each key, `history` also returns what each entry
changed. Entries come in the order of their events, and each reduction gets the state that the previous one left,
followed by the entries that came after it. Changes that are delivered again after newer ones of their key are left out,
and counted.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.closing import ClosedAtEnd
from pyspark_pravega.client.routing import hash_keys

from ...workers.local_directories import choose_spill_directory
from .entries import name_value
from .names import Numbers, read_numbers

_REDUCE_ENTRIES = 1 << 18
"""The fewest entries that are worth a reduction."""
_FILES = 32
_DEEPEST = 5
"""How often the entries of a file may be divided again: into 32 ** 5 parts."""
_FILE_BATCH = 1 << 22
"""Bytes of entries that are collected before they are written to their files."""


class Reduction(ABC):
    """Reduces the entries of some keys. The last state is the result, unless a subclass says otherwise."""

    @abstractmethod
    def reduce(self, entries: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Return the new state, from a state with newer entries after it, and the results so far.

        The entries are in many chunks; the state should be in one.
        """

    def finish(self, state: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Return the last state when all entries have come, and the last results."""
        return state, [state]

    def fork(self) -> Reduction:
        """Return the reduction for a part of the keys, whose entries so far are given again."""
        return self

    def has_to_read_all(self) -> bool:
        """Return whether the states of keys without new entries have to be reduced too."""
        return True

    def list_unchanged(self, states: pa.Table) -> list[pa.Table]:
        """Return the results of keys without new entries, whose states are kept as they are."""
        return []


Former = Sequence[Iterable[pa.Table]]
"""States from files, the newest first: each has some keys, and replaces the states of these in the files after it."""


class KeyFold(ClosedAtEnd):
    """Takes entries and returns the results of a reduction. Must be closed: it may hold temporary files."""

    def __init__(self, key: Sequence[str], memory: int, reduction: Reduction, depth: int = 0) -> None:
        """Begin without entries. `memory` is in bytes.

        `depth` counts how often the entries were divided by the hash of their key.
        """
        self._key, self._memory, self._reduction, self._depth = tuple(key), memory, reduction, depth
        self._entries: list[pa.Table] = []
        self._count = self._bytes = self._kept = 0
        self._reduced = 0
        self._files: _Files | None = None
        self._former: Sequence[Former] | None = None
        self.kept_all = True
        """Whether `results` has kept the states of all keys, not only of those with new entries."""

    def begin_with(self, states: Sequence[Former]) -> None:
        """Take the last states of other folds, as entries before all others; they are read when needed."""
        self._former = states

    def add(self, entries: pa.Table) -> list[pa.Table]:
        """Take entries; return the results so far."""
        if not len(entries):
            return []
        self._entries.append(entries)
        self._count += len(entries)
        self._bytes += entries.nbytes
        if self._files is not None:
            if self._bytes >= _FILE_BATCH:
                self._spill()
            return []
        # A reduction holds its input and its output. Entries that cannot be divided further are not reduced repeatedly.
        few = self._count - self._reduced < max(_REDUCE_ENTRIES, self._reduced)
        if few and self._bytes <= max(self._memory // 3, 2 * self._kept):
            return []
        if self._former is not None:
            return list(self._add_former())
        changes = self._reduce()
        if self._bytes > self._memory // 4:
            if self._depth < _DEEPEST:
                self._files = _Files(self._key, self._depth)
                self._spill()
            else:
                self._kept = self._bytes
        return changes

    def results(self, keep: Callable[[pa.Table], None] | None = None, *, changed: bool = False) -> Iterator[pa.Table]:
        """Yield the remaining results; `keep` gets the last states. Nothing may be added after this.

        With `changed` only states of keys with new entries are kept, if possible; see `kept_all`.
        """
        if self._former is not None:
            yield from self._add_former(keep or (lambda _: None), changed=changed)
        if self._files is None:
            yield from self._reduce()
            for state in self._entries:
                left, changes = self._reduction.finish(state)
                yield from changes
                if keep is not None:
                    keep(left)
            return
        self._spill()
        for parts in self._files.parts():
            with KeyFold(self._key, self._memory, self._reduction.fork(), self._depth + 1) as fold:
                for entries in parts:
                    yield from fold.add(entries)
                yield from fold.results(keep)

    def close(self) -> None:
        """Remove temporary files."""
        self._entries = []
        if self._files is not None:
            self._files.close()

    def _add_former(
        self, keep: Callable[[pa.Table], None] | None = None, *, changed: bool = False
    ) -> Iterator[pa.Table]:
        """Add the former states in front of all entries; pass those of keys without new entries to `keep` at once.

        Without `keep`, entries of any key may still come.
        """
        former, entries = self._former or (), self._entries
        self._former, self._entries, self._count, self._bytes = None, [], 0, 0
        keys = None
        if keep is not None and not self._reduction.has_to_read_all():
            keys = _find_unique([_make_keys(part, self._key) for part in entries])
        self.kept_all = keys is None or not changed
        for files in former:
            for states in _find_last_states(files, self._key, None if self.kept_all else keys):
                if keys is not None and keep is not None and not changed:
                    touched = _is_in(_make_keys(states, self._key), keys)
                    unchanged = states.filter(pc.invert(touched)) if touched.true_count else states
                    keep(unchanged)
                    yield from self._reduction.list_unchanged(unchanged)
                    states = states.filter(touched)
                yield from self.add(states)
        for more in entries:
            yield from self.add(more)

    def _spill(self) -> None:
        assert self._files is not None
        if self._entries:
            self._files.add(pa.concat_tables(self._entries).combine_chunks())
        self._entries, self._count, self._bytes = [], 0, 0

    def _reduce(self) -> list[pa.Table]:
        if self._count == self._reduced:
            return []
        state, changes = self._reduction.reduce(pa.concat_tables(self._entries))
        self._entries = [state]
        self._count = self._reduced = len(state)
        self._bytes = state.nbytes
        return changes


class _Files:
    """Entries in temporary files by a hash of their key, in order."""

    def __init__(self, key: tuple[str, ...], depth: int) -> None:
        self._key, self._depth = key, depth
        self._directory = tempfile.TemporaryDirectory(prefix="pravega-changes-", dir=choose_spill_directory())
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def add(self, entries: pa.Table) -> None:
        hashes = hash_keys(join_key(entries, self._key)) * float(_FILES**self._depth)
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
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield (pa.Table.from_batches([batch]) for batch in stream)
            path.unlink()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._directory.cleanup()


def _find_last_states(former: Former, key: Sequence[str], chosen_keys: pa.Array | None) -> Iterator[pa.Table]:
    """Yield the last state of each key, or of the wanted ones."""
    newer: list[pa.Array] = []
    for number, file in enumerate(former):
        replaced = _find_unique(newer)
        for states in file:
            keys = _make_keys(states, key)
            chosen = pa.array(np.ones(len(states), np.bool_)) if chosen_keys is None else _is_in(keys, chosen_keys)
            if len(replaced):
                chosen = pc.and_not(chosen, _is_in(keys, replaced))
            if number < len(former) - 1:
                newer.append(keys.filter(chosen))
            left = states if chosen.true_count == len(states) else states.filter(chosen)
            if len(left):
                yield left


def _find_unique(keys: Sequence[pa.Array]) -> pa.Array:
    return pc.unique(pa.chunked_array(keys)) if keys else pa.array([], pa.string())


def _is_in(keys: pa.Array, some: pa.Array) -> pa.Array:
    return pc.is_in(keys, value_set=some if len(some) else some.cast(keys.type))


def _make_keys(entries: pa.Table, key: Sequence[str]) -> pa.Array:
    """Return a value for each entry that is equal exactly for equal keys."""
    if len(key) == 1:
        column = entries.column(name_value(key[0]))
        if pa.types.is_integer(column.type) or pa.types.is_string(column.type):
            return column.combine_chunks()
    return join_key(entries, key)


def join_key(entries: pa.Table, key: Sequence[str]) -> pa.Array:
    """Return the key of each entry as one text, which is equal for equal keys."""
    texts = [convert_to_text(entries.column(name_value(name)).combine_chunks()) for name in key]
    shown = [pc.fill_null(text, "\0") for text in texts]
    return pc.binary_join_element_wise(*shown, "\1") if len(shown) > 1 else shown[0]


def convert_to_text(array: pa.Array) -> pa.Array:
    """Return a text for each value, equal for equal ones."""
    if pa.types.is_binary(array.type):
        return pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
    if pa.types.is_nested(array.type):
        return pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())  # its text is made faster
    return array.cast(pa.string())


class LeftOut:
    """The number of entries that were left out, and the segment and offset of the first one's event."""

    def __init__(self) -> None:
        self.count = 0
        self.first: tuple[int, int] | None = None

    def note(self, entries: pa.Table, left_out: Numbers) -> None:
        if not len(left_out):
            return
        self.count += len(left_out)
        if self.first is None:
            segment, offset = (read_numbers(entries, name)[left_out[0]] for name in ("segment", "offset"))
            self.first = int(segment), int(offset)
