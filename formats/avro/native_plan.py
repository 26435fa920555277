"""Makes plans for the native decoder from a writer's Avro schema and the columns that read its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..core.columns import Column, Leaf, ListColumn, MapColumn, StructColumn
from ..native import Spec, Unplanned
from . import schema_model as avro
from .unions import Constant


def plan_struct(writer: avro.Record, columns: StructColumn) -> tuple[Spec, Spec]:
    """Plan the columns of Avro records. Raises Unplanned."""
    return _plan_record(writer, columns, False)


def plan_column(writer: avro.Node, column: Column, nullable: bool) -> tuple[Spec, Spec]:
    """Plan a column of a writer's type. Raises Unplanned."""
    if isinstance(writer, avro.Union):
        null_branch = writer.null_number
        if len(writer.branches) != 2 or null_branch is None or type(column) not in _SINGLE:
            raise Unplanned(f"column '{column.path}' was written as a union of several types")
        spec, plan = plan_column(writer.branches[1 - null_branch], column, nullable)
        return spec, ("nullable", null_branch, plan)
    if avro.is_null(writer):
        return ("constant", column.type, nullable, pa.nulls(1, column.type)), ("null",)
    if isinstance(writer, avro.Record) and type(column) is StructColumn:
        return _plan_record(writer, column, nullable)
    if isinstance(writer, avro.Array) and type(column) is ListColumn:
        _check_weight(writer, f"column '{column.path}'")
        spec, plan = plan_column(writer.items, column.element, column.element_nullable)
        return ("list", column.type, nullable, spec), ("array", plan)
    if isinstance(writer, avro.Map) and type(column) is MapColumn:
        key, _ = plan_column(avro.Primitive("string"), column.key, False)
        value, plan = plan_column(writer.values, column.value, column.value_nullable)
        return ("map", column.type, nullable, key, value), ("map", plan)
    if isinstance(writer, avro.Primitive | avro.Fixed | avro.Enum) and type(column) is Leaf:
        match column.native:
            case ("days",):
                return ("days", column.type, nullable), _plan_scalar(writer, column)
            case ("moment", _):
                return ("moment", column.type, nullable, 1), _plan_scalar(writer, column)
        return ("leaf", column.type, nullable), _plan_scalar(writer, column)
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")


_SINGLE = (StructColumn, ListColumn, MapColumn, Leaf)
"""Columns of one type. Other columns read unions."""


def _plan_record(writer: avro.Record, columns: StructColumn, nullable: bool) -> tuple[Spec, Spec]:
    column_numbers = {member.key: number for number, member in enumerate(columns.members) if member.key is not None}
    specs: list[Spec | None] = [None] * len(columns.members)
    steps: list[tuple[int | None, Spec]] = []
    slot = 0
    for field, taken in zip(writer.fields, columns.taken, strict=True):
        if not taken:
            steps.append((None, plan_skipping(field.type)))
            continue
        number = column_numbers[slot]
        slot += 1
        member = columns.members[number]
        specs[number], plan = plan_column(field.type, member.column, member.nullable)
        steps.append((number, plan))
    constants = []
    for number, member in enumerate(columns.members):
        if member.key is None:
            if type(member.column) is not Constant:
                raise Unplanned(f"column '{member.column.path}' has a kind that the native decoder does not know")
            specs[number] = ("constant", member.column.type, member.nullable, member.column.one)
            constants.append(number)
    names = [field.name for field in columns.type]
    return ("struct", columns.type, nullable, names, specs), ("record", steps, constants)


def _plan_scalar(writer: avro.Primitive | avro.Fixed | avro.Enum, column: Leaf) -> Spec:
    conversion: Sequence[Any] = column.native or ("unknown",)
    size = writer.size if isinstance(writer, avro.Fixed) else None
    name = writer.name if isinstance(writer, avro.Primitive) else ""
    match conversion[0]:
        case "plain" if size is not None:
            return ("fixed", size)
        case "moment" if conversion[1] > 1 and name in ("int", "long"):
            return ("millis", name == "int")
        case "plain" | "days" | "moment" if name in _READ_AS:
            return (_READ_AS[name],)
        case "time" if name in ("int", "long"):
            _, step, unit = conversion
            return ("time", name == "int", unit, step)
        case "decimal" if size is not None or name in ("bytes", "string"):
            return ("decimal", size, conversion[1])
        case "uuid" if size == 16:
            return ("uuid",)
        case "enum" if isinstance(writer, avro.Enum):
            return ("enum", list(conversion[1]))
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")


_READ_AS = {
    **{name: name for name in ("boolean", "int", "long", "float", "double", "bytes")},
    "string": "bytes",
}


def _check_weight(node: avro.Array, where: str) -> None:
    # The native decoder limits their number by the bytes that follow, the reference by its own limit.
    if avro.is_weightless(node.items):
        raise Unplanned(f"{where} is an array of elements that take no bytes")


def _is_recursive(record: avro.Record) -> bool:
    """Return whether a record contains itself, or contains a record that does."""
    done: set[int] = set()

    def has_repeats(node: avro.Node, inside: tuple[avro.Node, ...]) -> bool:
        match node:
            case avro.Record():
                if id(node) in done:
                    return False
                if any(node is outer for outer in inside):
                    return True
                repeats = any(has_repeats(field.type, (*inside, node)) for field in node.fields)
                done.add(id(node))
                return repeats
            case avro.Array():
                return has_repeats(node.items, inside)
            case avro.Map():
                return has_repeats(node.values, inside)
            case avro.Union():
                return any(has_repeats(branch, inside) for branch in node.branches)
        return False

    return has_repeats(record, ())


class _Skips:
    """Plans how to skip values. Records that contain themselves or each other are listed and numbered."""

    def __init__(self) -> None:
        self._records: list[avro.Record] = []
        self._listing = False

    def plan(self, node: avro.Node) -> Spec:
        """Plan how to skip a value of any type. Raises Unplanned."""
        if isinstance(node, avro.Record):
            return self._record(node)
        if isinstance(node, avro.Array):
            _check_weight(node, "a field that is not wanted")
            return ("array", self.plan(node.items))
        if isinstance(node, avro.Map):
            return ("map", self.plan(node.values))
        if isinstance(node, avro.Union):
            return ("union", [self.plan(branch) for branch in node.branches])
        if isinstance(node, avro.Enum):
            return ("enum", len(node.symbols))
        if isinstance(node, avro.Fixed):
            return ("fixed", node.size)
        assert isinstance(node, avro.Primitive)
        plan = {"null": ("null",), "float": ("fixed", 4), "double": ("fixed", 8)}.get(node.name)
        return plan or (_READ_AS[node.name],)

    def _record(self, node: avro.Record) -> Spec:
        if not self._listing and not _is_recursive(node):
            return ("record", [self.plan(field.type) for field in node.fields])
        if self._listing:
            if not any(node is record for record in self._records):
                self._records.append(node)
            return ("again", next(number for number, record in enumerate(self._records) if record is node))
        self._listing = True
        self._records = [node]
        plans: list[list[Spec]] = []
        while len(plans) < len(self._records):
            plans.append([self.plan(field.type) for field in self._records[len(plans)].fields])
        self._listing = False
        return ("recursive", plans)


def plan_skipping(node: avro.Node) -> Spec:
    """Plan how to skip a value. Raises Unplanned."""
    return _Skips().plan(node)
