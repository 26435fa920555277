"""What a server does with its queries when they end, when answers are lost, and when others have a say."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyspark_pravega.catalog.protocol.service_replies import QueryStop
from pyspark_pravega.catalog.running import tending
from pyspark_pravega.catalog.running.kept_query import KeptQueries, QueryState
from pyspark_pravega.catalog.running.kept_query import read_clock as wall_clock
from pyspark_pravega.catalog.storage.scope_table import TABLE_NAME, RowKind, ScopeTable, _make_key
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.stream import make_key_value_table_stream
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql.identifiers import quote_all

from .conftest import Kept, join_searches

UNOWNED = {"server": None, "state": QueryState.WAITING}


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.1)


def test_available_now_is_finished_only_if_it_came_to_its_own_end(kept: Kept) -> None:
    server = kept.serve(kept.put(trigger="available now"))
    [start] = kept.tend(server).start
    assert start.available_now and start.epoch == 7
    kept.tend(server, kept.report("active", bounded=True))
    assert kept.status().state == QueryState.RUNNING
    again = kept.tend(server, kept.report("ended", bounded=True, stopped=True))
    assert (kept.status().state, kept.status().failures) == (QueryState.RETRYING, 0)
    assert "could not tell in time" in str(kept.status().last_error)
    assert [each.name for each in again.start] == [kept.name]
    kept.tend(server, kept.report("active", bounded=True))
    kept.tend(server, kept.report("ended", bounded=True))
    assert (kept.status().state, kept.status().server) == (QueryState.FINISHED, None)


def test_an_end_counts_once_however_often_it_is_told(kept: Kept) -> None:
    server = kept.serve(kept.put())
    kept.tend(server)
    failed = kept.report("ended", error="it broke")
    for _ in range(2):  # the answer to the first one was lost
        kept.tend(server, failed)
        assert (kept.status().state, kept.status().failures) == (QueryState.RETRYING, 1)
    kept.tend(kept.serve(), failed)  # the service died before its answer
    assert kept.status().failures == 1


def test_a_new_service_goes_on_with_queries_in_their_pause(kept: Kept) -> None:
    server = kept.serve(kept.put())
    kept.tend(server)
    kept.tend(server, kept.report("active"))
    began = kept.status().started
    fresh = kept.serve()
    kept.tend(fresh, kept.report("active"))
    assert kept.status().started == began  # it is the same run
    kept.tend(fresh, kept.report("ended", error="it broke"))
    again = kept.tend(kept.serve(), kept.report("over"))
    assert [start.epoch for start in again.start] == [7] and again.stop == ()
    gone = kept.tend(kept.serve(), kept.report("over", epoch=6), kept.report("active", "another"))
    assert set(gone.stop) == {QueryStop(kept.scope, kept.name, 6, True), QueryStop(kept.scope, "another", 7, True)}


def test_a_run_that_is_stopped_gently_and_then_loses_its_lease_is_stopped_at_once(kept: Kept) -> None:
    server = kept.serve(kept.put())
    kept.tend(server)
    kept.put(status={"state": QueryState.STOPPING})
    [gently] = kept.tend(server, kept.report("active")).stop
    assert not gently.at_once
    kept.put(status={"epoch": 8, "server": "there"})
    [at_once] = kept.tend(server, kept.report("active")).stop
    assert (at_once.epoch, at_once.at_once) == (7, True)


def test_rows_that_cannot_be_read_disturb_no_other_query(kept: Kept, other_kept: Kept) -> None:
    newer = ScopeTable(kept.pravega, kept.scope)
    good = kept.put("good", status=UNOWNED)
    rows: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "state": lambda row: {**row, "status": {**row["status"], "state": "PAUSED"}},
        "trigger": lambda row: {**row, "definition": {**row["definition"], "trigger": "at dawn"}},
        "text": lambda row: {**row, "definition": {**row["definition"], "query": 7}},
        "epoch": lambda row: {**row, "status": {**row["status"], "epoch": "7"}},
        "nothing": lambda row: {"since": 7},
        "status": lambda row: {"definition": row["definition"], "status": 7},
    }
    template = newer.read(RowKind.QUERY, "good")
    for name, change in rows.items():
        made = change(dict(template))
        newer.change(RowKind.QUERY, name, lambda row, made=made: made)  # type: ignore[misc]
    assert [found.name for found in kept.queries.list_of_scope(kept.scope)] == ["good"]
    for name in rows:
        assert kept.queries.read(kept.scope, name) is None and kept.queries.find(name) == []
        with pytest.raises(UnsupportedOperationError, match=f"The query '{name}' of scope .* is left as it is"):
            kept.queries.change(kept.scope, name, lambda found: good)
    other_kept.put("other", status=UNOWNED)
    table = kept.pravega.key_value_table(kept.scope, TABLE_NAME)
    [started] = kept.search(kept.serve(), queries_run=kept.scope)
    assert started.name == "good"
    table.put(RowKind.QUERY.to_bytes(4, "big") + bytes([1] * 16), b"no JSON")
    server = kept.serve()
    assert [each.name for each in kept.search(server, queries_run=f"{kept.scope}, {other_kept.scope}")] == ["other"]
    table.put(_make_key(RowKind.QUERY, "other"), b"[]")
    assert {found.scope for found in kept.queries.find("other")} == {other_kept.scope}
    assert {"good", "other"} <= {found.name for found in kept.queries.all()}
    with pytest.raises(UnsupportedOperationError, match=f"Scope {kept.scope}: what the catalog keeps .* JSON object"):
        kept.queries.change(kept.scope, "other", lambda found: good)


def test_what_a_query_writes_into_is_a_name_in_its_own_scope(kept: Kept, other_kept: Kept) -> None:
    right = {
        "plain": f"`{kept.scope}`.`t`",
        "text": f"{kept.scope}.t VALUES (1)) --",
        "quoted": quote_all((kept.scope, "t` VALUES (1)) --")),
    }
    wrong = {
        "elsewhere": quote_all((other_kept.scope, "t")),
        "in another catalog": f"spark_catalog.`{kept.scope}`.t",
        "unquoted": f"`{kept.scope}`.t`` VALUES (1)",
    }
    server = kept.serve(*(kept.put(name, into=into) for name, into in (right | wrong).items()))
    assert {start.name: start.into for start in kept.tend(server).start} == {
        "plain": quote_all(("pravega", kept.scope, "t")),
        "text": quote_all(("pravega", kept.scope, "t VALUES (1)) --")),
        "quoted": quote_all(("pravega", kept.scope, "t` VALUES (1)) --")),
    }
    assert {kept.status(name).state for name in wrong} == {QueryState.FAILED}
    assert "writes into a table of the scope that keeps it" in str(kept.status("elsewhere").last_error)


def test_a_server_takes_queries_of_the_scopes_that_its_conf_names(kept: Kept, other_kept: Kept) -> None:
    before, others = kept.put(status=UNOWNED), other_kept.put(status=UNOWNED)
    assert [start.scope for start in kept.search(kept.serve(), queries_run=f"no-scope, {other_kept.scope}")] == [
        other_kept.scope
    ]
    assert kept.read() == before
    assert other_kept.status().epoch > others.status.epoch
    assert kept.search(kept.serve()) == () and kept.read() == before
    assert [start.scope for start in kept.search(kept.serve(), queries_run=kept.scope)] == [kept.scope]


def test_a_query_that_a_server_cannot_start_is_left_to_others(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tending, "REFUSALS", 2)
    run = {"queries_run": kept.scope}
    kept.put()
    server = kept.serve()
    kept.tend(server, kept.report("starting"), **run)
    refused = kept.report("refused", error="No such class")
    kept.tend(server, refused, **run)
    assert kept.status().state == QueryState.RETRYING
    wait_for(lambda: kept.tend(server, kept.report("over"), **run).start)
    kept.tend(server, kept.report("starting"), **run)
    kept.tend(server, refused, **run)
    left = kept.status()
    assert (left.state, left.server, left.failures) == (QueryState.WAITING, None, 2)
    assert kept.search(server, **run) == ()
    [taken] = kept.search(kept.serve(server="there"), **run)
    assert taken.epoch == kept.status().epoch > left.epoch and kept.status().server == "there"


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """A server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield Endpoint("127.0.0.1", listening.getsockname()[1])


