"""Defines the numbers that an entry of a fold consists of, its version, and which of two changes is older.

Positions in the database's log decide. If the database's time contradicts them, the log has started over under its
name (after RESET MASTER, from a restored backup, or on a new server behind the same connector), and the order of events
decides. The version of a change is its position as one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.formats.changes.source_positions import compute_commit_versions
from pyspark_pravega.formats.core.arrow_types import make_array

from .log_versions import LogVersions

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNKNOWN = -(2**63)
"""A time that an event does not have."""


class OlderPositions(StrEnum):
    """The meaning of a change whose position is older than that of the change before it; a table property.

    BY_TIME: it is of a new log if its time is newer, else it is delivered again. REDELIVERY: it is always delivered
    again, as for connectors with a clock of their own. NEW_LOG: it is of a new log unless its time is older.
    """

    BY_TIME = "by-time"
    REDELIVERY = "redelivery"
    NEW_LOG = "new-log"

    def find_contradicted(self, older: Mask, left: Numbers | int, right: Numbers | int) -> Mask:
        """Return where the times contradict the positions; `older` says where the left position is the older one."""
        if self is OlderPositions.REDELIVERY:
            return np.zeros(len(older), np.bool_)
        is_known = np.not_equal(left, UNKNOWN) & np.not_equal(right, UNKNOWN)
        contradicted: Mask = is_known & np.where(older, np.greater(left, right), np.less(left, right))
        if self is OlderPositions.NEW_LOG:
            contradicted |= ~is_known | np.equal(left, right)
        return contradicted

    def is_first_in_log(self, time: int, newest: int) -> bool:
        """Return whether a change with an older position counts; `newest` is the greatest time of those before it."""
        if self is OlderPositions.REDELIVERY:
            return False
        are_known = UNKNOWN not in (time, newest)
        if self is OlderPositions.BY_TIME:
            return are_known and time > newest
        return not are_known or time >= newest


def is_position_older(left: Sequence[Numbers | int], right: Sequence[Numbers | int]) -> Mask:
    """Return where the left position is older than the right one; the first column counts most."""
    result: Mask = np.less(left[-1], right[-1])
    for a, b in zip(left[-2::-1], right[-2::-1], strict=True):
        result = np.less(a, b) | (np.equal(a, b) & result)
    return result


def make_comparable_times(times: Numbers) -> Numbers:
    """Return times that are the same whenever a change is delivered.

    For the same change, some releases of a connector send microseconds, and others only milliseconds.
    """
    return times // 1000


STREAMED, SNAPSHOT, DELETED = 0, 1, 2
"""Kinds of entries: a change that was streamed, a row that a snapshot read, a deleted key."""

NUMBERS = ("kind", "origin", "major", "minor", "row", "time", "ts", "missing", "segment", "offset", "length")
"""The whole numbers of an entry.

