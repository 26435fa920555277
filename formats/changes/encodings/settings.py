"""Tells how a table's events encode times and decimals without a schema: Debezium's modes as table properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.format import Settings
from ..feed import DECIMAL, DEFAULT_UNAVAILABLE_VALUE, TIME_PRECISION, UNAVAILABLE_VALUE, time_units

ASSUMED_MS = "ms?"
"""Milliseconds, as nothing else is said: a number too large for them shows that the unit is another."""

_DEFAULT_UNITS = {"mysql": ASSUMED_MS, "mariadb": ASSUMED_MS, "sqlserver": None}
"""Adaptive mode gives a whole number in a unit that depends on the column's precision in the database. These are the
units of the default precision: DATETIME of MySQL has no fraction, TIMESTAMP of PostgreSQL, Oracle and Db2 has six
digits. SQL Server's types have no common one."""


@dataclass(frozen=True)
class Rules:
    """The encodings of one table and connector.

    `unit_by_column` and `default_unit` (one of UNITS, ASSUMED_MS, None: unknown) are of whole numbers in columns of
    timestamps. `decimal` ("string", "precise", "double") is of decimals. `placeholder` stands for values not sent.
    """

    unit_by_column: Mapping[str, str]
    default_unit: str | None
    decimal: str
    placeholder: str

    @classmethod
    def of(cls, settings: Settings, connector: str = "") -> Rules:
        """Return the rules of a table for events of one connector. Raises InvalidOptionError."""
        connect = settings.get(TIME_PRECISION) == "connect"
        return cls(
            time_units(settings),
            "ms" if connect else _DEFAULT_UNITS.get(connector, "us"),
            settings.get(DECIMAL, "string"),
            settings.get(UNAVAILABLE_VALUE, DEFAULT_UNAVAILABLE_VALUE),
        )

    def unit(self, column: str) -> str | None:
        """Return the unit of whole numbers in a column."""
        return self.unit_by_column.get(column, self.default_unit)
