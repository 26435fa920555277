"""Evaluates conditions of a query on Arrow columns, exactly as Spark does, and instead of Spark.

What cannot be evaluated exactly is left to Spark. Exactly means: null where Spark has null; NaN equals itself and is
greater than all other numbers; 0.0 and -0.0 are equal; and texts have the order of their UTF-8 bytes.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

T = TypeVar("T")
COLUMN, LITERAL = "COLUMN", "LITERAL"

_INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_FLOATS = {"float": pa.float32(), "double": pa.float64()}
_TIMES = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
"""Days and microseconds since 1970, in Spark's literals as in Arrow's memory."""
_STRING, _BINARY, _BOOLEAN = "string", "binary", "boolean"
WHOLE_TYPES = (*_INTEGERS, *_TIMES)
"""The types whose literals are whole numbers."""
_OF_LITERALS = {**_INTEGERS, **_FLOATS, **_TIMES, _STRING: pa.string(), _BINARY: pa.binary(), _BOOLEAN: pa.bool_()}


@dataclass(frozen=True)
class Term:
    """A part of a condition, which applies to the last `children` parts before it.

    `name` is that of one of Spark's predicates, functions or kinds of expression, COLUMN or LITERAL. The `value` of a
    column is its name; that of a literal is written as in Java, texts and bytes as base64. Literals have a `type` as
    Spark's DESCRIBE spells it.
    """

    name: str
    children: int
    type: str | None
    value: str | None

    def parse(self) -> Any:
        """Return the value of a literal; None if it is null, or of a type whose values are not compared.

        Raises ValueError for bytes that are not a text, such as those of a cast.
        """
        if self.value is None or self.type is None:
            return None
        if self.type in WHOLE_TYPES:
            return int(self.value)
        if self.type in _FLOATS:
            return float(self.value)
        if self.type == _BOOLEAN:
            return {"true": True, "false": False}.get(self.value)
        if self.type in (_BINARY, _STRING):
            data = base64.b64decode(self.value, validate=True)
            return data.decode() if self.type == _STRING else data
        return Decimal(self.value) if self.type.startswith("decimal(") else None


@dataclass(frozen=True)
class Condition:
    """A condition that all rows of a query fulfil, as terms: each one follows its children."""

    terms: tuple[Term, ...]

    @property
    def columns(self) -> list[str]:
        """Return the names of its columns, each once."""
        return list(dict.fromkeys(term.value for term in self.terms if term.name == COLUMN and term.value is not None))

    def fold(self, make: Callable[[Term, list[T]], T]) -> T:
        """Return what `make` makes of the whole: it takes each term with what it has made of the term's children.

        Raises ValueError for terms that are not one condition.
        """
        stack: list[T] = []
        for term in self.terms:
            split = len(stack) - term.children
            if not 0 <= split <= len(stack):
                raise ValueError(f"{term.name} has {term.children} operands, but there are {len(stack)}")
            stack[split:] = [make(term, stack[split:])]
        [whole] = stack
        return whole

    def __str__(self) -> str:
        """Return the condition for EXPLAIN, without values, which may be long."""
        return self.fold(_describe)


def _describe(term: Term, children: list[str]) -> str:
    name = term.name.replace("_", " ")
    if term.name == COLUMN:
        return f"{term.value}"
    if term.name == LITERAL:
        return "?"
    if term.name == "IN":
        return f"{children[0]} IN ({len(children) - 1} values)"
    return f"({children[0]} {name} {children[1]})" if len(children) == 2 else f"{name} {', '.join(children)}".strip()


Columns: TypeAlias = Mapping[str, pa.Array]
Rows: TypeAlias = Callable[[Columns], Any]
"""Computes an array from columns, or a scalar from literals."""


class _CannotEvaluateError(ValueError):
    """The condition cannot be evaluated exactly here."""


@dataclass
class _Value:
    """A column or a literal: its type as Spark spells it ("" for one that is not compared), and its function."""

    type: str
    rows: Rows
    literal: Any = None
    """The value of a literal; None for a column."""


@dataclass(frozen=True)
class _Truth:
    """A function whose value is true, false or null in each row."""

    rows: Rows


def can_evaluate(conditions: Sequence[Condition], schema: StructType) -> list[bool]:
    """Return for each condition whether it can be evaluated on columns of this schema.

    A condition after one that may fail cannot: Spark evaluates them in order, and if the later one dropped rows first,
    the other one would not fail.
    """
    evaluable, may_fail = [], False
    for condition in conditions:
        is_compilable = _can_compile(condition, schema)
        evaluable.append(is_compilable and not may_fail)
        may_fail = may_fail or not (is_compilable or all(term.name in _NEVER_FAIL for term in condition.terms))
    return evaluable


def _can_compile(condition: Condition, schema: StructType) -> bool:
    try:
        _compile(condition, schema)
    except ValueError:
        return False
    return True


class Sieve:
    """Finds the rows of batches that fulfil all conditions, each of which `can_evaluate` accepts."""

    def __init__(self, conditions: Sequence[Condition], schema: StructType) -> None:
        self._conditions = [_compile(condition, schema) for condition in conditions]

    def mask(self, columns: Columns) -> pa.BooleanArray:
        """Return which rows are kept: a truth for each, never null."""
        masks = [condition(columns) for condition in self._conditions]
        return pc.fill_null(reduce(pc.and_kleene, masks), False)


def _compile(condition: Condition, schema: StructType) -> Rows:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    truth: _Value | _Truth = condition.fold(lambda term, children: _compile_term(term, children, types))
    if not isinstance(truth, _Truth):
        raise _CannotEvaluateError
    return truth.rows


def _compile_term(term: Term, children: Sequence[_Value | _Truth], types: Mapping[str, str]) -> _Value | _Truth:
    if term.name == COLUMN:
        return _make_column(term.value, types)
    if term.name == LITERAL:
        return _make_literal(term)
    if term.name in _CONNECTIVES:
        count, connected = _CONNECTIVES[term.name]
        truths = [child.rows for child in children if isinstance(child, _Truth)]
        if len(truths) != len(children) or len(truths) != count:
            raise _CannotEvaluateError
        return _Truth(lambda columns: connected(*(truth(columns) for truth in truths)))
    values = [child for child in children if isinstance(child, _Value)]
    if len(values) != len(children) or not values or all(value.literal is not None for value in values):
        raise _CannotEvaluateError
    if term.name in ("IS_NULL", "IS_NOT_NULL") and len(values) == 1:
        test = pc.is_null if term.name == "IS_NULL" else pc.is_valid
        return _Truth(lambda columns: test(values[0].rows(columns)))
    if len({value.type for value in values}) > 1 or not values[0].type:
        raise _CannotEvaluateError
    if term.name == "IN":
        return _compile_in(values)
    if len(values) != 2:
        raise _CannotEvaluateError
    return _compile_comparison(term.name, *values)


_CONNECTIVES: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "AND": (2, pc.and_kleene),
    "OR": (2, pc.or_kleene),
    "NOT": (1, pc.invert),
}


def _make_column(name: str | None, types: Mapping[str, str]) -> _Value:
    if name is None or name not in types:
        raise _CannotEvaluateError
    kind = types[name]
    if kind in _TIMES:
        number = _TIMES[kind]
        return _Value(kind, lambda columns: columns[name].view(number))
    is_supported = kind in _INTEGERS or kind in _FLOATS or kind in (_STRING, _BINARY, _BOOLEAN)
    return _Value(kind if is_supported else "", lambda columns: columns[name])


def _make_literal(term: Term) -> _Value:
    kind, value = term.type or "", term.parse()
    if value is None or kind not in _OF_LITERALS:
        raise _CannotEvaluateError
    return _Value(kind, lambda columns: pa.scalar(value, _OF_LITERALS[kind]), value)


def _compile_comparison(name: str, left: _Value, right: _Value) -> _Truth:
    if name in _OF_TEXTS:
        if left.type != _STRING or left.literal is not None or right.literal is None:
            raise _CannotEvaluateError
        return _Truth(lambda columns: _OF_TEXTS[name](left.rows(columns), pattern=right.literal))
    ordered = _ORDERS.get(name)
    if ordered is None or (left.type == _BOOLEAN and name not in ("=", "<>", "<=>")):
        raise _CannotEvaluateError
    floats = left.type in _FLOATS
    return _Truth(lambda columns: ordered(left.rows(columns), right.rows(columns), floats))


_OF_TEXTS: Mapping[str, Callable[..., Any]] = {
    "STARTS_WITH": pc.starts_with,
    "ENDS_WITH": pc.ends_with,
    "CONTAINS": pc.match_substring,
}


def _compare_equal(left: Any, right: Any, floats: bool) -> Any:
    equal = pc.equal(left, right)
    return pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right))) if floats else equal


def _compare_less(left: Any, right: Any, floats: bool) -> Any:
    less = pc.less(left, right)
    if not floats:
        return less
    return pc.or_kleene(less, pc.and_kleene(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _compare_equal_or_null(left: Any, right: Any, floats: bool) -> Any:
    same = pc.fill_null(_compare_equal(left, right, floats), False)
    return pc.or_kleene(same, pc.and_kleene(pc.is_null(left), pc.is_null(right)))


_ORDERS: Mapping[str, Callable[[Any, Any, bool], Any]] = {
    "=": _compare_equal,
    "<=>": _compare_equal_or_null,
    "<>": lambda left, right, floats: pc.invert(_compare_equal(left, right, floats)),
    "<": _compare_less,
    "<=": lambda left, right, floats: pc.invert(_compare_less(right, left, floats)),
    ">": lambda left, right, floats: _compare_less(right, left, floats),
    ">=": lambda left, right, floats: pc.invert(_compare_less(left, right, floats)),
}


def _compile_in(values: Sequence[_Value]) -> _Truth:
    operand, *others = values
    numbers, floats = [one.literal for one in others], operand.type in _FLOATS
    if operand.literal is not None or not numbers or None in numbers or operand.type == _BOOLEAN:
        raise _CannotEvaluateError
    nan = floats and any(math.isnan(number) for number in numbers)
    if floats:  # -0.0 and 0.0 have different hashes, but become equal by adding 0.0
        numbers = [number + 0.0 for number in numbers if not math.isnan(number)]
    literals = pa.array(numbers, _OF_LITERALS[operand.type])

    def find_equal(columns: Columns) -> Any:
        column = operand.rows(columns)
        equal = pc.is_in(pc.add(column, pa.scalar(0.0, column.type)) if floats else column, literals)
        truth = pc.or_(equal, pc.is_nan(column)) if nan else equal
        return pc.if_else(pc.is_valid(column), truth, pa.scalar(None, pa.bool_()))

    return _Truth(find_equal)


_NEVER_FAIL = {
    *(COLUMN, LITERAL, "IN", "IS_NULL", "IS_NOT_NULL", "ALWAYS_TRUE", "ALWAYS_FALSE", "FieldReference", "Extract"),
    *("UPPER", "LOWER", "SUBSTRING", "TRIM", "LTRIM", "RTRIM", "CONCAT", "CHAR_LENGTH", "COALESCE", "CASE_WHEN"),
    *_CONNECTIVES,
    *_OF_TEXTS,
    *_ORDERS,
}
"""Terms that are never an error, whatever their operands are, even in ANSI mode."""
