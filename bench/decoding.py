"""Measure decoding to Arrow and encoding from Arrow, native and by the reference, on one core, without Spark.

    python -m bench.decoding [--events 200000] [--rounds 7] [--only avro]

Decoding is measured from framed bytes (registry header before each payload) in one buffer to the record batch that
Spark gets; encoding the other way round. The best round counts: other work on the machine only ever slows a round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from pyspark_pravega import native
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header

ENCODING_ID = 7
REFERENCE_SHARE = 10
"""The reference decodes only this fraction of the events, because it is that much slower."""


def make_struct(**types: Any) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


NARROW = make_struct(device=StringType(), at=LongType(), temperature=DoubleType(), status=IntegerType())
WIDE = make_struct(
    **{f"id{number}": LongType() for number in range(3)},
    **{f"count{number}": IntegerType() for number in range(4)},
    **{f"name{number}": StringType() for number in range(4)},
    **{f"value{number}": DoubleType() for number in range(3)},
    ok=BooleanType(),
    day=DateType(),
    at=TimestampType(),
    price=DecimalType(12, 2),
    place=make_struct(latitude=DoubleType(), longitude=DoubleType(), city=StringType()),
    readings=ArrayType(FloatType()),
)
CUSTOMER = make_struct(id=IntegerType(), first_name=StringType(), last_name=StringType(), email=StringType())
ENVELOPE = make_struct(before=CUSTOMER, after=CUSTOMER, op=StringType(), ts_ms=LongType())


def make_narrow_row(chance: random.Random) -> dict[str, Any]:
    return {
        "device": f"sensor-{chance.randrange(10_000):05}",
        "at": 1_700_000_000_000 + chance.randrange(10**9),
        "temperature": round(chance.uniform(-20, 40), 2),
        "status": chance.randrange(5),
    }


def make_wide_row(chance: random.Random) -> dict[str, Any]:
    return {
        **{f"id{number}": chance.randrange(10**12) for number in range(3)},
        **{f"count{number}": chance.randrange(-1000, 10**5) for number in range(4)},
        **{f"name{number}": f"name-{chance.randrange(10**6)}" for number in range(4)},
        **{f"value{number}": round(chance.random() * 1000, 3) for number in range(3)},
        "ok": chance.random() < 0.5,
        "day": chance.randrange(10_000, 20_000),
        "at": 1_700_000_000_000_000 + chance.randrange(10**15),
        "price": Decimal(chance.randrange(10**8)).scaleb(-2),
        "place": {"latitude": make_coordinate(chance), "longitude": make_coordinate(chance), "city": "Springfield"},
        "readings": [float(chance.randrange(1000)) / 8 for _ in range(5)],
    }


def make_coordinate(chance: random.Random) -> float:
    return round(chance.uniform(-90, 90), 6)


def make_debezium_event(chance: random.Random) -> bytes:
    customer = {"id": chance.randrange(10**6), "first_name": "Anne", "last_name": "Kretchmar"}
    customer["email"] = f"annek{chance.randrange(1000)}@noanswer.org"
    event = {
        "before": None,
        "after": customer,
        "source": {
            "version": "3.6.1.Final", "connector": "postgresql", "name": "dbz", "ts_ms": 1_700_000_000_123,
            "snapshot": "false", "db": "shop", "sequence": '["24023119","24023128"]', "schema": "inventory",
            "table": "customers", "txId": chance.randrange(10**4), "lsn": chance.randrange(10**8), "xmin": None,
        },
        "transaction": None,
        "op": chance.choice("cr"),
        "ts_ms": 1_700_000_000_000 + chance.randrange(10**9),
    }  # fmt: skip
    return json.dumps(event, separators=(",", ":")).encode()


SPARK_BATCH = 10_000
"""Rows that Spark hands to Python at once (`spark.sql.execution.arrow.maxRecordsPerBatch`)."""


@dataclass(frozen=True)
class Case:
    """One thing to decode or encode. `goal`: million events per second and core."""

    name: str
    format: str
    schema: StructType
    goal: float
    events: EventBuffer | None = None
    batch: pa.RecordBatch | None = None
    table: StructType | None = None
    """Of a change format: the columns of the table, `schema` being what is wanted of its changelog."""

    def work(self) -> tuple[Callable[[], Any], int, int]:
        """What is measured, how many events it takes and their bytes."""
        chosen = find_format(self.format)
        text = chosen.schema_text(Layout(self.table or self.schema), "event", "bench")
        if self.events is not None:
            writer = WriterSchema(text, str(chosen.registry_format), "")
            decoder = chosen.decoder(Layout(self.schema, text), lambda encoding_id: writer)
            events = self.events
            return (lambda: decoder.decode_valid(events)), len(events), int(events.lengths.sum())
        assert self.batch is not None
        encoder = chosen.encoder(Layout(self.schema, text), ENCODING_ID)
        batch = self.batch
        size = encoder.encode(batch).nbytes - 8 * (batch.num_rows + 1)
        parts = [batch.slice(first, SPARK_BATCH) for first in range(0, batch.num_rows, SPARK_BATCH)]

        def encode_all() -> None:
            for part in parts:
                encoder.encode(part)

        return encode_all, batch.num_rows, size

    def part(self, share: int) -> Case:
        """The first of the events."""
        events = None if self.events is None else self.events.part(0, max(1, len(self.events) // share))
        return Case(self.name, self.format, self.schema, self.goal, events, self.batch, self.table)


def make_cases(count: int) -> Iterator[Case]:
    chance = random.Random(1)
    rows = {
        "narrow": [make_narrow_row(chance) for _ in range(count)],
        "wide": [make_wide_row(chance) for _ in range(count)],
    }
    for format_name, goals in {"avro": (10.0, 1.5), "json": (4.0, 0.8)}.items():
        for (shape, made), schema, goal in zip(rows.items(), (NARROW, WIDE), goals, strict=True):
            encoder = find_format(format_name).encoder(Layout(schema), ENCODING_ID)
            batch = pa.RecordBatch.from_pylist(made, schema=arrow_schema(schema))
            payloads = encoder.encode(batch)
            yield Case(f"{format_name} {shape}", format_name, schema, goal, events=EventBuffer.of_arrow(payloads))
            broken = [
                payload[: len(payload) // 2] if place % 10 == 0 else payload
                for place, payload in enumerate(payloads.to_pylist())
            ]
            yield Case(f"{format_name} {shape}, 10 % cut off", format_name, schema, 0, events=EventBuffer.of(broken))
            goal = 1.5 if shape == "narrow" else 0
            yield Case(f"{format_name} {shape}, encode", format_name, schema, goal, batch=batch)
    events = [make_header(ENCODING_ID) + make_debezium_event(chance) for _ in range(count)]
    folded = StructType([field for field in changelog_schema(CUSTOMER) if field.name != "source"])
    buffer = EventBuffer.of(events)
    yield Case("debezium-json, current rows", "debezium-json", folded, 0.8, events=buffer, table=CUSTOMER)
    yield Case("its envelope as a struct", "json", ENVELOPE, 0, events=buffer)
    header, schema = make_header(ENCODING_ID), make_struct(v=VariantType())
    objects = [header + b'{"v":%b}' % json.dumps(row).encode() for row in rows["narrow"]]
    yield Case("json narrow in a VARIANT", "json", schema, 0, events=EventBuffer.of(objects))
    two = StructType([field for field in WIDE if field.name in ("id1", "at")])
    for format_name in ("avro", "json"):
        encoder = find_format(format_name).encoder(Layout(WIDE), ENCODING_ID)
        wide = pa.RecordBatch.from_pylist(rows["wide"], schema=arrow_schema(WIDE))
        payloads = encoder.encode(wide)
        if format_name == "json":
            yield Case("json wide, 2 of 20 columns", "json", two, 0, events=EventBuffer.of_arrow(payloads))


def measure_best_rate(case: Case, rounds: int) -> tuple[float, float]:
    """Million events per second, and bytes per event."""
    work, count, size = case.work()
    work()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return count / min(seconds) / 1e6, size / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--native-only", action="store_true", help="leave the reference out")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    print(f"native: {native.get_status().text}")
    what = f"million events/s, best of {arguments.rounds}"
    print(f"{what:34} {'B':>5} {'native':>8} {'reference':>10} {'goal':>6}")
    for case in make_cases(arguments.events):
        if arguments.only not in case.name:
            continue
        os.environ[native.SWITCH] = "1"
        rate, size = measure_best_rate(case, arguments.rounds)
        reference = "-"
        if not arguments.native_only:
            os.environ[native.SWITCH] = "0"
            reference = f"{measure_best_rate(case.part(REFERENCE_SHARE), 2)[0]:.2f}"
        goal = f"{case.goal:.1f}" if case.goal else ""
        missed = " missed" if rate < case.goal else ""
        print(f"{case.name:34} {size:5.0f} {rate:8.2f} {reference:>10} {goal:>6}{missed}", flush=True)


if __name__ == "__main__":
    main()
