"""JSON schemas are registered in a form that needs no validator in the registry, and lose nothing by it."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidSchemaError
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.json.schemas.schema_to_spark import convert_json_schema_to_spark

SCHEMA = StructType(
    [
        StructField("id", IntegerType(), False, {"comment": "the key"}),
        StructField("tags", ArrayType(StringType(), False)),
        StructField("more", MapType(StringType(), StructType([StructField("x", IntegerType(), False)]))),
    ]
)
ALL_DRAFTS = {"type", "title", "description", "format", "properties", "items", "additionalProperties", "links"}


def keywords(node: object) -> set[str]:
    """All keywords of a schema, names of properties not among them."""
    if not isinstance(node, dict):
        return set()
    found = set(node)
    for name, inner in node.items():
        if name == "properties":
            for child in inner.values():
                found |= keywords(child)
        elif name in ("items", "additionalProperties"):
            found |= keywords(inner)
    return found


def test_only_keywords_of_all_drafts_and_no_loss() -> None:
    text = find_format("json").schema_text(Layout(SCHEMA), "t", "scope", "a table")
    assert keywords(json.loads(text)) <= ALL_DRAFTS
    assert json.loads(text)["properties"]["id"] == {"type": "integer", "description": "the key"}
    assert convert_json_schema_to_spark(text) == SCHEMA


def test_a_broken_link_is_an_error() -> None:
    text = json.dumps({"type": "object", "links": [{"rel": "spark-schema", "href": "data:nothing"}]})
    with pytest.raises(InvalidSchemaError, match="spark-schema"):
        convert_json_schema_to_spark(text)
