"""Describes new columns of a table in terms of the old ones, for formats whose schema texts can be edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql.types import StructField

from .format import NO_SETTINGS, Format, Settings

REVISION = "spark.revision"
"""Tells a schema text from an earlier one of the same columns, which the registry would take for the newest no more."""


@dataclass(frozen=True)
class EditedColumn:
    """A column as it is to be.

    `source` is the column's name until now, None for a new one. `retyped`: its type is another, or it may be null now.
    """

    field: StructField
    source: str | None
    retyped: bool = False


@runtime_checkable
class EditableFormat(Format, Protocol):
    """A format that can read old events through new columns."""

    def edited_text(
        self, schema_text: str, columns: Sequence[EditedColumn], revision: int | None, settings: Settings = NO_SETTINGS
    ) -> str:
        """Return a schema text with these columns, which keeps whatever else the old one says.

        `revision` makes it differ from all earlier ones. Raises UnsupportedOperationError for what the format cannot
        do, UnsupportedTypeError and InvalidNameError naming the column that it cannot hold.
        """
        ...
