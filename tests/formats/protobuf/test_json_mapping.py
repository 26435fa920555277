"""Generated schemas of every kind, read beside Protobuf's own JSON mapping in Java."""

from __future__ import annotations

import base64
import importlib
import json
import random
from collections import Counter
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Layout, find_format
from tests.formats.fuzzing import COUNT, SEED, damaged
from tests.formats.protobuf.generated import FILES, Schema, file_of, ours, payload_of, schema_of, theirs, type_of
from tests.interop.foreign import Foreign
from tests.interop.protobuf_json import protobuf_as_json

PROTOBUF = find_format("protobuf")
Row = dict[str, Any]
MESSAGES = 20
"""Messages of each schema."""
SCHEMAS_AT_ONCE = 50
IN_ENTRIES = ("Protocol message had invalid UTF-8", "Message missing required fields")


def set_of(file: descriptor_pb2.FileDescriptorProto) -> bytes:
    """A file with all that it imports, in the order of need."""
    found = descriptor_pb2.FileDescriptorSet()
    for name in FILES:
        importlib.import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found.SerializeToString()


def text_of(schema: Schema, edition: bool) -> str:
    files = descriptor_pb2.FileDescriptorSet(file=[file_of(schema, edition=edition)]).SerializeToString()
    return f"{schema.root.name} {base64.b64encode(files).decode('ascii')}"


def decoded(text: str, payloads: list[bytes]) -> tuple[list[Row | BadEvent], list[bytes]]:
    """A row or a bad event for each payload, and what INSERT makes of the rows."""
    schema = PROTOBUF.spark_schema(text)
    batch, bad = PROTOBUF.decoder(Layout(schema, text)).decode_valid(EventBuffer.of(payloads))
    bad_ones = {event.index: event for event in bad}
    rows = iter(batch.to_pylist())
    found = [bad_ones.get(place) or next(rows) for place in range(len(payloads))]
    return found, PROTOBUF.encoder(Layout(schema, text)).encode(batch).to_pylist() if schema.fields else []


@pytest.mark.timeout(0 if COUNT > 100_000 else 240)
def test_generated_schemas(foreign: Foreign) -> None:
    """A hundred schemas and as many of the edition, read and written; `make fuzz` does some thousands."""
    seen: Counter[str] = Counter()
    for batch in range(max(COUNT // (8 * MESSAGES * SCHEMAS_AT_ONCE), 2)):
        chance = random.Random(f"protobuf {SEED} {batch}")
        cases = []
        for _ in range(SCHEMAS_AT_ONCE):
            schema = schema_of(chance)
            payloads = [payload_of(chance, schema.root) for _ in range(MESSAGES)]
            payloads += [damaged(payload, chance) for payload in payloads[:5]]
            cases.append((schema, payloads))
        asked = [(one.root.name, set_of(file_of(one, edition=False)), payloads) for one, payloads in cases]
        written: list[tuple[Schema, list[Row], list[bytes]]] = []
        for (schema, payloads), said in zip(cases, protobuf_as_json(foreign, asked), strict=True):
            for edition in (False, True):
                text = text_of(schema, edition)
                assert PROTOBUF.spark_schema(text).simpleString() == type_of(schema.root)
                rows, encoded = decoded(text, payloads)
                for place, row in enumerate(rows):
                    seen[judged(schema, payloads[place], row, said[place], whole=place < MESSAGES)] += 1
                whole = [row for row in rows[:MESSAGES] if isinstance(row, dict)]
                written.append((schema, whole, encoded[: len(whole)]))
        asked = [(one.root.name, set_of(file_of(one, edition=False)), encoded) for one, _, encoded in written]
        for (schema, wanted, _), answers in zip(written, protobuf_as_json(foreign, asked), strict=True):
            for one, answer in zip(wanted, answers, strict=bool(schema.root.fields)):
                if "unprintable" not in answer:
                    assert ours(schema.root, one) == theirs(schema.root, json.loads(answer["json"])), answer
                    seen["written"] += 1
    assert min(seen[kind] for kind in ("rows", "unreadable", "unprintable", "not UTF-8", "written")) > 0, seen


def judged(schema: Schema, payload: bytes, row: Row | BadEvent, answer: dict[str, str], *, whole: bool) -> str:
    """Compare a row or bad event with what Java says of the payload; return of which kind it is.

    Of damaged payloads the values are not compared: varints of ten bytes that are longer than need be have another
    value in Java, tags of more than 32 bits are cut there, and here a map's entry with more fields is an unknown field.
    """
    where = f"{file_of(schema, edition=False)}\n{payload.hex()}\n{row}\n{answer}"
    if isinstance(row, BadEvent):
        assert "failed" not in row.reason, where
    if not whole:
        return "damaged, bad" if isinstance(row, BadEvent) else "damaged, a row"
    if answer.get("unreadable", "").startswith(IN_ENTRIES) and isinstance(row, dict):
        # Of a map's value which a later entry of the same key replaces; of proto2 only Java looks at such a one.
        assert not schema.proto3 and any(field.key for one in schema.messages for field in one.fields), where
        return "replaced"
    if "unreadable" in answer:
        assert isinstance(row, BadEvent), where
        return "unreadable"
    if "unprintable" in answer:
        return "unprintable"
    if isinstance(row, BadEvent) and "number_value" in row.reason:
        # Of a google.protobuf.Value; this release of Java wrote "NaN" there, which is what a text would be.
        assert "NaN" in answer["json"] or "Infinity" in answer["json"], where
        return "no number of JSON"
    if "\ufffd" in answer["json"]:
        # Java puts this character for what is no UTF-8 where nobody checks it.
        assert isinstance(row, BadEvent) and "not UTF-8" in row.reason, where
        return "not UTF-8"
    assert isinstance(row, dict), where
    assert ours(schema.root, row) == theirs(schema.root, json.loads(answer["json"])), where
    return "rows"
