"""Changes a table's columns: adds a version to its schema, with which older events can still be read.

New columns of JSON events are checked here by the group's policy, because the schema registry accepts any JSON schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import DataType, StructType

from pyspark_pravega import errors
from pyspark_pravega.client.registry.registry_types import (
    Compatibility,
    SchemaInfo,
    SchemaVersion,
    is_judged_by_registry,
)
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.datasource.tables.named_columns import spell_columns
from pyspark_pravega.datasource.tables.table_settings import read_table_settings
from pyspark_pravega.formats.core.defaults import is_read_as_default
from pyspark_pravega.formats.core.edited_columns import EditableFormat, EditedColumn, find_editable_format
from pyspark_pravega.formats.core.format import Settings
from pyspark_pravega.formats.core.spark_types import list_fields
from pyspark_pravega.formats.core.spark_visitor import join_path

from ..protocol import TableChange
from ..storage import table_properties
from ..storage.catalogs import Catalog
from .column_changes import edit_columns, is_wider, list_changed_names

CHANGE_POLICY = "ALTER TABLE ... SET TBLPROPERTIES ('compatibility'='...') changes the policy"
"""What to do about a policy that does not allow a change."""

_BACKWARD = ("Backward", "BackwardTransitive", "Full", "FullTransitive")
_FORWARD = ("Forward", "ForwardTransitive", "Full", "FullTransitive")


def check_compatible(policy: Compatibility, versions: Sequence[StructType], new: StructType) -> None:
    """Raise IncompatibleSchemaError if a policy does not allow these columns after those of the earlier versions.

    A policy that is not transitive considers only the last version.
    """
    if policy.policy == "DenyAll":
        raise errors.IncompatibleSchemaError("the policy 'deny-all' of its schema group allows no change of columns")
    judged = versions if policy.policy.endswith("Transitive") else versions[-1:]
    for old in judged:
        reasons: list[str] = []
        if policy.policy in _BACKWARD:
            reasons += _find_unreadable(old, new, "events that were written before")
        if policy.policy in _FORWARD:
            reasons += _find_unreadable(new, old, "programs that know the earlier columns")
        if reasons:
            raise errors.IncompatibleSchemaError(
                f"the policy of its schema group does not allow the change: {'; '.join(reasons)}. {CHANGE_POLICY}"
            )


def _find_unreadable(written: DataType, read: DataType, who: str, path: str = "") -> Iterator[str]:
    """Yield why values of one type cannot be read as another; `path` is their column."""
    before = {field.name: field for field in list_fields(written)}
    if type(written) is not type(read) or not (before or isinstance(written, StructType)):
        if not is_wider(written, read):
            types = f"{written.simpleString()} is not read as {read.simpleString()}"
            yield f"column {path}: {types} ({who})"
        return
    for field in list_fields(read):
        here, other = join_path(path, field.name), before.get(field.name)
        if other is None:
            if not field.nullable and not is_read_as_default(field):
                yield f"column {here} is NOT NULL for one side and missing for the other ({who})"
            continue
        reasons = list(_find_unreadable(other.dataType, field.dataType, who, here))
        yield from reasons
        if not reasons and other.nullable and not field.nullable:
            yield f"column {here} may be null for one side and is NOT NULL for the other ({who})"


def change_columns(catalog: Catalog, loaded: LoadedTable, changes: Sequence[TableChange]) -> None:
    """Register a schema with the columns changed, as one new version.

    Raises UnsupportedOperationError for tables and changes that do not allow it, IncompatibleSchemaError if the policy
    of the schema group does not, and both if another program has changed the columns at the same time.
    """
    table = loaded.table
    format = find_editable_format(table.format)
    if format is None or loaded.group is None:
        where = "" if loaded.group else ", and its schema is in no schema registry"
        raise errors.UnsupportedOperationError(
            "Its columns cannot be changed: only avro and json tables with a schema in a "
            f"registry allow that. It has 'format'='{table.format}'{where}. Create another table, and INSERT INTO it."
        )
    if table.has_one_version:
        raise errors.UnsupportedOperationError(
            "Its columns cannot be changed: with 'framing'='none' its events do not say which version of the "
            "schema they were written with. Create another table, and INSERT INTO it."
        )
    edited = edit_columns(table.schema, changes)
    columns = StructType([column.field for column in edited])
    check_settings(catalog, loaded, columns)
    registry = catalog.pravega.registry(table.stream.scope)
    versions = _find_versions(registry, loaded)
    _check_names(format, versions, edited)
    if not is_judged_by_registry(loaded.group.format):
        check_compatible(
            loaded.group.compatibility, [format.spark_schema(version.schema.text) for version in versions], columns
        )
    _register(registry, loaded, format, versions, edited)


def check_settings(catalog: Catalog, loaded: LoadedTable, columns: StructType) -> None:
    """Raise InvalidOptionError if the columns lack what the table's properties name, such as its routing key."""
    settings = read_table_settings(catalog.options(properties=table_properties.list_alterable_properties(loaded)))
    try:
        settings = find_table_kind(loaded.table).check_settings(columns, settings)
        spell_columns(settings, columns)
    except errors.InvalidOptionError as error:
        raise errors.InvalidOptionError(
            f"After this change the table's properties would not fit its columns: {error.sentence.rstrip('.')}. Change "
            "the property first, with ALTER TABLE ... SET TBLPROPERTIES."
        ) from error


