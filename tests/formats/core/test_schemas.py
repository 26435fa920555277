"""Schema texts: what we make comes back exactly, what others make is read by the documented tables."""

from __future__ import annotations

import json
from collections.abc import Callable

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimeType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from pyspark_pravega.errors import InvalidNameError, InvalidSchemaError, UnsupportedTypeError
from pyspark_pravega.formats.avro.schema_to_spark import convert_avro_to_spark
from pyspark_pravega.formats.avro.spark_to_schema import convert_spark_to_avro
from pyspark_pravega.formats.core.defaults import add_default
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.json.schemas.schema_to_spark import convert_json_schema_to_spark
from pyspark_pravega.formats.json.schemas.spark_to_schema import convert_spark_to_json_schema
from tests.formats.strategies import schemas

AVRO, JSON = find_format("avro"), find_format("json")


def struct(**types: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


@given(schemas(), st.text(max_size=9), st.text(max_size=9), st.none() | st.text(max_size=9))
def test_spark_to_avro_and_back(schema: StructType, name: str, namespace: str, comment: str | None) -> None:
    text = convert_spark_to_avro(schema, name, namespace, comment)
    assert convert_avro_to_spark(text) == schema
    assert json.loads(text).get("doc") == comment
    fastavro.parse_schema(json.loads(text))


@given(schemas(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)), st.none() | st.text(max_size=9))
def test_spark_to_json_schema_and_back(schema: StructType, comment: str | None) -> None:
    text = convert_spark_to_json_schema(schema, comment)
    assert convert_json_schema_to_spark(text) == schema
    assert json.loads(text).get("description") == comment


class _Point(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:
        return StringType()


UNSUPPORTED = [
    NullType(),
    CalendarIntervalType(),
    DayTimeIntervalType(),
    YearMonthIntervalType(),
    VariantType(),
    TimeType(7),
    GeometryType(4326),
    GeographyType(4326),
    _Point(),
    StructType([]),
    MapType(IntegerType(), StringType()),
    MapType(StringType("UNICODE"), StringType()),
    DecimalType(5, -2),
]


@pytest.mark.parametrize("format_name", ["avro", "json"])
@pytest.mark.parametrize("data_type", UNSUPPORTED, ids=lambda case: type(case).__name__)
def test_other_types_are_refused_by_their_path(format_name: str, data_type: DataType) -> None:
    schema = struct(a=struct(b=ArrayType(data_type)))
    if format_name == "json" and isinstance(data_type, VariantType):
        assert find_format("json").spark_schema(find_format("json").schema_text(Layout(schema), "t", "s")) == schema
        return
    with pytest.raises(UnsupportedTypeError, match=r"column 'a\.b\.element' has type"):
        find_format(format_name).schema_text(Layout(schema), "t", "s")


@pytest.mark.parametrize("name", ["a-b", "1a", "²", "𝔸", "a b", "a.b", ""])
def test_names_that_avro_cannot_hold(name: str) -> None:
    schema = struct(outer=struct(**{name: LongType()}))
    with pytest.raises(InvalidNameError, match="use format json"):
        AVRO.schema_text(Layout(schema), "t", "s")
    assert JSON.spark_schema(JSON.schema_text(Layout(schema), "t", "s")) == schema


def test_a_column_twice() -> None:
    schema = StructType([StructField("a", LongType()), StructField("a", LongType())])
    for format_ in (AVRO, JSON):
        with pytest.raises(InvalidNameError, match="'a' occurs twice"):
            format_.schema_text(Layout(schema), "t", "s")


def test_type_names() -> None:
    schema = struct(a=ByteType())
    assert AVRO.type_name(AVRO.schema_text(Layout(schema), "sensor-agg", "iot.plant-1")) == "iot.plant_1.sensor_agg"
    assert AVRO.type_name('"string"') == "string"
    assert JSON.type_name(JSON.schema_text(Layout(schema), "sensor-agg", "iot")) == "sensor-agg"
    assert JSON.type_name('{"type": "object", "id": "urn:jsonschema:Interop:Item"}') == "Item"
    assert JSON.type_name("{}") == "object"


def avro_type(avro: object) -> str:
    return str(convert_avro_to_spark(json.dumps(avro))[0].dataType.simpleString())


@pytest.mark.parametrize(
    ("avro", "spark"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "long", "logicalType": "time-micros"}, "bigint"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "bigint"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "timestamp-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "decimal(9,0)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}, "binary"),
        ({"type": "bytes", "logicalType": "decimal"}, "binary"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, "string"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}, "decimal(5,0)"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string"),
        ({"type": "array", "items": "int"}, "array<int>"),
        ({"type": "map", "values": ["null", "int"]}, "map<string,int>"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["string", "null"], "string"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        ({"type": "int", "spark.type": "tinyint"}, "tinyint"),
        ({"type": "int", "spark.type": "string"}, "int"),
        ({"type": "string", "spark.type": "varchar(3)"}, "varchar(3)"),
    ],
    ids=str,
)
def test_avro_to_spark(avro: object, spark: str) -> None:
    assert avro_type(avro) == spark


