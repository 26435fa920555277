"""Requests to write: INSERTs, and the micro-batches of streaming queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.scan.conditions import Condition
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from .service_replies import InsertHandle, ScanEnds


@dataclass(frozen=True)
class BeginInsert:
    """An `InsertBegun`: rows of a schema will come from some tasks. These report the rows' keys if it is `keyed`."""

    table: StreamTable
    schema: StructType
    tasks: int
    options: Mapping[str, str]
    keyed: bool


@dataclass(frozen=True)
class CommitInsert:
    """Commits an INSERT, and answers the number of rows. `messages` are the tasks' pickled ones in base64.

    `again`: a service that ended may have done it already.
    """

    table: StreamTable
    insert: InsertHandle
    messages: tuple[str, ...]
    again: bool


@dataclass(frozen=True)
class AbortInsert:
    """Aborts an INSERT. Nothing happens if it has ended."""

    table: StreamTable
    insert: InsertHandle


@dataclass(frozen=True)
class BeginEpoch(BeginInsert):
    """An `InsertBegun` for one micro-batch of a streaming query.

    `query` is the id of the query, `run` that of its present run, and `epoch` the number of the micro-batch. The
    `output_mode` is in lower case.
    """

    query: str
    run: str
    epoch: int
    output_mode: str


@dataclass(frozen=True)
class CommitEpoch(CommitInsert):
    """Commit a micro-batch once; the number of rows. `offsets` is the text of what it read, from the query's own log.

    `watermark` is Spark's for this micro-batch, see `Epoch`.
    """

    query: str
    run: str
    epoch: int
    offsets: str
    watermark: int | None


@dataclass(frozen=True)
class BeginKeyedWrite:
    """An `InsertBegun` without a handle: rows will be removed, replaced or inserted by the keys that identify them.

    `schema` describes the new rows; it has no columns if there are none.
    """

    table: StreamTable
    schema: StructType
    options: Mapping[str, str]


@dataclass(frozen=True)
class BeginChanges:
    """An `InsertBegun`: changes of rows of a table that `writes_changes` will come from some tasks."""

    table: StreamTable
    tasks: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class CommitChanges(CommitInsert):
    """Commits the `statement`, also an INSERT that reads its own table, and answers the number of changed rows.

    Its scans have read the table up to the `ends`. It depends on the rows there that fulfil `conditions`; None: on all.
    """

    statement: str
    ends: tuple[ScanEnds, ...]
    conditions: tuple[Condition, ...] | None


WriteRequest: TypeAlias = (
    BeginInsert | CommitInsert | AbortInsert | BeginEpoch | CommitEpoch | BeginKeyedWrite | BeginChanges | CommitChanges
)
"""Requests to write."""
