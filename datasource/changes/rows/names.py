"""Names what an entry of a fold is made of, and tells which of two changes is older.

Positions in the database's log decide. Where the database's time contradicts them, its log has begun again under its
name, and the order of events decides: after RESET MASTER, from a restored backup, or on a new server behind the same
connector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNKNOWN = -(2**63)
"""A time that an event does not tell."""


class OlderPositions(StrEnum):
    """What a change is whose position is older than that of the change before it; the table's property says it.

    By its time: of a new log if that is newer, else one that is delivered again. Or always one that is delivered
    again, as for connectors whose times are those of their own clock. Or one of a new log unless its time is older.
    """

    BY_TIME = "by-time"
    REDELIVERY = "redelivery"
    NEW_LOG = "new-log"

    def find_contradicted(self, older: Mask, left: Numbers, right: Numbers) -> Mask:
        """Tell where the times contradict the positions; `older` says where the left position is."""
        if self is OlderPositions.REDELIVERY:
            return np.zeros(len(older), np.bool_)
        known = (left != UNKNOWN) & (right != UNKNOWN)
        found: Mask = known & np.where(older, left > right, left < right)
        if self is OlderPositions.NEW_LOG:
            found |= ~known | (left == right)
        return found

    def begins_log(self, time: int, newest: int) -> bool:
        """Tell whether a change with an older position counts, after changes of which `newest` is the greatest time."""
        if self is OlderPositions.REDELIVERY:
            return False
        known = UNKNOWN not in (time, newest)
        if self is OlderPositions.BY_TIME:
            return known and time > newest
        return not known or time >= newest


def is_position_older(left: Sequence[Numbers], right: Sequence[Numbers]) -> Mask:
    """Tell whether the left position comes before the right one; positions as columns, the first counts most."""
    result: Mask = left[-1] < right[-1]
    for a, b in zip(left[-2::-1], right[-2::-1], strict=True):
        result = (a < b) | ((a == b) & result)
    return result


def comparable_times(times: Numbers) -> Numbers:
    """Return times as they are the same each time that a change is delivered.

    Of the same change, some releases of a connector tell the microseconds, and others only the milliseconds.
    """
    found: Numbers = times // 1000
    return found


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
        known = [(moment.time == UNKNOWN, moment.ts == UNKNOWN) for moment in (self, other)]
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
        found: Numbers = np.array(numbers, np.int64)[fill_nulls(coded.indices, len(numbers) - 1)]
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


def fill_nulls(array: pa.Array, value: int) -> Numbers:
    """Return the numbers of an array, `value` for null."""
    numbers: Numbers = pc.fill_null(array, value).to_numpy(zero_copy_only=False)
    return numbers
