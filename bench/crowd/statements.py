"""The kinds of statements that a crowd runs, and what must be there after them."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.crowd.front_ends import Client
from bench.crowd.processes import Processes

TABLES = 8
PARQUET = "spark_catalog.default"
LONG_ROWS = 100
PAUSE_MS = 10
"""How long an INSERT of many rows takes for each, so that it can be ended in the middle."""


@dataclass(frozen=True)
class Statement:
    """A kind of statement: what a client does, and the table that gets a row each time."""

    name: str
    run: Callable[[Client, int], float | None]
    into: str | None = None
    ends_early: bool = False


class Tables:
    """The tables that the statements are about: those of the catalog, unless there is none, and Parquet's."""

    def __init__(self, client: Client, namespace: str | None) -> None:
        """Make them. Without a namespace of the catalog there are Parquet's alone."""
        self.place = namespace or PARQUET
        self._numbers = itertools.count(1)
        places = {self.place: "pravega" if namespace else "parquet", PARQUET: "parquet"}
        for place, kind in places.items():
            for name in ("small", "long", *(f"into_{number}" for number in range(TABLES))):
                client.run(f"CREATE TABLE {place}.{name} (id BIGINT, temp DOUBLE) USING {kind}")
            client.run(f"INSERT INTO {place}.small SELECT id, id / 2D FROM range(0, 100, 1, 1)")

    def list_statements(self) -> list[Statement]:
        """Return all kinds of statements."""
        return [
            *self._of_place("SELECT of 100 rows", "SELECT * FROM {place}.small WHERE temp > {eighth}"),
            *self._of_place("INSERT of 1 row", "INSERT INTO {place}.into_0 VALUES (1, 1D)", "into_0"),
            self._into_many(),
            *self._of_place("SHOW TABLES", "SHOW TABLES IN {place}"),
            *self._of_place("DESCRIBE TABLE", "DESCRIBE TABLE {place}.into_{eighth}"),
            Statement("listTables, getTables", lambda client, _: client.list_tables(self.place)),
            Statement("INSERT, cancelled", self._cancel, ends_early=True),
            Statement("INSERT, connection lost", self._lose, ends_early=True),
        ]

    def _of_place(self, name: str, text: str, into: str | None = None) -> Iterator[Statement]:
        """Yield a statement on the catalog's tables, and the same on those of Parquet."""
        for place in dict.fromkeys((self.place, PARQUET)):

            def run(client: Client, number: int, place: str = place) -> None:
                client.run(text.format(place=place, eighth=number % TABLES))

            yield Statement(name if place == self.place else f"{name}, Parquet", run, into and f"{place}.{into}")

    def _into_many(self) -> Statement:
        def run(client: Client, number: int) -> None:
            client.run(f"INSERT INTO {self.place}.into_{1 + number % (TABLES - 1)} VALUES (1, 1D)")

        return Statement(f"INSERT of 1 row, {TABLES - 1} tables", run, "the others")

    def _make_long(self) -> str:
        number = next(self._numbers)
        pause = f"reflect('java.lang.Thread', 'sleep', {PAUSE_MS}L) = 'null'"
        rows = f"SELECT {number}L, id / 2D FROM range(0, {LONG_ROWS}, 1, 1) WHERE {pause}"
        return f"INSERT INTO {self.place}.long {rows}"

    def _cancel(self, client: Client, _: int) -> float:
        return client.cancel(self._make_long(), random.uniform(0, 2 * LONG_ROWS * PAUSE_MS / 1000))

    def _lose(self, client: Client, _: int) -> None:
        client.lose(self._make_long(), random.uniform(0, LONG_ROWS * PAUSE_MS / 1000))

    def check(self, client: Client, written: Counter[str]) -> str:
        """Count what is there: each INSERT that has ended, and each that was ended wholly or not at all."""
        rows: Counter[str] = Counter()
        for place in {self.place, PARQUET}:
            for number in range(TABLES):
                [(count,)] = client.run(f"SELECT count(*) FROM {place}.into_{number}")
                rows["the others" if place == self.place and number else f"{place}.into_{number}"] += count
        assert +rows == +written, f"{rows} instead of {written}"
        found = dict(map(tuple, client.run(f"SELECT id, count(*) FROM {self.place}.long GROUP BY id")))
        halves = {number: count for number, count in found.items() if count != LONG_ROWS}
        assert not halves, f"rows of INSERTs that were ended: {halves}"
        return f"of {next(self._numbers) - 1} INSERTs that were ended, {len(found)} are there wholly, and none in part"


def wait_for_tasks(processes: Processes, seconds: float = 120) -> float:
    """Wait until no task runs; return the seconds that it took."""
    begin = time.perf_counter()
    while tasks := processes.count_tasks():
        assert time.perf_counter() - begin < seconds, f"{tasks} tasks still run"
        time.sleep(0.1)
    return time.perf_counter() - begin
