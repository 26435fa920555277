"""Translates pyarrow's expressions into the conditions of a scan, by way of Substrait."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.datasource.scan.conditions import COLUMN, LITERAL, Condition, Term
from pyspark_pravega.errors import InvalidOptionError

_Field: TypeAlias = int | bytes
_Message: TypeAlias = Mapping[int, Sequence[_Field]]
"""The values of a message's fields, by field number."""

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_SIGN = 1 << 63

_FUNCTIONS, _EXPRESSIONS = 2, 3
"""Fields of an extended expression: the functions that it uses, and the expression itself, both wrapped."""
_SELECTION, _CALL, _ONE_OF = 2, 3, 8
"""Kinds of expressions other than literals, which are 1."""
_NAMES = {"and": "AND", "or": "OR", "not": "NOT", "equal": "=", "not_equal": "<>"}
_NAMES |= {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_INTEGERS = {2: "tinyint", 3: "smallint", 5: "int", 7: "bigint"}
_STRING, _DATE = 12, 16
_UNKNOWN = Term("UNKNOWN", 0, None, None)


def find_columns(condition: pc.Expression, every: pa.Schema) -> list[str]:
    """Return the names of the columns that a condition uses. Raises InvalidOptionError if it does not fit `every`."""
    if not isinstance(condition, pc.Expression):
        raise InvalidOptionError(
            f"'filter' is a {type(condition).__name__}; give a pyarrow expression, for example "
            'pyarrow.compute.field("temp") > 30'
        )
    if (wrong := _find_misfit(condition, every)) is not None:
        raise InvalidOptionError(f"The filter {condition} does not fit the columns {', '.join(every.names)}: {wrong}")
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
    try:
        from pyarrow import substrait

        message = _split_message(bytes(substrait.serialize_expressions([condition], ["condition"], columns)))
        # The message declares functions, and also the types that Substrait lacks.
        declared = [
            _split_message(_get_bytes(declaration, 3))
            for declaration in map(_split_message, _get_messages(message, _FUNCTIONS))
            if 3 in declaration
        ]
        functions = {
            _get_number(function, 2): _get_bytes(function, 3).decode().split(":")[0]
            for function in declared
            if 3 in function
        }
        whole = _split_message(_get_bytes(_split_message(_get_bytes(message, _EXPRESSIONS)), 1))
        return [
            Condition(tuple(_read_terms(part, functions, columns.names))) for part in _split_at_and(whole, functions)
        ]
    except (ImportError, pa.ArrowException, ValueError, LookupError, RecursionError):
        return []  # Substrait cannot express it, or this module does not know it


def _split_at_and(expression: _Message, functions: Mapping[int, str]) -> Iterator[_Message]:
    """Yield the parts of an expression that AND joins."""
    if _CALL in expression:
        call = _split_message(_get_bytes(expression, _CALL))
        if functions.get(_get_number(call, 1)) == "and":
            for part in _read_arguments(call):
                yield from _split_at_and(part, functions)
            return
    yield expression


def _read_terms(expression: _Message, functions: Mapping[int, str], names: Sequence[str]) -> Iterator[Term]:
    """Yield the terms of an expression, arguments before their function."""
    if _SELECTION in expression:
        yield _read_column(_split_message(_get_bytes(expression, _SELECTION)), names)
    elif _CALL in expression:
        call = _split_message(_get_bytes(expression, _CALL))
        arguments = _read_arguments(call)
        name = _NAMES.get(functions.get(_get_number(call, 1), ""))
        if name is None or not arguments:
            yield _UNKNOWN
            return
        yield from _join_terms(name, [list(_read_terms(argument, functions, names)) for argument in arguments])
    elif _ONE_OF in expression:
        choice = _split_message(_get_bytes(expression, _ONE_OF))
        parts = [choice[1][0], *choice.get(2, ())]
        for part in parts:
            yield from _read_terms(_split_message(_check_bytes(part)), functions, names)
        yield Term("IN", len(parts), None, None)
    elif 1 in expression:
        yield _read_literal(_split_message(_get_bytes(expression, 1)))
    else:
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


def _read_arguments(call: _Message) -> list[_Message]:
    """Return the arguments of a function that are values."""
    wrapped = [_split_message(argument) for argument in _get_messages(call, 4)]
    return [_split_message(_get_bytes(argument, 3)) for argument in wrapped if 3 in argument]


def _read_column(selection: _Message, names: Sequence[str]) -> Term:
    """Return a column of the rows; a field within one is unknown."""
    direct = _split_message(_get_bytes(selection, 1)) if 1 in selection else {}
    reference = _split_message(_get_bytes(direct, 2)) if 2 in direct else None
    if reference is None or 2 in reference:
        return _UNKNOWN
    return Term(COLUMN, 0, None, names[_get_number(reference, 1)])


def _read_literal(literal: _Message) -> Term:
    for number, type in _INTEGERS.items():
        if number in literal:
            return Term(LITERAL, 0, type, str(_to_signed(_get_number(literal, number))))
    if _STRING in literal:
        return Term(LITERAL, 0, "string", base64.b64encode(_get_bytes(literal, _STRING)).decode())
    if _DATE in literal:
        return Term(LITERAL, 0, "date", str(_to_signed(_get_number(literal, _DATE))))
    return _UNKNOWN


def _to_signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number


def _split_message(data: bytes) -> _Message:
    """Split a message of Protocol Buffers into its fields."""
    fields: dict[int, list[_Field]] = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        value: _Field
        if kind == _VARINT:
            value, at = _read_varint(data, at)
        elif kind in (_BYTES, _EIGHT_BYTES, _FOUR_BYTES):
            length, at = _read_varint(data, at) if kind == _BYTES else (8 if kind == _EIGHT_BYTES else 4, at)
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"a field of kind {kind}")
        fields.setdefault(number, []).append(value)
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _get_messages(message: _Message, number: int) -> list[bytes]:
    return [_check_bytes(value) for value in message.get(number, ())]


def _get_bytes(message: _Message, number: int) -> bytes:
    return _check_bytes(message[number][0])


def _check_bytes(value: _Field) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where a message should be")
    return value


def _get_number(message: _Message, number: int) -> int:
    """Return a number of a message; 0 if it is left out."""
    value = message.get(number, (0,))[0]
    if not isinstance(value, int):
        raise ValueError("a message where a number should be")
    return value
