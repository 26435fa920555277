"""Gives versions of the commit log to changes that have no position in a database's log.

These are what statements write, and what other programs write without positions. The versions of the stream's commit
log follow from the places of events, as in ordinary tables. One version changes a row once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import PravegaError, UnsupportedOperationError


@dataclass(frozen=True)
class LogVersions:
    """The versions of the events in some segments, as members of SegmentVersions; those that repeat rows are `hidden`.

    The `refusal` says why the wanted range cannot be that of such changes. A query that `compares` versions cannot have
    changes with positions beside them.
    """

    segments: Mapping[int, Mapping[str, Sequence[int]]]
    hidden: tuple[int, ...] = ()
    refusal: PravegaError | None = None
    compares: bool = False
    _kinds: set[bool] = field(default_factory=set)
    """Whether changes so far had no position."""

    def check(self, entries: pa.Table) -> None:
        """Raise the refusal for changes without a position, UnsupportedOperationError for versions of both kinds."""
        self._kinds.update(np.unique(find_own(entries)).tolist())
        if self.refusal is not None and True in self._kinds:
            raise self.refusal
        if self.compares and len(self._kinds) == 2:
            raise UnsupportedOperationError(
                "Some changes of the table have positions in a database's log as versions, and others, which "
                "statements wrote, the versions of its history. Neither a range of versions nor netChanges can have "
                "both: use CHANGES FROM TIMESTAMP, or 'startingTimestamp'."
            )

    def find(self, member: str, entries: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find entries without a position; return their indices, and the `numbers` or `times` of their versions."""
        own, values = find_own(entries), np.full(len(entries), -1)
        segment, offset = (entries.column(name).to_numpy() for name in ("segment", "offset"))
        for one in np.unique(segment[own]).tolist():
            # A row of an earlier batch may lie elsewhere, if something has deleted it.
            if (versions := self.segments.get(one)) is not None:
                rows = np.flatnonzero(own & (segment == one) & (offset < versions["ends"][-1]))
                places = np.searchsorted(versions["ends"], offset[rows], "right")
                values[rows] = np.array(versions[member])[places]
        known = np.flatnonzero(values >= 0)
        return known, values[known]


def find_own(entries: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which entries have no position."""
    own: npt.NDArray[np.bool_] = entries.column("origin").to_numpy() < 0
    return own
