"""Decides what a server does with streaming queries: starts, retries, stops, and leases against a second run.

A server is one driver. It reports the state of its queries about once a second, and is told what to start and to stop.
All that has to outlive this process is in the rows of the queries. A server has a lease as long as it renews it.
Another one takes it once the row has not changed for the lease by its own clock, so clocks need not agree.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.errors import InvalidNameError, PravegaError, ScopeNotFoundError, format_count
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.service_replies import QueryCommands
from ..storage.catalogs import CATALOG_NAME, Catalog, Connections
from .dialogue import Commands, describe_error, read_progress
from .kept_query import KeptQueries, KeptQuery, QueryState, read_clock
from .leases import Key, LeaseLostError, LeaseSearch, can_take_queries

LOG = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
TICK = 1.0
"""The longest time between two looks at a query's row."""
LONGEST_PAUSE = 60.0
"""The longest pause before a failed query is started again, in seconds."""
REFUSALS = 5
"""How often in a row Spark refuses to start a query before its server leaves it to others."""
_THREADS = 32
"""The most rows that are read or written at once, since each of them may wait for a server that does not answer."""
_STOPPED_ELSEWHERE = "The query was stopped by other means than stop_query."
_STOPPED_HERE = "The server stopped the query, because it could not tell in time whether it still had the lease on it."
_STARTS = (QueryState.STARTING, QueryState.RETRYING, QueryState.WAITING)


@dataclass
class _Tended:
    """A query whose lease this server has. Moments are those of the monotonic clock.

    `asked`: start_query waits for its first start, and is told if that fails. `sent`: Spark was told to run it.
    `refusals`: how often in a row Spark has refused to.
    """

    epoch: int
    renewed: float
    due: float
    asked: bool
    sent: bool = False
    active: bool = False
    refusals: int = 0