def _find_versions(registry: SchemaRegistry, loaded: LoadedTable) -> list[SchemaVersion]:
    """Return all versions of the table's schema, the last of which is the table's."""
    current_text = loaded.table.schema_version
    versions = registry.versions(loaded.table.stream.name)
    [current] = [version for version in versions if version.version.to_json() == current_text]
    same = [version for version in versions if version.version.type == current.version.type]
    return sorted(
        (version for version in same if version.version.id <= current.version.id),
        key=lambda version: version.version.id,
    )


def _check_names(format: EditableFormat, versions: Sequence[SchemaVersion], edited: Sequence[EditedColumn]) -> None:
    """Refuse a new name under which older events have other values: these would come back under it."""
    former = format.former_names(versions[-1].schema.text)
    for version in versions:
        if (used := _find_used_name(edited, format.spark_schema(version.schema.text), former)) is not None:
            raise errors.UnsupportedOperationError(
                f"The name {'.'.join(used)} cannot be used again: events of version {version.version.version} of the "
                "schema have other values under it, which would appear in the column. Choose another name."
            )


def _find_used_name(
    edited: Sequence[EditedColumn],
    written: DataType,
    former: Mapping[tuple[str, ...], Sequence[str]],
    path: tuple[str, ...] = (),
) -> tuple[str, ...] | None:
    """Find a column with a new name that an earlier version has already, at the top or within a column."""
    fields = {field.name: field for field in list_fields(written)}
    for column in edited:
        name = column.field.name
        if column.source != name and name in fields:
            return (*path, name)
        if column.parts is not None and column.source is not None:
            here = (*path, column.source)
            parsed_field = next(
                (fields[name] for name in (column.source, *former.get(here, ())) if name in fields), None
            )
            used = None if parsed_field is None else _find_used_name(column.parts, parsed_field.dataType, former, here)
            if used is not None:
                return used
    return None


def _register(
    registry: SchemaRegistry,
    loaded: LoadedTable,
    format: EditableFormat,
    versions: Sequence[SchemaVersion],
    edited: Sequence[EditedColumn],
) -> None:
    table, group, current = loaded.table, loaded.table.stream.name, versions[-1]
    schema = _make_edited_schema(format, current, edited, None, table.settings)
    if registry.find_version(group, schema) is not None:
        # The registry would treat it as that version, and nothing would change.
        schema = _make_edited_schema(format, current, edited, current.version.version + 1, table.settings)
    try:
        added = registry.add_schema(group, schema)
    except errors.IncompatibleSchemaError as error:
        assert loaded.group is not None
        policy = table_properties.name_policy(loaded.group.compatibility)
        changed = ", ".join(list_changed_names(edited, table.schema.fields))
        raise errors.IncompatibleSchemaError(
            f"{error.message}. The policy of its schema group is '{policy}'; the change concerns "
            f"{changed or 'the order and comments'}. {CHANGE_POLICY}"
        ) from None
    between = range(current.version.id + 1, added.id)
    if any(
        version.version.id in between and version.version.type == added.type for version in registry.versions(group)
    ):
        registry.delete_schema(group, added.id)
        raise errors.UnsupportedOperationError(
            "Another program changed its columns at the same time, so this change was undone. Look at the columns with "
            "DESCRIBE, and try again."
        )


def _make_edited_schema(
    format: EditableFormat,
    current: SchemaVersion,
    edited: Sequence[EditedColumn],
    revision: int | None,
    settings: Settings,
) -> SchemaInfo:
    text = format.edited_text(current.schema.text, edited, revision, settings)
    reason = None
    try:
        if not _is_same(format.spark_schema(text), StructType([column.field for column in edited])):
            reason = "the result would have other columns"
    except errors.InvalidSchemaError as error:
        reason = error.message
    if reason is not None:
        raise errors.UnsupportedOperationError(
            f"Its schema, which was made by another program, cannot be changed like this: {reason}."
        )
    return SchemaInfo.of_text(current.version.type, current.schema.format, text)


def _is_same(one: DataType, other: DataType) -> bool:
    """Return whether two types are the same but for comments and other metadata."""
    parts, others = list_fields(one), list_fields(other)
    if type(one) is not type(other) or not parts:
        return one == other
    return [(part.name, part.nullable) for part in parts] == [(part.name, part.nullable) for part in others] and all(
        _is_same(part.dataType, another.dataType) for part, another in zip(parts, others, strict=True)
    )
