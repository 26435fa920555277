"""Makes plans for the native decoder from the columns of JSON objects."""

from __future__ import annotations

import pyarrow as pa

from ..core.columns import Column, Leaf, ListColumn, MapColumn, Member, StructColumn
from ..native.plans import Spec, Unplanned
from .values import ByteList


def json_struct(columns: StructColumn) -> Spec:
    """Plan the columns of JSON objects. Raises Unplanned."""
    return json_column(columns, False)


def _member(member: Member) -> Spec:
    spec = json_column(member.column, member.nullable)
    # Events that lack the value are left to the reference, which knows the default.
    return spec if member.missing is None else ("defaulted", member.column.type, member.nullable, spec)


def json_column(column: Column, nullable: bool) -> Spec:
    """Plan a column of JSON values. Raises Unplanned."""
    if isinstance(column, StructColumn):
        members = [_member(each) for each in column.members]
        return ("struct", column.type, nullable, [member.key for member in column.members], members)
    if type(column) in (ListColumn, ByteList):
        assert isinstance(column, ListColumn)
        return ("list", column.type, nullable, json_column(column.element, column.element_nullable))
    if isinstance(column, MapColumn):
        if not pa.types.is_string(column.key.type):
            raise Unplanned(f"column '{column.path}' has keys that are not strings")
        key, value = json_column(column.key, False), json_column(column.value, column.value_nullable)
        return ("map", column.type, nullable, key, value)
    if type(column) is Leaf and column.native is not None:
        kind, *more = column.native
        return (kind, column.type, nullable, *more)
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")
