"""Other programs than beeline at the Thrift server: the JDBC driver in a Java program, as tools use it to browse."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.local.java import find_java
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.transactions import begin_insert, list_committing
from tests.processes import ask_jvm, running_with
from tests.sql_clients import Rows, SqlClient

PROGRAM = Path(__file__).with_name("Jdbc.java")
DRIVER = Path(str(pyspark.__file__)).parent / "jars" / "*"
HISTOGRAM = "GC.class_histogram"
"""Makes the JVM collect garbage, and count what is left by class."""
ON = [("jdbc", "secure")]
"""The front end that the tests set up their tables with, and the catalog of these."""


def start_of_program() -> list[str | Path]:
    """The command that runs Jdbc.java, without its arguments."""
    return [find_java().executable, "-XX:TieredStopAtLevel=1", "-cp", DRIVER, PROGRAM]


def answers(url: str, *calls: tuple[str | None, ...]) -> list[Rows]:
    """What Jdbc.java shows: the rows of each call, which is its name and its arguments."""
    texts = ["\t".join("null" if part is None else part for part in call) for call in calls]
    done = subprocess.run([*start_of_program(), url, *texts], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[Rows] = [[] for _ in calls]
    for line in done.stdout.splitlines():
        number, *cells = line.split("\t")
        found[int(number) - 1].append(tuple(cells))
    return found


@pytest.fixture
def namespace(sql: SqlClient, catalog_name: str, fresh_name: str) -> Iterator[str]:
    """A namespace of the test's own, and what it is in."""
    name = f"{catalog_name}.{fresh_name}"
    sql.run(f"CREATE NAMESPACE {name}")
    yield name
    sql.run(f"DROP NAMESPACE {name} CASCADE")


@pytest.mark.parametrize(("sql", "catalog_name"), ON, indirect=True)
def test_a_url_names_catalog_and_namespace_and_has_confs(thrift_url: str, sql: SqlClient, namespace: str) -> None:
    """A conf of Spark turns off what clients are shown of catalogs."""
    catalog, schema = namespace.split(".")
    sql.run(f"CREATE TABLE {namespace}.t (id BIGINT) USING pravega")
    sql.run(f"INSERT INTO {namespace}.t VALUES (1), (2)")
    current = ("query", "SELECT current_catalog(), current_schema()")
    found = answers(
        f"{thrift_url}/{catalog}",
        current,
        ("connect", f"{thrift_url}/{namespace}"),
        current,
        ("query", "SELECT sum(id) FROM t"),
        ("connect", f"{thrift_url}/{catalog}?spark.sql.thriftServer.catalogMetadata.enabled=false"),
        ("catalogs",),
        ("schemas", None, None),
        ("tables", None, schema, "%"),
    )
    assert found[:4] == [[(catalog, "")], [], [(catalog, schema)], [("3",)]]
    catalogs, schemas, tables = found[5:]
    assert catalogs == tables == [] and ("default", "") in schemas


