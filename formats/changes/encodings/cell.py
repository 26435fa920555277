"""Describes a column to build: a cell of the matrix, with the rules of the table and the connector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

from pyspark.sql.types import DataType

from pyspark_pravega.errors import UnsupportedTypeError

from ...core.arrow_types import find_arrow_type
from ...core.columns import Leaf, Misfit
from ...core.spark_visitor import join_path
from ...core.times_of_day import is_time_of_day
from .kafka_connect_schema import FieldSchema
from .matrix import Reading, Target, describe_column_type, explain_refusal, find_reading, find_target
from .semantic_types import describe_schema
from .settings import BASE64, Rules

ONLY_NULL: frozenset[type] = frozenset((type(None),))
"""The kinds of a leaf whose values are converted one by one."""


@dataclass(frozen=True)
class Cell:
    """A column to build from values with a schema; None if their events have none.

    `declared`: the unit in `debezium.time-units` for the table's column around it. `plain`: the values come from a JSON
    text of the user, which no connector encoded.
    """

    data_type: DataType
    path: str
    schema: FieldSchema | None
    rules: Rules
    declared: str | None = None
    plain: bool = False

    @cached_property
    def target(self) -> Target:
        """Return the kind of column. Raises UnsupportedTypeError for a type that no format of changes has."""
        target = find_target(self.data_type)
        if target is None or (target is Target.TIME and not is_time_of_day(self.data_type)):
            raise UnsupportedTypeError(
                f"column '{self.path}' has type {self.data_type.simpleString()}, which no Debezium format can read"
            )
        return target

    @cached_property
    def reading(self) -> Reading | None:
        """Return how the column reads values; None if it refuses them."""
        return find_reading(self.schema, self.target)

    @property
    def raw(self) -> bool:
        """Return whether values may be bytes."""
        return self.schema is not None and self.schema.raw

    def of_text(self) -> Cell:
        """Return the same for values of a JSON text, to which no property applies."""
        rules = replace(self.rules, unit_by_column={}, default_unit=None, decimal="string", binary=BASE64)
        return replace(self, schema=None, rules=rules, declared=None, plain=True)

    def part(self, name: str, data_type: DataType, schema: FieldSchema | None) -> Cell:
        """Return the cell of a part of the values."""
        return replace(self, data_type=data_type, path=join_path(self.path, name), schema=schema)

    def describe_types(self) -> str:
        """Name the types of event and column for messages."""
        assert self.schema is not None
        return (
            f"the event's type is {describe_schema(self.schema)}, the column's {describe_column_type(self.data_type)}"
        )

    def refuse(self, sentence: str = "") -> Leaf:
        """Return a column that accepts only null; without a sentence, the reason names both types."""
        if not sentence:
            assert self.schema is not None
            sentence = explain_refusal(self.schema, self.data_type)

        def convert_one(value: Any) -> NoReturn:
            raise Misfit(sentence)

        return _Refusing(self.path, find_arrow_type(self.data_type), convert_one, kinds=ONLY_NULL)


class _Refusing(Leaf):
    """Accepts only null. The reason already names both types."""
