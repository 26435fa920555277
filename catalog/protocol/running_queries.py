"""Requests about the streaming queries that CALL start_query keeps running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


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
class StreamRead:
    """The options of a STREAM that a query reads."""

    options: Mapping[str, str]


@dataclass(frozen=True)
class HaveEnds:
    """Whether all streams that a query reads have an end, as a bool."""

    reads: tuple[StreamRead, ...]


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
