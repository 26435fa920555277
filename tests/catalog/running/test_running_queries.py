"""Streaming queries of CALL start_query: started, watched and stopped in SQL, in every front end.

All front ends call the same procedures, so that only the first test runs in each of them in short runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_pravega.catalog.running.kept_query import KeptQueries, KeptQuery
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from tests.sql_clients import SqlClient, SqlError
from tests.streams import PATIENCE

COLUMNS = "name, state, batch, failures, last_error, into, checkpoint"
NO_SETTINGS = {
    "spark.sql.catalog.pravega.controller-uri": "tcp://127.0.0.1:1",
    "spark.sql.catalog.other": "io.github.pysparkpravega.PravegaCatalog",
    "spark.sql.warehouse.dir": "/nowhere",
    "spark.submit.deployMode": "cluster",
}
"""What a session may not change, and a server must not take from the row of a query."""
SHELL = pytest.param("spark-sql", marks=pytest.mark.long)
OTHERS = [pytest.param("jdbc", marks=pytest.mark.long), pytest.param("connect", marks=pytest.mark.pipelines)]
AT_LENGTH = pytest.mark.parametrize("sql", ["pyspark", SHELL, *OTHERS], indirect=True)
FAILING = pytest.mark.parametrize("sql", ["pyspark", *OTHERS], indirect=True)
"""Not in the spark-sql shell, which prints Spark's log of failed queries among its rows."""


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
        return self.call(self.given(**changes))

    def given(self, **changes: str | None) -> str:
        given = {"name": self.name, "query": self.query, "into": self.into, "checkpoint": self.checkpoint, **changes}
        return ", ".join(f'{key} => "{text}"' for key, text in given.items() if text is not None)

    def call(self, listed: str) -> list[str]:
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
    with pytest.raises(SqlError, match="There is no query"):
        halls.stop()


@AT_LENGTH
def test_a_query_goes_on_and_takes_what_there_is(halls: Halls) -> None:
    halls.insert(1, 2, 3)
    halls.start()
    wait_for(lambda: halls.written() == doubles(1, 2, 3))
    halls.stop()
    halls.insert(4)
    halls.query = f"WITH new AS (SELECT id FROM STREAM {halls.scope}.numbers) SELECT id, 2 * id FROM new"
    halls.start(trigger="available now")
    wait_for(lambda: halls.shown()["state"] == "FINISHED")
    assert halls.written() == doubles(1, 2, 3, 4)
    halls.stop()
    with pytest.raises(SqlError, match="There is no query"):
        halls.stop()


@AT_LENGTH
def test_a_query_has_a_consumer(halls: Halls) -> None:
    kept = "'retention.type'='size', 'retention.minimum'='1g'"
    halls.sql.run(f"ALTER TABLE {halls.scope}.numbers SET TBLPROPERTIES ({kept})")
    halls.insert(1)
    [first] = halls.sql.run(f"SELECT stream_cut FROM {halls.scope}.numbers.history")
    with pytest.raises(SqlError, match="'The Doubling' of 'consumer' .* is not valid: expected letters"):
        halls.start(query=f"{halls.query} WITH ('consumer'='The Doubling')")
    halls.query += " WITH ('consumer'='doubling')"
    halls.start()
    wait_for(lambda: halls.written() == doubles(1))
    halls.insert(2)
    position = f"SELECT stream_cut FROM {halls.scope}.numbers.consumers WHERE consumer = 'doubling'"
    wait_for(lambda: halls.sql.run(position) == [first])
    halls.stop()


