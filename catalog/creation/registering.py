"""The schema of a new table in the schema registry: in its own group, or in one that others have made."""

from __future__ import annotations

from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.registry.types import GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.stream_table import REGISTRY_CODECS
from pyspark_pravega.errors import IncompatibleSchemaError, InvalidOptionError, SchemaExistsError
from pyspark_pravega.formats.core.format import find_format, find_registry_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import TableSettings

from ..storage import table_properties
from ..storage.connections import Catalog
from ..storage.dropping import Undo
from .declaration import Declaration


def register(catalog: Catalog, declared: Declaration, undo: list[Undo], *, begun: bool = False) -> None:
    """Register the schema of a new table; append to `undo` what takes that back.

    `begun`: a CREATE TABLE that was interrupted may have made the group, whose policy is not yet the one asked for.
    Raises IncompatibleSchemaError or InvalidOptionError when others have a group for the stream that it does not fit.
    """
    catalog.options().require(o.SCHEMA_REGISTRY_URI)
    stream, settings, format, text = declared.stream, declared.settings, declared.format, declared.schema_text
    registry = catalog.pravega.registry(stream.scope)
    wanted = format.registry_format
    assert wanted is not None
    try:
        registry.create_group(stream.name, GroupProperties(wanted, table_properties.choose_creation_policy(settings)))
        undo.append(lambda: registry.delete_group(stream.name))
        if (policy := table_properties.choose_later_policy(settings)) is not None:
            registry.set_compatibility(stream.name, policy)
    except SchemaExistsError:
        # An application may have made the group before its first event: it is joined, under its own rules.
        _check_format(registry.group(stream.name).format, settings)
        _check_type(registry, stream, format.type_name(text))
        if begun and not registry.latest_schemas(stream.name):
            registry.set_compatibility(stream.name, table_properties.get_policy(settings))
    if settings.codec != "none":
        registry.add_codec(stream.name, REGISTRY_CODECS[settings.codec])
    schema = SchemaInfo.of_text(format.type_name(text), wanted, text)
    known = registry.find_version(stream.name, schema)
    try:
        added = registry.add_schema(stream.name, schema)
        if known is None:
            undo.append(lambda: registry.delete_schema(stream.name, added.id))
    except IncompatibleSchemaError as error:
        rule = table_properties.name_policy(registry.group(stream.name).compatibility)
        newest = [format.spark_schema(one.schema.text).simpleString() for one in registry.latest_schemas(stream.name)]
        raise IncompatibleSchemaError(
            f"{error.message}. The group existed before this table, with the policy '{rule}' and the newest "
            f"schema {', '.join(newest) or 'none'}. Declare columns that fit, or choose another table name."
        ) from None


def _check_type(registry: SchemaRegistry, stream: Stream, wanted: str) -> None:
    """Raise InvalidOptionError if a group holds another type: with a second one its stream would not be a table."""
    others = sorted(one.version.type for one in registry.latest_schemas(stream.name) if one.version.type != wanted)
    if others:
        raise InvalidOptionError(
            f"The schema registry has a group for this stream, made by others, with the type {', '.join(others)}, but "
            f"the table's type would be {wanted}. Choose another table name, or let the application create the "
            "stream, which is then a table without CREATE TABLE."
        )


def _check_format(found: str, settings: TableSettings) -> None:
    """Raise InvalidOptionError unless a group's format is that of the table."""
    if found == find_format(settings.format).registry_format:
        return
    advice = "Choose another table name, or 'format'='raw' to read and write bytes."
    if found in ("Avro", "Json"):  # of the others no schema can be made from columns
        advice = f"Set 'format'='{find_registry_format(found).name}'."
    raise InvalidOptionError(
        f"'format'='{settings.format}' does not fit: the schema registry has a group of {found} schemas for this "
        f"stream. {advice}"
    )
