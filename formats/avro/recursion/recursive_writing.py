"""Writes JSON text as Avro records, for columns in which a record would contain itself.

The text must fit the schema: every member is a field, a member may be missing if the field has a default or is
nullable, and a value of a union must fit exactly one of its types. Where numeric types of several sizes fit, a whole
number gets the largest integer type, any other number the largest floating-point type.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pyarrow as pa

from ...core.columns import Misfit, NumberText, describe_kind
from ...core.scalars import check_string, is_nested_deeper, shorten_value
from ...core.writing import BINARY, Rows, encode_valid_text
from .. import schema_model as avro
from ..cells import Parts, ValueCells, write_block, write_bytes, write_varint
from ..field_defaults import write_default
from ..json_scalars import make_datum_writer
from ..leaves import describe_type
from .nesting import DEEPEST, TOO_DEEP, run

_WIDEST = ("long", "int", "double", "float")


class JsonText(ValueCells):
    """Writes a record that lies within itself, from the JSON text that reading returns."""

    def __init__(self, path: str, record: avro.Record) -> None:
        super().__init__(path)
        self._record = record

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        cells = []
        for octets, row in zip(encode_valid_text(array, self, rows).to_pylist(), rows, strict=True):
            try:
                cells.append(write_record_of_text(self._record, octets.decode()))
            except Misfit as misfit:
                self.refuse(row, f"a text that is not the JSON of {describe_type(self._record)}: {misfit}")
        return [pa.array(cells, BINARY)]


def write_record_of_text(record: avro.Record, text: str) -> bytes:
    """Write the record that a text stands for as Avro data. Raises Misfit naming the place that does not fit."""
    value = _parse(text)
    if is_nested_deeper(text, DEEPEST):
        raise Misfit(TOO_DEEP)
    writing = _Writing()
    data: bytes = run(writing.value(record, value, "$"), 4 * DEEPEST)
    if writing.doubt is not None:
        raise Misfit(writing.doubt)
    return data


def _parse(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_float=lambda number: NumberText(number.encode()),
            parse_constant=_refuse_constant,
            object_pairs_hook=_collect_members,
        )
    except RecursionError:
        raise Misfit(TOO_DEEP) from None
    except ValueError as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"not JSON: {error}") from None


def _refuse_constant(text: str) -> NoReturn:
    raise Misfit(f'not JSON: {text} is not a number; write the string "{text}"')


def _collect_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Misfit(f"an object with '{shorten_value(twice)}' twice")
    return members


def _select_widest(node: avro.Union, fitting: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the widest of several fitting numeric types; all fitting types if some are not numeric."""
    kinds = [node.branches[number] for number, _ in fitting]
    names = [kind.name if isinstance(kind, avro.Primitive) and kind.logical is None else "" for kind in kinds]
    if not set(names) <= set(_WIDEST):
        return fitting
    return [fitting[min(range(len(names)), key=lambda number: _WIDEST.index(names[number]))]]


class _Writing:
    """Writes the values of one text, and remembers what it found for each value and branch.

    A value that fits several types of a union fits the types around it all the same, so that another branch around it
    is not taken for the only one. It is written as one of them, and `doubt` says why that may not be what is meant.
    """

    def __init__(self) -> None:
        self.doubt: str | None = None
        self._found: dict[tuple[int, int], tuple[Any, bytes | str, str | None]] = {}

    def value(self, node: avro.Node, value: Any, path: str) -> Any:
        match node:
            case avro.Union():
                return self._union(node, value, path)
            case avro.Record():
                return self._record(node, value, path)
            case avro.Array():
                return self._array(node, value, path)
            case avro.Map():
                return self._map(node, value, path)
        if avro.is_null(node):
            if value is not None:
                raise Misfit(f"at {path}: expected null, found {describe_kind(value)}")
            return b""
        assert isinstance(node, avro.Primitive | avro.Fixed | avro.Enum)
        try:
            return make_datum_writer(node)(value)
        except Misfit as error:
            raise Misfit(f"at {path}: {error}") from None

    def _union(self, node: avro.Union, value: Any, path: str) -> Any:
        if value is None and node.null_number is not None:
            return write_varint(node.null_number)
        several = len(node.not_null) > 1
        fitting: list[tuple[int, bytes]] = []
        reasons: list[str] = []
        doubts: dict[int, str | None] = {}
        for number, branch in enumerate(node.branches):
            if avro.is_null(branch):
                continue
            if not several:
                return write_varint(number) + (yield self.value(branch, value, path))
            written, doubts[number] = yield self._try_branch(branch, value, path)
            if isinstance(written, bytes):
                fitting.append((number, written))
            else:
                reasons.append(f"{describe_type(branch)} ({written})")
        if len(fitting) > 1:
            fitting = _select_widest(node, fitting)
        if not fitting:
            text = "; ".join(reasons)
            raise Misfit(f"at {path}: it fits no type of the union: {text if len(text) < 600 else text[:600] + '...'}")
        number, data = fitting[0]
        doubt = doubts[number]
        if len(fitting) > 1:
            kinds = " and ".join(describe_type(node.branches[number]) for number, _ in fitting)
            doubt = f"at {path}: it fits several types of the union, {kinds}, and nothing says which is meant"
        self.doubt = self.doubt or doubt
        return write_varint(number) + data

    def _try_branch(self, branch: avro.Node, value: Any, path: str) -> Any:
        """Return the data, or the reason why there is none, and the doubt. Nested unions do not multiply."""
        key = id(branch), id(value)
        if key not in self._found:
            written: bytes | str
            around, self.doubt = self.doubt, None
            try:
                written = yield self.value(branch, value, path)
            except Misfit as misfit:
                written = str(misfit)
            self._found[key] = value, written, self.doubt  # the value too, so that its id stays its own
            self.doubt = around
        return self._found[key][1:]

    def _record(self, node: avro.Record, value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise Misfit(f"at {path}: expected an object, found {describe_kind(value)}")
        unknown = next((name for name in value if node.field_named(name) is None), None)
        if unknown is not None:
            raise Misfit(f"at {path}: {describe_type(node)} has no field '{shorten_value(unknown)}'")
        parts = []
        for field in node.fields:
            here = f"{path}.{field.name}"
            if field.name in value:
                parts.append((yield self.value(field.type, value[field.name], here)))
            elif field.has_default:
                parts.append(write_default(field.type, field.default))
            elif avro.split_null(field.type)[1]:
                parts.append((yield self.value(field.type, None, here)))
            else:
                raise Misfit(f"at {path}: the field '{field.name}' of {describe_type(node)} is missing")
        return b"".join(parts)

    def _array(self, node: avro.Array, value: Any, path: str) -> Any:
        if type(value) is not list:
            raise Misfit(f"at {path}: expected an array, found {describe_kind(value)}")
        items = []
        for number, item in enumerate(value):
            items.append((yield self.value(node.items, item, f"{path}[{number}]")))
        return write_block(items)

    def _map(self, node: avro.Map, value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise Misfit(f"at {path}: expected an object, found {describe_kind(value)}")
        items = []
        for key, item in value.items():
            written = yield self.value(node.values, item, f"{path}['{shorten_value(key)}']")
            items.append(write_bytes(check_string(key).encode()) + written)
        return write_block(items)
