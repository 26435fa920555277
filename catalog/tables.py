"""Streams as tables: list, load, create, adopt, drop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
)

from pyspark_pravega.catalog import table_properties
from pyspark_pravega.catalog.connections import Catalog
from pyspark_pravega.catalog.namespaces import scope_of
from pyspark_pravega.client.schema_registry_types import GroupProperties, SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.scan import METADATA_COLUMNS
from pyspark_pravega.datasource.stream_table import RAW_SCHEMA, REGISTRY_CODECS
from pyspark_pravega.datasource.table_loading import LoadedTable, load_table, tags_for
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    PravegaError,
    SchemaExistsError,
    SchemaNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.formats.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream, is_internal, quote_all
from pyspark_pravega.sql.table_settings import TableSettings, table_settings

LOG = logging.getLogger(__name__)
_KEY_TYPES = (StringType, IntegralType, BooleanType, DateType, DecimalType)


def stream_of(namespace: Sequence[str], name: str) -> Stream:
    """Return the stream of a table identifier."""
    return Stream(scope_of(namespace), name)


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the streams of a scope, with or without a schema; Pravega's internal ones are hidden."""
    names = catalog.pravega.controller.list_streams(scope_of(namespace))
    return sorted(name for name in names if not is_internal(name))


def describe(catalog: Catalog, stream: Stream, loaded: LoadedTable) -> dict[str, Any]:
    """Return what the adapter shows of a table and hands back when it is scanned or written."""
    names = set(loaded.table.schema.fieldNames())
    return {
        "name": quote_all((catalog.name, stream.scope, stream.name)),
        "schema": loaded.table.schema.json(),
        "properties": table_properties.shown(loaded),
        "metadata_columns": [
            {"name": field.name, "type": field.dataType.jsonValue(), "comment": comment}
            for field, comment in METADATA_COLUMNS.values()
            if field.name not in names
        ],
        "table": loaded.table.to_json(),
    }


def load(catalog: Catalog, namespace: Sequence[str], name: str) -> dict[str, Any]:
    """Describe a table. Raises StreamNotFoundError and the errors of `load_table`."""
    stream = stream_of(namespace, name)
    if is_internal(name):
        raise StreamNotFoundError(f"The stream {quote_all((*namespace, name))} is internal to Pravega.")
    return describe(catalog, stream, load_table(catalog.pravega, stream))


def exists(catalog: Catalog, namespace: Sequence[str], name: str, creating: bool) -> bool:
    """Tell whether a table exists. To CREATE TABLE a stream without a schema does not: it can be adopted."""
    if len(namespace) != 1 or is_internal(name):
        return False
    stream = stream_of(namespace, name)
    if not catalog.pravega.controller.stream_exists(stream):
        return False
    return not (creating and _adoptable(load_table(catalog.pravega, stream)))


def _adoptable(loaded: LoadedTable) -> bool:
    return loaded.table.format == "raw" and loaded.stored.get("format") != "raw"


def create(
    catalog: Catalog,
    namespace: Sequence[str],
    name: str,
    schema: StructType,
    partitions: Sequence[str],
    properties: Mapping[str, str],
    adopt: bool,
) -> dict[str, Any]:
    """Create a table as one unit: the stream, its schema group and its schema, or nothing.

    With `adopt` a stream that exists without a schema gets one and keeps its events and settings. Raises
    StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the
    column, IncompatibleSchemaError when a schema group of that name exists and refuses the schema.
    """
    stream = stream_of(namespace, name)
    shown = quote_all((*namespace, name))
    table_properties.check_reserved(shown, properties)
    if partitions:
        raise UnsupportedOperationError(
            f"PARTITIONED BY ({', '.join(partitions)}) is not possible on {shown}: a stream has a routing "
            "key instead. Set the table property 'routing-key'."
        )
    options = catalog.options(properties=properties)
    settings = table_settings(options)
    _check_columns(shown, schema, settings)
    comment = properties.get("comment")
    text = None
    if settings.format != "raw":
        text = find_format(settings.format).schema_text(schema, name, stream.scope, comment)
    found = _existing(catalog, stream) if adopt or catalog.pravega.controller.stream_exists(stream) else None
    if found is not None and not (adopt and _adoptable(found)):
        raise StreamExistsError(f"The stream {shown} exists and has a schema.")
    kept = table_properties.stored(settings, comment)
    with _undo_on_failure() as undo:
        if found is None:
            check_new_stream(name)
            catalog.pravega.controller.create_stream(stream, table_properties.stream_configuration(settings, kept))
            undo.append(lambda: _delete_stream(catalog, stream))
        else:
            table_properties.check_adoption(shown, options)
            _set_tags(catalog, stream, found, kept)
            undo.append(lambda: catalog.pravega.controller.update_stream(stream, found.configuration))
        if text is not None:
            _register(catalog, stream, settings, text, undo)
        return describe(catalog, stream, load_table(catalog.pravega, stream))


