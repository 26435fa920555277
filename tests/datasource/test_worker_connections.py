"""Connections kept in Python workers: the next task of the same user has them, nobody else, and not for ever."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.workers.connections import KEPT, WorkerConnections
from pyspark_pravega.errors import PravegaError
from tests.processes import task_workers


@pytest.fixture
def connections() -> Iterator[WorkerConnections]:
    made = WorkerConnections()
    yield made
    made.close()


def is_closed(pravega: Pravega) -> bool:
    try:
        pravega.controller.scope_exists("any")
    except PravegaError as error:
        return error.condition == "PRAVEGA_CLIENT_CLOSED"
    return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_next_task_has_the_same_connection(connections: WorkerConnections, client_config: ClientConfig) -> None:
    with connections.borrow(client_config) as first:
        assert not is_closed(first)
    with connections.borrow(replace(client_config)) as second:
        assert second is first
        assert not is_closed(second)
    assert len(connections) == 1


def test_another_user_has_another_connection(connections: WorkerConnections, client_config: ClientConfig) -> None:
    def user(name: str, password: str) -> ClientConfig:
        return replace(client_config, credentials=BasicCredentials(name, password))

    configs = [client_config, user("ann", "a"), user("ann", "b"), user("bob", "a")]
    lent = []
    for config in configs * 2:
        with connections.borrow(config) as pravega:
            assert pravega.config == config
            lent.append(pravega)
    assert len(set(map(id, lent))) == len(configs)
    assert lent[:4] == lent[4:]


def test_after_an_error_the_next_task_connects_anew(
    connections: WorkerConnections, client_config: ClientConfig
) -> None:
    with pytest.raises(ZeroDivisionError), connections.borrow(client_config) as failed:
        assert not is_closed(failed)
        raise ZeroDivisionError
    assert is_closed(failed)
    with connections.borrow(client_config) as next_one:
        assert not is_closed(next_one)


def test_a_task_that_needs_no_more_rows_is_no_error(
    connections: WorkerConnections, client_config: ClientConfig
) -> None:
    def rows() -> Iterator[Pravega]:
        with connections.borrow(client_config) as pravega:
            while True:
                yield pravega

    task = rows()
    first = next(task)
    task.close()  # type: ignore[attr-defined]
    with connections.borrow(client_config) as second:
        assert second is first


def test_an_error_beside_another_task_does_not_close_its_connection(
    connections: WorkerConnections, client_config: ClientConfig
) -> None:
    with connections.borrow(client_config) as shared:
        with pytest.raises(ZeroDivisionError), connections.borrow(client_config):
            raise ZeroDivisionError
        assert not is_closed(shared)
    assert is_closed(shared)


def test_connections_without_tasks_are_closed(client_config: ClientConfig) -> None:
    connections = WorkerConnections(idle_seconds=0.2)
    with connections.borrow(client_config) as pravega:
        assert not is_closed(pravega)
    wait_until(lambda: len(connections) == 0)
    assert is_closed(pravega)
    with connections.borrow(client_config) as again:
        assert not is_closed(again)
    wait_until(lambda: len(connections) == 0)


def test_an_old_connection_is_replaced_while_others_use_it(client_config: ClientConfig) -> None:
    connections = WorkerConnections(longest_seconds=0.0)
    with connections.borrow(client_config) as old:
        with connections.borrow(client_config) as new:
            assert new is not old
        assert not is_closed(old)
    assert is_closed(old)
    assert not is_closed(new)
    connections.close()


def test_so_many_ways_to_connect_are_kept(connections: WorkerConnections, client_config: ClientConfig) -> None:
    lent = []
    for number in range(KEPT + 2):
        with connections.borrow(replace(client_config, request_timeout=20 + number)) as pravega:
            assert not is_closed(pravega)
            lent.append(pravega)
    assert [is_closed(connection) for connection in lent] == [True] * 2 + [False] * KEPT


def test_a_forked_child_connects_anew(
    connections: WorkerConnections, client_config: ClientConfig, pravega: Pravega, scope: str
) -> None:
    with connections.borrow(client_config) as before:
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            with connections.borrow(client_config) as forked:
                os.write(write, b"same" if forked is before else b"another")
            connections.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(read, 100) == b"another"
        os.close(read)
        os.close(write)
        assert before.controller.scope_exists(scope)


def sockets(workers: list[int], port: int) -> set[tuple[int, str]]:
    """The open connections of processes to a port, by their local addresses."""
    found = set()
    for worker in workers:
        mine = {
            os.readlink(descriptor) for descriptor in Path(f"/proc/{worker}/fd").iterdir() if descriptor.is_symlink()
        }
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{worker}/net/{table}").read_text().splitlines()[1:]:
                _, local, remote, state, *rest = line.split()
                if int(remote.rpartition(":")[2], 16) == port and state == "01" and f"socket:[{rest[5]}]" in mine:
                    found.add((worker, local))
    return found


def test_tasks_of_several_statements_read_and_write_over_the_same_connections(
    spark: SparkSession, pravega: Pravega, scope: str
) -> None:
    table = f"pravega.`{scope}`.numbers"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING pravega")
    store = pravega.controller.segment_location(Stream(scope, "numbers"), 0)
    assert socket.getaddrinfo(store.host, store.port)

    def statements(count: int) -> set[tuple[int, str]]:
        for _ in range(count):
            spark.range(0, 10, 1, 1).writeTo(table).append()
            spark.table(table).collect()
        jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
        return sockets(task_workers(jvm), store.port)

    first = statements(3)
    assert first
    after = statements(6)
    assert first & after
    # One for reading and one for writing in each worker, whatever the number of its tasks. Tasks of other tests, which
    # wrote to several segments at the same time, may have left more.
    kept = Counter(worker for worker, _ in first)
    assert all(number <= max(2, kept[worker]) for worker, number in Counter(worker for worker, _ in after).items())
