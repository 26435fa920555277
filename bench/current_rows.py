"""Measure how fast the events of a change table become its current rows, in SELECT and in the first micro-batch.

    python -m bench.current_rows [--events 1000000] [--rows 100000] [--segments 1 4 16] [--format json schemas avro]

Events are like those of Debezium's connector for PostgreSQL, each an insert or update of a random row. They are put
into the segments directly, those of a row into the same one. Rates are million events per second of the whole
statement, and per core second that the JVM, the catalog service and Python workers used together; Pravega's own are
left out. The first SELECT searches the events for truncations if there are several segments; the second knows them.
Then come SELECTs that remember the rows (`current-rows.remembered-in`), and SELECTs of rows that are remembered. With
`--grouped`, Spark groups the changelog by key too, whole and read in as many parts as there are cores, which is what
dividing a fold would be compared with. Rows are counted and their numbers added up, and the sums are compared with
those of the events.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import struct
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import SparkSession

from bench.latency_and_memory import find_driver
from bench.servers import open_cluster, open_session
from bench.streaming import time_with_cores
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.avro.cells import write_varint

BEGIN = 1_700_000_000_000
BLOCK = 1 << 20
NOTE = "x" * 40

_ROW = [("id", "int64"), ("device", "string"), ("temperature", "double"), ("note", "string")]
_SOURCE = [
    ("version", "string"), ("connector", "string"), ("name", "string"), ("ts_ms", "int64"), ("snapshot", "string"),
    ("db", "string"), ("sequence", "string"), ("ts_us", "int64"), ("ts_ns", "int64"), ("schema", "string"),
    ("table", "string"), ("txId", "int64"), ("lsn", "int64"), ("xmin", "int64"),
]  # fmt: skip
_TIMES = ("ts_ms", "ts_us", "ts_ns")


def write_json(number: int, row: int, temperature: float) -> bytes:
    """Write one event without a schema, as Debezium does."""
    millis, written = BEGIN + number, BEGIN + number + 500
    return (
        f'{{"before":null,"after":{{"id":{row},"device":"device-{row}","temperature":{temperature!r},"note":"{NOTE}"}},'
        f'"source":{{"version":"3.6.1.Final","connector":"postgresql","name":"dbz","ts_ms":{millis},"snapshot":"false",'
        f'"db":"shop","sequence":"[\\"{number}\\",\\"{number}\\"]","ts_us":{millis}000,"ts_ns":{millis}000000,'
        f'"schema":"inventory","table":"devices","txId":{number // 3},"lsn":{24_000_000 + number * 56},"xmin":null}},'
        f'"transaction":null,"op":"u","ts_ms":{written},"ts_us":{written}000,"ts_ns":{written}000000}}'
    ).encode()


def make_connect_schema() -> str:
    """Return the schema that Kafka Connect's converter writes before such an event."""

    def field(name: str, kind: str) -> dict[str, object]:
        return {"type": kind, "optional": True, "field": name}

    images = [
        {"type": "struct", "fields": [field(*each) for each in members], "optional": True, "field": name}
        for name, members in (("before", _ROW), ("after", _ROW), ("source", _SOURCE))
    ]
    fields = [*images, field("op", "string"), *(field(name, "int64") for name in _TIMES)]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "dbz.inventory.devices.Envelope"}
    return json.dumps(schema, separators=(",", ":"))


