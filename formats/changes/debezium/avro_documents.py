"""Reads Avro data as values of the form of JSON: objects, arrays, texts, numbers; bytes stay bytes.

It serves readers that use the names of fields instead of a table's schema, and is as strict as `binary`.
"""

from __future__ import annotations

from typing import Any

from pyspark_pravega.errors import InvalidSchemaError

from ...avro import schema_model as avro
from ...avro.binary import Reader, make_array_reader, make_map_reader, make_scalar_reader
from ...avro.binary import read_long as read_branch
from ...core.framing import Undecodable


def make_document_reader(node: avro.Node) -> Reader:
    """Return a reader for values of a type. Raises InvalidSchemaError for a record that contains itself."""
    return _Documents().read(node)


class _Documents:
    def __init__(self) -> None:
        self._inside: list[avro.Record] = []

    def read(self, node: avro.Node) -> Reader:
        if isinstance(node, avro.Record):
            if any(node is outer for outer in self._inside):
                raise InvalidSchemaError(f"the Avro record '{node.name}' contains itself")
            self._inside.append(node)
            fields = [(field.name, self.read(field.type)) for field in node.fields]
            self._inside.pop()
            return _make_object_reader(fields)
        if isinstance(node, avro.Array):
            return make_array_reader(node, self.read(node.items))
        if isinstance(node, avro.Map):
            return _make_text_key_reader(make_map_reader(self.read(node.values)))
        if isinstance(node, avro.Union):
            return _make_union_reader([self.read(branch) for branch in node.branches])
        if isinstance(node, avro.Enum):
            return _make_symbol_reader(make_scalar_reader(node), node.symbols)
        reader = make_scalar_reader(node)
        return _make_text_reader(reader) if isinstance(node, avro.Primitive) and node.name == "string" else reader


def _make_object_reader(fields: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, reader in fields:
            values[name], at = reader(data, at)
        return values, at

    return read


def _make_union_reader(branches: list[Reader]) -> Reader:
    count = len(branches)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = read_branch(data, at)
        if not 0 <= branch < count:
            raise Undecodable(f"it has the branch {branch} of a union with {count} types")
        return branches[branch](data, at)

    return read


def _make_text_reader(reader: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        value, at = reader(data, at)
        return _decode_text(value), at

    return read


def _make_symbol_reader(reader: Reader, symbols: tuple[str, ...]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = reader(data, at)
        return symbols[number], at

    return read


def _make_text_key_reader(reader: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values, at = reader(data, at)
        return {_decode_text(key): value for key, value in values.items()}, at

    return read


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"it has a string that is not UTF-8 (byte {error.start})") from None
