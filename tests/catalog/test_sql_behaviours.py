"""What SQL users rely on: one list of behaviours, the same through every front end, on plain and secured servers.

`make test` checks all of them in PySpark and some in the other front ends; `make long` checks the rest.

Each front end is started once and keeps its session; the statements go there one after the other.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests import tutorial
from tests.bad_input import Refusal, Watched
from tests.catalog.behaviours import tables
from tests.catalog.behaviours.groups import GROUPS
from tests.catalog.behaviours.model import Behaviour, Place
from tests.catalog.test_bad_input import EVERYWHERE
from tests.servers import named
from tests.sql_clients import COMMAND, SqlClient, SqlError
from tests.temperatures import by_location_and_day, readings

BEHAVIOURS = [
    pytest.param(each, id=f"{group}: {each.name}") for group, behaviours in GROUPS.items() for each in behaviours
]


@pytest.fixture(scope="module")
def _places() -> Iterator[dict[str, Place]]:
    """The places that are ready, by the names of their front ends."""
    ready: dict[str, Place] = {}
    yield ready
    for place in ready.values():
        place.sql.run("USE spark_catalog.default")
        if named("PRAVEGA_CONTROLLER_URI"):  # servers of this run are gone soon
            place.sql.run(f"DROP NAMESPACE {place.catalog}.{place.scope} CASCADE")


@pytest.fixture
def place(sql: SqlClient, catalog_name: str, fresh_name: str, _places: dict[str, Place]) -> Place:
    """A front end whose current namespace has the tables that the behaviours ask."""
    if sql.name not in _places:
        _places[sql.name] = made = Place(sql, catalog_name, fresh_name)
        for statement in ("CREATE NAMESPACE {n}", "USE {n}", *tables.STATEMENTS):
            sql.run(made.written(statement))
    here = _places[sql.name]
    sql.run(here.written("USE {n}"))  # whatever a behaviour that failed has left
    return here


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_behaviour(place: Place, behaviour: Behaviour) -> None:
    behaviour.check(place)


def test_procedures(place: Place) -> None:
    """Each is called once: a tag is not made twice."""
    sql, catalog = place.sql, place.catalog
    sql.run("CREATE TABLE tagged (id INT) USING pravega")
    sql.run("INSERT INTO tagged VALUES (1), (2)")
    call = f"CALL {catalog}.system.create_tag(table => '{catalog}.{place.scope}.tagged', tag => 'x')"
    assert [row[:2] for row in sql.run(call)] == [("x", "1")]
    assert sql.run(f"SELECT tag, version FROM {catalog}.{place.scope}.tagged.tags") == [("x", "1")]
    with pytest.raises(SqlError, match="PRAVEGA_INVALID_NAME.*has a tag 'x' already"):
        sql.run(call)
    assert ("create_tag",) in [row[-1:] for row in sql.run(f"SHOW PROCEDURES IN {catalog}.system")]


def test_history_in_a_lake(place: Place) -> None:
    """Where the driver's environment says where lakes are; elsewhere the statement says so."""
    sql, namespace = place.sql, f"{place.catalog}.{place.scope}"
    sql.run(f"CREATE TABLE lasting (id INT) USING pravega TBLPROPERTIES ('lake'='{namespace}')")
    sql.run("INSERT INTO lasting VALUES (1), (2)")
    tier = f"CALL {place.catalog}.system.tier(table => '{namespace}.lasting')"
    if sql.name == "pyspark":
        with pytest.raises(SqlError, match="PRAVEGA_LAKE"):
            sql.run(tier)
        return
    [moved] = sql.run(tier)
    assert "2" in moved
    sql.run("INSERT INTO lasting VALUES (3)")
    sql.run(f"CALL {place.catalog}.system.truncate_stream(table => '{namespace}.lasting', before => '1')")
    assert sql.run("SELECT id FROM lasting ORDER BY id") == [("1",), ("2",), ("3",)]
    assert sql.run("SELECT count(*) FROM lasting WITH ('lake'='only')") == [("2",)]
    assert sql.run(f"SELECT version, rows, files FROM {namespace}.lasting.lake") == [("1", "2", "1")]
    assert "lake.state=table" in str(sql.run("DESCRIBE EXTENDED lasting"))


def test_views(place: Place) -> None:
    sql, namespace = place.sql, f"{place.catalog}.{place.scope}"

    def listed() -> list[str]:
        """The shell prints names alone, other front ends in the second column."""
        return [row[0] if len(row) == 1 else row[1] for row in sql.run(f"SHOW TABLES IN {namespace} LIKE 'seen*'")]

    sql.run(f"CREATE TABLE {namespace}.seen (id INT, temp DOUBLE) USING pravega")
    sql.run(f"INSERT INTO {namespace}.seen VALUES (1, 20.5), (1, 21.5), (2, 18.0)")
    query = f"SELECT id, max(temp) AS highest FROM {namespace}.seen GROUP BY id"
    sql.run(f"CREATE VIEW {namespace}.seen_day (id COMMENT 'its number', highest) COMMENT 'Maxima' AS {query}")
    joined = f"SELECT t.id, count(*), max(highest) FROM {namespace}.seen t JOIN {namespace}.seen_day v ON v.id = t.id"
    assert sql.run(f"{joined} GROUP BY 1 ORDER BY 1") == [("1", "2", "21.5"), ("2", "1", "18.0")]
    assert listed() == ["seen", "seen_day"]
    assert any("seen_day" in row for row in sql.run(f"SHOW VIEWS IN {namespace} LIKE 'seen*'"))
    described = [row for row in sql.run(f"DESCRIBE {namespace}.seen_day") if not row[0].startswith("#")]
    assert [row[:2] for row in described] == [("id", "int"), ("highest", "double")] and described[0][2] == "its number"
    with pytest.raises(SqlError, match="PRAVEGA_UNSUPPORTED_OPERATION.*it is a view"):
        sql.run(f"SELECT * FROM {namespace}.seen_day VERSION AS OF 1")
    sql.run(f"ALTER VIEW {namespace}.seen_day AS SELECT count(*) AS n FROM {namespace}.seen")
    assert sql.run(f"SELECT * FROM {namespace}.seen_day") == [("3",)]
    sql.run(f"DROP VIEW {namespace}.seen_day")
    assert listed() == ["seen"]


