"""CREATE TABLE: declares, judges, makes, registers and publishes a table, or leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega import errors
from pyspark_pravega.client import cancellation
from pyspark_pravega.client.registry.registry_types import (
    Compatibility,
    GroupProperties,
    SchemaInfo,
    takes_policy_at_creation,
)
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.scan.dead_letter_stream import make_target_of_table
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.datasource.tables.stored_properties import SCHEMA_KEY, make_stored_properties, make_tags
from pyspark_pravega.datasource.tables.stream_table import REGISTRY_CODECS
from pyspark_pravega.datasource.tables.table_settings import TableSettings
from pyspark_pravega.formats.core.edited_columns import find_editable_format
from pyspark_pravega.formats.core.format import REGISTRY_FORMATS, find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, check_new_stream, is_internal

from ..protocol import CreateTable
from ..protocol.service_replies import TableDescription
from ..storage import table_properties
from ..storage.catalogs import Catalog
from ..storage.creation_mark import MAKING, UNDOING, CreationMark, choose_patience, find_mark, is_left_to, remove_mark
from ..storage.dropping import Undo, delete_if_there, delete_stream, undo_on_failure
from ..storage.reporting import prefix_errors
from ..storage.spelling import find_address
from ..tables import merged_tables, views
from ..tables.stream_tables import describe, has_envelopes
from .declaration import Declaration, declare
from .judging import Unfinished, describe_creation_in_progress, judge_new, judge_rest, look_up
from .new_key_value_table import check_name, create_entries, is_key_value_table


def create(catalog: Catalog, request: CreateTable) -> TableDescription:
    """Create a table as one unit: the stream, its schema group and its schema, or nothing.

    With `adopt` a stream that exists without a schema gets one and keeps its events and settings. Raises
    StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the
    column, IncompatibleSchemaError when a schema group of that name exists and refuses the schema.
    """
    properties = request.properties
    if not request.name or len(request.name) > MAX_STREAM_NAME:
        check_new_stream(request.name)
    with prefix_errors("Table", catalog.named(*request.parts)):
        address = find_address(catalog, request, new=True)
    stream, shown = address.stream, address.shown
    with prefix_errors("Table", address.about):
        if is_internal(stream.scope):
            raise errors.InvalidNameError("Its namespace belongs to Pravega. Create it in another one.")
        table_properties.check_reserved(shown, properties)
        table_properties.check_partitions(shown, request.partitions)
        views.check_no_view(catalog, request)
        merged_tables.check_none(catalog, address)
        if any(o.find_option(key) in merged_tables.NAMING for key in properties):
            return merged_tables.create(catalog, address, request)
        check_name(catalog, stream, properties)
        if is_key_value_table(properties):
            return create_entries(catalog, address, request)
        declared = declare(catalog, address, request)
        existing = look_up(catalog, declared)
        if isinstance(existing, Unfinished):
            rest = judge_rest(catalog.pravega.config, declared, existing)
            loaded = _make_rest(catalog, rest, existing.configuration)
        else:
            loaded = _make(catalog, judge_new(declared, existing), existing)
        return describe(catalog, address, loaded)


def _make(catalog: Catalog, declared: Declaration, existing: LoadedTable | None) -> LoadedTable:
    """Make the schema of a table and its stream, unless that is `existing`, or nothing."""
    pravega, stream, settings, text = catalog.pravega, declared.stream, declared.settings, declared.schema_text
    kept = make_stored_properties(settings, declared.comment)
    # Others have registered the schema of envelopes.
    registering = bool(declared.registry_format) and not (existing is not None and has_envelopes(existing))
    if not registering and text:
        kept[SCHEMA_KEY] = text
    mark = CreationMark.new(pravega.config, text) if registering else None
    with _undone_on_failure(catalog, stream, mark) as undo:
        # A server carries out a request whose answer nobody waits for: each comes to its end before it is undone.
        with cancellation.shield():
            begun = kept | (mark.stored if mark is not None else {})
            if existing is None:
                check_new_stream(stream.name)
                _create_stream(catalog, stream, table_properties.make_stream_configuration(settings, begun), undo)
            else:
                table_properties.check_adoption(declared.options)
                _set_tags(catalog, stream, existing.configuration, begun)
                undo.append(lambda: pravega.controller.update_stream(stream, existing.configuration))
        cancellation.check()
        if registering:
            with cancellation.shield():
                _register(catalog, declared, undo)
            cancellation.check()
        with cancellation.shield():
            make_target_of_table(pravega, declared.bad_events)
    return _publish(catalog, stream)


def _make_rest(catalog: Catalog, declared: Declaration, configuration: StreamConfiguration) -> LoadedTable:
    """Complete a CREATE TABLE that was interrupted, and has left its stream with this configuration."""
    stream, mark = declared.stream, CreationMark.new(catalog.pravega.config, declared.schema_text)
    with _undone_on_failure(catalog, stream, mark) as undo, cancellation.shield():
        undo.append(lambda: catalog.pravega.controller.update_stream(stream, configuration))
        stored = make_stored_properties(declared.settings, declared.comment)
        _set_tags(catalog, stream, configuration, stored | mark.stored)
        other = find_mark(catalog, stream)
        if other is not None and other != mark:
            raise errors.SchemaNotFoundError(describe_creation_in_progress(stream, other))
        # What it makes is not undone: two statements that take over at the same time make the same.
        _register(catalog, declared, [], begun=True)
        make_target_of_table(catalog.pravega, declared.bad_events)
    return _publish(catalog, stream)


def _register(catalog: Catalog, declared: Declaration, undo: list[Undo], *, begun: bool = False) -> None:
    """Register the schema of a new table in its group, which is made or joined; append to `undo` what takes that back.

    `begun`: a CREATE TABLE that was interrupted may have made the group, whose policy is not yet the one asked for.
    Raises IncompatibleSchemaError or InvalidOptionError when others have a group for the stream that it does not fit.
    """
    catalog.options().require(o.SCHEMA_REGISTRY_URI)
    registry = catalog.pravega.registry(declared.stream.scope)
    _make_or_join_group(registry, declared, undo, begun=begun)
    if (codec := declared.settings.codec) != "none":
        registry.add_codec(declared.stream.name, REGISTRY_CODECS[codec])
    _add_schema(registry, declared, undo)


def _make_or_join_group(registry: SchemaRegistry, declared: Declaration, undo: list[Undo], *, begun: bool) -> None:
    """Make the schema group of a new table, or join one that an application made before its first event.

    The rules of a joined group stay as they are, except those of a group that was `begun` and has no schema yet.
    """
    name, settings, format = declared.stream.name, declared.settings, declared.registry_format
    policy = table_properties.get_policy(settings.compatibility)
    first_policy = policy if takes_policy_at_creation(format) else Compatibility("AllowAny")
    try:
        registry.create_group(name, GroupProperties(format, first_policy))
        undo.append(lambda: registry.delete_group(name))
        if policy != first_policy:
            registry.set_compatibility(name, policy)
    except errors.SchemaExistsError:
        _check_format(registry.group(name).format, settings)
        _check_type(registry, declared.stream, declared.format.type_name(declared.schema_text))
        if begun and not registry.latest_schemas(name):
            registry.set_compatibility(name, policy)


def _add_schema(registry: SchemaRegistry, declared: Declaration, undo: list[Undo]) -> None:
    """Add the schema to the group of a new table. Raises IncompatibleSchemaError."""
    name, format, text = declared.stream.name, declared.format, declared.schema_text
    schema = SchemaInfo.of_text(format.type_name(text), declared.registry_format, text)
    version = registry.find_version(name, schema)
    try:
        added = registry.add_schema(name, schema)
        if version is None:
            undo.append(lambda: registry.delete_schema(name, added.id))
    except errors.IncompatibleSchemaError as error:
        rule = table_properties.name_policy(registry.group(name).compatibility)
        newest = [format.spark_schema(one.schema.text).simpleString() for one in registry.latest_schemas(name)]
        raise errors.IncompatibleSchemaError(
            f"{error.message}. The group existed before this table, with the policy '{rule}' and the newest "
            f"schema {', '.join(newest) or 'none'}. Declare columns that fit, or choose another table name."
        ) from None


def _publish(catalog: Catalog, stream: Stream) -> LoadedTable:
    """Load a table that others can use by now, and remove its mark. From here on nothing is undone."""
    with cancellation.shield():
        loaded = load_table(catalog.pravega, stream)
        remove_mark(catalog, loaded)
    return loaded


@contextmanager
def _undone_on_failure(catalog: Catalog, stream: Stream, mark: CreationMark | None) -> Iterator[list[Undo]]:
    """Undo what a CREATE TABLE has made when it fails, as long as the stream has its mark, and within its time."""
    patience = choose_patience(catalog.pravega.config)

    def is_ours() -> bool:
        return mark is None or is_left_to(catalog, stream, mark)

    with undo_on_failure("CREATE TABLE", is_ours, UNDOING * patience) as undo, limit_retries(MAKING * patience):
        yield undo


def _create_stream(catalog: Catalog, stream: Stream, configuration: StreamConfiguration, undo: list[Undo]) -> None:
    try:
        catalog.pravega.controller.create_stream(stream, configuration)
    except (errors.ServerFailedError, errors.ServerTimeoutError, errors.ServerUnavailableError):
        # The server may have made it, or a part of it. After other errors a stream of this name is somebody else's.
        undo.append(lambda: delete_if_there(catalog, stream))
        raise
    undo.append(lambda: delete_stream(catalog, stream))


def _set_tags(catalog: Catalog, stream: Stream, configuration: StreamConfiguration, kept: Mapping[str, str]) -> None:
    tags = make_tags(kept, configuration.tags)
    catalog.pravega.controller.update_stream(stream, replace(configuration, tags=tags))


def _check_type(registry: SchemaRegistry, stream: Stream, own_type: str) -> None:
    """Raise InvalidOptionError if a group holds another type: with a second one its stream would not be a table."""
    others = sorted(one.version.type for one in registry.latest_schemas(stream.name) if one.version.type != own_type)
    if others:
        raise errors.InvalidOptionError(
            f"The schema registry has a group for this stream, made by others, with the type {', '.join(others)}, but "
            f"the table's type would be {own_type}. Choose another table name, or let the application create the "
            "stream, which is then a table without CREATE TABLE."
        )


def _check_format(existing: str, settings: TableSettings) -> None:
    """Raise InvalidOptionError unless a group and the table have the same format."""
    if existing == find_format(settings.format).registry_format:
        return
    advice = "Choose another table name, or 'format'='raw' to read and write bytes."
    name = REGISTRY_FORMATS.get(existing)
    if name is not None and find_editable_format(name) is not None:  # others make no schema from columns
        advice = f"Set 'format'='{name}'."
    raise errors.InvalidOptionError(
        f"'format'='{settings.format}' does not fit: the schema registry has a group of {existing} schemas for this "
        f"stream. {advice}"
    )
