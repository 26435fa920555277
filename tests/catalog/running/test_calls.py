"""CALL start_query and stop_query beside servers that take, refuse and end queries at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega.catalog import protocol as r
from pyspark_pravega.catalog.creation.making import create
from pyspark_pravega.catalog.operations import Operations
from pyspark_pravega.catalog.procedures.procedure import Call
from pyspark_pravega.catalog.procedures.queries import start_query, stop_query
from pyspark_pravega.catalog.running.kept_query import KeptQueries, KeptQuery, QueryState
from pyspark_pravega.catalog.running.leases import take_lease
from pyspark_pravega.catalog.running.tending import QueryServers
from pyspark_pravega.errors import (
    InvalidOptionError,
    PravegaError,
    QueryNotFoundError,
    QueryNotStartedError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql.identifiers import quote_all

from .conftest import Kept

SCHEMA = StructType([StructField("id", IntegerType())])
FACTS = r.QueryFacts("here", "4.10.0", False, True, SCHEMA, {"spark.sql.session.timeZone": "UTC"}, "pravega", ())


class Calls:
    """A driver named `here`, whose clients call procedures."""

    def __init__(self, kept: Kept) -> None:
        self.kept, self.servers = kept, QueryServers()

    def start(self, facts: r.QueryFacts = FACTS) -> list[Any]:
        given = {
            "name": self.kept.name,
            "query": "SELECT id FROM STREAM t",
            "into": quote_all((self.kept.scope, "t")),
            "checkpoint": f"/checkpoints/{self.kept.scope}/{self.kept.name}",
        }
        return list(start_query.act(Call(self.kept.catalog, given, self.servers, facts)))

    def refuse_start(self) -> str:
        """Start it on a Spark that cannot, and return the error."""
        with ThreadPoolExecutor(1) as clients:
            call: Future[Any] = clients.submit(self.start)
            server = self.servers.get(self.kept.catalog, "here")
            while not (started := self.kept.tend(server).start):
                assert not call.done(), call.result()
            self.kept.tend(server, self.kept.report("refused", epoch=started[0].epoch, error="No such class"))
            with pytest.raises(QueryNotStartedError) as raised:
                call.result()
        return str(raised.value)

    def stop(self, kept: Kept | None = None, **given: str) -> list[Any]:
        return list(stop_query.act(Call((kept or self.kept).catalog, {"name": self.kept.name, **given}, self.servers)))


@pytest.fixture
def calls(kept: Kept) -> Calls:
    create(kept.catalog, r.CreateTable.of([kept.scope], "t", SCHEMA, {}, adopt=False))
    return Calls(kept)


def test_a_start_that_is_refused_leaves_what_was_there(calls: Calls) -> None:
    kept = calls.kept
    assert "No such class" in calls.refuse_start()
    assert kept.queries.find(kept.name) == []
    settings = {"spark.sql.shuffle.partitions": "7"}
    for state in (QueryState.FINISHED, QueryState.WAITING):
        before = kept.put(status={"state": state, "server": None, "batch": 41, "started": 5}, settings=settings)
        calls.refuse_start()
        left = kept.read()
        assert left.definition == before.definition
        assert (left.status.state, left.status.server) == (state, None)
        assert (left.status.batch, left.status.started) == (41, 5)
        assert "No such class" in str(left.status.last_error)


def test_a_query_that_is_made_again_is_another_one(calls: Calls) -> None:
    epochs = []
    for _ in range(2):
        with ThreadPoolExecutor(1) as clients:
            call = clients.submit(calls.start)
            server = calls.servers.get(calls.kept.catalog, "here")
            while not (started := calls.kept.tend(server).start):
                assert not call.done(), call.result()
            epochs.append(started[0].epoch)
            stopping = clients.submit(calls.stop)
            running = calls.kept.report("active", epoch=epochs[-1])
            while not (stops := calls.kept.tend(server, running).stop):
                pass
            [(_, state, *_)] = call.result()
            assert state == QueryState.RUNNING and [stop.epoch for stop in stops] == epochs[-1:]
            calls.kept.tend(server, calls.kept.report("ended", epoch=epochs[-1], stopped=True))
            stopping.result()
    assert epochs[0] < epochs[1]


def test_a_query_whose_server_is_dead_is_started_again_or_stopped(calls: Calls) -> None:
    """Once it is sure that nobody renews the lease."""
    kept = calls.kept
    for call in (calls.refuse_start, calls.stop):
        left = kept.put(status={"state": QueryState.RUNNING, "server": "dead", "lease": 1.0})
        call()
        if call == calls.refuse_start:  # it was taken over, and put back
            assert kept.status().server is None and kept.status().epoch > left.status.epoch
        else:
            assert kept.queries.find(kept.name) == []


def test_versions_of_spark_are_numbers(calls: Calls) -> None:
    for version in ("4.2.9", "4.1.0"):
        with pytest.raises(UnsupportedOperationError, match=f"needs Spark 4.3 or newer, but this is {version}"):
            calls.start(replace(FACTS, spark=version))
    calls.refuse_start()  # 4.10.0


def test_a_stop_is_not_lost_if_a_server_takes_the_query_meanwhile(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = calls.kept
    kept.put(status={"state": QueryState.WAITING, "server": None})
    server = kept.serve(server="there")
    real: Callable[[KeptQueries, KeptQuery, Any], bool] = KeptQueries.remove

    def remove_too_late(queries: KeptQueries, found: KeptQuery, condition: Any) -> bool:
        monkeypatch.setattr(KeptQueries, "remove", real)
        taken = take_lease(queries, found, "there", 15)
        assert taken is not None
        server.adopt(taken)
        done = real(queries, found, condition)
        assert not done and kept.tend(server).start == ()
        return done

    monkeypatch.setattr(KeptQueries, "remove", remove_too_late)
    [(*_, stopped)] = calls.stop()
    assert stopped and kept.queries.find(kept.name) == []


def test_of_several_queries_of_a_name_the_table_says_which_is_stopped(kept: Kept, other_kept: Kept) -> None:
    calls, both = Calls(kept), (kept, other_kept)
    for each in both:
        each.put(kept.name, status={"state": QueryState.WAITING, "server": None})
    with pytest.raises(InvalidOptionError, match=f"There are 2 queries '{kept.name}'") as raised:
        calls.stop()
    assert all(each.scope in str(raised.value) for each in both)
    wrong: dict[str, type[PravegaError]] = {
        quote_all((kept.scope, "another")): QueryNotFoundError,
        "t": PravegaError,
    }
    for into, kind in wrong.items():
        with pytest.raises(kind):
            calls.stop(into=into)
    assert len(kept.queries.find(kept.name)) == 2
    calls.stop(into=quote_all((kept.scope, "t")))
    assert [each.scope for each in kept.queries.find(kept.name)] == [other_kept.scope]
    calls.stop()
    assert kept.queries.find(kept.name) == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("TRUNCATE TABLE", "can only be read"),
        ("RENAME", "can only be read"),
        ("readStream.table", "cannot be read as a stream"),
    ],
)
def test_the_table_of_queries_refuses_statements_in_words_of_its_own(kept: Kept, statement: str, words: str) -> None:
    refused = r.Envelope(kept.conf, r.Refuse(("system",), "QUERIES", statement, None))
    with pytest.raises(UnsupportedOperationError) as raised:
        Operations().answer(1, refused)
    assert words in str(raised.value) and "stream only grows" not in str(raised.value)


@pytest.mark.parametrize("text", ["yes", "iot,", "iot,true", "iot,iot", "*", "iot shop"])
def test_what_names_no_scopes_is_no_value_of_queries_run(kept: Kept, text: str) -> None:
    with pytest.raises(InvalidOptionError, match="'queries.run'.*true, false, or names of scopes"):
        kept.configured(queries_run=text).options()
