"""Decides what a server does with streaming queries: starts, retries, stops, and leases against a second run.

A server is one driver. It reports how its queries do, about once a second, and is told what to start and to stop. All
that has to outlive this process is in the rows of the queries. A server has a lease as long as it renews it. Another
one takes it once the row has not changed for the seconds of the lease by its own clock, so clocks need not agree.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.errors import PravegaError, format_count
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.replies import QueryCommands, QueryStart, QueryStop
from ..storage.connections import CATALOG_NAME, Catalog, Connections
from .kept_query import KeptQueries, KeptQuery, QueryState, now
from .progress import describe_error, read_progress

LOG = logging.getLogger(__name__)
TICK = 1.0
"""The longest time between two looks at a query's row."""
LONGEST_PAUSE = 60.0
"""The longest pause before a failed query is started again, in seconds."""
_RELEASE_SECONDS = 5.0
_STOPPED_ELSEWHERE = "The query was stopped by other means than stop_query."
Key = tuple[str, str]


class _LeaseLostError(Exception):
    """Another server has the lease, or the query is gone."""


@dataclass
class _Tended:
    """A query whose lease this server has. Moments are those of the monotonic clock.

    `asked`: start_query waits for its first start, and is told if that fails. `sent`: Spark was told to run it.
    """

    epoch: int
    renewed: float
    due: float
    asked: bool
    sent: bool = False
    active: bool = False