class QueryServer:
    """The queries of one catalog that one server runs. Thread-safe."""

    def __init__(self, server: str, lease: float) -> None:
        """Begin without queries. `server` is the driver, `lease` how many seconds one of its leases lasts."""
        self.server = server
        self._lease = lease
        self._renewal = lease / 3
        """Seconds between two renewals of a lease, and the most that one read or write of a row may take."""
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._tended: dict[Key, _Tended] = {}
        self._adopted: SimpleQueue[tuple[Key, _Tended]] = SimpleQueue()
        """Queries whose leases other servers have taken for this one, until it learns of them."""
        self._search = LeaseSearch(server, lease, self._adopt)

    def adopt(self, kept: KeptQuery) -> None:
        """Start at once a query whose lease start_query has taken for this server. Does not wait for others."""
        self._adopt(kept, time.monotonic(), by_user=True)

    def _adopt(self, kept: KeptQuery, moment: float, by_user: bool = False) -> None:
        self._adopted.put(((kept.scope, kept.name), _Tended(kept.status.epoch, moment, moment, by_user)))
        self._woken.set()

    def wake(self) -> None:
        """Look at all queries soon, because a row has changed."""
        self._woken.set()

    def tend(self, catalog: Catalog, reports: Sequence[r.QueryReport]) -> QueryCommands:
        """Take note of reports, and return what to do; wait up to a second if nothing has changed."""
        queries, commands = KeptQueries(catalog), Commands(catalog)
        with self._lock:
            reported = {(report.scope, report.name, report.epoch) for report in reports if report.state != "over"}
            for key, tended in self._tended.items():  # a lost answer may have had the start of one
                tended.sent = tended.sent and (*key, tended.epoch) in reported
            news = self._act_on_all(lambda report: self._note(catalog, queries, report, commands), reports)
        if not any(news):
            self._woken.wait(TICK)
        self._woken.clear()
        with self._lock:
            self._take_adopted()
            self._act_on_all(lambda tended: self._look(queries, *tended, commands), list(self._tended.items()))
            self._search.begin(catalog, frozenset(self._tended))
        return commands.all()

    def _act_on_all(self, act: Callable[[T], R], all: Sequence[T]) -> list[R]:
        """Act on several queries side by side, so that no query waits for the servers of another."""

        def act_in_time(query: T) -> R:
            with limit_retries(self._renewal):
                return act(query)

        return map_side_by_side(act_in_time, all, _THREADS)

    def _take_adopted(self) -> None:
        while not self._adopted.empty():
            key, adopted = self._adopted.get()
            self._tended[key] = adopted

    def release(self, catalog: Catalog) -> None:
        """Give all leases back, because the server's Spark has ended."""
        queries = KeptQueries(catalog)
        self._search.end()
        with self._lock:
            self._take_adopted()
            for key, tended in self._tended.items():
                try:
                    self._change(queries, key, tended, state=QueryState.WAITING, server=None)
                except (PravegaError, LeaseLostError) as error:
                    LOG.debug("The lease of query %s is left to end by itself: %s", key[1], error)
            self._tended.clear()

    def _note(self, catalog: Catalog, queries: KeptQueries, report: r.QueryReport, commands: Commands) -> bool:
        """Take note of a report; return whether it says something new."""
        key, run = (report.scope, report.name), (report.scope, report.name, report.epoch)
        tended = self._tended.get(key)
        try:
            if tended is None or tended.epoch != report.epoch:
                tended = self._recall(queries, key, report)
            if report.state == "over":
                return False
            ended = report.state in ("ended", "refused")
            is_first, tended.sent = not tended.sent, not ended
            if ended:
                self._note_end(catalog, queries, tended, report, is_first)
                return True
            if report.state == "active" and (not tended.active or time.monotonic() >= tended.renewed + self._renewal):
                self._change(queries, key, tended, state=QueryState.RUNNING, **read_progress(report.progress))
                tended.active, tended.asked, tended.refusals = True, False, 0
        except LeaseLostError:
            commands.stop(run)
            self._forget(key, tended)
            return True
        except PravegaError as error:
            LOG.warning("The state of query %s cannot be recorded: %s", report.name, error)
            if tended is not None:
                tended.active, tended.due = False, time.monotonic() + self._renewal
                self._stop_in_time(key, tended, commands)
        return False

    def _recall(self, queries: KeptQueries, key: Key, report: r.QueryReport) -> _Tended:
        """Return a query that the server has run, after this process was started again. Raises LeaseLostError."""
        moment = time.monotonic()
        recalled = _Tended(report.epoch, moment, moment, asked=False)
        self._check_lease(queries.read(*key), recalled)
        self._tended[key] = recalled
        return recalled

    def _note_end(
        self, catalog: Catalog, queries: KeptQueries, tended: _Tended, report: r.QueryReport, may_be_known: bool
    ) -> None:
        key = report.scope, report.name
        kept = self._check_lease(queries.read(*key), tended)
        tended.active = False
        was_by_user, tended.asked = tended.asked and report.state == "refused", False
        if kept.status.state is QueryState.STOPPING:
            return  # `_look` removes it
        if may_be_known and kept.status.state is QueryState.RETRYING:
            return  # the answer to an earlier report of this end was lost
        definition = kept.definition
        progress = read_progress(report.progress)
        if report.state == "ended" and kept.status.started is None:
            progress["started"] = read_clock()
        if report.stopped:
            stopped = {"state": QueryState.RETRYING, "last_error": _STOPPED_HERE, "failed_at": read_clock()}
            self._change(queries, key, tended, **progress, **stopped)
            tended.due = time.monotonic()
            return
        if report.error is None and report.bounded:
            self._end(queries, key, tended, state=QueryState.FINISHED, **{**progress, "failures": 0})
            return
        error = describe_error(report.error or _STOPPED_ELSEWHERE, catalog.options())
        failures = 1 + int(progress.get("failures", kept.status.failures))
        failed = {
            **progress,
            "failures": failures,
            "last_error": error,
            "failed_at": read_clock(),
            "rows_per_second": None,
        }
        if was_by_user or (definition.retries is not None and failures > definition.retries):
            self._end(queries, key, tended, state=QueryState.FAILED, **failed)
            return
        tended.refusals = tended.refusals + 1 if report.state == "refused" else 0
        if tended.refusals >= REFUSALS and can_take_queries(catalog, key[0]):
            self._search.shun(key)
            self._end(queries, key, tended, state=QueryState.WAITING, **failed)
            LOG.warning("Query %s is left to other servers for a while, because it does not start: %s", key[1], error)
            return
        pause = min(2.0 ** (failures - 1), LONGEST_PAUSE)
        self._change(queries, key, tended, state=QueryState.RETRYING, **failed)
        tended.due = time.monotonic() + pause
        times = format_count(failures, "failure")
        LOG.warning("Query %s failed, and is started again in %.0f s, after %s: %s", key[1], pause, times, error)

    def _end(self, queries: KeptQueries, key: Key, tended: _Tended, **changes: Any) -> None:
        self._change(queries, key, tended, server=None, **changes)
        self._forget(key, tended)

    def _forget(self, key: Key, tended: _Tended | None) -> None:
        if tended is not None and self._tended.get(key) is tended:
            del self._tended[key]

    def _check_lease(self, kept: KeptQuery | None, tended: _Tended) -> KeptQuery:
        """Return the query. Raises LeaseLostError."""
        if kept is None or (kept.status.server, kept.status.epoch) != (self.server, tended.epoch):
            raise LeaseLostError
        return kept

    def _change(self, queries: KeptQueries, key: Key, tended: _Tended, **changes: Any) -> None:
        """Change a query's status and renew the lease. Raises LeaseLostError. A stop that was asked for stays."""

        def make_changed(current: KeptQuery | None) -> KeptQuery:
            kept = self._check_lease(current, tended)
            stopping = {"state": QueryState.STOPPING} if kept.status.state is QueryState.STOPPING else {}
            begins = changes.get("state") is QueryState.RUNNING and kept.status.state in _STARTS
            return kept.with_status(**{**changes, **({"started": read_clock()} if begins else {}), **stopping})

        began = time.monotonic()
        queries.change(*key, make_changed)
        tended.renewed = began

    def _look(self, queries: KeptQueries, key: Key, tended: _Tended, commands: Commands) -> None:
        """Decide what to do with one query."""
        moment, run = time.monotonic(), (*key, tended.epoch)
        try:
            kept = self._check_lease(queries.read(*key), tended)
            if kept.status.state is QueryState.STOPPING:
                if tended.sent:
                    commands.stop(run, at_once=False)
                else:
                    queries.remove(kept, lambda current: current.status.epoch == tended.epoch)
                    self._forget(key, tended)
                    return
            elif not (tended.sent or moment < tended.due or self._start(queries, kept, tended, commands)):
                return
            # The reports of one that is active renew its lease.
            if moment >= tended.renewed + self._renewal * (2 if tended.active else 1):
                self._change(queries, key, tended)
        except LeaseLostError:
            self._forget(key, tended)
            commands.stop(run)
        except PravegaError as error:
            LOG.warning("The lease of query %s cannot be renewed: %s", key[1], error)
            self._stop_in_time(key, tended, commands)

    def _start(self, queries: KeptQueries, kept: KeptQuery, tended: _Tended, commands: Commands) -> bool:
        """Have a query started; if its row does not name a valid target, give the query up and return False."""
        try:
            commands.start(kept)
            tended.sent = True
            return True
        except (InvalidNameError, ScopeNotFoundError) as error:
            failed = {"failures": kept.status.failures + 1, "last_error": error.message, "failed_at": read_clock()}
            self._end(queries, (kept.scope, kept.name), tended, state=QueryState.FAILED, **failed)
            LOG.warning("Query %s is not started: %s", kept.name, error)
            return False

    def _stop_in_time(self, key: Key, tended: _Tended, commands: Commands) -> None:
        """Stop a run before another server may take its lease, which could not be renewed."""
        if tended.sent and time.monotonic() > tended.renewed + self._lease - self._renewal:
            commands.stop((*key, tended.epoch))