@pytest.fixture
def own_pravega(client_config: ClientConfig) -> Iterator[Pravega]:
    with connect(client_config) as pravega:
        yield pravega
        join_searches()


def test_a_server_that_is_silent_holds_up_no_lease_of_another(
    kept: Kept,
    other_kept: Kept,
    own_pravega: Pravega,
    client_config: ClientConfig,
    silent: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lease = 6.0
    here, there = (Kept(own_pravega, client_config, each.scope) for each in (kept, other_kept))
    waiting = here.put("waiting", status=UNOWNED)
    names = [f"q{number}" for number in range(3)]
    server = here.serve(*(each.put(name) for name in names for each in (there, here)), lease=lease)
    here.tend(server)
    running = [each.report("active", name) for name in names for each in (here, there)]
    here.tend(server, *running)
    assert {each.status(name).state for each in (here, there) for name in names} == {QueryState.RUNNING}
    stream = make_key_value_table_stream(there.scope, TABLE_NAME)
    find = own_pravega.segments.location
    monkeypatch.setattr(
        own_pravega.segments, "location", lambda asked, segment: silent if asked == stream else find(asked, segment)
    )
    stopped: set[tuple[str, str]] = set()
    both = {"queries_run": f"{here.scope}, {there.scope}"}
    watched = KeptQueries(kept.catalog)

    def is_left() -> bool:
        commands = here.tend(server, *running, **both)
        stopped.update((stop.scope, stop.name) for stop in commands.stop)
        for name in names:
            found = watched.read(here.scope, name)
            assert wall_clock() - found.status.renewed < lease * 1e6, "the lease has run out"
        return stopped == {(there.scope, name) for name in names}

    wait_for(is_left)
    wait_for(lambda: here.tend(server, *running, **both) and here.status("waiting") != waiting.status)
    assert here.status("waiting").server == "here"
