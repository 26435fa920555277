"""Maps a JSON Schema text, by this project or any other program, to Spark types.

| JSON Schema | Spark |
|---|---|
| boolean, integer, number, string | boolean, bigint, double, string |
| "spark.type" | what it says, if it can be written as the JSON type |
| string with format date, date-time | date, timestamp |
| string with contentEncoding base64 | binary |
| enum of strings | string |
| array | array |
| object with properties | struct |
| object without properties | map<string, what additionalProperties says> |
| several types, "any", no type, anyOf and oneOf of several | string: strings as they are, others as their JSON text |
| the same with "spark.type" variant | variant |
| a reference to a schema around it (recursion) | string: the JSON text of the value |
| allOf, $ref | the types that all of them and the schema itself allow; see `schema_model` |
| a root that is not an object with properties | one column `value` |

A property is NOT NULL if it is required and not "null". Elements of lists and maps are nullable even if
the schema does not say so, except in schemas of this project, because serializers often write nulls there.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType

from ...core.spark_types import ROOT_COLUMN, limit_depth
from . import schema_model as model
from .schema_parser import parse_json_schema


def convert_json_schema_to_spark(text: str) -> StructType:
    """Return the columns of a table with this schema.

    Raises InvalidSchemaError if the text is no JSON schema, refers to another, or has parts that exclude each other.
    """
    return make_spark_struct(parse_json_schema(text).root)


def make_spark_struct(root: model.Node) -> StructType:
    """Return the columns of a parsed schema, as `convert_json_schema_to_spark` does."""
    return limit_depth(lambda: _convert_root(root))


def _convert_root(root: model.Node) -> StructType:
    if isinstance(root, model.Object):
        return _convert_struct(root)
    return StructType([StructField(ROOT_COLUMN, _convert_type(root), root.nullable)])


def _convert_type(node: model.Node) -> DataType:
    if isinstance(node, model.Scalar):
        return node.type
    if isinstance(node, model.Array):
        return ArrayType(_convert_type(node.items), node.items.nullable)
    if isinstance(node, model.Map):
        return MapType(StringType(), _convert_type(node.values), node.values.nullable)
    if isinstance(node, model.Object):
        return _convert_struct(node)
    return VariantType() if isinstance(node, model.Anything) and node.variant else StringType()


def _convert_struct(node: model.Object) -> StructType:
    fields = []
    for name, inner in node.properties.items():
        metadata = dict(inner.metadata) | ({} if inner.comment is None else {"comment": inner.comment})
        fields.append(StructField(name, _convert_type(inner), inner.nullable, metadata))
    return StructType(fields)
