"""Tables of events with Confluent's framing, whose schemas a real registry with Confluent's API has."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import fastavro
import httpx
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.tables.test_debezium import create_stream, write
from tests.cutting_proxy import CuttingProxy
from tests.debezium import Record
from tests.foreign_servers import foreign_servers
from tests.formats.changes.test_debezium_encodings import avro_row, avro_schema
from tests.formats.changes.test_debezium_encodings import confluent as debezium_event
from tests.interop.confluent_registry import frame, register
from tests.streams import ParquetSink, into_memory

V1: dict[str, Any] = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a"]}},
    ],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


@dataclass(frozen=True)
class Plant:
    """A scope, the session's catalog with the registry, and the registry's address."""

    spark: SparkSession
    pravega: Pravega
    scope: str
    uri: str
    catalog: str

    def stream(self, name: str, *events: bytes, key: str = '{"id":1}') -> str:
        """Make a stream with events, and return the name of the table that it may become."""
        create_stream(self.pravega, Stream(self.scope, name), 1)
        self.append(name, *events, key=key)
        return f"{self.catalog}.`{self.scope}`.{name}"

    def append(self, name: str, *events: bytes, key: str = '{"id":1}') -> None:
        write(self.pravega, Stream(self.scope, name), [Record(key, event) for event in events])

    def create(self, table: str, format: str, columns: str = "", more: str = "") -> None:
        properties = f"'format'='{format}', 'framing'='confluent'{more}"
        self.spark.sql(f"CREATE TABLE {table} {columns} USING pravega TBLPROPERTIES ({properties})")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def refused(self, query: str, *words: str) -> str:
        with pytest.raises(PySparkException) as caught:
            self.spark.sql(query).collect()
        text = str(caught.value)
        for each in words:
            assert each in text
        return text

    def id(self, schema: Any, type: str = "AVRO", **more: Any) -> int:
        """Register a schema under a new subject."""
        return register(self.uri, f"s{uuid4().hex}", schema, type, **more)


@contextmanager
def catalog_with(spark: SparkSession, cluster: ClusterInfo, **more: str) -> Iterator[str]:
    """Add a catalog to the session."""
    name = f"c{uuid4().hex}"
    uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    configure(SparkSession.builder, catalog=name, **uris, **more).getOrCreate()
    try:
        yield name
    finally:
        for key in spark.conf.getAll:
            if key.startswith(f"spark.sql.catalog.{name}"):
                spark.conf.unset(key)


@pytest.fixture
def plant(
    spark: SparkSession, cluster: ClusterInfo, pravega: Pravega, scope: str, confluent_registry: str
) -> Iterator[Plant]:
    with catalog_with(spark, cluster, confluent_registry_uri=confluent_registry) as name:
        yield Plant(spark, pravega, scope, confluent_registry, name)


def avro_event(id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return frame(id, out.getvalue())


def test_avro_events_of_several_schemas(plant: Plant) -> None:
    first, second = plant.id(V1), plant.id(V2)
    assert first < second
    events = avro_event(first, V1, {"id": 1, "kind": "a"}), avro_event(second, V2, {"id": 2, "kind": "a", "note": "n"})
    table = plant.stream("readings", *events, b"\0\xff\xff\xff\xff")
    plant.create(table, "avro", more=", 'mode'='dropmalformed'")
    assert plant.spark.table(table).schema.simpleString() == "struct<id:int,kind:string,note:string>"
    expected = [(1, "a", None, first, None), (2, "a", "n", second, None)]
    query = f"SELECT id, kind, note, _encoding_id, _schema_version FROM {table} ORDER BY id"
    assert plant.rows(query) == expected
    made = plant.rows(f"SHOW CREATE TABLE {table}")[0][0]
    assert "'framing' = 'confluent'" in made and plant.uri not in made
    plant.refused(f"INSERT INTO {table} VALUES (3, 'a', 'n')", "'framing'='confluent', which can only be read")
    later = {**V2, "fields": [*V2["fields"], {"name": "more", "type": "int"}]}
    plant.append("readings", avro_event(plant.id(later), later, {"id": 4, "kind": "a", "note": None, "more": 5}))
    reader = plant.spark.read.format("pravega").options(catalog=plant.catalog, scope=plant.scope, stream="readings")
    reader = reader.options(format="avro", framing="confluent", mode="DROPMALFORMED")
    rows = reader.schema("id INT, more INT").load().orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, None), (4, 5)]


def test_pravegas_registry_is_not_asked_for_confluents_ids(plant: Plant) -> None:
    """A group of the stream's name has another schema under the same id."""
    id = plant.id(V1)
    table = plant.stream("readings", avro_event(id, V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro")
    registry = plant.pravega.registry(plant.scope)
    registry.create_group("readings", GroupProperties("Avro", Compatibility("AllowAny")))
    fields = [{"name": "id", "type": "long"}, {"name": "kind", "type": "string"}]
    ids, number = [-1], 0
    while max(ids) < id:
        other = {**V1, "fields": [*fields, {"name": f"n{number}", "type": "int", "default": 0}]}
        version = registry.add_schema("readings", SchemaInfo.of_text("plant.Reading", "Avro", json.dumps(other)))
        ids.append(registry.encoding_id("readings", version))
        number += 1
    assert id in ids
    assert plant.rows(f"SELECT id, kind, _encoding_id, _schema_version FROM {table}") == [(1, "a", id, None)]


def test_a_stream_reads_schemas_that_are_registered_while_it_runs(plant: Plant, tmp_path: Path) -> None:
    table = plant.stream("readings", avro_event(plant.id(V1), V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro", "(id BIGINT, note STRING)")
    with into_memory(plant.spark.readStream.table(table), tmp_path) as sink:
        sink.query.processAllAvailable()
        plant.append("readings", avro_event(plant.id(V2), V2, {"id": 2, "kind": "a", "note": "n"}))
        sink.query.processAllAvailable()
        assert [tuple(row) for row in sink.rows()] == [(1, None), (2, "n")]


def test_json_events(plant: Plant) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}, "title": "Reading"}
    events = [frame(plant.id(schema, "JSON"), json.dumps({"id": n, "at": "x"}).encode()) for n in (1, 2)]
    table = plant.stream("documents", *events)
    plant.create(table, "json")
    assert plant.rows(f"SELECT id, at FROM {table} ORDER BY id") == [(1, "x"), (2, "x")]
    reader = plant.spark.read.format("pravega").options(catalog=plant.catalog, scope=plant.scope, stream="documents")
    assert reader.option("format", "raw").load().count() == 2
    declared = reader.option("format", "json").option("framing", "confluent").schema("at STRING").load()
    assert [row.at for row in declared.collect()] == ["x", "x"]


def test_debeziums_events_with_tombstones(plant: Plant) -> None:
    extra = {"name": "extra", "type": ["null", "string"], "default": None}
    schemas = avro_schema(), avro_schema(extra)
    first, second = map(plant.id, schemas)
    row = {"before": None, "source": {"connector": "postgresql", "name": "dbz", "lsn": 17}, "ts_ms": 3}
    table = plant.stream(
        "changes",
        debezium_event(first, schemas[0], {**row, "op": "c", "after": avro_row()}),
        b"",
        debezium_event(second, schemas[1], {**row, "op": "u", "after": avro_row(extra="e")}),
        b"",
    )
    plant.create(table, "debezium-avro", more=", 'primary-key'='id'")
    assert plant.rows(f"SELECT id, extra FROM {table}") == [(1, "e")]
    changelog = f"{table.removesuffix('changes')}`changes$changelog`"
    assert plant.rows(f"SELECT op, after.extra FROM {changelog} ORDER BY _offset") == [
        ("c", None), (None, None), ("u", "e"), (None, None)
    ]  # fmt: skip
    plant.append("changes", b"\0\xff\xff\xff\xff")
    with pytest.raises(PySparkException, match="'debezium.avro-schemas' does not apply with 'framing'='confluent'"):
        plant.spark.read.option("debezium.avro-schemas", "{}").table(table).collect()
    assert plant.spark.read.option("mode", "DROPMALFORMED").table(table).count() == 1
    for query in (f"INSERT INTO {table} (id) VALUES (2)", f"DELETE FROM {table} WHERE id = 1"):
        plant.refused(query, "'framing'='confluent', which can only be read")


def test_what_cannot_be_read_is_named(plant: Plant) -> None:
    known, json_id = plant.id(V1), plant.id({"type": "object", "properties": {"id": {"type": "integer"}}}, "JSON")
    plain = plant.id({"type": "record", "name": "Kind", "namespace": "plant", "fields": []})
    other = {**V1, "fields": [{"name": "kind", "type": "plant.Kind"}]}
    subject = f"s{uuid4().hex}"
    assert register(plant.uri, subject, {"type": "record", "name": "Kind", "namespace": "plant", "fields": []}) == plain
    referring = plant.id(other, references=[{"name": "plant.Kind", "subject": subject, "version": 1}])
    unknown = referring + 1000
    answer = httpx.get(f"{plant.uri}/schemas/ids/{unknown}", trust_env=False)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)
    table = plant.stream("readings", avro_event(known, V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro")
    plant.append("readings", frame(unknown, b"\2\0"), frame(json_id, b"{}"), frame(referring, b""), b"\1\0\0\0\1")
    plant.refused(f"SELECT id FROM {table}", f"its encoding id {unknown} is not in Confluent's registry")
    read = plant.spark.read.option("mode", "PERMISSIVE").table(table).select("id", "_error", "_encoding_id")
    errors = [(row._encoding_id, row._error) for row in read.where("id IS NULL").orderBy("_offset").collect()]
    assert [id for id, _ in errors] == [unknown, json_id, referring, None]
    for (_, error), words in zip(errors, ("not in", "format Json", "(plant.Kind)", "not the 0x00"), strict=True):
        assert words in error
    empty = plant.stream("empty")
    create = f"CREATE TABLE {empty} USING pravega TBLPROPERTIES ('framing'='confluent', 'format'='%s')"
    plant.refused(create % "avro", "no event of its stream has a schema that describes them")
    plant.refused(create % "protobuf", "only with avro, json, debezium-avro")
    for format, key, value in (("avro", "compatibility", "full"), ("debezium-avro", "debezium.avro-schemas", "{}")):
        with_key = create.replace("'%s'", f"'{format}', '{key}'='{value}'")
        plant.refused(with_key, f"'{key}' does not apply with 'framing'='confluent'")
    plant.append("empty", frame(json_id, b"{}"))
    plant.refused(create % "avro", "PRAVEGA_INVALID_SCHEMA", "object")
    plant.append("empty", frame(unknown, b""))
    plant.refused(create % "avro", "PRAVEGA_SCHEMA_NOT_FOUND", "declare the columns")


def test_another_servers_404_is_no_unknown_id(plant: Plant, cluster: ClusterInfo) -> None:
    """It ends a query, which would leave out good events otherwise. What needs no schema is read."""
    id = plant.id(V1)
    table = plant.stream("readings", avro_event(id, V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro")
    uri = plant.uri.replace("ccompat", "nothing")
    with catalog_with(plant.spark, cluster, confluent_registry_uri=uri) as name:
        detour = f"{name}.`{plant.scope}`.readings"
        with pytest.raises(PySparkException, match="it answered 404") as caught:
            plant.spark.read.option("mode", "DROPMALFORMED").table(detour).collect()
        assert "PRAVEGA_SCHEMA_REGISTRY_ERROR" in str(caught.value) and uri in str(caught.value)
        assert plant.rows(f"SELECT _encoding_id, _schema_version FROM {detour}") == [(id, None)]


def test_a_registry_that_is_away_for_a_while(plant: Plant, cluster: ClusterInfo, tmp_path: Path) -> None:
    """A query ends without it, and neither commits nor diverts what it could not read. Run again, it has all rows."""
    table = plant.stream("readings", avro_event(plant.id(V1), V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro", "(id INT, note STRING)")
    address = urlsplit(plant.uri)
    with (
        closing(CuttingProxy(Endpoint(str(address.hostname), address.port or 80), "127.0.0.1")) as proxy,
        catalog_with(
            plant.spark,
            cluster,
            confluent_registry_uri=f"http://{proxy.endpoint}{address.path}",
            retry_timeout="10s",
        ) as name,
    ):
        rows = plant.spark.readStream.option("dead-letter", "letters").table(f"{name}.`{plant.scope}`.readings")
        sink = ParquetSink(plant.spark, tmp_path)
        sink.take(rows)
        plant.append("readings", avro_event(plant.id(V2), V2, {"id": 2, "kind": "a", "note": "n"}))
        proxy.away.set()
        proxy.cut_all()
        with pytest.raises(StreamingQueryException, match="Confluent's registry"):
            sink.take(rows)
        assert [tuple(row) for row in sink.rows()] == [(1, None)]
        proxy.away.clear()
        sink.take(rows)
        assert sorted(tuple(row) for row in sink.rows()) == [(1, None), (2, "n")]
        tables = plant.rows(f"SHOW TABLES IN {plant.catalog}.`{plant.scope}`")
        assert [table for _, table, _ in tables] == ["readings"]


def test_the_framing_of_a_table_stays(plant: Plant) -> None:
    table = plant.stream("readings", avro_event(plant.id(V1), V1, {"id": 1, "kind": "a"}))
    plant.create(table, "avro")
    other = f"{plant.catalog}.`{plant.scope}`.others"
    plant.spark.sql(f"CREATE TABLE {other} (id INT) USING pravega TBLPROPERTIES ('format'='avro')")
    for each, framing in ((other, "confluent"), (table, "registry"), (table, "none")):
        alter = f"ALTER TABLE {each} SET TBLPROPERTIES ('framing'='{framing}')"
        plant.refused(alter, "'framing' is fixed when such a table is created")
    alter = f"ALTER TABLE {table} SET TBLPROPERTIES ('compatibility'='full')"
    plant.refused(alter, "'compatibility' does not apply with 'framing'='confluent'")
    plant.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('mode'='dropmalformed')")


def test_the_login_and_a_registry_that_does_not_answer(plant: Plant, cluster: ClusterInfo) -> None:
    """The registry gets its own login alone, and no message has the password."""
    plant.stream("readings", avro_event(plant.id(V1), V1, {"id": 1, "kind": "a"}))
    login = {"confluent_username": "key", "confluent_password": "s3cret"}
    of_pravega = {"security_username": "u", "security_password": "p"}
    create = "CREATE TABLE {}.`{}`.readings USING pravega TBLPROPERTIES ('format'='avro', 'framing'='confluent')"
    with foreign_servers() as foreign:
        uri = foreign.registry_uri
        with catalog_with(plant.spark, cluster, confluent_registry_uri=uri, **of_pravega, **login) as name:
            text = plant.refused(
                create.format(name, plant.scope), "PRAVEGA_AUTHENTICATION_FAILED", "confluent.registry-uri"
            )
        with catalog_with(plant.spark, cluster, confluent_registry_uri=uri, **of_pravega) as name:
            plant.refused(create.format(name, plant.scope), "PRAVEGA_AUTHENTICATION_FAILED")
        assert foreign.logins == ["Basic " + b64encode(b"key:s3cret").decode()]
    assert "s3cret" not in text and foreign.logins[0].split()[1] not in text
    with catalog_with(plant.spark, cluster, confluent_registry_uri=uri, retry_timeout="1s") as name:
        text = plant.refused(create.format(name, plant.scope), "PRAVEGA_SERVER_UNAVAILABLE", uri)
        assert "cannot reach Confluent's registry" in text and "Pravega user" not in text
    with catalog_with(plant.spark, cluster) as name:
        plant.refused(create.format(name, plant.scope), "'confluent.registry-uri'")
    with catalog_with(plant.spark, cluster, **login) as name:
        text = plant.refused(f"SHOW NAMESPACES IN {name}", "'confluent.username' needs 'confluent.registry-uri'")
        assert "s3cret" not in text
    with catalog_with(plant.spark, cluster, confluent_username="key") as name:
        plant.refused(f"SHOW NAMESPACES IN {name}", "'confluent.username' is set without 'confluent.password'")
    for key in ("confluent.registry-uri", "confluent.password"):
        with pytest.raises(PySparkException, match=f"'{key}' .*catalog conf at the driver's start") as caught:
            plant.spark.read.option(key, "s3cret").table(f"{plant.catalog}.`{plant.scope}`.readings").collect()
        assert key.endswith("uri") or "s3cret" not in str(caught.value)
