"""Translates conditions of a query for a lake, which then leaves out files and rows that cannot fulfil them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import Any, TypeAlias

from pyspark.sql.types import StructType

from ..lake.lake_columns import ERROR
from ..lake.lake_files import Expression, make_expression
from .conditions import COLUMN, LITERAL, WHOLE_TYPES, Condition, Term

_COMPARED = (*WHOLE_TYPES, "string")
"""Types whose values Iceberg compares as Spark does. Its floats have another order."""
_COMPARISONS = {
    "=": "EqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
    "IS_NULL": "IsNull",
    "IS_NOT_NULL": "NotNull",
    "STARTS_WITH": "StartsWith",
}
"""Spark's names of predicates on a column, and pyiceberg's classes."""
_Part: TypeAlias = Any
"""A part of a condition: the name of a column, a literal, an expression, or None if there is no translation."""


class _Column(str):
    """The name of a column."""


def translate_conditions(conditions: Sequence[Condition], columns: StructType) -> Expression | None:
    """Return an expression that all rows fulfil which fulfil the conditions; None if it would be true for any row.

    Events that could not be decoded fulfil it too: whether there are any does not depend on conditions.
    """
    types = {field.name: field.dataType.simpleString() for field in columns.fields}
    translated = [condition.fold(lambda term, children: _translate(term, children, types)) for condition in conditions]
    useful = [part for part in translated if part is not None]
    return make_expression("Or", _join(useful), make_expression("NotNull", ERROR)) if useful else None


def _join(parts: Sequence[_Part]) -> _Part:
    return reduce(partial(make_expression, "And"), parts)


def _translate(term: Term, children: list[_Part], types: Mapping[str, str]) -> _Part:
    if term.name == COLUMN:
        return _Column(str(term.value)) if types.get(str(term.value)) in _COMPARED else None
    if term.name == LITERAL:
        with suppress(ValueError):
            return term.parse() if term.type in _COMPARED else None
        return None
    if term.name == "AND":
        useful = [child for child in children if child is not None]
        return _join(useful) if useful else None
    if None in children:
        return None
    if term.name == "OR":
        return make_expression("Or", *children)
    if not isinstance(children[0], _Column) or any(isinstance(child, _Column) for child in children[1:]):
        return None
    if term.name == "IN":
        return make_expression("In", children[0], set(children[1:]))
    comparison = _COMPARISONS.get(term.name)
    return None if comparison is None else make_expression(comparison, *children)
