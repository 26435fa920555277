"""Turns the defaults of a schema into the values that `binary` would read, or that a JSON text would have."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructType

from ..core.columns import Misfit
from . import schema_model as avro
from .json_scalars import make_json_converter
from .schema_to_spark import list_targets

WRONG_DEFAULT = (ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""What comes of a default that has another shape than its type."""


def convert_default(node: avro.Node, default: Any, data_type: DataType) -> Any:
    """Return a default as the readers would give it. Raises one of WRONG_DEFAULT if it does not fit."""
    if isinstance(node, avro.Union):
        return _convert_union_default(node, default, data_type)
    if isinstance(node, avro.Record):
        if isinstance(data_type, StringType):
            return convert_default_to_json(node, default)
        assert isinstance(data_type, StructType)
        return [
            convert_default(each.type, default.get(each.name, each.default), data_type[each.name].dataType)
            for each in node.fields
            if each.name in data_type.names
        ]
    if isinstance(node, avro.Array) and type(default) is list:
        assert isinstance(data_type, ArrayType)
        return [convert_default(node.items, each, data_type.elementType) for each in default]
    if isinstance(node, avro.Map) and type(default) is dict:
        assert isinstance(data_type, MapType)
        return {key.encode(): convert_default(node.values, each, data_type.valueType) for key, each in default.items()}
    if isinstance(node, avro.Enum):
        return node.symbols.index(default)
    if isinstance(node, avro.Fixed) or (isinstance(node, avro.Primitive) and node.name == "bytes"):
        return default.encode("latin-1")
    assert isinstance(node, avro.Primitive)
    if node.name == "string":
        return default.encode()
    kinds = {"boolean": (bool,), "int": (int,), "long": (int,)}.get(node.name, (int, float))
    if type(default) not in kinds:
        raise Misfit("it is of another type")
    return float(default) if node.name in ("float", "double") else default


def _convert_union_default(node: avro.Union, default: Any, data_type: DataType) -> Any:
    if default is None and node.nullable:
        return None
    place = -1
    several = len(list_targets(node)) > 1
    for branch, each in enumerate(node.branches):
        if avro.is_null(each):
            continue
        place += 1
        branch_type = data_type
        if several:
            assert isinstance(data_type, StructType)
            name = f"member{place}"
            # Any value will do for a member that is not wanted: it is never read.
            branch_type = data_type[name].dataType if name in data_type.names else NullType()
        try:
            value = None if isinstance(branch_type, NullType) else convert_default(each, default, branch_type)
        except WRONG_DEFAULT:
            continue
        return value if len(node.branches) == 2 and node.nullable else (branch, value)
    raise Misfit("no branch of the union takes it")


def convert_default_to_json(node: avro.Node, default: Any) -> Any:
    """Return a schema's default as the JSON value that it has in a text. Raises one of WRONG_DEFAULT."""
    match node:
        case avro.Union():
            if default is None and node.nullable:
                return None
            for each in node.not_null:
                try:
                    return convert_default_to_json(each, default)
                except WRONG_DEFAULT:
                    continue
            raise Misfit("no branch of the union takes it")
        case avro.Record():
            return {
                each.name: convert_default_to_json(each.type, default.get(each.name, each.default))
                for each in node.fields
            }
        case avro.Array() if type(default) is list:
            return [convert_default_to_json(node.items, each) for each in default]
        case avro.Map() if type(default) is dict:
            return {key: convert_default_to_json(node.values, each) for key, each in default.items()}
        case avro.Primitive() | avro.Fixed() | avro.Enum():
            return make_json_converter(node, node, "")(convert_default(node, default, NullType()))
    raise Misfit("it is of another type")
