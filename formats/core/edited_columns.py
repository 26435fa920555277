"""Describes new columns of a table in terms of the old ones, for formats whose schema texts can be edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from .format import NO_SETTINGS, Format, Settings, find_format
from .spark_types import list_fields, replace_fields

REVISION = "spark.revision"
"""The key of a number without which the registry would take a text for an earlier version with the same columns."""


@dataclass(frozen=True)
class EditedColumn:
    """A column as it will be.

    `source` is the column's name so far, None for a new one. `retyped`: it gets another type, of a single value.
    `relaxed`: it becomes nullable. `parts`: the fields of its struct, ELEMENT of its array or KEY and VALUE of its map,
    if one of them changes.
    """

    field: StructField
    source: str | None
    retyped: bool = False
    relaxed: bool = False
    parts: tuple[EditedColumn, ...] | None = None

    @property
    def changed(self) -> bool:
        """Return whether the column is new, renamed, retyped or relaxed. Its parts, comment and place do not matter."""
        return self.source != self.field.name or self.retyped or self.relaxed


def list_parts(column: EditedColumn) -> tuple[EditedColumn, ...] | None:
    """Return the parts that a column consists of; None for a column of single values."""
    if column.parts is not None:
        return column.parts
    if not isinstance(column.field.dataType, StructType | ArrayType | MapType):
        return None
    return tuple(EditedColumn(field, field.name) for field in list_fields(column.field.dataType))


def replace_parts(column: EditedColumn, parts: Sequence[EditedColumn]) -> EditedColumn:
    """Return a column that consists of these parts."""
    old = column.field
    new = replace_fields(old.dataType, [part.field for part in parts])
    return replace(column, field=StructField(old.name, new, old.nullable, old.metadata), parts=tuple(parts))


@runtime_checkable
class EditableFormat(Format, Protocol):
    """A format that can read old events through new columns."""

    def edited_text(
        self, schema_text: str, columns: Sequence[EditedColumn], revision: int | None, settings: Settings = NO_SETTINGS
    ) -> str:
        """Return a schema text with these columns that keeps everything else in the old text.

        `revision` makes it differ from all earlier ones. Raises UnsupportedOperationError for a change that the format
        cannot make, UnsupportedTypeError and InvalidNameError naming the column that it cannot hold.
        """
        ...

    def former_names(self, schema_text: str) -> Mapping[tuple[str, ...], Sequence[str]]:
        """Return the former names by which columns are found in old events, keyed by the parts of the present names."""
        ...


def find_editable_format(name: str) -> EditableFormat | None:
    """Return the format of this name; None if the columns of its tables cannot be changed.

    Columns of a table of changes are those of the rows in its events, which other programs define.
    """
    format = find_format(name)
    return format if isinstance(format, EditableFormat) and not format.changes else None