`origin` numbers an origin in Names, -1 if the position is unknown; `missing` numbers a set of columns without value.
`time` and `ts` are microseconds since 1970, of the database and of the connector.
"""


POSITION = ("major", "minor", "row")
"""The NUMBERS of a position."""

Columns = dict[str, Numbers]
"""NUMBERS of entries by name."""


@dataclass(frozen=True)
class Moment:
    """The position of a change in the database's log, its time there and at the connector, and its event's offset."""

    position: tuple[int, int, int]
    time: int
    ts: int
    offset: int

    def covers(self, other: Moment) -> bool:
        """Return whether everything before the other moment is also before this one."""
        knows_time = [(moment.time == UNKNOWN, moment.ts == UNKNOWN) for moment in (self, other)]
        return (
            knows_time[0] == knows_time[1]
            and self.position >= other.position
            and self.time >= other.time
            and self.ts >= other.ts
            and self.offset >= other.offset
        )


class Names:
    """Numbers texts and sets that occur repeatedly in the entries of a fold.

    `ages` says what older positions mean, and `log` has the versions of changes without a position, if there is one.
    """

    def __init__(self, ages: OlderPositions = OlderPositions.BY_TIME, log: LogVersions | None = None) -> None:
        self.ages, self.log = ages, log
        self._origins: dict[str, int] = {}
        self.missing: list[frozenset[str]] = [frozenset()]

    def origin(self, text: str | None) -> int:
        """Return the number of an origin, -1 for None."""
        return -1 if text is None else self._origins.setdefault(text, len(self._origins))

    @property
    def origin_texts(self) -> list[str]:
        """Return the origins in the order of their numbers."""
        return list(self._origins)

    def origin_text(self, number: int) -> str | None:
        return self.origin_texts[number] if number >= 0 else None

    def origins(self, texts: pa.Array) -> Numbers:
        """Return the number of each origin, -1 for null."""
        coded = texts.dictionary_encode()
        numbers = [*map(self.origin, coded.dictionary.to_pylist()), -1]
        if len(numbers) == 2 and not texts.null_count:
            return np.full(len(texts), numbers[0], np.int64)
        return np.array(numbers, np.int64)[fill_nulls(coded.indices, len(numbers) - 1)]

    def missing_sets(self, lists: pa.Array) -> Numbers:
        """Return the number of each list as a set, 0 for null and the empty one."""
        if not len(lists.flatten()):
            return np.zeros(len(lists), np.int64)
        # Arrow can only join lists whose elements may be null.
        joined = pc.binary_join(lists.cast(pa.list_(pa.string())), "\0")
        coded = pc.fill_null(joined, "").dictionary_encode()
        numbers = [self._number_missing_set(text) for text in coded.dictionary.to_pylist()]
        numbers_of_rows: Numbers = np.array(numbers, np.int64)[coded.indices.to_numpy()]
        return numbers_of_rows

    def _number_missing_set(self, joined: str) -> int:
        columns = frozenset(joined.split("\0")) if joined else self.missing[0]
        if columns not in self.missing:
            self.missing.append(columns)
        return self.missing.index(columns)


def read_numbers(entries: pa.Table, name: str) -> Numbers:
    """Return one of NUMBERS of all entries."""
    numbers: Numbers = entries.column(name).to_numpy()
    return numbers


def read_columns(entries: pa.Table) -> Columns:
    """Return all NUMBERS of entries by name."""
    return {name: read_numbers(entries, name) for name in NUMBERS}


def replace_columns(entries: pa.Table, **columns: Numbers | int) -> pa.Table:
    """Return the entries with other numbers in these columns, or with one number in all of them."""
    for name, numbers in columns.items():
        array = make_array(numbers if isinstance(numbers, np.ndarray) else np.full(len(entries), numbers, np.int64))
        entries = entries.set_column(entries.column_names.index(name), name, array)
    return entries


def fill_nulls(array: pa.Array, value: int) -> Numbers:
    """Return the numbers of an array, `value` for null."""
    whole = pc.fill_null(array, value) if array.null_count else array
    numbers: Numbers = whole.to_numpy(zero_copy_only=False)
    return numbers


def compute_version(origin: str | None, position: tuple[int, int, int]) -> int:
    """Return a position as one number; 0 if the origin is unknown."""
    if origin is None:
        return 0
    major, minor = (np.array([number]) for number in position[:2])
    return int(compute_commit_versions(origin, major, minor)[0])


def compute_versions(entries: pa.Table, names: Names) -> Numbers:
    """Return the position of each change as one number; if it has none, the version of the log, or 0.

    Raises what LogVersions refuses.
    """
    origin, major, minor = (read_numbers(entries, name) for name in ("origin", "major", "minor"))
    versions = np.zeros(len(entries), np.int64)
    for number in np.unique(origin[origin >= 0]).tolist():
        rows = origin == number
        versions[rows] = compute_commit_versions(names.origin_text(number) or "", major[rows], minor[rows])
    if names.log is not None:
        names.log.check(entries)
        rows, numbers = names.log.find("numbers", entries)
        versions[rows] = numbers
    return versions


def find_times(entries: pa.Table, names: Names) -> Numbers:
    """Return when each change was committed, or else when it was handled."""
    time = read_numbers(entries, "time")
    times: Numbers = np.where(time != UNKNOWN, time, read_numbers(entries, "ts"))
    if names.log is not None:
        rows, committed = names.log.find("times", entries)
        times[rows] = committed
    return times


def make_ascending(versions: Numbers, first: Mask) -> Numbers:
    """Make the versions of each key ascend: Spark nets changes of a row in the order of their versions.

    A version that does not is replaced by one more than the one before. `first` marks the first entry of each key.
    """
    back = np.append(False, versions[1:] <= versions[:-1]) & ~first
    if not back.any():
        return versions
    fixed = versions.copy()
    for begin in np.flatnonzero(back).tolist():
        end = begin
        while end < len(fixed) and not first[end] and fixed[end] <= fixed[end - 1]:
            fixed[end] = fixed[end - 1] + 1
            end += 1
    return fixed
