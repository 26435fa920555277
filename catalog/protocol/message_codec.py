"""JSON of the dataclasses that go through the pipe to the catalog service and back, or stay in rows.

A dataclass is an object with its fields as keys. In the pipe no data are keys: a mapping is a list of pairs of texts,
and a description that only Python reads (a table, the ends of scans) is one text. Schemas are Spark's JSON texts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pyspark.sql.types import DataType, StructType

from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, ProtocolError
from pyspark_pravega.formats.core.spark_types import parse_spark_schema

T = TypeVar("T")
_SHOWN = 60
"""Characters of a value that an error shows."""


def decode(kind: type[T], value: Any, *, newer: bool = False) -> T:
    """Return the dataclass of type `kind` that a JSON object stands for.

    `newer`: a newer version may have written it, whose other fields are left out.

    Raises ProtocolError for an object with other fields or types, InvalidOptionError for a text that cannot be encoded.
    """
    if not isinstance(value, dict):
        raise ProtocolError(f"{kind.__name__} is not an object.")
    types, needed = _describe_fields(kind)  # type: ignore[arg-type]
    if newer:
        value = {name: each for name, each in value.items() if name in types}
    if not needed <= value.keys() <= types.keys():
        raise ProtocolError(f"{kind.__name__} has the fields {', '.join(types)}, not {', '.join(value)}.")
    return kind(**{name: _decode(types[name], each, f"{kind.__name__}.{name}") for name, each in value.items()})


@cache
def _describe_fields(kind: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the types of a dataclass's fields, and the names of those without a default."""
    fields, types, missing = dataclasses.fields(kind), get_type_hints(kind), dataclasses.MISSING
    needed = {field.name for field in fields if field.default is field.default_factory is missing}
    return {field.name: types[field.name] for field in fields}, needed


@cache
def _take_apart(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


def _decode(kind: Any, value: Any, name: str) -> Any:
    if kind is str and isinstance(value, str):
        return _check_text(value, name)
    if kind in (bool, int, float) and (type(value) is kind or (kind is float and type(value) is int)):
        return value
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return decode(kind, value)  # type: ignore[arg-type]
    origin, arguments = _take_apart(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        [kind] = [argument for argument in arguments if argument is not NoneType]
        return _decode(kind, value, name)
    if origin in (tuple, Sequence) and isinstance(value, list):
        kinds = arguments if origin is tuple and arguments[-1] is not Ellipsis else [arguments[0]] * len(value)
        if len(kinds) != len(value):
            raise ProtocolError(f"{name} has {len(value)} values instead of {len(kinds)}.")
        return tuple(_decode(kind, each, name) for kind, each in zip(kinds, value, strict=True))
    if origin is Mapping and arguments[1] is Any and isinstance(value, list):
        return dict(value)
    if origin is Mapping and isinstance(value, dict):
        return {_check_text(key, name): _check_text(each, name) for key, each in value.items()}
    if origin is Mapping and isinstance(value, list) and all(isinstance(one, list) and len(one) == 2 for one in value):
        return {_check_text(key, name): _check_text(each, name) for key, each in value}
    if kind is StructType and isinstance(value, str):
        return parse_spark_schema(_check_text(value, name))
    if kind is StreamTable and isinstance(value, str):
        return decode(kind, json.loads(value))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    raise ProtocolError(f"{name} is {type(value).__name__}, which is not allowed.")


def _check_text(value: Any, name: str) -> str:
    """Check that a text has whole characters: Java's strings may hold half of a surrogate pair."""
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is {type(value).__name__}, not text.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        shown = ascii(value[max(error.start - _SHOWN // 2, 0) : error.end + _SHOWN // 2])
        raise InvalidOptionError(
            f"The text {shown} has {value[error.start]!a}, which is half of a surrogate pair and no character. "
            "Write the whole character, or leave it out."
        ) from None
    return value


def encode(value: Any, *, in_table: bool = False) -> Any:
    """Return what `json.dumps` takes for a dataclass or a value that is its field. Raises TypeError for any other.

    A table is a text, but for the members of one.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case StreamTable() if not in_table:
            return json.dumps(encode(value, in_table=True))
        case DataType():
            return value.json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = _describe_fields(type(value))[0]
        return {name: encode(getattr(value, name), in_table=in_table) for name in names}
    match value:
        case Mapping():
            return [[key, each] for key, each in value.items()]
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [encode(member, in_table=in_table) for member in value]
    raise TypeError(f"{type(value).__name__} cannot be part of a reply")
