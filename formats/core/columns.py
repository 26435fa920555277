"""Builds an Arrow array of exactly the wanted type from the Python values of one column; names the rows of bad values.

A decoder parses events into Python values and hands each column's values to a `Column`. Usually all values fit, and
one call into Arrow is enough; each value is examined only when that call fails. A value that does not fit makes its
row bad (`Problems`) and is replaced by null, so that no row moves.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import InvalidOptionError

Kind = TypeVar("Kind")

Rows = npt.NDArray[np.int64]
"""For each value the number of its event; all values of a list belong to the same event."""

_CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""Errors that Arrow raises for a value that does not fit."""


class Misfit(ValueError):
    """A value that does not fit its column. The text says why."""


class Problems:
    """Collects why rows are bad: the first reason for each."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, row: int, reason: str) -> None:
        """Note why a row is bad; the first reason counts."""
        self.reasons.setdefault(int(row), reason)


@dataclass(eq=False)
class Column(ABC):
    """Builds the array of one column."""

    path: str
    type: pa.DataType

    @abstractmethod
    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        """Return one cell per value, of type `self.type`; None stays null. Never raises for a value."""

    def build_required(
        self, values: Sequence[Any], rows: Rows, problems: Problems, *, nullable: bool = False
    ) -> pa.Array:
        """Return the same as `build`; unless it is nullable, the rows of nulls are bad."""
        array = self.build(values, rows, problems)
        if array.null_count and not nullable:
            for index in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)):
                self.note_misfit(rows[index], "it is NOT NULL, but the event has no value for it", problems)
        return array

    def convert_each(
        self, convert: Callable[[Any], Any], values: Sequence[Any], rows: Rows, problems: Problems
    ) -> list[Any]:
        """Return the converted values, None for a null and for a value for which `convert` raises Misfit."""
        converted = []
        for value, row in zip(values, rows, strict=True):
            try:
                converted.append(None if value is None else convert(value))
            except Misfit as error:
                self.note_misfit(row, error, problems)
                converted.append(None)
        return converted

    def note_misfit(self, row: int, reason: object, problems: Problems) -> None:
        """Note that the value of a row does not fit this column."""
        problems.add(row, f"column '{self.path}': {reason}" if self.path else str(reason))


@dataclass(eq=False)
class Leaf(Column):
    """Builds a column of plain values.

    `exact` turns one value into one that Arrow takes, or raises Misfit. `fast` converts all values, in place of Arrow,
    and raises if one does not fit; it must agree with `exact` wherever both succeed. `kinds`: the Python types that
    `fast`, or Arrow, converts, None if the parser yields no others. `native` tells the native plans how the native
    decoder builds the same column; None if it cannot.
    """

    exact: Callable[[Any], Any]
    _: KW_ONLY
    fast: Callable[[Sequence[Any]], pa.Array] | None = None
    kinds: frozenset[type] | None = None
    native: tuple[Any, ...] | None = None
    about: str = field(default="", init=False)
    """What messages add to the reason why a value does not fit, such as the types concerned."""

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        if self.kinds is None or self.kinds.issuperset(map(type, values)):
            try:
                return pa.array(values, self.type) if self.fast is None else self.fast(values)
            except _CONVERSION_ERRORS:
                pass  # One of them does not fit; which one is found below.
        return pa.array(self.convert_each(self._convert_one, values, rows, problems), self.type)

    def _convert_one(self, value: Any) -> Any:
        if value is NEGATIVE_ZERO and not pa.types.is_floating(self.type):
            value = 0
        try:
            return self.exact(value)
        except Misfit as error:
            raise Misfit(f"{error}{self.about}") from None


@dataclass(frozen=True)
class StructMember:
    """A struct's field. `key` finds it in the parsed struct (None: not there); `missing` is for dicts without it."""

    key: Any
    column: Column
    nullable: bool
    missing: Any = None


