"""What the owner of a table can have a reader's session do: nothing but read it, whatever the owner has stored.

The attacker has all rights to one scope, and stores properties by statements and by Pravega's own client. The reader
has another login, or all rights.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.storage.scope_table import RowKind, ScopeTable
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.stored_properties import make_tags, read_own_properties
from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.formats.core.spark_types import parse_spark_schema
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql.option_types import DIRECTORY, PLUG_IN, URI
from pyspark_pravega.sql.options import OPTIONS, SettableAs
from tests.catalog.storage.test_secrets import catalog_of
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.reference_pages import read_meanings
from tests.streams import run_available


def refused(spark: SparkSession, statement: str, *words: str) -> str:
    with pytest.raises(PySparkException) as error:
        spark.sql(statement).collect()
    said = str(error.value)
    assert all(word in said for word in words), said
    return said


def append(pravega: Pravega, stream: Stream, events: list[bytes]) -> None:
    batch = pa.record_batch([pa.array(events, pa.binary())], names=["event"])
    insert(pravega, raw_table(stream), batch)


def store(pravega: Pravega, stream: Stream, **properties: str) -> None:
    """Store properties of a table as another program may do that knows nothing of their rules."""
    found = pravega.controller.stream_configuration(stream)
    stored = {**read_own_properties(found.tags), **{key.replace("_", "-"): text for key, text in properties.items()}}
    pravega.controller.update_stream(stream, replace(found, tags=make_tags(stored, found.tags)))


@pytest.fixture
def victim(pravega: Pravega, fresh_name: str) -> Iterator[Stream]:
    """A stream that does not exist, in a scope of somebody else."""
    scope = f"{fresh_name}-victim"
    pravega.controller.create_scope(scope)
    yield Stream(scope, "letters")
    for name in pravega.controller.list_streams(scope):
        pravega.controller.seal_stream(Stream(scope, name))
        pravega.controller.delete_stream(Stream(scope, name))
    pravega.controller.delete_scope(scope)


BAD_EVENTS = "(k INT) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none'"


def test_dead_letters_stay_in_the_scope_of_the_table(
    spark: SparkSession, pravega: Pravega, scope: str, victim: Stream, tmp_path: Path
) -> None:
    """The session may write to both scopes, as that of an administrator who reads a user's table may."""
    place, other = f"pravega.`{scope}`", "names a stream in another scope"
    for target in (str(victim), f"{victim.scope.replace('-', '_')}/letters", "../letters"):
        for key in ("dead-letter", "Dead-Letter", "deadLetter"):
            refused(spark, f"CREATE TABLE {place}.t {BAD_EVENTS}, '{key}'='{target}')", other, target)
    options = f"OPTIONS ('dead-letter' '{victim}')"
    refused(spark, f"CREATE TABLE {place}.t (k INT) USING pravega {options}", other)
    with pytest.raises(PySparkException, match=other):
        spark.range(1).writeTo(f"{place}.t").tableProperty("deadletter", str(victim)).create()
    spark.sql(f"CREATE TABLE {place}.t {BAD_EVENTS})")
    stream = Stream(scope, "t")
    append(pravega, stream, [b"?", b'{"k":1}'])
    refused(spark, f"ALTER TABLE {place}.t SET TBLPROPERTIES ('DEAD-LETTER'='{victim}')", other)
    store(pravega, stream, dead_letter=str(victim))
    refused(spark, f"SELECT * FROM {place}.t", other, f"'dead-letter'='{victim}'", "ALTER TABLE", "read option")
    with pytest.raises(PySparkException, match=other):
        spark.read.format("pravega").option("catalog", "pravega").option("scope", scope).option(
            "stream", "t"
        ).load().collect()
    with pytest.raises(PySparkException, match=other):
        run_available(spark.readStream.table(f"{place}.t").writeStream.format("noop"), tmp_path)
    assert pravega.controller.list_streams(victim.scope) == []
    # The reader's own option counts, and names any stream; the owner can set the property again.
    assert spark.sql(f"SELECT count(*) FROM {place}.t WITH ('mode'='permissive')").collect() == [(2,)]
    assert spark.sql(f"SELECT k FROM {place}.t WITH ('dead-letter'='{victim}')").collect() == [(1,)]
    assert spark.table(f"pravega.`{victim.scope}`.letters").count() == 1
    spark.sql(f"ALTER TABLE {place}.t SET TBLPROPERTIES ('dead-letter'='mine')")
    assert spark.table(f"{place}.mine").count() == 0
    assert spark.sql(f"SELECT k FROM {place}.t").collect() == [(1,)]
    assert spark.table(f"{place}.mine").count() == 1


