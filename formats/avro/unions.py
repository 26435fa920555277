"""Reads unions: chooses the branch of a reader's union as Java's Avro does, and builds columns from values of unions.

The first part decides as which of the reader's types each branch of a writer's union is read. The columns at the end
build arrays from the resulting values, (branch, value).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.arrow_types import restore_order
from ..core.columns import Column, Problems, Rows
from . import schema_model as avro
from .leaves import PROMOTED

_Pair = tuple[int, int]


def choose_places(writer: avro.Union, reader: avro.Node, targets: Sequence[avro.Node]) -> list[int | None]:
    """Return for each branch of the writer the place of the reader's type that it is read as; None if it has none.

    `targets` are the reader's types except null, which has no place.
    """
    if len(targets) == 1:
        return [None if avro.is_null(node) or _is_taken(node, targets[0], writer) else 0 for node in writer.branches]
    if isinstance(reader, avro.Union) and is_alike(writer, reader):
        places = count()
        return [None if avro.is_null(node) else next(places) for node in writer.branches]
    return [None if avro.is_null(node) else _choose_as_java(node, targets) for node in writer.branches]


def _is_taken(node: avro.Node, only: avro.Node, writer: avro.Union) -> bool:
    """Return whether an enum or fixed has only the simple name of the type while another branch has its full name."""
    if not isinstance(node, avro.Enum | avro.Fixed) or _has_name(only, node) or _has_alias(only, node):
        return False
    return any(isinstance(branch, avro.Named) and _has_name(only, branch) for branch in writer.branches)


def find_sources(writer: avro.Record, reader: avro.Record, columns: Sequence[str]) -> dict[str, str]:
    """Return the wanted fields of the reader by the writer's fields that they are read from.

    All fields are resolved, so that no value depends on what is wanted. An alias renames the writer's field, as the
    specification and Java have it (`Schema.applyAliases`), even if the reader has another field of the old name. If
    that gives two fields one name, which Java refuses, the field that always had the name keeps it, and else the one
    whose alias comes first; the other one goes back to its own name.
    """
    names = {field.name for field in writer.fields}
    renamed = {alias: field.name for field in reader.fields for alias in field.aliases if alias in names}
    sources: dict[str, str] = {}
    for field in reader.fields:
        claims = [
            name for name in (field.name, *field.aliases) if name in names and renamed.get(name, name) == field.name
        ]
        if claims:
            sources[claims[0]] = field.name
    read = set(sources.values())
    for field in reader.fields:
        if field.name not in read and field.name in names and field.name not in sources:
            sources[field.name] = field.name
    return {source: name for source, name in sources.items() if name in columns}


def is_alike(writer: avro.Node, reader: avro.Node, seen: dict[_Pair, bool] | None = None) -> bool:
    """Return whether Java considers two types so similar that it pairs their branches by place."""
    seen = {} if seen is None else seen
    if type(writer) is not type(reader):
        return False
    match writer, reader:
        case (avro.Primitive(), avro.Primitive()):
            return writer.name == reader.name
        case (avro.Array(), avro.Array()):
            return is_alike(writer.items, reader.items, seen)
        case (avro.Map(), avro.Map()):
            return is_alike(writer.values, reader.values, seen)
        case (avro.Union(), avro.Union()):
            return _is_each_alike(writer.branches, reader.branches, seen)
        case (avro.Fixed(), avro.Fixed()):
            return _has_same_simple_name(writer, reader) and writer.size == reader.size
        case (avro.Enum(), avro.Enum()):
            return _has_same_simple_name(writer, reader) and writer.symbols == reader.symbols
        case (avro.Record(), avro.Record()):
            return _has_same_simple_name(writer, reader) and _has_alike_fields(writer, reader, seen)
    raise AssertionError(writer)


def _is_each_alike(writers: Sequence[avro.Node], readers: Sequence[avro.Node], seen: dict[_Pair, bool]) -> bool:
    return len(writers) == len(readers) and all(
        is_alike(one, other, seen) for one, other in zip(writers, readers, strict=True)
    )


def _has_alike_fields(writer: avro.Record, reader: avro.Record, seen: dict[_Pair, bool]) -> bool:
    pair = id(writer), id(reader)
    if pair not in seen:
        seen[pair] = True  # assumed until the fields are compared, for records that contain themselves
        seen[pair] = all(
            one.name == other.name or one.name in other.aliases
            for one, other in zip(writer.fields, reader.fields, strict=False)
        ) and _is_each_alike([field.type for field in writer.fields], [field.type for field in reader.fields], seen)
    return seen[pair]


def _choose_as_java(writer: avro.Node, targets: Sequence[avro.Node]) -> int | None:
    """Return the branch that Java chooses; None if it refuses the values."""
    # An alias renames the writer's type, so it takes precedence over a type of the old name.
    for fits in (_has_alias, _has_name, _is_promoted):
        for number, candidate in enumerate(targets):
            if type(candidate) is type(writer) and fits(candidate, writer):
                return number
    return _choose_by_structure(writer, targets) if isinstance(writer, avro.Record) else None


def _choose_by_structure(writer: avro.Record, targets: Sequence[avro.Node]) -> int | None:
    similar = None
    for number, candidate in enumerate(targets):
        if isinstance(candidate, avro.Record) and not _is_missing_field(writer, candidate):
            fields = ((one.type, _find_source(candidate, one.name)) for one in writer.fields)
            if any(other is not None and _is_refused(one, other.type) for one, other in fields):
                continue
            if similar is None or writer.simple_name == candidate.simple_name:
                similar = number
    return similar


def _is_refused(writer: avro.Node, reader: avro.Node) -> bool:
    """Return whether Java refuses every value of a type without reading it."""
    if isinstance(writer, avro.Union):
        return False  # its branches are looked at one by one
    if isinstance(reader, avro.Union):
        return _choose_as_java(writer, reader.branches) is None
    match writer, reader:
        case (avro.Record(), avro.Record()):
            return _is_missing_field(writer, reader)
        case (avro.Fixed(), avro.Fixed()):
            return not _has_same_simple_name(writer, reader) or writer.size != reader.size
        case (avro.Enum(), avro.Enum()):
            return not _has_same_simple_name(writer, reader)
        case (avro.Array(), avro.Array()) | (avro.Map(), avro.Map()):
            return False
    return type(writer) is not type(reader) or not (_has_name(reader, writer) or _is_promoted(reader, writer))


def _is_missing_field(writer: avro.Record, reader: avro.Record) -> bool:
    """Return whether the writer lacks a field of the reader that has no default."""
    names = {field.name for field in writer.fields}
    return any(
        not field.has_default and field.name not in names and names.isdisjoint(field.aliases) for field in reader.fields
    )


def _find_source(reader: avro.Record, name: str) -> avro.Field | None:
    return reader.field_named(name) or next((field for field in reader.fields if name in field.aliases), None)


def _is_promoted(reader: avro.Node, writer: avro.Node) -> bool:
    return isinstance(writer, avro.Primitive) and writer.name in PROMOTED.get(_find_name(reader) or "", ())


def _has_alias(reader: avro.Node, writer: avro.Node) -> bool:
    return isinstance(reader, avro.Named) and _find_name(writer) in reader.aliases


def _has_name(reader: avro.Node, writer: avro.Node) -> bool:
    return _find_name(reader) == _find_name(writer)


def _find_name(node: avro.Node) -> str | None:
    """Return the name of a primitive or named type; None for arrays, maps and unions."""
    return node.name if isinstance(node, avro.Primitive | avro.Named) else None


def _has_same_simple_name(writer: avro.Named, reader: avro.Named) -> bool:
    return writer.simple_name == reader.simple_name or writer.name in reader.aliases


class Constant(Column):
    """Builds the same value for every row."""

    def __init__(self, path: str, one: pa.Array) -> None:
        super().__init__(path, one.type)
        self.one = one

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        return self.one.take(pa.array(np.zeros(len(values), np.int64)))


@dataclass(eq=False)
class BranchColumn(Column):
    """Builds one column from values of several writer's types, given as (branch, value)."""

    _columns: Mapping[int, Column]
    _refused: Mapping[int, str]

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        branches = np.fromiter((-1 if value is None else value[0] for value in values), np.int64, len(values))
        parts, positions = [[pa.nulls(0, self.type)]], [np.zeros(0, np.int64)]
        for branch in np.unique(branches).tolist():
            here = np.flatnonzero(branches == branch)
            positions.append(here)
            column = self._columns.get(branch)
            if column is not None:
                parts.append([column.build([values[number][1] for number in here.tolist()], rows[here], problems)])
                continue
            parts.append([pa.nulls(len(here), self.type)])
            for row in rows[here] if branch in self._refused else ():
                self.note_misfit(row, self._refused[branch], problems)
        return restore_order(parts, positions)[0]


@dataclass(eq=False)
class MembersColumn(Column):
    """Builds a struct with one member set, from values of a union of several types, given as (branch, value).

    Each member takes the values of its own branches, and is null for others. `_read`: the branches of all members.
    """

    _members: Sequence[BranchColumn]
    _read: Set[int]
    _refused: Mapping[int, str]

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        branches = [None if value is None else value[0] for value in values]
        for branch, row in zip(branches, rows, strict=True):
            if branch is not None and branch in self._refused:
                self.note_misfit(row, self._refused[branch], problems)
        children = [member.build(values, rows, problems) for member in self._members]
        mask = pa.array([branch not in self._read for branch in branches], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)