@dataclass(eq=False)
class StructColumn(Column):
    """Builds a struct, parsed as a dict (a missing key is null, or the member's default) or as a list of values.

    `parsed_as` is one of these two types. `taken`: whether such a list has the value, by field of a writer's record.
    """

    members: Sequence[StructMember]
    parsed_as: type[dict[Any, Any] | list[Any]]
    taken: Sequence[bool] = ()

    @property
    def width(self) -> int:
        """Return the number of values in a struct that was parsed as a list."""
        return sum(member.key is not None for member in self.members)

    def children(self, values: Sequence[Any], rows: Rows, problems: Problems) -> list[pa.Array]:
        """Return the arrays of the members of structs, none of which is null."""
        columns = self._split_dicts(values) if self.parsed_as is dict else self._split_lists(values)
        return [
            member.column.build_required(column, rows, problems, nullable=member.nullable)
            for member, column in zip(self.members, columns, strict=True)
        ]

    def _split_dicts(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return [[value.get(member.key, member.missing) for value in values] for member in self.members]

    def _split_lists(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        parts = list(zip(*values, strict=True))
        nothing = [None] * len(values)
        return [nothing if member.key is None or not parts else parts[member.key] for member in self.members]

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        kinds = set(map(type, values))
        if kinds == {self.parsed_as}:
            return self._assemble(self.children(values, rows, problems), len(values))
        for index, value in enumerate(values):
            if value is not None and type(value) is not self.parsed_as:
                self.note_misfit(rows[index], f"expected an object, found {describe_kind(value)}", problems)
        has_kind = np.fromiter((type(value) is self.parsed_as for value in values), np.bool_, len(values))
        present = [value for value in values if type(value) is self.parsed_as]
        positions = pa.array(np.cumsum(has_kind) - 1, pa.int64(), mask=~has_kind)
        children = [array.take(positions) for array in self.children(present, rows[has_kind], problems)]
        return self._assemble(children, len(values), pa.array(~has_kind))

    def _assemble(self, children: list[pa.Array], count: int, mask: pa.Array | None = None) -> pa.Array:
        if not children:
            validity = None if mask is None else pc.invert(mask).buffers()[1]
            return pa.Array.from_buffers(self.type, count, [validity])
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)


@dataclass(eq=False)
class ListColumn(Column):
    """Builds a list. `element_nullable` says whether its elements may be null."""

    element: Column
    element_nullable: bool

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        lists, lengths, offsets = self._bounds(values, rows, problems)
        items, owners = list(chain.from_iterable(lists)), np.repeat(rows, lengths)
        elements = self.element.build_required(items, owners, problems, nullable=self.element_nullable)
        return pa.ListArray.from_arrays(offsets, elements, type=self.type)

    def as_list(self, value: Any) -> list[Any]:
        """Return the list that a parsed value stands for. Raises Misfit if it is not a list."""
        return expect_type(value, list, "an array")

    def _bounds(self, values: Sequence[Any], rows: Rows, problems: Problems) -> tuple[list[Any], Rows, pa.Array]:
        if set(map(type, values)) != {list}:
            values = self.convert_each(self.as_list, values, rows, problems)
        lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
        return [value for value in values if value is not None], lengths, make_list_offsets(values, lengths)


@dataclass(eq=False)
class MapColumn(Column):
    """Builds a map with string keys, parsed as a dict."""

    key: Column
    value: Column
    value_nullable: bool

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        maps = values
        if set(map(type, values)) != {dict}:
            maps = self.convert_each(lambda value: expect_type(value, dict, "an object"), values, rows, problems)
        lengths = np.fromiter((0 if value is None else len(value) for value in maps), np.int64, len(maps))
        owners = np.repeat(rows, lengths)
        present = [value for value in maps if value]
        keys = self.key.build(list(chain.from_iterable(present)), owners, problems)
        if keys.null_count:
            # A key that does not fit makes its row bad, but Arrow still needs a key.
            keys = keys.fill_null("")
        items = [item for value in present for item in value.values()]
        array = self.value.build_required(items, owners, problems, nullable=self.value_nullable)
        return pa.MapArray.from_arrays(make_list_offsets(maps, lengths), keys, array, type=self.type)


def make_list_offsets(values: Sequence[Any], lengths: Rows) -> pa.Array:
    """Return where the elements of each list begin; null for a list that is None."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if None not in values:
        return pa.array(offsets)
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    return pa.array(offsets, mask=np.append(missing, False))


def expect_type(value: Any, kind: type[Kind], expected: str) -> Kind:
    """Return a parsed value that has a type. Raises Misfit for any other, saying what was expected."""
    if type(value) is not kind:
        raise Misfit(f"expected {expected}, found {describe_kind(value)}")
    return value


def describe_kind(value: object) -> str:
    """Return the kind of a parsed value in the words of JSON, for messages."""
    return _KINDS.get(type(value), "null")


NumberText = bytes
"""The text of a JSON number with a fraction or exponent, kept where its exact digits matter. It is bytes, as no other
JSON value is: they are cheap to make from a text, easy to distinguish from a string, and `float` accepts them."""
NEGATIVE_ZERO = NumberText(b"-0")
"""This very object is the whole number -0 of JSON: -0.0 in a column of floats, and 0 in all others."""


_KINDS = {
    bool: "a boolean",
    int: "an integer",
    **dict.fromkeys((float, NumberText), "a number with a fraction or exponent"),
    str: "a string",
    list: "an array",
    dict: "an object",
}


def find_column(option: str, name: str, columns: StructType) -> StructField:
    """Return the column of a table that an option names, in any case.

    Raises InvalidOptionError unless exactly one column matches; a column spelled exactly so comes first.
    """
    names = columns.fieldNames()
    matches = [name] if name in names else [column for column in names if column.lower() == name.lower()]
    if len(matches) != 1:
        near = difflib.get_close_matches(name, names, 1, 0.6)
        hint = f"Did you mean '{near[0]}'?" if near else f"Its columns are {', '.join(names)}."
        raise InvalidOptionError(f"'{option}' names '{name}', which is not a column of the table. {hint}")
    return columns[matches[0]]