class QueryServer:
    """The queries of one catalog that one server runs. Thread-safe."""

    def __init__(self, server: str, lease: float) -> None:
        """Begin without queries. `server` is the driver, `lease` how many seconds one of its leases lasts."""
        self.server = server
        self._lease = lease
        self._renewal = lease / 3
        """Seconds between two renewals of a lease, and between two looks for queries that no server runs."""
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._tended: dict[Key, _Tended] = {}
        self._seen: dict[Key, tuple[tuple[int, int], float]] = {}
        """The leases of others: epoch and time of renewal, and when they were first seen so."""
        self._next_search = 0.0

    def adopt(self, kept: KeptQuery) -> None:
        """Start a query at once whose lease was taken for this server by start_query."""
        with self._lock:
            moment = time.monotonic()
            self._tended[kept.scope, kept.name] = _Tended(kept.status.epoch, moment, moment, asked=True)
        self._woken.set()

    def wake(self) -> None:
        """Look at all queries soon, because a row has changed."""
        self._woken.set()

    def tend(self, catalog: Catalog, reports: Sequence[r.QueryReport]) -> QueryCommands:
        """Take note of reports, and return what is to be done; wait up to a second if nothing has changed."""
        queries, news = KeptQueries(catalog), False
        commands = _Commands(catalog)
        with self._lock:
            self._find_unsent(reports)
            for report in reports:
                news |= self._note(catalog, queries, report, commands)
        if not news:
            self._woken.wait(TICK)
        self._woken.clear()
        with self._lock:
            if catalog.options().get(o.QUERIES_RUN):
                self._search(queries)
            for key, tended in list(self._tended.items()):
                self._look(queries, key, tended, commands)
        return commands.all()

    def _find_unsent(self, reports: Sequence[r.QueryReport]) -> None:
        """Find the queries whose start has not reached Spark, because the answer was lost."""
        known = {(report.scope, report.name) for report in reports}
        for key, tended in self._tended.items():
            tended.sent = tended.sent and key in known

    def release(self, catalog: Catalog) -> None:
        """Give all leases back, because the server's Spark has ended."""
        queries = KeptQueries(catalog)
        with self._lock:
            for key, tended in self._tended.items():
                try:
                    self._change(queries, key, tended, state=QueryState.WAITING, server=None)
                except (PravegaError, _LeaseLostError) as error:
                    LOG.debug("The lease of query %s is left to end by itself: %s", key[1], error)
            self._tended.clear()

    def _note(self, catalog: Catalog, queries: KeptQueries, report: r.QueryReport, commands: _Commands) -> bool:
        """Take note of a report; return whether it says something new."""
        key = report.scope, report.name
        tended = self._tended.get(key)
        if tended is None or tended.epoch != report.epoch:
            tended = self._recall(queries, key, report)
            if tended is None:
                commands.stop(key)
                return True
        ended = report.state in ("ended", "refused")
        tended.sent = not ended
        try:
            if ended:
                self._note_end(catalog, queries, key, tended, report)
                return True
            if report.state == "active" and (not tended.active or time.monotonic() >= tended.renewed + self._renewal):
                self._note_progress(queries, key, tended, report)
        except _LeaseLostError:
            commands.stop(key)
            del self._tended[key]
            return True
        except PravegaError as error:
            tended.active, tended.due = False, time.monotonic() + self._renewal
            LOG.warning("How query %s does cannot be noted: %s", report.name, error)
        return False

    def _recall(self, queries: KeptQueries, key: Key, report: r.QueryReport) -> _Tended | None:
        """Return a query that the server runs, after this process was started again; None if its lease is lost."""
        kept = queries.read(*key)
        if kept is None or (kept.status.server, kept.status.epoch) != (self.server, report.epoch):
            return None
        moment = time.monotonic()
        self._tended[key] = _Tended(report.epoch, moment, moment, asked=False)
        return self._tended[key]

    def _note_progress(self, queries: KeptQueries, key: Key, tended: _Tended, report: r.QueryReport) -> None:
        found: dict[str, Any] = read_progress(report.progress)
        if not tended.active:
            found["started"] = now()
        self._change(queries, key, tended, state=QueryState.RUNNING, **found)
        tended.active, tended.asked = True, False

    def _note_end(
        self, catalog: Catalog, queries: KeptQueries, key: Key, tended: _Tended, report: r.QueryReport
    ) -> None:
        kept = queries.read(*key)
        if kept is None:
            raise _LeaseLostError
        tended.active = False
        asked, tended.asked = tended.asked and report.state == "refused", False
        if kept.status.known is QueryState.STOPPING:
            return  # `_look` removes it
        definition = kept.definition
        found = read_progress(report.progress)
        if report.state == "ended" and kept.status.started is None:
            found["started"] = now()
        if report.error is None and report.bounded:
            self._end(queries, key, tended, state=QueryState.FINISHED, **{**found, "failures": 0})
            return
        error = describe_error(report.error or _STOPPED_ELSEWHERE, catalog.options())
        failures = 1 + int(found.get("failures", kept.status.failures))
        failed = {**found, "failures": failures, "last_error": error, "failed_at": now(), "rows_per_second": None}
        if asked or (definition.retries is not None and failures > definition.retries):
            self._end(queries, key, tended, state=QueryState.FAILED, **failed)
            return
        pause = min(2.0 ** (failures - 1), LONGEST_PAUSE)
        self._change(queries, key, tended, state=QueryState.RETRYING, **failed)
        tended.due = time.monotonic() + pause
        LOG.warning(
            "Query %s failed, and is started again in %.0f s, after %s: %s",
            key[1],
            pause,
            format_count(failures, "failure"),
            error,
        )

    def _end(self, queries: KeptQueries, key: Key, tended: _Tended, **changes: Any) -> None:
        self._change(queries, key, tended, server=None, **changes)
        del self._tended[key]

    def _change(self, queries: KeptQueries, key: Key, tended: _Tended, **changes: Any) -> None:
        """Change a query's status and renew the lease. Raises _LeaseLostError. A stop that was asked for stays."""

        def changed(kept: KeptQuery | None) -> KeptQuery:
            if kept is None or (kept.status.server, kept.status.epoch) != (self.server, tended.epoch):
                raise _LeaseLostError
            stopping = {"state": QueryState.STOPPING} if kept.status.known is QueryState.STOPPING else {}
            return kept.with_status(**{**changes, **stopping})

        began = time.monotonic()
        queries.change(*key, changed)
        tended.renewed = began

    def _look(self, queries: KeptQueries, key: Key, tended: _Tended, commands: _Commands) -> None:
        """Decide what to do with one query."""
        moment = time.monotonic()
        try:
            kept = queries.read(*key)
            if kept is None or (kept.status.server, kept.status.epoch) != (self.server, tended.epoch):
                raise _LeaseLostError
            if kept.status.known is QueryState.STOPPING:
                if tended.sent:
                    commands.stop(key, at_once=False)
                else:
                    queries.remove(kept, lambda found: found.status.epoch == tended.epoch)
                    del self._tended[key]
                    return
            elif not tended.sent and moment >= tended.due:
                commands.start(kept)
                tended.sent = True
            # The reports of one that is active renew its lease.
            if moment >= tended.renewed + self._renewal * (2 if tended.active else 1):
                self._change(queries, key, tended)
        except _LeaseLostError:
            del self._tended[key]
            commands.stop(key)
        except PravegaError as error:
            LOG.warning("The lease of query %s cannot be renewed: %s", key[1], error)
            if tended.sent and moment > tended.renewed + self._lease - self._renewal:
                commands.stop(key)

    def _search(self, queries: KeptQueries) -> None:
        """Take the leases of queries that no server runs."""
        moment = time.monotonic()
        if moment < self._next_search:
            return
        self._next_search = moment + self._renewal
        try:
            found = {(kept.scope, kept.name): kept for kept in queries.all()}
        except PravegaError as error:
            LOG.warning("Queries that no server runs are not known now: %s", error)
            return
        self._seen = {key: seen for key, seen in self._seen.items() if key in found}
        for key, kept in found.items():
            status = kept.status
            if key in self._tended or status.known.is_final:
                continue
            lease = status.epoch, status.renewed
            if self._seen.get(key, (None, 0.0))[0] != lease:
                self._seen[key] = lease, moment
            if status.server is not None and moment < self._seen[key][1] + status.lease:
                continue
            if (taken := take_lease(queries, kept, self.server, self._lease)) is not None:
                self._tended[key] = _Tended(taken.status.epoch, moment, moment, asked=False)