_RELEASE_SECONDS = 5.0


class QueryServers:
    """The servers that this process answers, one for each catalog of a driver. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, str], tuple[QueryServer, dict[str, str]]] = {}

    def get(self, catalog: Catalog, server: str) -> QueryServer:
        """Return a server, which begins without queries."""
        conf = {**catalog.conf, CATALOG_NAME: catalog.name}
        with self._lock:
            running = self._servers.get((server, catalog.name))
            if running is None:
                lease = catalog.options().get(o.QUERIES_LEASE).total_seconds()
                running = self._servers[server, catalog.name] = QueryServer(server, lease), conf
            return running[0]

    def wake(self) -> None:
        """Let all servers look at their queries soon."""
        with self._lock:
            for server, _ in self._servers.values():
                server.wake()

    def release(self, catalog: Catalog, server: str) -> None:
        """Give all leases of a server back, and forget it."""
        with self._lock:
            running = self._servers.pop((server, catalog.name), None)
        if running is not None:
            with limit_retries(_RELEASE_SECONDS):
                running[0].release(catalog)

    def release_all(self, connections: Connections) -> None:
        """Give the leases of all servers back, because the driver has ended."""
        with self._lock:
            servers = list(self._servers.values())
            self._servers.clear()
        for server, conf in servers:
            with connections.catalog(conf) as catalog, limit_retries(_RELEASE_SECONDS):
                server.release(catalog)
