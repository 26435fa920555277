"""Resolves schemas: decides how values of a writer's schema are read as columns of the table.

The rules are those of the Avro specification: fields by name or by the reader's aliases, defaults for
fields that the writer lacks, promotion, unions branch by branch. Types that do not resolve make the writer's
schema unreadable, except in a branch of a union, where only events that have this branch are bad. In two points
this is more lenient than the specification: a nullable column that the writer lacks is null even without a default,
and records outside unions need not have the same name (as in Java).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, ListColumn, MapColumn, Problems, StructColumn, StructMember
from ..core.spark_visitor import join_path
from . import binary
from . import schema_model as avro
from .field_defaults import WRONG_DEFAULT, resize_fixed, write_default
from .leaves import describe_type, make_leaf_column, make_resolution_error
from .recursion.recursive_reading import make_text_reader
from .schema_to_spark import list_targets
from .unions import BranchColumn, Constant, MembersColumn, choose_places, find_sources

Link = tuple[binary.Reader, Column]
"""A reader of the writer's values, and the column that they become."""


def link(writer: avro.Node, reader: avro.Node, data_type: DataType, path: str) -> Link:
    """Resolve a writer's and table's type for a column of `data_type`. Raises InvalidSchemaError naming the column."""
    targets = list_targets(reader)
    if not targets:
        raise InvalidSchemaError(f"column '{path}' can only be null in the table's schema")
    if len(targets) > 1:
        return _link_members(writer, reader, data_type, path)
    if not isinstance(writer, avro.Union):
        if avro.is_null(writer):
            return binary.make_skipping_reader(writer), link(reader, reader, data_type, path)[1]
        return _link_single(writer, targets[0], data_type, path)
    null_branch = writer.null_number
    if len(writer.branches) == 2 and null_branch is not None:
        try:
            read, column = _link_single(writer.branches[1 - null_branch], targets[0], data_type, path)
            return binary.make_nullable_reader(null_branch, read), column
        except InvalidSchemaError:
            pass  # Events that have null here can still be read.
    readers, columns, refused = _link_branches(writer, reader, data_type, path)
    return binary.make_union_reader(readers), BranchColumn(path, find_arrow_type(data_type), columns[0], refused)


def link_records(
    writer: avro.Record, reader: avro.Record, struct: StructType, path: str
) -> tuple[binary.Reader, StructColumn]:
    """Resolve records field by field."""
    sources = find_sources(writer, reader, struct.names)
    slots: dict[str, int] = {}
    steps: list[tuple[binary.Reader, bool]] = []
    columns: dict[str, Column] = {}
    for source_field in writer.fields:
        if source_field.name not in sources:
            steps.append((binary.make_skipping_reader(source_field.type), False))
            continue
        field = struct[sources[source_field.name]]
        target = reader.field_named(field.name)
        assert target is not None
        read, columns[field.name] = link(source_field.type, target.type, field.dataType, join_path(path, field.name))
        slots[field.name] = len(slots)
        steps.append((read, True))
    members = []
    for field in struct.fields:
        here = join_path(path, field.name)
        column = columns.get(field.name) or _make_missing_column(reader.field_named(field.name), field, here)
        members.append(StructMember(slots.get(field.name), column, field.nullable))
    taken = [is_taken for _, is_taken in steps]
    return binary.make_record_reader(steps), StructColumn(path, find_arrow_type(struct), members, list, taken)


def _make_missing_column(target: avro.Field | None, field: StructField, path: str) -> Column:
    """Return the column for a field that the writer did not know."""
    if target is not None and target.has_default and target.default is not None:
        node = resize_fixed(target.type, target.default)
        read, column = link(node, node, field.dataType, path)
        problems = Problems()
        try:
            value, _ = read(write_default(node, target.default), 0)
        except WRONG_DEFAULT:
            raise InvalidSchemaError(
                f"the default of column '{path}' in the table's schema does not fit its type"
            ) from None
        one = column.build([value], np.zeros(1, np.int64), problems)
        for reason in problems.reasons.values():
            raise InvalidSchemaError(f"the default in the table's schema does not fit: {reason}")
        return Constant(path, one)
    if not field.nullable:
        raise InvalidSchemaError(f"column '{path}' is NOT NULL and has no default, and the writer's schema lacks it")
    return Constant(path, pa.nulls(1, find_arrow_type(field.dataType)))


