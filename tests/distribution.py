"""How pytest-xdist spreads the tests over its processes: by files, and what starts the same programs goes together."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

FRONT_ENDS = ("test_sql_behaviours.py", "test_jdbc.py", "test_stream_readers.py")
"""Files whose tests share the SQL shell, the Thrift server and beeline, which take 10 s each to start."""


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file, and the files of the front ends as one, to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "front ends" if file.endswith(FRONT_ENDS) else file