def test_a_query_makes_no_dead_letter_stream_for_a_table(
    secure_spark: SparkSession,
    secure_cluster: ClusterInfo,
    secure_client_config: Callable[..., ClientConfig],
    secure_scope: str,
) -> None:
    """CREATE TABLE and ALTER TABLE make it. Who may not write to it is refused where an event is bad."""
    spark, place = secure_spark, f"secure.`{secure_scope}`"
    stream, letters = Stream(secure_scope, "t"), Stream(secure_scope, "letters")
    spark.sql(f"CREATE TABLE {place}.t {BAD_EVENTS}, 'dead-letter'='{secure_scope}/letters')")
    reader = f"{catalog_of(spark, secure_cluster, 'reads_others', 'reader', secure_cluster.users['reader'])}"
    with connect(secure_client_config()) as pravega:
        assert pravega.controller.stream_exists(letters)
        append(pravega, stream, [b'{"k":1}'])
        assert spark.table(f"{reader}.`{secure_scope}`.t").collect() == [(1,)]
        append(pravega, stream, [b"?"])
        refused(spark, f"SELECT * FROM {reader}.`{secure_scope}`.t", "PRAVEGA_PERMISSION_DENIED", "letters")
        refused(
            spark,
            f"ALTER TABLE {reader}.`{secure_scope}`.t SET TBLPROPERTIES ('dead-letter'='more')",
            "PRAVEGA_PERMISSION_DENIED",
        )
        spark.sql(f"DROP TABLE {place}.letters")
        said = refused(spark, f"SELECT * FROM {place}.t", "PRAVEGA_STREAM_NOT_FOUND", f"{letters}", "read option")
        assert "('dead-letter'='letters')" in said
        assert not pravega.controller.stream_exists(letters)
        spark.sql(f"ALTER TABLE {place}.t SET TBLPROPERTIES ('dead-letter'='letters')")
        assert spark.table(f"{place}.t").collect() == [(1,)]
        assert spark.table(f"{place}.letters").count() == 1
        pravega.controller.create_stream(Stream(secure_scope, "other"), StreamConfiguration())
        refused(
            spark, f"ALTER TABLE {place}.t SET TBLPROPERTIES ('dead-letter'='other')", "is a stream for other events"
        )
        refused(spark, f"CREATE TABLE {place}.u {BAD_EVENTS}, 'dead-letter'='_RGx')", "PRAVEGA_INVALID_NAME", "_RGx")
        assert not pravega.controller.stream_exists(Stream(secure_scope, "u"))


def test_a_table_of_several_streams_has_no_other_properties(
    spark: SparkSession, pravega: Pravega, scope: str, victim: Stream
) -> None:
    """Whoever may write the hidden table of a scope must not choose what becomes of events in other scopes."""
    name = f"pravega.`{victim.scope}`.events"
    spark.sql(f"CREATE TABLE {name} {BAD_EVENTS})")
    row = {"id": "0" * 32, "known": [], "comment": None}
    properties = {"streams": f"{victim.scope}/events", "dead-letter": "letters", "mode": "dropmalformed"}
    try:
        ScopeTable(pravega, scope).change(
            RowKind.SEVERAL_STREAMS, "all", lambda before: {**row, "properties": properties}
        )
        refused(spark, f"SELECT * FROM pravega.`{scope}`.`all`", "'mode' does not apply with 'streams'")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


