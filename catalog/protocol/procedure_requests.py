"""Requests about procedures, and about the streaming queries that one of them, start_query, keeps running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import StructType

from .table_requests import Identifier, OfNamespace


class ListProcedures(OfNamespace):
    """The names of the procedures of a namespace."""


@dataclass(frozen=True)
class LoadProcedure(Identifier):
    """The `ProcedureDescription` of a procedure.

    `given` are the arguments of a CALL, as Spark describes them before it calls: those that do not fit are refused.
    """

    given: StructType | None


@dataclass(frozen=True)
class QueryFacts:
    """What Spark knows about the query that a CALL starts.

    `server` is the driver that would run it, `spark` its version. `own_conf`: the session has a conf of the catalog
    that the server's other sessions do not have. `settings`, `catalog` and `namespace` are those of the session.
    """

    server: str
    spark: str
    own_conf: bool
    streaming: bool
    schema: StructType
    settings: Mapping[str, str]
    catalog: str
    namespace: tuple[str, ...]


@dataclass(frozen=True)
class TasksDone:
    """The rows of the tasks of a call, or the answers to its steps; and what the service said of them, which only it
    understands. The `error` says why a step failed.
    """

    pending: str
    rows: tuple[str, ...]
    error: str | None = None


@dataclass(frozen=True)
class CallProcedure(Identifier):
    """CALL: the rows of its result, as `MetadataRows`. `given` are the arguments that are not null, as texts.

    `facts` are there if the procedure starts a query and its text is given. `done` is there when the tasks have run
    that the first answer to this call asked for.
    """

    given: Mapping[str, str]
    facts: QueryFacts | None = None
    done: TasksDone | None = None


ProcedureRequest: TypeAlias = ListProcedures | LoadProcedure | CallProcedure
"""Requests about procedures."""


@dataclass(frozen=True)
class QueryReport:
    """What Spark says about a query that the server was told to start; `epoch` is the number of its lease.

    `state` is starting, refused, active or ended, and over once the server knows of the end. `error` says why it ended
    or was refused. `progress` is the JSON text of Spark's newest report. `bounded`: it ends by itself. `stopped`: the
    server has stopped it.
    """

    scope: str
    name: str
    epoch: int
    state: str
    error: str | None
    progress: str | None
    bounded: bool
    stopped: bool


@dataclass(frozen=True)
class HaveEnds:
    """Whether all streams that a query reads, with these options, have an end, as a bool."""

    reads: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class TendQueries:
    """What a server should do with its queries now, as `QueryCommands`; the answer may take a second.

    `server` is one driver, from the start of its Spark to the end.
    """

    server: str
    reports: tuple[QueryReport, ...]


@dataclass(frozen=True)
class ReleaseQueries:
    """The queries of a server whose Spark has ended may run on others from now on."""

    server: str


@dataclass(frozen=True)
class WakeQueries:
    """A query has started or ended: `TendQueries` of the servers of this driver need not wait any longer."""


RunningQueryRequest: TypeAlias = HaveEnds | TendQueries | ReleaseQueries | WakeQueries
"""Requests about running queries."""
