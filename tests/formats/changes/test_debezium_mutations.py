"""Thousands of damaged change events: each is a change or a bad event, and moves no other."""

from __future__ import annotations

import json
import random

import pytest

from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.debezium import records, tables
from tests.formats.changes.test_debezium_encodings import (
    AVRO_TABLE,
    FIELDS,
    avro_row,
    avro_schema,
    columns,
    confluent,
    envelope,
)
from tests.formats.fuzzing import COUNT, damaged


def corpus(kind: str) -> tuple[str, object, dict[str, str], list[bytes]]:
    """The format, the table, its settings and good events."""
    if kind == "captured":
        table = tables()["types"]
        events = [record.value for record in records()[table.topic]][:12]
        return "debezium-json", table.schema, {}, events
    if kind == "envelope":
        payload = {
            "before": None,
            "after": {name: value for name, _, value, _, _ in FIELDS},
            "source": {"connector": "mysql", "file": "b.1", "pos": 4, "row": 0, "ts_ms": 5},
            "op": "u",
            "ts_ms": 5,
        }
        table_schema = columns(**{name: data_type for name, _, _, data_type, _ in FIELDS})
        schemas = [(name, schema) for name, schema, _, _, _ in FIELDS]
        return "debezium-json", table_schema, {}, [envelope(payload, schemas)]
    schema = avro_schema()
    source = {"connector": "postgresql", "name": "dbz", "lsn": 17}
    event = {"before": None, "source": source, "op": "c", "ts_ms": 3, "after": avro_row()}
    settings = {"debezium.avro-schemas": json.dumps({"7": schema})}
    return "debezium-avro", AVRO_TABLE, settings, [confluent(7, schema, event)]


@pytest.mark.parametrize("kind", ["captured", "envelope", "avro"])
def test_damaged_changes(kind: str) -> None:
    chance = random.Random(kind)
    name, table, settings, good = corpus(kind)
    format = find_format(name)
    text = format.schema_text(Layout(table), "t", "s")  # type: ignore[arg-type]
    decoder = format.decoder(Layout(changelog_schema(table), text, settings))  # type: ignore[arg-type]
    whole = decoder.decode(EventBuffer.of(good[:1])).to_pylist()
    for _ in range(max(COUNT // 1300, 1)):
        events = [good[0] if at % 10 == 0 else damaged(good[at % len(good)], chance) for at in range(100)]
        batch, bad = decoder.decode_valid(EventBuffer.of(events))
        batch.validate(full=True)
        wrong = {event.index for event in bad}
        assert batch.num_rows == len(events) - len(wrong)
        assert not any(index % 10 == 0 for index in wrong)
        kept = [index for index in range(len(events)) if index not in wrong]
        for place, index in enumerate(kept):
            if index % 10 == 0:
                assert str(batch.slice(place, 1).to_pylist()) == str(whole)
