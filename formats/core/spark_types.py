"""Describes Spark types in schema texts: their names, their JSON, their depth, and which numbers hold others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidSchemaError, UnsupportedTypeError

SPARK_TYPE = "spark.type"
"""The key for the exact Spark type of a column whose type in the text is coarser."""

VARIANT = "variant"
"""The `SPARK_TYPE` of a column that takes any value."""

SPARK_MAP = "spark.map"
"""The key for the Spark type of a map whose keys are not strings, a list of entries. Only tables of changes have it."""

SPARK_METADATA = "spark.metadata"
"""The key for the metadata of a column, without its comment."""

ROOT_COLUMN = "value"
"""The name of the only column of a schema whose root is not a record."""

LARGEST_SCHEMA = 10_000
"""Most types of a schema once every name is replaced by its definition. A few lines of text can stand for billions."""

DEEPEST = 60
"""Most levels of nested structs, arrays and maps; a map counts as two, because it is a list of structs to Arrow.

Arrow's IPC, by which Spark and its Python workers exchange rows, allows 64. A changelog nests the columns one deeper.
"""

WHOLE_NUMBERS: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATING_POINT: tuple[type[T.DataType], ...] = (T.FloatType, T.DoubleType)
"""Each type holds all values of the types before it."""


def find_wider_number(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """Return which of two types of numbers holds the values of both; None if neither does."""
    for family in (WHOLE_NUMBERS, FLOATING_POINT):
        if type(one) in family and type(other) in family:
            return max(one, other, key=lambda candidate: family.index(type(candidate)))
    return None


ELEMENT, KEY, VALUE = "element", "key", "value"
"""Names of the parts of arrays and maps in paths of fields, as in Spark."""


def list_fields(data_type: T.DataType) -> list[T.StructField]:
    """Return the fields of a struct, and the parts of an array or a map as fields; none for single values."""
    match data_type:
        case T.StructType():
            return data_type.fields
        case T.ArrayType():
            return [T.StructField(ELEMENT, data_type.elementType, data_type.containsNull)]
        case T.MapType():
            value = T.StructField(VALUE, data_type.valueType, data_type.valueContainsNull)
            return [T.StructField(KEY, data_type.keyType, False), value]
    return []


def replace_fields(data_type: T.DataType, fields: Sequence[T.StructField]) -> T.DataType:
    """Return a type of the same kind with other parts, as `list_fields` returns them."""
    match data_type:
        case T.StructType():
            return T.StructType([*fields])
        case T.ArrayType():
            return T.ArrayType(fields[0].dataType, fields[0].nullable)
        case T.MapType():
            return T.MapType(fields[0].dataType, fields[1].dataType, fields[1].nullable)
    return data_type


def convert_parts(data_type: T.DataType, convert: Callable[[T.DataType], T.DataType]) -> T.DataType:
    """Return a type whose fields, elements, or keys and values have converted types."""
    fields = list_fields(data_type)
    return replace_fields(
        data_type, [T.StructField(f.name, convert(f.dataType), f.nullable, f.metadata) for f in fields]
    )


def order_like(data_type: T.DataType, other: T.DataType) -> T.DataType:
    """Return a type with the fields of its structs, at any depth, in the order that another type has for the same."""
    own, like = {field.name: field for field in list_fields(data_type)}, list_fields(other)
    if type(data_type) is not type(other) or sorted(own) != sorted(field.name for field in like):
        return data_type
    ordered = [(own[field.name], field.dataType) for field in like]
    return replace_fields(
        data_type, [T.StructField(f.name, order_like(f.dataType, to), f.nullable, f.metadata) for f, to in ordered]
    )


def fit_rows(rows: T.StructType, table: T.StructType, *, widening: bool = False) -> T.StructType:
    """Return the columns of rows under the table's rules on nulls; `widening`: the table may have wider numbers.

    Raises InvalidSchemaError for a column that the other side lacks, or that cannot be written as the table's type.
    """
    columns = {field.name: field for field in table.fields}
    for name in columns:
        if name not in rows.fieldNames():
            raise InvalidSchemaError(f"column '{name}' is not in the rows to write")
    fields = []
    for field in rows.fields:
        column = columns.get(field.name)
        if column is None:
            raise InvalidSchemaError(f"column '{field.name}' is not in the schema text")
        column_type = order_like(column.dataType, field.dataType)
        row_type, declared_type = field.dataType.simpleString(), column_type.simpleString()
        same, wider = row_type == declared_type, find_wider_number(field.dataType, column.dataType) == column.dataType
        if not same and not (widening and wider):
            raise InvalidSchemaError(
                f"column '{field.name}' of type {row_type} cannot be written as the schema's {declared_type}"
            )
        fields.append(T.StructField(field.name, column_type if same else field.dataType, column.nullable))
    return T.StructType(fields)


_EXACT_IN: dict[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.ByteType: (T.FloatType, T.DoubleType),
    T.ShortType: (T.FloatType, T.DoubleType),
    T.IntegerType: (T.DoubleType,),
}
"""The floating-point types that hold all values of a type of whole numbers."""


def can_hold_number(wide: T.DataType, narrow: T.DataType) -> bool:
    """Return whether a type of numbers holds every value of another exactly; False for other types."""
    return find_wider_number(narrow, wide) == wide or type(wide) in _EXACT_IN.get(type(narrow), ())


_OTHERS = (T.BooleanType(), T.StringType(), T.BinaryType(), T.DateType(), T.TimestampType(), T.TimestampNTZType())
_PLAIN: dict[str, T.DataType] = {
    plain.simpleString(): plain for plain in (*(kind() for kind in (*WHOLE_NUMBERS, *FLOATING_POINT)), *_OTHERS)
}
_WITH_LENGTH = re.compile(r"(char|varchar)\((\d{1,9})\)")
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_TIME = re.compile(r"time\(([0-6])\)")
_COLLATED = re.compile(r"string collate (\w+)")


def parse_spark_type(name: object) -> T.DataType | None:
    """Return the primitive type with this `simpleString()`; None if there is no such type."""
    if not isinstance(name, str):
        return None
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain
    if match := _WITH_LENGTH.fullmatch(name):
        length = int(match[2])
        return T.CharType(length) if match[1] == "char" else T.VarcharType(length)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        return T.DecimalType(precision, scale) if is_valid_decimal(precision, scale) else None
    if match := _TIME.fullmatch(name):
        return T.TimeType(int(match[1]))
    if match := _COLLATED.fullmatch(name):
        return T.StringType(match[1])
    return None


def is_valid_decimal(precision: object, scale: object) -> bool:
    """Return whether Spark has decimal(precision, scale)."""
    return isinstance(precision, int) and isinstance(scale, int) and 0 < precision <= 38 and 0 <= scale <= precision


def make_nullable(schema: T.StructType) -> T.StructType:
    """Return the schema with all of its own fields nullable; nested ones stay as they are."""
    return T.StructType([T.StructField(field.name, field.dataType, True, field.metadata) for field in schema])


def split_comment(metadata: dict[str, Any] | None) -> tuple[str | None, dict[str, Any]]:
    """Return a column's comment, and the rest of its metadata."""
    rest = dict(metadata or {})
    comment = rest.get("comment")
    if not isinstance(comment, str):
        return None, rest
    del rest["comment"]
    return comment, rest


