"""Values under another schema, and values that are written, are what Java's Avro makes of them, for generated schemas.

`make fuzz` does it for many more (FUZZ_EVENTS), and for others each time it is given another FUZZ_SEED.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header
from tests.formats.avro.generated_schemas import Named, Reader, Schemas, Type, key_of, schema_json, text, value_of
from tests.formats.avro.java_avro import JavaAvro
from tests.formats.both_paths import BothPaths
from tests.formats.fuzzing import COUNT, SEED

AVRO = find_format("avro")
CASES = max(COUNT // 50, 1)
PIECE = 200
VALUES = 6
MERGED = ({"int", "long"}, {"float", "double"})


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAvro]:
    with JavaAvro() as started:
        yield started


def column_value(node: Type, value: Any, inside: tuple[Named, ...] = ()) -> Any:
    """What a column of this type has for a value in Avro's JSON encoding."""
    if isinstance(node, str):
        return value.encode("latin-1") if node == "bytes" else float(value) if node in ("float", "double") else value
    if isinstance(node, list):
        return union_value(node, value, inside)
    if isinstance(node, tuple):
        if node[0] == "array":
            return [column_value(node[1], item, inside) for item in value]
        return sorted((key, column_value(node[1], item, inside)) for key, item in value.items())
    if node.kind != "record":
        return value.encode("latin-1") if node.kind == "fixed" else value
    if node in inside:
        return json_value(node, value)
    return {field.name: column_value(field.type, value[field.name], (*inside, node)) for field in node.fields}


def union_value(node: list[Type], value: Any, inside: tuple[Named, ...]) -> Any:
    if value is None:
        return None
    ((name, inner),) = value.items()
    branches = [branch for branch in node if branch != "null"]
    if len(branches) == 1:
        return column_value(branches[0], inner, inside)
    if {key_of(branch) for branch in branches} in MERGED:
        return float(inner) if name in ("float", "double") else inner
    return {
        f"member{place}": column_value(branch, inner, inside) if key_of(branch) == name else None
        for place, branch in enumerate(branches)
    }


def json_value(node: Type, value: Any) -> Any:
    """What the JSON text has for a value in Avro's JSON encoding."""
    if node == "float":
        return float(str(np.float32(value)))  # the shortest digits that give the same float
    if isinstance(node, str):
        return base64.b64encode(value.encode("latin-1")).decode() if node == "bytes" else value
    if isinstance(node, list):
        if value is None:
            return None
        ((name, inner),) = value.items()
        return json_value(next(branch for branch in node if key_of(branch) == name), inner)
    if isinstance(node, tuple):
        if node[0] == "array":
            return [json_value(node[1], item) for item in value]
        return {key: json_value(node[1], item) for key, item in value.items()}
    if node.kind != "record":
        return base64.b64encode(value.encode("latin-1")).decode() if node.kind == "fixed" else value
    return {field.name: json_value(field.type, value[field.name]) for field in node.fields}


def comparable(node: Type, value: Any, inside: tuple[Named, ...] = ()) -> Any:
    """A cell with its maps sorted and its texts parsed."""
    if value is None or isinstance(node, str):
        return value
    if isinstance(node, list):
        branches = [branch for branch in node if branch != "null"]
        if len(branches) == 1 or {key_of(branch) for branch in branches} in MERGED:
            return comparable(branches[0], value, inside)
        return {
            name: comparable(branch, value[name], inside)
            for name, branch in ((f"member{place}", branch) for place, branch in enumerate(branches))
        }
    if isinstance(node, tuple):
        if node[0] == "array":
            return [comparable(node[1], item, inside) for item in value]
        return sorted((key, comparable(node[1], item, inside)) for key, item in value)
    if node.kind != "record":
        return value
    if node in inside:
        return json.loads(value)
    return {field.name: comparable(field.type, value[field.name], (*inside, node)) for field in node.fields}


