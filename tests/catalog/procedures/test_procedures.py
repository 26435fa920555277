"""Procedures: what CALL does to streams, what it refuses, and that commits stay whole whatever is called."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.catalog.procedures.calling import PROCEDURES
from pyspark_pravega.catalog.procedures.procedure import Call, Procedure
from pyspark_pravega.catalog.running.tending import QueryServers
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.registry.registry_types import Compatibility, Rule
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.scan.dead_letter_stream import DeadLetters, Letter
from pyspark_pravega.datasource.tables.bad_events import BadEventRule
from pyspark_pravega.errors import TransactionNotOpenError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of
from tests.datasource.transactions import begin_insert, insert_into_all
from tests.streams import PATIENCE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "procedures.md"


class Called:
    """A table with retention, three versions of one row each, and procedures called on it."""

    def __init__(self, spark: SparkSession, stream: Stream) -> None:
        self.spark, self.stream = spark, stream
        self.quoted = f"`{stream.scope}`.`{stream.name}`"
        self.table = f"pravega.{self.quoted}"

    def call(self, name: str, arguments: str = "", table: str | None = None) -> Row:
        """The only row of its result."""
        given = f"table => '{table or self.quoted}'" + (f", {arguments}" if arguments else "")
        [row] = self.spark.sql(f"CALL pravega.system.{name}({given})").collect()
        return row

    def refused(self, name: str, arguments: str = "", table: str | None = None) -> str:
        """The message of its error."""
        with pytest.raises(PySparkException) as raised:
            self.call(name, arguments, table)
        return str(raised.value)

    def ids(self, of: str = "") -> list[int]:
        rows = self.spark.sql(f"SELECT id FROM {self.table} {of}").collect()
        return sorted(row.id for row in rows)

    def rows(self, metadata: str) -> list[Row]:
        return self.spark.sql(f"SELECT * FROM {self.table}.{metadata}").collect()

    def insert(self, *ids: int) -> None:
        self.spark.sql(f"INSERT INTO {self.table} (id) VALUES {', '.join(f'({id})' for id in ids)}")


@pytest.fixture
def called(spark: SparkSession, cluster: ClusterInfo, scope: str) -> Called:
    made = Called(spark, Stream(scope, "hall-7.sensor"))
    spark.sql(
        f"CREATE TABLE {made.table} (id INT, b STRING) USING pravega TBLPROPERTIES ('scaling.min-segments'='2', "
        "'retention.type'='size', 'retention.minimum'='1g')"
    )
    # As INSERTs do, and sooner.
    with connect_catalog(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as python:
        table = python.load_table(made.quoted)
        for id in (1, 2, 3):
            table.append(pa.table({"id": pa.array([id], pa.int32())}))
    return made


@pytest.fixture
def raw(spark: SparkSession, pravega: Pravega, scope: str) -> Called:
    """A stream of two segments without a schema, to which transactions are made by hand."""
    made = Called(spark, Stream(scope, "raw"))
    spark.sql(
        f"CREATE TABLE {made.table} (event BINARY) USING pravega "
        "TBLPROPERTIES ('format'='raw', 'scaling.min-segments'='2')"
    )
    insert_into_all(pravega, made.stream, 2)
    return made


def test_procedures_are_listed_and_described(spark: SparkSession) -> None:
    listed = spark.sql("SHOW PROCEDURES IN pravega.system").collect()
    assert sorted(row["procedure_name"] for row in listed) == sorted(PROCEDURES)
    assert {row["catalog"] for row in listed} == {"pravega"}
    for name, procedure in PROCEDURES.items():
        described = "\n".join(row[0] for row in spark.sql(f"DESCRIBE PROCEDURE pravega.system.{name}").collect())
        assert name in described and procedure.comment in described
        assert all(each.name in described for each in procedure.parameters)


def test_arguments_that_do_not_fit(called: Called) -> None:
    spark, scope = called.spark, f"pravega.`{called.stream.scope}`"
    spark.sql(f"CREATE TABLE {scope}.states (id INT, b INT) TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')")
    spark.sql(f"CREATE VIEW {scope}.seen AS SELECT id FROM {called.table}")
    wrong = {
        "CALL pravega.system.create_tags(table => 'a.b')": "Did you mean pravega.system.create_tag",
        "CALL pravega.nope.create_tag(table => 'a.b', tag => 'x')": "Did you mean pravega.system.create_tag",
        "CALL pravega.system.zzz()": "SHOW PROCEDURES IN pravega.system lists all: abort_transaction, ",
        "CALL pravega.system.create_tag(tabel => 'a.b', tag => 'x')": (
            "has no argument 'tabel'. Its arguments are table STRING, tag STRING, version STRING (optional), "
            "replace BOOLEAN (optional)"
        ),
        "CALL pravega.system.create_tag(table => 'a.b')": "needs the argument 'tag'",
        "CALL pravega.system.create_tag('a.b', 'x', '1', true, 5)": "has no argument number 5",
        "CALL pravega.system.create_tag(table => 'a.b', tag => 'x', replace => 'yes')": "takes BOOLEAN",
        "CALL pravega.system.scale_stream(table => 'a.b', segments => 'two')": "takes INT",
        "CALL pravega.system.create_tag(table => NULL, tag => 'x')": "The argument 'table' is NULL",
        "CALL pravega.system.create_tag(table => 'sensor', tag => 'x')": "Write '<namespace>.<table>'",
        "CALL pravega.system.create_tag(table => 'a.b$c', tag => 'x')": "a part of a stream",
        f"CALL pravega.system.create_tag(table => '`{called.stream.scope}`.nope', tag => 'x')": "There is no table",
        f"CALL pravega.system.create_tag(table => '`{called.stream.scope}`.states', tag => 'x')": "a key-value table",
        f"CALL pravega.system.seal_stream(table => '`{called.stream.scope}`.`states$kvtable`')": "a key-value table",
        f"CALL pravega.system.truncate_stream('`{called.stream.scope}`.seen', 'tail')": "it is a view",
    }
    for statement, words in wrong.items():
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement)
        assert "[PRAVEGA_" in str(raised.value), statement
        assert words in str(raised.value), statement
    assert called.rows("tags") == []


def test_tags_and_compaction(called: Called) -> None:
    spark = called.spark
    spark.sql(f"EXPLAIN CALL pravega.system.create_tag(table => '{called.quoted}', tag => 'explained')")
    made = called.call("create_tag", "tag => 'first', version => 1")
    assert (made.tag, made.version) == ("first", 1)
    assert called.call("create_tag", "tag => 'now'", table=f"pravega.{called.quoted}").version == 3
    assert called.ids("VERSION AS OF 'first'") == [1]
    assert "has a tag 'now' already" in called.refused("create_tag", "tag => 'now'")
    assert called.call("create_tag", "tag => 'now', version => 'first', replace => true").version == 1
    assert "the newest one is 3" in called.refused("create_tag", "tag => 'x', version => '4'")
    assert [row.tag for row in called.rows("tags")] == ["first", "now"]
    assert not called.call("drop_tag", "tag => 'first', dry_run => true").dropped
    assert called.call("drop_tag", "tag => 'first'").dropped
    assert not called.call("drop_tag", "tag => 'first'").dropped
    assert [row.tag for row in called.rows("tags")] == ["now"]
    compacted = called.call("compact_history")
    assert (compacted.versions, compacted.checkpoints) == (3, 0)


def test_truncation_is_between_events_only(called: Called, pravega: Pravega) -> None:
    history = {row.version: row.stream_cut for row in called.rows("history")}
    tail = StreamCut.from_text(history[3])
    segment, offset = max(tail.positions.items(), key=lambda each: each[1])
    within = StreamCut(called.stream, {**tail.positions, segment: offset - 3})
    behind = StreamCut(called.stream, {**tail.positions, segment: offset + 100})
    called.call("create_tag", f"tag => 'within', version => '{within.to_text()}'")
    called.call("create_consumer", "consumer => 'nightly'")
    for before, words in {
        within.to_text(): "lies within an event",
        "within": "lies within an event",
        behind.to_text(): "which ends at",
        "17": "'before' => 17 is not possible",
        "nonsense": "is neither a version number nor a tag",
    }.items():
        assert words in called.refused("truncate_stream", f"before => '{before}'")
    tried = called.call("truncate_stream", "before => 2, dry_run => true")
    assert not tried.truncated and tried.consumers_passed == 1
    assert tried.removed_bytes + tried.left_bytes == sum(tail.positions.values())
    assert called.ids() == [1, 2, 3]
    assert called.call("truncate_stream", f"before => '{history[1]}'").truncated
    assert called.ids() == [2, 3]
    done = called.call("truncate_stream", "before => 2")
    assert (done.stream_cut, done.left_bytes) == (history[2], tried.left_bytes)
    assert called.ids() == [3]
    assert "lies before the head" in called.refused("truncate_stream", "before => 1")
    called.call("truncate_stream", "before => 'tail'")
    assert called.ids() == []
    called.insert(4)
    assert called.ids() == [4]


def test_truncation_of_what_others_wrote(raw: Called, pravega: Pravega) -> None:
    """A cut that no version ends at is found to lie between events by reading."""
    stream = raw.stream
    first = measure_tail(pravega, stream)
    insert_into_all(pravega, stream, 2, rows=3)
    between = StreamCut(stream, {each: offset + 32 for each, offset in first.positions.items()})
    assert raw.call("truncate_stream", f"before => '{between.to_text()}'").removed_bytes == 4 * 32
    assert raw.spark.table(raw.table).count() == 4
    changes = f"pravega.`{stream.scope}`.customers"
    raw.spark.sql(f"CREATE TABLE {changes} (id INT) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    said = raw.refused("truncate_stream", "before => 'tail'", table=f"`{stream.scope}`.customers")
    assert "truncate_stream is not possible" in said and "need the rows before them" in said


def test_scaling_and_sealing(called: Called, pravega: Pravega) -> None:
    tried = called.call("scale_stream", "segments => 4, dry_run => true")
    assert (tried.segments_before, tried.segments, tried.sealed, tried.created, tried.scaled) == (2, 4, 2, 4, False)
    assert called.call("scale_stream", "segments => 4").scaled
    assert len(pravega.controller.current_segments(called.stream)) == 4
    assert not called.call("scale_stream", "segments => 4").scaled
    ten = f"`{called.stream.scope}`.ten"
    called.spark.sql(f"CREATE TABLE pravega.{ten} (id INT) TBLPROPERTIES ('scaling.min-segments'='10')")
    assert not called.call("scale_stream", "segments => 10", table=ten).scaled  # whose borders the server has rounded
    assert called.call("scale_stream", "segments => 20", table=ten).sealed == 10
    called.insert(4)
    assert called.call("scale_stream", "segments => 3").created == 3
    assert "Give a number from 2 to 10,000" in called.refused("scale_stream", "segments => 0")
    assert "'scaling.min-segments'" in called.refused("scale_stream", "segments => 1")
    called.insert(5)
    assert called.ids() == [1, 2, 3, 4, 5]
    assert not called.call("seal_stream", "dry_run => true").sealed
    called.insert(6)
    assert called.call("seal_stream").sealed
    assert called.ids() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(PySparkException, match="PRAVEGA_STREAM_SEALED"):
        called.insert(7)
    for name, arguments in {"seal_stream": "", "scale_stream": "segments => 2"}.items():
        assert "PRAVEGA_STREAM_SEALED" in called.refused(name, arguments)


WIDER = """{"type": "record", "name": "%s", "namespace": "%s", "fields": [
  {"name": "id", "type": ["null", "int"], "default": null}, {"name": "b", "type": ["null", "string"], "default": null},
  {"name": "c", "type": %s}]}"""


def test_versions_of_schemas(called: Called) -> None:
    [known] = called.rows("schemas")
    namespace, _, name = known.type.rpartition(".")
    good = WIDER % (name, namespace, '["null", "long"], "default": null')
    bad = WIDER % (name, namespace, '"long"')
    valid = called.call("validate_schema", f"schema => '{good}'")
    assert (valid.valid, valid.reason, valid.version, valid.compatibility) == (True, None, None, "backward")
    for schema, words in {
        bad: "the policy 'backward' of its schema group does not allow it",
        WIDER % ("Other", "x", '["null", "long"], "default": null'): "has the type x.Other",
        "{": "JSON",
    }.items():
        judged = called.call("validate_schema", f"schema => '{schema}'")
        assert not judged.valid and words in judged.reason
        assert "PRAVEGA_INCOMPATIBLE_SCHEMA" in called.refused("register_schema", f"schema => '{schema}'")
    deep = WIDER % (name, namespace, '{"type": "array", "items": ' * 2000 + '"int"' + "}" * 2000)
    started = time.monotonic()
    said = called.refused("register_schema", f"schema => '{deep}'")
    assert "nested" in said and len(said) < 1000 and time.monotonic() - started < 5, said
    assert len(called.rows("schemas")) == 1
    added = called.call("register_schema", f"schema => '{good}'")
    assert (added.version, added.schema_id, added.registered) == (1, 1, True)
    assert not called.call("register_schema", f"schema => '{good}'").registered
    assert called.spark.table(called.table).columns == ["id", "b", "c"]
    assert "may be encoded with version 0" in called.refused("delete_schema_version", "version => 0")
    called.spark.sql(f"ALTER TABLE {called.table} SET TBLPROPERTIES ('routing-key'='c')")
    said = called.refused("delete_schema_version", "version => 1")
    assert "cannot be deleted: without it the columns would be those of version 0" in said and "'c'" in said
    called.spark.sql(f"ALTER TABLE {called.table} UNSET TBLPROPERTIES ('routing-key')")
    assert not called.call("delete_schema_version", "version => 1, dry_run => true").deleted
    assert called.call("delete_schema_version", "version => 1").deleted
    assert called.spark.sql(f"SELECT * FROM {called.table}").columns == ["id", "b"]
    assert "is the only schema" in called.refused("delete_schema_version", "version => 0")
    assert "Its versions are: 0." in called.refused("delete_schema_version", "version => 7")
    called.call("register_schema", f"schema => '{good}'")
    called.spark.sql(f"INSERT INTO {called.table} VALUES (4, 'x', 5)")
    newest = max(row.version for row in called.rows("schemas"))
    assert f"with version {newest}" in called.refused("delete_schema_version", f"version => {newest}")
    assert called.ids() == [1, 2, 3, 4]


def test_policies(called: Called, pravega: Pravega) -> None:
    changed = called.call("set_compatibility", "compatibility => 'full'")
    assert (changed.before, changed.compatibility) == ("backward", "full")
    properties = {row.key: row.value for row in called.spark.sql(f"SHOW TBLPROPERTIES {called.table}").collect()}
    assert properties["compatibility"] == "full"
    assert "backward, backward-transitive" in called.refused("set_compatibility", "compatibility => 'sometimes'")
    groups = pravega.registry(called.stream.scope)
    [first, *_] = groups.versions(called.stream.name)
    advanced = Compatibility("Advanced", Rule("BackwardTill", first.version), Rule("Forward"))
    groups.set_compatibility(called.stream.name, advanced)
    called.spark.sql(f"ALTER TABLE {called.table} SET TBLPROPERTIES ('comment'='of another property')")
    assert groups.group(called.stream.name).compatibility == advanced
    called.spark.sql(f"ALTER TABLE {called.table} SET TBLPROPERTIES ('compatibility'='allow-any')")
    assert groups.group(called.stream.name).compatibility == Compatibility("AllowAny")
    json = f"`{called.stream.scope}`.j"
    called.spark.sql(f"CREATE TABLE pravega.{json} (id INT) TBLPROPERTIES ('format'='json', 'routing-key'='id')")
    [text] = (row.schema for row in called.spark.sql(f"SELECT schema FROM pravega.{json}.schemas").collect())
    other = '{"type": "object", "title": "j", "properties": {"ident": {"type": "integer"}}}'
    assert "'routing-key' names 'id'" in called.call("validate_schema", f"schema => '{other}'", table=json).reason
    for title, type in (('"title": "k", ', "k"), ('"$id": "https://iot/l", ', "l"), ("", "object")):
        reason = called.call("validate_schema", f'schema => \'{{{title}"type": "object"}}\'', table=json).reason
        assert f"has the type {type}, but the stream's events have j." in reason
    assert called.call("validate_schema", f"schema => '{text}'", table=json).version == 0
    unregistered = f"`{called.stream.scope}`.raw"
    called.spark.sql(f"CREATE TABLE pravega.{unregistered} (event BINARY) TBLPROPERTIES ('format'='raw')")
    assert "PRAVEGA_SCHEMA_NOT_FOUND" in called.refused("set_compatibility", "compatibility => 'full'", unregistered)


def test_a_transaction_of_another_program(raw: Called, pravega: Pravega) -> None:
    stream = raw.stream
    insert, _ = begin_insert(pravega, stream, [b"?"] * 6)
    insert.transaction.stop()
    left = insert.transaction.id
    assert "pass complete => true" in raw.refused("commit_transaction", f"transaction => '{left}'")
    done = raw.call("commit_transaction", f"transaction => '{left}', complete => true")
    assert (done.transaction, done.events, done.state) == (str(left), 6, "committed")
    assert [(row.operation, row.rows) for row in raw.rows("history")] == [("INSERT", 2), ("COMMIT", 6)]
    assert raw.spark.table(raw.table).count() == 8
    assert "LocalTableScan" in raw.spark.sql(f"EXPLAIN SELECT count(*) FROM {raw.table}").first()[0]  # by the log
    again = raw.refused("commit_transaction", f"transaction => '{left}', complete => true")
    assert "is already committed" in again
    assert "cannot be aborted: it is committed" in raw.refused("abort_transaction", f"transaction => '{left}'")
    for id in (uuid.UUID(int=7), uuid.UUID(int=(1 << 128) - 7), "cc1ee505-09e6-4020-8448-33a463503fd9"):
        unknown = f"transaction => '{id}'"
        assert f"has no transaction {id}" in raw.refused("abort_transaction", unknown)
        assert f"has no transaction {id}" in raw.refused("commit_transaction", f"{unknown}, complete => true")
    assert "is not a transaction id" in raw.refused("abort_transaction", "transaction => 'x'")


def test_a_transaction_that_an_insert_holds(raw: Called, pravega: Pravega) -> None:
    """It is not committed by others; aborted, the INSERT fails and nothing of it is visible."""
    stream, log = raw.stream, CommitLog(pravega, raw.stream)
    insert, messages = begin_insert(pravega, stream, [b"?"] * 4)
    log.enter(insert.transaction.id, rows=4, operation="INSERT")
    given = f"transaction => '{insert.transaction.id}'"
    assert "waits for its commit" in raw.refused("commit_transaction", f"{given}, complete => true")
    assert raw.call("abort_transaction", f"{given}, dry_run => true").state == "open"
    assert raw.call("abort_transaction", given).aborted
    with pytest.raises(TransactionNotOpenError, match="aborted"):
        insert.commit(messages)
    insert_into_all(pravega, stream, 2)
    assert raw.spark.table(raw.table).count() == 4
    assert [row.rows for row in raw.rows("history")] == [2, 2]
    assert raw.rows("transactions") == []


def test_consumers(called: Called) -> None:
    history = {row.version: row.stream_cut for row in called.rows("history")}
    made = called.call("create_consumer", "consumer => 'nightly', position => 1")
    assert made.stream_cut == history[1] and made.bytes_behind > 0
    assert "has a consumer 'nightly' already" in called.refused("create_consumer", "consumer => 'nightly'")
    tried = called.call("move_consumer", "consumer => 'nightly', position => 'tail', dry_run => true")
    assert (tried.before, tried.stream_cut, tried.bytes_behind, tried.moved) == (history[1], history[3], 0, False)
    assert called.rows("consumers")[0].stream_cut == history[1]
    assert called.call("move_consumer", "consumer => 'nightly', position => 2").moved
    assert called.rows("consumers")[0].stream_cut == history[2]
    assert called.call("move_consumer", "consumer => 'nightly', position => 'head'").bytes_behind > made.bytes_behind
    said = called.refused("drop_consumer", "consumer => 'daily'")
    assert "It has nightly;" in said and "pravega.system.create_consumer creates one" in said
    assert not called.call("drop_consumer", "consumer => 'nightly', dry_run => true").dropped
    assert called.call("drop_consumer", "consumer => 'nightly'").dropped
    assert called.rows("consumers") == []


@pytest.fixture
def copy(called: Called) -> Iterator[Called]:
    """A table that a streaming query copies the first one to."""
    made = Called(called.spark, Stream(called.stream.scope, "copy"))
    made.spark.sql(f"CREATE TABLE {made.table} (id INT) USING pravega")
    yield made


def test_a_query_that_is_reset(called: Called, copy: Called, tmp_path: Path) -> None:
    """It writes again what it is asked to, and a run that goes on fails by name."""
    rows = called.spark.readStream.table(called.table).select("id")
    query = rows.writeStream.option("checkpointLocation", str(tmp_path)).toTable(copy.table)
    try:
        query.processAllAvailable()
        seen = copy.call("reset_query", f"query => '{query.id}', dry_run => true")
        assert (seen.query, seen.run, seen.reset) == (query.id, query.runId, False)
        assert "up to number 0" in copy.refused("reset_query", f"query => '{query.id}'")
        assert "'batch' => 7 is not the newest" in copy.refused("reset_query", f"query => '{query.id}', batch => 7")
        assert f"those of {query.id}" in copy.refused("reset_query", "query => 'x'")
        called.insert(4)
        query.processAllAvailable()
        assert "up to number 1" in copy.refused("reset_query", f"query => '{query.id}', batch => {seen.batch}")
        assert copy.call("reset_query", f"query => '{query.id}', batch => 1").reset
        assert "has forgotten" in copy.refused("reset_query", f"query => '{query.id}', batch => 1")
        called.insert(5)
        with pytest.raises(StreamingQueryException, match="PRAVEGA_QUERY_FENCED.*was reset for .* during its run"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert copy.ids() == [1, 2, 3, 4]
    query = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).toTable(copy.table)
    assert query.awaitTermination(PATIENCE)
    assert copy.ids() == [1, 2, 3, 4, 5]


def die_in_replay(config: ClientConfig, arguments: Mapping[str, str]) -> None:
    """Replay dead letters, and be killed once they are visible, before that is recorded."""

    def last_step(*_arguments: object, **_options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with connect(config) as pravega:
        CommitLog.publish = last_step  # type: ignore[method-assign, assignment]
        list(PROCEDURES["replay_dead_letter"].act(Call(Catalog({}, pravega), arguments, QueryServers())))


def test_dead_letters_are_replayed_once(
    called: Called, copy: Called, pravega: Pravega, client_config: ClientConfig
) -> None:
    """Those that can be decoded since a column is wider, however often they were found."""
    source = Called(called.spark, Stream(called.stream.scope, "numbers"))
    letters = f"'`{called.stream.scope}`.letters'"
    properties = "TBLPROPERTIES ('format'='json', 'framing'='none', 'dead-letter'='letters')"
    source.spark.sql(f"CREATE TABLE {source.table} (id INT) USING pravega {properties}")

    def append(*events: bytes) -> None:
        insert, messages = begin_insert(pravega, source.stream, events)
        insert.commit(messages)

    def replayed(given: str = "") -> tuple[int, int, int, bool]:
        row = source.call("replay_dead_letter", f"dead_letter => {letters}, into => '{copy.quoted}'{given}")
        return row.letters, row.rows, row.bad, row.replayed

    copy.spark.sql(f"DROP TABLE {copy.table}")
    copy.spark.sql(f"CREATE TABLE {copy.table} (id BIGINT) USING pravega TBLPROPERTIES ('routing-key'='id')")
    append(b'{"id": 1}', b'{"id": 3000000000}', b"?", b'{"id": 3000000001}')
    assert source.ids() == [1]
    assert source.ids() == [1]  # which writes the letters again
    source.spark.sql(f"ALTER TABLE {source.table} ALTER COLUMN id TYPE BIGINT")
    assert replayed(", dry_run => true") == (3, 2, 1, False)
    said = source.refused("replay_dead_letter", f"dead_letter => {letters}, into => '{copy.quoted}'")
    assert "PRAVEGA_MALFORMED_EVENT" in said and "1 of 3 dead letters still cannot be decoded" in said
    assert copy.ids() == []
    assert replayed(", skip_bad => true") == (3, 2, 1, True)
    assert copy.ids() == [3000000000, 3000000001]
    assert source.ids() == [1, 3000000000, 3000000001]  # a letter of `?` again
    assert replayed() == (0, 0, 0, False)
    append(b"", b'{"id": 2}')
    assert source.ids() == [1, 2, 3000000000, 3000000001]
    assert replayed(", dry_run => true") == (1, 0, 1, False)
    assert copy.ids() == [3000000000, 3000000001]
    other = source.refused("replay_dead_letter", f"dead_letter => '{copy.quoted}'")
    assert "is a stream for other events" in other

    def write(first: int, *events: bytes) -> None:
        """Write letters of events at these places."""
        found = [Letter("0.#epoch.0", offset, "?", None, event) for offset, event in enumerate(events, first)]
        rule = BadEventRule(dead_letter=Stream(source.stream.scope, "letters"))
        with closing(DeadLetters(pravega, rule, source.stream, 0)) as written:
            written.write(found)

    # Left out for good, even where none has a row.
    assert replayed(", skip_bad => true") == (1, 0, 1, False)
    assert replayed() == (0, 0, 0, False)
    # What a driver has committed that died then is not replayed again, and asks for no second skip_bad.
    write(10_000, b'{"id": 50}', b"?", b'{"id": 51}')
    named = {"table": source.quoted, "dead_letter": letters.strip("'"), "into": copy.quoted}
    driver = multiprocessing.get_context("spawn").Process(
        target=die_in_replay, args=(client_config, {**named, "skip_bad": "true"})
    )
    driver.start()
    driver.join(60)
    assert driver.exitcode == -signal.SIGKILL
    write(10_000, b'{"id": 50}', b"?", b'{"id": 51}', b'{"id": 52}')
    assert replayed(", dry_run => true") == (1, 1, 0, False)
    assert replayed() == (1, 1, 0, True)
    assert copy.ids() == [50, 51, 52, 3000000000, 3000000001]
    # Without the letters of before it is not known any more what was replayed; in a stream made again they are others.
    write(20_000, b'{"id": 60}')
    table = letters.strip("'")
    source.call("truncate_stream", "before => 'tail'", table=table)
    write(30_000, b'{"id": 61}')
    said = source.refused("replay_dead_letter", f"dead_letter => {letters}, into => '{copy.quoted}'")
    assert "PRAVEGA_DATA_LOSS" in said and "have been removed from the start" in said
    source.spark.sql(f"DROP TABLE pravega.{table}")
    write(30_000, b'{"id": 61}')
    assert [replayed(), replayed()] == [(1, 1, 0, True), (0, 0, 0, False)]
    assert copy.ids() == [50, 51, 52, 61, 3000000000, 3000000001]


def test_rights_are_those_of_the_user(
    secure_spark: SparkSession,
    secure_cluster: ClusterInfo,
    secure_client_config: Callable[..., ClientConfig],
    secure_scope: str,
) -> None:
    table = f"`{secure_scope}`.t"
    secure_spark.sql(f"CREATE TABLE secure.{table} (a INT) USING pravega")
    secure_spark.sql(f"INSERT INTO secure.{table} VALUES (1)")
    name = catalog_of(secure_spark, secure_cluster, "reader", "reader", secure_cluster.users["reader"])
    needs = {
        "create_tag": "tag => 'x'",
        "truncate_stream": "before => 'tail'",
        "seal_stream": "",
        "scale_stream": "segments => 2",
        "set_compatibility": "compatibility => 'full'",
        "create_consumer": "consumer => 'x'",
        "reset_query": "query => 'x', batch => 1",
    }
    for procedure, arguments in needs.items():
        given = ", ".join(filter(None, [f"table => '{table}'", arguments]))
        with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*READ_UPDATE"):
            secure_spark.sql(f"CALL {name}.system.{procedure}({given})")
    assert secure_spark.table(f"secure.{table}").count() == 1
    tag = secure_spark.sql(f"CALL secure.system.create_tag('{table}', 'x')").first()
    assert tag is not None and tag["version"] == 1
    secure_spark.sql(f"INSERT INTO secure.{table} VALUES (2)")
    for asked in ("x", "1", tag["stream_cut"]):  # READ is enough to read the table as it was
        assert secure_spark.sql(f"SELECT a FROM {name}.{table} VERSION AS OF '{asked}'").collect() == [(1,)]
    assert [row.tag for row in secure_spark.sql(f"SELECT tag FROM {name}.{table}.tags").collect()] == ["x"]
    cuts = secure_spark.sql(f"SELECT kind FROM {name}.{table}.stream_cuts").collect()
    assert [row.kind for row in cuts] == ["head", "tail", "tag"]
    with connect(secure_client_config()) as pravega:  # the tags go with a stream that others drop and make again
        stream = Stream(secure_scope, "t")
        configuration = pravega.controller.stream_configuration(stream)
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        pravega.controller.create_stream(stream, configuration)
    assert secure_spark.sql(f"SELECT tag FROM {name}.{table}.tags").collect() == []
    with pytest.raises(PySparkException, match="'x' is neither a version number nor a tag. The stream has no tags"):
        secure_spark.sql(f"SELECT a FROM {name}.{table} VERSION AS OF 'x'")
    # Who may write a stream, but only read the commit log, commits nothing that would be no version.
    name = catalog_of(secure_spark, secure_cluster, "appender", "appender", secure_cluster.users["appender"])
    target = Stream(secure_scope, "target")
    secure_spark.sql(
        f"CREATE TABLE secure.`{secure_scope}`.target (event BINARY) USING pravega TBLPROPERTIES ('format'='raw')"
    )
    with connect(secure_client_config()) as pravega:
        insert, messages = begin_insert(pravega, target, [b"?"])
        given = f"table => '`{secure_scope}`.target', transaction => '{insert.transaction.id}', complete => true"
        with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*pyspark-pravega-commits"):
            secure_spark.sql(f"CALL {name}.system.commit_transaction({given})")
        assert insert.transaction.status() is TransactionStatus.OPEN
        assert insert.commit(messages) == 1
        assert len(CommitLog(pravega, target).versions()) == 1


def shown_in_table(procedure: Procedure) -> str:
    """The line of a procedure in the table of the page."""
    arguments = ", ".join(f"`{each.name}`" + ("?" if each.optional else "") for each in procedure.parameters)
    columns = ", ".join(f"`{field.name}`" for field in procedure.columns)
    return f"| `{procedure.name}` | {arguments} | {columns} | {procedure.rights} |"


def test_the_page_lists_all_procedures() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert lines == [shown_in_table(each) for each in PROCEDURES.values()]


def test_the_page_on_procedures(spark: SparkSession, scope: str) -> None:
    """Its statements, in a namespace of another name, and the rows that it shows for them."""
    blocks = re.findall(r"^```sql\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 4
    for statements, shown in blocks:
        mine = statements.replace("pravega.iot.", f"pravega.`{scope}`.").replace("'iot.", f"'`{scope}`.")
        *before, last = mine.strip().rstrip(";").split(";\n")
        for statement in before:
            spark.sql(statement)
        found = [" ".join(str(value).lower() for value in row) for row in spark.sql(last).collect()]
        assert not shown or found == shown.lower().splitlines()