SCHEMAS = json.dumps({"7": {"type": "record", "name": "e", "fields": [{"name": "op", "type": "string"}]}})


def test_a_table_names_no_file_of_its_readers(
    spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path
) -> None:
    """Not one that exists, nor one that does not: the errors must not tell them apart."""
    place, key, words = f"pravega.`{scope}`", "debezium.avro-schemas", ("table property", "the path of a file")
    file = tmp_path / "schemas.json"
    file.write_text(SCHEMAS)
    format = "'format'='debezium-avro', 'framing'='none', 'primary-key'='id'"
    for path in (str(file), "/etc/passwd", "/no/such/file", f"file://{file}", "../x", "~/x", "schemas"):
        for spelled in (key, "Debezium.Avro-Schemas", "debezium.avroSchemas"):
            given = f"TBLPROPERTIES ({format}, '{spelled}'='{path}')"
            refused(spark, f"CREATE TABLE {place}.t (id INT) USING pravega {given}", *words, path)
    given = f"OPTIONS ({format.replace('=', ' ')}, '{key}' '{file}')"
    refused(spark, f"CREATE TABLE {place}.t (id INT) USING pravega {given}", *words)
    spark.sql(f"CREATE TABLE {place}.t (id INT) USING pravega TBLPROPERTIES ({format}, '{key}'='{SCHEMAS}')")
    assert spark.table(f"{place}.t").collect() == []
    refused(spark, f"ALTER TABLE {place}.t SET TBLPROPERTIES ('{key}'='{file}')", *words)
    said = set()
    for path in (str(file), "/etc/passwd", "/no/such/file"):
        store(pravega, Stream(scope, "t"), **{key: path})
        for read in ("t", "`t$changelog`"):
            error = refused(spark, f"SELECT * FROM {place}.{read}", *words, "ALTER TABLE ... SET TBLPROPERTIES")
            said.add(error.split(path)[1].splitlines()[0])
        with pytest.raises(PySparkException, match="the path of a file"):
            spark.read.format("pravega").option("catalog", "pravega").option("scope", scope).option(
                "stream", "t"
            ).load().collect()
        with pytest.raises(PySparkException, match="the path of a file"):
            spark.sql(f"SELECT * FROM {place}.t CHANGES FROM VERSION 0").collect()
    assert len(said) == 1
    # The reader's own path counts, and the owner's text.
    assert spark.sql(f"SELECT * FROM {place}.t WITH ('{key}'='{file}')").collect() == []
    assert spark.read.option("debezium.avro-schemas", str(file)).table(f"{place}.t").collect() == []
    spark.sql(f"ALTER TABLE {place}.t SET TBLPROPERTIES ('{key}'='{SCHEMAS}')")
    assert spark.table(f"{place}.t").collect() == []


