"""Views: what they keep, whose rights count, names that are both a view and a stream, and what is refused."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.catalog.storage.scope_table import TABLE_NAME, RowKind, ScopeTable
from pyspark_pravega.client import Pravega
from pyspark_pravega.client import connect as connect_to_servers
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.errors import UnsupportedOperationError, ViewExistsError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "views.md"


@pytest.fixture
def namespace(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """A namespace with a table of three rows."""
    name = f"pravega.{fresh_name}"
    spark.sql(f"CREATE NAMESPACE {name}")
    spark.sql(f"CREATE TABLE {name}.readings (sensor INT, temp DOUBLE) USING pravega")
    spark.sql(f"INSERT INTO {name}.readings VALUES (1, 20.5), (1, 21.5), (2, 18.0)")
    yield name
    spark.sql(f"DROP NAMESPACE IF EXISTS {name} CASCADE")


def rows(spark: SparkSession, query: str) -> list[Row]:
    return spark.sql(query).collect()


def names(spark: SparkSession, statement: str) -> list[str]:
    return [row[1] for row in rows(spark, statement)]


def refused(spark: SparkSession, statement: str, *words: str) -> str:
    with pytest.raises(PySparkException) as error:
        spark.sql(statement).collect()
    assert all(word in str(error.value) for word in words), str(error.value)
    return str(error.value)


def test_the_page(spark: SparkSession, fresh_name: str) -> None:
    """Its statements, in a namespace of another name, and the rows that it shows for them."""
    spark.sql(f"CREATE NAMESPACE pravega.{fresh_name}")
    try:
        blocks = re.findall(r"^```sql\n(.*?)^```$\n\n```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        assert len(blocks) > 1
        for statements, shown in blocks:
            for statement in re.sub(r"\biot\b", fresh_name, statements).strip().rstrip(";").split(";\n"):
                found = rows(spark, statement)
            expected = re.sub(r"\biot\b", fresh_name, shown).lower().splitlines()
            assert [" ".join(str(value).lower() for value in row) for row in found] == expected
    finally:
        spark.sql(f"DROP NAMESPACE pravega.{fresh_name} CASCADE")


def test_what_a_view_is_made_with_is_kept(spark: SparkSession, pravega: Pravega, namespace: str) -> None:
    """Its names are those of the catalog and the namespace that were selected, its settings those of then."""
    scope = namespace.split(".")[1]
    text = "SELECT sensor, CAST(temp AS INT) AS whole, '2' + 1 AS three, x'00' AS bytes FROM readings"
    try:
        spark.sql(f"USE {namespace}")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.sql(f"CREATE VIEW v COMMENT 'Grüße, \"x\"' TBLPROPERTIES ('Team'='a') AS {text}")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.sql("USE spark_catalog.default")
    assert spark.table(f"{namespace}.v").where("sensor = 2").collect() == [(2, 18, 3.0, b"\0")]
    described = {row[0]: row[1] for row in rows(spark, f"DESCRIBE EXTENDED {namespace}.v")}
    assert described["View Text"] == text and described["Comment"] == 'Grüße, "x"'
    assert f"{described['View Current Catalog']}.{described['View Current Namespace']}" == namespace
    row = ScopeTable(pravega, scope).read(RowKind.VIEW, "v")
    assert row is not None and row["catalog"] is None  # so that it is found under another name of the catalog
    try:
        for key, value in spark.sparkContext.getConf().getAll():
            if key.startswith("spark.sql.catalog.pravega"):
                spark.conf.set(key.replace("pravega", "renamed", 1), value)
        assert rows(spark, f"SELECT count(*) FROM renamed.{scope}.v") == [(3,)]
    finally:
        for key in spark.conf.getAll:
            if key.startswith("spark.sql.catalog.renamed"):
                spark.conf.unset(key)


def test_views_in_queries(spark: SparkSession, namespace: str) -> None:
    """Options and time travel go on for tables, beside and inside of views."""
    spark.sql(f"INSERT INTO {namespace}.readings VALUES (3, 30.0)")
    spark.sql(f"CREATE VIEW {namespace}.of_before AS SELECT * FROM {namespace}.readings VERSION AS OF 1")
    spark.sql(
        f"CREATE VIEW {namespace}.maxima (s, t) AS SELECT sensor, max(temp) AS t FROM {namespace}.readings GROUP BY 1"
    )
    spark.sql(
        f"CREATE VIEW {namespace}.both AS SELECT * FROM {namespace}.of_before JOIN {namespace}.maxima ON s = sensor"
    )
    assert rows(spark, f"SELECT s, count(*), max(t) FROM {namespace}.both GROUP BY s ORDER BY s") == [
        (1, 2, 21.5),
        (2, 1, 18.0),
    ]
    joined = f"SELECT count(*) FROM {namespace}.readings VERSION AS OF 1 r JOIN {namespace}.maxima ON r.sensor = s"
    assert rows(spark, joined) == [(3,)]
    permissive = f"SELECT count(_error) FROM {namespace}.readings WITH ('mode'='permissive'), {namespace}.maxima"
    assert rows(spark, permissive) == [(0,)]
    plan = spark.sql(f"SELECT s FROM {namespace}.maxima WHERE s = 1")._jdf.queryExecution().toString()
    assert "filters: IS NOT NULL sensor, (sensor = ?)" in plan  # which the scan of the table has taken
    view = f"{namespace}.maxima"
    unsupported, missing = "PRAVEGA_UNSUPPORTED_OPERATION", "TABLE_OR_VIEW_NOT_FOUND"
    for query in (f"{view} VERSION AS OF 1", f"{view} TIMESTAMP AS OF current_timestamp()"):
        refused(spark, f"SELECT * FROM {query}", unsupported, view, "it is a view, which has no versions")
    for option, value in (("mode", "permissive"), ("schema-version", "0")):
        query = f"SELECT * FROM {view} WITH ('{option}'='{value}')"
        refused(spark, query, unsupported, view, f"'{option}'", "it is a view")
    refused(spark, f"SELECT * FROM {view} CHANGES FROM VERSION 1", unsupported, view, "it is a view")
    refused(spark, f"INSERT INTO {view} VALUES (1, 2.0)", unsupported, view, "it is a view, which has no rows")
    refused(spark, f"SELECT * FROM {view}.history", missing)
    stream = f"SELECT * FROM STREAM {namespace}.readings"
    for query in (stream, f"WITH s AS ({stream}) SELECT * FROM s"):
        creation = f"CREATE VIEW {namespace}.streaming AS {query}"
        refused(spark, creation, unsupported, f"{namespace}.streaming", "Leave STREAM out")
    assert "streaming" not in names(spark, f"SHOW VIEWS IN {namespace}")
    with pytest.raises(PySparkException, match="maxima is a permanent view"):
        spark.readStream.table(view)
    spark.sql(f"DROP TABLE {namespace}.readings")
    refused(spark, f"SELECT * FROM {view}", missing, "`readings`")


def test_the_name_of_a_view_and_that_of_a_stream(
    spark: SparkSession, pravega: Pravega, cluster: ClusterInfo, namespace: str
) -> None:
    scope = namespace.split(".")[1]
    taken = "TABLE_OR_VIEW_ALREADY_EXISTS"
    spark.sql(f"CREATE VIEW {namespace}.of_today AS SELECT 1 AS one")
    assert names(spark, f"SHOW TABLES IN {namespace}") == ["readings", "of_today"]
    assert names(spark, f"SHOW VIEWS IN {namespace}") == ["of_today"]
    assert spark.catalog.tableExists(f"{namespace}.of_today")
    listed = {each.name: each.tableType for each in spark.catalog.listTables(namespace)}
    assert listed == {"readings": "MANAGED", "of_today": "VIEW"}
    refused(spark, f"CREATE VIEW {namespace}.`of-today` AS SELECT 2 AS two", taken)
    refused(spark, f"CREATE TABLE {namespace}.of_today (id INT) USING pravega", taken)
    refused(spark, f"CREATE TABLE {namespace}.of_today USING pravega AS SELECT 1 AS id", taken)
    refused(spark, f"CREATE VIEW {namespace}.readings AS SELECT 1 AS one", "readings", "TABLE")
    refused(spark, f"CREATE OR REPLACE VIEW {namespace}.readings AS SELECT 1 AS one", "readings", "TABLE")
    refused(spark, f"ALTER VIEW {namespace}.of_today RENAME TO {scope}.readings", "VIEW_ALREADY_EXISTS")
    refused(spark, f"DROP TABLE {namespace}.of_today", "WRONG_COMMAND_FOR_OBJECT_TYPE", "DROP VIEW")
    refused(spark, f"DROP VIEW {namespace}.readings", "WRONG_COMMAND_FOR_OBJECT_TYPE", "DROP TABLE")
    refused(spark, f"CREATE VIEW {namespace}.`a$b` AS SELECT 1 AS one", "PRAVEGA_INVALID_NAME", "a$b")
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as api:
        in_python(api, scope)
    # Another program makes a stream of the name: it counts, and the view can still be seen and dropped.
    one_segment = StreamConfiguration(ScalingPolicy("fixed", 0, 0, 1))
    pravega.controller.create_stream(Stream(scope, "of-today"), one_segment)
    assert names(spark, f"SHOW TABLES IN {namespace}") == ["of_today", "readings"]
    assert names(spark, f"SHOW VIEWS IN {namespace}") == ["of_today"]
    assert rows(spark, f"SELECT * FROM {namespace}.of_today") == []  # the view has a row
    refused(spark, f"CREATE OR REPLACE VIEW {namespace}.of_today AS SELECT 2 AS two", "of_today")
    spark.sql(f"DROP VIEW {namespace}.of_today")
    assert names(spark, f"SHOW VIEWS IN {namespace}") == []
    spark.sql(f"CREATE TABLE {namespace}.of_today (id INT) USING pravega")
    assert rows(spark, f"SELECT * FROM {namespace}.of_today") == []


def in_python(api: PravegaCatalog, scope: str) -> None:
    """Without Spark a view is not among the tables, and its name is taken."""
    assert api.list_tables(scope) == [f"{scope}.readings"] and not api.table_exists(f"{scope}.of_today")
    with pytest.raises(UnsupportedOperationError, match=f"pravega.{scope}.of_today: it is a view"):
        api.load_table(f"{scope}.of_today")
    with pytest.raises(ViewExistsError, match=f"pravega.{scope}.of_today"):
        api.create_table(f"{scope}.of_today", properties={"format": "raw"})


def test_definitions_that_change(spark: SparkSession, namespace: str, fresh_name: str) -> None:
    view = f"{namespace}.v"
    missing = "VIEW_NOT_FOUND"
    refused(spark, f"ALTER VIEW {view} AS SELECT 1 AS one", "TABLE_OR_VIEW_NOT_FOUND")
    refused(spark, f"DROP VIEW {view}", missing)
    refused(spark, f"SHOW VIEWS IN pravega.{fresh_name}_more", "SCHEMA_NOT_FOUND")
    refused(spark, f"CREATE VIEW pravega.{fresh_name}_more.v AS SELECT 1 AS one", "SCHEMA_NOT_FOUND")
    spark.sql(f"DROP VIEW IF EXISTS {view}")
    spark.sql(f"CREATE OR REPLACE VIEW {view} TBLPROPERTIES ('a'='1', 'b'='2') AS SELECT 1 AS one")
    refused(spark, f"CREATE VIEW {view} AS SELECT 2 AS two", "TABLE_OR_VIEW_ALREADY_EXISTS")
    spark.sql(f"CREATE VIEW IF NOT EXISTS {view} AS SELECT 2 AS two")
    assert rows(spark, f"SELECT * FROM {view}") == [(1,)]
    spark.sql(f"ALTER VIEW {view} UNSET TBLPROPERTIES ('a')")
    spark.sql(f"ALTER VIEW {view} SET TBLPROPERTIES ('c'='3')")
    spark.sql(f"ALTER VIEW {view} AS SELECT sensor FROM {namespace}.readings")
    assert rows(spark, f"SHOW TBLPROPERTIES {view}") == [("b", "2"), ("c", "3")]
    assert rows(spark, f"SELECT count(*) FROM {view}") == [(3,)]
    spark.sql(f"CREATE VIEW {namespace}.w AS SELECT * FROM {view}")
    for recursive in (view, f"{namespace}.w"):
        refused(spark, f"ALTER VIEW {view} AS SELECT * FROM {recursive}", "RECURSIVE_VIEW")
        refused(spark, f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {recursive}", "RECURSIVE_VIEW")
    spark.sql(f"ALTER VIEW {namespace}.w RENAME TO {namespace}.other_name")
    assert names(spark, f"SHOW VIEWS IN {namespace}") == ["other_name", "v"]
    assert rows(spark, f"SELECT count(*) FROM {namespace}.other_name") == [(3,)]
    for mode in ("TYPE EVOLUTION", "EVOLUTION"):
        refused(spark, f"ALTER VIEW {view} WITH SCHEMA {mode}", "PRAVEGA_UNSUPPORTED_OPERATION", view, "COMPENSATION")
    spark.sql(f"ALTER VIEW {view} WITH SCHEMA BINDING")
    assert "WITH SCHEMA BINDING" in rows(spark, f"SHOW CREATE TABLE {view}")[0][0]
    long = "x" * (1 << 20)
    refused(spark, f"CREATE VIEW {namespace}.long AS SELECT '{long}' AS a", "PRAVEGA_INVALID_OPTION", "cannot keep")
    spark.sql(f"DROP TABLE {namespace}.readings")
    refused(spark, f"DROP NAMESPACE {namespace}", "SCHEMA_NOT_EMPTY")
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
    spark.sql(f"CREATE NAMESPACE {namespace}")
    assert names(spark, f"SHOW VIEWS IN {namespace}") == []


def test_a_view_adds_no_rights(secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str) -> None:
    """`views` reads all but the stream `secret`; `no-tables` all streams, but not where views are kept."""
    spark, place = secure_spark, f"`{secure_scope}`"
    try:
        spark.sql(f"USE secure.{place}")
        for name in ("secret", "open"):
            spark.sql(f"CREATE TABLE {name} (id INT) USING pravega")
            spark.sql(f"INSERT INTO {name} VALUES (1)")
            spark.sql(f"CREATE VIEW of_{name} AS SELECT * FROM {name}")
    finally:
        spark.sql("USE spark_catalog.default")
    views, none = (
        f"{catalog_of(spark, secure_cluster, f'views_of_{number}', user, secure_cluster.users[user])}.{place}"
        for number, user in enumerate(("views", "no-tables"))
    )
    denied = "PRAVEGA_PERMISSION_DENIED"
    assert rows(spark, f"SELECT * FROM {views}.of_open") == [(1,)]
    refused(spark, f"SELECT * FROM {views}.of_secret", denied, "secret")
    refused(spark, f"CREATE VIEW {views}.mine AS SELECT 1 AS one", denied, "READ_UPDATE", TABLE_NAME)
    refused(spark, f"CREATE OR REPLACE VIEW {views}.of_open AS SELECT 1 AS one", denied)
    refused(spark, f"DROP VIEW {views}.of_open", denied)
    more = f"`{secure_scope}-more`"
    spark.sql(f"CREATE NAMESPACE secure.{more}")
    try:
        spark.sql(f"CREATE VIEW secure.{more}.there AS SELECT 1 AS one")
        refused(spark, f"ALTER VIEW {views}.of_open RENAME TO {more}.moved", denied)  # there, but not from here
        assert names(spark, f"SHOW VIEWS IN secure.{more}") == ["there"]
    finally:
        spark.sql(f"DROP NAMESPACE secure.{more} CASCADE")
    refused(spark, f"SHOW VIEWS IN {none}", denied, TABLE_NAME)
    assert names(spark, f"SHOW TABLES IN {none}") == ["open", "secret"]
    refused(spark, f"SELECT * FROM {none}.of_open", "TABLE_OR_VIEW_NOT_FOUND")
    assert names(spark, f"SHOW VIEWS IN secure.{place}") == ["of_open", "of_secret"]
    kept = rows(spark, f"DESCRIBE TABLE EXTENDED {views}.of_open AS JSON")[0][0]
    assert "spark.sql.ansi.enabled" in kept and secure_cluster.users["admin"] not in kept


def test_a_driver_may_trust_no_views_or_its_own(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_client_config: Callable[..., ClientConfig]
) -> None:
    """`views` has rights to the scope's views, the reader has others; the text would run with those of the reader."""
    spark, scope = secure_spark, f"{uuid.uuid4().hex[:8]}-more"
    place, text, off = (
        f"`{scope}`",
        "SELECT java_method('java.lang.System', 'getProperty', 'user.name') AS a",
        "'views'",
    )

    def login(name: str, user: str, trusted: str) -> str:
        found = catalog_of(spark, secure_cluster, name, user, secure_cluster.users[user])
        spark.conf.set(f"spark.sql.catalog.{name}.views", trusted)
        return f"{found}.{place}"

    none, own = login("trusts_none", "admin", "false"), login("trusts_own", "admin", "own")
    other = login("others_own", "views", "own")
    spark.sql(f"CREATE NAMESPACE secure.{place}")
    try:
        spark.sql(f"CREATE TABLE secure.{place}.t (id INT) USING pravega")
        spark.sql(f"CREATE VIEW secure.{place}.first AS SELECT 1 AS one")  # which makes the hidden table
        spark.sql(f"DROP VIEW secure.{place}.first")
        spark.sql(f"CREATE VIEW {other}.theirs AS {text}")
        assert len(rows(spark, f"SELECT a FROM {other}.theirs")) == 1
        for name in (none, own):
            for statement in (
                "SELECT * FROM {}",
                "SELECT * FROM (SELECT 1 AS one) JOIN {}",
                "DESCRIBE EXTENDED {}",
                "DESCRIBE {}",
                "SHOW CREATE TABLE {}",
                "SHOW COLUMNS IN {}",
                "SHOW TBLPROPERTIES {}",
                "ALTER VIEW {} SET TBLPROPERTIES ('a'='b')",
            ):
                said = refused(spark, statement.format(f"{name}.theirs"), "UNSUPPORTED_OPERATION", off, "is not read")
                assert "getProperty" not in said
            with pytest.raises(PySparkException, match="is not read"):
                spark.table(f"{name}.theirs")
            assert names(spark, f"SHOW VIEWS IN {name}") == ["theirs"]
            assert [row.tableName for row in rows(spark, f"SHOW TABLES IN {name}")] == ["t", "theirs"]
            assert rows(spark, f"SELECT * FROM {name}.t") == []
        refused(spark, f"CREATE VIEW {none}.mine AS SELECT 1 AS one", "is not created", off)
        # One's own, under other names of the catalog with the same login too.
        spark.sql(f"CREATE VIEW {own}.mine AS SELECT id FROM {own}.t")
        spark.sql(f"ALTER VIEW {own}.mine RENAME TO {place}.renamed")
        spark.sql(f"ALTER VIEW {own}.renamed SET TBLPROPERTIES ('team'='halls')")
        assert rows(spark, f"SELECT * FROM {own}.renamed") == []
        assert rows(spark, f"SELECT * FROM {login('also_own', 'admin', 'own')}.renamed") == []
        refused(spark, f"SELECT * FROM {other}.renamed", off, "not made it with your login")
        # Others change it, by a statement or by writing the row; what they wrote about its author does not count.
        with connect_to_servers(secure_client_config("views")) as client:
            table = ScopeTable(client, scope)
            table.change(RowKind.VIEW, "renamed", lambda row: {**row, "text": text, "owner": "admin"})
            refused(spark, f"SELECT * FROM {own}.renamed", off, "others have changed it")
            catalog = {"spark.sql.catalog.of_view": "io.github.pysparkpravega.PravegaCatalog"}
            query = {"text": f"SELECT * FROM of_view.{place}.t", "settings": catalog}
            table.change(RowKind.VIEW, "theirs", lambda row: {**row, **query})
        refused(spark, f"SELECT * FROM secure.{place}.theirs", "REQUIRES_SINGLE_PART_NAMESPACE", "of_view")
        spark.sql(f"CREATE OR REPLACE VIEW {own}.renamed AS SELECT 2 AS two")
        assert rows(spark, f"SELECT * FROM {own}.renamed") == [(2,)]
        # What one has written once is not one's own again when others write it: under another name, later, or
        # after it was dropped.
        with connect_to_servers(secure_client_config("views")) as client:
            table = ScopeTable(client, scope)
            before = table.read(RowKind.VIEW, "renamed")
            assert before is not None
            table.change(RowKind.VIEW, "copied", lambda row: {**before, "name": "copied"})
            refused(spark, f"SELECT * FROM {own}.copied", off, "not made it with your login")
            spark.sql(f"DROP VIEW {own}.copied")
            spark.sql(f"ALTER VIEW {own}.renamed AS SELECT 3 AS three")
            table.change(RowKind.VIEW, "renamed", lambda row: before)
            refused(spark, f"SELECT * FROM {own}.renamed", off, "others have changed it")
            spark.sql(f"DROP VIEW {own}.renamed")
            table.change(RowKind.VIEW, "renamed", lambda row: before)
            refused(spark, f"SELECT * FROM {own}.renamed", off, "not made it with your login")
        spark.sql(f"CREATE OR REPLACE VIEW {own}.renamed AS SELECT 2 AS two")
        spark.sql(f"CREATE OR REPLACE VIEW {other}.theirs AS SELECT * FROM {other}.t")
        refused(spark, f"CREATE VIEW {own}.outer AS SELECT * FROM {own}.theirs", off)
        spark.sql(f"DROP VIEW {none}.theirs")
        assert names(spark, f"SHOW VIEWS IN {own}") == ["renamed"]
    finally:
        spark.sql(f"DROP NAMESPACE secure.{place} CASCADE")
