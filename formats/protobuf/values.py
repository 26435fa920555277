"""Converts between Protobuf messages and the values that Arrow takes, guided by the wanted columns.

Some columns hold messages as texts in Protobuf's own JSON mapping. Fields have their names in the schema, like columns,
not the camel case that it prefers. Unset fields are left out. https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.framing import Undecodable
from ..core.scalars import FIRST_MICROS, LAST_MICROS
from .message_types import find_message_class
from .schema_to_spark import JSON_VALUES, TIMESTAMP, WRAPPERS, find_entry_fields, is_map, is_repeated, is_required

_SHOWN = 200
"""Most characters of a reason in a message."""

NOT_UTF_8 = "a string in it is not UTF-8 text"


def check_text(value: Any) -> Any:
    """Return a string of the library. Raises Undecodable for bytes: unchecked strings that are not UTF-8."""
    if isinstance(value, bytes):
        raise Undecodable(NOT_UTF_8)
    return value


def write_json_text(message: Message) -> str:
    """Return a message as JSON text without blanks. Raises Undecodable if the mapping cannot express it."""
    _check_strings(message)
    pool: Any = message.DESCRIPTOR.file.pool  # of types that an Any may have
    try:
        mapped = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except (json_format.Error, ValueError, TypeError) as error:
        raise Undecodable(f"a {message.DESCRIPTOR.full_name} in it has no JSON text ({error})") from None
    return json.dumps(mapped, ensure_ascii=False, separators=(",", ":"))


def fill_from_json(message: Message, text: str) -> Message:
    """Return an empty message, filled from a JSON text. Raises ValueError for a text that does not fit."""
    pool: Any = message.DESCRIPTOR.file.pool
    name = message.DESCRIPTOR.full_name
    if name not in JSON_VALUES and not text.lstrip().startswith("{"):
        raise ValueError(f"not a JSON object, which {name} needs")
    try:
        return json_format.Parse(text, message, descriptor_pool=pool)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split()).partition(" Available Fields")[0].rstrip(".")
        if len(reason) > _SHOWN:
            # The cause is at the end, after the names of all fields on the way.
            reason = f"...{reason[-_SHOWN:]}"
        raise ValueError(f"not JSON that fits {name} ({reason})") from None


def _check_strings(message: Any) -> None:
    """Raise Undecodable for a string that is not UTF-8, which the library would show as a Python bytes literal."""
    for field, content in message.ListFields():
        values = [content]
        if is_map(field):
            # Strings among the keys and values of maps are checked when they are read.
            field, values = find_entry_fields(field)[1], list(content.values())
        elif is_repeated(field):
            values = list(content)
        if field.message_type is not None:
            for value in values:
                _check_strings(value)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for value in values:
                check_text(value)


FromMessage = Callable[[Any], Any]
ToMessage = Callable[[Any], Any]
"""Turns a value that is not null into what the constructor of a message takes, or raises ValueError or TypeError."""
Converters = tuple[FromMessage, ToMessage]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)


def find_field(message: Descriptor, column: StructField) -> FieldDescriptor:
    """Return the field that a column stands for. Raises InvalidSchemaError if there is none."""
    field = message.fields_by_name.get(column.name)
    if field is None:
        raise InvalidSchemaError(f"the message '{message.full_name}' has no field '{column.name}'")
    return field


def make_converters(field: FieldDescriptor, data_type: DataType) -> Converters:
    """Return a reader of a field of a message, which returns None for an unset field, and a writer of its values."""
    name = field.name
    if is_map(field):
        assert isinstance(data_type, MapType)
        key, value = find_entry_fields(field)
        read_key, write_key = _make_value_converters(key, data_type.keyType)
        read_value, write_value = _make_value_converters(value, data_type.valueType)
        return (
            lambda message: [(read_key(k), read_value(v)) for k, v in getattr(message, name).items()],
            lambda pairs: {write_key(k): write_value(_refuse_null(v)) for k, v in pairs},
        )
    if is_repeated(field):
        assert isinstance(data_type, ArrayType)
        read, write = _make_value_converters(field, data_type.elementType)
        return (
            lambda message: [read(value) for value in getattr(message, name)],
            lambda values: [write(_refuse_null(value)) for value in values],
        )
    read, write = _make_value_converters(field, data_type)
    if not field.has_presence:
        return lambda message: read(getattr(message, name)), write
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None, write


def _make_value_converters(field: FieldDescriptor, data_type: DataType) -> Converters:
    """Return a reader and a writer of one value of the field's type."""
    message = field.message_type
    if message is None:
        if field.enum_type is not None:
            return _make_enum_namer(field.enum_type), _make_enum_writer(field.enum_type)
        if field.type == FieldDescriptor.TYPE_STRING:
            return check_text, _keep
        return (Decimal, int) if isinstance(data_type, DecimalType) else (_keep, _keep)
    if message.full_name == TIMESTAMP:
        return _read_micros, _write_timestamp
    if message.full_name in WRAPPERS:
        read, write = _make_value_converters(message.fields_by_name["value"], data_type)
        return lambda value: read(value.value), lambda value: {"value": write(value)}
    if isinstance(data_type, StringType):
        message_class = find_message_class(message)
        return write_json_text, lambda text: fill_from_json(message_class(), text)
    assert isinstance(data_type, StructType)
    members = [
        (column.name, *make_converters(find_field(message, column), column.dataType)) for column in data_type.fields
    ]
    return (
        lambda value: {name: get(value) for name, get, _ in members},
        lambda value: {name: write(value[name]) for name, _, write in members if value[name] is not None},
    )


