"""Turns the defaults of a schema into the values that `binary` reads, or that a JSON text has."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructType

from ..core.columns import Misfit
from . import schema_model as avro
from .json_scalars import make_json_converter
from .schema_to_spark import list_targets

WRONG_DEFAULT = (ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""Errors that a default of another shape than its type may cause."""


def convert_default(node: avro.Node, default: Any, data_type: DataType) -> Any:
    """Return a default as the readers would return it. Raises one of WRONG_DEFAULT if it does not fit."""
    if isinstance(node, avro.Union):
        return _convert_union_default(node, default, data_type)
    if isinstance(node, avro.Record):
        if isinstance(data_type, StringType):
            return convert_default_to_json(node, default)
        assert isinstance(data_type, StructType)
        return [
            convert_default(field.type, default.get(field.name, field.default), data_type[field.name].dataType)
            for field in node.fields
            if field.name in data_type.names
        ]
    if isinstance(node, avro.Array) and type(default) is list:
        assert isinstance(data_type, ArrayType)
        return [convert_default(node.items, item, data_type.elementType) for item in default]
    if isinstance(node, avro.Map) and type(default) is dict:
        assert isinstance(data_type, MapType)
        return {
            key.encode(): convert_default(node.values, value, data_type.valueType) for key, value in default.items()
        }
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
    number = -1
    several = len(list_targets(node)) > 1
    for branch, node_of_branch in enumerate(node.branches):
        if avro.is_null(node_of_branch):
            continue
        number += 1
        branch_type = data_type
        if several:
            assert isinstance(data_type, StructType)
            name = f"member{number}"
            # A member that is not wanted may have any value, which is never read.
            branch_type = data_type[name].dataType if name in data_type.names else NullType()
        try:
            value = None if isinstance(branch_type, NullType) else convert_default(node_of_branch, default, branch_type)
        except WRONG_DEFAULT:
            continue
        return value if len(node.branches) == 2 and node.nullable else (branch, value)
    raise Misfit("no branch of the union fits it")


def convert_default_to_json(node: avro.Node, default: Any) -> Any:
    """Return a default as the value that a JSON text has for it. Raises one of WRONG_DEFAULT if it does not fit."""
    match node:
        case avro.Union():
            if default is None and node.nullable:
                return None
            for branch in node.not_null:
                try:
                    return convert_default_to_json(branch, default)
                except WRONG_DEFAULT:
                    continue
            raise Misfit("no branch of the union fits it")
        case avro.Record():
            return {
                field.name: convert_default_to_json(field.type, default.get(field.name, field.default))
                for field in node.fields
            }
        case avro.Array() if type(default) is list:
            return [convert_default_to_json(node.items, item) for item in default]
        case avro.Map() if type(default) is dict:
            return {key: convert_default_to_json(node.values, value) for key, value in default.items()}
        case avro.Primitive() | avro.Fixed() | avro.Enum():
            return make_json_converter(node, node, "")(convert_default(node, default, NullType()))
    raise Misfit("it is of another type")
