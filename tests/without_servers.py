"""The quick tier, `make check`: the tests that need no server, no session of Spark, no jar and no network."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
_SERVERS = frozenset(("cluster", "secure_cluster", "quick_cluster", "foreign", "kafka_connect"))
_SESSIONS = frozenset(("spark", "secure_spark", "quick_spark"))
"""Fixtures that start a server or a JVM."""
_PROGRAMS = (
    "catalog/test_plug_in_credentials.py",
    "datasource/test_source.py",
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
    """Leaves out what `make check` has no time for."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that need nothing but Python."""
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = [item for item in items if _is_quick(item)]


def _is_quick(item: pytest.Item) -> bool:
    if (_SERVERS | _SESSIONS).intersection(getattr(item, "fixturenames", ())) or item.get_closest_marker("slow"):
        return False
    path = item.path.relative_to(ROOT)
    return not any(path.is_relative_to(place) for place in _PROGRAMS)
