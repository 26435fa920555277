"""Namespaces and tables: listed, made, changed and dropped without Spark, which sees the same."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.catalog.metadata.tables_of_streams import TABLES
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    InvalidRowError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    ServerUnavailableError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.local.state import ClusterInfo

COLUMNS = pa.schema([pa.field("id", pa.int32(), metadata={"comment": "which"}), ("text", pa.string())])


def test_importing_it_starts_nothing(cluster: object) -> None:
    program = (
        "import sys, pyspark_pravega.catalog as c; assert 'pyspark' not in sys.modules; "
        "c.connect(controller_uri='tcp://localhost:1'); from pyspark import SparkContext; "
        "assert SparkContext._gateway is None and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_tables_without_a_lake_import_no_pyiceberg(cluster: ClusterInfo, scope: str) -> None:
    program = (
        "import sys, pyarrow as pa, pyspark_pravega.catalog as c\n"
        f"api = c.connect(controller_uri='{cluster.controller_uri}', schema_registry_uri='{cluster.registry_uri}')\n"
        f"table = api.create_table('`{scope}`.plain', pa.schema([('id', pa.int64())]))\n"
        "table.append(pa.table({'id': [1, 2]}))\n"
        "assert table.scan(as_of=1).count() == len(table.scan().to_arrow()) == 2 and len(table.history()) == 1\n"
        "assert [new.rows.num_rows for new in table.follow(available_now=True)] == [2]\n"
        "assert 'pyiceberg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_namespaces(api: PravegaCatalog, scope: str) -> None:
    assert scope.replace("-", "_") in api.list_namespaces() and api.namespace_exists(f"`{scope}`")
    with pytest.raises(ScopeExistsError):
        api.create_namespace(f"`{scope}`")
    api.create_namespace(f"`{scope}`", if_not_exists=True)
    assert not api.namespace_exists("nothing")
    with pytest.raises(ScopeNotFoundError):
        api.drop_namespace("nothing")
    api.create_table(f"`{scope}`.one", COLUMNS)
    with pytest.raises(ScopeNotEmptyError):
        api.drop_namespace(f"`{scope}`")
    api.drop_namespace(f"pravega.`{scope}`", cascade=True)
    assert scope.replace("-", "_") not in api.list_namespaces()


def test_tables(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    name = f"`{scope}`.`a.b`"
    table = api.create_table(name, COLUMNS, comment="Things", properties={"format": "json", "routing-key": "id"})
    assert table.name == f"pravega.{name}" and table.schema == COLUMNS
    assert table.schema.field("id").metadata == {b"comment": b"which"}
    assert table.properties["comment"] == "Things" and table.properties["routing-key"] == "id"
    assert api.list_tables(f"`{scope}`") == [name]
    assert api.table_exists(name) and not api.table_exists(f"`{scope}`.other")
    # Spark's statement for it makes an equal one.
    (statement,) = spark.sql(f"SHOW CREATE TABLE {table.name}").collect()
    spark.sql(statement[0].replace("`a.b`", "copy", 1))
    copy = api.load_table(f"`{scope}`.copy")
    assert copy.schema == COLUMNS and copy.properties == table.properties
    assert api.create_table(name, COLUMNS, if_not_exists=True).name == table.name
    with pytest.raises(StreamExistsError, match="exists"):
        api.create_table(name, COLUMNS)
    api.drop_table(name)
    api.drop_table(name, if_exists=True)
    with pytest.raises(StreamNotFoundError):
        api.drop_table(name)
    assert "_segment" in copy.hidden_columns and copy.size().segments == 1


def test_columns_and_properties_change(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.things", COLUMNS)
    table.append(pa.table({"id": [1], "text": ["a"]}))
    table.add_column(pa.field("size", pa.int32(), metadata={"comment": "in m"}), after="id")
    table.widen_column("size", pa.int64())
    table.rename_column("text", "name")
    table.comment_column("name", "its name")
    table.add_column(pa.field("first", pa.float64()), first=True)
    assert table.schema.names == ["first", "id", "size", "name"] and table.schema.field("size").type == pa.int64()
    table.drop_column("first")
    table.append(pa.table({"id": [2], "name": ["b"], "size": [1 << 40]}))
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "size": None, "name": "a"}, {"id": 2, "size": 1 << 40, "name": "b"}]
    assert spark.table(table.name).schema == table.spark_schema
    assert [each.version for each in table.schema_versions()] == list(range(7))
    old = table.scan(options={"schema-version": "0"})
    assert old.schema.names == ["id", "text"] and old.to_arrow()["text"].to_pylist() == ["a", None]
    with pytest.raises(UnsupportedOperationError, match="cannot be changed from bigint to int"):
        table.widen_column("size", pa.int32())
    with pytest.raises(UnsupportedOperationError, match="cannot be added as NOT NULL"):
        table.add_column(pa.field("more", pa.int32(), nullable=False))
    with pytest.raises(InvalidOptionError, match="There is no column text"):
        table.drop_column("text")
    table.set_properties({"retention.type": "size", "retention.minimum": "1g", "comment": "Things"})
    assert table.properties["retention.minimum"] == "1g" and table.properties["comment"] == "Things"
    table.set_properties({"comment": None})
    assert "comment" not in table.properties


def test_fields_within_columns_change(api: PravegaCatalog, scope: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("place", pa.struct([("x", pa.int32()), ("y", pa.int32())]))])
    table = api.create_table(f"`{scope}`.places", columns, properties={"format": "avro"})
    table.append(pa.table({"id": [1], "place": [{"x": 1, "y": 2}]}))
    table.add_column(pa.field("place.z", pa.int32()), after="x")
    table.widen_column("place.x", pa.int64())
    table.rename_column("place.y", "height")
    table.comment_column("place.`height`", "in m")
    assert table.schema.names == ["id", "place"]
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "place": {"x": 1, "z": None, "height": 2}}]
    table.drop_column("place.z")
    assert table.schema.field("place").type == pa.struct([("x", pa.int64()), ("height", pa.int32())])
    with pytest.raises(InvalidOptionError, match="nothing"):
        table.drop_column("place.nothing")


def test_columns_and_fields_become_nullable(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    strict = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.int32())])
    place = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    columns = pa.schema([("id", pa.int64()), pa.field("place", strict, nullable=False)])
    table = api.create_table(f"`{scope}`.places", columns, properties={"format": "json"})
    table.append(pa.table({"id": [1], "place": [{"x": 1, "y": 2}]}))
    without: list[tuple[object, str]] = [
        (None, "no value in column place, which is NOT NULL"),
        ({"x": None, "y": 3}, "Column place is struct<x: int32 not null, y: int32>, but"),
    ]
    for value, refusal in without:
        with pytest.raises(InvalidRowError, match=refusal):
            table.append(pa.table({"id": [2], "place": pa.array([value], place)}))
    table.allow_null("place")
    assert table.schema.field("place").nullable and not table.schema.field("place").type.field("x").nullable
    table.allow_null("place.x")
    assert table.schema.field("place").type.field("x").nullable
    table.allow_null("place")  # it is so already
    for value, _ in without:
        table.append(pa.table({"id": [2], "place": pa.array([value], place)}))
    assert table.scan(["place"]).to_arrow()["place"].to_pylist() == [{"x": 1, "y": 2}, None, {"x": None, "y": 3}]
    assert spark.table(table.name).schema == table.spark_schema
    with pytest.raises(InvalidOptionError, match="nothing"):
        table.allow_null("place.nothing")


def test_a_routing_key_is_spelled_in_another_case(api: PravegaCatalog, scope: str) -> None:
    properties = {"routing-key": "text", "scaling.min-segments": "2"}
    table = api.create_table(f"`{scope}`.things", COLUMNS, properties=properties)
    assert table.properties["routing-key.of-all-events"] == "true"
    table.append(pa.table({"id": [1], "text": ["a"]}))
    table.rename_column("text", "Text")
    table.append(pa.table({"id": [2], "Text": ["a"]}))
    assert table.scan(["id"], pc.field("Text") == "a").to_arrow()["id"].to_pylist() == [1, 2]


def test_what_can_be_told_while_the_registry_does_not_answer(
    api: PravegaCatalog, cluster: ClusterInfo, scope: str
) -> None:
    name = f"`{scope}`.things"
    api.create_table(name, COLUMNS).append(pa.table({"id": [1], "text": ["a"]}))
    servers = {"controller_uri": cluster.controller_uri, "schema_registry_uri": "http://localhost:1"}
    with connect(**servers, retry_timeout="1s") as lost:
        found = {each: lost.inspect(name, each) for each in TABLES if each not in ("schemas", "encodings")}
        assert found["history"]["rows"].to_pylist() == [1] and found["segments"].num_rows == 1
        assert {"key": "format", "value": "avro"} in found["properties"].to_pylist()
        for ask in (lambda: lost.load_table(name), lambda: lost.inspect(name, "schemas")):
            with pytest.raises(ServerUnavailableError, match="schema registry"):
                ask()


def test_mistakes_are_named(api: PravegaCatalog, scope: str) -> None:
    with pytest.raises(InvalidNameError, match="'iot..sensor' is not a name"):
        api.load_table("iot..sensor")
    with pytest.raises(InvalidNameError, match="No namespace is given"):
        api.load_table("sensor")
    with pytest.raises(UnsupportedOperationError, match=r"a metadata table.*: inspect\('iot.sensor', 'history'\) of"):
        api.load_table("pravega.iot.sensor.history")
    with pytest.raises(UnsupportedTypeError, match="Table pravega.*given as str 'id INT'. Give an Arrow schema"):
        api.create_table(f"`{scope}`.things", "id INT")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTypeError, match="Table pravega.* Column size has the Arrow type uint32"):
        api.create_table(f"`{scope}`.things", pa.schema([("size", pa.uint32())]))
    with pytest.raises(UnsupportedTypeError, match="Column x has the Arrow type decimal256.*at most 38 digits"):
        api.create_table(f"`{scope}`.things", pa.schema([("x", pa.decimal256(50, 0))]), properties={"format": "csv"})
    with pytest.raises(InvalidOptionError, match="no table property 'formt'"):
        api.create_table(f"`{scope}`.things", COLUMNS, properties={"formt": "json"})
    assert api.list_tables(f"`{scope}`") == []
    with pytest.raises(InvalidOptionError, match="Catalog other: There is no .* 'controler_uri'"):
        connect("other", controler_uri="tcp://localhost:9090")
    with pytest.raises(InvalidOptionError, match="cannot be given in a query on a table of a catalog"):
        api.create_table(f"`{scope}`.things", COLUMNS).scan(options={"controller-uri": "tcp://localhost:1"})
    with pytest.raises(
        UnsupportedTypeError, match="things: the new column is given as str 'note'. Give an Arrow field"
    ):
        api.load_table(f"`{scope}`.things").add_column("note")  # type: ignore[arg-type]
