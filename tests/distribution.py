"""How tests are spread: over processes by files, and over runs of CI by slices."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

FRONT_ENDS = (
    "test_sql_behaviours.py",
    "test_jdbc.py",
    "test_stream_readers.py",
    "test_running_queries.py",
    "test_foreign_addresses.py",
)
"""Files whose tests share the SQL shell, the Thrift server and beeline, which take 10 s each to start."""


FIRST = "test_packaging.py"
"""The file that takes longest of those that need no server: it runs while servers start."""


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file, and the files of the front ends as one, to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "front ends" if file.endswith(FRONT_ENDS) else file


class Slice:
    """Keeps one of several equal slices of the chosen tests: each nth of them, in the order of their names."""

    def __init__(self, text: str) -> None:
        """Take a text such as `3/20`, from 0 to 19."""
        number, slices = text.split("/")
        self._number, self._slices = int(number) % int(slices), int(slices)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = {item.nodeid for item in sorted(items, key=lambda item: item.nodeid)[self._number :: self._slices]}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]
