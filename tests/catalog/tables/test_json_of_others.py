"""Tables whose JSON schema other programs have made: of several parts, recursive, with rules for values."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.datasource.tables import loading
from pyspark_pravega.datasource.tables.loading import load_table

CAT = {
    "title": "Cat",
    "type": "object",
    "allOf": [{"$ref": "#/definitions/animal"}],
    "properties": {"meow": {"type": "boolean"}, "loud": {"type": "integer", "maximum": 10}},
    "oneOf": [{"required": ["meow"]}, {"properties": {"purr": {"type": "string"}}, "required": ["purr"]}],
    "definitions": {"animal": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
}


def adopted(pravega: Pravega, scope: str, name: str, schema: Any) -> bytes:
    """Make a stream with a schema, and return the header of events by it."""
    pravega.controller.create_stream(Stream(scope, name), StreamConfiguration(scaling=ScalingPolicy("fixed", 0, 2, 1)))
    registry = pravega.registry(scope)
    registry.create_group(name, GroupProperties("Json", Compatibility("AllowAny")))
    version = registry.add_schema(name, SchemaInfo.of_text(schema.get("title", "object"), "Json", json.dumps(schema)))
    return b"\x01" + registry.encoding_id(name, version).to_bytes(4, "big")


def write(spark: SparkSession, pravega: Pravega, scope: str, name: str, *events: bytes) -> None:
    """Write events as another program does."""
    options = {"scope": scope, "stream": name, "controller-uri": pravega.config.controller_uri, "format": "raw"}
    rows = [(bytearray(event),) for event in events]
    spark.createDataFrame(rows, "event BINARY").write.format("pravega").options(**options).mode("append").save()


def events(spark: SparkSession, table: str) -> list[Any]:
    """What stands in the stream, behind the header."""
    return [json.loads(bytes(row._raw)[5:]) for row in spark.sql(f"SELECT _raw FROM {table}").collect()]


def test_a_schema_of_several_parts(
    spark: SparkSession, pravega: Pravega, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, header = f"pravega.`{scope}`.cats", adopted(pravega, scope, "cats", CAT)
    write(spark, pravega, scope, "cats", header + b'{"id": 1, "meow": true}')
    assert spark.table(table).schema.simpleString() == "struct<id:bigint,meow:boolean,loud:bigint>"
    assert spark.table(table).collect() == [(1, True, None)]
    # What the schema refuses is refused, and nothing of its INSERT is there.
    with pytest.raises(PySparkException, match="column 'loud' is 11, which the JSON schema refuses") as error:
        spark.sql(f"INSERT INTO {table} SELECT id, true, id FROM range(12)")
    assert "11 is greater than the maximum of 10" in str(error.value)
    with pytest.raises(PySparkException, match="the row, which the JSON schema refuses at 'oneOf'"):
        spark.sql(f"INSERT INTO {table} VALUES (2, NULL, NULL)")
    spark.sql(f"INSERT INTO {table} VALUES (2, false, NULL)")
    assert sorted(events(spark, table), key=str) == [{"id": 1, "meow": True}, {"id": 2, "meow": False}]
    # A new column comes beside the parts, all of which stay.
    spark.sql(f"ALTER TABLE {table} ADD COLUMN age INT")
    with pytest.raises(PySparkException, match="Column id has .* that the schema describes elsewhere"):
        spark.sql(f"ALTER TABLE {table} DROP COLUMN id")
    spark.sql(f"INSERT INTO {table} VALUES (3, true, 1, 7)")
    assert spark.sql(f"SELECT * FROM {table} ORDER BY id").collect() == [
        (1, True, None, None), (2, False, None, None), (3, True, 1, 7)
    ]  # fmt: skip
    (newest,) = pravega.registry(scope).latest_schemas("cats")
    assert json.loads(newest.schema.text)["allOf"] == CAT["allOf"]
    # What is in no column is said.
    said = "'oneOf' at the root: there are no columns for purr"
    assert [row.unread for row in spark.table(f"pravega.`{scope}`.cats.schemas").collect()] == [said, said]
    loading._warned.clear()
    for _ in range(2):
        load_table(pravega, Stream(scope, "cats"))
    assert [record.getMessage().count(said) for record in caplog.records if "cats" in record.getMessage()] == [1]


def test_a_recursive_schema(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """The schema of schemas of draft 4, whose events are schemas."""
    schema = jsonschema.Draft4Validator.META_SCHEMA
    table, header = f"pravega.`{scope}`.models", adopted(pravega, scope, "models", schema)
    tree = {
        "title": "Tree",
        "type": "object",
        "properties": {"leaf": {"type": "number", "minimum": 0.10}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "not": {"required": ["bird"]},
    }
    write(spark, pravega, scope, "models", *(header + json.dumps(each).encode() for each in (tree, schema)))
    found = spark.sql(f"SELECT title, properties['kids'] AS kids, not FROM {table} WHERE title = 'Tree'").collect()
    assert found == [("Tree", '{"type":"array","items":{"$ref":"#"}}', '{"required":["bird"]}')]
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    found = events(spark, table)
    for each in found:
        jsonschema.Draft4Validator.check_schema(each)
        if each.get("default", {}) is None:  # which may have any value, so that null is written
            del each["default"]
    assert sorted(found, key=lambda each: len(str(each))) == [tree, tree, schema, schema]
    with pytest.raises(PySparkException, match="expects the text of a JSON value there"):
        spark.sql(f"INSERT INTO {table} (title, not) VALUES ('x', 'no JSON')")
    with pytest.raises(PySparkException, match="which the JSON schema refuses"):
        spark.sql(f"INSERT INTO {table} (title, not) VALUES ('x', '{{\"minLength\": -1}}')")
    assert len(events(spark, table)) == 4