def make_avro_schema() -> str:
    """Return the same as Avro."""
    kinds = {"int64": "long"}

    def record(name: str, members: list[tuple[str, str]]) -> dict[str, object]:
        fields = [{"name": each, "type": ["null", kinds.get(kind, kind)], "default": None} for each, kind in members]
        return {"type": "record", "name": name, "fields": fields}

    fields = [
        {"name": "before", "type": ["null", record("Value", _ROW)], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": record("Source", _SOURCE)},
        {"name": "op", "type": "string"},
        *({"name": name, "type": ["null", "long"], "default": None} for name in _TIMES),
    ]
    return json.dumps({"type": "record", "name": "Envelope", "fields": fields}, separators=(",", ":"))


def write_avro(number: int, row: int, temperature: float) -> bytes:
    """Write the same event as Avro, after the header of Confluent's framing with the schema's id 7."""

    def text(value: str) -> bytes:
        data = value.encode()
        return b"\2" + write_varint(len(data)) + data

    def whole(value: int) -> bytes:
        return b"\2" + write_varint(value)

    millis, written = BEGIN + number, BEGIN + number + 500
    return b"".join(
        (
            b"\0\0\0\0\7\0\2", whole(row), text(f"device-{row}"), b"\2", struct.pack("<d", temperature), text(NOTE),
            _SOURCE_BEGIN, whole(millis), text("false"), text("shop"), text(f'["{number}","{number}"]'),
            whole(millis * 1000), whole(millis * 1_000_000), _SOURCE_TABLE, whole(number // 3),
            whole(24_000_000 + number * 56), b"\0\2u", whole(written), whole(written * 1000),
            whole(written * 1_000_000),
        )
    )  # fmt: skip


def _texts(*values: str) -> bytes:
    return b"".join(b"\2" + write_varint(len(value)) + value.encode() for value in values)


_SOURCE_BEGIN = _texts("3.6.1.Final", "postgresql", "dbz")
_SOURCE_TABLE = _texts("inventory", "devices")


def make_writer(kind: str) -> Callable[[int, int, float], bytes]:
    """Return what writes events of a kind."""
    if kind == "avro":
        return write_avro
    if kind == "json":
        return write_json
    begin, end = b'{"schema":' + make_connect_schema().encode() + b',"payload":', b"}"
    return lambda *event: begin + write_json(*event) + end


def properties(kind: str) -> str:
    """Return the properties of a table of such events."""
    if kind != "avro":
        return "'format'='debezium-json', 'framing'='none'"
    schemas = json.dumps({"7": make_avro_schema()}).replace("\\", "\\\\").replace("'", "\\'")
    return f"'format'='debezium-avro', 'framing'='none', 'debezium.avro-schemas'='{schemas}'"


def append_events(config: ClientConfig, stream: Stream, kind: str, events: int, rows: int) -> tuple[int, float, int]:
    """Put the events into the segments; return the number and the sum of the last values of rows, and the bytes."""
    chance, write, size = random.Random(1), make_writer(kind), 0
    last: dict[int, float] = {}
    with connect(config) as pravega:
        current = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        appenders = [SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) for segment in current]
        blocks: list[list[bytes]] = [[] for _ in current]
        sizes = [0] * len(current)

        def send(place: int) -> None:
            appenders[place].append(b"".join(blocks[place]), len(blocks[place]))
            blocks[place], sizes[place] = [], 0

        for number in range(events):
            row = chance.randrange(rows)
            last[row] = temperature = chance.randrange(400_000) / 16
            event = write(number, row, temperature)
            place = row % len(current)
            blocks[place].append(bytes(4) + len(event).to_bytes(4, "big") + event)
            sizes[place] += len(event) + 8
            size += len(event) + 8
            if sizes[place] >= BLOCK:
                send(place)
        for place, appender in enumerate(appenders):
            if blocks[place]:
                send(place)
            appender.flush()
            appender.close()
    return len(last), sum(last.values()), size


def measure(
    spark: SparkSession, config: ClientConfig, scope: str, kind: str, segments: int, arguments: argparse.Namespace
) -> Iterator[str]:
    """Yield one line for each kind of statement."""
    name = f"{kind}-{segments}"
    table = f"pravega.`{scope}`.`{name}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, device STRING, temperature DOUBLE, note STRING) USING pravega "
        f"TBLPROPERTIES ({properties(kind)}, 'primary-key'='id', 'scaling.min-segments'='{segments}')"
    )
    count, total, size = append_events(config, Stream(scope, name), kind, arguments.events, arguments.rows)
    jvm = find_driver(spark)
    every: dict[str, list[tuple[float, float]]] = {}

    def timed(what: str, action: Callable[[], None]) -> None:
        every.setdefault(what, []).append(time_with_cores(jvm, action))

    def select(options: str = "") -> None:
        found = spark.sql(f"SELECT count(device), count(note), sum(temperature) FROM {table} {options}").collect()
        assert [tuple(row) for row in found] == [(count, count, total)], found

    def batch() -> None:
        with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
            stream = spark.readStream.option("maxBytesPerTrigger", "1t").changes(table).writeStream.format("noop")
            query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            assert sum(progress.numInputRows for progress in query.recentProgress) >= arguments.events

    def group(parts: int) -> None:
        changelog = f"pravega.`{scope}`.`{name}$changelog` WITH ('min-partitions'='{parts}')"
        newest = f"SELECT max_by(after, _offset) AS row FROM {changelog} GROUP BY coalesce(after.id, before.id)"
        found = spark.sql(f"SELECT count(row.device), count(row.note), sum(row.temperature) FROM ({newest})").collect()
        assert [tuple(row) for row in found] == [(count, count, total)], found

    timed("first SELECT", select)
    for _ in range(arguments.rounds):
        timed("SELECT", select)
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(prefix="bench-rows-") as directory:
            remembering = partial(select, f"WITH ('current-rows.remembered-in'='{directory}')")
            timed("SELECT that remembers", remembering)
            timed("SELECT of remembered rows", remembering)
    for _ in range(arguments.rounds if arguments.grouped else 0):
        timed("changelog grouped, whole", partial(group, 1))
        timed("changelog grouped, in parts", partial(group, arguments.cores))
    for _ in range(0 if arguments.no_stream else arguments.rounds):
        timed("first micro-batch", batch)
    for what, times in every.items():
        spent, used = (statistics.median(each) for each in zip(*times, strict=True))
        million = arguments.events / 1e6
        yield (
            f"{kind}, {segments} segments, {size / arguments.events:.0f} bytes: {what} {spent:.2f} s, "
            f"{used:.2f} core seconds, {million / spent:.2f} M/s, {million / used:.2f} M/s and core"
        )
    spark.sql(f"DROP TABLE {table}")


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--segments", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--format", nargs="+", default=["json", "schemas", "avro"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--no-stream", action="store_true", help="leave the micro-batches out")
    parser.add_argument("--grouped", action="store_true", help="group the changelog of one segment by key")
    arguments = parser.parse_args()
    with open_cluster() as config, open_session(config, arguments.cores) as (spark, scope):
        for kind in arguments.format:
            for segments in arguments.segments:
                for line in measure(spark, config, scope, kind, segments, arguments):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
