"""Resolves schemas: how values of a writer's schema are read as columns of the table.

The rules are those of the Avro specification: fields by name or by the reader's aliases, defaults for
what the writer lacks, promotion, unions branch by branch. Types that do not resolve make the writer's
schema unreadable, except in a branch of a union, where only events that have this branch are bad. More
lenient than the specification: a nullable column that the writer lacks is null even without default, and
nested records need not have the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.arrow_types import arrow_type_of
from ..core.columns import Column, ListColumn, MapColumn, Member, Misfit, Problems, Rows, StructColumn
from ..core.spark_visitor import child_path
from . import schema_model as avro
from .binary import (
    Reader,
    array_reader,
    map_reader,
    nullable_reader,
    reader_of,
    record_reader,
    scalar_reader,
    union_reader,
)
from .leaves import leaf_column, named, unresolved
from .schema_to_spark import targets

_WRONG_DEFAULT = (ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""What comes of a default that has another shape than its type."""

Link = tuple[Reader, Column]
"""What reads the writer's values, and what makes a column of them."""


def link(writer: avro.Node, reader: avro.Node, data_type: DataType, path: str) -> Link:
    """Bring a writer's and the table's type together; `data_type` is the column's type.

    Raises InvalidSchemaError naming the column if they do not resolve.
    """
    wanted = targets(reader)
    if not wanted:
        raise InvalidSchemaError(f"column '{path}' can only be null in the table's schema")
    if len(wanted) > 1:
        return _members(writer, wanted, data_type, path)
    if not isinstance(writer, avro.Union):
        if avro.is_null(writer):
            return reader_of(writer), link(reader, reader, data_type, path)[1]
        return _single(writer, wanted[0], data_type, path)
    if len(writer.branches) == 2 and writer.nullable:
        null_branch = next(place for place, branch in enumerate(writer.branches) if avro.is_null(branch))
        read, column = _single(writer.branches[1 - null_branch], wanted[0], data_type, path)
        return nullable_reader(null_branch, read), column
    readers, columns, refused = _branches(writer, wanted, data_type, path)
    return union_reader(readers), _BranchColumn(path, arrow_type_of(data_type), columns[0], refused)


def record_columns(
    writer: avro.Record, reader: avro.Record, struct: StructType, path: str
) -> tuple[Reader, StructColumn]:
    """Resolve records field by field."""
    sources = _sources(writer, reader, struct)
    slots: dict[str, int] = {}
    steps: list[tuple[Reader, bool]] = []
    columns: dict[str, Column] = {}
    for each in writer.fields:
        field = sources.get(each.name)
        if field is None:
            steps.append((reader_of(each.type), False))
            continue
        target = reader.field_named(field.name)
        assert target is not None
        read, columns[field.name] = link(each.type, target.type, field.dataType, child_path(path, field.name))
        slots[field.name] = len(slots)
        steps.append((read, True))
    members = []
    for field in struct.fields:
        here = child_path(path, field.name)
        column = columns.get(field.name) or _missing(reader.field_named(field.name), field, here)
        members.append(Member(slots.get(field.name), column, field.nullable))
    taken = [wanted for _, wanted in steps]
    return record_reader(steps), StructColumn(path, arrow_type_of(struct), members, list, taken)


def _sources(writer: avro.Record, reader: avro.Record, struct: StructType) -> Mapping[str, StructField]:
    """Find the writer's field for each wanted column: by the same name, else by an alias."""
    names = {each.name for each in writer.fields}
    sources = {field.name: field for field in struct.fields if field.name in names and reader.field_named(field.name)}
    for field in struct.fields:
        target = reader.field_named(field.name)
        if field.name not in names and target is not None:
            alias = next((each for each in target.aliases if each in names and each not in sources), None)
            if alias is not None:
                sources[alias] = field
    return sources


def _missing(target: avro.Field | None, field: StructField, path: str) -> Column:
    """Return the column for a field that the writer did not know."""
    if target is not None and target.has_default and target.default is not None:
        _, column = link(target.type, target.type, field.dataType, path)
        problems = Problems()
        try:
            value = _raw(target.type, target.default, field.dataType)
        except _WRONG_DEFAULT:
            raise InvalidSchemaError(
                f"the default of column '{path}' in the table's schema does not fit its type"
            ) from None
        one = column.build([value], np.zeros(1, np.int64), problems)
        for reason in problems.reasons.values():
            raise InvalidSchemaError(f"the default in the table's schema does not fit: {reason}")
        return Constant(path, one)
    if not field.nullable:
        raise InvalidSchemaError(f"column '{path}' is NOT NULL and has no default, and the writer's schema lacks it")
    return Constant(path, pa.nulls(1, arrow_type_of(field.dataType)))