def describe_column(metadata: dict[str, Any] | None, comment_key: str) -> dict[str, Any]:
    """Return what a schema text says of a column besides its type: its comment, under this key, and SPARK_METADATA."""
    comment, rest = split_comment(metadata)
    return ({} if comment is None else {comment_key: comment}) | ({SPARK_METADATA: rest} if rest else {})


def replace_description(node: dict[str, Any], metadata: dict[str, Any] | None, comment_key: str) -> dict[str, Any]:
    """Return what a schema text says of a column, with another comment and other metadata."""
    kept = {key: value for key, value in node.items() if key not in (comment_key, SPARK_METADATA)}
    return kept | describe_column(metadata, comment_key)


def parse_spark_schema(text: str) -> T.StructType:
    """Parse Spark's JSON of a schema. Raises UnsupportedTypeError for nesting over DEEPEST and for users' own types."""
    try:
        schema = json.loads(text)
    except RecursionError:
        raise _make_depth_error("a column") from None
    for column in schema["fields"]:
        _check_depth(f"column '{column['name']}'", column["type"])
    check_types_known(schema)
    return T.StructType.fromJson(schema)


def check_types_known(described: Any) -> None:
    """Raise UnsupportedTypeError if Spark's JSON of a type has one of somebody's own ("udt").

    PySpark imports the module that such a type names, calls what it names there, and unpickles its bytes: whoever
    stored the schema would run code where it is read. So this comes before each `fromJson` of a stored text.
    """
    waiting = [described]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("type") == "udt":
                raise UnsupportedTypeError(
                    "a user-defined type of Spark cannot be read from a stored schema: Spark would run the code that "
                    "it names. Declare the column with the type of its values"
                )
            waiting += [inner for key, inner in value.items() if key != "metadata"]
        elif isinstance(value, list):
            waiting += value


def limit_depth(convert: Callable[[], T.StructType]) -> T.StructType:
    """Return the columns that a schema text stands for. Raises UnsupportedTypeError for one deeper than DEEPEST."""
    try:
        schema = convert()
        types = [(f"column '{field.name}'", field.dataType.jsonValue()) for field in schema]
    except RecursionError:
        raise _make_depth_error("a column") from None
    for column, data_type in types:
        _check_depth(column, data_type)
    return schema


def _check_depth(column: str, data_type: Any) -> None:
    level = [data_type]
    for _ in range(DEEPEST + 1):
        level = [inner for nested in level if isinstance(nested, dict) for inner in _list_inner_types(nested)]
        if not level:
            return
    raise _make_depth_error(column)


def _list_inner_types(data_type: dict[str, Any]) -> list[Any]:
    fields = [field["type"] for field in data_type.get("fields", ())]
    if "valueType" in data_type:
        return [{"fields": [{"type": data_type["keyType"]}, {"type": data_type["valueType"]}]}]
    return fields + ([data_type["elementType"]] if "elementType" in data_type else [])


def _make_depth_error(column: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"{column} has a type nested more than {DEEPEST} levels deep (a map counts as two). Flatten it, or store it as "
        "a STRING of JSON (to_json)."
    )
