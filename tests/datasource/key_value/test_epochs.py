"""Entries with epochs: a write of an earlier epoch replaces nothing of a later one, whoever writes when."""

from __future__ import annotations

import json
import random
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import ANY, KeyValueTable
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.key_value.entry_scan import open_entries
from pyspark_pravega.datasource.key_value.entry_write import UpsertSpec, UpsertWriter
from pyspark_pravega.datasource.key_value.epochs import add_epoch_column
from pyspark_pravega.datasource.tables.stream_table import KeyColumn, KeyColumns, StreamTable, make_entries_table
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format

COLUMNS = StructType().add("id", IntegerType(), False).add("text", StringType()).add("epoch", LongType())
VALUES = StructType(COLUMNS.fields[1:])
ROWS = StructType(COLUMNS.fields[:2])


@pytest.fixture(params=["json", "avro"])
def table(pravega: Pravega, scope: str, request: pytest.FixtureRequest) -> Iterator[StreamTable]:
    """A key-value table whose column `epoch` has epochs."""
    settings = {"epoch-column": "epoch"}
    text = find_format(request.param).schema_text(Layout(VALUES, settings=settings), "k", scope)
    keys = KeyColumns((KeyColumn("id", "int", 4),))
    found = make_entries_table(Stream(scope, "k"), request.param, COLUMNS, keys, schema_text=text, settings=settings)
    open_entries(pravega, found).create(2, 4)
    yield found
    open_entries(pravega, found).drop()


def write(pravega: Pravega, table: StreamTable, epoch: int | None, rows: Mapping[int, str]) -> None:
    """Write rows as a task of a micro-batch does."""
    spec = UpsertSpec(table, pravega.config, add_epoch_column(table, ROWS), epoch)
    ids, texts = list(rows), list(rows.values())
    batch = pa.record_batch([pa.array(ids, pa.int32()), pa.array(texts, pa.string())], ["id", "text"])
    UpsertWriter(spec).write(iter([batch]))


def read(pravega: Pravega, table: StreamTable) -> dict[int, tuple[str, int | None]]:
    decoder = find_format(table.format).decoder(Layout(VALUES, table.schema_text, table.settings))
    found = {}
    for key, entry in open_entries(pravega, table).entries():
        row = decoder.decode(EventBuffer.of([entry.value])).to_pylist()[0]
        found[struct.unpack(">i", key)[0]] = row["text"], row["epoch"]
    return found


def test_an_earlier_epoch_changes_nothing_of_a_later_one(pravega: Pravega, table: StreamTable) -> None:
    write(pravega, table, 5, {id: f"five {id}" for id in range(600)})
    five = read(pravega, table)
    assert five == {id: (f"five {id}", 5) for id in range(600)}
    write(pravega, table, 4, {id: f"four {id}" for id in range(300, 601)})
    assert read(pravega, table) == {**five, 600: ("four 600", 4)}  # what no later one has written is written
    write(pravega, table, 5, {id: f"five again {id}" for id in range(10)})
    write(pravega, table, 6, {id: f"six {id}" for id in range(5, 15)})
    wanted = {**five, 600: ("four 600", 4)}
    wanted |= {id: (f"five again {id}", 5) for id in range(5)} | {id: (f"six {id}", 6) for id in range(5, 15)}
    assert read(pravega, table) == wanted


def test_a_late_task_of_an_earlier_attempt(
    pravega: Pravega, table: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the entries and is about to write, when a later attempt writes all of them."""
    write(pravega, table, 1, dict.fromkeys(range(50), "one"))
    read_by_zombie, written_by_later = threading.Event(), threading.Event()
    put_many = KeyValueTable.put_many

    def put_late(entries: KeyValueTable, writes: Any) -> list[int]:
        read_by_zombie.set()
        assert written_by_later.wait(60)
        return put_many(entries, writes)

    zombie = threading.Thread(target=write, args=(pravega, table, 2, dict.fromkeys(range(60), "zombie")), name="zombie")
    with monkeypatch.context() as late:
        late.setattr(KeyValueTable, "put_many", put_late)
        zombie.start()
        assert read_by_zombie.wait(60)
        late.setattr(KeyValueTable, "put_many", put_many)
        write(pravega, table, 3, dict.fromkeys(range(50), "later"))
        written_by_later.set()
        zombie.join(60)
    assert not zombie.is_alive()
    wanted = dict.fromkeys(range(50), ("later", 3)) | dict.fromkeys(range(50, 60), ("zombie", 2))
    assert read(pravega, table) == wanted


def test_writers_at_the_same_time(pravega: Pravega, table: StreamTable) -> None:
    """Eight writers write the same keys in different orders: each key ends with the greatest epoch that wrote it."""
    dice = random.Random(7)
    epochs = {epoch: dice.sample(range(200), 150) for epoch in range(1, 9)}
    order = dice.sample(sorted(epochs), len(epochs))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda one: write(pravega, table, one, dict.fromkeys(epochs[one], f"of {one}")), order))
    last = {id: epoch for epoch, ids in sorted(epochs.items()) for id in ids}
    assert read(pravega, table) == {id: (f"of {epoch}", epoch) for id, epoch in last.items()}


def test_values_without_an_epoch_are_replaced(pravega: Pravega, table: StreamTable) -> None:
    """By a statement, or by another program, whose value may be no document of the schema."""
    write(pravega, table, None, {1: "by a statement", 2: "too"})
    assert read(pravega, table) == {1: ("by a statement", None), 2: ("too", None)}
    open_entries(pravega, table).put(struct.pack(">i", 3), b"\xffjunk", ANY)
    write(pravega, table, 1, dict.fromkeys((1, 3), "one"))
    assert read(pravega, table) == {1: ("one", 1), 2: ("too", None), 3: ("one", 1)}


def test_a_value_is_a_document_of_the_schema(pravega: Pravega, table: StreamTable) -> None:
    """Java's KeyValueTable reads what it always has: the key, and one document."""
    if table.format == "json":
        write(pravega, table, 7, {1: "x"})
        [(key, entry)] = open_entries(pravega, table).entries()
        assert key == struct.pack(">i", 1)
        assert json.loads(entry.value) == {"text": "x", "epoch": 7}
