"""The parts of a table's history that queries ask for: `CHANGES FROM ... TO`, `VERSION AS OF`, `TIMESTAMP AS OF`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyspark_pravega.errors import InvalidOptionError

VERSION, TIMESTAMP = "version", "timestamp"
"""The units of a range."""
LAST = 2**63 - 1
"""The bound of an open end."""
_NUMBER = re.compile(r"[+-]?\d{1,19}")
_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")


@dataclass(frozen=True)
class ChangeRange:
    """Bounds as Spark passes them, in a `unit`: VERSION (texts) or TIMESTAMP (microseconds since 1970 as texts).

    `start` and `end` are None where the range is open. With `net`, Spark reduces the changes of a row to one.
    """

    unit: str
    start: str | None
    end: str | None = None
    start_inclusive: bool = True
    end_inclusive: bool = True
    net: bool = False

    def bounds(self) -> Bounds:
        """Return the range in numbers. Raises InvalidOptionError for an invalid version, or an end before the start."""
        first = -LAST if self.start is None else parse_version(self.start)
        last = LAST if self.end is None else parse_version(self.end, "TO")
        if last < first:
            raise InvalidOptionError(f"CHANGES ends at {self.unit} {self.end}, before its start {self.start}.")
        low = first if self.start is None or self.start_inclusive else first + 1
        high = last if self.end is None or self.end_inclusive else last - 1
        return Bounds(self.unit, low, high)


@dataclass(frozen=True)
class Bounds:
    """Bounds in numbers, both included."""

    unit: str
    low: int
    high: int

    def __call__(self, versions: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the changes with these versions and times (microseconds since 1970) lie within."""
        measured = versions if self.unit == VERSION else times
        return (measured >= self.low) & (measured <= self.high)


def parse_version(version: str, bound: str = "FROM") -> int:
    """Read a version: a number, or an LSN as PostgreSQL writes it. Raises InvalidOptionError for anything else."""
    text = version.strip()
    match = _LSN.fullmatch(text)
    if match is not None and int(match[1], 16) < 1 << 31:
        return int(match[1], 16) << 32 | int(match[2], 16)
    if not _NUMBER.fullmatch(text) or abs(int(text)) > LAST:
        raise InvalidOptionError(
            f"CHANGES ... {bound} VERSION '{version}' is not a version: give a whole number, as in the column "
            "_commit_version, or a log sequence number of PostgreSQL such as '0/16B3748'."
        )
    return int(text)


@dataclass(frozen=True)
class AsOf:
    """The former state of a table: `asked` are the words of the query, `cut` is the text of their stream cut.

    `about` says in words how the cut was found, if it is approximate.
    """

    asked: str
    cut: str
    about: str | None = None
