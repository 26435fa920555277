"""A streaming query as the catalog keeps it: its definition, the server that runs it, and its state.

Its row is in its scope. A look at a catalog of many scopes would ask each of them, so it is remembered for some seconds
which had no queries.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.errors import PermissionDeniedError, PravegaError, UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..protocol.message_codec import decode
from ..storage.catalogs import Catalog
from ..storage.reporting import warn_once
from ..storage.scope_table import Row, RowKind, ScopeTable


class EmptyScopes:
    """The scopes in which the users of connections found no queries, and when. Thread-safe.

    What this process writes is known at once, to all connections. What another process writes into such a scope is seen
    after the time that `select` is given.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._empty: WeakKeyDictionary[Pravega, dict[str, float]] = WeakKeyDictionary()
        """By connection, because users with other rights find other queries."""
        self._written: dict[str, float] = {}

    def select(self, pravega: Pravega, scopes: Sequence[str], age: float) -> list[str]:
        """Return the scopes to ask: all except those that were empty within the last `age` seconds."""
        oldest = time.monotonic() - age
        with self._lock:
            moments, written = self._empty.get(pravega, {}), self._written
            # Scopes that were dropped, or written to since, are forgotten.
            empty = {scope: moments[scope] for scope in scopes if moments.get(scope, 0.0) > written.get(scope, 0.0)}
            self._empty[pravega] = empty
            return [scope for scope in scopes if empty.get(scope, oldest) <= oldest]

    def note_empty(self, pravega: Pravega, scope: str, moment: float) -> None:
        """Note a scope without queries. `moment` is when it was asked, by the monotonic clock."""
        with self._lock:
            self._empty.setdefault(pravega, {})[scope] = moment

    def note_written(self, scope: str) -> None:
        """Note that this process wrote a query into a scope."""
        with self._lock:
            self._written[scope] = time.monotonic()


_EMPTY_SCOPES = EmptyScopes()
EMPTY_SECONDS = 20.0
"""For how long a scope without queries is not asked again: queries that other servers start there show by then."""
_THREADS = 16
LEASE = 15.0
"""Seconds of the lease in rows of earlier versions, which have no `lease`."""


class QueryState(StrEnum):
    """The state of a query. The last two are final: no server starts it again by itself."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    STOPPING = "STOPPING"
    WAITING = "WAITING"
    FAILED = "FAILED"
    FINISHED = "FINISHED"

    @property
    def is_final(self) -> bool:
        return self in (QueryState.FAILED, QueryState.FINISHED)


@dataclass(frozen=True)
class QueryDefinition:
    """What a user has asked for. `into` is the table in SQL, without its catalog.

    `catalog` and `namespace` complete the names in the query; the catalog is None for the query's own, whose name may
    differ on another server. `settings` are those of the session, `options` those of the write.
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

    def has_checkpoint(self, path: str) -> bool:
        """Return whether a path is the query's checkpoint; `/c`, `file:/c` and `file:///c/` are the same."""
        return _name_directory(self.checkpoint) == _name_directory(path)


_DIRECTORY = re.compile(r"(?:file:(?://)?(?=/(?!/[^/])))?((?:[\w+.-]+://[^/]*)?)(.*)", re.DOTALL)


def _name_directory(path: str) -> str:
    where, names = _DIRECTORY.fullmatch(path).groups()  # type: ignore[union-attr]  # any text matches
    return f"{where}{posixpath.normpath(re.sub('^/+', '/', names) or '/')}"


@dataclass(frozen=True)
class QueryStatus:
    """Who runs a query, and its state. Times are microseconds since 1970.

    `server` has the lease number `epoch`, and renews it; None if nobody has one. Another server may take over after
    `lease` seconds without a renewal. `failures` are those since the last micro-batch that succeeded. `query_id` is
    Spark's, under which a table's ledger knows the query; `sources` are what it reads, as its progress names them.
    """

    state: QueryState
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
    query_id: str | None = None
    sources: tuple[str, ...] = ()
    rows_written_per_second: float | None = None

    def now(self, **changes: Any) -> QueryStatus:
        """Return the status with changes, renewed now."""
        return replace(self, renewed=read_clock(), **changes)


@dataclass(frozen=True)
class KeptQuery:
    """A streaming query as the hidden table of a scope has it. The query writes into a table of that scope."""

    scope: str
    name: str
    definition: QueryDefinition
    status: QueryStatus

    def with_status(self, **changes: Any) -> KeptQuery:
        """Return the query with another status, renewed now."""
        return replace(self, status=self.status.now(**changes))


def read_clock() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


