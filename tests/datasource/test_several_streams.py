"""`streams` and `pattern` of the source `pravega`: several streams of a scope read as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.streams import PATIENCE, ParquetSink, into_memory, run_available

Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, scope: str, cluster: ClusterInfo) -> Read:
    """A function from options to the DataFrame of the streams that they name; `_` stands for `-`."""

    def load(columns: str | None = None, streaming: bool = False, **options: str) -> DataFrame:
        reader: Any = (spark.readStream if streaming else spark.read).format("pravega").option("scope", scope)
        reader = reader.option("controller-uri", cluster.controller_uri)
        reader = reader.option("schema-registry-uri", str(cluster.registry_uri))
        for key, text in options.items():
            reader = reader.option(key.replace("_", "-"), text)
        return reader.load() if columns is None else reader.schema(columns).load()

    return load


@pytest.fixture
def create(spark: SparkSession, scope: str) -> Callable[..., str]:
    """A function that makes a table with columns, format and rows (as SQL) and returns its name in SQL."""

    def make(name: str, columns: str, rows: str = "", **properties: str) -> str:
        table = f"pravega.`{scope}`.`{name}`"
        given = {"format": "json", **{key.replace("_", "-"): text for key, text in properties.items()}}
        listed = ", ".join(f"'{key}'='{text}'" for key, text in given.items())
        spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ({listed})")
        if rows:
            spark.sql(f"INSERT INTO {table} VALUES {rows}")
        return table

    return make


def test_rows_of_all_streams_with_their_names(create: Callable[..., str], read: Read) -> None:
    create("sensor-a", "id INT NOT NULL, temp DOUBLE", "(1, 20.5), (2, NULL)", **{"scaling.min-segments": "2"})
    create("sensor-b", "id INT NOT NULL, temp DOUBLE", "(3, 21.0)", framing="none")
    create("sensor-c", "id INT NOT NULL, temp DOUBLE")
    create("other", "name STRING", "('x')")
    for chosen in ({"streams": "sensor-a, sensor-b,sensor-c"}, {"pattern": "sensor-.*"}):
        found = read(**chosen)
        assert found.columns == ["id", "temp", "_stream", "_segment", "_offset", "_event_pointer"]
        assert not found.schema["id"].nullable
        wanted = [(1, 20.5, "sensor-a"), (2, None, "sensor-a"), (3, 21.0, "sensor-b")]
        assert sorted(tuple(row) for row in found.select("id", "temp", "_stream").collect()) == wanted
    assert found.count() == 3
    assert sorted(tuple(row) for row in found.groupBy("_stream").count().collect()) == [
        ("sensor-a", 2),
        ("sensor-b", 1),
    ]
    assert found.limit(2).count() == 2
    assert [row.id for row in found.where("_stream = 'sensor-b'").select("id").collect()] == [3]
    [raw] = found.where("id = 3").select("_raw", "_segment").collect()
    assert raw._raw == b'{"id":3,"temp":21.0}' and "/sensor-b/" in raw._segment


def test_a_stream_that_comes_later_is_found_by_the_next_scan(create: Callable[..., str], read: Read) -> None:
    create("sensor-a", "id INT", "(1)")
    found = read(pattern="sensor-[ab]")
    assert found.count() == 1
    create("sensor-b", "id INT", "(2), (3)")
    assert found.count() == 3


def test_columns_that_only_some_streams_have(create: Callable[..., str], read: Read) -> None:
    create("a", "id INT, place STRUCT<x: INT, y: STRING>", "(1, named_struct('x', 1, 'y', 'hall'))", format="avro")
    create("b", "id INT NOT NULL, temp DOUBLE", "(2, 20.5)", format="avro")
    found = read(streams="a,b")
    assert found.columns[:4] == ["id", "place", "temp", "_stream"]
    assert found.schema["id"].nullable
    rows = found.selectExpr("id", "place.y", "temp").collect()
    assert sorted(tuple(row) for row in rows) == [(1, "hall", None), (2, None, 20.5)]
    temps = read("temp DOUBLE", streams="a,b").collect()
    assert sorted((row.temp or 0) for row in temps) == [0, 20.5]


def test_events_without_a_schema(create: Callable[..., str], read: Read, spark: SparkSession) -> None:
    for name, line in (("a", '{"id": 1}'), ("b", "{")):
        table = create(name, "value STRING", format="text")
        spark.createDataFrame([(line,)], "value STRING").writeTo(table).append()
    bare = {"streams": "a,b", "format": "json", "framing": "none"}
    good = read("id INT, _stream STRING", **bare, mode="dropmalformed")
    assert [tuple(row) for row in good.collect()] == [(1, "a")]
    assert good.count() == 1
    every = read("id INT, _stream STRING, _error STRING", **bare, mode="permissive").collect()
    assert sorted((row.id or 0, row._stream, row._error is None) for row in every) == [(0, "b", False), (1, "a", True)]


DIFFERENT = "PRAVEGA_DIFFERENT_SCHEMAS"
OPTION = "PRAVEGA_INVALID_OPTION"


def test_columns_that_do_not_fit(create: Callable[..., str], read: Read, scope: str) -> None:
    create("a", "id INT")
    create("b", "id INT")
    for odd, columns, words in (
        ("type", "id STRING", ("column id is string in stream {s}/type", "int in stream {s}/a and 1 more")),
        ("case", "ID INT", ("Column ID of stream {s}/case", "spelled id")),
        ("null", "id INT, more INT NOT NULL", ("Column more is NOT NULL in stream {s}/null", "{s}/a has no such")),
    ):
        create(odd, columns)
        with pytest.raises(PySparkException, match=DIFFERENT) as caught:
            read(pattern=f".|{odd}")
        assert all(word.format(s=scope) in str(caught.value) for word in words), str(caught.value)
    assert read(streams="a,b").count() == 0


def test_what_is_refused(create: Callable[..., str], read: Read, spark: SparkSession, scope: str) -> None:
    create("a", "id INT")
    create("text", "value STRING", format="text")
    create("customers", "id INT", format="debezium-json", primary_key="id")
    wrong: list[tuple[dict[str, str], str, tuple[str, ...]]] = [
        ({"streams": "a,text"}, DIFFERENT, ("format is", "{s}/text")),
        ({"streams": "a,missing"}, "PRAVEGA_STREAM_NOT_FOUND", ("'missing'",)),
        ({"streams": "a,a"}, OPTION, ("'streams'", "different names")),
        ({"streams": "a,customers"}, "PRAVEGA_UNSUPPORTED_OPERATION", ("{s}/customers", "`customers$changelog`")),
        ({"pattern": "nothing-.*"}, "PRAVEGA_STREAM_NOT_FOUND", ("'nothing-.*'", "{s}")),
        ({"pattern": "("}, OPTION, ("'pattern'", "regular expression")),
        ({"pattern": "a", "stream": "a"}, OPTION, ("'stream' and 'pattern'",)),
        ({"streams": "a", "end-version": "1"}, OPTION, ("'end-version'", "several")),
    ]
    for options, condition, words in wrong:
        with pytest.raises(PySparkException) as caught:
            read(**options).collect()
        assert condition in str(caught.value), str(caught.value)
        assert all(word.format(s=scope) in str(caught.value) for word in words), str(caught.value)
    assert read(streams="customers$changelog").columns[-4] == "_stream"
    with pytest.raises(PySparkException, match="the table itself sets"):
        spark.sql(f"SELECT * FROM pravega.`{scope}`.a WITH ('streams'='a')").collect()
    with pytest.raises(PySparkException, match="'streams' cannot be a write option"):
        spark.range(1).write.format("pravega").option("scope", scope).option("streams", "a").mode("append").save()


def test_a_stream_of_several(create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path) -> None:
    tables = [create(f"sensor-{name}", "id INT, temp DOUBLE", "(1, 20.5)") for name in "ab"]
    rows = read(streaming=True, pattern="sensor-.*", discovery_interval="1s").select("_stream", "id")
    with into_memory(rows, tmp_path) as sink:
        assert sorted(sink.rows()) == [("sensor-a", 1), ("sensor-b", 1)]
        for table in tables:
            spark.sql(f"INSERT INTO {table} VALUES (2, 20.5)")
        assert len(sink.rows()) == 4
        create("sensor-c", "id INT", "(7), (8)")  # has fewer columns
        deadline = time.monotonic() + PATIENCE
        while len(found := sink.rows()) < 6 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert sorted(row.id for row in found if row._stream == "sensor-c") == [7, 8]


@pytest.mark.long
def test_a_query_of_several_goes_on(
    create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path
) -> None:
    tables = [create(name, "id INT", f"({number})") for number, name in enumerate("ab")]
    sink = ParquetSink(spark, tmp_path)
    [progress] = sink.take(read(streaming=True, streams="a,b"))
    assert progress["numInputRows"] == 2
    metrics = progress["sources"][0]["metrics"]
    assert {metrics[key] for key in ("bytesBehind", "bytesBehind.a", "bytesBehind.b", "secondsBehind")} <= {"0", "0.0"}
    assert sink.take(read(streaming=True, streams="a,b")) == []
    for table in tables:
        spark.sql(f"INSERT INTO {table} VALUES (10), (11)")
    create("c", "id INT", "(20)")
    assert sum(batch["numInputRows"] for batch in sink.take(read(streaming=True, streams="b,c,a"))) == 5
    assert sorted((row._stream, row.id) for row in sink.rows()) == [
        *(("a", 0), ("a", 10), ("a", 11), ("b", 1), ("b", 10), ("b", 11), ("c", 20)),
    ]


def test_limits_hold_over_all_streams_and_are_fair(
    create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path
) -> None:
    values = ", ".join(f"({number})" for number in range(20))
    for name in "ab":
        create(name, "id INT", values)
    sink = ParquetSink(spark, tmp_path)
    batches = sink.take(read(streaming=True, streams="a,b", maxRowsPerTrigger="10"))
    assert len(batches) >= 4 and max(batch["numInputRows"] for batch in batches) <= 10
    for batch in batches[:3]:
        metrics = batch["sources"][0]["metrics"]
        behind = [int(metrics[key]) for key in ("bytesBehind.a", "bytesBehind.b")]
        assert sum(behind) == int(metrics["bytesBehind"])
        assert min(behind) > 0 and max(behind) - min(behind) < 50  # two events
    assert sorted((row._stream, row.id) for row in sink.rows()) == [
        (name, number) for name in "ab" for number in range(20)
    ]


def test_a_stream_that_is_dropped(create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path) -> None:
    tables = [create(f"sensor-{name}", "id INT", "(1)") for name in "ab"]
    sink = ParquetSink(spark, tmp_path)
    sink.take(read(streaming=True, pattern="sensor-.*"))
    spark.sql(f"DROP TABLE {tables[1]}")
    spark.sql(f"INSERT INTO {tables[0]} VALUES (2)")
    with pytest.raises(StreamingQueryException, match=r"PRAVEGA_DATA_LOSS.*sensor-b.*'fail-on-data-loss'"):
        sink.take(read(streaming=True, pattern="sensor-.*"))
    sink.take(read(streaming=True, pattern="sensor-.*", fail_on_data_loss="false"))
    assert sorted((row._stream, row.id) for row in sink.rows()) == [("sensor-a", 1), ("sensor-a", 2), ("sensor-b", 1)]


@pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_stream_that_is_dropped_while_the_query_runs(
    create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path, strict: bool
) -> None:
    tables = [create(f"sensor-{name}", "id INT", "(1)") for name in "ab"]
    options = {"pattern": "sensor-.*", "discovery_interval": "1h", "fail_on_data_loss": str(strict).lower()}
    rows = read(streaming=True, **options).select("id")
    sink = rows.writeStream.format("memory").queryName(f"dropped_{str(strict).lower()}")
    query = sink.option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        spark.sql(f"DROP TABLE {tables[1]}")
        if strict:
            with pytest.raises(StreamingQueryException, match="sensor-b"):
                query.awaitTermination(PATIENCE)
        else:
            for number in (2, 3):
                spark.sql(f"INSERT INTO {tables[0]} VALUES ({number})")
                query.processAllAvailable()
            assert sorted(row.id for row in spark.table(query.name).collect()) == [1, 1, 2, 3]
    finally:
        query.stop()


def test_a_new_stream_that_does_not_fit(
    create: Callable[..., str], read: Read, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    create("sensor-a", "id INT", "(1)")
    rows = read(streaming=True, pattern="sensor-.*", discovery_interval="1s")
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        create("sensor-b", "id STRING", "('1')")
        with pytest.raises(StreamingQueryException) as caught:
            query.awaitTermination(PATIENCE)
        assert DIFFERENT in str(caught.value)
        assert f"Column id is string in stream {scope}/sensor-b, but int in the others" in str(caught.value)
    finally:
        query.stop()


def test_each_of_several_streams_has_its_own_cut(
    create: Callable[..., str], read: Read, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    cuts = []
    for name in "ab":
        table = create(name, "id INT", "(1), (2)")
        spark.sql(f"INSERT INTO {table} VALUES (3)")
        cuts.append([row.stream_cut for row in spark.table(f"{table}.history").orderBy("version").collect()])
        spark.sql(f"INSERT INTO {table} VALUES (4)")
    (_, b), (first, last) = cuts[1], cuts[0]
    between = read(streams="a,b", start_stream_cut=f"{first};{b}", end_stream_cut=f"{b}; {last}")
    assert sorted((row._stream, row.id) for row in between.collect()) == [("a", 3)]
    with into_memory(read(streaming=True, streams="a,b", start_stream_cut=f"{b};{first}"), tmp_path / "c") as sink:
        assert sorted((row._stream, row.id) for row in sink.rows()) == [("a", 3), ("a", 4), ("b", 4)]
    create("c", "id INT", "(5)")
    for streams, wrong in (("a,c", f"{first};{b}"), ("a,b", f"{first};{b};{last}")):
        missing = "c" if "c" in streams else "a"
        told = f"'start-stream-cut': it has . stream cuts; give one of stream {scope}/{missing} among them"
        with pytest.raises(PySparkException, match=told):
            read(streams=streams, start_stream_cut=wrong).collect()


def test_what_belongs_to_one_stream(create: Callable[..., str], read: Read, tmp_path: Path) -> None:
    create("a", "id INT", "(1)")
    for option, value in (("start-stream-cut", "consumer"), ("start-version", "1")):
        rows = read(streaming=True, streams="a", **{option: value}).select("id")
        with pytest.raises(StreamingQueryException, match=f"'{option}' is a position in one stream"):
            run_available(rows.writeStream.format("noop"), tmp_path / option)


def test_hidden_columns_of_a_stream_of_several(create: Callable[..., str], read: Read, tmp_path: Path) -> None:
    """All but the versions of events, which are those of one stream."""
    create("a", "id INT", "(1)", framing="none")
    with pytest.raises(PySparkException, match=r"UNRESOLVED_COLUMN.*_commit_version"):
        read(streaming=True, streams="a").select("_commit_version")
    rows = read(streaming=True, streams="a").select("_scope", "_stream", "_raw", "_event_time", "_event_time_upper")
    with into_memory(rows, tmp_path / "raw") as sink:
        assert [tuple(row)[1:] for row in sink.rows()] == [("a", b'{"id":1}', None, None)]


def test_a_micro_batch_of_several_is_done_again(
    create: Callable[..., str], read: Read, spark: SparkSession, tmp_path: Path
) -> None:
    """Also one in which a stream moved that did not in the one before, and the one that follows a new stream."""
    tables = [create(name, "id INT", f"({number})") for number, name in enumerate("ab")]
    found: dict[int, list[list[tuple[str, int]]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        found.setdefault(number, []).append(sorted((row._stream, row.id) for row in batch.collect()))

    def run() -> None:
        run_available(read(streaming=True, pattern=".*").writeStream.foreachBatch(take), tmp_path)

    run()
    tables.append(create("c", "id INT", "(20)"))
    spark.sql(f"INSERT INTO {tables[0]} VALUES (10)")
    run()
    last = max(found)
    assert [row for number in sorted(found) for row in found[number][0]] == [("a", 0), ("b", 1), ("a", 10), ("c", 20)]
    for table in tables:
        spark.sql(f"INSERT INTO {table} VALUES (30)")
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "commits" / name).unlink()
    run()
    assert found[last][1] == found[last][0]
    assert found[last + 1] == [[("a", 30), ("b", 30), ("c", 30)]]