@pytest.mark.parametrize(("sql", "catalog_name"), ON, indirect=True)
def test_tools_browse_all_catalogs(
    thrift_url: str, sql: SqlClient, namespace: str, secure_client_config: Callable[..., ClientConfig]
) -> None:
    catalog, schema = namespace.split(".")
    columns = "id INT NOT NULL COMMENT 'its number', price DECIMAL(10,2), tags ARRAY<STRING>, at TIMESTAMP"
    columns += ", name STRING DEFAULT 'x'"
    sql.run(f"CREATE TABLE {namespace}.sensor ({columns}) USING pravega COMMENT 'all sensors'")
    sql.run(f"CREATE TABLE {namespace}.sensor_agg (id INT) USING pravega")
    debezium = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='region, id')"
    sql.run(f"CREATE TABLE {namespace}.customers (id INT, region STRING, name STRING) USING pravega {debezium}")
    sql.run(f"CREATE TABLE {namespace}.broken (id INT) USING pravega")
    sql.run(
        f"CREATE VIEW {namespace}.ids (number COMMENT 'its id') COMMENT 'all ids' AS SELECT id FROM {namespace}.sensor"
    )
    with connect(secure_client_config()) as pravega:
        pravega.registry(schema).delete_group("broken")
    sql.run(f"CREATE TABLE spark_catalog.default.{schema} (id INT COMMENT 'local')")
    sql.run(f"CREATE NAMESPACE pravega.{schema}")
    sql.run(f"CREATE TABLE pravega.{schema}.sensor (id INT)")
    try:
        (
            catalogs,
            everywhere,
            schemas,
            no_schemas,
            tables,
            _,
            views,
            escaped,
            elsewhere,
            sensor,
            of_view,
            ids,
            local,
            refused,
            keys,
            no_keys,
            types,
            table_types,
            functions,
        ) = answers(
            thrift_url,
            ("catalogs",),
            ("schemas", None, None),
            ("schemas", catalog, schema[:-1] + "_"),
            ("schemas", "nowhere", schema),
            ("tables", None, schema, "%", None),
            ("query", f"CREATE TEMPORARY VIEW {schema}_view AS SELECT 1 AS one"),
            ("tables", None, schema, "%", "VIEW"),
            ("tables", None, schema, "sensor\\_%", "TABLE,VIEW"),
            ("tables", None, "default", schema, "TABLE"),
            ("columns", catalog, schema, "sensor", None),
            ("columns", catalog, schema, "ids", None),
            ("columns", None, schema, "%", "i_"),
            ("columns", None, "default", schema, None),
            ("columns", catalog, schema, "broken", None),
            ("named keys", catalog, schema, "customers"),
            ("keys", None, schema, "sensor"),
            ("types",),
            ("table types",),
            ("functions", None, "default", "abs"),
        )
    finally:
        sql.run(f"DROP TABLE spark_catalog.default.{schema}")
        sql.run(f"DROP NAMESPACE pravega.{schema} CASCADE")
    assert catalogs == [("pravega",), (catalog,), ("spark_catalog",)]
    assert {(schema, catalog), ("default", "spark_catalog"), ("global_temp", "spark_catalog")} <= set(everywhere)
    assert schemas == [(schema, catalog)] and no_schemas == []
    nothing = ("null",) * 5
    assert [row for row in tables if row[2] != "broken"] == [
        ("pravega", schema, "sensor", "TABLE", "null", *nothing),
        (catalog, schema, "customers", "TABLE", "null", *nothing),
        (catalog, schema, "sensor", "TABLE", "all sensors", *nothing),
        (catalog, schema, "sensor_agg", "TABLE", "null", *nothing),
        (catalog, schema, "ids", "VIEW", "all ids", *nothing),
    ]
    (broken,) = (row for row in tables if row[2] == "broken")
    assert broken[4].startswith("[PRAVEGA_SCHEMA_NOT_FOUND] ")
    assert [row[:4] for row in views] == [
        (catalog, schema, "ids", "VIEW"),
        ("spark_catalog", "null", f"{schema}_view", "VIEW"),
    ]
    assert [row[2] for row in escaped] == ["sensor_agg"]
    assert [row[:4] for row in elsewhere] == [("spark_catalog", "default", schema, "TABLE")]
    # Name, number, type, size, digits, whether it may be null, comment, default, position, and in words if it may be.
    assert [tuple(row[cell] for cell in (3, 4, 5, 6, 8, 10, 11, 12, 16, 17)) for row in sensor] == [
        ("id", "4", "INT", "10", "0", "0", "its number", "null", "1", "NO"),
        ("price", "3", "DECIMAL(10,2)", "10", "2", "1", "null", "null", "2", "YES"),
        ("tags", "2003", "ARRAY<STRING>", "null", "null", "1", "null", "null", "3", "YES"),
        ("at", "93", "TIMESTAMP", "26", "6", "1", "null", "null", "4", "YES"),
        ("name", "12", "STRING", "null", "null", "1", "null", "'x'", "5", "YES"),
    ]
    assert [tuple(row[cell] for cell in (3, 5, 11)) for row in of_view] == [("number", "INT", "its id")]
    assert [row[:4] for row in ids] == [
        ("pravega", schema, "sensor", "id"),
        *((catalog, schema, name, "id") for name in ("customers", "sensor", "sensor_agg")),
    ]
    assert [row[:4] + row[11:12] for row in local] == [("spark_catalog", "default", schema, "id", "local")]
    assert refused[0][0] == "error" and "[PRAVEGA_SCHEMA_NOT_FOUND]" in refused[0][1]
    assert keys == [
        # by the documentation of DatabaseMetaData.getPrimaryKeys
        ("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
        (catalog, schema, "customers", "region", "1", "primary_key"),
        (catalog, schema, "customers", "id", "2", "primary_key"),
    ]
    assert no_keys == []
    assert "BIGINT" in {row[0] for row in types} and table_types == [("TABLE",), ("VIEW",)]
    assert functions[0][:3] == ("", "default", "abs")


@pytest.mark.parametrize(("sql", "catalog_name"), ON, indirect=True)
def test_records_of_avro_without_fields_and_within_themselves(
    thrift_url: str, sql: SqlClient, namespace: str, secure_client_config: Callable[..., ClientConfig]
) -> None:
    schema = namespace.split(".")[1]
    beat = {"type": "record", "name": "Beat", "fields": []}
    fields = [
        {"name": "id", "type": "int"},
        {"name": "beat", "type": ["null", beat]},
        {"name": "next", "type": ["null", "Event"]},
    ]
    text = json.dumps({"type": "record", "name": "Event", "fields": fields})
    with connect(secure_client_config()) as pravega:
        pravega.controller.create_stream(Stream(schema, "beats"), StreamConfiguration())
        registry = pravega.registry(schema)
        registry.create_group("beats", GroupProperties("Avro", Compatibility("AllowAny")))
        registry.add_schema("beats", SchemaInfo.of_text("Event", "Avro", text))
    inner = '{"id": 2, "beat": {}}'
    sql.run(f"INSERT INTO {namespace}.beats VALUES (1, named_struct(), '{inner}'), (2, NULL, NULL)")
    found = answers(thrift_url, ("query", f"SELECT * FROM {namespace}.beats ORDER BY id"))[0]
    assert found == [("1", "{}", '{"id":2,"beat":{},"next":null}'), ("2", "null", "null")]


def runs_task(pid: int) -> bool:
    """Whether a task of Spark runs in a process: its thread has the task's name."""
    return " for task " in ask_jvm(pid, "Thread.print")


def count_sessions(pid: int) -> int:
    """How many sessions a Thrift server has, of open connections and of others."""
    found = re.search(r" (\d+) +\d+ +org\.apache\.spark\.sql\.classic\.SparkSession$", ask_jvm(pid, HISTOGRAM), re.M)
    return int(found[1])


@pytest.mark.parametrize(("sql", "catalog_name"), ON, indirect=True)
def test_an_insert_that_is_cancelled_or_loses_its_connection(thrift_url: str, sql: SqlClient, namespace: str) -> None:
    """The server ends it and its session, and nothing of it is there."""
    port = thrift_url.rpartition(":")[2]
    (server,) = running_with("BrowsableThriftServer", f"hive.server2.thrift.port={port}")
    sql.run(f"CREATE TABLE {namespace}.t (id BIGINT) USING pravega")
    sessions = count_sessions(server)
    pause = "reflect('java.lang.Thread', 'sleep', 100L) = 'null'"
    slow = f"INSERT INTO {namespace}.t SELECT id FROM range(0, 3000, 1, 1) WHERE {pause}"
    command = [*start_of_program(), thrift_url, f"cancelled query\t{slow}"]
    for end in ("cancel", "kill"):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            wait_until(lambda: runs_task(server), "a task", 120)
            if end == "kill":
                client.kill()
            said, _ = client.communicate("\n" if end == "cancel" else None, timeout=120)
        assert ("error" in said) is (end == "cancel"), said
        wait_until(lambda: not runs_task(server), "its end", 120)
    assert sql.run(f"SELECT count(*) FROM {namespace}.t") == [("0",)]
    wait_until(lambda: count_sessions(server) <= sessions, "the end of the sessions", 120)


@pytest.mark.parametrize(("sql", "catalog_name"), ON, indirect=True)
def test_an_insert_that_is_cancelled_while_it_waits_for_another_commit(
    thrift_url: str, sql: SqlClient, namespace: str, secure_client_config: Callable[..., ClientConfig]
) -> None:
    """It gives its place up, and nothing of it is there."""
    sql.run(f"CREATE TABLE {namespace}.t (id BIGINT) USING pravega")
    with connect(secure_client_config()) as pravega:
        log = CommitLog(pravega, Stream(namespace.split(".")[1], "t"))
        for rows in ("VALUES (1)", "SELECT * FROM range(9000)"):
            before, _ = begin_insert(pravega, log._stream, [b"{}"])
            command = [*start_of_program(), thrift_url, f"cancelled query\tINSERT INTO {namespace}.t {rows}"]
            assert log.enter(before.transaction.id, rows=1, operation="INSERT")
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
                wait_until(lambda: len(list_committing(log)) == 2, "the INSERT in the queue", 120)
                said, _ = client.communicate("\n", timeout=120)
            assert "error" in said
            wait_until(lambda: len(list_committing(log)) == 1, "its end", 120)
            log.withdraw(before.transaction.id)
            before.abort()
    assert sql.run(f"SELECT count(*) FROM {namespace}.t") == [("0",)]
    sql.run(f"INSERT INTO {namespace}.t VALUES (2)")
    assert sql.run(f"SELECT * FROM {namespace}.t") == [("2",)]