def _keep(value: Any) -> Any:
    return value


def _make_enum_namer(enum: EnumDescriptor) -> FromMessage:
    """Return a function that names numbers of an enum: by the first of several names, as in Protobuf's JSON."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return lambda number: names.get(number) or str(number)


def _read_micros(value: Any) -> int:
    """Return microseconds since 1970, without further digits. Raises Undecodable outside the years 0001 to 9999."""
    if not 0 <= value.nanos < 1_000_000_000:
        raise Undecodable(f"a timestamp has {value.nanos} nanoseconds, not 0 to 999,999,999")
    micros: int = value.seconds * 1_000_000 + value.nanos // 1000
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise Undecodable(f"the timestamp of {value.seconds} seconds is outside the years 0001 to 9999")
    return micros


def iterate_missing_fields(message: Any, path: str = "") -> Iterator[str]:
    """Iterate over the paths of required fields that a message lacks.

    The library's own FindInitializationErrors crashes the process at a map key that is not UTF-8 (protobuf 7.36);
    here such a key raises UnicodeDecodeError.
    """
    for field in message.DESCRIPTOR.fields:
        if is_required(field) and not message.HasField(field.name):
            yield f"{path}{field.name}"
    for field, content in message.ListFields():
        if field.message_type is None:
            continue
        here = f"{path}{field.name}"
        if is_map(field):
            if find_entry_fields(field)[1].message_type is not None:
                for key, value in content.items():
                    yield from iterate_missing_fields(value, f"{here}[{key!r}].")
        elif is_repeated(field):
            for index, value in enumerate(content):
                yield from iterate_missing_fields(value, f"{here}[{index}].")
        else:
            yield from iterate_missing_fields(content, f"{here}.")


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise ValueError("null in an array or a map, which Protobuf does not have; filter such elements out")
    return value


def _make_enum_writer(enum: EnumDescriptor) -> ToMessage:
    numbers = {value.name: value.number for value in enum.values}

    def find_number(text: str) -> int:
        if text in numbers:
            return numbers[text]
        if text.removeprefix("-").isdecimal():
            return int(text)
        raise ValueError(f"'{text}', which the enum {enum.full_name} does not have")

    return find_number


def _write_timestamp(value: datetime.datetime) -> dict[str, int]:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    seconds, micros = divmod((moment - _EPOCH) // _MICRO, 1_000_000)
    return {"seconds": seconds, "nanos": micros * 1000}