def _single(writer: avro.Node, reader: avro.Node, data_type: DataType, path: str) -> Link:
    """Resolve types that are no unions."""
    if isinstance(writer, avro.Record) and isinstance(reader, avro.Record) and isinstance(data_type, StructType):
        return record_columns(writer, reader, data_type, path)
    if isinstance(writer, avro.Array) and isinstance(reader, avro.Array) and isinstance(data_type, ArrayType):
        read, element = link(writer.items, reader.items, data_type.elementType, child_path(path, "element"))
        column = ListColumn(path, arrow_type_of(data_type), element, data_type.containsNull)
        return array_reader(writer, read), column
    if isinstance(writer, avro.Map) and isinstance(reader, avro.Map) and isinstance(data_type, MapType):
        read, value = link(writer.values, reader.values, data_type.valueType, child_path(path, "value"))
        string = avro.Primitive("string")
        key = leaf_column(string, string, data_type.keyType, child_path(path, "key"))
        return map_reader(read), MapColumn(path, arrow_type_of(data_type), key, value, data_type.valueContainsNull)
    scalar = (avro.Primitive, avro.Fixed, avro.Enum)
    if isinstance(writer, scalar) and isinstance(reader, scalar):
        return scalar_reader(writer), leaf_column(writer, reader, data_type, path)
    raise unresolved(writer, reader, path)


def _members(writer: avro.Node, wanted: Sequence[avro.Node], data_type: DataType, path: str) -> Link:
    """Resolve a union of several types in the table: a struct of which one member is set."""
    if not isinstance(data_type, StructType):
        raise InvalidSchemaError(f"column '{path}' is a union in the table's schema, to be read as a struct")
    union = writer if isinstance(writer, avro.Union) else avro.Union([writer])
    readers, columns, refused = _branches(union, wanted, data_type, path)
    members = {}
    for field in data_type.fields:
        place = _member_place(field.name, len(wanted))
        if place is None:
            raise InvalidSchemaError(f"column '{path}' is a union in the table's schema, without '{field.name}'")
        here = child_path(path, field.name)
        members[place] = _BranchColumn(here, arrow_type_of(field.dataType), columns.get(place, {}), {})
    known = {branch: place for place, found in columns.items() for branch in found}
    column = _MembersColumn(path, arrow_type_of(data_type), members, known, refused)
    read = union_reader(readers) if isinstance(writer, avro.Union) else _tagged(readers[0])
    return read, column


def _member_place(name: str, count: int) -> int | None:
    return next((place for place in range(count) if name == f"member{place}"), None)


