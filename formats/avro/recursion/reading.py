"""Reads records as JSON text: the columns in which a record would contain itself, for which Spark has no type.

Values are resolved from the writer's to the table's schema, by the rules of `resolution`, and told as `json_scalars`
says: records and maps are objects, arrays are arrays, and the value of a union is told bare, without its type's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from pyspark_pravega.errors import InvalidSchemaError

from ...core.columns import Column, Leaf, Misfit
from ...core.framing import Undecodable
from ...core.scalars import write_json
from ...core.spark_visitor import join_path
from .. import schema_model as avro
from ..binary import Reader, array_reader, bounded_block, read_bytes, read_long, reader_of, scalar_reader
from ..defaults import WRONG_DEFAULT, default_value
from ..json_scalars import json_of, text_of
from ..leaves import unresolved
from ..unions import places_of, sources_of
from .nesting import DEEPEST, run

_Step = Callable[[bytes, int], Any]
"""Reads a value: returns it and the position after it, or a generator for `run` that does."""


def text_reader(writer: avro.Record, reader: avro.Record, path: str) -> tuple[Reader, Column]:
    """Return what reads a writer's records as JSON values, and the column that has their texts.

    Raises InvalidSchemaError naming the column and the place in it if the schemas do not resolve.
    """
    step = _Resolution().record(writer, reader, path)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        try:
            value, at = run(step(data, at), DEEPEST)
        except Misfit as error:
            raise Undecodable(f"column '{path}': {error}") from None
        return value, at

    return read, Leaf(path, pa.string(), write_json)


class _Resolution:
    """Makes the steps of pairs of types; pairs of records that come again are made once."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], _Step] = {}

    def value(self, writer: avro.Node, reader: avro.Node, path: str) -> _Step:
        """Return what reads values of any type. Raises InvalidSchemaError if none of them can be read."""
        if isinstance(writer, avro.Union):
            return _union(list(self._branches(writer, reader, path)))
        wanted, nullable = avro.without_null(reader)
        if avro.is_null(writer):
            if nullable:
                return reader_of(writer)
            raise unresolved(writer, reader, path)
        if not isinstance(reader, avro.Union):
            return self._single(writer, reader, path)
        (place,) = places_of(avro.Union([writer]), reader, wanted)
        if place is None:
            raise unresolved(writer, reader, path)
        return self._single(writer, wanted[place], path)

    def _branches(self, writer: avro.Union, reader: avro.Node, path: str) -> Iterator[_Step]:
        wanted, nullable = avro.without_null(reader)
        for node, place in zip(writer.branches, places_of(writer, reader, wanted), strict=True):
            try:
                if avro.is_null(node) and nullable:
                    yield reader_of(node)
                elif place is None:
                    raise unresolved(node, reader, path)
                else:
                    yield self._single(node, wanted[place], path)
            except InvalidSchemaError as error:
                yield _refusing(error.message)

    def _single(self, writer: avro.Node, reader: avro.Node, path: str) -> _Step:
        match writer, reader:
            case (avro.Record(), avro.Record()):
                return self.record(writer, reader, path)
            case (avro.Array(), avro.Array()):
                return _array(writer, self.value(writer.items, reader.items, join_path(path, "element")))
            case (avro.Map(), avro.Map()):
                return _map(self.value(writer.values, reader.values, join_path(path, "value")))
        scalar = (avro.Primitive, avro.Fixed, avro.Enum)
        if isinstance(writer, scalar) and isinstance(reader, scalar):
            return _scalar(scalar_reader(writer), json_of(writer, reader, path))
        raise unresolved(writer, reader, path)

    def record(self, writer: avro.Record, reader: avro.Record, path: str) -> _Step:
        """Return what reads records as objects whose members are in the order of the reader's fields."""
        pair = id(writer), id(reader)
        if pair in self._records:
            return self._records[pair]

        def later(data: bytes, at: int) -> Any:
            return step(data, at)

        self._records[pair] = later
        try:
            step = self._record(writer, reader, path)
        except InvalidSchemaError as error:
            # Others that were made meanwhile may lead here.
            step = _refusing(error.message)
            raise
        return step

    def _record(self, writer: avro.Record, reader: avro.Record, path: str) -> _Step:
        sources = sources_of(writer, reader, [each.name for each in reader.fields])
        fields: list[tuple[str | None, _Step]] = []
        for each in writer.fields:
            name = sources.get(each.name)
            target = None if name is None else reader.field_named(name)
            if target is None:
                fields.append((None, reader_of(each.type)))
            else:
                fields.append((name, self.value(each.type, target.type, join_path(path, target.name))))
        read = set(sources.values())
        blank = {each.name: None if each.name in read else _missing(each, path) for each in reader.fields}
        return _object(fields, blank)


def _missing(field: avro.Field, path: str) -> Any:
    here = join_path(path, field.name)
    if field.has_default:
        try:
            return default_value(field.type, field.default)
        except WRONG_DEFAULT:
            raise InvalidSchemaError(f"the default of '{here}' in the table's schema does not fit its type") from None
    if not avro.without_null(field.type)[1]:
        raise InvalidSchemaError(f"'{here}' has no default, and the writer's schema lacks it")
    return None


def _refusing(reason: str) -> _Step:
    def refuse(data: bytes, at: int) -> Any:
        raise Misfit(reason)

    return refuse


def _scalar(read: Reader, convert: Callable[[Any], Any]) -> _Step:
    def step(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return convert(value), at

    return step


def _object(fields: list[tuple[str | None, _Step]], blank: dict[str, Any]) -> _Step:
    def step(data: bytes, at: int) -> Any:
        values = dict(blank)
        for name, read in fields:
            found = read(data, at)
            if type(found) is not tuple:
                found = yield found
            value, at = found
            if name is not None:
                values[name] = value
        return values, at

    return step


def _array(node: avro.Array, item: _Step) -> _Step:
    if avro.takes_no_bytes(node.items):
        # All of them are the same.
        return array_reader(node, lambda data, at: (run(item(data, at), DEEPEST)[0], at))

    def step(data: bytes, at: int) -> Any:
        values: list[Any] = []
        while True:
            count, at = bounded_block(data, at)
            if count == 0:
                return values, at
            for _ in range(count):
                found = item(data, at)
                if type(found) is not tuple:
                    found = yield found
                value, at = found
                values.append(value)

    return step


def _map(item: _Step) -> _Step:
    def step(data: bytes, at: int) -> Any:
        values: dict[str, Any] = {}
        while True:
            count, at = bounded_block(data, at)
            if count == 0:
                return values, at
            for _ in range(count):
                key, at = read_bytes(data, at)
                found = item(data, at)
                if type(found) is not tuple:
                    found = yield found
                values[text_of(key)], at = found

    return step


def _union(branches: list[_Step]) -> _Step:
    def step(data: bytes, at: int) -> Any:
        branch, at = read_long(data, at)
        if not 0 <= branch < len(branches):
            raise Undecodable(f"it has the branch number {branch} of a union of {len(branches)} types")
        return branches[branch](data, at)

    return step
