"""Tells which of two changes is older, by their positions in the database's log and by the database's time.

Positions decide. Where the time contradicts them, the database's log has begun again under its name (RESET MASTER, a
backup that was restored, a new server behind the same connector), and the order of events decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

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

    def contradicted(self, older: Mask, left: Numbers, right: Numbers) -> Mask:
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


def older(left: Sequence[Numbers], right: Sequence[Numbers]) -> Mask:
    """Tell whether the left position comes before the right one; positions as columns, the first counts most."""
    result: Mask = left[-1] < right[-1]
    for a, b in zip(left[-2::-1], right[-2::-1], strict=True):
        result = (a < b) | ((a == b) & result)
    return result


def moments(times: Numbers) -> Numbers:
    """Return times as they are the same each time that a change is delivered.

    Of the same change, some releases of a connector tell the microseconds, and others only the milliseconds.
    """
    found: Numbers = times // 1000
    return found
