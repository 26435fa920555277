"""Describes the aggregates that Spark asks a scan for, and decides which of them tasks can begin exactly.

Spark finishes what tasks begin: it combines partial counts, sums, least and greatest values of a group from several
tasks. It asks for AVG as a sum divided by a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyspark.sql.types as T

from ...tables.hidden_columns import map_fields_by_name

COUNT_STAR, COUNT, SUM, MIN, MAX, AVG = "CountStar", "Count", "Sum", "Min", "Max", "Avg"
"""The names of Spark's classes in `org.apache.spark.sql.connector.expressions.aggregate`."""

_WHOLE = (T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType())
_FLOATING = (T.FloatType(), T.DoubleType())
_OTHERS = (T.BooleanType(), T.DateType(), T.TimestampType(), T.TimestampNTZType(), T.StringType())
_ORDERED = (*_WHOLE, *_FLOATING, *_OTHERS)
"""Types whose least and greatest values are the same to Spark and to Arrow; for strings, if they have no collation.

NaN and -0.0 are exceptions, which tasks look for.
"""
_KEYS = (*_WHOLE, *_OTHERS, T.BinaryType())
"""Types of columns to group by. Floating-point ones are missing, as 0.0 and -0.0 are one group in Spark."""


@dataclass(frozen=True)
class AggregateFunction:
    """A function of a column. `column` has the parts of its name; none if the operand is not a column."""

    name: str
    column: tuple[str, ...]

    def __str__(self) -> str:
        inside = "*" if self.name == COUNT_STAR else ".".join(self.column)
        return f"{self.name.removesuffix('Star').lower()}({inside})"


@dataclass(frozen=True)
class Aggregation:
    """Functions of the rows of each group. `groups` are columns, as in `AggregateFunction`."""

    functions: tuple[AggregateFunction, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def only_counts_rows(self) -> bool:
        """Return whether only the number of rows is asked for."""
        return not self.groups and all(function.name == COUNT_STAR for function in self.functions)

    def __str__(self) -> str:
        functions = ", ".join(map(str, self.functions)) or "none"
        groups = ", ".join(".".join(group) for group in self.groups)
        return f"{functions} by {groups}" if groups else functions

    def operands(self, columns: T.StructType) -> T.StructType:
        """Return the columns to aggregate or group by, each once; `columns` are those that the table has for Spark.

        Raises KeyError for one that the table does not have.
        """
        fields = map_fields_by_name(columns)
        names = [*self.groups, *(function.column for function in self.functions if function.name != COUNT_STAR)]
        return T.StructType([fields[name] for (name,) in dict.fromkeys(names)])

    def begin_rows(self, columns: T.StructType) -> T.StructType:
        """Return the columns of the rows that tasks make: the groups, then the partial value of each function."""
        fields = map_fields_by_name(columns)
        groups = [T.StructField(f"group_{number}", fields[name].dataType) for number, (name,) in enumerate(self.groups)]
        begun = [
            T.StructField(f"partial_{number}", _find_partial_type(function, fields))
            for number, function in enumerate(self.functions)
        ]
        return T.StructType([*groups, *begun])


def can_begin(aggregation: Aggregation, written: Aggregation, columns: T.StructType) -> bool:
    """Return whether tasks can begin these aggregates without changing Spark's result.

    `written` is the aggregation before Spark made sums and counts of AVG. `columns` are those that the table has for
    Spark. AVG adds whole numbers as doubles, which differs from dividing their sum.
    """
    fields = map_fields_by_name(columns)
    averaged = {function.column for function in written.functions if function.name == AVG}
    return (
        bool(aggregation.groups or aggregation.functions)
        and all(_has_type(name, fields, _KEYS) for name in aggregation.groups)
        and all(
            _can_begin(function, fields)
            and (function.column not in averaged or _has_type(function.column, fields, _FLOATING))
            for function in aggregation.functions
        )
        and not _has_another_order_of_adding(aggregation, fields)
    )


def is_exact_in_any_order(aggregation: Aggregation, columns: T.StructType) -> bool:
    """Return whether the result is the same in whatever order partial values are put together, to the last bit.

    A sum of floating-point numbers is not, nor one of BIGINT, which may overflow on its way, nor which of 0.0 and -0.0
    is the least or the greatest number.
    """
    fields = map_fields_by_name(columns)
    inexact = {SUM: (*_FLOATING, T.LongType()), MIN: _FLOATING, MAX: _FLOATING}
    return not any(_has_type(each.column, fields, inexact.get(each.name, ())) for each in aggregation.functions)


def _has_another_order_of_adding(aggregation: Aggregation, fields: Mapping[str, T.StructField]) -> bool:
    """Return whether Spark may add floating-point numbers of a group in another order than that of the rows.

    It sorts the rows to find a least or greatest text, and sorting by one number is not stable.
    """
    keys = [fields[name].dataType for (name,) in aggregation.groups]
    if len(keys) != 1 or keys[0] in (T.StringType(), T.BinaryType()):
        return False
    functions = [
        (function.name, fields[function.column[0]].dataType) for function in aggregation.functions if function.column
    ]
    adds = any(name == SUM and type in _FLOATING for name, type in functions)
    return adds and any(name in (MIN, MAX) and type == T.StringType() for name, type in functions)


_OPERANDS: Mapping[str, tuple[T.DataType, ...]] = {SUM: (*_WHOLE, *_FLOATING), MIN: _ORDERED, MAX: _ORDERED}


def _can_begin(function: AggregateFunction, fields: Mapping[str, T.StructField]) -> bool:
    if function.name == COUNT:
        return len(function.column) == 1 and function.column[0] in fields
    return function.name == COUNT_STAR or _has_type(function.column, fields, _OPERANDS.get(function.name, ()))


def _has_type(column: tuple[str, ...], fields: Mapping[str, T.StructField], types: tuple[T.DataType, ...]) -> bool:
    return len(column) == 1 and column[0] in fields and fields[column[0]].dataType in types


def _find_partial_type(function: AggregateFunction, fields: Mapping[str, T.StructField]) -> T.DataType:
    if function.name in (COUNT_STAR, COUNT):
        return T.LongType()
    type = fields[function.column[0]].dataType
    if function.name == SUM:
        return T.LongType() if type in _WHOLE else T.DoubleType()
    return type
