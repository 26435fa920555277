"""Describes the key columns of a key-value table, and how many bytes each has in a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KeyColumn:
    """A column, its type as Spark's DESCRIBE spells it, and the number of its bytes in a key."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class KeyColumns:
    """The columns of the primary key, whose hash decides the partition, and those of the secondary key after it."""

    primary: tuple[KeyColumn, ...]
    secondary: tuple[KeyColumn, ...] = ()

    @property
    def all(self) -> tuple[KeyColumn, ...]:
        """Return the columns in the order of their bytes."""
        return self.primary + self.secondary

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in the order of their bytes."""
        return [column.name for column in self.all]

    @property
    def primary_length(self) -> int:
        """Return the bytes of a primary key."""
        return sum(column.bytes for column in self.primary)

    @property
    def secondary_length(self) -> int:
        """Return the bytes of a secondary key, 0 if the table has none."""
        return sum(column.bytes for column in self.secondary)

    @property
    def length(self) -> int:
        """Return the bytes of a key."""
        return self.primary_length + self.secondary_length

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object from which `from_json` makes equal ones."""
        return {
            name: [[column.name, column.type, column.bytes] for column in columns]
            for name, columns in (("primary", self.primary), ("secondary", self.secondary))
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeyColumns:
        """Make the columns that `to_json` described."""
        return cls(_columns(value["primary"]), _columns(value["secondary"]))


def _columns(values: Sequence[Sequence[Any]]) -> tuple[KeyColumn, ...]:
    return tuple(KeyColumn(name, type, length) for name, type, length in values)
