"""A streaming query as the catalog keeps it: its definition, the server that runs it, and how it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from pyspark_pravega.client.cancellation import carry_over
from pyspark_pravega.errors import PermissionDeniedError

from ..storage.connections import Catalog
from ..storage.scope_table import Row, RowKind, ScopeTable

_THREADS = 8
LEASE = 15.0
"""Seconds of the lease in rows of earlier versions, which have no `lease`."""


class QueryState(StrEnum):
    """What a query does. The last two are final: no server starts it again by itself."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    STOPPING = "STOPPING"
    WAITING = "WAITING"
    FAILED = "FAILED"
    FINISHED = "FINISHED"

    @property
    def is_final(self) -> bool:
        """Return whether the query has come to its end."""
        return self in (QueryState.FAILED, QueryState.FINISHED)


@dataclass(frozen=True)
class QueryDefinition:
    """What a user has asked for. `into` is the table in SQL, without its catalog.

    `catalog` and `namespace` are those that names in the query are completed by; the catalog is None for the query's
    own, because that may have another name on another server. `settings` are those of the session, `options` those of
    the write.
    """

    query: str
    into: str
    checkpoint: str
    trigger: str | None
    output_mode: str
    retries: int | None
    catalog: str | None
    namespace: tuple[str, ...]
    settings: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryStatus:
    """Who runs a query, and how it does. Times are microseconds since 1970.

    `server` has the lease number `epoch`, and renews it; None if nobody has one. Another server may take over after
    `lease` seconds without a renewal. `failures` are those since the last micro-batch that succeeded.
    """

    state: str
    server: str | None
    epoch: int
    renewed: int
    started: int | None = None
    batch: int | None = None
    rows_per_second: float | None = None
    bytes_behind: int | None = None
    seconds_behind: float | None = None
    failures: int = 0
    last_error: str | None = None
    failed_at: int | None = None
    lease: float = LEASE

    @property
    def known(self) -> QueryState:
        """Return the state."""
        return QueryState(self.state)

    def now(self, **changes: Any) -> QueryStatus:
        """Return the status with changes, renewed now."""
        return replace(self, renewed=now(), **changes)


@dataclass(frozen=True)
class KeptQuery:
    """A streaming query as the hidden table of a scope has it: that of the table into which it writes."""

    scope: str
    name: str
    definition: QueryDefinition
    status: QueryStatus

    def with_status(self, **changes: Any) -> KeptQuery:
        """Return the query with another status, renewed now."""
        return replace(self, status=self.status.now(**changes))


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


class KeptQueries:
    """The queries of a catalog, over all scopes that the user may read."""

    def __init__(self, catalog: Catalog) -> None:
        """Nothing is sent yet."""
        self._catalog = catalog

    def all(self) -> list[KeptQuery]:
        """Return all queries, by name."""
        return sorted(self._search(lambda scope: list(self._rows(scope))), key=lambda kept: (kept.name, kept.scope))

    def find(self, name: str) -> KeptQuery | None:
        """Return the query of a name."""

        def read(scope: str) -> list[KeptQuery]:
            found = self.read(scope, name)
            return [] if found is None else [found]

        return next(iter(self._search(read)), None)

    def read(self, scope: str, name: str) -> KeptQuery | None:
        """Return the query that a scope has under a name. Raises PermissionDeniedError."""
        row = self._table(scope).read(RowKind.QUERY, name)
        return None if row is None else _read_row(scope, row)

    def change(self, scope: str, name: str, change: Callable[[KeptQuery | None], KeptQuery]) -> KeptQuery:
        """Replace a query by what `change` makes of it, which may be called several times; return the result."""
        made: list[KeptQuery] = []

        def changed(row: Row) -> Row:
            made.append(change(_read_row(scope, row) if row else None))
            return _add_to_row(row, made[-1])

        self._table(scope).change(RowKind.QUERY, name, changed)
        return made[-1]

    def remove(self, kept: KeptQuery, condition: Callable[[KeptQuery], bool] = lambda kept: True) -> bool:
        """Remove a query if it fulfils a condition; return False if it does not, or is gone."""
        return self._table(kept.scope).remove(
            RowKind.QUERY, kept.name, lambda row: condition(_read_row(kept.scope, row))
        )

    def _table(self, scope: str) -> ScopeTable:
        return ScopeTable(self._catalog.pravega, scope)

    def _rows(self, scope: str) -> Iterator[KeptQuery]:
        for row in self._table(scope).rows(RowKind.QUERY):
            yield _read_row(scope, row)

    def _search(self, find: Callable[[str], Sequence[KeptQuery]]) -> list[KeptQuery]:
        def search(scope: str) -> Sequence[KeptQuery]:
            try:
                return find(scope)
            except PermissionDeniedError:
                return ()  # the user sees none of this scope, as with views

        scopes = [scope for scope in self._catalog.pravega.controller.list_scopes() if not scope.startswith("_")]
        with ThreadPoolExecutor(_THREADS) as threads:
            return [kept for found in threads.map(carry_over(search), scopes) for kept in found]


def _add_to_row(row: Row, kept: KeptQuery) -> Row:
    """Put a query into a row, beside what another version of this package keeps there."""
    definition = {**row.get("definition", {}), **asdict(kept.definition)}
    return {**row, "definition": definition, "status": {**row.get("status", {}), **asdict(kept.status)}}


def _read_row(scope: str, row: Row) -> KeptQuery:
    definition = QueryDefinition(**_select_fields(QueryDefinition, row["definition"]))
    status = QueryStatus(**_select_fields(QueryStatus, row["status"]))
    return KeptQuery(scope, row["name"], replace(definition, namespace=tuple(definition.namespace)), status)


def _select_fields(kind: type[QueryDefinition] | type[QueryStatus], kept: Row) -> dict[str, Any]:
    return {each.name: kept[each.name] for each in fields(kind) if each.name in kept}
