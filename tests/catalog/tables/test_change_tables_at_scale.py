"""Current rows and streams of many changes, against a dict of the rows that each event leads to, read by `json`."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from bench.current_rows import make_avro_schema, make_connect_schema
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.tables.test_debezium import write_scaled
from tests.debezium import Record

EVENTS, ROWS = 40_000, 3_000


def make_changes() -> Iterator[dict[str, Any]]:
    """Inserts, updates and deletions in the order of the log; after some, the last 3,000 are delivered again."""
    chance = random.Random(7)
    done: list[dict[str, Any]] = []
    for number in range(EVENTS):
        key = min(chance.randrange(ROWS), chance.randrange(ROWS))
        operation = chance.choice("cuuuud")
        row = {
            "id": key,
            "device": f"d{number}",
            "temperature": number / 8,
            "note": chance.choice([None, "é", "x" * 99]),
        }
        source = {"connector": "postgresql", "name": "dbz", "db": "shop", "lsn": 100 + number, "ts_ms": 10**12 + number}
        change = {
            "op": operation,
            "before": {"id": key} if operation == "d" else None,
            "after": None if operation == "d" else row,
            "source": source,
            "ts_ms": 10**12 + number + 5,
        }
        done.append(change)
        yield change
        if number % 11_000 == 10_999:
            yield from done[-3000:]


def write_event(kind: str, change: dict[str, Any]) -> bytes:
    if kind == "avro":
        out = io.BytesIO()
        block = dict.fromkeys(("version", "snapshot", "sequence", "ts_us", "ts_ns", "schema", "table", "txId", "xmin"))
        image = dict.fromkeys(("id", "device", "temperature", "note"))
        before = None if change["before"] is None else image | change["before"]
        value = {**change, "before": before, "source": block | change["source"], "ts_us": None, "ts_ns": None}
        fastavro.schemaless_writer(out, AVRO, value)
        return b"\0\0\0\0\7" + out.getvalue()
    text = json.dumps(change, separators=(",", ":"))
    return (text if kind == "json" else f'{{"schema":{make_connect_schema()},"payload":{text}}}').encode()


AVRO = fastavro.parse_schema(json.loads(make_avro_schema()))


def rows_by_json(events: list[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    """The rows in the end: an older position is a change that was delivered again."""
    newest: dict[int, int] = {}
    rows: dict[int, tuple[Any, ...]] = {}
    for change in json.loads(json.dumps(events)):
        key = (change["after"] or change["before"])["id"]
        if change["source"]["lsn"] < newest.get(key, 0):
            continue
        newest[key] = change["source"]["lsn"]
        rows.pop(key, None)
        if change["after"] is not None:
            rows[key] = tuple(change["after"][name] for name in ("id", "device", "temperature", "note"))
    return rows


@pytest.mark.parametrize(
    ("kind", "memory"),
    [
        *((kind, "256m") for kind in ("json", "schemas", "avro")),
        ("json", "1m"),
        # What rows are kept in, when they are many, does not depend on the events that they come from.
        *(pytest.param(kind, "1m", marks=pytest.mark.long) for kind in ("schemas", "avro")),
    ],
)
def test_many_changes_in_scaled_streams(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path, kind: str, memory: str
) -> None:
    changes = list(make_changes())
    expected = rows_by_json(changes)
    assert ROWS / 2 < len(expected) < ROWS
    keys = [json.dumps({"id": (change["after"] or change["before"])["id"]}) for change in changes]
    stream = Stream(scope, "many")
    with connect(client_config) as pravega:
        events = [Record(key, write_event(kind, change)) for key, change in zip(keys, changes, strict=True)]
        write_scaled(pravega, stream, events)
    properties = "'format'='debezium-json', 'framing'='none'"
    if kind == "avro":
        schemas = json.dumps({"7": json.loads(make_avro_schema())})
        properties = f"'format'='debezium-avro', 'framing'='none', 'debezium.avro-schemas'='{schemas}'"
    table = f"pravega.`{scope}`.many"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, device STRING, temperature DOUBLE, note STRING) "
        f"TBLPROPERTIES ({properties}, 'primary-key'='id')"
    )
    for _ in range(2):  # the second one knows that there are no truncations
        found = spark.sql(f"SELECT id, device, temperature, note FROM {table} WITH ('current-rows.memory'='{memory}')")
        rows = [tuple(row) for row in found.collect()]
        assert len(rows) == len(expected) and {row[0]: row for row in rows} == expected
    assert spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0] == len(expected)
    if memory != "256m":
        return
    query = (
        spark.readStream.option("current-rows.memory", memory)
        .changes(table)
        .writeStream.format("memory")
        .queryName("many_changes")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    last = spark.sql(
        "SELECT id, max_by(struct(_change_type, device, temperature, note), "
        "struct(_commit_version, _change_type != 'update_preimage')) AS last FROM many_changes GROUP BY id"
    ).collect()
    left = {row.id: (row.id, *list(row.last)[1:]) for row in last if row.last[0] != "delete"}
    assert left == expected
