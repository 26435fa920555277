"""Gives a table other columns: a new version of its schema, by which events written before are read too."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.registry.types import SchemaInfo, SchemaVersion
from pyspark_pravega.datasource.kinds.dispatch import kind_with_format
from pyspark_pravega.datasource.tables.declared import declared_settings
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.datasource.tables.named_columns import with_columns
from pyspark_pravega.datasource.tables.stream_table import Kind
from pyspark_pravega.errors import IncompatibleSchemaError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.edited_columns import EditableFormat, EditedColumn
from pyspark_pravega.formats.core.format import Format, Settings, find_format

from .. import table_properties
from ..connections import Catalog
from ..requests import TableChange
from .columns import edited_columns
from .compatibility import CHANGE_POLICY, check_compatible


def change_columns(catalog: Catalog, loaded: LoadedTable, changes: Sequence[TableChange]) -> None:
    """Register a schema with the columns changed, as one new version.

    Raises UnsupportedOperationError for tables and changes that cannot be, IncompatibleSchemaError for what the policy
    of the schema group does not allow, and both if another program has changed the columns at the same time.
    """
    table = loaded.table
    format = find_format(table.format)
    if table.kind is not Kind.EVENTS or not isinstance(format, EditableFormat) or loaded.group is None:
        where = "" if loaded.group else ", whose schema is in no schema registry"
        raise UnsupportedOperationError(
            f"Its columns cannot be changed: it is a table of 'format'='{table.format}'{where}. Columns of avro and "
            "json tables with a schema in a registry can be. Create another table, and INSERT INTO it."
        )
    if table.format == "avro" and not table.framed:
        raise UnsupportedOperationError(
            "Its columns cannot be changed: with 'framing'='none' its events do not tell by which version of the "
            "schema they were written. Create another table, and INSERT INTO it."
        )
    edited = edited_columns(table.schema, changes)
    columns = StructType([each.field for each in edited])
    settings = declared_settings(catalog.options(properties=table_properties.before_change(loaded)))
    settings = kind_with_format(table.format).check_settings(columns, settings)
    with_columns(settings, columns)
    registry = catalog.pravega.registry(table.stream.scope)
    versions = _versions(registry, loaded)
    _check_names(format, versions, edited)
    if table.format == "json":
        check_compatible(
            loaded.group.compatibility, [format.spark_schema(each.schema.text) for each in versions], columns
        )
    _register(registry, loaded, format, versions, edited)


def _versions(registry: SchemaRegistry, loaded: LoadedTable) -> list[SchemaVersion]:
    """Return all versions of the table's schema, the last of which is the table's."""
    known = loaded.table.schema_version
    found = registry.versions(loaded.table.stream.name)
    [current] = [each for each in found if each.version.to_json() == known]
    same = [each for each in found if each.version.type == current.version.type]
    return sorted((each for each in same if each.version.id <= current.version.id), key=lambda each: each.version.id)


def _check_names(format: Format, versions: Sequence[SchemaVersion], edited: Sequence[EditedColumn]) -> None:
    """Refuse a new name that older events have for something else: their values would come back under it."""
    new = {each.field.name for each in edited if each.source != each.field.name}
    for each in versions:
        if used := sorted(new & set(format.spark_schema(each.schema.text).fieldNames())):
            raise UnsupportedOperationError(
                f"Column {used[0]} cannot be there again: events of version {each.version.version} of the schema have "
                "other values of this name, which would be read as the new column's. Choose another name."
            )


def _register(
    registry: SchemaRegistry,
    loaded: LoadedTable,
    format: EditableFormat,
    versions: Sequence[SchemaVersion],
    edited: Sequence[EditedColumn],
) -> None:
    table, group, current = loaded.table, loaded.table.stream.name, versions[-1]
    schema = _edited(format, current, edited, None, table.settings)
    if registry.find_version(group, schema) is not None:
        # The registry would take it for that version, and the table would stay as it is.
        schema = _edited(format, current, edited, current.version.version + 1, table.settings)
    try:
        added = registry.add_schema(group, schema)
    except IncompatibleSchemaError as error:
        assert loaded.group is not None
        policy = table_properties.policy_name(loaded.group.compatibility)
        changed = ", ".join(each.field.name for each in edited if each.source != each.field.name or each.retyped)
        gone = {field.name for field in table.schema} - {each.source for each in edited}
        raise IncompatibleSchemaError(
            f"{error.message}. The policy of its schema group is '{policy}'; changed are "
            f"{', '.join(filter(None, [changed, *sorted(gone)])) or 'the order and comments'}. {CHANGE_POLICY}"
        ) from None
    between = range(current.version.id + 1, added.id)
    if any(each.version.id in between and each.version.type == added.type for each in registry.versions(group)):
        registry.delete_schema(group, added.id)
        raise UnsupportedOperationError(
            "Its columns were changed by another program at the same time, and this change was taken back. Look at the "
            "columns by DESCRIBE, and try again."
        )


def _edited(
    format: EditableFormat,
    current: SchemaVersion,
    edited: Sequence[EditedColumn],
    revision: int | None,
    settings: Settings,
) -> SchemaInfo:
    text = format.edited_text(current.schema.text, edited, revision, settings)
    wanted = [(each.field.name, each.field.dataType, each.field.nullable) for each in edited]
    try:
        found = [(field.name, field.dataType, field.nullable) for field in format.spark_schema(text)]
    except InvalidSchemaError as error:
        found, reason = [], error.message
    else:
        reason = "other columns come of it"
    if found != wanted:
        raise UnsupportedOperationError(f"Its schema, made by another program, cannot be changed so: {reason}.")
    return SchemaInfo.of_text(current.version.type, current.schema.format, text)
