"""Procedures on the schema group of a stream: its versions, and the policy for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from pyspark.sql.types import BooleanType, IntegerType, StringType, StructType

from pyspark_pravega import errors
from pyspark_pravega.client.registry.registry_types import SchemaInfo, SchemaVersion, VersionInfo, is_judged_by_registry
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import find_registry_format
from pyspark_pravega.sql import options as o

from ..altering.schema_edits import check_compatible, check_settings
from ..metadata.metadata_table import Rows, column
from ..metadata.registered_schemas import VERSION_COLUMNS
from ..storage.catalogs import Catalog
from ..storage.table_properties import get_policy, show_policy
from ..tables.stream_tables import load_if_table
from .procedure import DRY_RUN, TABLE, Call, parameter, procedure

_SCHEMA = parameter("schema", "its text as the schema registry has it: an Avro or JSON schema")
_READ = "READ on the stream and on its schema group"
_CHANGE = "READ on the stream, READ_UPDATE on its schema group"


@dataclass(frozen=True)
class _Judgement:
    """Whether a schema can be a new version: `known` is the version that it already is, `reason` what forbids it."""

    schema: SchemaInfo
    known: VersionInfo | None
    policy: str
    reason: str | None


def _judge(catalog: Catalog, stream: Stream, text: str) -> _Judgement:
    """Judge the text of a schema for a stream. Raises SchemaNotFoundError if the stream has no schema group."""
    registry = _open_registry(catalog, stream)
    group, versions = registry.group(stream.name), registry.versions(stream.name)
    format = find_registry_format(group.format)
    policy = show_policy(group.compatibility)
    try:
        columns = format.spark_schema(text)
        type = _find_type(versions, format.type_name(text))
    except (errors.InvalidSchemaError, errors.InvalidOptionError, errors.UnsupportedTypeError) as error:
        return _Judgement(SchemaInfo("", group.format, text.encode()), None, policy, error.message)
    schema = SchemaInfo.of_text(type, group.format, text)
    registered = registry.find_version(stream.name, schema)
    reason = None
    if registered is None:
        loaded = load_if_table(catalog, stream)
        older = [version for version in versions if version.version.type == type]
        try:
            if loaded is not None and not is_change_format(loaded.table.format):
                _check_table(catalog, loaded, columns)
            if not is_judged_by_registry(group.format):
                check_compatible(
                    group.compatibility, [format.spark_schema(version.schema.text) for version in older], columns
                )
            elif not registry.validate(stream.name, schema):
                raise errors.IncompatibleSchemaError(
                    f"the policy '{policy}' of its schema group does not allow it after the existing versions"
                )
        except (errors.InvalidOptionError, errors.IncompatibleSchemaError) as error:
            reason = error.message
    return _Judgement(schema, registered, policy, reason)


def _find_type(versions: Sequence[SchemaVersion], named: str) -> str:
    """Return the type whose next version a schema is. Raises InvalidOptionError if the stream has no such type.

    With a first schema of another type, the stream would not be one table any longer.
    """
    types = list(dict.fromkeys(version.version.type for version in versions))
    if named in types or not types:
        return named
    raise errors.InvalidOptionError(
        f"the schema has the type {named}, but the stream's events have {', '.join(types)}. Give the schema that name, "
        "because a stream with several types is not one table"
    )


def _check_table(catalog: Catalog, loaded: LoadedTable, columns: StructType) -> None:
    """Raise IncompatibleSchemaError or InvalidOptionError if a table's properties do not fit the columns."""
    if loaded.table.has_one_version:
        raise errors.IncompatibleSchemaError(
            "with 'framing'='none' the table's events do not say which version of the schema they were written with, "
            "so there can be only one version"
        )
    check_settings(catalog, loaded, columns)


def _open_registry(catalog: Catalog, stream: Stream) -> SchemaRegistry:
    catalog.options().require(o.SCHEMA_REGISTRY_URI)
    return catalog.pravega.registry(stream.scope)


@procedure(
    "Checks whether register_schema would add a version. Nothing is changed.",
    (TABLE, _SCHEMA),
    (
        column("valid", BooleanType(), "whether it would", nullable=False),
        column("reason", StringType(), "why not"),
        column("version", IntegerType(), "that the schema is already, if it is one"),
        column("compatibility", StringType(), "the group's policy", nullable=False),
    ),
    _READ,
)
def validate_schema(call: Call) -> Rows:
    judged = _judge(call.catalog, call.find_stream(), call.require("schema"))
    version = None if judged.known is None else judged.known.version
    yield judged.reason is None, judged.reason, version, judged.policy


@procedure(
    "Adds a version to the schema of a table, if the policy allows it. The newest version says what columns there are.",
    (TABLE, _SCHEMA),
    (*VERSION_COLUMNS, column("registered", BooleanType(), "false if it was there before", nullable=False)),
    _CHANGE,
)
def register_schema(call: Call) -> Rows:
    stream = call.find_stream()
    judged = _judge(call.catalog, stream, call.require("schema"))
    if judged.reason is not None:
        raise errors.IncompatibleSchemaError(
            f"The schema cannot become a new version for stream {stream}: {judged.reason.rstrip('.')}."
        )
    added = judged.known or _open_registry(call.catalog, stream).add_schema(stream.name, judged.schema)
    yield added.version, added.id, added.type, judged.known is None