def _tagged(reader: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[tuple[int, Any], int]:
        value, at = reader(data, at)
        return (0, value), at

    return read


def _branches(
    writer: avro.Union, wanted: Sequence[avro.Node], data_type: DataType, path: str
) -> tuple[list[Reader], dict[int, dict[int, Column]], dict[int, str]]:
    """Return the readers of the writer's branches, the columns by wanted type and branch, and why some have none."""
    readers: list[Reader] = []
    columns: dict[int, dict[int, Column]] = {place: {} for place in range(len(wanted))}
    refused: dict[int, str] = {}
    for branch, node in enumerate(writer.branches):
        if avro.is_null(node):
            readers.append(reader_of(node))
            continue
        for place in _by_likeness(node, wanted):
            member_type, here = data_type, path
            if len(wanted) > 1:
                assert isinstance(data_type, StructType)
                here = child_path(path, f"member{place}")
                if f"member{place}" not in data_type.names:
                    # The member is not wanted, but its values are no mistake.
                    columns[place][branch] = Constant(here, pa.nulls(1))
                    readers.append(reader_of(node))
                    break
                member_type = data_type[f"member{place}"].dataType
            try:
                read, column = _single(node, wanted[place], member_type, here)
            except InvalidSchemaError:
                continue
            columns[place][branch] = column
            readers.append(read)
            break
        else:
            refused[branch] = f"a value of type {named(node)} cannot be read as {' or '.join(map(named, wanted))}"
            readers.append(reader_of(node))
    return readers, columns, refused


def _by_likeness(node: avro.Node, wanted: Sequence[avro.Node]) -> list[int]:
    """Return the wanted types to try for a branch: the same type first, then those that it may be promoted to."""

    def differs(place: int) -> bool:
        other = wanted[place]
        if isinstance(node, avro.Named) and isinstance(other, avro.Named):
            return type(node) is not type(other) or not other.called(node)
        if isinstance(node, avro.Primitive) and isinstance(other, avro.Primitive):
            return node.name != other.name
        return type(node) is not type(other)

    return sorted(range(len(wanted)), key=differs)


class Constant(Column):
    """Builds the same value for every row."""

    def __init__(self, path: str, one: pa.Array) -> None:
        super().__init__(path, one.type)
        self.one = one

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        return self.one.take(pa.array(np.zeros(len(values), np.int64)))


class _BranchColumn(Column):
    """Builds one column from values of several writer's types, as (branch, value)."""

    def __init__(
        self, path: str, arrow_type: pa.DataType, columns: Mapping[int, Column], refused: Mapping[int, str]
    ) -> None:
        super().__init__(path, arrow_type)
        self._columns = columns
        self._refused = refused

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        branches = np.fromiter((-1 if value is None else value[0] for value in values), np.int64, len(values))
        numbers = np.full(len(values), -1, np.int64)
        parts = [pa.nulls(0, self.type)]
        done = 0
        for branch in np.unique(branches).tolist():
            here = np.flatnonzero(branches == branch)
            column = self._columns.get(branch)
            if column is not None:
                numbers[here] = np.arange(done, done + len(here))
                parts.append(column.build([values[place][1] for place in here.tolist()], rows[here], problems))
                done += len(here)
            elif branch in self._refused:
                for place in here:
                    self.misfit(rows[place], self._refused[branch], problems)
        return pa.concat_arrays(parts).take(pa.array(numbers, mask=numbers < 0))


class _MembersColumn(Column):
    """Builds a struct with one member set from values of a union of several types, as (branch, value)."""

    def __init__(
        self,
        path: str,
        arrow_type: pa.StructType,
        members: Mapping[int, _BranchColumn],
        known: Mapping[int, int],
        refused: Mapping[int, str],
    ) -> None:
        super().__init__(path, arrow_type)
        self._members = members
        self._known = known
        self._refused = refused

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        numbers = []
        for value, row in zip(values, rows, strict=True):
            place = None if value is None else self._known.get(value[0])
            if value is not None and value[0] in self._refused:
                self.misfit(row, self._refused[value[0]], problems)
            numbers.append(place)
        children = []
        for member, column in self._members.items():
            own = [value if place == member else None for value, place in zip(values, numbers, strict=True)]
            children.append(column.build(own, rows, problems))
        mask = pa.array([place is None for place in numbers], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)


def _raw(node: avro.Node, default: Any, data_type: DataType) -> Any:
    """Return a default as the readers would give it. Raises one of _WRONG_DEFAULT if it does not fit."""
    if isinstance(node, avro.Union):
        return _raw_of_union(node, default, data_type)
    if isinstance(node, avro.Record):
        assert isinstance(data_type, StructType)
        return [
            _raw(each.type, default.get(each.name, each.default), data_type[each.name].dataType)
            for each in node.fields
            if each.name in data_type.names
        ]
    if isinstance(node, avro.Array) and type(default) is list:
        assert isinstance(data_type, ArrayType)
        return [_raw(node.items, each, data_type.elementType) for each in default]
    if isinstance(node, avro.Map) and type(default) is dict:
        assert isinstance(data_type, MapType)
        return {key.encode(): _raw(node.values, each, data_type.valueType) for key, each in default.items()}
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


def _raw_of_union(node: avro.Union, default: Any, data_type: DataType) -> Any:
    if default is None and node.nullable:
        return None
    place = -1
    several = len(targets(node)) > 1
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
            value = None if isinstance(branch_type, NullType) else _raw(each, default, branch_type)
        except _WRONG_DEFAULT:
            continue
        return value if len(node.branches) == 2 and node.nullable else (branch, value)
    raise Misfit("no branch of the union takes it")
