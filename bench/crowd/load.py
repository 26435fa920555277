"""Clients that do something again and again, and what they did."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What some clients did: the seconds of each statement, and of all together."""

    seconds: list[float]
    elapsed: float

    def describe(self) -> str:
        """Return the rate, and the quantiles of the latencies in milliseconds."""
        ordered = sorted(self.seconds)
        p99 = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
        return f"{len(ordered) / self.elapsed:.1f} | {statistics.median(ordered) * 1000:.0f} | {p99 * 1000:.0f}"


def run_clients(clients: int, seconds: float, work: Callable[[int], float | None]) -> Load:
    """Have clients do something again and again for some seconds; each finishes what it has begun.

    Where the work returns seconds, these count as its latency.
    """
    took: list[float] = []
    failures: list[BaseException] = []
    begin = time.perf_counter()

    def run(number: int) -> None:
        try:
            while time.perf_counter() - begin < seconds and not failures:
                began = time.perf_counter()
                counted = work(number)
                took.append(time.perf_counter() - began if counted is None else counted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Load(took, time.perf_counter() - begin)
