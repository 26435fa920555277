"""Measure the Avro reader in Python beside `fastavro`, each without the native decoder, in turns on one core.

    python -m bench.avro_readers [--events 20000] [--rounds 5]

Ours ends with the record batch that Spark gets; `fastavro` ends with Python's values, without the step to Arrow.
`guarded` encodes what it has read again and compares the bytes, because `fastavro` takes some broken events for rows:
equal bytes show that the event was well-formed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.types import ArrayType, DoubleType, LongType, MapType, StringType, StructType

from bench.decoding import ENCODING_ID, NARROW, WIDE, make_narrow_row, make_struct, make_wide_row
from pyspark_pravega import native
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format

NESTED = make_struct(
    id=LongType(),
    lines=ArrayType(make_struct(item=StringType(), prices=ArrayType(DoubleType()))),
    labels=MapType(StringType(), make_struct(text=StringType(), weight=DoubleType())),
)


def make_nested_row(chance: random.Random) -> dict[str, Any]:
    lines = [
        {"item": f"item-{chance.randrange(1000)}", "prices": [chance.random() for _ in range(3)]} for _ in range(4)
    ]
    labels = {f"k{number}": {"text": "some text", "weight": chance.random()} for number in range(3)}
    return {"id": chance.randrange(10**9), "lines": lines, "labels": labels}


def list_ways(schema: StructType, rows: list[dict[str, Any]]) -> dict[str, Callable[[], Any]]:
    """Return the ways of reading the same events, by name."""
    format = find_format("avro")
    text = format.schema_text(Layout(schema), "event", "bench")
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    events = EventBuffer.of_arrow(format.encoder(Layout(schema, text), ENCODING_ID).encode(batch))
    payloads = format.encoder(Layout(schema, text)).encode(batch).to_pylist()
    writer = WriterSchema(text, "Avro", "")
    decoder = format.decoder(Layout(schema, text), lambda _: writer)
    parsed = fastavro.parse_schema(json.loads(text))
    assert decoder.decode_valid(events)[0].equals(batch)

    def read() -> None:
        for payload in payloads:
            fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)

    def read_guarded() -> None:
        for payload in payloads:
            value = fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
            again = io.BytesIO()
            fastavro.schemaless_writer(again, parsed, value)
            assert again.getvalue() == payload

    return {"ours, to Arrow": lambda: decoder.decode_valid(events), "fastavro": read, "fastavro, guarded": read_guarded}


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ[native.SWITCH] = "0"
    pa.set_cpu_count(1)
    chance = random.Random(1)
    shapes = {"narrow": (NARROW, make_narrow_row), "wide": (WIDE, make_wide_row), "nested": (NESTED, make_nested_row)}
    print(f"million events/s, best of {arguments.rounds}")
    for shape, (schema, make) in shapes.items():
        ways = list_ways(schema, [make(chance) for _ in range(arguments.events)])
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(arguments.rounds):
            for name, work in ways.items():
                begin = time.process_time()
                work()
                best[name] = min(best[name], time.process_time() - begin)
        for name, seconds in best.items():
            print(f"{shape:8} {name:20} {arguments.events / seconds / 1e6:6.3f}")


if __name__ == "__main__":
    main()
