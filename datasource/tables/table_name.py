"""The names of tables: of a stream, or of a part of one."""

from __future__ import annotations

from dataclasses import dataclass

_SIGN = "$"
"""Between the name of a stream and that of a part. Pravega's own names never have it."""

CHANGELOG = "changelog"
"""The part that has each event of a table of changes as a row."""
KEY_VALUE_TABLE = "kvtable"
"""The suffix that names a key-value table, if a stream has the same name."""


@dataclass(frozen=True)
class TableName:
    """The name of a table in its scope: `stream`, or `stream$part` for a changelog or the events of one type."""

    stream: str
    part: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read a name as statements give it. The part is empty in a name that ends with the sign."""
        stream, sign, part = text.partition(_SIGN)
        return cls(stream, part if sign else None)

    @property
    def is_key_value_table(self) -> bool:
        """Return whether the name says that a key-value table is meant."""
        return self.part == KEY_VALUE_TABLE

    @property
    def is_changelog(self) -> bool:
        """Return whether this names a changelog."""
        return self.part == CHANGELOG

    def __str__(self) -> str:
        return self.stream if self.part is None else f"{self.stream}{_SIGN}{self.part}"
