"""Applies the changes that Spark asks for to a table's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.types import DataType, StringType, StructField, StructType, VarcharType

from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.formats.core import spark_types
from pyspark_pravega.formats.core.defaults import CURRENT_DEFAULT, add_default
from pyspark_pravega.formats.core.edited_columns import EditedColumn, list_parts, replace_parts
from pyspark_pravega.formats.core.spark_visitor import join_path
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest

from ..protocol import TableChange

COLUMN_CHANGES: Mapping[str, str] = {
    "AddColumn": "ADD COLUMN",
    "DeleteColumn": "DROP COLUMN",
    "RenameColumn": "RENAME COLUMN",
    "UpdateColumnType": "ALTER COLUMN ... TYPE",
    "UpdateColumnNullability": "ALTER COLUMN ... DROP NOT NULL",
    "UpdateColumnComment": "ALTER COLUMN ... COMMENT",
    "UpdateColumnPosition": "ALTER COLUMN ... FIRST or AFTER",
    "UpdateColumnDefaultValue": "ALTER COLUMN ... DEFAULT",
}
"""Spark's classes of changes that tables support, and the statements that ask for them."""

_OF_PARTS = ("UpdateColumnType", "UpdateColumnNullability")
"""The changes that apply to the elements of an array, or the values of a map, as a whole."""

_NUMBERS = [kind() for kind in (*spark_types.WHOLE_NUMBERS, *spark_types.FLOATING_POINT)]


def edit_columns(columns: StructType, changes: Sequence[TableChange]) -> list[EditedColumn]:
    """Return the columns after all the changes.

    Raises UnsupportedOperationError naming the column if a change would leave older events unreadable,
    InvalidOptionError for new columns that exist already and changed ones that do not.
    """
    edited = [EditedColumn(field, field.name) for field in columns]
    for change in changes:
        edited = _edit_within(edited, change, 0)
    return edited


def can_evolve(table: StreamTable, change: TableChange) -> bool:
    """Return whether an INSERT may make a change that its rows need: a new column or field, or a wider type."""
    if change.kind == "AddColumn":
        return True
    old = find_type(table, change)
    if change.kind != "UpdateColumnType" or old is None or change.field is None:
        return False
    return is_wider(old, change.field.fields[0].dataType)


def find_type(table: StreamTable, change: TableChange) -> DataType | None:
    """Return the type of the column or field that a change names, None if there is none."""
    old: DataType | None = table.schema
    for name in change.column:
        parts = () if old is None else spark_types.list_fields(old)
        old = next((part.dataType for part in parts if part.name == name), None)
    return old


def list_changed_names(edited: Sequence[EditedColumn], columns: Sequence[StructField], path: str = "") -> list[str]:
    """Return the names of columns, and of fields within them, that are new, changed or gone."""
    before, changed = {field.name: field for field in columns}, []
    for column in edited:
        here = join_path(path, column.field.name)
        if column.changed:
            changed.append(here)
        elif column.parts is not None and column.source is not None:
            changed += list_changed_names(column.parts, spark_types.list_fields(before[column.source].dataType), here)
    gone = before.keys() - {column.source for column in edited}
    return [*changed, *(join_path(path, name) for name in sorted(gone))]


def _edit_within(columns: Sequence[EditedColumn], change: TableChange, depth: int) -> list[EditedColumn]:
    """Return columns, or the parts of one, after a change; `depth` parts of its name lead to them."""
    name, *inner = change.column[depth:]
    if not inner:
        return _edit_column([*columns], change, ".".join(change.column))
    index = _find_place(columns, name)
    column = columns[index]
    parts = list_parts(column)
    if parts is None:
        raise InvalidOptionError(f"Column {'.'.join(change.column[: depth + 1])} has no fields.")
    if not isinstance(column.field.dataType, StructType):
        _check_part(change, inner)
    return [*columns[:index], replace_parts(column, _edit_within(parts, change, depth + 1)), *columns[index + 1 :]]


def _check_part(change: TableChange, names: Sequence[str]) -> None:
    """Raise UnsupportedOperationError for what cannot be changed in elements of arrays or in maps."""
    if names[0] in (spark_types.ELEMENT, spark_types.VALUE) and (len(names) > 1 or change.kind in _OF_PARTS):
        return
    raise UnsupportedOperationError(
        f"{COLUMN_CHANGES[change.kind]} is not possible for {'.'.join(change.column)}. The elements of an array and "
        "the values of a map can get a wider type, lose NOT NULL, and have their fields changed; the keys of a map "
        "cannot be changed."
    )


