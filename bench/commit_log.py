"""Measure what the commit log costs an append and a scan as the number of versions grows.

    python -m bench.commit_log [--versions 1000]

Rows are appended one at a time, without Spark. Figures are medians of a hundred appends, and of fifty scans.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bench.servers import open_cluster
from pyspark_pravega.catalog import Table, connect
from pyspark_pravega.client.key_value.key_value_table import KeyValueTable

_TOGETHER = 100
_SCANS = 50


class LogCalls:
    """Times each request to a key-value table. Without Spark and registry, only the commit log sends such requests."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        request: Callable[..., Any] = KeyValueTable._request

        def timed(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return request(*arguments, **named)
            finally:
                self.seconds.append(time.perf_counter() - begin)

        KeyValueTable._request = timed  # type: ignore[method-assign]

    def of(self, act: Callable[[], object]) -> tuple[float, int]:
        """Return the seconds and the number of requests that an action takes."""
        self.seconds.clear()
        act()
        return sum(self.seconds), len(self.seconds)


def measure_medians(found: Sequence[tuple[float, int]]) -> str:
    """Return the median of the time, and of the number of requests."""
    seconds, requests = zip(*found, strict=True)
    return f"{statistics.median(seconds) * 1000:.2f} ms in {statistics.median(requests):.0f} requests"


def measure(calls: LogCalls, table: Table, versions: int) -> None:
    """Append rows, and print what the appends and scans of versions took."""
    rows = pa.table({"id": [1]})
    appends = [calls.of(lambda: table.append(rows)) for _ in range(versions)]
    for first in range(0, versions - _TOGETHER + 1, _TOGETHER):
        print(f"appends from {first:6,}: {measure_medians(appends[first : first + _TOGETHER])}")
    for version in (1, versions // 2, versions - 1, None):
        scans = [calls.of(lambda asked=version: table.scan(as_of=asked).count()) for _ in range(_SCANS)]  # type: ignore[misc]
        print(f"scan as of {'now' if version is None else version}: {measure_medians(scans)}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=1000)
    versions: int = parser.parse_args().versions
    calls = LogCalls()
    with open_cluster() as config:
        uris = {"controller_uri": str(config.controller_uri), "schema_registry_uri": str(config.registry_uri)}
        scope = f"bench-{uuid.uuid4().hex[:8]}"
        with connect(**uris) as catalog:
            catalog.create_namespace(f"`{scope}`")
            try:
                table = catalog.create_table(f"`{scope}`.numbers", pa.schema([("id", pa.int64())]))
                measure(calls, table, versions)
            finally:
                catalog.drop_namespace(f"`{scope}`", cascade=True)


if __name__ == "__main__":
    main()
