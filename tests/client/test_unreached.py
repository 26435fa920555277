"""Servers that take no connection: how long they are tried before and after their first answer, and the errors."""

from __future__ import annotations

import logging
import pickle
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
import pytest

from pyspark_pravega.client import ClientConfig, Pravega, connect
from pyspark_pravega.client.retry import LOG_AFTER_SECONDS
from pyspark_pravega.datasource.connecting import FIRST_CONTACT, read_first_contact
from pyspark_pravega.errors import PravegaError, ServerFailedError, ServerUnavailableError
from pyspark_pravega.sql.options import resolve
from tests.foreign_servers import foreign_servers

pytestmark = pytest.mark.slow


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port on which nobody listens, and which nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def config(controller: str, registry: str = "http://127.0.0.1:1", retry_timeout: float = 60.0) -> ClientConfig:
    return ClientConfig(controller, registry_uri=registry, retry_timeout=retry_timeout)


def failed(call: Callable[[], object]) -> tuple[ServerUnavailableError, float]:
    """The error of a call, and the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError) as caught:
        call()
    return caught.value, time.monotonic() - began


def test_a_server_that_has_never_answered_is_tried_for_a_short_time(dead_port: int) -> None:
    address = f"127.0.0.1:{dead_port}"
    with connect(config(f"tcp://{address}", f"http://{address}"), first_contact=1.0) as pravega:
        for server, call in (
            (f"the controller at {address}", pravega.controller.list_scopes),
            (f"the schema registry at {address}", pravega.registry("plant").groups),
        ):
            error, took = failed(call)
            assert took < 10, error
            assert re.search(r"after \d+ tries in .* s, since it has never answered; 'retry-timeout'", str(error))
            assert error.unreached is not None
            assert (error.unreached.server, error.unreached.why) == (server, "refused")


def test_calls_share_the_time_of_the_first_contact(dead_port: int) -> None:
    """Also those at the same time, as of a list of many tables."""
    with connect(config(f"tcp://127.0.0.1:{dead_port}"), first_contact=2.0) as pravega:
        began = time.monotonic()
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(failed, pravega.controller.list_scopes) for _ in range(8)]
            errors = [call.result()[0] for call in calls]
        assert all(error.at_first_contact for error in errors)
        assert time.monotonic() - began < 15


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_another_server_at_the_address_of_the_controller_is_told_at_once(scheme: str) -> None:
    """By its first answer, or by its silence: neither is tried again, whatever else the name of the host stands for."""
    with foreign_servers() as foreign, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        registry, port = foreign.registry_uri.rpartition(":")[2], silent.getsockname()[1]
        strangers = [(port, "accepts connections, but does not answer as a controller does")]
        if scheme == "tcp":
            strangers.append((registry, "answers, but is not a controller"))
        for port, says in strangers:
            with connect(config(f"{scheme}://localhost:{port}"), first_contact=60.0) as pravega:
                error, _ = failed(pravega.controller.list_scopes)
            assert error.message == (
                f"cannot list the scopes: the server at localhost:{port} {says}; give the address of a Pravega "
                "controller, whose port is 9090 by default"
            )
        assert len(foreign.calls) <= 2, "a gRPC greeting and ours, which are no requests of HTTP"


def test_a_proxy_that_hangs_up_is_tried_again() -> None:
    """Its controller may be starting."""
    met = 0

    def hang_up(proxy: socket.socket) -> None:
        nonlocal met
        with suppress(OSError):  # of a socket that is shut down
            while True:
                proxy.accept()[0].close()
                met += 1

    with socket.create_server(("127.0.0.1", 0)) as proxy, ThreadPoolExecutor(1) as threads:
        threads.submit(hang_up, proxy)
        address = f"tcp://127.0.0.1:{proxy.getsockname()[1]}"
        with connect(config(address, retry_timeout=2.0), first_contact=1.0) as pravega:
            error, _ = failed(pravega.controller.list_scopes)
        proxy.shutdown(socket.SHUT_RDWR)
    assert "cannot be reached" in str(error) and met > 2, error


def test_unknown_hosts_are_named_so() -> None:
    host = "no-such-host.invalid"
    with connect(config(f"tcp://{host}:9090", f"http://{host}"), first_contact=0.3) as pravega:
        for call in (pravega.controller.list_scopes, pravega.registry("plant").groups):
            error, _ = failed(call)
            assert host in str(error) and "(unknown host)" in str(error)


def test_a_server_that_has_answered_is_tried_as_long_as_the_configuration_says() -> None:
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)  # it answers every call by saying that it knows no such call
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with connect(config(f"tcp://127.0.0.1:{port}", retry_timeout=3.0), first_contact=0.2) as pravega:
            with pytest.raises(ServerFailedError):
                pravega.controller.list_scopes()
            server.stop(None).wait()
            error, _ = failed(pravega.controller.list_scopes)
    assert not error.at_first_contact and "in 3 s)" in str(error)


def test_tasks_try_as_long_as_the_configuration_says(dead_port: int) -> None:
    """What a driver sends to its tasks knows of no first contact, since the driver has had it."""
    made = Pravega(config(f"tcp://127.0.0.1:{dead_port}", retry_timeout=2.0), first_contact=0.2)
    with pickle.loads(pickle.dumps(made)) as pravega:
        error, _ = failed(pravega.controller.list_scopes)
    assert not error.at_first_contact and "in 2 s)" in str(error)


def test_what_cannot_be_reached_is_told_after_a_while_and_not_by_each_call(
    dead_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with connect(config(f"tcp://127.0.0.1:{dead_port}", retry_timeout=LOG_AFTER_SECONDS + 3)) as pravega:
        with ThreadPoolExecutor(4) as threads:
            for call in [threads.submit(failed, pravega.controller.list_scopes) for _ in range(4)]:
                call.result()
    [said] = [record.getMessage() for record in caplog.records if "cannot reach" in record.getMessage()]
    server = f"the controller at 127.0.0.1:{dead_port}"
    assert re.fullmatch(rf"cannot reach {server} \(refused\), trying for [2-5] s more", said)


def test_a_call_that_ends_sooner_tells_nothing(dead_port: int, caplog: pytest.LogCaptureFixture) -> None:
    with connect(config(f"tcp://127.0.0.1:{dead_port}", retry_timeout=0.5)) as pravega:
        with pytest.raises(PravegaError):
            pravega.controller.list_scopes()
    assert "cannot reach" not in caplog.text


def test_the_first_contact_is_short_unless_the_user_says_how_long() -> None:
    servers = {"controller-uri": "tcp://127.0.0.1:1"}
    assert read_first_contact(resolve(conf=servers)) == FIRST_CONTACT == 10
    assert read_first_contact(resolve(conf={**servers, "retry-timeout": "60s"})) is None
