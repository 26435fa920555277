"""Streams and rows that do not fit: foreign schema groups, garbage events, sealed and deleted streams, df.write."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.formats.core import batches
from pyspark_pravega.formats.core.framing import make_header
from pyspark_pravega.local.state import ClusterInfo
from tests.bad_input import SECRET, Refusal, Watched, refusal
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.spark_fixtures import with_confs
from tests.sql_clients import PySparkClient

OPTION = "PRAVEGA_INVALID_OPTION"


@pytest.fixture
def watched(spark: SparkSession, client_config: ClientConfig, fresh_name: str) -> Iterator[Watched]:
    """A namespace of each test's own."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, fresh_name)
        yield made
        made.close()


@pytest.fixture(scope="module")
def shared(spark: SparkSession, client_config: ClientConfig) -> Iterator[Watched]:
    """A namespace for tests each of which adds a stream or a schema group of a name of its own."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, "baddata")
        yield made
        made.close()


@pytest.fixture(scope="module")
def settled(spark: SparkSession, client_config: ClientConfig) -> Iterator[Watched]:
    """A namespace that no test changes."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, "settleddata")
        made.settle()
        yield made
        made.close()


@pytest.fixture
def options(cluster: ClusterInfo, watched: Watched) -> dict[str, str]:
    """What `spark.read.format("pravega")` needs to read the table `t`."""
    return options_of(cluster, watched)


def options_of(cluster: ClusterInfo, watched: Watched) -> dict[str, str]:
    """The same for any namespace."""
    return {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "scope": watched.scope,
        "stream": "t",
    }


# Streams and schema groups that were there first


@pytest.mark.parametrize(
    "key", ["scaling.min-segments", "retention.minimum", pytest.param("rollover-size", marks=pytest.mark.long)]
)
def test_a_stream_that_exists_keeps_its_settings(shared: Watched, fresh_name: str, key: str) -> None:
    shared.pravega.controller.create_stream(Stream(shared.scope, fresh_name), StreamConfiguration())
    more = "'retention.type'='size', " if key.startswith("retention") else ""
    statement = f"CREATE TABLE {{n}}.{fresh_name} (id INT) USING pravega TBLPROPERTIES ({more}'{key}'='4')"
    shown = "'retention.type'='size'" if more else f"'{key}'='4'"
    shared.refuse(Refusal(statement, OPTION, (f"pravega.{{s}}.{fresh_name}", shown, "Leave the property out")))


