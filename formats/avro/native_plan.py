"""Makes plans for the native decoder from a writer's Avro schema and the columns that read its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from ..core.columns import Column, Leaf, ListColumn, MapColumn, StructColumn
from ..native import Spec, Unplanned
from . import schema_model as avro
from .unions import Constant

Plan = tuple[Spec, Spec]
"""A column, and how its values are read: a `Value` of `native/src/avro.rs`."""

_DEEPEST = 100
"""Most levels of a value to skip, so that the native code has enough stack."""


def plan_column(writer: avro.Node, column: Column, nullable: bool) -> Plan:
    """Plan a column of a writer's type. Raises Unplanned."""
    if isinstance(writer, avro.Union):
        null_branch = writer.null_number
        if len(writer.branches) != 2 or null_branch is None or type(column) not in _SINGLE:
            raise Unplanned(f"column '{column.path}' was written as a union of several types")
        return make_nullable(null_branch, plan_column(writer.branches[1 - null_branch], column, nullable))
    if avro.is_null(writer):
        return ("constant", column.type, nullable, pa.nulls(1, column.type)), make_value("null")
    if isinstance(writer, avro.Record) and type(column) is StructColumn:
        return _plan_own_record(writer, column, nullable)
    if isinstance(writer, avro.Array) and type(column) is ListColumn:
        _check_weight(writer, f"column '{column.path}'")
        spec, plan = plan_column(writer.items, column.element, column.element_nullable)
        return ("list", column.type, nullable, spec), make_value({"array": plan})
    if isinstance(writer, avro.Map) and type(column) is MapColumn:
        key, _ = plan_column(avro.Primitive("string"), column.key, False)
        value, plan = plan_column(writer.values, column.value, column.value_nullable)
        return ("map", column.type, nullable, key, value), make_value({"map": plan})
    if isinstance(writer, avro.Primitive | avro.Fixed | avro.Enum) and type(column) is Leaf:
        kind = column.native[0] if column.native and column.native[0] in ("days", "moment") else "leaf"
        return (kind, column.type, nullable, 1), _plan_scalar(writer, column)  # 1: a moment's unit is microseconds
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")


_SINGLE = (StructColumn, ListColumn, MapColumn, Leaf)
"""Columns of one type. Other columns read unions."""


def make_value(read: Spec) -> Spec:
    """Return the plan of values that are no union; `read` is a `Read` of `native/src/avro.rs`."""
    return {"null_branch": None, "read": read}


def make_nullable(null_branch: int, plan: Plan) -> Plan:
    """Return the plan of values that are null or as another plan says."""
    spec, value = plan
    return spec, value | {"null_branch": null_branch}


def _plan_own_record(writer: avro.Record, columns: StructColumn, nullable: bool) -> Plan:
    numbers_of_slots = {member.key: number for number, member in enumerate(columns.members)}
    slots = count()
    numbers = [numbers_of_slots[next(slots)] if taken else None for taken in columns.taken]
    return plan_record(writer, columns, nullable, numbers, plan_column)


def plan_record(
    writer: avro.Record,
    columns: StructColumn,
    nullable: bool,
    numbers: Sequence[int | None],
    plan_member: Callable[[avro.Node, Column, bool], Plan],
) -> Plan:
    """Plan a record. `numbers` has the number of the member that each field goes into, None for a field to skip.

    Members without a field are null, or what their `Constant` has. Raises Unplanned.
    """
    specs: list[Spec] = []
    for member in columns.members:
        column = member.column
        one = column.one if isinstance(column, Constant) else pa.nulls(1, column.type)
        specs.append(("constant", column.type, member.nullable, one))
    steps: list[Spec] = []
    for field, number in zip(writer.fields, numbers, strict=True):
        if number is None:
            steps.append({"skip": plan_skipping(field.type)})
        else:
            member = columns.members[number]
            specs[number], plan = plan_member(field.type, member.column, member.nullable)
            steps.append({"read": (number, plan)})
    names = [field.name for field in columns.type]
    constants = sorted(set(range(len(specs))).difference(numbers))
    spec = ("struct", columns.type, nullable, names, specs)
    return spec, make_value({"record": {"steps": steps, "constants": constants}})


def _plan_scalar(writer: avro.Primitive | avro.Fixed | avro.Enum, column: Leaf) -> Spec:
    conversion: Sequence[Any] = column.native or ("unknown",)
    size = writer.size if isinstance(writer, avro.Fixed) else None
    name = writer.name if isinstance(writer, avro.Primitive) else ""
    match conversion[0]:
        case "plain" if size is not None:
            return make_value({"fixed": size})
        case "moment" if conversion[1] > 1 and name in ("int", "long"):
            return make_value({"millis": name == "int"})
        case "plain" | "days" | "moment" if name in _READ_AS:
            return make_value(_READ_AS[name])
        case "time" if name in ("int", "long"):
            _, step, unit = conversion
            return make_value({"time": (name == "int", unit, step)})
        case "decimal" if size is not None or name in ("bytes", "string"):
            return make_value({"decimal": (size, conversion[1])})
        case "uuid" if size == 16:
            return make_value("uuid")
        case "enum" if isinstance(writer, avro.Enum):
            return make_value({"enum": conversion[1]})
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")


_READ_AS = {**{name: name for name in ("boolean", "int", "long", "float", "double", "bytes")}, "string": "bytes"}


def _check_weight(node: avro.Array, where: str) -> None:
    # The native decoder limits their number by the bytes that follow, the reference by its own limit.
    if avro.is_weightless(node.items):
        raise Unplanned(f"{where} is an array of elements that take no bytes")


def plan_skipping(node: avro.Node) -> Spec:
    """Plan how to skip a value. Records that contain themselves or each other are listed. Raises Unplanned."""
    records: list[avro.Record] = []
    plan = _plan_skip(node, records, 0)
    plans: list[list[Spec]] = []
    while len(plans) < len(records):
        plans.append([_plan_skip(field.type, records, 0) for field in records[len(plans)].fields])
    return {"among": {"records": plans, "value": plan}} if plans else plan


def _plan_skip(node: avro.Node, records: list[avro.Record], level: int) -> Spec:
    """Plan how to skip a value at this level of others. Adds its recursive records to the list."""
    if level == _DEEPEST:
        raise Unplanned(f"a field that is not wanted is nested more than {_DEEPEST} levels deep")
    match node:
        case avro.Record() if not node.recursive:
            return {"record": [_plan_skip(field.type, records, level + 1) for field in node.fields]}
        case avro.Record():
            if node not in records:
                records.append(node)
            return {"again": records.index(node)}
        case avro.Array():
            _check_weight(node, "a field that is not wanted")
            return {"array": _plan_skip(node.items, records, level + 1)}
        case avro.Map():
            return {"map": _plan_skip(node.values, records, level + 1)}
        case avro.Union():
            return {"union": [_plan_skip(branch, records, level + 1) for branch in node.branches]}
        case avro.Enum():
            return {"enum": len(node.symbols)}
        case avro.Fixed():
            return {"fixed": node.size}
    assert isinstance(node, avro.Primitive)
    return {"null": "null", "float": {"fixed": 4}, "double": {"fixed": 8}}.get(node.name) or _READ_AS[node.name]
