"""The kinds of statements that a crowd runs, and what must be there after them."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.crowd.front_ends import Client
from bench.crowd.processes import Processes

TABLES = 8
PARQUET = "spark_catalog.default"
LONG_ROWS = 100
PAUSE_MS = 10
"""How long an INSERT of many rows takes for each, so that it can be ended in the middle."""


@dataclass(frozen=True)
class Statement:
    """A kind of statement: what a client does, and whether its rows are counted in the end."""

    name: str
    run: Callable[[Client, int], float | None]
    counted: bool = False
    ends_early: bool = False


class Tables:
    """The tables that the statements are about: those of the catalog, unless there is none, and Parquet's."""

    def __init__(self, client: Client, namespace: str | None, directory: Path) -> None:
        """Make them. Without a namespace of the catalog there are Parquet's alone."""
        self.place = namespace or PARQUET
        self._catalogs = namespace is not None
        self._directory = directory
        self._numbers = itertools.count(1)
        for place, kind in {self.place: "pravega", PARQUET: "parquet"}.items():
            client.run(f"CREATE TABLE {place}.small (id BIGINT, temp DOUBLE) USING {kind}")
            client.run(f"INSERT INTO {place}.small SELECT id, id / 2D FROM range(0, 100, 1, 1)")
        if self._catalogs:
            for name in ("long", *(f"into_{number}" for number in range(TABLES))):
                client.run(f"CREATE TABLE {self.place}.{name} (id BIGINT, temp DOUBLE) USING pravega")

    def list_statements(self) -> list[Statement]:
        """Return all kinds of statements, those on Parquet behind their counterparts."""
        # Concurrent INSERTs of Spark into one directory fail, so each client has its own.
        parquet = f"INSERT OVERWRITE DIRECTORY '{self._directory}/{{number}}' USING parquet SELECT 1L AS id, 1D AS temp"
        into = f"INSERT INTO {self.place}.into_"
        return [
            *self._in_places("SELECT of 100 rows", "SELECT * FROM {place}.small WHERE temp > {eighth}"),
            *self._in_catalog("INSERT of 1 row", into + "0 VALUES (1, 1D)"),
            self._make("INSERT of 1 row, Parquet", parquet),
            *self._in_catalog(f"INSERT of 1 row, {TABLES} tables", into + "{eighth} VALUES (1, 1D)"),
            *self._in_places("SHOW TABLES", "SHOW TABLES IN {place}"),
            *self._in_places("DESCRIBE TABLE", "DESCRIBE TABLE {place}.small"),
            Statement("listTables, getTables", lambda client, _: client.list_tables(self.place)),
            *([Statement("INSERT, cancelled", self._cancel, ends_early=True)] if self._catalogs else []),
            *([Statement("INSERT, connection lost", self._lose, ends_early=True)] if self._catalogs else []),
        ]

    def _in_places(self, name: str, text: str) -> list[Statement]:
        """Return a statement on the catalog's tables, and the same on those of Parquet."""
        places = {f"{name}, Parquet": PARQUET, **({name: self.place} if self._catalogs else {})}
        return [self._make(each, text.replace("{place}", place)) for each, place in sorted(places.items())]

    def _in_catalog(self, name: str, text: str) -> list[Statement]:
        return [self._make(name, text, counted=True)] if self._catalogs else []

    @staticmethod
    def _make(name: str, text: str, *, counted: bool = False) -> Statement:
        def run(client: Client, number: int) -> None:
            client.run(text.format(number=number, eighth=number % TABLES))

        return Statement(name, run, counted=counted)

    def _make_long(self) -> str:
        number = next(self._numbers)
        pause = f"reflect('java.lang.Thread', 'sleep', {PAUSE_MS}L) = 'null'"
        rows = f"SELECT {number}L, id / 2D FROM range(0, {LONG_ROWS}, 1, 1) WHERE {pause}"
        return f"INSERT INTO {self.place}.long {rows}"

    def _cancel(self, client: Client, _: int) -> float:
        return client.cancel(self._make_long(), random.uniform(0, 2 * LONG_ROWS * PAUSE_MS / 1000))

    def _lose(self, client: Client, _: int) -> None:
        client.lose(self._make_long(), random.uniform(0, LONG_ROWS * PAUSE_MS / 1000))

    def check(self, client: Client, written: int) -> str:
        """Count what is there: each INSERT that has ended, and each that was ended wholly or not at all."""
        if not self._catalogs:
            return ""
        counts = [client.run(f"SELECT count(*) FROM {self.place}.into_{number}")[0][0] for number in range(TABLES)]
        assert sum(counts) == written, f"{sum(counts)} rows instead of {written}"
        found = dict(map(tuple, client.run(f"SELECT id, count(*) FROM {self.place}.long GROUP BY id")))
        halves = {number: count for number, count in found.items() if count != LONG_ROWS}
        assert not halves, f"rows of INSERTs that were ended: {halves}"
        ended = f"of {next(self._numbers) - 1} INSERTs that were ended, {len(found)} are there wholly, and none in part"
        return f"{written} rows of INSERTs are there; {ended}"


def wait_for_tasks(processes: Processes, seconds: float = 120) -> float:
    """Wait until no task runs; return the seconds that it took."""
    begin = time.perf_counter()
    while tasks := processes.count_tasks():
        assert time.perf_counter() - begin < seconds, f"{tasks} tasks still run"
        time.sleep(0.1)
    return time.perf_counter() - begin
