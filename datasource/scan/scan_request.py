"""Describes what a query asks of a scan, and the rows that the scan reads for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from .aggregates.aggregation import Aggregation
from .conditions import Condition
from .planned_scan import EarlierScan

_FEW_BYTES = 16 << 20
"""Bytes that are searched during planning: that takes less time than to start tasks."""


@dataclass(frozen=True)
class Search:
    """How planning may find truncations: by a search of up to `most` bytes (None: any number).

    `found` are the rows of an earlier search by tasks.
    """

    most: int | None = None
    found: tuple[str, ...] = ()

    @property
    def is_preview(self) -> bool:
        """Return whether the scan does not run yet, and will be planned again if it does."""
        return self.most == 0

    @classmethod
    def of_request(cls, reached: tuple[str, ...] | None) -> Search:
        """Return a request's search: none before it runs the scan (`reached` is None), then few bytes."""
        return cls(0) if reached is None else cls(_FEW_BYTES, reached)


@dataclass(frozen=True)
class ScanRequest:
    """What a query asks of a table, or of its changes: by default all rows up to now.

    `columns` are those of the rows, hidden ones included, nested ones pruned; for an aggregation, the columns that it
    can name. The scan evaluates the `conditions`. The caller evaluates the `hints` on the rows: the scan may leave out
    rows that cannot fulfil them.
    """

    columns: StructType
    conditions: Sequence[Condition] = ()
    every: StructType | None = None
    """All columns that conditions can name; None without conditions."""
    hints: Sequence[Condition] = ()
    filtered: bool = False
    """Whether the caller drops rows: a limit says how many it wants, not how many to read."""
    limit: int | None = None
    aggregation: Aggregation | None = None
    cores: int | None = None
    """Tasks that run at the same time; None if unknown."""
    earlier: EarlierScan | None = None
    """An earlier scan with the same start, at whose end this one ends too."""
    search: Search = field(default_factory=Search)
    files: Sequence[str] | None = None
    """The files of the folder that an unfinished plan named; None if they are not known."""
    counted: bool = False
    """Whether tasks count, see `scan/counts.py`."""

    @property
    def row_columns(self) -> StructType:
        """Return the columns of the rows before they are aggregated."""
        return self.columns if self.aggregation is None else self.aggregation.operands(self.columns)

    @property
    def row_limit(self) -> int | None:
        """Return how many rows are wanted, None: all. With an aggregation the limit applies to groups."""
        return self.limit if self.aggregation is None else None


@dataclass(frozen=True)
class WantedRows:
    """The rows that a scan should read. A kind of table may read more.

    At most `limit` rows are wanted. With `few`, a few may be enough even without a limit, and a scan of events reads
    little at first. `choosing` are conditions on the places of events, or on versions, by which events are chosen
    before they are decoded. `conditions` are evaluated on the rows: rows that cannot fulfil them may be left out.
    Spark can run as many tasks at once as it has `cores`; None if that is unknown. With `any_order`, tasks aggregate
    the rows, and the result is the same in whatever order it is put together.
    """

    columns: StructType
    limit: int | None = None
    few: bool = False
    choosing: Sequence[Condition] = ()
    conditions: Sequence[Condition] = ()
    earlier: EarlierScan | None = None
    search: Search = field(default_factory=Search)
    files: Sequence[str] | None = None
    counted: bool = False
    cores: int | None = None
    any_order: bool = False
