"""What a query asks of a scan, and what of it the scan reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from .aggregation import Aggregation
from .conditions import Condition
from .planned_scan import EarlierScan

_FEW_BYTES = 16 << 20
"""What is searched while a scan is planned: it takes less time than to start tasks."""


@dataclass(frozen=True)
class Search:
    """What planning may do to find truncations: search up to `most` bytes (None: any number of them).

    `found` are the rows of a search by tasks that was asked for before.
    """

    most: int | None = None
    found: tuple[str, ...] = ()

    @classmethod
    def of_request(cls, found: tuple[str, ...] | None) -> Search:
        """Return the search for a request of Spark: none (None) before it runs the scan, few bytes then."""
        return cls(0) if found is None else cls(_FEW_BYTES, found)


@dataclass(frozen=True)
class ScanRequest:
    """What a query asks of a table, or of its changes: by default all rows up to now.

    `columns` are those of the rows, hidden ones among them, nested ones cut down; those of an aggregation are the
    columns that it can name. `conditions` are evaluated by the scan. `hints` are conditions that the caller evaluates
    on the rows: the scan may leave out what cannot fulfil them.
    """

    columns: StructType
    conditions: Sequence[Condition] = ()
    every: StructType | None = None
    """All columns that conditions can name; None: there are no conditions."""
    hints: Sequence[Condition] = ()
    filtered: bool = False
    """The caller drops rows: a limit says how many are wanted, and not how many are to be read."""
    limit: int | None = None
    aggregation: Aggregation | None = None
    cores: int | None = None
    """Tasks that run at the same time; None: one for each partition."""
    earlier: EarlierScan | None = None
    """An earlier scan with the same start, up to whose end this one reads."""
    search: Search = field(default_factory=Search)
    counted: bool = False
    """Tasks tell what they have counted, see `scan/counts.py`."""


@dataclass(frozen=True)
class WantedRows:
    """The rows that a scan reads. A kind of table reads more where it cannot tell which are wanted.

    At most `limit` rows are wanted; `few` may be enough though no limit says so, and then a scan of events reads little
    at first. `choosing` are conditions on the places of events, or on versions, by which events are chosen before they
    are decoded. `conditions` are evaluated on the rows: what cannot have rows that fulfil them may be left out.
    """

    columns: StructType
    limit: int | None = None
    few: bool = False
    choosing: Sequence[Condition] = ()
    conditions: Sequence[Condition] = ()
    earlier: EarlierScan | None = None
    search: Search = field(default_factory=Search)
    counted: bool = False