def _existing(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    try:
        return load_table(catalog.pravega, stream)
    except StreamNotFoundError:
        return None


def _check_columns(shown: str, schema: StructType, settings: TableSettings) -> None:
    names = schema.fieldNames()
    if settings.format == "raw":
        if names and [(field.name, field.dataType) for field in schema] != [
            (field.name, field.dataType) for field in RAW_SCHEMA
        ]:
            raise UnsupportedTypeError(
                f"A table of 'format'='raw' has the one column `event BINARY`, but {shown} declares "
                f"{', '.join(names)}. Declare no columns, or choose 'format'='avro' or 'json'."
            )
    elif not names:
        raise UnsupportedTypeError(f"The table {shown} has no columns. Declare them, or set 'format'='raw'.")
    for name in names:
        if name in METADATA_COLUMNS:
            raise InvalidNameError(
                f"The column name {name} of {shown} is that of a hidden column which every table has. Rename it."
            )
    key = settings.routing_key
    if key is None:
        return
    columns = RAW_SCHEMA if settings.format == "raw" else schema
    if key not in columns.fieldNames():
        raise InvalidOptionError(
            f"'routing-key'='{key}' is no column of {shown}; columns are {', '.join(columns.fieldNames())}."
        )
    _check_key_type(key, columns[key].dataType)


def _check_key_type(key: str, data_type: DataType) -> None:
    if not isinstance(data_type, _KEY_TYPES):
        raise UnsupportedTypeError(
            f"'routing-key'='{key}' is a column of type {data_type.simpleString()}, which has no one text. Allowed "
            "are strings, whole numbers, decimals, booleans and dates."
        )


def _set_tags(catalog: Catalog, stream: Stream, found: LoadedTable, kept: Mapping[str, str]) -> None:
    tags = tags_for(kept, found.configuration.tags)
    if tags != tuple(found.configuration.tags):
        catalog.pravega.controller.update_stream(stream, replace(found.configuration, tags=tags))


def _register(
    catalog: Catalog, stream: Stream, settings: TableSettings, text: str, undo: list[Callable[[], None]]
) -> None:
    catalog.options().require(o.SCHEMA_REGISTRY_URI)
    registry = catalog.pravega.registry(stream.scope)
    format = find_format(settings.format)
    wanted = format.registry_format
    assert wanted is not None
    try:
        registry.create_group(stream.name, GroupProperties(wanted, table_properties.creation_policy(settings)))
        undo.append(lambda: registry.delete_group(stream.name))
        if (policy := table_properties.later_policy(settings)) is not None:
            registry.set_compatibility(stream.name, policy)
    except SchemaExistsError:
        # An application may have made the group before its first event: it is joined, under its own rules.
        group = registry.group(stream.name)
        if group.format != wanted:
            raise InvalidOptionError(
                f"The schema registry has a group of {group.format} schemas for stream {stream}, so the "
                f"table cannot have 'format'='{settings.format}'. Give the format of that group."
            ) from None
    if settings.codec != "none":
        registry.add_codec(stream.name, REGISTRY_CODECS[settings.codec])
    registry.add_schema(stream.name, SchemaInfo.of_text(format.type_name(text), wanted, text))


@contextmanager
def _undo_on_failure() -> Iterator[list[Callable[[], None]]]:
    """Run the collected steps backwards when the body fails; the body's error is the one that counts."""
    steps: list[Callable[[], None]] = []
    try:
        yield steps
    except BaseException:
        for step in reversed(steps):
            try:
                step()
            except PravegaError as error:
                LOG.warning("Undoing a failed CREATE TABLE: %s", error)
        raise


def drop(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Drop a table: its events, its stream, its schema group. False when there is none."""
    if len(namespace) != 1 or is_internal(name):
        return False
    return drop_stream(catalog, stream_of(namespace, name))


def drop_stream(catalog: Catalog, stream: Stream) -> bool:
    """Drop a stream and all that belongs to it; False when there is none."""
    try:
        _delete_stream(catalog, stream)
    except StreamNotFoundError:
        return False
    if catalog.pravega.config.registry_uri is not None:
        try:
            catalog.pravega.registry(stream.scope).delete_group(stream.name)
        except SchemaNotFoundError:
            LOG.debug("Stream %s had no schema group.", stream)
    CommitLog(catalog.pravega, stream).remove()
    return True


def _delete_stream(catalog: Catalog, stream: Stream) -> None:
    catalog.pravega.controller.seal_stream(stream)
    catalog.pravega.controller.delete_stream(stream)


__all__ = ["create", "describe", "drop", "drop_stream", "exists", "list_tables", "load", "stream_of"]