def _edit_column(columns: list[EditedColumn], change: TableChange, path: str) -> list[EditedColumn]:
    """Return the columns with one changed or added; `path` is its full name, for messages."""
    name = change.column[-1]
    if change.kind == "AddColumn":
        assert change.field is not None
        _check_free(name, columns)
        (field,) = change.field
        if change.property == "default":
            field = add_default(field, str(change.value), change.initial)
        if not field.nullable and change.initial is None:
            raise UnsupportedOperationError(
                f"Column {path} cannot be added as NOT NULL: events that were written before have no value for it. "
                "Leave NOT NULL out, or give it a DEFAULT."
            )
        return _put_column(columns, EditedColumn(field, None), change.after)
    index = _find_place(columns, name)
    column, others = columns[index], columns[:index] + columns[index + 1 :]
    match change.kind:
        case "DeleteColumn":
            if not others:
                advice = "REPLACE COLUMNS drops all columns first. Use ADD, DROP and RENAME COLUMN."
                if len(change.column) > 1:
                    advice = f"A struct needs a field. Drop {'.'.join(change.column[:-1])}."
                raise UnsupportedOperationError(
                    f"Column {path} cannot be dropped, because no column would be left. {advice}"
                )
            return others
        case "UpdateColumnPosition":
            return _put_column(others, column, change.after)
        case "RenameColumn":
            _check_free(str(change.value), others)
            column = replace(column, field=_change_field(column.field, name=change.value))
        case "UpdateColumnComment":
            metadata = {key: value for key, value in (column.field.metadata or {}).items() if key != "comment"}
            comment = {"comment": change.value} if change.value else {}
            column = replace(column, field=_change_field(column.field, metadata=metadata | comment))
        case "UpdateColumnDefaultValue":
            metadata = {key: value for key, value in (column.field.metadata or {}).items() if key != CURRENT_DEFAULT}
            field = _change_field(column.field, metadata=metadata)
            column = replace(column, field=add_default(field, change.value, None) if change.value else field)
        case "UpdateColumnNullability":
            if change.value != "true":
                raise UnsupportedOperationError(
                    f"Column {path} cannot become NOT NULL: events that were written before may have no value for it."
                )
            relaxed = column.relaxed or not column.field.nullable
            column = replace(column, field=_change_field(column.field, nullable=True), relaxed=relaxed)
        case _:
            assert change.field is not None
            new_type = change.field.fields[0].dataType
            if new_type != column.field.dataType:
                _check_wider(path, column.field.dataType, new_type)
                column = replace(column, field=_change_field(column.field, dataType=new_type), retyped=True)
    return [*columns[:index], column, *columns[index + 1 :]]


def _change_field(field: StructField, **new: Any) -> StructField:
    return StructField(**(vars(field) | new))


def _find_place(columns: Sequence[EditedColumn], name: str) -> int:
    for index, column in enumerate(columns):
        if column.field.name == name:
            return index
    names = [column.field.name for column in columns]
    hint = ask_did_you_mean(find_nearest(name, names))
    raise InvalidOptionError(f"There is no column {name}.{hint} Its columns are {', '.join(names)}.")


def _put_column(columns: list[EditedColumn], column: EditedColumn, after: str | None) -> list[EditedColumn]:
    if after is None:
        return [*columns, column]
    index = _find_place(columns, after) + 1 if after else 0
    return [*columns[:index], column, *columns[index:]]


def _check_free(name: str, columns: Sequence[EditedColumn]) -> None:
    for column in columns:
        if column.field.name.lower() == name.lower():
            raise InvalidOptionError(f"There is a column {column.field.name} already. Choose a name other than {name}.")


def _check_wider(name: str, old: DataType, new: DataType) -> None:
    if not is_wider(old, new):
        widths = ", ".join(
            f"{one.simpleString()} to {' or '.join(_list_wider_types(one))}"
            for one in _NUMBERS
            if _list_wider_types(one)
        )
        raise UnsupportedOperationError(
            f"Column {name} cannot be changed from {old.simpleString()} to {new.simpleString()}, because events that "
            f"were written before could not be read. Allowed are {widths}; varchar to a longer varchar or to string. "
            "Add a column of the other type, or create another table and INSERT INTO it."
        )


def _list_wider_types(number: DataType) -> list[str]:
    return [
        wider.simpleString() for wider in _NUMBERS if wider != number and spark_types.can_hold_number(wider, number)
    ]


def is_wider(old: DataType, new: DataType) -> bool:
    """Return whether every value of a type keeps its value in another type, however it was encoded."""
    if old == new:
        return True
    if isinstance(old, VarcharType):
        return new == StringType() or (isinstance(new, VarcharType) and new.length >= old.length)
    return spark_types.can_hold_number(new, old)