@pytest.mark.parametrize(("format", "advice"), [("Json", "Set 'format'='json'"), ("Protobuf", "'format'='raw'")])
@pytest.mark.parametrize("with_stream", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_group_of_another_format(
    shared: Watched, fresh_name: str, format: str, advice: str, with_stream: bool
) -> None:
    if with_stream:
        shared.pravega.controller.create_stream(Stream(shared.scope, fresh_name), StreamConfiguration())
    group = GroupProperties(format, Compatibility("AllowAny"))
    shared.pravega.registry(shared.scope).create_group(fresh_name, group)
    statement = f"CREATE TABLE {{n}}.{fresh_name} (id INT) USING pravega"
    shared.refuse(Refusal(statement, OPTION, (f"pravega.{{s}}.{fresh_name}", "'format'='avro'", format, advice)))


def test_a_group_of_another_type(shared: Watched, fresh_name: str) -> None:
    """Joined, it would hold two types, and its stream would be no table for anybody."""
    registry = shared.pravega.registry(shared.scope)
    registry.create_group(fresh_name, GroupProperties("Avro", Compatibility("AllowAny"), allow_multiple_types=True))
    schema = {"type": "record", "name": "Event", "namespace": "interop", "fields": [{"name": "id", "type": "int"}]}
    registry.add_schema(fresh_name, SchemaInfo.of_text("interop.Event", "Avro", json.dumps(schema)))
    words = (f"pravega.{{s}}.{fresh_name}", "interop.Event", f"{{s}}.{fresh_name}", "another table name")
    shared.refuse(Refusal(f"CREATE TABLE {{n}}.{fresh_name} (id INT) USING pravega", OPTION, words))
    assert [one.version.type for one in registry.latest_schemas(fresh_name)] == ["interop.Event"]


def test_columns_that_the_policy_of_a_group_refuses(shared: Watched, fresh_name: str) -> None:
    registry = shared.pravega.registry(shared.scope)
    registry.create_group(fresh_name, GroupProperties("Avro", Compatibility("Backward")))
    schema = {
        "type": "record",
        "name": fresh_name,
        "namespace": shared.scope,
        "fields": [{"name": "id", "type": "string"}],
    }
    registry.add_schema(fresh_name, SchemaInfo.of_text(f"{shared.scope}.{fresh_name}", "Avro", json.dumps(schema)))
    words = (f"pravega.{{s}}.{fresh_name}", "policy 'backward'", "struct<id:string>", "another table name")
    statement = f"CREATE TABLE {{n}}.{fresh_name} (id INT NOT NULL) USING pravega"
    shared.refuse(Refusal(statement, "PRAVEGA_INCOMPATIBLE_SCHEMA", words))


def write_bombs(watched: Watched, changes: bool, size: int, count: int) -> str:
    """Write events of `size` bytes, each of which takes a thousandth of that in a stream; return their table."""
    table = f"{watched.name}.bombs"
    format = "'maxwell-json', 'primary-key'='id', 'framing'='registry'" if changes else "'json'"
    watched.sql.run(f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ('format'={format})")
    stream, registry = Stream(watched.scope, "bombs"), watched.pravega.registry(watched.scope)
    text = '{"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}}' if changes else '{"id": 1}'
    registry.add_codec("bombs", "application/x-gzip")
    [newest] = registry.latest_schemas("bombs")
    header = make_header(registry.encoding_id("bombs", newest.version, "application/x-gzip"))
    bomb = header + gzip.compress(text.encode() + b" " * size)
    events = pa.record_batch([pa.array([bomb] * count, pa.binary())], names=["event"])
    insert(watched.pravega, raw_table(stream), events)
    return table


def test_a_read_that_decompresses_very_much_needs_an_option(
    watched: Watched, cluster: ClusterInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, which allows less without the option than tasks of Spark do."""
    monkeypatch.setattr(batches, "FREE_EXPANSION", 2 << 20)
    name = write_bombs(watched, False, 1 << 20, 3)
    with connect_catalog(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        table = catalog.load_table(name)
        with pytest.raises(UnsupportedOperationError, match="at most 100 times what is stored"):
            table.scan(["id"]).to_arrow()
        rows = table.scan(["id"], options={"max-expansion": "2000"}).to_arrow()
    assert rows.num_rows == 3
    words = ("'max-expansion'", "1 to 10000")
    watched.refuse(Refusal(f"SELECT count(id) FROM {name} WITH ('max-expansion'='0')", OPTION, words))


@pytest.mark.long
@pytest.mark.parametrize("changes", [False, True])
def test_a_task_that_decompresses_very_much_needs_an_option(watched: Watched, changes: bool) -> None:
    """More than 1 GiB, of about 1 MB that is stored."""
    query = f"SELECT count(id) FROM {write_bombs(watched, changes, 62 << 20, 18)} WITH ('mode'='failfast'"
    words = ("18", "after decompression", "at most 100 times what is stored", "'max-expansion', now 100")
    watched.refuse(Refusal(f"{query})", "PRAVEGA_UNSUPPORTED_OPERATION", words))
    assert watched.sql.run(f"{query}, 'max-expansion'='1100')") == [("1" if changes else "18",)]


def test_a_table_whose_schema_group_is_gone(watched: Watched) -> None:
    """It is not taken for a raw table: bytes would be written among its events."""
    watched.pravega.registry(watched.scope).delete_group("t")
    words: tuple[str, ...] = ("{s}/t", "'format'='avro'", "Check 'schema-registry-uri'", "removes the rest")
    for statement in ("SELECT * FROM {n}.t", "INSERT INTO {n}.t VALUES (X'00')", "DESCRIBE TABLE {n}.t"):
        watched.refuse(Refusal(statement, "PRAVEGA_SCHEMA_NOT_FOUND", words))
    # Nor is it given another schema, not even while it is empty: its own may be in another registry.
    watched.sql.run(f"CREATE TABLE {watched.name}.empty (id INT)")
    watched.pravega.registry(watched.scope).delete_group("empty")
    for name in ("t", "empty"):
        words = (f"{{s}}/{name}", "has no schema for it. Check 'schema-registry-uri'", "DROP TABLE removes it")
        for statement in ("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"):
            watched.refuse(Refusal(f"{statement} {{n}}.{name} (id INT)", "PRAVEGA_SCHEMA_NOT_FOUND", words))
    # An archive is not taken for what a DROP TABLE has left.
    watched.pravega.controller.seal_stream(Stream(watched.scope, "t"))
    words = ("{s}/t is a sealed table", "Check 'schema-registry-uri'", "CALL seal_stream")
    watched.refuse(Refusal("CREATE TABLE {n}.t (id INT)", "PRAVEGA_SCHEMA_NOT_FOUND", words))
    for name in ("t", "empty"):
        watched.sql.run(f"DROP TABLE {watched.name}.{name}")


def test_a_drop_that_fails_can_be_given_again(watched: Watched, spark: SparkSession, cluster: ClusterInfo) -> None:
    confs = {
        "half": "io.github.pysparkpravega.PravegaCatalog",
        "half.controller-uri": cluster.controller_uri,
        "half.schema-registry-uri": "http://localhost:1",
        "half.retry-timeout": "1s",
    }
    with with_confs(spark, {f"spark.sql.catalog.{key}": text for key, text in confs.items()}):
        watched.refuse(Refusal(f"DROP TABLE half.`{watched.scope}`.t", "PRAVEGA_SERVER_UNAVAILABLE", ("localhost:1",)))
    assert watched.sql.run(f"SELECT * FROM {watched.name}.t ORDER BY id") == [("1", "x"), ("2", "y")]
    watched.sql.run(f"DROP TABLE {watched.name}.t")
    assert not watched.pravega.controller.stream_exists(Stream(watched.scope, "t"))
    assert "t" not in watched.pravega.registry(watched.scope).groups()


# Streams that change under a query


def test_an_insert_into_a_sealed_stream(watched: Watched) -> None:
    watched.pravega.controller.seal_stream(Stream(watched.scope, "t"))
    words = ("{s}/t", "sealed", "nothing can be written")
    watched.refuse(Refusal("INSERT INTO {n}.t VALUES (3, 'z')", "PRAVEGA_STREAM_SEALED", words))
    assert watched.sql.run(f"SELECT * FROM {watched.name}.t ORDER BY id") == [("1", "x"), ("2", "y")]


def test_a_stream_that_is_deleted_between_planning_and_reading(watched: Watched, spark: SparkSession) -> None:
    planned = spark.table(f"{watched.name}.t")
    planned._jdf.queryExecution().executedPlan()
    watched.sql.run(f"DROP TABLE {watched.name}.t")
    watched.refused(planned.collect, "PRAVEGA_STREAM_NOT_FOUND", "'t'", "'{s}'", "any more")


def test_stream_cuts_that_do_not_fit(watched: Watched) -> None:
    watched.sql.run(f"CREATE TABLE {watched.name}.other (id INT) USING pravega")
    watched.settle()
    controller, stream = watched.pravega.controller, Stream(watched.scope, "t")
    segment = controller.current_segments(stream)[0].segment_id
    other = controller.head(Stream(watched.scope, "other")).to_text()
    head, beyond = StreamCut(stream, {segment: 0}).to_text(), StreamCut(stream, {segment: 10**6}).to_text()
    inside, strange = StreamCut(stream, {segment: 5}).to_text(), StreamCut(stream, {segment + 77: 0}).to_text()

    def cuts(text: str, condition: str, *words: str) -> None:
        watched.refuse(Refusal(f"SELECT * FROM {{n}}.t WITH ({text})", condition, words))

    for key in ("start-stream-cut", "end-stream-cut"):
        cuts(f"'{key}'='{other}'", OPTION, "pravega.{s}.t", f"'{key}'", "{s}/other", "{s}/t")
        cuts(f"'{key}'='{strange}'", OPTION, "pravega.{s}.t", f"'{key}'")
        cuts(f"'{key}'='{beyond}'", OPTION, "pravega.{s}.t", f"'{key}'", "1000000")
        cuts(f"'{key}'='{inside}'", "PRAVEGA_MALFORMED_EVENT", "{s}/t/", "offset 5", "'mode'")
    backwards = f"'start-stream-cut'='{beyond}', 'end-stream-cut'='{head}'"
    cuts(backwards, OPTION, "pravega.{s}.t", "start and the end of the read", "=1000000", "lies after")


# Events and rows that do not fit


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ("'format'='json'", "0x01 of a registry header"),
        pytest.param("'format'='avro', 'framing'='none'", "", marks=pytest.mark.long),
    ],
)
def test_garbage_among_the_events(
    watched: Watched, spark: SparkSession, options: dict[str, str], properties: str, reason: str
) -> None:
    table = f"{watched.name}.garbage"
    watched.sql.run(f"CREATE TABLE {table} (a INT, b STRING) USING pravega TBLPROPERTIES ({properties})")
    watched.sql.run(f"INSERT INTO {table} VALUES (1, 'good')")
    stream = Stream(watched.scope, "garbage")
    segment = watched.pravega.controller.current_segments(stream)[0].segment_id
    offset = watched.pravega.segments.segment_infos(stream, [segment])[segment].write_offset
    garbage = spark.sql("SELECT CAST('garbage' AS BINARY) AS event")
    raw = {**options, "stream": "garbage", "format": "raw"}
    garbage.write.format("pravega").mode("append").options(**raw).save()
    words = (f"offset {offset} of segment {{s}}/garbage/", reason, "'format', 'raw'")
    watched.refuse(Refusal("SELECT * FROM {n}.garbage", "PRAVEGA_MALFORMED_EVENT", words))
    assert watched.sql.run(f"SELECT count(*) FROM {table}") == [("2",)]
    read = spark.read.format("pravega").options(**raw).load()
    assert bytes(read.where(f"_offset = {offset}").first()["event"]) == b"garbage"


JSON = ("(a STRING) USING pravega TBLPROPERTIES ('format'='json')", "repeat('x', 8 * 1024 * 1024)")
RAW = ("USING pravega TBLPROPERTIES ('format'='raw')", "CAST(repeat('x', 8 * 1024 * 1024 + 1) AS BINARY)")


@pytest.mark.parametrize(
    ("definition", "row", "among"),
    [
        pytest.param(*JSON, True, id="json among others"),
        pytest.param(*RAW, False, id="raw"),
        pytest.param(*JSON, False, id="json", marks=pytest.mark.long),
        pytest.param(*RAW, True, id="raw among others", marks=pytest.mark.long),
    ],
)
def test_an_event_over_8_mib(watched: Watched, definition: str, row: str, among: bool) -> None:
    watched.sql.run(f"CREATE TABLE {watched.name}.big {definition}")
    small = row.replace("8 * 1024 * 1024", "10")
    words = ("{s}/big", "8,388,608 bytes", "Split the row", "No row of this INSERT is visible")
    rows = f"SELECT {small} UNION ALL SELECT {row}" if among else f"SELECT {row}"
    watched.refuse(Refusal(f"INSERT INTO {{n}}.big {rows}", "PRAVEGA_EVENT_TOO_LARGE", words))
    assert watched.sql.run(f"SELECT count(*) FROM {watched.name}.big") == [("0",)]


def test_null_events_of_a_raw_table(watched: Watched) -> None:
    watched.sql.run(f"CREATE TABLE {watched.name}.bytes USING pravega TBLPROPERTIES ('format'='raw')")
    watched.refuse(Refusal("INSERT INTO {n}.bytes VALUES (NULL)", "NOT_NULL_ASSERT_VIOLATION", ("event",)))


# spark.read and df.write without a catalog

NEEDED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"controller-uri": None}, ("'controller-uri' is needed", "PRAVEGA_CONTROLLER_URI")),
    ({"scope": None}, ("'scope' is needed", "PRAVEGA_SCOPE", ".option('scope', 'iot').option('stream', 'sensor')")),
    ({"stream": None}, ("'stream' is needed", "read option", ".option('scope', 'iot')", "spark.readStream.table")),
]
WRONG: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"foo": "bar"}, ("'foo'", "'bar'", "Valid keys")),
    ({"pasword": SECRET}, ("'pasword'", "Did you mean 'security.password'?")),
    ({"path": "/some/path"}, ("'path'", "'/some/path'")),
    ({"format": "parquet"}, ("'parquet'", "avro, csv, debezium-avro, debezium-json, json")),
    ({"format": "json", "framing": "none"}, ("{s}/t", "'framing'='none'", ".schema(")),
    (
        {"start-stream-cut": "garbage"},
        (
            "'start-stream-cut'",
            "'garbage'",
            "asText() writes it, or 'earliest', 'latest', 'consumer' or 'reader-group:<name>'",
        ),
    ),
    (
        {"end-stream-cut": "Lates"},
        ("'end-stream-cut'", "'Lates'", "asText() writes it, or 'latest'. Did you mean 'latest'?"),
    ),
    ({"catalog": "nowhere"}, ("'catalog'='nowhere'", "not a Pravega catalog", "pravega")),
    ({"catalog": "pravega"}, ("'controller-uri'", "'catalog'='pravega'", "Leave one of them out")),
    ({"security.password": "${{env:SECRET}}"}, ("'security.password'", "only the conf of a catalog can")),
    ({"transaction.lease": "20s"}, ("'transaction.lease' cannot be a read option",)),
]


def reader(spark: SparkSession, options: dict[str, str], changes: Mapping[str, str | None]) -> DataFrameReader:
    """A reader with changed options."""
    changed = {**options, **changes}
    return spark.read.format("pravega").options(**{key: value for key, value in changed.items() if value is not None})


@pytest.mark.parametrize(("changes", "words"), NEEDED + WRONG, ids=str)
def test_wrong_read_options(
    settled: Watched, spark: SparkSession, cluster: ClusterInfo, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    chosen = reader(spark, options_of(cluster, settled), changes)
    settled.refused(lambda: chosen.load().collect(), OPTION, *words)


def test_reading_what_is_not_there(settled: Watched, spark: SparkSession, cluster: ClusterInfo) -> None:
    options = options_of(cluster, settled)
    for changes in ({"stream": "missing"}, {"scope": "missing-scope"}):
        chosen = reader(spark, options, dict(changes))
        settled.refused(lambda: chosen.load(), "PRAVEGA_STREAM_NOT_FOUND", *changes.values())  # noqa: B023
    chosen = reader(spark, options, {}).schema("nothing INT")
    settled.refused(lambda: chosen.load().collect(), "PRAVEGA_INVALID_SCHEMA", "{s}/t", "nothing", "id, b")


def save(frame: DataFrame, options: dict[str, str], mode: str = "append", **changes: str) -> None:
    """Write without a catalog; `_` stands for `-`."""
    named = {key.replace("_", "-"): value for key, value in changes.items()}
    frame.write.format("pravega").mode(mode).options(**{**options, **named}).save()


def test_wrong_writes(watched: Watched, spark: SparkSession, options: dict[str, str]) -> None:
    rows = spark.sql("SELECT 3 AS id, 'z' AS b")
    watched.settle()

    def wrong(condition: str, *words: str, frame: DataFrame = rows, mode: str = "append", **changes: str) -> None:
        watched.refused(lambda: save(frame, options, mode, **changes), condition, *words)

    wrong("PRAVEGA_UNSUPPORTED_OPERATION", "mode('overwrite')", "{s}/t", "mode('append')", mode="overwrite")
    wrong("UNSUPPORTED_DATA_SOURCE_SAVE_MODE", "pravega", "ErrorIfExists", mode="errorifexists")
    wrong("PRAVEGA_STREAM_NOT_FOUND", "'missing'", "Create it first with CREATE TABLE", stream="missing")
    wrong(OPTION, "'foo'", "'bar'", "Valid keys", foo="bar")
    wrong(OPTION, "'routing-key' names 'nothing'", "id, b", routing_key="nothing")
    wrong(OPTION, "'zstd'", "none, gzip, snappy", codec="zstd")
    wrong("PRAVEGA_UNSUPPORTED_TYPE", "exactly one column", "id int", format="raw")
    words = ("{s}/t", "id int, b string")
    for query in (
        "SELECT 3 AS id, 'z' AS b, 1 AS more",
        "SELECT 3 AS id",
        "SELECT 3000000000 AS id, 'z' AS b",
        "SELECT 3 AS id, array('z') AS b",
    ):
        wrong("PRAVEGA_INVALID_SCHEMA", *words, frame=spark.sql(query))
    null = spark.sql("SELECT CAST(NULL AS INT) AS id, 'z' AS b")
    wrong("PRAVEGA_INVALID_ROW", "{s}/t", "'id' is null", "coalesce", frame=null)
    watched.look()
    save(rows, options)
    assert watched.sql.run(f"SELECT * FROM {watched.name}.t ORDER BY id")[-1] == ("3", "z")


def test_a_null_in_a_not_null_column_without_a_catalog(
    watched: Watched, spark: SparkSession, options: dict[str, str]
) -> None:
    for format in ("avro", "json"):
        watched.sql.run(
            f"CREATE TABLE {watched.name}.`{format}` (id INT, n INT NOT NULL) USING pravega "
            f"TBLPROPERTIES ('format'='{format}')"
        )
        rows = spark.sql("SELECT CAST(id AS INT) AS id, IF(id = 3, NULL, CAST(id AS INT)) AS n FROM range(5)")
        action = {**options, "stream": format}
        watched.refused(lambda: save(rows, action), "PRAVEGA_INVALID_ROW", f"{{s}}/{format}", "'n'")  # noqa: B023


STREAMED = [
    refusal("DataFrameWriterV2.overwritePartitions", "PRAVEGA_UNSUPPORTED_OPERATION", "pravega.{s}.t", "INSERT INTO"),
    refusal("DataFrameWriterV2.createOrReplace", "PRAVEGA_UNSUPPORTED_OPERATION", "pravega.{s}.t", "DROP TABLE"),
    refusal("DataFrameWriterV2.create", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`"),
]


@pytest.mark.parametrize("case", STREAMED)
def test_the_writer_for_tables(settled: Watched, spark: SparkSession, case: Refusal) -> None:
    writer = spark.sql("SELECT 3 AS id, 'z' AS b").writeTo(f"{settled.name}.t")
    settled.refused(getattr(writer, case.statement.partition(".")[2]), case.condition, *case.words)
