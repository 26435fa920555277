"""Thousands of damaged events of each format that is decoded in Python: none moves or changes another.

What the native decoder reads is compared with the reference in `native/test_fuzz` and `changes/test_native_reader`.
`make fuzz` does all with a million (FUZZ_EVENTS), and other damage each time it is given another FUZZ_SEED.
"""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Decoder, Layout, WriterSchema, find_format
from tests.formats.changes.test_debezium_encodings import AVRO_TABLE, MYSQL, MYSQL_ROW, avro_row, avro_schema, confluent
from tests.formats.core.test_mutations import FIELDS, PROTO, PROTO_ROW, ROW
from tests.formats.fuzzing import COUNT, SEED, damaged
from tests.protobuf_schemas import schema_text

PIECE = 1000
ALONE = 50
"""One event of so many is also decoded alone, and one of so many is not damaged."""


def rows_as(format_name: str, schema: StructType, rows: list[dict[str, object]]) -> tuple[Decoder, list[bytes]]:
    format = find_format(format_name)
    text = format.schema_text(Layout(schema), "t", "s")
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    return format.decoder(Layout(schema, text)), format.encoder(Layout(schema, text)).encode(batch).to_pylist()


def csv() -> tuple[Decoder, list[bytes]]:
    table = StructType(FIELDS)
    return rows_as("csv", table, [{name: ROW[name] for name in table.names}, dict.fromkeys(table.names)])


def text() -> tuple[Decoder, list[bytes]]:
    return rows_as("text", find_format("text").spark_schema(""), [{"value": "größe 🙂"}, {"value": ""}])


def protobuf() -> tuple[Decoder, list[bytes]]:
    format = find_format("protobuf")
    message = schema_text(PROTO, "M")
    schema = format.spark_schema(message)
    batch = pa.RecordBatch.from_pylist([PROTO_ROW], schema=arrow_schema(schema))
    writer = WriterSchema(message, "Protobuf", "")
    payloads = format.encoder(Layout(schema, message), 3).encode(batch).to_pylist()
    return format.decoder(Layout(schema, message), lambda encoding_id: writer), payloads


def debezium_avro() -> tuple[Decoder, list[bytes]]:
    format = find_format("debezium-avro")
    schema = avro_schema()
    source = {"connector": "postgresql", "name": "dbz", "lsn": 17}
    event = {"before": None, "source": source, "op": "c", "ts_ms": 3, "after": avro_row()}
    settings = {"debezium.avro-schemas": json.dumps({"7": schema})}
    table = format.schema_text(Layout(AVRO_TABLE), "t", "s")
    decoder = format.decoder(Layout(changelog_schema(AVRO_TABLE), table, settings))
    return decoder, [confluent(7, schema, event), confluent(7, schema, {**event, "op": "r"})]


def maxwell_json() -> tuple[Decoder, list[bytes]]:
    format = find_format("maxwell-json")
    event = {"type": "update", "ts": 1, "data": MYSQL_ROW, "old": {"id": 2}, "position": "b.1:7", "xoffset": 3}
    decoder = format.decoder(Layout(changelog_schema(MYSQL), format.schema_text(Layout(MYSQL), "t", "s"), {}))
    times = {"at": "2024-02-29 13:14:15", "at6": "2024-02-29 13:14:15.123456", "day": "2024-02-29"}
    return decoder, [json.dumps({**event, "data": {**MYSQL_ROW, **times}}).encode(), b'{"type":"insert","data":{}}']


CASES = {make.__name__: make for make in (csv, text, protobuf, debezium_avro, maxwell_json)}


@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
@pytest.mark.parametrize("case", CASES)
def test_damaged_events(case: str) -> None:
    decoder, payloads = CASES[case]()
    chance = random.Random(f"{SEED} {case}")
    whole = [str(column) for column in decoder.decode(EventBuffer.of(payloads[:1])).columns]
    read = refused = 0
    for begin in range(0, COUNT, PIECE):
        size = min(PIECE, COUNT - begin)
        events = [payloads[0] if at % ALONE == 0 else damaged(chance.choice(payloads), chance) for at in range(size)]
        batch, bad = decoder.decode_valid(EventBuffer.of(events))
        batch.validate(full=True)
        reasons = {event.index: event.reason for event in bad}
        assert batch.num_rows == size - len(reasons)
        read, refused = read + batch.num_rows, refused + len(reasons)
        places = {index: place for place, index in enumerate(i for i in range(size) if i not in reasons)}
        for index in range(0, size, ALONE):
            assert [str(column) for column in batch.slice(places[index], 1).columns] == whole
        for index in range(7, size, ALONE):
            alone, bad_alone = decoder.decode_valid(EventBuffer.of([events[index]]))
            assert [event.reason for event in bad_alone] == ([reasons[index]] if index in reasons else [])
            if index in places:
                row = batch.slice(places[index], 1)
                assert list(map(str, alone.columns)) == list(map(str, row.columns))
    assert read + refused == COUNT
    # The damage is neither so slight nor so great that nothing would be shown.
    assert refused > COUNT // 1000
    assert read > COUNT // 50
