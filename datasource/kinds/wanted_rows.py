"""Says which rows of a table a scan wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..changes.truncation_search import Search
from ..scan.conditions import Condition
from ..scan.places import Places


@dataclass(frozen=True)
class WantedRows:
    """The rows that a scan wants, by default all up to now. A kind of table reads more where it cannot tell.

    At most `limit` rows are wanted; `few` may be enough though no limit says so, then a scan of events reads little at
    first. `tail` is that of an earlier scan with the same start, by segment, in bytes. `places` says which events are
    wanted, where these are rows. `conditions` are those that are evaluated on the rows: what cannot have rows that
    fulfil them may be left out. `search` is what may be done for the scan before. With `counted` the tasks tell what
    they have counted, see `scan/counts.py`.
    """

    limit: int | None = None
    few: bool = False
    tail: Mapping[int, int] | None = None
    places: Places | None = None
    conditions: Sequence[Condition] = ()
    search: Search = field(default_factory=Search)
    counted: bool = False


ALL_ROWS = WantedRows()