def _link_single(writer: avro.Node, reader: avro.Node, data_type: DataType, path: str) -> Link:
    """Resolve types that are not unions."""
    if isinstance(writer, avro.Record) and isinstance(reader, avro.Record) and isinstance(data_type, StructType):
        return link_records(writer, reader, data_type, path)
    if isinstance(writer, avro.Record) and isinstance(reader, avro.Record) and isinstance(data_type, StringType):
        return make_text_reader(writer, reader, path)
    if isinstance(writer, avro.Array) and isinstance(reader, avro.Array) and isinstance(data_type, ArrayType):
        read, element = link(writer.items, reader.items, data_type.elementType, join_path(path, "element"))
        column = ListColumn(path, find_arrow_type(data_type), element, data_type.containsNull)
        return binary.make_array_reader(writer, read), column
    if isinstance(writer, avro.Map) and isinstance(reader, avro.Map) and isinstance(data_type, MapType):
        read, value = link(writer.values, reader.values, data_type.valueType, join_path(path, "value"))
        string = avro.Primitive("string")
        key = make_leaf_column(string, string, data_type.keyType, join_path(path, "key"))
        return binary.make_map_reader(read), MapColumn(
            path, find_arrow_type(data_type), key, value, data_type.valueContainsNull
        )
    scalar = (avro.Primitive, avro.Fixed, avro.Enum)
    if isinstance(writer, scalar) and isinstance(reader, scalar):
        return binary.make_scalar_reader(writer), make_leaf_column(writer, reader, data_type, path)
    raise make_resolution_error(writer, reader, path)


def _link_members(writer: avro.Node, reader: avro.Node, data_type: DataType, path: str) -> Link:
    """Resolve a union of several types in the table, which is a struct with one member set."""
    targets = list_targets(reader)
    if not isinstance(data_type, StructType):
        raise InvalidSchemaError(
            f"column '{path}' is a union in the table's schema, which can only be read as a struct"
        )
    union = writer if isinstance(writer, avro.Union) else avro.Union([writer])
    readers, columns, refused = _link_branches(union, reader, data_type, path)
    members = []
    for field in data_type.fields:
        number = next((one for one in range(len(targets)) if field.name == f"member{one}"), None)
        if number is None:
            raise InvalidSchemaError(f"column '{path}' is a union in the table's schema, which has no '{field.name}'")
        here = join_path(path, field.name)
        members.append(BranchColumn(here, find_arrow_type(field.dataType), columns[number], {}))
    read_branches = {branch for columns_of_branches in columns for branch in columns_of_branches}
    column = MembersColumn(path, find_arrow_type(data_type), members, read_branches, refused)
    if isinstance(writer, avro.Union):
        return binary.make_union_reader(readers), column
    return binary.make_converting_reader(readers[0], lambda value: (0, value)), column


def _link_branches(
    writer: avro.Union, reader: avro.Node, data_type: DataType, path: str
) -> tuple[list[binary.Reader], list[dict[int, Column]], dict[int, str]]:
    """Return readers for the writer's branches, columns by branch for each wanted type, and why some are refused."""
    targets = list_targets(reader)
    readers: list[binary.Reader] = []
    columns: list[dict[int, Column]] = [{} for _ in targets]
    refused: dict[int, str] = {}
    for branch, (node, target) in enumerate(zip(writer.branches, choose_places(writer, reader, targets), strict=True)):
        member_type, here = data_type, path
        if target is not None and len(targets) > 1:
            assert isinstance(data_type, StructType)
            here = join_path(path, f"member{target}")
            if f"member{target}" not in data_type.names:
                # The member is not wanted, but its values are valid.
                columns[target][branch] = Constant(here, pa.nulls(1))
                readers.append(binary.make_skipping_reader(node))
                continue
            member_type = data_type[f"member{target}"].dataType
        reason = None
        if target is not None:
            try:
                read, columns[target][branch] = _link_single(node, targets[target], member_type, here)
                readers.append(read)
                continue
            except InvalidSchemaError as error:
                reason = error
        if not avro.is_null(node):
            refused[branch] = _explain_refusal(node, targets, reason)
        readers.append(binary.make_skipping_reader(node))
    return readers, columns, refused


def _explain_refusal(node: avro.Node, targets: Sequence[avro.Node], reason: InvalidSchemaError | None) -> str:
    text = f"a value of type {describe_type(node)} cannot be read as {' or '.join(map(describe_type, targets))}"
    # For plain types the reason says nothing more.
    return text if reason is None or isinstance(node, avro.Primitive) else f"{text}: {reason.message}"