@pytest.mark.parametrize("sql", ["jdbc"], indirect=True)
def test_a_query_is_stopped_with_a_savepoint_and_goes_back_to_it(halls: Halls, tmp_path: Path) -> None:
    """The first version goes on in a table that begins with its own rows."""
    savepoint, first = tmp_path / "savepoints/first", halls.query

    def call(procedure: str, arguments: str) -> list[tuple[str, ...]]:
        return halls.sql.run(f"CALL pravega.system.{procedure}({arguments})")

    halls.insert(1, 2)
    halls.start()
    wait_for(lambda: halls.written() == doubles(1, 2))
    running = f"checkpoint => '{halls.checkpoint}', into => '{halls.into}'"
    with pytest.raises(SqlError, match=f"belongs to the query '{halls.name}', which is RUNNING"):
        call("create_savepoint", f"savepoint => '{savepoint}', {running}")
    for wrong in ("first", str(tmp_path)):
        with pytest.raises(SqlError, match="'savepoint' => "):
            call("stop_query", f"name => '{halls.name}', savepoint => '{wrong}'")
    assert halls.shown()["state"] == "RUNNING"
    [stopped] = call("stop_query", f"name => '{halls.name}', savepoint => '{savepoint}'")
    assert stopped[-1] == "true"
    [[path, _, query, batch, into, version, *_]] = call("list_savepoints", f"directory => '{savepoint.parent}'")
    assert (path, batch, into, version) == (str(savepoint), "0", halls.into, "1")
    halls.query = halls.query.replace("2 *", "3 *")
    halls.start()
    halls.insert(3)
    wait_for(lambda: halls.written() == [*doubles(1, 2), ("3", "9")])
    with pytest.raises(SqlError, match=f"belongs to the query '{halls.name}', which is RUNNING"):
        call("restore_savepoint", f"savepoint => '{savepoint}'")
    advice = f"was stopped, but has no savepoint. Call create_savepoint, with checkpoint => '{halls.checkpoint}'"
    with pytest.raises(SqlError, match=advice):
        call("stop_query", f"name => '{halls.name}', savepoint => '{halls.checkpoint}/within'")
    with pytest.raises(SqlError, match=rf"PRAVEGA_QUERY_FENCED.* by query {query} \(up to micro-batch 1\)\."):
        call("restore_savepoint", f"savepoint => '{savepoint}'")
    again = f"{halls.scope}.again"
    halls.sql.run(f"CREATE TABLE {again} (id BIGINT, twice BIGINT) USING pravega")
    halls.sql.run(f"INSERT INTO {again} SELECT * FROM {halls.scope}.doubled VERSION AS OF {version}")
    halls.query, halls.into = first, halls.into.replace("doubled", "again")
    call("restore_savepoint", f"savepoint => '{savepoint}', into => '{halls.into}'")
    halls.start()
    wait_for(lambda: halls.sql.run(f"SELECT * FROM {again} ORDER BY id") == doubles(1, 2, 3))
    halls.stop()


@AT_LENGTH
def test_the_sink_writes_the_epochs_of_a_key_value_table(halls: Halls) -> None:
    halls.sql.run(
        f"CREATE TABLE {halls.scope}.counted (id BIGINT, epoch BIGINT, `n n` BIGINT) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id', 'epoch-column'='epoch')"
    )
    halls.insert(1, 2, 2)
    counts = f"SELECT id, count(*) FROM STREAM {halls.scope}.numbers GROUP BY id"
    into = halls.into.replace("doubled", "counted")
    halls.start(query=counts, into=into, output_mode="update", trigger="available now")
    wait_for(lambda: halls.shown()["state"] == "FINISHED")
    assert halls.sql.run(f"SELECT * FROM {halls.scope}.counted ORDER BY id") == [("1", "1", "1"), ("2", "1", "2")]
    halls.stop()


