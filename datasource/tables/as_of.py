"""The position up to which a query with `VERSION AS OF` or `TIMESTAMP AS OF` reads a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AsOf:
    """`asked` are the words of the query, `cut` is the text of the stream cut that they stand for."""

    asked: str
    cut: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object from which `from_json` makes an equal one."""
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AsOf:
        """Make the one that `to_json` described."""
        return cls(**value)
