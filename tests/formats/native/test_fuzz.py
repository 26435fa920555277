"""Thousands of damaged events per format: what the native decoder accepts is what the reference reads.

`make fuzz` does it with a million (FUZZ_EVENTS), and other damage each time it is given another FUZZ_SEED.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.core.test_mutations import ROW, SCHEMA
from tests.formats.fuzzing import COUNT, SEED, damaged

PIECE = 2000

NOT_NULL = StructType([StructField(field.name, field.dataType, False) for field in SCHEMA])
PROJECTED = StructType([SCHEMA[name] for name in ("double", "int", "list")])
TABLES = {"all": SCHEMA, "not null": NOT_NULL, "some": PROJECTED, "none": StructType([])}


def documents(format_name: str) -> list[bytes]:
    """What is to be damaged."""
    format = find_format(format_name)
    rows = pa.RecordBatch.from_pylist([ROW, dict.fromkeys(ROW)], schema=arrow_schema(SCHEMA))
    payloads: list[bytes] = format.encoder(Layout(SCHEMA)).encode(rows).to_pylist()
    if format_name == "json":
        full = json.loads(payloads[0])
        payloads.append(json.dumps(full, indent=2).encode())
        payloads.append(b"\xef\xbb\xbf" + json.dumps(full, ensure_ascii=False).encode())
        payloads.append(json.dumps({**full, "before": full, "source": {"ts_ms": 1.5e3, "x": [[], {}]}}).encode())
        # Short ones, so that the damage often hits what matters.
        payloads.extend(json.dumps({name: value}).encode() for name, value in full.items())
    return payloads


def pieces(format_name: str, table: str, count: int) -> Iterator[EventBuffer]:
    chance = random.Random(f"{SEED} {format_name} {table}")
    whole = documents(format_name)
    while count > 0:
        yield EventBuffer.of([damaged(chance.choice(whole), chance) for _ in range(min(PIECE, count))])
        count -= PIECE


@needs_native
@pytest.mark.timeout(0 if COUNT > 100_000 else 120)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("format_name", ["avro", "json"])
def test_damaged_events(format_name: str, table: str) -> None:
    text = find_format(format_name).schema_text(Layout(SCHEMA), "t", "s")
    both = BothPaths(format_name, TABLES[table], text)
    read = refused = 0
    for events in pieces(format_name, table, COUNT // len(TABLES)):
        batch, bad = both.check(events)
        read += batch.num_rows
        refused += len(bad)
    assert read + refused == COUNT // len(TABLES)
    # The damage is neither so slight nor so great that nothing would be compared.
    assert refused > COUNT // 100
    assert read > COUNT // 1000