def test_no_property_names_a_file_or_an_address() -> None:
    """A new option that may be a table property and takes a path belongs into this list only with a reason."""
    meanings = read_meanings()
    for option in OPTIONS.values():
        if SettableAs.PROPERTY in option.allowed:
            assert option.type.name not in (URI.name, DIRECTORY.name, PLUG_IN.name), option.key
            words = re.search(r"\b(file|path|directory|URI)\b", meanings[option.key])
            assert words is None or option.property_type is not None or option.key == "rollover-size", option.key


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("java_method('java.lang.System', 'setProperty', 'hacked', 'yes')", "NOT_CONSTANT"),
        ("coalesce(try_reflect('java.lang.System', 'setProperty', 'hacked', 'yes'), 'q')", "NOT_CONSTANT"),
        ("(SELECT max(value) FROM text.`/etc/passwd`)", "SUBQUERY_EXPRESSION"),
    ],
)
def test_defaults_run_neither_java_nor_queries(
    spark: SparkSession, pravega: Pravega, scope: str, sql: str, condition: str
) -> None:
    """Spark evaluates the SQL of a default that the schema's writer has chosen, but only constants."""
    table, registry = f"pravega.`{scope}`.t", pravega.registry(scope)
    spark.sql(f"CREATE TABLE {table} (k INT, v STRING DEFAULT current_user()) USING pravega")
    newest = registry.latest_schemas("t")[0].schema
    for key in ("CURRENT_DEFAULT", "EXISTS_DEFAULT"):
        schema = json.loads(newest.text)
        [column] = [field for field in schema["fields"] if field["name"] == "v"]
        assert column["spark.metadata"]["CURRENT_DEFAULT"] == "current_user()"
        column["spark.metadata"][key] = sql
        registry.add_schema("t", SchemaInfo.of_text(newest.type, newest.format, json.dumps(schema)))
        refused(spark, f"INSERT INTO {table} (k) VALUES (1)", f"INVALID_DEFAULT_VALUE.{condition}")
    with pytest.raises(PySparkException, match=f"INVALID_DEFAULT_VALUE.{condition}"):
        spark.table(table).collect()
    assert spark.sparkContext._jvm.java.lang.System.getProperty("hacked") is None  # type: ignore[union-attr]


OWN_TYPE = {"type": "udt", "pyClass": "this.s", "serializedClass": "", "sqlType": "integer"}


def make_schema(type: object) -> str:
    return json.dumps({"type": "struct", "fields": [{"name": "a", "type": type, "nullable": True, "metadata": {}}]})


@pytest.mark.parametrize(
    "nested",
    [
        OWN_TYPE,
        {"type": "array", "elementType": OWN_TYPE, "containsNull": True},
        {"type": "map", "keyType": "string", "valueType": OWN_TYPE, "valueContainsNull": True},
        json.loads(make_schema(OWN_TYPE)),
    ],
)
def test_a_stored_type_names_no_code(nested: object) -> None:
    """PySpark would import the module and call what the type names there, or unpickle it."""
    with pytest.raises(UnsupportedTypeError, match="user-defined type"):
        parse_spark_schema(make_schema(nested))
    with pytest.raises(UnsupportedTypeError, match="user-defined type"):
        find_format("csv").spark_schema(make_schema(nested))
    entries = {"type": "map", "keyType": "string", "valueType": nested, "valueContainsNull": True}
    column = {"type": "array", "items": {"type": "object"}, "spark.map": entries}
    with pytest.raises(UnsupportedTypeError, match="user-defined type"):
        find_format("json").spark_schema(json.dumps({"type": "object", "properties": {"a": column}}))
    assert "this" not in sys.modules


def test_no_stored_text_names_code_of_its_readers(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """The service would have ended itself, or a task: the names are those of Python's own functions."""
    place, ends = f"pravega.`{scope}`", {**OWN_TYPE, "pyClass": "os.abort"}
    spark.sql(f"CREATE TABLE {place}.csv (a INT) USING pravega TBLPROPERTIES ('format'='csv')")
    store(pravega, Stream(scope, "csv"), schema=make_schema(ends))
    spark.sql(f"CREATE TABLE {place}.kv (id INT, a INT) TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')")
    spark.sql(f"CREATE VIEW {place}.v AS SELECT 1 AS a")
    table = ScopeTable(pravega, scope)
    table.change(RowKind.KEY_VALUE_TABLE, "kv", lambda row: {**row, "columns": make_schema(ends)})
    table.change(RowKind.VIEW, "v", lambda row: {**row, "schema": make_schema(ends)})
    for name in ("csv", "kv", "v"):
        refused(spark, f"SELECT * FROM {place}.{name}", "user-defined type")
        refused(spark, f"DESCRIBE {place}.{name}", "user-defined type")
    assert len(spark.sql(f"SHOW TABLES IN {place}").collect()) == 3
