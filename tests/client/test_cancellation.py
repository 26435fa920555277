"""Calls that nobody waits for any more end soon, whatever they wait for themselves."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from pyspark_pravega.client import ClientConfig, Pravega, connect
from pyspark_pravega.client.cancellation import (
    Cancellation,
    Cancelled,
    activate,
    carry_over,
    check,
    check_postponed,
    interrupt_by,
    postpone,
    shield,
    sleep,
)
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.retry import retry
from pyspark_pravega.client.segments.fetch import ReadAhead
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import ServerUnavailableError

HOURS = 7200.0


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def accept(silent: socket.socket) -> Iterator[Callable[[], socket.socket]]:
    """Takes a connection to the silent server, which stays open until the test ends."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(silent.accept()[0])


@pytest.fixture
def silent_cluster(silent: socket.socket) -> Iterator[Pravega]:
    port = silent.getsockname()[1]
    config = ClientConfig(f"tcp://127.0.0.1:{port}", request_timeout=HOURS, retry_timeout=HOURS)
    with connect(config) as pravega:
        yield pravega


def end(call: Callable[[], object], begun: Callable[[], object]) -> None:
    """Begin a call, cancel it when it has begun, and see it end as cancelled."""
    cancellation = Cancellation()

    def run() -> None:
        with activate(cancellation), pytest.raises(Cancelled):
            call()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        begun()
        cancellation.cancel()
        running.result()


def test_a_controller_that_does_not_answer(silent_cluster: Pravega, accept: Callable[[], socket.socket]) -> None:
    end(silent_cluster.controller.list_scopes, accept)


def test_a_segment_store_that_does_not_answer(
    silent: socket.socket, silent_cluster: Pravega, accept: Callable[[], socket.socket]
) -> None:
    """It greets, and answers nothing else."""
    store, stream = silent_cluster.segments, Stream("s", "t")
    store.seed_location(stream, 0, Endpoint("127.0.0.1", silent.getsockname()[1]))
    store.seed_token(stream, "")

    def greet() -> None:
        connection = accept()
        greeting = connection.recv(1 << 10)
        connection.sendall(greeting)
        assert connection.recv(1 << 10)  # the request

    end(lambda: store.segment_infos(stream, [0]), greet)


def test_pauses_between_tries() -> None:
    tried = threading.Event()

    def fail(seconds_left: float) -> None:
        tried.set()
        raise ServerUnavailableError("it is not there")

    end(lambda: retry(fail, timeout=HOURS), tried.wait)


def test_what_another_thread_makes() -> None:
    """As a scan that is planned reads events ahead."""
    begun, aborted = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        begun.set()
        aborted.wait()
        raise OSError("aborted")
        yield 1

    ahead = ReadAhead(items(), aborted.set, "ahead")
    end(lambda: list(ahead), begun.wait)
    ahead.close()


def test_a_call_that_is_cancelled_begins_nothing() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with activate(cancellation):
        for step in (
            check,
            lambda: sleep(HOURS),
            lambda: retry(lambda seconds_left: pytest.fail("it began"), timeout=HOURS),
        ):
            with pytest.raises(Cancelled):
                step()
        with pytest.raises(Cancelled), interrupt_by(pytest.fail):
            pytest.fail("it began")


def test_what_is_shielded_comes_to_its_end() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with activate(cancellation):
        with shield():
            assert retry(lambda seconds_left: "done", timeout=HOURS) == "done"
        with postpone():
            check()
            with shield(), pytest.raises(Cancelled):
                check_postponed()
        check_postponed()
        with pytest.raises(Cancelled):
            check()
    check()


def test_threads_of_a_call_are_part_of_it() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with activate(cancellation), ThreadPoolExecutor(1) as pool:
        assert pool.submit(check).result() is None
        with pytest.raises(Cancelled):
            pool.submit(carry_over(check)).result()


def test_an_error_that_comes_first_stays_what_it_is() -> None:
    with activate(Cancellation()), pytest.raises(OSError, match="broken"), interrupt_by(pytest.fail):
        raise OSError("broken")


@pytest.mark.slow
def test_calls_when_the_interpreter_ends() -> None:
    """Python closes generators then, after the last moment at which a thread can be started."""
    program = """
from pyspark_pravega.client.cancellation import map_side_by_side

def count():
    try:
        yield from range(9)
    finally:
        print(map_side_by_side(str, [1, 2]))

numbers = count()
next(numbers)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("['1', '2']\n", "")
