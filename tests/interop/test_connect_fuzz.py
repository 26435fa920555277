"""Generated schemas and values of Kafka Connect: both decoders read the same from them, whole or damaged."""

from __future__ import annotations

import random

import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.formats.changes.feed import changelog_schema, find_change_format
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.fuzzing import COUNT, SEED, damaged
from tests.interop.kafka_connect import ConnectCase, DecimalFormat, KafkaConnect

EVENTS = max(COUNT // 50, 100)
PIECE = min(EVENTS, 400)
OF_A_KIND = 4
DAMAGED = 3
"""Of each event."""


def groups(cases: list[ConnectCase]) -> list[list[ConnectCase]]:
    """The cases of one kind after another, which have one schema."""
    return [cases[place : place + OF_A_KIND] for place in range(0, len(cases), OF_A_KIND)]


@needs_native
@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
@pytest.mark.parametrize("decimal", ["BASE64", "NUMERIC"])
def test_both_decoders_read_what_connect_writes(kafka_connect: KafkaConnect, decimal: DecimalFormat) -> None:
    chance = random.Random(f"{SEED} {decimal}")
    format = find_change_format("debezium-json")
    read = 0
    for _ in range(max(EVENTS // PIECE, 1)):
        seed = chance.randrange(2**31)
        described = kafka_connect.generated(seed, PIECE, decimal=decimal)
        plain = kafka_connect.generated(seed, PIECE, schemas=False, decimal=decimal)
        for with_schema, without in zip(groups(described), groups(plain), strict=True):
            assert [case.payload for case in with_schema] == [case.payload for case in without]
            events = [case.event for case in with_schema]
            table = format.infer_columns([EventBuffer.of(events)], {})
            assert table is not None and table.names == ["id", "v"]
            changelog = StructType([field for field in changelog_schema(table) if field.name != "source"])
            both = BothPaths("debezium-json", changelog, format.schema_text(Layout(table), "t", "s"))
            for whole in (events, [case.event for case in without]):
                batch, bad = both.check(EventBuffer.of(whole))
                assert batch.num_rows + len(bad) == len(whole)
                read += batch.num_rows
                both.check(EventBuffer.of([damaged(event, chance) for event in whole for _ in range(DAMAGED)]))
    assert read > EVENTS