class KeptQueries:
    """The queries of a catalog, over all scopes that the user may read.

    A row that this version cannot read, such as one of a newer version, is logged and left out; nothing changes it.
    """

    def __init__(self, catalog: Catalog) -> None:
        """Send nothing yet."""
        self._catalog = catalog

    def all(self, age: float = EMPTY_SECONDS) -> list[KeptQuery]:
        """Return all queries, by name.

        What another server has started within the last `age` seconds in a scope without queries may be missing.
        """
        scopes = self.select_scopes(self.scopes(), age)
        return sorted(self._search(self.list_of_scope, scopes), key=lambda kept: (kept.name, kept.scope))

    def select_scopes(self, scopes: Sequence[str], age: float) -> list[str]:
        """Return the scopes to ask for queries, without those that had none within the last `age` seconds."""
        return _EMPTY_SCOPES.select(self._catalog.pravega, scopes, age)

    def scopes(self) -> list[str]:
        """Return the scopes that may have queries."""
        return [scope for scope in self._catalog.pravega.controller.list_scopes() if not scope.startswith("_")]

    def list_of_scope(self, scope: str) -> list[KeptQuery]:
        """Return the queries of a scope. Raises PermissionDeniedError."""
        moment = time.monotonic()
        rows: list[Row] = []
        try:
            rows += self._table(scope).rows(RowKind.QUERY)
        except PermissionDeniedError:
            _EMPTY_SCOPES.note_empty(self._catalog.pravega, scope, moment)
            raise
        if not rows:
            _EMPTY_SCOPES.note_empty(self._catalog.pravega, scope, moment)
        return [kept for row in rows if (kept := _read_or_skip(scope, row)) is not None]

    def find(self, name: str) -> list[KeptQuery]:
        """Return the queries of a name: several if a user has made one where another user could not see it."""
        return self._search(
            lambda scope: [kept for kept in [self.read(scope, name)] if kept is not None], self.scopes()
        )

    def read(self, scope: str, name: str) -> KeptQuery | None:
        """Return the query that a scope has under a name. Raises PermissionDeniedError."""
        try:
            row = self._table(scope).read(RowKind.QUERY, name)
        except UnsupportedOperationError as error:
            warn_once(error.message)
            return None
        return None if row is None else _read_or_skip(scope, row)

    def change(self, scope: str, name: str, change: Callable[[KeptQuery | None], KeptQuery]) -> KeptQuery:
        """Replace a query by what `change` makes of it, which may be called several times; return the result.

        Raises UnsupportedOperationError for a row that this version cannot read.
        """
        changed: list[KeptQuery] = []

        def make_changed(row: Row) -> Row:
            changed.append(change(_read_row(scope, row) if row else None))
            return _add_to_row(row, changed[-1])

        try:
            self._table(scope).change(RowKind.QUERY, name, make_changed)
        finally:
            _EMPTY_SCOPES.note_written(scope)
        return changed[-1]

    def remove(self, kept: KeptQuery, condition: Callable[[KeptQuery], bool] = lambda kept: True) -> bool:
        """Remove a query if it fulfils a condition; return False if it does not, or is gone."""
        scope, name = kept.scope, kept.name
        return self._table(scope).remove(
            RowKind.QUERY, name, lambda row: (stored := _read_or_skip(scope, row)) is not None and condition(stored)
        )

    def _table(self, scope: str) -> ScopeTable:
        return ScopeTable(self._catalog.pravega, scope)

    def _search(self, find: Callable[[str], Sequence[KeptQuery]], scopes: Sequence[str]) -> list[KeptQuery]:
        def search(scope: str) -> Sequence[KeptQuery]:
            try:
                return find(scope)
            except PermissionDeniedError:
                return ()  # the user sees none of this scope, as with views

        return [kept for kept_queries in map_side_by_side(search, scopes, _THREADS) for kept in kept_queries]


def _add_to_row(row: Row, kept: KeptQuery) -> Row:
    """Put a query into a row, and keep what another version of this package stores there."""
    definition = {**row.get("definition", {}), **asdict(kept.definition)}
    return {**row, "definition": definition, "status": {**row.get("status", {}), **asdict(kept.status)}}


def _read_or_skip(scope: str, row: Row) -> KeptQuery | None:
    try:
        return _read_row(scope, row)
    except UnsupportedOperationError as error:
        warn_once(error.message)
        return None


def _read_row(scope: str, row: Row) -> KeptQuery:
    """Return the query of a row. Raises UnsupportedOperationError for one that this version cannot read."""
    try:
        definition = decode(QueryDefinition, row["definition"], newer=True)
        status = decode(QueryStatus, row["status"], newer=True)
        if definition.trigger is not None:
            o.TRIGGER_OF_BATCHES.type.parse(definition.trigger)
        return KeptQuery(scope, row["name"], definition, status)
    except KeyError as error:
        reason = f"{error} is missing"
    except PravegaError as error:
        reason = error.message.removesuffix(".")
    except ValueError as error:
        reason = str(error)
    raise UnsupportedOperationError(
        f"The query '{row.get('name')}' of scope {scope} is kept in a way that this version of pyspark-pravega cannot "
        f"read, and is left as it is: {reason}. Use the version that keeps it."
    )
