"""Properties of namespaces: where they are kept, who may change them, and what is refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.catalog.storage import dropping
from pyspark_pravega.catalog.storage.scope_table import TABLE_NAME, RowKind, ScopeTable
from pyspark_pravega.catalog.tables import namespaces
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.controller.reader_group_calls import Holding, ReaderGroup
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ScopeNotEmptyError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of


def described(spark: SparkSession, namespace: str) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql(f"DESCRIBE NAMESPACE EXTENDED {namespace}").collect()}


@pytest.fixture
def fresh(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """The name of a namespace that is dropped after the test."""
    yield f"pravega.{fresh_name}"
    spark.sql(f"DROP NAMESPACE IF EXISTS pravega.{fresh_name} CASCADE")


def test_the_table_of_a_scope_is_made_when_it_is_needed(
    spark: SparkSession, pravega: Pravega, fresh: str, fresh_name: str
) -> None:
    """And it is no table of a user: not listed, and no reason against DROP NAMESPACE."""
    spark.sql(f"CREATE NAMESPACE {fresh}")
    assert described(spark, fresh)["Properties"] == ""
    spark.sql(f"ALTER NAMESPACE {fresh} UNSET PROPERTIES ('never set')")
    assert pravega.controller.list_key_value_tables(fresh_name) == []
    spark.sql(f"ALTER NAMESPACE {fresh} SET PROPERTIES ('owner team'='halls', 'b'='Grüße, \"x\"')")
    assert pravega.controller.list_key_value_tables(fresh_name) == [TABLE_NAME]
    assert described(spark, fresh)["Properties"] == '((b,Grüße, "x"), (owner team,halls))'
    assert spark.sql(f"SHOW TABLES IN {fresh}").collect() == []
    spark.sql(f"DROP NAMESPACE {fresh}")
    assert not pravega.controller.scope_exists(fresh_name)
    spark.sql(f"CREATE NAMESPACE {fresh}")  # nothing is left of the one before
    assert described(spark, fresh)["Properties"] == ""


def test_writers_at_the_same_time_and_later_versions_lose_nothing(
    spark: SparkSession, pravega: Pravega, fresh: str, fresh_name: str
) -> None:
    spark.sql(f"CREATE NAMESPACE {fresh} COMMENT 'ours'")
    table = ScopeTable(pravega, fresh_name)

    def change(row: object) -> dict[str, object]:
        assert isinstance(row, dict)
        if not asked:
            asked.append(1)
            spark.sql(f"ALTER NAMESPACE {fresh} SET PROPERTIES ('theirs'='1')")
        return {**row, "of a later version": [1]}

    asked: list[int] = []
    table.change(RowKind.NAMESPACE, "", change)
    spark.sql(f"COMMENT ON NAMESPACE {fresh} IS 'new'")
    row = dict(table.read(RowKind.NAMESPACE, "") or {})
    assert json.loads(json.dumps(row)) == {
        "name": "",
        "properties": {"comment": "new", "theirs": "1"},
        "of a later version": [1],
    }


def test_creation_is_all_or_nothing(spark: SparkSession, pravega: Pravega, fresh: str, fresh_name: str) -> None:
    long = "x" * (1 << 20)
    with pytest.raises(PySparkException, match="PRAVEGA_INVALID_OPTION.*cannot keep .* bytes"):
        spark.sql(f"CREATE NAMESPACE {fresh} WITH DBPROPERTIES ('a'='{long}')")
    assert not pravega.controller.scope_exists(fresh_name)
    spark.sql(f"CREATE NAMESPACE {fresh} COMMENT 'first'")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {fresh} COMMENT 'second'")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql(f"CREATE NAMESPACE {fresh} COMMENT 'third'")
    assert described(spark, fresh)["Comment"] == "first"
    assert spark.catalog.getDatabase(fresh).description == "first"
    spark.sql(f"COMMENT ON NAMESPACE {fresh} IS NULL")
    assert "Comment" not in described(spark, fresh)


def test_rights(secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str) -> None:
    """Who may read sees the properties, who may not sees none, and who may not write is told what it takes."""
    namespace = f"`{secure_scope}`"
    secure_spark.sql(f"COMMENT ON NAMESPACE secure.{namespace} IS 'ours'")

    def comment(user: str) -> str | None:
        name = catalog_of(
            secure_spark, secure_cluster, f"of_{user}".replace("-", "_"), user, secure_cluster.users[user]
        )
        return described(secure_spark, f"{name}.{namespace}").get("Comment")

    assert comment("sink") == "ours"
    assert comment("no-tables") is None
    with pytest.raises(PySparkException, match=f"PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*{TABLE_NAME}_kvtable"):
        secure_spark.sql(f"ALTER NAMESPACE of_sink.{namespace} SET PROPERTIES ('a'='b')")
    assert comment("sink") == "ours"


def test_tables_with_a_tag(spark: SparkSession, scope: str) -> None:
    for name, tags in (("of_shop", "prod,retail"), ("of_lab", "test")):
        properties = f"TBLPROPERTIES ('tags'='{tags}')"
        spark.sql(f"CREATE TABLE pravega.`{scope}`.{name} (id INT) USING pravega {properties}")
    every = spark.sql(f"SHOW TABLE EXTENDED IN pravega.`{scope}` LIKE '*'")
    assert [row.tableName for row in every.where("information LIKE '%tags=%prod%'").collect()] == ["of_shop"]


def test_reader_groups_of_others_stop_drop_namespace_before_anything_is_dropped(
    spark: SparkSession, pravega: Pravega, fresh: str, fresh_name: str
) -> None:
    spark.sql(f"CREATE NAMESPACE {fresh} COMMENT 'kept'")
    spark.sql(f"CREATE TABLE {fresh}.t (id INT) TBLPROPERTIES ('retention.type'='size', 'retention.minimum'='1g')")
    spark.sql(f"INSERT INTO {fresh}.t VALUES (1)")
    stream = Stream(fresh_name, "t")
    Consumer.register(pravega, stream, "ours", pravega.controller.head(stream))
    start = StreamCut(stream, {})
    group = pravega.controller.create_reader_group(
        ReaderGroup(fresh_name, "theirs", uuid.uuid4(), 0, Holding.NONE, (start,))
    )
    for clause in ("", " CASCADE"):
        with pytest.raises(PySparkException) as raised:
            spark.sql(f"DROP NAMESPACE {fresh}{clause}")
        assert ("reader groups of other clients: theirs. Drop them first" in str(raised.value)) == bool(clause)
    assert described(spark, fresh)["Comment"] == "kept"
    assert spark.table(f"{fresh}.t").count() == 1
    spark.sql(f"DROP TABLE {fresh}.t")
    with pytest.raises(PySparkException, match="reader groups of other clients: theirs"):
        spark.sql(f"DROP NAMESPACE {fresh}")
    assert described(spark, fresh)["Comment"] == "kept"
    pravega.controller.delete_reader_group(group)
    spark.sql(f"DROP NAMESPACE {fresh}")
    assert not pravega.controller.scope_exists(fresh_name)


def test_what_is_made_while_a_namespace_is_dropped_stays(
    spark: SparkSession, cluster: ClusterInfo, fresh: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE NAMESPACE {fresh} COMMENT 'kept'")
    spark.sql(f"CREATE TABLE {fresh}.old (id INT)")
    real = dropping.drop_stream

    def another_meanwhile(*arguments: Any) -> bool:
        done = real(*arguments)
        spark.sql(f"CREATE TABLE {fresh}.new (id INT)")
        spark.sql(f"INSERT INTO {fresh}.new VALUES (1)")
        return done

    monkeypatch.setattr(namespaces, "drop_stream", another_meanwhile)
    uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    with connect(**uris) as catalog, pytest.raises(ScopeNotEmptyError, match="others have created new meanwhile"):
        catalog.drop_namespace(f"`{fresh_name}`", cascade=True)
    assert [row.version for row in spark.sql(f"SELECT version FROM {fresh}.new.history").collect()] == [1]
    assert described(spark, fresh)["Comment"] == "kept"
