"""Normal forms and fingerprints of Avro schemas are those of Java's Avro."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_pravega.formats.avro.fingerprint import normalize_schema
from tests.formats.avro.generated_schemas import Schemas, schema_json
from tests.formats.avro.test_resolution_of_java import java, seed

__all__ = ["java"]

CASES = 200
OWN: list[Any] = [
    "int",
    {"type": "long", "logicalType": "timestamp-micros"},
    {
        "type": "record",
        "name": "Reading",
        "namespace": "plant",
        "doc": "of a sensor \u00e9",
        "aliases": ["Old"],
        "fields": [
            {"name": "id", "type": "int", "default": 7, "doc": "a number", "order": "ignore"},
            {"name": "kind", "type": ["null", {"type": "enum", "name": "Kind", "symbols": ["A", "B"], "default": "A"}]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "hash", "type": {"type": "fixed", "name": "other.Hash", "size": 16}},
            {"name": "next", "type": ["null", "Reading"]},
        ],
    },
]


def test_they_are_those_of_java(java: Any) -> None:
    chance = seed(0)
    schemas = [*OWN, *(schema_json(Schemas(chance).root) for _ in range(CASES))]
    for schema, answer in zip(schemas, java.ask([{"normalized": schema} for schema in schemas]), strict=True):
        found = normalize_schema(json.dumps(schema))
        assert found is not None and "error" not in answer, (schema, answer)
        assert (found.canonical, found.fingerprint) == (answer["canonical"], answer["fingerprint"])


@pytest.mark.parametrize("text", ["{", "7", '"no-such"', '{"type": "record"}', '{"type": "array"}', "[]7", "null"])
def test_other_texts_have_none(text: str) -> None:
    assert normalize_schema(text) is None
