"""Thousands of statements by clients that connect and disconnect, and what a server keeps of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence

from bench.crowd.front_ends import FrontEnd
from bench.crowd.load import run_clients
from bench.crowd.processes import Processes
from bench.crowd.statements import Statement

CLIENTS = 20
PER_SESSION = 5
STEPS = 10
SHOWN = 12


def soak(front: FrontEnd, statements: Sequence[Statement], total: int) -> int:
    """Run statements of all kinds in turns, five in each session, and print sizes ten times on the way.

    Returns how many rows are to be counted.
    """
    processes, numbers, done = Processes(front.jvm), itertools.count(), Counter[bool]()
    lock = threading.Lock()
    print("| statements | sessions | a second | JVM: RSS, heap | threads | service: RSS, threads |")
    print("|---" * 6 + "|")
    _show(processes, 0, "0 | ")
    first = processes.count_objects()

    def work(number: int) -> None:
        client = front.connect()
        try:
            for _ in range(PER_SESSION):
                statement = statements[next(numbers) % len(statements)]
                statement.run(client, number)
                with lock:
                    done[statement.counted] += 1
        finally:
            client.close()

    for step in range(1, STEPS + 1):
        begin, before = time.perf_counter(), done.total()
        busy: Counter[str] = Counter()
        while done.total() < step * total // STEPS:
            watcher = threading.Timer(2, _note_most, (processes, busy))
            watcher.start()
            run_clients(CLIENTS, 5, work)
            watcher.join()
        rate = (done.total() - before) / (time.perf_counter() - begin)
        _show(processes, done.total(), f"{done.total() // PER_SESSION} | {rate:.1f}")
        _show_threads(busy)
    time.sleep(90)  # Hive ends idle threads after 10 s and after a minute
    _show(processes, done.total(), "a rest | ")
    _show_threads(processes.count_threads())
    grown = {
        name: (count - first.get(name, (0, 0))[0], size - first.get(name, (0, 0))[1])
        for name, (count, size) in processes.count_objects().items()
    }
    print("\nclasses that grew: MiB, objects")
    for name, (count, size) in sorted(grown.items(), key=lambda item: -item[1][1])[:40]:
        print(f"  {size / (1 << 20):.1f} {count} {name}")
    return done[True]


def _show(processes: Processes, done: int, rest: str) -> None:
    sizes = processes.measure_sizes()
    heap = processes.measure_heap()
    service = "{} MiB, {}".format(*sizes["service"]) if "service" in sizes else ""
    memory, threads = sizes["JVM"]
    print(f"| {done} | {rest} | {memory} MiB, {heap} MiB | {threads} | {service} |", flush=True)


def _note_most(processes: Processes, most: Counter[str]) -> None:
    most |= processes.count_threads()


def _show_threads(threads: Counter[str]) -> None:
    shown = "; ".join(f"{count} {name}" for name, count in threads.most_common(SHOWN))
    print(f"    {threads.total()} threads: {shown}", flush=True)