def take_lease(
    queries: KeptQueries, kept: KeptQuery, server: str, lease: float, asked: bool = False
) -> KeptQuery | None:
    """Give the lease of a query to a server, if nobody has renewed it since `kept` was read; return None otherwise.

    It lasts for `lease` seconds. A query that a user has `asked` for starts over, with the definition of `kept`.
    """
    cleared = {"started": None, "failures": 0} if asked else {}

    def taken(found: KeptQuery | None) -> KeptQuery:
        if found is None or found.status != kept.status:
            raise _LeaseLostError
        state = QueryState.STOPPING if found.status.known is QueryState.STOPPING else QueryState.STARTING
        defined = replace(found, definition=kept.definition) if asked else found
        return defined.with_status(server=server, epoch=found.status.epoch + 1, state=state, lease=lease, **cleared)

    try:
        return queries.change(kept.scope, kept.name, taken)
    except _LeaseLostError:
        return None


class _Commands:
    """Collects commands."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._start: list[QueryStart] = []
        self._stop: dict[Key, QueryStop] = {}

    def start(self, kept: KeptQuery) -> None:
        definition = kept.definition
        trigger = None if definition.trigger is None else o.TRIGGER_OF_BATCHES.type.parse(definition.trigger)
        interval = trigger // timedelta(milliseconds=1) if isinstance(trigger, timedelta) else 0
        self._start.append(
            QueryStart(
                kept.scope,
                kept.name,
                kept.status.epoch,
                query=definition.query,
                into=f"{self._catalog.named()}.{definition.into}",
                checkpoint=definition.checkpoint,
                output_mode=definition.output_mode,
                available_now=isinstance(trigger, str),
                interval=interval,
                options=definition.options,
                settings=definition.settings,
                catalog=definition.catalog or self._catalog.name,
                namespace=definition.namespace,
            )
        )

    def stop(self, key: Key, *, at_once: bool = True) -> None:
        self._stop.setdefault(key, QueryStop(*key, at_once))

    def all(self) -> QueryCommands:
        return QueryCommands(tuple(self._start), tuple(self._stop.values()))


class QueryServers:
    """The servers that this process answers, one for each catalog of a driver. Thread-safe."""

    def __init__(self) -> None:
        """Begin without servers."""
        self._lock = threading.Lock()
        self._servers: dict[Key, tuple[QueryServer, dict[str, str]]] = {}

    def get(self, catalog: Catalog, server: str) -> QueryServer:
        """Return a server, which begins without queries."""
        conf = {**catalog.conf, CATALOG_NAME: catalog.name}
        with self._lock:
            known = self._servers.get((server, catalog.name))
            if known is None:
                lease = catalog.options().get(o.QUERIES_LEASE).total_seconds()
                known = self._servers[server, catalog.name] = QueryServer(server, lease), conf
            return known[0]

    def wake(self) -> None:
        """Let all servers look at their queries soon."""
        with self._lock:
            for server, _ in self._servers.values():
                server.wake()

    def release(self, catalog: Catalog, server: str) -> None:
        """Give all leases of a server back, and forget it."""
        with self._lock:
            found = self._servers.pop((server, catalog.name), None)
        if found is not None:
            with limit_retries(_RELEASE_SECONDS):
                found[0].release(catalog)

    def release_all(self, connections: Connections) -> None:
        """Give the leases of all servers back, because the driver has ended."""
        with self._lock:
            servers = list(self._servers.values())
            self._servers.clear()
        for server, conf in servers:
            with connections.catalog(conf) as catalog, limit_retries(_RELEASE_SECONDS):
                server.release(catalog)
