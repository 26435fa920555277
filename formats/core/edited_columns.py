"""Describes new columns of a table in terms of the old ones, for formats whose schema texts can be edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from .format import NO_SETTINGS, Format, Settings

REVISION = "spark.revision"
"""Tells a schema text from an earlier one of the same columns, which the registry would take for the newest no more."""

ELEMENT, KEY, VALUE = "element", "key", "value"
"""How the parts of arrays and maps are called in the names of fields within them, as Spark does it."""


@dataclass(frozen=True)
class EditedColumn:
    """A column as it is to be.

    `source` is the column's name until now, None for a new one. `retyped`: it is of another type, that of a single
    value. `relaxed`: it may be null now, and might not until now. `parts`: the fields of its struct, ELEMENT of its
    array or KEY and VALUE of its map, if something in it changes.
    """

    field: StructField
    source: str | None
    retyped: bool = False
    relaxed: bool = False
    parts: tuple[EditedColumn, ...] | None = None

    @property
    def changed(self) -> bool:
        """Tell whether it is a new column, or something about it changes but what is in it, its comment and place."""
        return self.source != self.field.name or self.retyped or self.relaxed


def list_parts(column: EditedColumn) -> tuple[EditedColumn, ...] | None:
    """Return what a column consists of, as its `parts`; None for one of single values."""
    if column.parts is not None:
        return column.parts
    match column.field.dataType:
        case StructType() as struct:
            fields = struct.fields
        case ArrayType() as array:
            fields = [StructField(ELEMENT, array.elementType, array.containsNull)]
        case MapType() as pairs:
            value = StructField(VALUE, pairs.valueType, pairs.valueContainsNull)
            fields = [StructField(KEY, pairs.keyType, False), value]
        case _:
            return None
    return tuple(EditedColumn(field, field.name) for field in fields)


def replace_parts(column: EditedColumn, parts: Sequence[EditedColumn]) -> EditedColumn:
    """Return a column that consists of these parts."""
    fields, old = [part.field for part in parts], column.field
    new: DataType
    match old.dataType:
        case StructType():
            new = StructType(fields)
        case ArrayType():
            new = ArrayType(fields[0].dataType, fields[0].nullable)
        case _:
            new = MapType(fields[0].dataType, fields[1].dataType, fields[1].nullable)
    return replace(column, field=StructField(old.name, new, old.nullable, old.metadata), parts=tuple(parts))


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

    def former_names(self, schema_text: str) -> Mapping[tuple[str, ...], Sequence[str]]:
        """Return the names by which columns are found in old events beside their own, by the parts of their names."""
        ...
