"""Streaming queries of CALL start_query: started, watched and stopped in SQL, in every front end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sql_clients import SqlClient, SqlError
from tests.streams import PATIENCE

COLUMNS = "name, state, batch, failures, last_error, into, checkpoint"


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.2)


class Halls:
    """Two tables in a namespace of a front end's catalog, and a query from one to the other."""

    def __init__(self, sql: SqlClient, scope: str, checkpoint: Path) -> None:
        self.sql, self.scope = sql, f"pravega.{scope}"
        self.name, self.checkpoint = f"doubled-{scope}", str(checkpoint)
        self.into, self.query = f"{scope}.doubled", f"SELECT id, 2 * id FROM STREAM {self.scope}.numbers"
        sql.run(f"CREATE NAMESPACE {self.scope}")
        sql.run(f"CREATE TABLE {self.scope}.numbers (id BIGINT) USING pravega")
        sql.run(f"CREATE TABLE {self.scope}.doubled (id BIGINT, twice BIGINT) USING pravega")

    def start(self, **changes: str | None) -> list[str]:
        given = {"name": self.name, "query": self.query, "into": self.into, "checkpoint": self.checkpoint, **changes}
        listed = ", ".join(f"{key} => '{text}'" for key, text in given.items() if text is not None)
        [row] = self.sql.run(f"CALL pravega.system.start_query({listed})")
        return list(row)

    def stop(self) -> list[str]:
        [row] = self.sql.run(f"CALL pravega.system.stop_query(name => '{self.name}')")
        return list(row)

    def shown(self) -> dict[str, str]:
        rows = self.sql.run(f"SELECT {COLUMNS} FROM pravega.system.queries WHERE name = '{self.name}'")
        return dict(zip(COLUMNS.split(", "), rows[0], strict=True)) if rows else {}

    def insert(self, *ids: int) -> None:
        self.sql.run(f"INSERT INTO {self.scope}.numbers VALUES {', '.join(f'({id})' for id in ids)}")

    def written(self) -> list[tuple[str, ...]]:
        return self.sql.run(f"SELECT * FROM {self.scope}.doubled ORDER BY id")


@pytest.fixture
def halls(sql: SqlClient, fresh_name: str, tmp_path: Path) -> Halls:
    return Halls(sql, fresh_name, tmp_path / "checkpoint")


def doubles(*ids: int) -> list[tuple[str, ...]]:
    return [(str(id), str(2 * id)) for id in ids]


def test_a_query_is_started_watched_and_stopped(halls: Halls) -> None:
    halls.insert(1, 2)
    name, state, into, checkpoint, _ = halls.start(trigger="300 milliseconds")
    assert (name, state, into, checkpoint) == (halls.name, "RUNNING", f"pravega.{halls.into}", halls.checkpoint)
    wait_for(lambda: halls.written() == doubles(1, 2))
    halls.insert(3)
    wait_for(lambda: halls.written() == doubles(1, 2, 3))
    wait_for(lambda: halls.shown()["batch"] == "1")
    assert halls.shown()["state"] == "RUNNING" and halls.shown()["last_error"] == "NULL"
    assert halls.stop()[-1] == "true"
    assert halls.shown() == {}
    halls.insert(4)
    assert halls.written() == doubles(1, 2, 3)
    halls.start(trigger="available now")
    wait_for(lambda: halls.shown()["state"] == "FINISHED")
    assert halls.written() == doubles(1, 2, 3, 4)
    halls.stop()
    with pytest.raises(SqlError, match="There is no query"):
        halls.stop()
