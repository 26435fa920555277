"""Writes the defaults of a schema, which are JSON there, as Avro data. Then they are read as values of writers are."""

from __future__ import annotations

import struct
from contextlib import suppress
from ctypes import c_float
from dataclasses import replace
from typing import Any

from ..core.columns import Misfit
from ..core.scalars import check_boolean, check_integer, check_string
from . import schema_model as avro
from .cells import write_block, write_bytes, write_varint

_INT_BITS = {"int": 32, "long": 64}

WRONG_DEFAULT = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""Errors that a default of another shape than its type may cause."""


def write_default(node: avro.Node, default: Any) -> bytes:
    """Write a default of a type. Raises one of WRONG_DEFAULT if it does not fit."""
    match node:
        case avro.Union():
            for number, branch in enumerate(node.branches):
                with suppress(*WRONG_DEFAULT):
                    return write_varint(number) + write_default(branch, default)
            raise Misfit("no branch of the union fits it")
        case avro.Record():
            members = (write_default(field.type, default.get(field.name, field.default)) for field in node.fields)
            return b"".join(members)
        case avro.Array() if type(default) is list:
            return write_block([write_default(node.items, item) for item in default])
        case avro.Map() if type(default) is dict:
            return write_block(
                [write_bytes(key.encode()) + write_default(node.values, value) for key, value in default.items()]
            )
        case avro.Enum():
            return write_varint(node.symbols.index(default))
        case avro.Fixed() if len(default) == node.size:
            return check_string(default).encode("latin-1")
        case avro.Primitive():
            return write_primitive(node.name, default)
    raise Misfit("it is of another type")


def resize_fixed(node: avro.Node, default: Any) -> avro.Node:
    """Return the type of a field with the length of its default, if it is a fixed other than a UUID."""
    if isinstance(node, avro.Fixed) and node.logical != "uuid" and type(default) is str:
        return replace(node, size=len(default))
    return node


def write_primitive(name: str, default: Any) -> bytes:
    """Write a value of a primitive type. Raises one of WRONG_DEFAULT if it does not fit."""
    if name in _INT_BITS:
        return write_varint(check_integer(default, _INT_BITS[name], name))
    match name:
        case "null" if default is None:
            return b""
        case "boolean":
            return bytes([check_boolean(default)])
        case "float" if type(default) in (int, float):
            return struct.pack("<f", c_float(default).value)  # infinite where it is too large
        case "double" if type(default) in (int, float):
            return struct.pack("<d", float(default))
        case "bytes" | "string":
            return write_bytes(check_string(default).encode("latin-1" if name == "bytes" else "utf-8"))
    raise Misfit("it is of another type")