def test_avro_durations_are_refused_by_name() -> None:
    with pytest.raises(InvalidSchemaError, match="column '[^']*' is an Avro duration"):
        avro_type({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"})


def test_a_default_of_many_digits_is_exact_in_avro() -> None:
    text = "12345678901234567890123456789012345.67"
    column = add_default(StructField("d", DecimalType(38, 2)), text, text)
    [field] = json.loads(convert_spark_to_avro(StructType([column]), "t", "s"))["fields"]
    unscaled = int.from_bytes(field["default"].encode("latin-1"), "big", signed=True)
    assert unscaled == 1234567890123456789012345678901234567


def test_avro_nullability_names_and_comments() -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "Outer$Inner",
            "namespace": "com.acme",
            "fields": [
                {"name": "id", "type": "long", "doc": "the key"},
                {"name": "left", "type": ["string", "null"]},
                {"name": "first", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}},
                {"name": "second", "type": ["null", "com.acme.P"]},
                {"name": "third", "type": {"type": "array", "items": "P"}},
            ],
        }
    )
    schema = convert_avro_to_spark(text)
    assert schema.simpleString() == (
        "struct<id:bigint,left:string,first:struct<x:int>,second:struct<x:int>,third:array<struct<x:int>>>"
    )
    assert [field.nullable for field in schema] == [False, True, False, True, False]
    assert schema["id"].metadata == {"comment": "the key"}


