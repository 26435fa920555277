"""Columns of JSON schemas in several parts, of recursive ones, and what is said of the rest."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.edited_columns import EditedColumn
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout
from pyspark_pravega.formats.json.document_rules import is_draft3
from pyspark_pravega.formats.json.format import JsonFormat
from pyspark_pravega.formats.json.schemas.schema_model import Splitter
from pyspark_pravega.formats.json.schemas.schema_parser import parse_json_schema
from tests.formats.json.composed_schemas import DRAFT_7, DRAFT_2020

JSON = JsonFormat()
DEFINITIONS = {
    "animal": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "named": {"properties": {"name": {"type": "string"}}},
}
NAMED = {"$ref": "#/definitions/named"}
CAT: dict[str, Any] = {
    "title": "Cat",
    "type": "object",
    "allOf": [{"$ref": "#/definitions/animal"}],
    "properties": {"meow": {"type": "boolean"}},
    "definitions": DEFINITIONS,
}
TREE = {
    "$ref": "#/definitions/node",
    "definitions": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/definitions/node"}},
                "next": {"allOf": [{"$ref": "#/definitions/node"}]},
                "named": {"type": "object", "additionalProperties": {"$ref": "#/definitions/node"}},
            },
            "required": ["v"],
        }
    },
}


def columns(schema: Any) -> str:
    return str(JSON.spark_schema(json.dumps(schema)).simpleString()).removeprefix("struct<").removesuffix(">")


def written(schema: Any, **row: Any) -> bytes:
    text = json.dumps(schema)
    table = JSON.spark_schema(text)
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(table.names) | row], schema=arrow_schema(table))
    return bytes(JSON.encoder(Layout(table, text)).encode(batch).to_pylist()[0])


def read(schema: Any, document: str) -> dict[str, Any]:
    text = json.dumps(schema)
    found = JSON.decoder(Layout(JSON.spark_schema(text), text)).decode(EventBuffer.of([document.encode()])).to_pylist()
    return dict(found[0])


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (CAT, "id:bigint,meow:boolean"),
        ({"$ref": "#/definitions/animal", "definitions": DEFINITIONS}, "id:bigint"),
        (
            {"allOf": [{"$ref": "#/$defs/animal"}, {"$ref": "#/$defs/named"}], "$defs": DEFINITIONS},
            "id:bigint,name:string",
        ),
        (
            {"properties": {"z": {}}, "allOf": [{"allOf": [NAMED]}], "definitions": DEFINITIONS},
            "z:string,name:string",
        ),
        (
            {"properties": {"a": {"items": {"allOf": [CAT, {"properties": {"b": {}}}]}}}, "definitions": DEFINITIONS},
            "a:array<struct<id:bigint,meow:boolean,b:string>>",
        ),
        (
            {"properties": {"m": {"additionalProperties": NAMED}}, "definitions": DEFINITIONS},
            "m:map<string,struct<name:string>>",
        ),
        (
            {"$schema": DRAFT_2020, **NAMED, "properties": {"b": {"type": "boolean"}}, "definitions": DEFINITIONS},
            "b:boolean,name:string",
        ),
        (
            {"$schema": DRAFT_7, **NAMED, "properties": {"b": {}}, "definitions": DEFINITIONS},
            "name:string",
        ),
        (
            {**NAMED, "properties": {"b": {}, "name": {"type": "integer"}}, "definitions": DEFINITIONS},
            "b:string,name:string",
        ),
        (
            {"properties": {"a": {"type": "number"}}, "allOf": [{"properties": {"a": {"type": ["integer", "null"]}}}]},
            "a:bigint",
        ),
        (
            {"properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"a": {"format": "date"}}}]},
            "a:date",
        ),
        ({"properties": {"a": {"oneOf": [{"type": "null"}, CAT["allOf"][0]]}}, "definitions": DEFINITIONS},
         "a:struct<id:bigint>"),
        ({"properties": {"a": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}}},
         "a:array<string>"),
        ({"properties": {"a": {"patternProperties": {"^x": {}}, "additionalProperties": {"type": "integer"}}}},
         "a:map<string,string>"),
        ({"properties": {"a": {"extends": DEFINITIONS["named"]}}}, "a:struct<name:string>"),
        ({"properties": {"a": {"type": "integer", "nullable": True}, "b": False, "c": True}, "required": ["a"]},
         "a:bigint,b:string,c:string"),
        ({"$id": "https://x.org/all.json", "properties": {"a": {"$ref": "point.json"}, "b": {"$ref": "#spot"}},
          "$defs": {"p": {"$id": "point.json", "properties": {"q": {"$ref": "#/$defs/in"}},
                          "$defs": {"in": {"type": "integer"}}},
                    "s": {"$anchor": "spot", "type": "boolean"}}},
         "a:struct<q:bigint>,b:boolean"),
        ({"properties": {"a": {"$ref": "#/d/x~1y~0z%25"}}, "d": {"x/y~z%": {"type": "boolean"}}}, "a:boolean"),
        (TREE, "v:bigint,kids:array<string>,next:string,named:map<string,string>"),
        ({"type": "object", "allOf": [DEFINITIONS["animal"]], "properties": {"of": DEFINITIONS["animal"]}},
         "id:bigint,of:struct<id:bigint>"),
        ({"allOf": [{"$ref": "#/definitions/animal"}], "properties": {"of": {"$ref": "#/definitions/animal"}},
          "definitions": DEFINITIONS}, "id:bigint,of:struct<id:bigint>"),
    ],
)  # fmt: skip
def test_columns(schema: Any, wanted: str) -> None:
    assert columns(schema) == wanted


@pytest.mark.parametrize("name", ["default", "enum", "const", "examples", "example", "definitions", "$defs"])
def test_names_that_are_those_of_keywords(name: str) -> None:
    inner = {name: {"$ref": "#/definitions/A"}}
    defined = {"definitions": {"A": {"type": "string"}}}
    assert columns({"type": "object", "properties": inner} | defined) == f"{name}:string"
    for keyword in ("definitions", "$defs"):
        schema = {"properties": {"a": {"$ref": f"#/{keyword}/{name}"}}, keyword: {"A": {"type": "string"}}}
        schema[keyword][name] = {"$ref": f"#/{keyword}/A"}
        assert columns(schema) == "a:string"
        schema[keyword][name] = {"$id": "urn:x", "type": "boolean"}
        schema["properties"]["b"] = {"$ref": "urn:x"}
        assert columns(schema) == "a:boolean,b:boolean"
    for keyword in ("patternProperties", "dependentSchemas"):
        assert columns({"properties": {"a": {"$ref": f"#/{keyword}/{name}"}}, keyword: inner} | defined) == "a:string"
    assert columns({"properties": {name: {"$ref": "#"}}}) == f"{name}:string"


@pytest.mark.parametrize(
    ("pointer", "more"),
    [
        ("#/default", {"default": {"$ref": "#/definitions/A"}}),
        ("#/x-more/default", {"x-more": {"default": {"$ref": "#/definitions/A"}}}),
        ("#/patternProperties", {"patternProperties": {"$ref": "#/definitions/A"}}),
    ],
)
def test_references_from_what_is_no_schema(pointer: str, more: dict[str, Any]) -> None:
    schema = {"properties": {"a": {"$ref": pointer}}, "definitions": {"A": {"type": "boolean"}}}
    assert columns(schema | more) == "a:boolean"


def test_required_of_all_parts() -> None:
    schema = {"allOf": [CAT, {"required": ["meow"]}], "properties": {"z": {}}, "definitions": DEFINITIONS}
    assert [field.nullable for field in JSON.spark_schema(json.dumps(schema))] == [False, False, True]
    # It may be a schema of draft 7, to which `required` beside $ref says nothing.
    schema = {"$ref": "#/definitions/named", "required": ["name"], "definitions": DEFINITIONS}
    assert JSON.spark_schema(json.dumps(schema))["name"].nullable
    assert read(schema, "{}") == {"name": None}
    with pytest.raises(InvalidRowError, match='"name" is a required property'):
        written(schema)
    assert not JSON.spark_schema(json.dumps(schema | {"$schema": DRAFT_2020}))["name"].nullable


def test_the_schema_of_the_report() -> None:
    assert read(CAT, '{"id": 1, "meow": true}') == {"id": 1, "meow": True}
    assert parse_json_schema(json.dumps(CAT)).rules is None
    assert written(CAT, id=1) == b'{"id":1}'
    with pytest.raises(InvalidRowError, match="column 'id' is null"):
        written(CAT)


def test_types_of_choices_that_are_made_anew() -> None:
    kinds = ["string", "boolean", "integer", "array", "object"]
    schemas = [{"type": [kind, {"type": "null"}]} for kind in kinds * 20]
    splitter = Splitter(schemas)
    for schema in schemas:
        assert splitter.types(schema) == {schema["type"][0], "null"}


def test_parts_that_fit_no_value() -> None:
    schema = {"properties": {"a": {"properties": {"b": {"type": ["string", "null"]}}}}, "allOf": [
        {"properties": {"a": {"properties": {"b": {"type": "number"}}}}}]}  # fmt: skip
    reason = "allows no value at 'a.b': one part of it says null or string, and another number"
    with pytest.raises(InvalidSchemaError, match=reason):
        columns(schema)


@pytest.mark.parametrize(
    ("schema", "unread"),
    [
        ({"oneOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 5}}}]}, []),
        ({"anyOf": [{"properties": {"x": {}}}, {"$ref": "#/definitions/named"}]},
         ["'anyOf' at the root: there are no columns for x, name"]),
        ({"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"s": {"properties": {"t": {}, "u": {}}}}}},
         ["'then' at the root: there are no columns for s.u"]),
        ({"dependentSchemas": {"a": {"properties": {"x": {}}}}},
         ["'dependentSchemas' at the root: there are no columns for x"]),
        ({"patternProperties": {"^x": {}}},
         ["'patternProperties' at the root: there are no columns for properties like '^x'"]),
        ({"additionalProperties": {"type": "integer"}, "unevaluatedProperties": False},
         ["'additionalProperties' at the root: there are no columns for properties that the schema does not name"]),
        ({"additionalProperties": False, "minProperties": 1, "not": {"required": ["q"]}}, []),
        ({"$schema": DRAFT_7, "allOf": [{"$ref": "#/definitions/named", "properties": {"x": {}}}]},
         ["'properties' at the root: those beside $ref are ignored before draft 2019-09: x"]),
        ({"allOf": [{"$dynamicRef": "#more"}]}, ["'$dynamicRef' at the root: what '#more' adds depends on the values"]),
    ],
)  # fmt: skip
def test_what_is_in_no_column_is_said(schema: dict[str, Any], unread: list[str]) -> None:
    own = {"a": {"type": "integer"}, "s": {"type": "object", "properties": {"t": {}}}}
    assert JSON.unread(json.dumps(schema | {"properties": own, "definitions": DEFINITIONS})) == tuple(unread)


@pytest.mark.parametrize(
    ("node", "value", "reason"),
    [
        ({"type": "string", "enum": ["a", "b"]}, "c", "column 'v' is \"c\", which the JSON schema refuses at "
         "'properties/v/enum'"),
        ({"type": "string", "pattern": r"^\p{Lu}"}, "a", "does not match"),
        ({"type": "string", "maxLength": 2}, "abc", "longer than 2"),
        ({"type": "string", "format": "email"}, "abc", "is not a \"email\""),
        ({"type": "number", "multipleOf": 0.01}, 0.015, "is not a multiple of 0.01"),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 3, "less than or equal to the minimum of 3"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 1], "has non-unique elements"),
        ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 10}]}, "11", "oneOf"),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "1.5", "expects the text of a JSON value there"),
        ({"type": "number"}, float("nan"), "column 'v' is NaN or infinite"),
        ({"type": "array", "items": {"type": "integer"}}, [None], "column 'v.element' is null, which the JSON schema"),
        (False, "x", "expects the text of a JSON value there (nothing)"),
        ({"const": "a"}, "b", "was expected"),
    ],
)  # fmt: skip
def test_insert_refuses(node: Any, value: Any, reason: str) -> None:
    with pytest.raises(InvalidRowError) as error:
        written({"type": "object", "properties": {"v": node}}, v=value)
    assert reason in error.value.message
    assert error.value.message.startswith("row 0 of the batch cannot be written: ")


def test_numbers_that_are_multiples_in_decimals() -> None:
    assert written({"properties": {"v": {"type": "number", "multipleOf": 0.01}}}, v=19.99) == b'{"v":19.99}'


def test_rules_of_draft_3_as_jackson_writes_them() -> None:
    schema = {
        "type": "object",
        "id": "urn:jsonschema:Item",
        "properties": {
            "kind": {"type": "string", "required": True, "enum": ["A", "B"]},
            "size": {"type": "integer", "divisibleBy": 5},
            "other": {"type": "object", "$ref": "urn:jsonschema:Item"},
            "what": {"type": "any"},
        },
    }
    assert columns(schema) == "kind:string,size:bigint,other:string,what:string"
    assert written(schema, kind="A", other='{"kind": "B"}') == b'{"kind":"A","other":{"kind":"B"},"what":null}'
    for row in ({"kind": "C"}, {"kind": "A", "size": 7}, {"kind": "A", "other": '{"size": 5}'}):
        with pytest.raises(InvalidRowError):
            written(schema, **row)


@pytest.mark.parametrize("keyword", ["$defs", "dependentSchemas"])
@pytest.mark.parametrize("name", ["disallow", "extends", "divisibleBy"])
def test_names_that_are_those_of_keywords_of_draft_3(keyword: str, name: str) -> None:
    schema = {
        "properties": {name: {"type": "string"}, "a": {"type": "integer", "exclusiveMinimum": 0}},
        keyword: {name: {"required": ["a"], "properties": {"a": {"type": "integer"}}}},
    }
    assert json.loads(written(schema, **{name: "x", "a": 1})) == {name: "x", "a": 1}
    with pytest.raises(InvalidRowError, match="less than or equal to the minimum of 0"):
        written(schema, a=0)
    # Of draft 3 by its word, where these are no keywords; but what a reference leads to is one of its schemas.
    old = {"$schema": "http://json-schema.org/draft-03/schema#", keyword: {name: {"type": "integer", "divisibleBy": 5}}}
    old["properties"] = {"v": {"$ref": f"#/{keyword}/{name}"}}
    assert written(old, v=5) == b'{"v":5}'
    with pytest.raises(InvalidRowError, match="not a multiple of 5"):
        written(old, v=6)


def test_dependent_schemas_count_by_the_name_of_a_keyword_of_draft_3() -> None:
    schema = {
        "type": "object",
        "properties": {"disallow": {"type": "string"}, "a": {"type": "integer", "minimum": 1}},
        "dependentSchemas": {"disallow": {"required": ["a"]}},
    }
    assert written(schema, disallow="x", a=1) == b'{"disallow":"x","a":1}'
    with pytest.raises(InvalidRowError, match='"a" is a required property'):
        written(schema, disallow="x")


@pytest.mark.parametrize(
    "later",
    [
        {"$schema": "https://json-schema.org/draft/next/schema"},
        {"$schema": DRAFT_2020},
        {"$schema": DRAFT_7},
        {"$defs": {}},
        {"items": {"dependentSchemas": {}}},
    ],
)
def test_what_says_a_later_draft_is_not_of_draft_3(later: dict[str, Any]) -> None:
    schema = {"properties": {"v": {"type": "integer", "minimum": 1}}, "divisibleBy": {}}
    assert written(later | schema, v=1) == b'{"v":1}'
    assert not is_draft3(later | schema)
    assert is_draft3(schema)


def test_what_cannot_be_checked_is_refused() -> None:
    schema = {"properties": {"v": {"type": "string", "pattern": "("}}}
    with pytest.raises(InvalidSchemaError, match="the JSON schema says 'pattern' at 'v', so each row is checked"):
        written(schema, v="a")


def test_a_recursive_schema() -> None:
    document = '{"v":1,"kids":[{"v":2,"kids":[]}],"next":{"v":1},"named":{"k":{"v":3}}}'
    row = {"v": 1, "kids": ['{"v":2,"kids":[]}'], "next": '{"v":1}', "named": [("k", '{"v":3}')]}
    assert read(TREE, document) == row
    assert written(TREE, **row) == document.encode()
    for value, reason in (("x", "expects the text of a JSON value"), ('{"w":2}', '"v" is a required property')):
        with pytest.raises(InvalidRowError, match=reason):
            written(TREE, v=1, next=value)
    with pytest.raises(InvalidRowError, match="nested more than 512 levels deep"):
        written(TREE, v=1, next='{"v":1,"x":' + "[" * 511 + "]" * 511 + "}")


def test_the_schema_of_schemas() -> None:
    schema = jsonschema.Draft4Validator.META_SCHEMA
    columns = JSON.spark_schema(json.dumps(schema))
    assert columns["properties"].dataType.simpleString() == "map<string,string>"
    assert columns["not"].dataType == StringType()
    text = json.dumps(schema, separators=(",", ":"))
    row = read(schema, text)
    assert json.loads(dict(row["properties"])["not"]) == {"$ref": "#"}
    assert json.loads(written(schema, **row)) == schema


def edited(schema: Any, *edits: EditedColumn) -> Any:
    return json.loads(JSON.edited_text(json.dumps(schema), edits, None))


def test_a_changed_schema_keeps_its_parts() -> None:
    text = json.dumps(CAT)
    kept = [EditedColumn(field, field.name) for field in JSON.spark_schema(text)]
    new = StructField("age", IntegerType())
    changed = edited(CAT, *kept, EditedColumn(new, None))
    assert JSON.spark_schema(json.dumps(changed)) == StructType([*JSON.spark_schema(text), new])
    age = {"age": {"type": ["integer", "null"]}}
    assert {key: value for key, value in changed.items() if key != "links"} == CAT | {
        "properties": CAT["properties"] | age
    }
    kept = [EditedColumn(field, field.name) for field in JSON.spark_schema(json.dumps(changed))]
    without = edited(changed, *(column for column in kept if column.source != "meow"))
    assert JSON.spark_schema(json.dumps(without)).names == ["id", "age"]
    assert without["properties"] == age and without["allOf"] == CAT["allOf"]


def test_a_change_to_another_part_is_refused() -> None:
    own = EditedColumn(StructField("meow", JSON.spark_schema(json.dumps(CAT))["meow"].dataType), "meow")
    for others in (
        [],
        [EditedColumn(StructField("id", LongType(), False, {"comment": "k"}), "id")],
        [EditedColumn(StructField("id", LongType()), "id", relaxed=True)],
    ):
        with pytest.raises(UnsupportedOperationError, match=r"Column id has .* that the schema describes elsewhere"):
            edited(CAT, *others, own)


def test_a_new_type_keeps_the_rules() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"$ref": "#/properties/a"}}}
    b = EditedColumn(StructField("b", LongType()), "b")
    wide = StructField("a", JSON.spark_schema('{"properties":{"a":{"type":"number"}}}')["a"].dataType)
    changed = edited(schema, EditedColumn(wide, "a", retyped=True), b)
    assert changed["properties"]["a"] == {"type": ["number", "null"], "minimum": 3}
    with pytest.raises(UnsupportedOperationError, match="Column b has"):
        edited(schema, EditedColumn(wide, "a"), EditedColumn(StructField("b", wide.dataType), "b", retyped=True))
