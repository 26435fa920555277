"""Names what an entry of a fold is made of: its numbers, and what those of origins and sets of columns stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .age import UNKNOWN, Numbers

STREAMED, SNAPSHOT, DELETED = 0, 1, 2
"""Kinds of entries: a change as it happened, a row as a snapshot found it, a key that is gone."""

NUMBERS = ("kind", "origin", "major", "minor", "row", "time", "ts", "missing", "segment", "offset", "length")
"""The whole numbers of an entry.

`origin` is the number of a Names' origin, -1 if the position is unknown; `missing` that of a set of columns without
value; `time` and `ts` are microseconds since 1970, of the database and of the connector.
"""


POSITION = ("major", "minor", "row")
"""Those of NUMBERS that make a position."""

Columns = dict[str, Numbers]
"""NUMBERS of entries by name."""


@dataclass(frozen=True)
class Moment:
    """Where a change is in the database's log, when it was made, when the connector handled it, and its offset."""

    position: tuple[int, int, int]
    time: int
    ts: int
    offset: int

    def covers(self, other: Moment) -> bool:
        """Tell whether nothing is before the other moment that is not before this one."""
        known = [(each.time == UNKNOWN, each.ts == UNKNOWN) for each in (self, other)]
        return (
            known[0] == known[1]
            and self.position >= other.position
            and self.time >= other.time
            and self.ts >= other.ts
            and self.offset >= other.offset
        )


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
        found: Numbers = np.array(numbers, np.int64)[filled(coded.indices, len(numbers) - 1)]
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


def numbers_of(entries: pa.Table, name: str) -> Numbers:
    """Return one of NUMBERS of all entries."""
    numbers: Numbers = entries.column(name).to_numpy()
    return numbers


def filled(array: pa.Array, value: int) -> Numbers:
    """Return the numbers of an array, `value` for null."""
    numbers: Numbers = pc.fill_null(array, value).to_numpy(zero_copy_only=False)
    return numbers
