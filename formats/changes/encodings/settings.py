"""Describes how values are encoded: by Debezium's modes, as table properties, and by the cell of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

from pyspark.sql.types import DataType

from pyspark_pravega.errors import UnsupportedTypeError

from ...core.arrow_types import find_arrow_type
from ...core.columns import Leaf, Misfit
from ...core.format import Settings
from ...core.spark_visitor import join_path
from ...core.times_of_day import is_time_of_day
from .. import feed
from ..placeholders import Placeholder
from .kafka_connect_schema import FieldSchema
from .matrix import Reading, Target, describe_column_type, explain_refusal, find_reading, find_target
from .semantic_types import describe_schema

BYTES, BASE64, URL_SAFE, HEX = ("bytes", "base64", "base64-url-safe", "hex")
"""The values of the property `debezium.binary`: how events encode bytes."""

MAXWELL = "maxwell"
"""The connector that always writes bytes as base64, never decimals as objects, and columns of JSON as their values."""

ASSUMED_MS = "ms?"
"""Milliseconds, assumed because nothing names another unit. A number too large for them shows that the unit differs."""

_UNITS_OF_CONNECTORS = {"mysql": ASSUMED_MS, "mariadb": ASSUMED_MS, "postgresql": "us", feed.OWN_CONNECTOR: "us"}
"""Adaptive mode gives a whole number in a unit that depends on the column's precision in the database. These are the
units of the default precision, where a database has one type with a default: DATETIME of MySQL has no fraction,
TIMESTAMP of PostgreSQL six digits. Oracle writes DATE in milliseconds and TIMESTAMP in microseconds; SQL Server, Db2
and Informix have types with other digits, too."""

_UNITS_OF_PRECISIONS = {"connect": "ms", "microseconds": "us", "nanoseconds": "ns"}
"""Units of the modes that give all timestamps one unit."""


@dataclass(frozen=True)
class Rules:
    """The encodings of one table and connector.

    `unit_by_column` and `default_unit` (one of UNITS, ASSUMED_MS, None: unknown) are the units of whole numbers in
    columns of timestamps. `decimal` is the mode of decimals ("string", "precise", "double"), `binary` that of bytes
    ("bytes", "base64", "base64-url-safe", "hex", "": unknown). `placeholder` stands for values that were not sent.
    `connector` is "" if unknown. `clock_unit` is the unit of times of day in all columns; None: it depends on the
    column. `utc_clocks`: times of day are texts that end with Z, of columns without a time zone.
    """

    unit_by_column: Mapping[str, str]
    default_unit: str | None
    decimal: str
    binary: str
    placeholder: Placeholder
    connector: str = ""
    clock_unit: str | None = None
    utc_clocks: bool = False

    @classmethod
    def of(cls, settings: Settings, connector: str = "") -> Rules:
        """Return the rules of a table for events of one connector. Raises InvalidOptionError."""
        precision = settings.get(feed.TIME_PRECISION, "")
        of_connector = _UNITS_OF_CONNECTORS.get(connector)
        if precision == "isostring" and connector != feed.OWN_CONNECTOR:
            of_connector = None
        return cls(
            feed.parse_time_units(settings),
            _UNITS_OF_PRECISIONS.get(precision, of_connector),
            settings.get(feed.DECIMAL, "string"),
            settings.get(feed.BINARY, ""),
            Placeholder.of(settings.get(feed.UNAVAILABLE_VALUE, feed.DEFAULT_UNAVAILABLE_VALUE)),
            connector,
            _UNITS_OF_PRECISIONS.get(precision, "us" if connector == feed.OWN_CONNECTOR else None),
            precision == "isostring",
        )

    def unit(self, column: str) -> str | None:
        """Return the unit of whole numbers in a column."""
        return self.unit_by_column.get(column, self.default_unit)

    def find_unit_of_times(self, column: str) -> str | None:
        """Return the unit of whole numbers that are times of day in a column."""
        return self.unit_by_column.get(column) or self.clock_unit

    def describe_unknown_unit(self, what: str) -> str:
        """Return the message about a number {} of unknown unit: it names the connector and the property to set."""
        written = f"the connector '{self.connector}' writes" if self.connector else "an event without connector has"
        return (
            "the unit of the number {} is unknown: "
            f"{written.replace('{', '{{').replace('}', '}}')} {what} in a unit that depends on the column, and the "
            "event has no schema; set the table property 'debezium.time-units', for example 'created=ms'"
        )


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
