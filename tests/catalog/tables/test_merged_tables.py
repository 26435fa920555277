"""Tables of several streams: as streams with members that come and go, their rights, and the same state in a query."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.queries.test_consistent_queries import QUERIES, inserting
from tests.catalog.storage.test_secrets import catalog_of
from tests.streams import PATIENCE, ParquetSink, into_memory


class Halls:
    """A namespace with streams that are made as a test wants, and a table of those whose names begin with `hall-`."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark, self.name = spark, name
        spark.sql(f"CREATE NAMESPACE {name}")
        self.add("hall-a", 1)
        spark.sql(f"CREATE TABLE {name}.halls USING pravega TBLPROPERTIES ('pattern'='hall-.*')")

    def add(self, stream: str, *ids: int, columns: str = "id INT") -> None:
        """Make a stream with these rows."""
        self.spark.sql(f"CREATE TABLE {self.name}.`{stream}` ({columns}) USING pravega TBLPROPERTIES ('format'='json')")
        self.insert(stream, *ids)

    def insert(self, stream: str, *ids: int) -> None:
        """Append rows to a stream."""
        if ids:
            self.spark.sql(f"INSERT INTO {self.name}.`{stream}` (id) VALUES {', '.join(f'({id})' for id in ids)}")

    def stream(self, discovery: str = "1s") -> DataFrame:
        """The table as a stream of ids, with the streams that they are in."""
        read = self.spark.readStream.option("discovery-interval", discovery)
        return read.table(f"{self.name}.halls").select("_scope", "_stream", "id")


@pytest.fixture
def halls(spark: SparkSession, fresh_name: str) -> Iterator[Halls]:
    name = f"pravega.{fresh_name}"
    yield Halls(spark, name)
    spark.sql(f"DROP NAMESPACE IF EXISTS {name} CASCADE")


def shown(rows: list[Row]) -> list[tuple[str, int]]:
    return sorted((row._stream, row.id) for row in rows)


def refused(spark: SparkSession, statement: str, *words: str) -> None:
    with pytest.raises(PySparkException) as error:
        spark.sql(statement).collect()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_streams_that_come_while_a_query_runs(halls: Halls, tmp_path: Path) -> None:
    """A new stream is read from its head, once, also by the run that goes on from the checkpoint."""
    scope = halls.name.split(".")[1]
    with into_memory(halls.stream(), tmp_path) as sink:
        assert shown(sink.rows()) == [("hall-a", 1)]
        halls.add("hall-b", 10, 11, columns="id INT, more STRING")
        halls.add("other", 99)
        deadline = time.monotonic() + PATIENCE
        while len(sink.rows()) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        halls.insert("hall-b", 12)
        assert shown(sink.rows()) == [("hall-a", 1), ("hall-b", 10), ("hall-b", 11), ("hall-b", 12)]
        assert {row._scope for row in sink.rows()} == {scope}


