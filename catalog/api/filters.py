"""Translates pyarrow's expressions into the conditions of a scan, by way of Substrait."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from pyspark_pravega.datasource.scan.conditions import COLUMN, LITERAL, Condition, Term
from pyspark_pravega.errors import InvalidOptionError

from .substrait_pb2 import Expression, ExtendedExpression, FieldReference, Literal, ScalarFunction

_NAMES = {"and": "AND", "or": "OR", "not": "NOT", "equal": "=", "not_equal": "<>"}
_NAMES |= {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_TYPES = {"i8": "tinyint", "i16": "smallint", "i32": "int", "i64": "bigint", "date": "date"}
_DEEPEST = 10
"""How deeply a condition may be nested: with each level, pyarrow's translation doubles in size."""
_UNKNOWN = Term("UNKNOWN", 0, None, None)


def find_columns(condition: pc.Expression, every: pa.Schema, own: Sequence[str]) -> list[str]:
    """Return the columns that a condition uses. Raises InvalidOptionError, with the `own` ones, if it does not fit."""
    if not isinstance(condition, pc.Expression):
        raise InvalidOptionError(
            f"'filter' is a {type(condition).__name__}; give a pyarrow expression, for example "
            'pyarrow.compute.field("temp") > 30'
        )
    if (wrong := _find_misfit(condition, every)) is not None:
        advice = ". Compare a decimal with a decimal, such as Decimal('0')" if "Precision" in wrong else ""
        raise InvalidOptionError(f"The filter {condition} does not fit the columns {', '.join(own)}: {wrong}{advice}")
    # An expression does not list its columns, but it fails without one of them.
    return [
        name
        for index, name in enumerate(every.names)
        if _find_misfit(condition, pa.schema([field for other, field in enumerate(every) if other != index]))
        is not None
    ]


def _find_misfit(condition: pc.Expression, columns: pa.Schema) -> str | None:
    try:
        columns.empty_table().filter(condition)
    except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
        return str(error).splitlines()[0]
    return None


def read_conditions(condition: pc.Expression, columns: pa.Schema) -> list[Condition]:
    """Return conditions that every row kept by an expression fulfils; none if it cannot be translated."""
    depths = accumulate((character == "(") - (character == ")") for character in str(condition))
    if max(depths, default=0) > _DEEPEST:
        return []
    try:
        from pyarrow import substrait

        data = bytes(substrait.serialize_expressions([condition], ["condition"], columns))
        message = ExtendedExpression.FromString(data)
        # The message declares functions, and also the types that Substrait lacks.
        declared = [one.extension_function for one in message.extensions if one.HasField("extension_function")]
        functions = {function.function_anchor: function.name.split(":")[0] for function in declared}
        parts = _split_at_and(message.referred_expr[0].expression, functions)
        return [Condition(tuple(_read_terms(part, functions, columns.names))) for part in parts]
    except (ImportError, pa.ArrowException, DecodeError, ValueError, LookupError, RecursionError):
        return []  # Substrait cannot express it, or this module does not know it


def _split_at_and(expression: Expression, functions: Mapping[int, str]) -> Iterator[Expression]:
    """Yield the parts of an expression that AND joins."""
    call = expression.scalar_function
    if expression.HasField("scalar_function") and functions.get(call.function_reference) == "and":
        for part in _read_arguments(call):
            yield from _split_at_and(part, functions)
    else:
        yield expression


def _read_terms(expression: Expression, functions: Mapping[int, str], names: Sequence[str]) -> Iterator[Term]:
    """Yield the terms of an expression, arguments before their function."""
    match expression.WhichOneof("rex_type"):
        case "literal":
            yield _read_literal(expression.literal)
        case "selection":
            yield _read_column(expression.selection, names)
        case "scalar_function":
            arguments = _read_arguments(expression.scalar_function)
            name = _NAMES.get(functions.get(expression.scalar_function.function_reference, ""))
            if name is None or not arguments:
                yield _UNKNOWN
            else:
                yield from _join_terms(name, [list(_read_terms(each, functions, names)) for each in arguments])
        case "singular_or_list":
            parts = [expression.singular_or_list.value, *expression.singular_or_list.options]
            for part in parts:
                yield from _read_terms(part, functions, names)
            yield Term("IN", len(parts), None, None)
        case _:
            yield _UNKNOWN


def _join_terms(name: str, parts: Sequence[Sequence[Term]]) -> Iterator[Term]:
    """Yield a function after its arguments; AND and OR, which may have many, take two at a time."""
    if name not in ("AND", "OR"):
        for part in parts:
            yield from part
        yield Term(name, len(parts), None, None)
        return
    yield from parts[0]
    for part in parts[1:]:
        yield from part
        yield Term(name, 2, None, None)


def _read_arguments(call: ScalarFunction) -> list[Expression]:
    """Return the arguments of a function that are values."""
    return [Expression.FromString(argument.value) for argument in call.arguments if argument.HasField("value")]


def _read_column(selection: FieldReference, names: Sequence[str]) -> Term:
    """Return a column of the rows; a field within one is unknown."""
    reference = selection.direct_reference
    if not reference.HasField("struct_field") or reference.struct_field.HasField("child"):
        return _UNKNOWN
    return Term(COLUMN, 0, None, names[reference.struct_field.field])


def _read_literal(literal: Literal) -> Term:
    kind = literal.WhichOneof("literal_type")
    if kind is None:
        return _UNKNOWN
    if kind == "string":
        return Term(LITERAL, 0, kind, base64.b64encode(literal.string.encode()).decode())
    return Term(LITERAL, 0, _TYPES[kind], str(getattr(literal, kind)))