@procedure(
    "Sets the policy for new versions of the schema, as the table property 'compatibility' does.",
    (TABLE, parameter("compatibility", "such as 'backward', 'full-transitive', 'allow-any'")),
    (
        column("before", StringType(), "the policy before", nullable=False),
        column("compatibility", StringType(), "the policy now", nullable=False),
    ),
    _CHANGE,
)
def set_compatibility(call: Call) -> Rows:
    stream, text = call.find_stream(), call.require("compatibility")
    name = call.catalog.options(properties={o.COMPATIBILITY.key: text}).get(o.COMPATIBILITY)
    policy = get_policy(name)
    registry = _open_registry(call.catalog, stream)
    before = registry.compatibility(stream.name)
    if policy != before:
        registry.set_compatibility(stream.name, policy, before)
    yield show_policy(before), name


@procedure(
    "Removes a version of the schema that no event uses. Refused if an event may use it.",
    (
        TABLE,
        parameter("version", "as the metadata table schemas has it", IntegerType()),
        parameter("type", "of a stream whose events have several", optional=True),
        DRY_RUN,
    ),
    (*VERSION_COLUMNS, column("deleted", BooleanType(), "whether it was done", nullable=False)),
    _CHANGE,
)
def delete_schema_version(call: Call) -> Rows:
    stream, number = call.find_stream(), int(call.require("version"))
    registry = _open_registry(call.catalog, stream)
    versions = registry.versions(stream.name)
    version = _find_version(stream, versions, number, call.arguments.get("type"))
    _check_unused(call.catalog, registry, stream, version, versions)
    deleted = not call.is_set(DRY_RUN)
    if deleted:
        registry.delete_schema(stream.name, version.id)
    yield version.version, version.id, version.type, deleted


def _find_version(stream: Stream, versions: Sequence[SchemaVersion], number: int, type: str | None) -> VersionInfo:
    types = list(dict.fromkeys(version.version.type for version in versions))
    if type is None and len(types) > 1:
        raise errors.InvalidOptionError(f"Stream {stream} has several types: {', '.join(types)}. Give one as 'type'.")
    for version in versions:
        if version.version.version == number and type in (None, version.version.type):
            return version.version
    numbers = ", ".join(str(version.version.version) for version in versions if type in (None, version.version.type))
    of_type = "" if type is None else f" of type {type}"
    raise errors.InvalidOptionError(
        f"Stream {stream} has no version {number} of a schema{of_type}. Its versions are: {numbers or 'none'}"
        f"{'' if type in (None, *types) else ', and the types ' + ', '.join(types)}."
    )


def _check_unused(
    catalog: Catalog, registry: SchemaRegistry, stream: Stream, deleted: VersionInfo, versions: Sequence[SchemaVersion]
) -> None:
    """Raise UnsupportedOperationError if a version is needed.

    It is needed if events may have been written with it, if it is the only one of its type, or if it is the newest and
    the columns of the one before lack what the table's properties name. The first event that is written with a version
    takes an encoding id for it, which the registry never gives back.
    """
    if sum(version.version.type == deleted.type for version in versions) == 1:
        raise errors.UnsupportedOperationError(
            f"Version {deleted.version} is the only schema of type {deleted.type} that stream {stream} has. Without it "
            "the stream would not be a table. DROP TABLE drops both."
        )
    loaded = load_if_table(catalog, stream)
    if loaded is not None and not loaded.table.framed:
        raise errors.UnsupportedOperationError(
            f"The events of stream {stream} have no header that says which version of the schema they were written "
            "with, so every version may be needed."
        )
    _check_columns(catalog, loaded, deleted, versions)
    for encoding in count():
        try:
            used = registry.encoding(stream.name, encoding).version
        except errors.SchemaNotFoundError:
            return
        if used.id == deleted.id:
            raise errors.UnsupportedOperationError(
                f"Events of stream {stream} may be encoded with version {deleted.version} of the schema: it has the "
                f"encoding id {encoding}, which writers put into events. The version cannot be deleted. Register a "
                "newer one for new events."
            )


def _check_columns(
    catalog: Catalog, loaded: LoadedTable | None, deleted: VersionInfo, versions: Sequence[SchemaVersion]
) -> None:
    """Raise UnsupportedOperationError if a table's properties name columns that only its newest version has."""
    newest, *others = sorted(
        (version for version in versions if version.version.type == deleted.type),
        key=lambda version: version.version.id,
        reverse=True,
    )
    if loaded is None or is_change_format(loaded.table.format) or newest.version.id != deleted.id:
        return
    before = others[0]
    try:
        check_settings(catalog, loaded, find_registry_format(before.schema.format).spark_schema(before.schema.text))
    except (errors.InvalidOptionError, errors.InvalidSchemaError, errors.UnsupportedTypeError) as error:
        raise errors.UnsupportedOperationError(
            f"Version {deleted.version} of the schema of stream {loaded.table.stream} cannot be deleted: without it "
            f"the columns would be those of version {before.version.version}, and {error.message.rstrip('.')}. Change "
            "the table's properties first."
        ) from None