ENDLESS = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": [{"type": "record", "name": "S", "fields": [{"name": "b", "type": ["R"]}]}]}],
}
BOMB = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}] + [
    {
        "type": "record",
        "name": f"R{level}",
        "fields": [{"name": name, "type": f"R{level - 1}"} for name in "abcd"],
    }
    for level in range(1, 20)
]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("5", "5 is not a type"),
        ('"wat"', "'wat' is not defined"),
        ("[]", "a union without types"),
        ('["int", "int"]', "'int' twice"),
        ('["int", ["string"]]', "a union directly inside a union"),
        ('{"type": "record", "name": "R"}', "has no 'fields'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]}', "'a-b', which is not a valid"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "invalid at 'a': a field without type"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "a symbol twice"),
        ('{"type": "fixed", "name": "F", "size": -1}', "no valid 'size'"),
        ('{"type": "array"}', "without 'items'"),
        ('"null"', "can only be null"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]}', "each value of the record 'R'"),
        (json.dumps(ENDLESS), "each value of the record 'R' contains another one, endlessly"),
        (json.dumps(BOMB), "'R0' twice|more than 10000 columns|not defined"),
    ],
)
def test_invalid_avro(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        convert_avro_to_spark(text)


def test_an_avro_schema_that_stands_for_billions_of_columns() -> None:
    inner: object = BOMB[0]
    for level in range(1, 20):
        fields = [{"name": "a", "type": inner}] + [{"name": name, "type": f"R{level - 1}"} for name in "bcd"]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(InvalidSchemaError, match="more than 10000 columns"):
        convert_avro_to_spark(json.dumps(inner))


def nest_avro(levels: int) -> str:
    inner = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    return f'{{"type":"record","name":"R","fields":[{{"name":"deep","type":{inner}}}]}}'


def nest_records(levels: int) -> str:
    inner = '"int"'
    for level in range(levels + 1):
        inner = f'{{"type":"record","name":"R{level}","fields":[{{"name":"deep","type":{inner}}}]}}'
    return inner


def nest_json(levels: int) -> str:
    return '{"properties":{"deep":' + '{"items":' * levels + '{"type":"integer"}' + "}" * levels + "}}"


@pytest.mark.parametrize("levels", [61, 150, 320, 480, 980, 2000, 100_000])
@pytest.mark.parametrize("nest", [nest_avro, nest_records, nest_json])
def test_schemas_nested_too_deeply(nest: Callable[[int], str], levels: int) -> None:
    convert = convert_json_schema_to_spark if nest is nest_json else convert_avro_to_spark
    assert convert(nest(60)).names == ["deep"]
    with pytest.raises((InvalidSchemaError, UnsupportedTypeError), match="nested (too deeply|more than 60 )"):
        convert(nest(min(levels, 3000) if nest is nest_records else levels))


def json_type(node: object) -> str:
    return str(convert_json_schema_to_spark(json.dumps({"properties": {"a": node}}))["a"].dataType.simpleString())


@pytest.mark.parametrize(
    ("node", "spark"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "string"}, "string"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": ["integer", "string"]}, "string"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"enum": ["A", "B", None]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"items": {"type": "boolean"}}, "array<boolean>"),
        ({"type": "object", "properties": {"x": {"type": "number"}}}, "struct<x:double>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object"}, "map<string,string>"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"type": "any"}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"type": "integer", "spark.type": "tinyint"}, "tinyint"),
        ({"type": "string", "spark.type": "bigint"}, "string"),
        ({"type": "number", "spark.type": "decimal(10,2)"}, "decimal(10,2)"),
    ],
    ids=str,
)
def test_json_schema_to_spark(node: object, spark: str) -> None:
    assert json_type(node) == spark


def test_json_schema_nullability() -> None:
    text = json.dumps(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["integer", "null"]},
                "c": {"type": "integer"},
                "d": {"type": "integer", "required": True},
                "e": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["a", "b"],
        }
    )
    schema = convert_json_schema_to_spark(text)
    assert [field.nullable for field in schema] == [False, True, True, False, True]
    assert schema["e"].dataType == ArrayType(StringType(), True)


def test_json_schema_references() -> None:
    text = json.dumps(
        {
            "type": "object",
            "properties": {
                "first": {"type": "object", "id": "urn:jsonschema:Point", "properties": {"x": {"type": "number"}}},
                "second": {"type": "object", "$ref": "urn:jsonschema:Point"},
                "third": {"$ref": "#/definitions/a~1b%20c"},
            },
            "definitions": {"a/b c": {"type": "boolean"}},
        }
    )
    expected = "struct<first:struct<x:double>,second:struct<x:double>,third:boolean>"
    assert convert_json_schema_to_spark(text).simpleString() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "neither an object nor"),
        ('{"properties": {"a": 1}}', "invalid at 'a'"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "refers to '#/nowhere'"),
        ('{"$ref": "#"}', "'#' is a part of itself"),
        ('{"properties": {"a": {"allOf": [{"$ref": "#/b"}]}}, "b": {"$ref": "#/properties/a"}}', "is a part of itself"),
        ('{"allOf": [{"$ref": "https://example.org/base.json"}]}', "refers to 'https://example.org/base.json'"),
    ],
)
def test_invalid_json_schema(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        convert_json_schema_to_spark(text)


def test_roots_that_are_no_record() -> None:
    assert convert_avro_to_spark('["null", "string"]') == struct(value=StringType())
    assert convert_json_schema_to_spark('{"type": ["integer", "null"]}') == struct(value=LongType())
