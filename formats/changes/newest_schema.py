"""Finds the columns of a table whose DDL declares none: from the newest schema in its events, or from samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.types as T

from pyspark_pravega.errors import UnsupportedTypeError

from ..core.spark_types import find_wider_number, is_valid_decimal
from ..core.spark_visitor import join_path
from .source_positions import NO_POSITION, read_position


@dataclass
class _Schema:
    """The columns of a schema, with the newest changes that had it.

    `newest` has their last position by origin, and their last time; `last_events` their last event by segment.
    """

    columns: T.StructType
    newest: dict[str | None, Any] = field(default_factory=dict)
    last_events: dict[int, int] = field(default_factory=dict)

    def is_older_than(self, other: _Schema) -> bool:
        """Return whether this schema is before the other by everything that gives an order."""
        orders = _compare(self.newest, other.newest)
        if not any(orders):
            orders = _compare(self.last_events, other.last_events)
        return any(order < 0 for order in orders) and not any(order > 0 for order in orders)


_TIME = None
"""What stands for the time in `newest`, in place of an origin."""


def _compare(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[int]:
    """Return -1, 0 or 1 for each key that both have: whether the first value is less."""
    return [(one[key] > other[key]) - (one[key] < other[key]) for key in one.keys() & other.keys()]


def _note(latest: dict[Any, Any], key: Hashable, value: Any) -> None:
    latest[key] = max(latest.get(key, value), value)


class SchemasSeen:
    """Collects the schemas of events, with the changes that had them."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, _Schema] = {}
        self._schemas: list[_Schema] = []

    def add(
        self,
        key: Hashable,
        columns: Callable[[], T.StructType],
        source: Mapping[str, Any] | None,
        time: int | None,
        location: tuple[int, int],
    ) -> None:
        """Note the schema of an event: the one known by `key`, or else the result of `columns`.

        `time`: the connector's time in microseconds since 1970, used if the source block has none. `location`: the
        number of the segment, and of the event in it.
        """
        schema = self._by_key.get(key)
        if schema is None:
            schema = self._by_key[key] = self._of(columns())
        origin, major, minor, row, committed = NO_POSITION if source is None else read_position(source)
        if origin is not None:
            _note(schema.newest, origin, (major, minor, row))
        if committed is not None or time is not None:
            _note(schema.newest, _TIME, time if committed is None else committed)
        segment, event = location
        _note(schema.last_events, segment, event)

    def _of(self, columns: T.StructType) -> _Schema:
        entry = next((schema for schema in self._schemas if schema.columns == columns), None)
        if entry is None:
            entry = _Schema(columns)
            self._schemas.append(entry)
        return entry

    def newest(self) -> T.StructType | None:
        """Return the columns of the newest schema, None if none was seen.

        Raises UnsupportedTypeError for a column of different types if nothing shows which one is newer.
        """
        newest = [schema for schema in self._schemas if not any(schema.is_older_than(other) for other in self._schemas)]
        newest = newest or self._schemas
        newest.sort(key=lambda schema: schema.newest.get(_TIME, 0), reverse=True)
        return merge_columns([schema.columns for schema in newest]) if newest else None


def merge_columns(structs: Sequence[T.StructType], path: str = "") -> T.StructType:
    """Return the columns of several structs, in the order in which they first occur, each with the widest of its types.

    Raises UnsupportedTypeError for a column of two types neither of which holds the values of the other.
    """
    types: dict[str, T.DataType] = {}
    for struct in structs:
        for column in struct.fields:
            type = types.get(column.name)
            here = join_path(path, column.name)
            types[column.name] = column.dataType if type is None else _find_wider(type, column.dataType, here)
    return T.StructType([T.StructField(name, data_type) for name, data_type in types.items()])


def _find_wider(one: T.DataType, other: T.DataType, path: str) -> T.DataType:
    if one == other:
        return one
    if (wider := find_wider_number(one, other)) is not None:
        return wider
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        if is_valid_decimal(precision, scale):
            return T.DecimalType(precision, scale)
    if isinstance(one, T.StructType) and isinstance(other, T.StructType):
        return merge_columns([one, other], path)
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return T.ArrayType(_find_wider(one.elementType, other.elementType, join_path(path, "element")))
    if isinstance(one, T.MapType) and isinstance(other, T.MapType) and one.keyType == other.keyType:
        return T.MapType(one.keyType, _find_wider(one.valueType, other.valueType, join_path(path, "value")))
    raise UnsupportedTypeError(
        f"The column {path} is {one.simpleString()} in one schema of the stream's events and {other.simpleString()} in "
        "another, and neither positions nor times show which of them is newer. Declare the table's columns."
    )


_LARGEST = 2**63 - 1
_DECIMAL = {"scale", "value"}


def sample_columns(rows: Iterable[Mapping[str, Any]], ignored: Sequence[Any]) -> T.StructType:
    """Return the columns of rows, in the order in which they first occur. Values in `ignored` stand for none.

    Names that differ only in case are one name to SQL, so the first counts. Empty names are ignored.
    """
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(None if value in ignored else value)
    names: dict[str, str] = {}
    for name in filter(None, values):
        names.setdefault(name.lower(), name)
    return T.StructType([T.StructField(name, _infer_type(values[name], ignored)) for name in names.values()])


def _infer_type(values: Sequence[Any], ignored: Sequence[Any]) -> T.DataType:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return T.BooleanType()
    if kinds == {int}:
        fits = all(-_LARGEST - 1 <= value <= _LARGEST for value in values if value is not None)
        return T.LongType() if fits else T.StringType()
    if kinds in ({float}, {int, float}):
        return T.DoubleType()
    if kinds == {list}:
        return T.ArrayType(_infer_type([item for value in values if value is not None for item in value], ignored))
    if kinds == {dict}:
        objects = [value for value in values if value is not None]
        if any(objects) and not all(decimal.keys() == _DECIMAL for decimal in objects):
            return sample_columns(objects, ignored)
    return T.StringType()
