"""What SQL users see, the same through every front end and on plain and secured servers."""

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
from tests.catalog.test_bad_input import EVERYWHERE
from tests.sql_clients import COMMAND, SqlClient, SqlError
from tests.temperatures import by_location_and_day, readings


@pytest.fixture
def namespace(sql: SqlClient, catalog_name: str, fresh_name: str) -> str:
    """A namespace of its own, dropped with all its tables."""
    name = f"{catalog_name}.`{fresh_name}`"
    sql.run(f"CREATE NAMESPACE {name}")
    return name


@pytest.fixture(autouse=True)
def _drop_namespace(
    request: pytest.FixtureRequest, sql: SqlClient, catalog_name: str, fresh_name: str
) -> Iterator[None]:
    yield
    sql.run(f"DROP NAMESPACE IF EXISTS {catalog_name}.`{fresh_name}` CASCADE")


def tables(sql: SqlClient, namespace: str) -> list[str]:
    """The names that SHOW TABLES lists; the shell prints them alone, other front ends in the second column."""
    return [row[0] if len(row) == 1 else row[1] for row in sql.run(f"SHOW TABLES IN {namespace}")]


def test_namespaces_are_scopes(sql: SqlClient, catalog_name: str, fresh_name: str) -> None:
    name = f"{catalog_name}.`{fresh_name}`"
    sql.run(f"CREATE NAMESPACE {name}")
    sql.run(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    assert (fresh_name,) in [
        tuple(part.strip("`") for part in row) for row in sql.run(f"SHOW NAMESPACES IN {catalog_name}")
    ]
    with pytest.raises(SqlError, match="SCHEMA_ALREADY_EXISTS"):
        sql.run(f"CREATE NAMESPACE {name}")
    sql.run(f"DROP NAMESPACE {name}")
    with pytest.raises(SqlError, match="SCHEMA_NOT_FOUND"):
        sql.run(f"DROP NAMESPACE {name}")
    sql.run(f"DROP NAMESPACE IF EXISTS {name}")


def test_properties_of_namespaces(sql: SqlClient, catalog_name: str, fresh_name: str) -> None:
    name = f"{catalog_name}.{fresh_name}"

    def described() -> dict[str, str]:
        return {row[0]: row[1] for row in sql.run(f"DESCRIBE NAMESPACE EXTENDED {name}") if len(row) > 1}

    sql.run(f"CREATE NAMESPACE {name} COMMENT 'halls' WITH DBPROPERTIES ('team'='iot', 'tier'='1')")
    found = described()
    assert found["Comment"] == "halls" and found["Location"] == fresh_name
    assert found["Properties"] == "((team,iot), (tier,1))"
    sql.run(f"ALTER NAMESPACE {name} SET PROPERTIES ('tier'='2', 'cost'='7')")
    sql.run(f"ALTER NAMESPACE {name} UNSET PROPERTIES ('team')")
    sql.run(f"COMMENT ON NAMESPACE {name} IS 'all halls'")
    found = described()
    assert found["Comment"] == "all halls" and found["Properties"] == "((cost,7), (tier,2))"
    sql.run(f"DROP NAMESPACE {name}")


def test_internal_scopes_are_hidden(sql: SqlClient, catalog_name: str) -> None:
    assert not [row for row in sql.run(f"SHOW NAMESPACES IN {catalog_name}") if row[0].strip("`").startswith("_")]


def test_a_namespace_with_tables_is_dropped_only_with_cascade(sql: SqlClient, namespace: str) -> None:
    sql.run(f"CREATE TABLE {namespace}.t (a INT) USING pravega")
    sql.run(f"INSERT INTO {namespace}.t VALUES (1)")
    with pytest.raises(SqlError, match="SCHEMA_NOT_EMPTY"):
        sql.run(f"DROP NAMESPACE {namespace}")
    assert sql.run(f"SELECT * FROM {namespace}.t") == [("1",)]
    sql.run(f"DROP NAMESPACE {namespace} CASCADE")
    with pytest.raises(SqlError, match="SCHEMA_NOT_FOUND"):
        sql.run(f"SHOW TABLES IN {namespace}")


def test_a_table_as_it_was_and_what_there_is_to_know_of_it(sql: SqlClient, namespace: str) -> None:
    sql.run(f"CREATE TABLE {namespace}.`a-b` (id INT) USING pravega")
    for number in (1, 2, 3):
        sql.run(f"INSERT INTO {namespace}.`a-b` VALUES ({number})")
    assert sql.run(f"SELECT version, rows FROM {namespace}.`a-b`.history WHERE version > 1 ORDER BY version") == [
        ("2", "1"),
        ("3", "1"),
    ]
    assert sql.run(f"SELECT sum(id) FROM {namespace}.`a-b` VERSION AS OF 2") == [("3",)]
    assert sql.run(f"SELECT sum(id) FROM {namespace}.`a-b` TIMESTAMP AS OF current_timestamp()") == [("6",)]
    with pytest.raises(SqlError, match="PRAVEGA_INVALID_OPTION.*the newest one is 3, published at 20"):
        sql.run(f"SELECT * FROM {namespace}.`a-b` VERSION AS OF 4")


def test_a_view_of_several_streams(sql: SqlClient, catalog_name: str, namespace: str, fresh_name: str) -> None:
    for name in ("sensor-a", "sensor-b"):
        sql.run(f"CREATE TABLE {namespace}.`{name}` (id INT) USING pravega TBLPROPERTIES ('format'='json')")
        sql.run(f"INSERT INTO {namespace}.`{name}` VALUES (1), (2)")
    options = f"'catalog'='{catalog_name}', 'scope'='{fresh_name}', 'pattern'='sensor-.*'"
    sql.run(f"CREATE TEMPORARY VIEW all_sensors USING pravega OPTIONS ({options})")
    found = sql.run("SELECT _stream, sum(id) FROM all_sensors GROUP BY _stream ORDER BY _stream")
    assert found == [("sensor-a", "3"), ("sensor-b", "3")]
    sql.run("DROP VIEW all_sensors")


@pytest.mark.parametrize("format_name", ["avro", "json"])
def test_rows_come_back_as_inserted(sql: SqlClient, namespace: str, format_name: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.`sensor-{format_name}` (ts TIMESTAMP, id INT NOT NULL, place STRING, temp DOUBLE) "
        f"USING pravega TBLPROPERTIES ('format'='{format_name}', 'routing-key'='id', 'scaling.min-segments'='3')"
    )
    table = f"{namespace}.`sensor-{format_name}`"
    sql.run(
        f"INSERT INTO {table} VALUES (TIMESTAMP'2026-01-02 03:04:05.678901', 1, 'Köln', 1.5), (NULL, 2, NULL, NULL)"
    )
    sql.run(f"INSERT INTO {table} (id, place) VALUES (3, 'x')")
    assert sql.run(
        f"SELECT id, place, temp, date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS') FROM {table} ORDER BY id"
    ) == [
        ("1", "Köln", "1.5", "2026-01-02 03:04:05.678901"),
        ("2", "NULL", "NULL", "NULL"),
        ("3", "x", "NULL", "NULL"),
    ]
    assert sql.run(f"SELECT count(*) FROM {table}") == [("3",)]
    assert sql.run(f"SELECT count(temp), max(id) FROM {table} WHERE id > 1") == [("0", "3")]
    assert len(sql.run(f"SELECT id FROM {table} LIMIT 2")) == 2


def test_show_and_describe(sql: SqlClient, namespace: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.t (a INT NOT NULL COMMENT 'the key', b ARRAY<STRING>) USING pravega "
        "COMMENT 'a table' "
        "TBLPROPERTIES ('format'='json', 'routing-key'='a', 'retention.type'='time', 'retention.minimum'='7d')"
    )
    assert tables(sql, namespace) == ["t"]
    described = sql.run(f"DESCRIBE TABLE {namespace}.t")
    assert ("a", "int", "the key") in described
    assert [row[:2] for row in described if row[0] == "b"] == [("b", "array<string>")]
    text = "\n".join("\t".join(row) for row in sql.run(f"DESCRIBE TABLE EXTENDED {namespace}.t"))
    for expected in ("a table", "pravega", "routing-key=a", "retention.minimum=7d", "_event_pointer"):
        assert expected in text
    properties = {row[0]: row[1] for row in sql.run(f"SHOW TBLPROPERTIES {namespace}.t")}
    assert properties["format"] == "json"
    assert properties["routing-key"] == "a"


def test_show_create_table_makes_an_equal_table(sql: SqlClient, namespace: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.t (a INT NOT NULL COMMENT 'the \"key\"', b DECIMAL(10,2)) USING pravega "
        "COMMENT 'it''s a table' TBLPROPERTIES ('routing-key'='a', 'scaling.type'='by-rate-events', "
        "'scaling.target-rate'='1000', 'scaling.min-segments'='2', 'retention.type'='size', 'retention.minimum'='1g')"
    )
    statement = "\n".join(line for row in sql.run(f"SHOW CREATE TABLE {namespace}.t") for line in row)
    # beeline prints the lines of a cell without their ends
    statement = re.sub(r"(USING pravega|COMMENT '|TBLPROPERTIES)", r" \1", statement)
    before = sql.run(f"SHOW TBLPROPERTIES {namespace}.t")
    columns = sql.run(f"DESCRIBE TABLE {namespace}.t")
    sql.run(f"DROP TABLE {namespace}.t")
    sql.run(statement.replace("\n", " "))
    assert sql.run(f"SHOW TBLPROPERTIES {namespace}.t") == before
    assert sql.run(f"DESCRIBE TABLE {namespace}.t") == columns


def test_tables_that_exist_or_do_not(sql: SqlClient, namespace: str) -> None:
    with pytest.raises(SqlError, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.run(f"SELECT * FROM {namespace}.missing")
    with pytest.raises(SqlError, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.run(f"DROP TABLE {namespace}.missing")
    sql.run(f"DROP TABLE IF EXISTS {namespace}.missing")
    sql.run(f"CREATE TABLE {namespace}.t (a INT) USING pravega")
    sql.run(f"CREATE TABLE IF NOT EXISTS {namespace}.t (other STRING) USING pravega")
    assert sql.run(f"DESCRIBE TABLE {namespace}.t")[0][0] == "a"
    with pytest.raises(SqlError, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql.run(f"CREATE TABLE {namespace}.t (a INT) USING pravega")
    sql.run(f"DROP TABLE {namespace}.t")
    assert sql.run(f"SHOW TABLES IN {namespace}") == []


def test_create_table_as_select(sql: SqlClient, namespace: str) -> None:
    sql.run(f"CREATE TABLE {namespace}.a USING pravega AS SELECT id, id * 2 AS twice FROM range(100)")
    assert sql.run(f"SELECT count(*), sum(twice) FROM {namespace}.a") == [("100", "9900")]
    with pytest.raises(SqlError, match="DIVIDE_BY_ZERO"):
        sql.run(f"CREATE TABLE {namespace}.b USING pravega AS SELECT 1 / (id - 50) AS x FROM range(100)")
    assert tables(sql, namespace) == ["a"]


def test_odd_names(sql: SqlClient, namespace: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.`a-b.c` (`select` INT, `größe mit blank` STRING) USING pravega "
        "TBLPROPERTIES ('format'='json')"
    )
    sql.run(f"INSERT INTO {namespace}.`a-b.c` VALUES (1, 'x')")
    assert sql.run(f"SELECT `größe mit blank`, `select` FROM {namespace}.`a-b.c`") == [("x", "1")]
    with pytest.raises(SqlError, match="PRAVEGA_INVALID_NAME.*`a-b`"):
        sql.run(f"CREATE TABLE {namespace}.`a b` (a INT) USING pravega")


def test_underscores_mean_hyphens_too(sql: SqlClient, namespace: str, fresh_name: str) -> None:
    """The stream is `sensor-agg`, and SQL may spell it either way."""
    table, exact = f"{namespace}.sensor_agg", f"{namespace}.`sensor-agg`"
    sql.run(f"CREATE TABLE {table} (id INT NOT NULL) USING pravega")
    sql.run(f"CREATE TABLE IF NOT EXISTS {exact} (other INT) USING pravega")
    with pytest.raises(SqlError, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql.run(f"CREATE TABLE {table} (id INT) USING pravega")
    sql.run(f"INSERT INTO {table} VALUES (1)")
    sql.run(f"INSERT INTO {exact} VALUES (2)")
    for spelled in (table, exact):
        assert sql.run(f"SELECT id FROM {spelled} ORDER BY id") == [("1",), ("2",)]
        assert sql.run(f"SELECT count(*) FROM {spelled} CHANGES FROM VERSION 2") == [("1",)]
    assert tables(sql, namespace) == ["sensor_agg"]
    assert len(sql.run(f"SHOW TABLES IN {namespace} LIKE 'sensor_*'")) == 1
    described = {row[0]: row[1] for row in sql.run(f"DESCRIBE TABLE EXTENDED {table}") if len(row) > 1}
    assert described["Location"] == f"{fresh_name}/sensor-agg"
    assert any("sensor_agg" in value for value in described.values())
    sql.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('comment'='of all halls')")
    [created] = ["\n".join(line for row in sql.run(f"SHOW CREATE TABLE {table}") for line in row)]
    assert "sensor_agg" in created and "LOCATION" not in created and "of all halls" in created
    sql.run(f"DROP TABLE {table}")
    with pytest.raises(SqlError, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.run(f"SELECT * FROM {exact}")


def test_hidden_metadata_columns(sql: SqlClient, namespace: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.t (a INT) USING pravega "
        "TBLPROPERTIES ('routing-key'='a', 'scaling.min-segments'='2')"
    )
    sql.run(f"INSERT INTO {namespace}.t SELECT CAST(id AS INT) FROM range(50)")
    assert sql.run(f"SELECT count(*), count(DISTINCT _event_pointer), count(DISTINCT _segment) FROM {namespace}.t") == [
        ("50", "50", "2")
    ]
    assert all(len(row) == 1 for row in sql.run(f"SELECT * FROM {namespace}.t"))
    assert sql.run(f"SELECT min(_offset) FROM {namespace}.t") == [("0",)]


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("INSERT OVERWRITE {t} VALUES (1, 'x')", "Use INSERT INTO"),
        ("DELETE FROM {t} WHERE a = 1", "Filter when reading"),
        ("UPDATE {t} SET a = 2", "Append the new state"),
        ("MERGE INTO {t} USING (SELECT 1 AS a) s ON {t}.a = s.a WHEN MATCHED THEN DELETE", "Append the new state"),
        ("ALTER TABLE {t} RENAME TO {t}2", "Pravega has no rename"),
        ("CREATE OR REPLACE TABLE {t} USING pravega AS SELECT 1 AS a", "DROP TABLE first"),
    ],
)
def test_what_streams_cannot_do_says_what_to_do(sql: SqlClient, namespace: str, statement: str, instead: str) -> None:
    table = f"{namespace}.t"
    sql.run(f"CREATE TABLE {table} (a INT, b STRING) USING pravega")
    sql.run(f"INSERT INTO {table} VALUES (1, 'kept')")
    with pytest.raises(SqlError, match=f"(?s)PRAVEGA_UNSUPPORTED_OPERATION.*{instead}"):
        sql.run(statement.format(t=table))
    assert sql.run(f"SELECT * FROM {table}") == [("1", "kept")]


def test_columns_change(sql: SqlClient, namespace: str) -> None:
    table = f"{namespace}.t"
    sql.run(f"CREATE TABLE {table} (a INT, b STRING) USING pravega")
    sql.run(f"INSERT INTO {table} VALUES (1, 'x')")
    sql.run(f"ALTER TABLE {table} ADD COLUMN c DOUBLE FIRST")
    sql.run(f"ALTER TABLE {table} RENAME COLUMN b TO d")
    sql.run(f"INSERT INTO {table} VALUES (0.5D, 2, 'y')")
    assert sql.run(f"SELECT c, a, d FROM {table} ORDER BY a") == [("NULL", "1", "x"), ("0.5", "2", "y")]


def test_results_equal_plain_python_over_the_csv(sql: SqlClient, namespace: str, temperatures_view: str) -> None:
    sql.run(
        f"CREATE TABLE {namespace}.sensor (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE) "
        "USING pravega TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId', 'scaling.min-segments'='4')"
    )
    sql.run(f"INSERT INTO {namespace}.sensor SELECT * FROM {temperatures_view}")
    assert sql.run(f"SELECT count(*) FROM {namespace}.sensor") == [(str(len(readings())),)]
    rows = sql.run(
        "SELECT location, CAST(CAST(timestamp AS DATE) AS STRING), min(temp), max(temp), count(*) "
        f"FROM {namespace}.sensor GROUP BY 1, 2"
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


@pytest.mark.parametrize(("sql", "catalog_name"), [("jdbc", "secure")], indirect=True)
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
    *program, clean_up = tutorial.program()
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
