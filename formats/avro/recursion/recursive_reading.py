"""Reads records as JSON text, for columns in which a record would contain itself, because Spark has no such type.

Values are resolved from the writer's to the table's schema by the rules of `resolution`, and written as `json_scalars`
says: records and maps are objects, arrays are arrays, and the value of a union stands alone, without its type's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pyspark_pravega.errors import InvalidSchemaError

from ...core.columns import Column, Leaf, Misfit
from ...core.framing import Undecodable
from ...core.scalars import write_json
from ...core.spark_visitor import join_path
from .. import binary
from .. import schema_model as avro
from ..field_defaults import WRONG_DEFAULT, resize_fixed, write_default
from ..json_scalars import make_json_converter
from ..leaves import decode_text, make_resolution_error
from ..unions import choose_places, find_sources
from .nesting import DEEPEST, run

_Step = Callable[[bytes, int], Any]
"""Reads a value: returns it and the position after it, or a generator for `run` that does."""


def make_text_reader(writer: avro.Record, reader: avro.Record, path: str) -> tuple[binary.Reader, Column]:
    """Return a reader of a writer's records as JSON values, and the column of their texts.

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
    """Makes the steps for pairs of types, once for each pair of records."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], _Step] = {}

    def value(self, writer: avro.Node, reader: avro.Node, path: str) -> _Step:
        """Return a step that reads values of any type. Raises InvalidSchemaError if no value can be read."""
        union = writer if isinstance(writer, avro.Union) else avro.Union([writer])
        branches, nullable = avro.split_null(reader)
        steps: list[_Step] = []
        for node, target in zip(union.branches, choose_places(union, reader, branches), strict=True):
            try:
                if avro.is_null(node) and nullable:
                    steps.append(binary.make_skipping_reader(node))
                elif target is None:
                    raise make_resolution_error(node, reader, path)
                else:
                    steps.append(self._single(node, branches[target], path))
            except InvalidSchemaError as error:
                if union is not writer:
                    raise
                steps.append(_make_refusing_step(error.message))
        return _make_union_step(steps) if union is writer else steps[0]

    def _single(self, writer: avro.Node, reader: avro.Node, path: str) -> _Step:
        match writer, reader:
            case (avro.Record(), avro.Record()):
                return self.record(writer, reader, path)
            case (avro.Array(), avro.Array()):
                return _make_array_step(writer, self.value(writer.items, reader.items, join_path(path, "element")))
            case (avro.Map(), avro.Map()):
                item = self.value(writer.values, reader.values, join_path(path, "value"))
                return _make_block_step(item, keyed=True)
        scalar = (avro.Primitive, avro.Fixed, avro.Enum)
        if isinstance(writer, scalar) and isinstance(reader, scalar):
            return binary.make_converting_reader(
                binary.make_scalar_reader(writer), make_json_converter(writer, reader, path)
            )
        raise make_resolution_error(writer, reader, path)

    def record(self, writer: avro.Record, reader: avro.Record, path: str) -> _Step:
        """Return a step that reads records as objects with members in the order of the reader's fields."""
        pair = id(writer), id(reader)
        if pair in self._records:
            return self._records[pair]

        def read_later(data: bytes, at: int) -> Any:
            return step(data, at)

        self._records[pair] = read_later
        try:
            step = self._record(writer, reader, path)
        except InvalidSchemaError as error:
            # Other steps that were made meanwhile may lead here.
            step = _make_refusing_step(error.message)
            raise
        return step

    def _record(self, writer: avro.Record, reader: avro.Record, path: str) -> _Step:
        sources = find_sources(writer, reader, [field.name for field in reader.fields])
        fields: list[tuple[str | None, _Step]] = []
        for field in writer.fields:
            name = sources.get(field.name)
            target = None if name is None else reader.field_named(name)
            if target is None:
                fields.append((None, binary.make_skipping_reader(field.type)))
            else:
                fields.append((name, self.value(field.type, target.type, join_path(path, target.name))))
        read = set(sources.values())
        blank = {field.name: None if field.name in read else _read_default(field, path) for field in reader.fields}
        return _make_object_step(fields, blank)


def _read_default(field: avro.Field, path: str) -> Any:
    here = join_path(path, field.name)
    if field.has_default:
        node = resize_fixed(field.type, field.default)
        try:
            step = _Resolution().value(node, node, here)
            return run(step(write_default(node, field.default), 0), DEEPEST)[0]
        except WRONG_DEFAULT:
            raise InvalidSchemaError(f"the default of '{here}' in the table's schema does not fit its type") from None
    if not avro.split_null(field.type)[1]:
        raise InvalidSchemaError(f"'{here}' has no default, and the writer's schema lacks it")
    return None


def _make_refusing_step(reason: str) -> _Step:
    def refuse(data: bytes, at: int) -> Any:
        raise Misfit(reason)

    return refuse


def _make_object_step(fields: list[tuple[str | None, _Step]], blank: dict[str, Any]) -> _Step:
    def take_step(data: bytes, at: int) -> Any:
        values = dict(blank)
        for name, read in fields:
            part = read(data, at)
            if type(part) is not tuple:
                part = yield part
            value, at = part
            if name is not None:
                values[name] = value
        return values, at

    return take_step


def _make_array_step(node: avro.Array, item: _Step) -> _Step:
    if avro.is_weightless(node.items):
        # All elements are equal.
        return binary.make_array_reader(node, lambda data, at: (run(item(data, at), DEEPEST)[0], at))
    return _make_block_step(item, keyed=False)


def _make_block_step(item: _Step, *, keyed: bool) -> _Step:
    """Return a step that reads blocks of items, up to the empty block, as a list; `keyed`: of entries, as a dict."""

    def take_step(data: bytes, at: int) -> Any:
        keys: list[str] = []
        values: list[Any] = []
        while True:
            count, at = binary.read_bounded_block(data, at)
            if count == 0:
                return dict(zip(keys, values, strict=True)) if keyed else values, at
            for _ in range(count):
                if keyed:
                    key, at = binary.read_bytes(data, at)
                    keys.append(decode_text(key))
                part = item(data, at)
                if type(part) is not tuple:
                    part = yield part
                value, at = part
                values.append(value)

    return take_step


def _make_union_step(branches: list[_Step]) -> _Step:
    def take_step(data: bytes, at: int) -> Any:
        branch, at = binary.read_long(data, at)
        if not 0 <= branch < len(branches):
            raise Undecodable(f"it has the branch number {branch} of a union of {len(branches)} types")
        return branches[branch](data, at)

    return take_step
