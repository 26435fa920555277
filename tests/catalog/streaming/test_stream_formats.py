"""Streams of tables of every kind: formats, streams of others, types, changelogs, events that cannot be decoded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.core.framing import make_header
from tests.catalog.tables.test_debezium import create_stream, write
from tests.debezium import Record
from tests.streams import ParquetSink, run_available


def test_every_format(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    for number, format in enumerate(("avro", "json", "csv")):
        name = f"pravega.`{scope}`.`in-{format}`"
        spark.sql(f"CREATE TABLE {name} (id INT, place STRING) TBLPROPERTIES ('format'='{format}')")
        spark.sql(f"INSERT INTO {name} VALUES (1, 'hall'), (2, NULL)")
        sink = ParquetSink(spark, tmp_path / str(number))
        sink.take(spark.readStream.table(name))
        assert sorted(sink.rows()) == [(1, "hall"), (2, None)], format


def test_a_stream_of_others(spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    """Nobody has declared anything about it: it is a table of bytes, and has no versions."""
    stream = Stream(scope, "foreign")
    create_stream(pravega, stream, 2)
    write(pravega, stream, [Record(f"key-{number}", b"%d" % number) for number in range(10)])
    sink = ParquetSink(spark, tmp_path)
    rows = spark.readStream.table(f"pravega.`{scope}`.foreign")
    [batch] = sink.take(rows)
    write(pravega, stream, [Record("key", b"10")])
    sink.take(rows)
    assert sorted(int(row.event) for row in sink.rows()) == list(range(11))
    assert "secondsBehind" in batch["sources"][0]["metrics"]
    with pytest.raises(StreamingQueryException, match="its writers note no times, from which Pravega makes"):
        run_available(
            spark.readStream.option("start-timestamp", "0")
            .table(f"pravega.`{scope}`.foreign")
            .writeStream.format("noop"),
            tmp_path / "by-time",
        )


def test_one_type_of_several(spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    stream = Stream(scope, "orders")
    create_stream(pravega, stream, 2)
    registry = pravega.registry(scope)
    registry.create_group("orders", GroupProperties("Avro", Compatibility("AllowAny"), allow_multiple_types=True))
    ids = {}
    for type in ("Placed", "Paid"):
        schema = {"type": "record", "name": type, "fields": [{"name": "id", "type": "int"}]}
        version = registry.add_schema("orders", SchemaInfo.of_text(type, "Avro", json.dumps(schema)))
        ids[type] = registry.encoding_id("orders", version)
    events = [("Placed" if number % 3 else "Paid", number) for number in range(30)]
    write(
        pravega, stream, [Record(str(number), make_header(ids[type]) + bytes([2 * number])) for type, number in events]
    )
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.option("maxRowsPerTrigger", 8).table(f"pravega.`{scope}`.`orders$Paid`"))
    sink.take(spark.readStream.option("maxRowsPerTrigger", 8).table(f"pravega.`{scope}`.orders.Paid"))
    assert sorted(row.id for row in sink.rows()) == [number for type, number in events if type == "Paid"]
    assert spark.table(f"pravega.`{scope}`.orders.schemas").count() == 2
    both = f"pravega.`{scope}`.both"
    spark.sql(f"CREATE TABLE {both} USING pravega TBLPROPERTIES ('streams'='orders$Paid,orders$Placed')")
    with pytest.raises(AnalysisException, match="several types of events of one stream"):
        spark.readStream.option("consumer", "report").table(both)


@pytest.fixture
def damaged(spark: SparkSession, pravega: Pravega, scope: str) -> str:
    """A table with the rows 1, 2 and 3, and two events that are none."""
    name = f"pravega.`{scope}`.events"
    spark.sql(f"CREATE TABLE {name} (a INT NOT NULL) TBLPROPERTIES ('format'='json', 'framing'='none')")
    events = [b'{"a":1}', b"?", b'{"a":2}', b'{"a":"x"}', b'{"a":3}']
    write(pravega, Stream(scope, "events"), [Record("k", each) for each in events])
    return name


def test_modes_for_bad_events(spark: SparkSession, damaged: str, tmp_path: Path) -> None:
    def taken(mode: str) -> list[int]:
        sink = ParquetSink(spark, tmp_path / mode)
        sink.take(spark.readStream.option("mode", mode).table(damaged))
        return sorted(-1 if row.a is None else row.a for row in sink.rows())

    with pytest.raises(StreamingQueryException, match="PRAVEGA_MALFORMED_EVENT.*not a JSON document"):
        taken("failfast")
    assert taken("dropmalformed") == [1, 2, 3]
    assert taken("permissive") == [-1, -1, 1, 2, 3]


def test_dead_letters_are_written_once(spark: SparkSession, damaged: str, scope: str, tmp_path: Path) -> None:
    """Whatever is done again: a task, a micro-batch that failed, or one whose end Spark has forgotten."""
    attempts: list[list[int]] = []

    def take(batch: DataFrame, number: int) -> None:
        attempts.append(sorted(row.a for row in batch.collect()))
        if len(attempts) == 1:
            raise RuntimeError("the target is down")

    def run(checkpoint: str) -> None:
        rows = spark.readStream.option("dead-letter", "letters").table(damaged)
        run_available(rows.writeStream.foreachBatch(take), tmp_path / checkpoint)

    with pytest.raises(StreamingQueryException, match="the target is down"):
        run("first")
    run("first")
    for file in (tmp_path / "first" / "commits").iterdir():
        file.unlink()
    run("first")
    assert attempts == [[1, 2, 3]] * 3
    letters = f"SELECT event FROM pravega.`{scope}`.letters"
    assert sorted(bytes(row.event) for row in spark.sql(letters).collect()) == [b"?", b'{"a":"x"}']
    run("second")  # another query finds them, too
    assert spark.sql(letters).count() == 4
