"""The leases on queries: how a server gets one, and how it looks for those that nobody renews."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from ..storage.reporting import warn_once
from ..storage.spelling import spell_for_pravega
from .kept_query import KeptQueries, KeptQuery, QueryState, read_clock

LOG = logging.getLogger(__name__)
_SHUNNED = 120.0
"""Seconds for which a server leaves a query to others that it could not start."""
_LAST_SEARCH = 2.0
"""Seconds that the end of a server waits for a search."""
Key: TypeAlias = tuple[str, str]
"""The scope and the name of a query."""


class LeaseLostError(Exception):
    """Another server has the lease, or the query is gone."""


def take_lease(
    queries: KeptQueries, kept: KeptQuery, server: str, lease: float, by_user: bool = False
) -> KeptQuery | None:
    """Give the lease of a query to a server, if nobody has renewed it since `kept` was read; return None otherwise.

    It lasts for `lease` seconds. A query that a user has `by_user` for starts over, with the definition of `kept`.
    """
    cleared = {"started": None, "failures": 0} if by_user else {}

    def take(current: KeptQuery | None) -> KeptQuery:
        if current is None or current.status != kept.status:
            raise LeaseLostError
        state = QueryState.STOPPING if current.status.state is QueryState.STOPPING else QueryState.STARTING
        defined = replace(current, definition=kept.definition) if by_user else current
        epoch = max(current.status.epoch + 1, read_clock())
        return defined.with_status(server=server, epoch=epoch, state=state, lease=lease, **cleared)

    try:
        return queries.change(kept.scope, kept.name, take)
    except LeaseLostError:
        return None


def can_take_queries(catalog: Catalog, scope: str) -> bool:
    """Return whether the conf of a server lets it run a scope's queries that no other server runs."""
    run = catalog.options().get(o.QUERIES_RUN)
    return run if isinstance(run, bool) else scope in {spell_for_pravega(catalog, name) for name in run}


class LeaseSearch:
    """Takes the leases of queries that no server runs, in its own thread, and hands the queries to the server."""

    def __init__(self, server: str, lease: float, adopt: Callable[[KeptQuery, float], None]) -> None:
        """Search for `server`. `adopt` gets a query, and a moment before its lease was taken."""
        self._server = server
        self._lease = lease
        self._adopt = adopt
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self._ended = False
        self._seen: dict[Key, tuple[tuple[int, int], float]] = {}
        """The leases of others: epoch and time of renewal, and when they were first seen so."""
        self._shunned: dict[Key, float] = {}

    def begin(self, catalog: Catalog, tended: Collection[Key]) -> None:
        """Search in the background, if the catalog's conf says so and it is time. `tended` has the server's own."""
        moment, searching = time.monotonic(), self._thread is not None and self._thread.is_alive()
        if catalog.options().get(o.QUERIES_RUN) is False or moment < self._next or searching:
            return
        self._next = moment + self._lease / 3
        let_go = catalog.hold()

        def search() -> None:
            try:
                self._search(catalog, tended)
            except PravegaError as error:
                LOG.warning("It is unknown now which queries no server runs: %s", error)
            finally:
                let_go()

        self._thread = threading.Thread(target=search, name="search for queries", daemon=True)
        self._thread.start()

    def shun(self, key: Key) -> None:
        """Leave a query to other servers for some time."""
        self._shunned[key] = time.monotonic() + _SHUNNED

    def end(self) -> None:
        """Take no more leases."""
        self._ended = True
        if self._thread is not None:
            self._thread.join(_LAST_SEARCH)

    def _search(self, catalog: Catalog, tended: Collection[Key]) -> None:
        moment, queries = time.monotonic(), KeptQueries(catalog)
        with limit_retries(self._lease):
            scopes_of_cluster = queries.scopes()
        readable = [scope for scope in scopes_of_cluster if can_take_queries(catalog, scope)]
        scopes = queries.select_scopes(readable, self._lease)
        self._warn_of_missing(catalog, scopes_of_cluster)
        read = self._read(queries, scopes)
        queries_by_name = {(kept.scope, kept.name): kept for of_scope in read.values() for kept in of_scope}
        self._seen = {key: seen for key, seen in self._seen.items() if key in queries_by_name or key[0] not in read}
        for key, kept in queries_by_name.items():
            status = kept.status
            if key in tended or status.state.is_final or moment < self._shunned.get(key, 0.0):
                continue
            lease = status.epoch, status.renewed
            if self._seen.get(key, (None, 0.0))[0] != lease:
                self._seen[key] = lease, moment
            if self._ended or (status.server is not None and moment < self._seen[key][1] + status.lease):
                continue
            self._take(queries, kept)

    def _take(self, queries: KeptQueries, kept: KeptQuery) -> None:
        moment = time.monotonic()
        try:
            with limit_retries(self._lease / 3):
                taken = take_lease(queries, kept, self._server, self._lease)
        except PravegaError as error:
            LOG.warning("The lease of query %s cannot be taken: %s", kept.name, error)
            return
        if taken is not None:
            self._adopt(taken, moment)

    def _read(self, queries: KeptQueries, scopes: Sequence[str]) -> dict[str, list[KeptQuery]]:
        """Return the queries of scopes, without the scopes that cannot be read now."""

        def read(scope: str) -> list[KeptQuery] | None:
            try:
                with limit_retries(self._lease):
                    return queries.list_of_scope(scope)
            except (PravegaError, ValueError) as error:  # a row may be no JSON
                warn_once(f"It is unknown which queries of scope {scope} no server runs: {error}")
                return None

        by_scope = zip(scopes, map_side_by_side(read, scopes), strict=True)
        return {scope: kept_queries for scope, kept_queries in by_scope if kept_queries is not None}

    @staticmethod
    def _warn_of_missing(catalog: Catalog, scopes: Collection[str]) -> None:
        run = catalog.options().get(o.QUERIES_RUN)
        for name in () if isinstance(run, bool) else run:
            if spell_for_pravega(catalog, name) not in scopes:
                warn_once(
                    f"The conf 'queries.run' of catalog {catalog.name} names '{name}', but there is no such scope."
                )
