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


def record(*types: Any, **more: Any) -> dict[str, Any]:
    """A record of the namespace x whose fields have these types."""
    fields = [{"name": f"f{place}", "type": each} for place, each in enumerate(types)]
    return {"type": "record", "name": "R", "namespace": "x", "fields": fields, **more}


def fixed(size: Any, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


A: dict[str, Any] = {"type": "enum", "name": "A", "symbols": ["X"]}
DOTTED = {**A, "name": ".B"}
CORNERS: list[Any] = [
    record({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}),
    record({"type": "bytes", "logicalType": "decimal"}), record({"type": "int", "logicalType": "no such"}),
    record(fixed(1, logicalType="decimal", precision=20)), record(fixed(12, logicalType="duration")),
    record(A, {"type": "A"}), record(A, {"type": "x.A"}), record(A, {"type": "array", "items": {"type": "A"}}),
    record(A, ["null", {"type": "A"}], {"type": "map", "values": {"type": "A"}}), record(["null", {"type": "R"}]),
    record({**A, "namespace": ""}), record({**A, "name": "y.A", "namespace": "z"}, {"type": "y.A"}),
    record({**A, "name": "é"}), ["null", record("int")], {"type": "int", "name": "R"}, record({"type": "R"}),
    record(A, name="x.y.R"), [], fixed(0),
]  # fmt: skip
"""Java has a form of each."""

DOUBTFUL: list[Any] = [
    record(DOTTED), record(DOTTED, ".B"), record(DOTTED, "B"), record(A, name=".R"), record(A, namespace="x."),
    record(A, name="x..R"), record(A, namespace=".x"), record(name="R."), record({**A, "namespace": ""}, "A"),
    {**A, "symbols": ["é"]}, record(fixed("4")), record(fixed(4.0)), record(fixed(-1)), record(fixed(True)),
    ["int", ["null"]], ["int", "int"], record(A, ["x.A", {"type": "A"}]), {"type": {"type": "int"}},
    record({"type": ["null", "int"]}), "A", {"type": "A"},
    {**record(), "fields": [{"name": "a", "type": "int"}] * 2}, {"type": "union"}, record({"type": "B"}),
]  # fmt: skip
"""Either there is no form, or it is Java's."""


def test_they_are_those_of_java(java: Any) -> None:
    chance = seed(0)
    schemas = [*OWN, *CORNERS, *(schema_json(Schemas(chance).root) for _ in range(CASES))]
    for schema, answer in zip(schemas, java.ask([{"normalized": schema} for schema in schemas]), strict=True):
        found = normalize_schema("Avro", json.dumps(schema))
        assert found is not None and "error" not in answer, (schema, answer)
        assert (found.canonical, found.fingerprint) == (answer["canonical"], answer["fingerprint"])


def test_no_form_is_another_than_that_of_java(java: Any) -> None:
    for schema, answer in zip(DOUBTFUL, java.ask([{"normalized": schema} for schema in DOUBTFUL]), strict=True):
        found = normalize_schema("Avro", json.dumps(schema))
        assert found is None or found.canonical == answer.get("canonical"), (schema, answer)


@pytest.mark.parametrize("text", ["{", "7", '"no-such"', '{"type": "record"}', '{"type": "array"}', "[]7", "null"])
def test_other_texts_have_none(text: str) -> None:
    assert normalize_schema("Avro", text) is None