def decoded(table: Type, writer: Type, events: list[bytes]) -> tuple[list[Any], set[int], pa.RecordBatch]:
    """The rows by the table's schema, which of the events are bad, and the rows as Arrow has them."""
    schema = AVRO.spark_schema(text(table))
    writers = [WriterSchema(text(writer), "Avro", "")]
    both = BothPaths("avro", schema, text(table), writers.__getitem__)
    buffer = EventBuffer.of([make_header(0) + event for event in events])
    batch, bad = both.check(buffer, masked=False)
    # What is not wanted is skipped alike, and no value depends on what else is wanted.
    for field in {schema["id"], schema.fields[len(events[0]) % len(schema.fields)]}:
        alone, bad_alone = BothPaths("avro", StructType([field]), text(table), writers.__getitem__).check(
            buffer, masked=False
        )
        refused = {bad_event.index for bad_event in bad}
        read_alone = [place for place in range(len(events)) if place not in {event.index for event in bad_alone}]
        cells = dict(zip(read_alone, alone.column(0).to_pylist(), strict=True))
        kept = [cells[place] for place in read_alone if place not in refused]
        assert kept == batch.column(field.name).to_pylist(), (text(table), text(writer), field.name)
    return [comparable(table, row) for row in batch.to_pylist()], {bad_event.index for bad_event in bad}, batch


def seed(piece: int) -> random.Random:
    return random.Random(f"{SEED} {piece}")


@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
def test_values_under_another_schema(java: JavaAvro) -> None:
    found: Counter[str] = Counter()
    for piece in range(0, CASES, PIECE):
        chance = seed(piece)
        pairs = [(made, Reader(made)) for made in (Schemas(chance) for _ in range(min(PIECE, CASES - piece)))]
        questions = [
            {
                "writer": schema_json(writer.root),
                "reader": schema_json(reader.root),
                "values": [value_of(writer.root, chance) for _ in range(VALUES)],
            }
            for writer, reader in pairs
        ]
        for (writer, reader), question, answer in zip(pairs, questions, java.ask(questions), strict=True):
            shown = json.dumps(question)
            if "error" in answer:
                found["not for Java"] += 1
                # Names that aliases make twice, and records without fields that its JSON decoder cannot tell.
                assert "uplicate" in answer["error"] or "NullPointer" in answer["error"], (shown, answer)
                continue
            events = [bytes.fromhex(answered["event"]) for answered in answer["events"]]
            rows, bad, _ = decoded(reader.root, writer.root, events)
            left = iter(rows)
            for place, answered in enumerate(answer["events"]):
                row = None if place in bad else next(left)
                if row is None:
                    found["refused"] += 1
                    assert "refused" in answered or answer["doubtful"], (shown, place, answered)
                elif "Duplicate field" in answered.get("refused", ""):
                    # Java renames the fields of some records within records twice.
                    found["renamed twice"] += 1
                elif "refused" in answered:
                    found["more lenient"] += 1
                    assert reader.lenient, (shown, place, answered, row)
                else:
                    found["the same"] += 1
                    assert row == column_value(reader.root, answered["resolved"]), (shown, place, answered)
    assert found["the same"] > 0.6 * found.total(), found
    assert found["refused"] > 0
    assert found["not for Java"] < 0.05 * CASES, found


@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
def test_java_reads_what_is_written(java: JavaAvro) -> None:
    found: Counter[str] = Counter()
    for piece in range(0, CASES, PIECE):
        chance = seed(piece)
        tables = [Schemas(chance).root for _ in range(min(PIECE, CASES - piece))]
        schemas = [schema_json(table) for table in tables]
        values = [[value_of(table, chance) for _ in range(VALUES)] for table in tables]
        asked = [
            {"writer": schema, "reader": schema, "values": values_of_schema}
            for schema, values_of_schema in zip(schemas, values, strict=True)
        ]
        again = []
        kept = []
        for table, answer in zip(tables, java.ask(asked), strict=True):
            events = [bytes.fromhex(answered["event"]) for answered in answer["events"]]
            _, bad, batch = decoded(table, table, events)
            assert bad == set()
            encoder = AVRO.encoder(Layout(AVRO.spark_schema(text(table)), text(table)))
            written = []
            for place in range(batch.num_rows):
                try:
                    (event,) = encoder.encode(batch.slice(place, 1)).to_pylist()
                    written.append((event, answer["events"][place]["resolved"]))
                except InvalidRowError as error:
                    found["refused"] += 1
                    assert "it fits several types of the union" in str(error), text(table)
            kept.append(written)
            again.append({"events": [event.hex() for event, _ in written]})
        asked = [
            {"writer": schema, "reader": schema, **question_again}
            for schema, question_again in zip(schemas, again, strict=True)
        ]
        for question, written, answer in zip(asked, kept, java.ask(asked), strict=True):
            for (_, value), answered in zip(written, answer["events"], strict=True):
                found["the same"] += 1
                assert answered.get("resolved") == value, (json.dumps(question), answered)
    assert found["the same"] > 0.9 * found.total(), found