CREATED = [
    "CREATE TABLE equal (a INT NOT NULL COMMENT 'the \"key\"', b DECIMAL(10,2)) USING pravega "
    "COMMENT 'it''s a table' TBLPROPERTIES ('routing-key'='a', 'scaling.type'='by-rate-events', "
    "'scaling.target-rate'='1000', 'scaling.min-segments'='2', 'retention.type'='size', 'retention.minimum'='1g')",
    "CREATE TABLE equal USING pravega COMMENT 'it''s two' TBLPROPERTIES ('pattern'='o(rders)|(rder s)')",
    "CREATE TABLE equal USING pravega TBLPROPERTIES ('streams'='orders')",
    "CREATE TABLE equal USING pravega TBLPROPERTIES ('streams'='readings')",
]


@pytest.mark.parametrize("created", CREATED)
def test_show_create_table_makes_an_equal_table(place: Place, created: str) -> None:
    sql = place.sql
    sql.run(created)
    statement = "\n".join(line for row in sql.run("SHOW CREATE TABLE equal") for line in row)
    # beeline prints the lines of a cell without their ends
    statement = re.sub(r"(USING pravega|COMMENT '|TBLPROPERTIES)", r" \1", statement)
    before, columns = sql.run("SHOW TBLPROPERTIES equal"), sql.run("DESCRIBE TABLE equal")
    sql.run("DROP TABLE equal")
    sql.run(statement.replace("\n", " "))
    assert sql.run("SHOW TBLPROPERTIES equal") == before
    assert sql.run("DESCRIBE TABLE equal") == columns
    sql.run("DROP TABLE equal")


def test_results_equal_plain_python_over_the_csv(place: Place, temperatures_view: str) -> None:
    sql = place.sql
    sql.run(
        "CREATE TABLE sensor (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE) "
        "USING pravega TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId', 'scaling.min-segments'='4')"
    )
    sql.run(f"INSERT INTO sensor SELECT * FROM {temperatures_view}")
    assert sql.run("SELECT count(*) FROM sensor") == [(str(len(readings())),)]
    rows = sql.run(
        "SELECT location, CAST(CAST(timestamp AS DATE) AS STRING), min(temp), max(temp), count(*) "
        "FROM sensor GROUP BY 1, 2"
    )
    found = {(row[0], row[1]): (float(row[2]), float(row[3]), int(row[4])) for row in rows}
    assert found == by_location_and_day()


@pytest.fixture
def watched_by_all(sql: SqlClient, client_config: ClientConfig, fresh_name: str) -> Iterator[Watched]:
    """A namespace of its own for each front end."""
    with connect(client_config) as pravega:
        made = Watched(sql, pravega, fresh_name)
        yield made
        made.close()


def test_every_front_end_shows_the_same_words(watched_by_all: Watched) -> None:
    for case in EVERYWHERE:
        given = case.values[0]
        assert isinstance(given, Refusal)
        watched_by_all.refuse(given)
    rows = watched_by_all.sql.run(f"SELECT * FROM {watched_by_all.name}.t ORDER BY id")
    assert rows == [("1", "x"), ("2", "y")]


def test_the_tutorial(
    spark: SparkSession,
    cluster: ClusterInfo,
    thrift_url: str,
    fresh_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its blocks of Python and the question over JDBC, in a namespace of another name that is as long."""
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    namespace = fresh_name[: len("tutorial")]
    here = {"spark": spark}
    *program, clean_up = (step for step in tutorial.program() if not tutorial.needs_lake(step))
    try:
        for step in program:
            code, expected = (text.replace("tutorial", namespace) for text in (step.code, step.output))
            if expected.startswith("[PRAVEGA_"):
                with pytest.raises(PySparkException, match=re.escape(expected.strip())):
                    exec(code, here)
                continue
            exec(code, here)
            assert capsys.readouterr().out.strip() == expected.strip()
        question = next(step for step in tutorial.commands() if "beeline" in step.code)
        command = shlex.split(
            question.code.replace("tutorial", namespace).replace("jdbc:hive2://localhost:10000", thrift_url)
        )
        done = subprocess.run([*COMMAND, *command[1:]], text=True, capture_output=True, check=True)
        answer = re.sub(r"^\d: jdbc:\S+> ", "", done.stdout)  # beeline's prompt
        assert answer.strip() == question.output.strip()
    finally:
        exec(clean_up.code.replace("tutorial", namespace), here)
