"""Maps Protobuf messages to Spark types.

| Protobuf | Spark |
|---|---|
| bool | boolean |
| int32, sint32, sfixed32 | int |
| uint32, fixed32, int64, sint64, sfixed64 | bigint |
| uint64, fixed64 | decimal(20,0) |
| float, double | float, double |
| string | string |
| bytes | binary |
| enum | string: the value's name, or the digits of a number without a name |
| message, group | struct |
| repeated | array without nulls |
| map<k, v> | map<k, v> |
| member of a oneof | nullable column |
| google.protobuf.Timestamp | timestamp |
| google.protobuf.BoolValue, Int32Value, ... | nullable column of the wrapped type |
| google.protobuf.Struct, Value, ListValue | string: JSON |
| google.protobuf.Duration, Any and others | struct of their fields |
| a message within one of its own type | string: JSON |

A field that knows whether it was set (proto3: optional, messages, members of a oneof; proto2: optional) is null if it
was not set. Other fields are NOT NULL and have their default value, including required, repeated and map fields.
Members of structs have defaults, too, but are nullable.

Spark has no recursive types: a message within one of its own type becomes its text in Protobuf's own JSON mapping.
"""

from __future__ import annotations

import pyspark.sql.types as T
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pyspark_pravega.errors import InvalidSchemaError

from ..core.spark_types import DEEPEST, LARGEST_SCHEMA
from ..core.spark_visitor import join_path
from .message_types import read_message_type

_F = FieldDescriptor
_SCALARS: dict[int, T.DataType] = {
    _F.TYPE_BOOL: T.BooleanType(),
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), T.IntegerType()),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32, _F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), T.LongType()),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), T.DecimalType(20, 0)),
    _F.TYPE_FLOAT: T.FloatType(),
    _F.TYPE_DOUBLE: T.DoubleType(),
    _F.TYPE_STRING: T.StringType(),
    _F.TYPE_BYTES: T.BinaryType(),
    _F.TYPE_ENUM: T.StringType(),
}

TIMESTAMP = "google.protobuf.Timestamp"
JSON_VALUES = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)


def convert_protobuf_to_spark(text: str) -> T.StructType:
    """Return the columns of a table with this schema text (see `messages`). Raises InvalidSchemaError."""
    return _Mapping().struct(read_message_type(text), "", ())


def has_json_texts(message: Descriptor) -> bool:
    """Return whether columns of a message's table, or parts of them, hold JSON texts."""
    mapping = _Mapping()
    mapping.struct(message, "", ())
    return mapping.json_texts


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field may have several values, by whatever way the library's release offers."""
    repeated = getattr(field, "is_repeated", None)
    return bool(getattr(field, "label", 0) == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def is_required(field: FieldDescriptor) -> bool:
    """Return whether a message must have the field, by whatever way the library's release offers."""
    required = getattr(field, "is_required", None)
    return bool(getattr(field, "label", 0) == FieldDescriptor.LABEL_REQUIRED if required is None else required)


def find_entry_fields(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """Return the fields of a map's key and value."""
    assert field.message_type is not None
    return field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map, which on the wire is a repeated message."""
    return is_repeated(field) and field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class _Mapping:
    def __init__(self) -> None:
        self._count = 0
        self.json_texts = False

    def struct(self, message: Descriptor, path: str, within: tuple[str, ...]) -> T.StructType:
        within = (*within, message.full_name)
        if len(within) > DEEPEST:
            raise InvalidSchemaError(
                f"the Protobuf schema nests messages more than {DEEPEST} levels deep, at '{path[:60]}...'"
            )
        fields = []
        for field in message.fields:
            self._count += 1
            if self._count > LARGEST_SCHEMA:
                raise InvalidSchemaError(f"the Protobuf schema stands for more than {LARGEST_SCHEMA} columns")
            # Arrow, to which Spark hands rows, fails for NOT NULL members of a struct that is null.
            nullable = len(within) > 1 or bool(field.has_presence and not is_required(field))
            fields.append(T.StructField(field.name, self._column(field, join_path(path, field.name), within), nullable))
        return T.StructType(fields)

    def _column(self, field: FieldDescriptor, path: str, within: tuple[str, ...]) -> T.DataType:
        if is_map(field):
            key, value = find_entry_fields(field)
            return T.MapType(
                self._value(key, join_path(path, "key"), within),
                self._value(value, join_path(path, "value"), within),
                False,
            )
        if is_repeated(field):
            return T.ArrayType(self._value(field, join_path(path, "element"), within), False)
        return self._value(field, path, within)

    def _value(self, field: FieldDescriptor, path: str, within: tuple[str, ...]) -> T.DataType:
        message = field.message_type
        if message is None:
            return _SCALARS[field.type]
        if message.full_name == TIMESTAMP:
            return T.TimestampType()
        if message.full_name in WRAPPERS:
            return _SCALARS[message.fields_by_name["value"].type]
        if message.full_name in JSON_VALUES or message.full_name in within:
            self.json_texts = True
            return T.StringType()
        return self.struct(message, path, within)
