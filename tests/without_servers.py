"""The quick tier, `make check`: the tests that need no server, no session of Spark, no jar and no network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
_SERVERS = frozenset(
    ("cluster", "secure_cluster", "quick_cluster", "foreign", "kafka_connect", "debezium_readers", "postgres")
)
_REGISTRIES = frozenset(("confluent_registry",))
_SESSIONS = frozenset(("spark", "secure_spark", "quick_spark", "sql", "thrift_url", "connect_url", "java"))
_STARTING = _SERVERS | _REGISTRIES | _SESSIONS
"""Fixtures that start a server or a JVM."""
_PROGRAMS = (
    "catalog/storage/test_plug_in_credentials.py",
    "catalog/protocol/test_service_process.py",
    "datasource/test_source.py",
    "datasource/test_worker_daemon.py",
    "docker",
    "faults",
    "front_ends",
    "interop",
    "kafka",
    "lakehouse",
    "local",
    "project/test_packaging.py",
)
"""Files and folders whose tests start programs of their own."""


class WithoutServers:
    """Leaves out what `make check` has no time for, and fails a test that starts a program after all."""

    def __init__(self) -> None:
        self._guarded = False

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that need nothing but Python."""
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = [item for item in items if _is_quick(item)]

    def pytest_runtest_setup(self) -> None:
        """Refuse programs from the first test on; the processes of the run have been started before."""
        if not self._guarded:
            sys.addaudithook(_refuse_program)
            self._guarded = True

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Refuse a server that a test asks for while it runs."""
        if fixturedef.argname in _STARTING:
            pytest.fail(f"the fixture {fixturedef.argname} starts a program, which `make check` has no time for")


def _refuse_program(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        raise RuntimeError(f"the test starts a program, which `make check` has no time for: {arguments[1]}")


def _is_quick(item: pytest.Item) -> bool:
    if _STARTING.intersection(getattr(item, "fixturenames", ())) or item.get_closest_marker("slow"):
        return False
    path = item.path.relative_to(ROOT)
    return not any(path.is_relative_to(place) for place in _PROGRAMS)
