"""Queries in a real scope, and servers that tend them; what Spark would report, the tests say."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pyspark_pravega.catalog import protocol as r
from pyspark_pravega.catalog.protocol.service_replies import QueryCommands, QueryStart
from pyspark_pravega.catalog.running.kept_query import KeptQueries, KeptQuery, QueryDefinition, QueryState, QueryStatus
from pyspark_pravega.catalog.running.kept_query import read_clock as wall_clock
from pyspark_pravega.catalog.running.tending import QueryServer
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.sql.identifiers import quote_all
from tests.scopes import Sweeper

LEASE = 15.0


class Kept:
    """The queries of one scope. A query has the name `name`, and the server `here` has it, if nothing else is said.

    Names are those of a catalog, so tests on the same servers need names of their own.
    """

    def __init__(self, pravega: Pravega, config: ClientConfig, scope: str) -> None:
        self.pravega, self.scope, self.name = pravega, scope, f"q-{scope}"
        self.conf = {"controller-uri": config.controller_uri, "schema-registry-uri": str(config.registry_uri)}
        self.catalog = self.configured()
        self.queries = KeptQueries(self.catalog)

    def configured(self, **conf: str) -> Catalog:
        """The catalog with more confs; `_` stands for `.`."""
        return Catalog(self.conf | {key.replace("_", "."): text for key, text in conf.items()}, self.pravega)

    def put(self, name: str | None = None, *, status: Mapping[str, Any] | None = None, **definition: Any) -> KeptQuery:
        """Keep a query, whose lease the server `here` has."""
        name = name or self.name
        defined: dict[str, Any] = {
            "query": "SELECT id FROM STREAM t",
            "into": quote_all((self.scope, "t")),
            "checkpoint": f"/checkpoints/{self.scope}/{name}",
            "trigger": None,
            "output_mode": "append",
            "retries": None,
            "catalog": None,
            "namespace": (),
            "settings": {},
        }
        known: dict[str, Any] = {"state": QueryState.STARTING, "server": "here", "epoch": 7, "renewed": wall_clock()}
        kept = KeptQuery(
            self.scope,
            name,
            QueryDefinition(**{**defined, **definition}),
            QueryStatus(**{**known, "lease": LEASE, **(status or {})}),
        )
        return self.queries.change(self.scope, name, lambda found: kept)

    def read(self, name: str | None = None) -> KeptQuery:
        found = self.queries.read(self.scope, name or self.name)
        assert found is not None
        return found

    def status(self, name: str | None = None) -> QueryStatus:
        return self.read(name).status

    def report(self, state: str, name: str | None = None, epoch: int = 7, **more: Any) -> r.QueryReport:
        """What a driver says of a run."""
        said: dict[str, Any] = {"error": None, "progress": None, "bounded": False, "stopped": False, **more}
        return r.QueryReport(self.scope, name or self.name, epoch, state, **said)

    def serve(self, *adopted: KeptQuery, server: str = "here", lease: float = LEASE) -> QueryServer:
        serving = QueryServer(server, lease)
        for kept in adopted:
            serving.adopt(kept)
        return serving

    def tend(self, server: QueryServer, *reports: r.QueryReport, **conf: str) -> QueryCommands:
        """Have a server say at once what is to be done."""
        server.wake()
        return server.tend(self.configured(**conf) if conf else self.catalog, reports)

    def search(self, server: QueryServer, **conf: str) -> tuple[QueryStart, ...]:
        """Have a server look for queries that no other one runs, and return what it starts."""
        self.tend(server, **conf)
        join_searches()
        return self.tend(server, **conf).start


def join_searches() -> None:
    """Wait for the threads in which servers look for queries; they use a connection that is closed later."""
    for thread in threading.enumerate():
        if thread.name == "search for queries":
            thread.join()


@pytest.fixture
def kept(pravega: Pravega, client_config: ClientConfig, scope: str) -> Iterator[Kept]:
    yield Kept(pravega, client_config, scope)
    join_searches()


@pytest.fixture
def other_kept(pravega: Pravega, client_config: ClientConfig, _sweeper: Sweeper) -> Iterator[Kept]:
    """The queries of another scope."""
    for scope in _sweeper.scope(client_config):
        yield Kept(pravega, client_config, scope)