def test_a_query_goes_on_with_more_streams_and_with_fewer(halls: Halls, tmp_path: Path) -> None:
    sink = ParquetSink(halls.spark, tmp_path)
    [progress] = sink.take(halls.stream())
    assert progress["numInputRows"] == 1 and progress["sources"][0]["metrics"]["bytesBehind.hall-a"] == "0"
    halls.insert("hall-a", 2)
    halls.add("hall-b", 10, 11)
    sink.take(halls.stream())
    halls.insert("hall-b", 12)
    halls.spark.sql(f"CREATE NAMESPACE {halls.name}_more")
    try:
        more = Stream(f"{halls.name.split('.')[1]}-more", "door")
        table = f"{halls.name}_more.door"
        halls.spark.sql(f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ('format'='json')")
        halls.spark.sql(f"INSERT INTO {table} VALUES (7)")
        listed = f"ALTER TABLE {halls.name}.halls SET TBLPROPERTIES ('streams'='hall-a,hall-b,{more}')"
        halls.spark.sql(listed)
        sink.take(halls.stream())
        halls.spark.sql(f"INSERT INTO {table} VALUES (8)")
        sink.take(halls.stream())
        expected = [("door", 7), ("door", 8), ("hall-a", 1), ("hall-a", 2)]
        expected += [("hall-b", 10), ("hall-b", 11), ("hall-b", 12)]
        assert shown(sink.rows()) == expected
        assert {row._scope for row in sink.rows() if row._stream == "door"} == {more.scope}
        last = max((sink.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        assert json.loads(last.read_text().splitlines()[-1])["streams"].keys() == {"hall-a", "hall-b", str(more)}
        halls.spark.sql(f"ALTER TABLE {halls.name}.halls SET TBLPROPERTIES ('streams'='hall-a,hall-b')")
        with pytest.raises(StreamingQueryException, match=f"PRAVEGA_DATA_LOSS.*{more}.*fail-on-data-loss"):
            sink.take(halls.stream())
    finally:
        halls.spark.sql(f"DROP NAMESPACE {halls.name}_more CASCADE")


def test_a_table_that_is_dropped_and_made_again_under_a_checkpoint(halls: Halls, tmp_path: Path) -> None:
    """The name may change its meaning; the streams are what a checkpoint is about."""
    sink = ParquetSink(halls.spark, tmp_path)

    def take() -> None:
        sink.take(halls.spark.sql(f"SELECT _stream, id FROM STREAM {halls.name}.halls"))

    take()
    halls.spark.sql(f"DROP TABLE {halls.name}.halls")
    halls.spark.sql(f"CREATE TABLE {halls.name}.halls USING pravega TBLPROPERTIES ('streams'='hall-a')")
    halls.insert("hall-a", 2)
    take()
    assert shown(sink.rows()) == [("hall-a", 1), ("hall-a", 2)]
    halls.spark.sql(f"DROP TABLE {halls.name}.hall_a")
    halls.add("hall-a", 3)
    again = "PRAVEGA_CHECKPOINT_MISMATCH.*hall-a was dropped and recreated.*'fail-on-data-loss'"
    with pytest.raises(StreamingQueryException, match=again):
        take()
    lenient = halls.spark.readStream.option("fail-on-data-loss", "false").table(f"{halls.name}.halls")
    sink.take(lenient.select("_stream", "id"))
    assert shown(sink.rows()) == [("hall-a", 1), ("hall-a", 2), ("hall-a", 3)]


def test_streams_that_are_altered_between_two_runs(halls: Halls, tmp_path: Path) -> None:
    """What an earlier query has found out about the same streams is not used for the later one."""
    halls.add("hall-b", 10)

    def read(sink: str, *columns: str) -> list[tuple[object, ...]]:
        files = ParquetSink(halls.spark, tmp_path / sink)
        files.take(halls.spark.readStream.table(f"{halls.name}.halls").select(*columns))
        return sorted(tuple(row) for row in files.rows())

    assert read("before", "id") == [(1,), (10,)]
    for stream in ("hall-a", "hall-b"):
        halls.spark.sql(f"ALTER TABLE {halls.name}.`{stream}` ADD COLUMN more STRING")
        halls.spark.sql(f"ALTER TABLE {halls.name}.`{stream}` ALTER COLUMN id TYPE BIGINT")
    halls.spark.sql(f"INSERT INTO {halls.name}.hall_a VALUES (2, 'two')")
    halls.spark.sql(f"INSERT INTO {halls.name}.hall_b VALUES (11, 'eleven')")
    assert read("after", "id", "more") == [(1, None), (2, "two"), (10, None), (11, "eleven")]


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_all_scans_of_a_query_end_at_the_same_tails(spark: SparkSession, fresh_name: str, times: int) -> None:
    """Also one that reads a single stream because of its condition, whichever of them is planned first."""
    name = f"pravega.{fresh_name}"
    spark.sql(f"CREATE NAMESPACE {name}")
    try:
        for stream in ("a", "b"):
            spark.sql(f"CREATE TABLE {name}.{stream} (v BIGINT) USING pravega")
            spark.sql(f"INSERT INTO {name}.{stream} SELECT id FROM range(100)")
        spark.sql(f"CREATE TABLE {name}.both USING pravega TBLPROPERTIES ('streams'='a,b')")
        queries = [query for query in QUERIES if "CHANGES" not in query]
        queries.append("SELECT (SELECT count(*) FROM {t} WHERE _stream = 'b') = count_if(_stream = 'b') FROM {t}")
        queries.append("SELECT count_if(_stream = 'b') = (SELECT count(*) FROM {t} WHERE _stream = 'b') FROM {t}")
        with inserting(spark, f"{name}.b"):
            for query in times * [each.format(t=f"{name}.both") for each in queries]:
                assert spark.sql(query).first() == (True,), query
    finally:
        spark.sql(f"DROP NAMESPACE {name} CASCADE")


def test_conditions_on_the_stream_read_nothing_of_others(halls: Halls) -> None:
    halls.add("hall-b", *range(100))
    table = halls.spark.table(f"{halls.name}.halls")

    def plan(condition: str) -> str:
        found = table.where(condition).select("id")
        assert found.count() == sum(1 for row in table.select("_stream", "_scope", "id").where(condition).collect())
        return str(found._jdf.queryExecution().toString())

    assert "segments: 2" in plan("id >= 0")
    assert "segments: 1," in plan("_stream = 'hall-b'") and "segments: 1," in plan("_stream IN ('hall-b', 'x')")
    assert "segments: 0, bytes: 0" in plan("_scope = 'elsewhere' AND id > 3")


def test_columns_of_some_streams_and_of_the_same_name(halls: Halls, pravega: Pravega, tmp_path: Path) -> None:
    """A frame shows new streams, if these have its columns; columns of the events hide those about the stream."""
    frame = halls.spark.table(f"{halls.name}.halls")
    halls.add("hall-b", 2, columns="id INT NOT NULL, temp DOUBLE")
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert halls.spark.table(f"{halls.name}.halls").columns == ["id", "temp"]
    halls.spark.sql(f"ALTER TABLE {halls.name}.hall_a ADD COLUMN temp DOUBLE")
    halls.spark.sql(f"INSERT INTO {halls.name}.hall_a VALUES (3, 20.5)")
    rows = halls.spark.sql(f"SELECT * FROM {halls.name}.halls ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, None), (3, 20.5)]
    halls.add("hall-c", 4, columns="id INT, _stream STRING")
    rows = halls.spark.sql(f"SELECT id, _stream, _scope FROM {halls.name}.halls WHERE id > 2 ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(3, None, halls.name[8:]), (4, None, halls.name[8:])]
    # Also in a micro-batch that has events of other streams alone.
    sink = ParquetSink(halls.spark, tmp_path)
    for id in (5, 6):
        halls.insert("hall-a", id)
        sink.take(halls.spark.readStream.table(f"{halls.name}.halls").select("id", "_stream", "_scope"))
    found = sorted((row.id, row._stream, row._scope) for row in sink.rows())
    assert found == [(id, None, halls.name[8:]) for id in range(1, 7)]
    # Another program makes a stream of the table's name: it counts until it is dropped.
    pravega.controller.create_stream(
        Stream(halls.name[8:], "halls"), StreamConfiguration(ScalingPolicy("fixed", 0, 0, 1))
    )
    assert halls.spark.table(f"{halls.name}.halls").columns == ["event"]
    refused(halls.spark, f"CREATE TABLE {halls.name}.halls (id INT) USING pravega", "ALREADY_EXISTS", "halls")
    halls.spark.sql(f"DROP TABLE {halls.name}.halls")
    assert halls.spark.table(f"{halls.name}.halls").count() == 6


def test_rights_are_those_to_the_streams(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str
) -> None:
    """`views` reads all but the streams `secret`; `no-tables` all streams, but not what scopes keep."""
    spark, place = secure_spark, f"secure.`{secure_scope}`"
    for name in ("secret", "open"):
        spark.sql(f"CREATE TABLE {place}.{name} (id INT) USING pravega")
        spark.sql(f"INSERT INTO {place}.{name} VALUES (1)")
    spark.sql(f"CREATE TABLE {place}.all USING pravega TBLPROPERTIES ('pattern'='secret|open')")
    spark.sql(f"CREATE TABLE {place}.listed USING pravega TBLPROPERTIES ('streams'='open,secret')")
    spark.sql(f"CREATE TABLE {place}.free USING pravega TBLPROPERTIES ('streams'='open')")
    views, none = (
        f"{catalog_of(spark, secure_cluster, f'merged_of_{number}', user, secure_cluster.users[user])}.`{secure_scope}`"
        for number, user in enumerate(("views", "no-tables"))
    )
    denied = "PRAVEGA_PERMISSION_DENIED"
    assert spark.table(f"{place}.all").count() == 2 and spark.table(f"{views}.free").count() == 1
    for name in ("all", "listed"):
        refused(spark, f"SELECT * FROM {views}.{name}", denied, "secret")
    refused(spark, f"CREATE TABLE {views}.mine USING pravega TBLPROPERTIES ('streams'='open,secret')", denied, "secret")
    refused(spark, f"CREATE TABLE {views}.mine USING pravega TBLPROPERTIES ('streams'='open')", denied, "READ_UPDATE")
    refused(spark, f"ALTER TABLE {views}.free SET TBLPROPERTIES ('pattern'='open')", denied, "READ_UPDATE")
    refused(spark, f"DROP TABLE {views}.free", denied)
    refused(spark, f"SELECT * FROM {none}.free", "TABLE_OR_VIEW_NOT_FOUND")
    assert [row[1] for row in spark.sql(f"SHOW TABLES IN {none}").collect()] == ["open", "secret"]
    assert [row[1] for row in spark.sql(f"SHOW TABLES IN {place}").collect()] == sorted(
        ("all", "free", "listed", "open", "secret")
    )