@AT_LENGTH
def test_rows_of_a_table_of_changes_are_replaced(halls: Halls) -> None:
    halls.sql.run(
        f"CREATE TABLE {halls.scope}.counted (id BIGINT, n BIGINT) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    counts, into = f"SELECT id, count(*) FROM STREAM {halls.scope}.numbers GROUP BY id", f"{halls.scope}.counted"
    for ids, found in (((1, 2, 2), [("1", "1"), ("2", "2")]), ((2, 3), [("1", "1"), ("2", "3"), ("3", "1")])):
        halls.insert(*ids)
        halls.start(query=counts, into=into, output_mode="update", trigger="available now")
        wait_for(lambda: halls.shown()["state"] == "FINISHED")
        assert halls.sql.run(f"SELECT * FROM {into} ORDER BY id") == found
    assert halls.sql.run(f"SELECT rows FROM {into}.history ORDER BY version") == [("2",), ("2",)]
    halls.stop()


@AT_LENGTH
def test_a_query_of_streams_that_have_an_end_finishes(halls: Halls) -> None:
    sql, numbers = halls.sql, f"{halls.scope}.numbers"
    halls.insert(1)
    halls.insert(2)
    halls.insert(3)
    halls.query = f"SELECT id, 2 * id FROM STREAM {numbers} WITH ('end-version'='2', 'max-rows-per-trigger'='1')"
    halls.start(trigger="1 second")
    wait_for(lambda: halls.shown()["state"] == "FINISHED")
    assert halls.written() == doubles(1, 2) and halls.shown()["failures"] == "0"
    halls.start(trigger="1 second")  # it has nothing left to read
    wait_for(lambda: halls.shown()["state"] == "FINISHED")
    halls.stop()
    halls.query += f" UNION ALL SELECT id, 0 FROM STREAM {numbers} WITH ('end-stream-cut'='latest')"
    halls.start(checkpoint=f"{halls.checkpoint}-2")  # one of its streams has none
    wait_for(lambda: len(halls.written()) == 7)
    wait_for(lambda: halls.shown()["state"] == "RUNNING")
    halls.insert(4)
    wait_for(lambda: ("4", "0") in halls.written())
    halls.stop()
    assert sql.run(f"SELECT count(*) FROM {halls.scope}.doubled WHERE twice = 8") == [("0",)]


@AT_LENGTH
def test_a_query_has_options_of_its_writes(halls: Halls) -> None:
    halls.insert(1)
    halls.call(f"{halls.given()}, options => map('write-mode', 'at-least-once', 'spool.memory', '8m')")
    wait_for(lambda: halls.written() == doubles(1))
    shown = halls.sql.run(f"SELECT options FROM pravega.system.queries WHERE name = '{halls.name}'")
    assert shown == [('{"write-mode": "at-least-once", "spool.memory": "8m"}',)]
    history = f"SELECT count(*) FROM {halls.scope}.doubled.history"
    assert halls.sql.run(history) == [("0",)]  # it was no transaction
    with pytest.raises(SqlError, match="A different query"):
        halls.start()
    halls.stop()
    halls.insert(2)
    halls.start()
    wait_for(lambda: halls.written() == doubles(1, 2))
    assert halls.sql.run(history) == [("1",)]
    plain = halls.sql.run(f"SELECT options IS NULL FROM pravega.system.queries WHERE name = '{halls.name}'")
    assert plain == [("true",)]
    halls.stop()


def test_the_namespace_of_the_catalog_lists_its_tables(sql: SqlClient) -> None:
    assert any("queries" in row for row in sql.run("SHOW TABLES IN pravega.system"))
    assert sql.run("SHOW TABLES IN pravega.system LIKE 'quarries*'") == []
    described = {row[0]: row[1] for row in sql.run("DESCRIBE pravega.system.queries")}
    assert described["name"] == "string" and described["updated_at"] == "timestamp"


def plant_settings(halls: Halls, pravega: Pravega) -> KeptQueries:
    """Change the row of a query as somebody else may who has rights to its scope."""

    def planted(found: KeptQuery | None) -> KeptQuery:
        assert found is not None
        settings = {**found.definition.settings, **NO_SETTINGS}
        return replace(found, definition=replace(found.definition, settings=settings))

    queries = KeptQueries(Catalog({}, pravega))
    queries.change(halls.scope.partition(".")[2], halls.name, planted)
    return queries


@FAILING
def test_a_query_that_fails_is_retried_and_recovers(halls: Halls, pravega: Pravega) -> None:
    """With nothing of what its row says of catalogs."""
    sql, flaky = halls.sql, f"{halls.scope}.flaky"
    sql.run(f"CREATE TABLE {flaky} (text STRING) USING pravega")
    halls.query = f"SELECT CAST(text AS BIGINT), 0 FROM STREAM {flaky}"
    sql.run(f"INSERT INTO {flaky} VALUES ('7')")
    halls.start()
    wait_for(lambda: halls.written() == [("7", "0")])
    sql.run(f"DROP TABLE {halls.scope}.doubled")
    sql.run(f"INSERT INTO {flaky} VALUES ('8')")
    wait_for(lambda: int(halls.shown()["failures"]) >= 2)
    failed = halls.shown()
    assert failed["state"] in ("RETRYING", "STARTING", "RUNNING")
    assert "doubled" in failed["last_error"] and "\tat " not in failed["last_error"]
    queries = plant_settings(halls, pravega)
    sql.run(f"CREATE TABLE {halls.scope}.doubled (id BIGINT, twice BIGINT) USING pravega")
    wait_for(lambda: halls.written() == [("8", "0")])
    wait_for(lambda: halls.shown()["failures"] == "0")
    assert all(NO_SETTINGS.items() <= kept.definition.settings.items() for kept in queries.find(halls.name))
    halls.stop()


@FAILING
def test_retries_are_bounded(halls: Halls) -> None:
    halls.query = f"SELECT id, CAST('x' || id AS BIGINT) FROM STREAM {halls.scope}.numbers"
    halls.sql.run("SET spark.sql.ansi.enabled=true")
    halls.insert(1)
    halls.call(f"{halls.given()}, retries => 1")
    wait_for(lambda: halls.shown()["state"] == "FAILED")
    assert halls.shown()["failures"] == "2" and "CAST_INVALID_INPUT" in halls.shown()["last_error"]
    assert halls.stop()[1] == "FAILED"
    assert halls.shown() == {} and halls.written() == []


@FAILING
def test_what_is_refused_leaves_nothing(halls: Halls, tmp_path: Path) -> None:
    sql = halls.sql
    sql.run(f"CREATE VIEW {halls.scope}.seen AS SELECT 1 AS id, 2 AS twice")
    wrong: dict[str, dict[str, str | None]] = {
        "reads no STREAM": {"query": f"SELECT id, id FROM {halls.scope}.numbers"},
        "CREATE TABLE pravega": {"into": f"{halls.into}_more"},
        "(id BIGINT, `(2 * id)` BIGINT) USING pravega": {"into": f"{halls.into}_more"},
        "is the view": {"into": halls.into.replace("doubled", "seen")},
        "does not name a table": {"into": "doubled"},
        "needs the argument 'checkpoint'": {"checkpoint": None},
        "is not an absolute path": {"checkpoint": "daily"},
        "has a password in its address": {"checkpoint": "s3a://me:mine@bucket/daily"},
        "'trigger' => 'often' is not valid": {"trigger": "often"},
        "or: available now": {"trigger": "once"},
        "real-time mode is for programs": {"trigger": "real-time 5 minutes"},
        "'output_mode' => 'replace' is not valid": {"output_mode": "replace"},
        "takes INT": {"retries": "often"},
        "cannot be named": {"name": " "},
        "TABLE_OR_VIEW_NOT_FOUND": {"query": f"SELECT id, id FROM STREAM {halls.scope}.nope"},
        "PARSE_SYNTAX_ERROR": {"query": "SELEC id FROM STREAM x"},
        "does not start": {"query": f"SELECT id FROM STREAM {halls.scope}.numbers"},
        "needs the argument 'query'": {"query": None},
    }
    for words, changes in wrong.items():
        with pytest.raises(SqlError) as raised:
            halls.start(**changes)
        assert words in str(raised.value), words
        assert halls.shown() == {}
    for words, more in {
        "'retries' => -1 is not valid": "retries => -1",
        "There is no write option 'colour'": "options => map('colour', 'red')",
        "'soon' of 'transaction.timeout'": "options => map('transaction.timeout', 'soon')",
        "is for batches that are written in foreachBatch": "options => map('txn-app-id', 'me')",
        "'write-mode' is NULL": "options => map('write-mode', NULL)",
        "takes MAP<STRING,STRING>": "options => 'write-mode=best-effort'",
    }.items():
        with pytest.raises(SqlError) as raised:
            halls.call(f"{halls.given()}, {more}")
        assert words in str(raised.value), words
        assert halls.shown() == {}
    sql.run(
        f"CREATE TABLE {halls.scope}.latest (id BIGINT, twice BIGINT) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')"
    )
    with pytest.raises(SqlError, match="'transaction.timeout' does not apply to"):
        latest = halls.given(into=halls.into.replace("doubled", "latest"))
        halls.call(f"{latest}, options => map('transaction.timeout', '1min')")
    halls.start()
    for words, changes in {
        "runs already, on": {},
        "A different query": {"trigger": "1 second"},
        f"belongs to the query '{halls.name}'": {
            "name": f"{halls.name}-2",
            "checkpoint": f"file://{halls.checkpoint}/",
        },
        f"query '{halls.name}' runs already, on": {"checkpoint": f"file:{halls.checkpoint}"},
    }.items():
        with pytest.raises(SqlError, match="PRAVEGA_QUERY_EXISTS") as raised:
            halls.start(**changes)
        assert words in str(raised.value)
    with pytest.raises(SqlError, match="can only be read"):
        sql.run("INSERT INTO pravega.system.queries VALUES ('x')")
    with pytest.raises(SqlError, match="can only be read"):
        sql.run("DROP TABLE pravega.system.queries")
    halls.stop()


@AT_LENGTH
def test_a_query_writes_to_the_streams_that_a_column_names(halls: Halls) -> None:
    for table in ("even", "odd"):
        halls.sql.run(f"CREATE TABLE {halls.scope}.{table} (id BIGINT, target STRING) USING pravega")
    halls.query = f"SELECT id, IF(id % 2 = 0, 'even', 'odd') AS target FROM STREAM {halls.scope}.numbers"
    halls.insert(1, 2)
    into = f"{halls.scope.partition('.')[2]}.even"
    with pytest.raises(SqlError, match="'stream-column'='hall' is not a column .*start_query have .* table: add"):
        halls.call(f"{halls.given(into=into)}, options => map('stream-column', 'hall')")
    halls.call(f"{halls.given(into=into)}, options => map('stream-column', 'target')")
    rows = f"SELECT * FROM {halls.scope}.even UNION ALL SELECT * FROM {halls.scope}.odd ORDER BY id"
    wait_for(lambda: halls.sql.run(rows) == [("1", "odd"), ("2", "even")])
    halls.insert(3)
    wait_for(lambda: halls.sql.run(rows) == [("1", "odd"), ("2", "even"), ("3", "odd")])
    assert halls.sql.run(f"SELECT count(*) FROM {halls.scope}.even") == [("1",)]
    halls.sql.run(f"CALL pravega.system.stop_query(name => '{halls.name}')")
