"""Walks a Spark type from the leaves up, with the column path of every part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, NoReturn, TypeVar

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidNameError, UnsupportedTypeError, shorten

from .spark_types import ELEMENT, VALUE, list_fields

Result = TypeVar("Result")


def join_path(path: str, name: str) -> str:
    """Return the path of a part, as Spark writes paths: `a.b`, `list.element`, `map.key`, `map.value`."""
    return f"{path}.{name}" if path else name


def list_part_types(data_type: T.DataType) -> list[tuple[str, T.DataType]]:
    """Return the types of a struct's fields, an array's elements or a map's values, by their names in paths.

    Keys of maps, which are strings, are left out. Plain values have no parts.
    """
    fields = list_fields(data_type)
    return [(field.name, field.dataType) for field in (fields[1:] if isinstance(data_type, T.MapType) else fields)]


def iterate_leaf_types(data_type: T.DataType) -> Iterator[T.DataType]:
    """Iterate over the types of the plain values in a type. Keys of maps, which are strings, are left out."""
    parts = list_part_types(data_type)
    if not parts:
        yield data_type
    for _, part in parts:
        yield from iterate_leaf_types(part)


def find_map_without_string_keys(data_type: T.DataType, path: str = "") -> str | None:
    """Return the path of a map whose keys are not strings; None if the type has no such map."""
    if isinstance(data_type, T.MapType) and not isinstance(
        data_type.keyType, T.StringType | T.CharType | T.VarcharType
    ):
        return path
    parts = list_part_types(data_type)
    return next(filter(None, (find_map_without_string_keys(part, join_path(path, name)) for name, part in parts)), None)


class SparkTypeVisitor(ABC, Generic[Result]):
    """Visits a type, with one method per kind of type. `path` is "" for the table itself."""

    format_name: str
    """For messages: the format that the types are mapped to."""
    any_keys = False
    """Whether maps may have keys that are not strings, which `entries` then maps."""

    @abstractmethod
    def struct(self, struct: T.StructType, path: str, members: list[tuple[T.StructField, Result]]) -> Result: ...

    @abstractmethod
    def array(self, array: T.ArrayType, path: str, element: Result) -> Result: ...

    @abstractmethod
    def map(self, map_type: T.MapType, path: str, value: Result) -> Result: ...

    def entries(self, map_type: T.MapType, path: str, key: Result, value: Result) -> Result:
        """Map a map whose keys are not strings."""
        raise NotImplementedError

    @abstractmethod
    def primitive(self, data_type: T.DataType, path: str) -> Result: ...

    def visit(self, data_type: T.DataType, path: str = "") -> Result:
        """Visit a type and its parts. Raises UnsupportedTypeError naming the path of a part that no text can hold."""
        if isinstance(data_type, T.StructType):
            if not data_type.fields:
                self.refuse(data_type, path, "a struct needs at least one field")
            names = set()
            members = []
            for field in data_type.fields:
                here = join_path(path, field.name)
                if field.name in names:
                    raise InvalidNameError(f"column '{here}' occurs twice; give one of them another name")
                names.add(field.name)
                members.append((field, self.visit(field.dataType, here)))
            return self.struct(data_type, path, members)
        if isinstance(data_type, T.ArrayType):
            return self.array(data_type, path, self.visit(data_type.elementType, join_path(path, ELEMENT)))
        if isinstance(data_type, T.MapType):
            key = data_type.keyType
            if not isinstance(key, T.StringType) and self.any_keys:
                parts = [self.visit(part.dataType, join_path(path, part.name)) for part in list_fields(data_type)]
                return self.entries(data_type, path, *parts)
            if not isinstance(key, T.StringType) or not key.isUTF8BinaryCollation():
                self.refuse(
                    data_type,
                    path,
                    f"keys of type {key.simpleString()} cannot be written, only those of type string; "
                    "use an array of structs (map_entries), or cast the keys",
                )
            return self.map(data_type, path, self.visit(data_type.valueType, join_path(path, VALUE)))
        return self.primitive(data_type, path)

    def refuse(self, data_type: T.DataType, path: str, reason: str) -> NoReturn:
        """Raise UnsupportedTypeError for a type, with the reason."""
        column = f"column '{path}'" if path else "the table"
        raise UnsupportedTypeError(
            f"{column} has type {_describe_type(data_type)}, which format {self.format_name} cannot hold: {reason}"
        )


def _describe_type(data_type: T.DataType) -> str:
    # Interval types without fields and user-defined types have no usable simple string.
    try:
        return shorten(data_type.simpleString())
    except Exception:
        return type(data_type).__name__


WHY_UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        ("CalendarIntervalType", "DayTimeIntervalType", "YearMonthIntervalType"),
        "it has no type for intervals; cast to string, or store a number",
    ),
    "NullType": "a column that is always null has no type to write; cast it to one",
    "VariantType": "use format json or debezium-json, or cast it to string with to_json, or to the type it holds",
    "UserDefinedType": "user-defined types exist only in the session; store the underlying SQL type",
    "TimeType": "times of day have at most 6 digits after the seconds there; use TIME(6), or cast it to string",
    **dict.fromkeys(("GeometryType", "GeographyType"), "store st_asbinary(column) as binary"),
}


def explain_unsupported(data_type: T.DataType) -> str:
    """Return what to do about a type that neither Avro nor JSON can hold."""
    for kind in type(data_type).__mro__:
        reason = WHY_UNSUPPORTED.get(kind.__name__)
        if reason is not None:
            return reason
    return "it cannot be written; cast it to another type"
