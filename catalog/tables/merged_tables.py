"""Tables of several streams: list, load, create, alter, drop. The table of the scope keeps what names their streams.

Such a table is a name alone, as a view is: no stream is made or dropped with it. Nothing stops another program from
making a stream of the same name, which the name then means until that is dropped.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import shield
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams
from pyspark_pravega.datasource.table_of_options import describe_no_match, load_members
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.merged_table import MemberChoice, merge_tables
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.formats.core.defaults import remove_defaults
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream, is_internal
from pyspark_pravega.sql.refusals import describe_merged_refusal

from ..protocol import CreateTable, TableChange
from ..protocol.service_replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import Address, check_scope_exists
from ..storage.table_properties import PROVIDER, make_place_properties
from . import key_value_tables
from .description import describe_table, identify_members

LOG = logging.getLogger(__name__)
NAMING = (o.STREAMS, o.PATTERN_OF_STREAMS)  # the properties that make a table one of several streams
_OTHER = {o.STREAMS.key: o.PATTERN_OF_STREAMS.key, o.PATTERN_OF_STREAMS.key: o.STREAMS.key}
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a member may lack its schema, or be gone since it was listed, and the pause between looks."""


def list_names(catalog: Catalog, scope: str) -> list[str]:
    """Return the names of a scope's tables of several streams; none for a user who may not read them."""
    try:
        return [row["name"] for row in ScopeTable(catalog.pravega, scope).rows(RowKind.SEVERAL_STREAMS)]
    except errors.PermissionDeniedError as error:
        LOG.debug("The tables of several streams in scope %s are left out: %s", scope, error)
        return []


def find(catalog: Catalog, stream: Stream) -> Mapping[str, Any] | None:
    """Return the stored row of a table, or None: without such a table, or if the user may not know of it."""
    if is_internal(stream.scope):
        return None
    return ScopeTable(catalog.pravega, stream.scope).read_if_allowed(RowKind.SEVERAL_STREAMS, stream.name)


def has_table(catalog: Catalog, stream: Stream) -> bool:
    return find(catalog, stream) is not None


def check_none(catalog: Catalog, address: Address) -> None:
    """Raise StreamExistsError if a new table or view would have the name of a table of several streams."""
    if has_table(catalog, address.stream):
        raise errors.StreamExistsError(
            f"There is a table {address.shown} of several streams. DROP TABLE drops it, and leaves its streams."
        )


def load(catalog: Catalog, address: Address, read: Mapping[str, str], *, writing: bool) -> TableDescription | None:
    """Describe a table of several streams for a query with the options `read`, or None.

    Raises MemberNotFoundError, DifferentSchemasError naming the stream that does not fit the others,
    PermissionDeniedError naming one that the user may not read, and UnsupportedOperationError for a table to write.
    """
    row = find(catalog, address.stream)
    if row is None:
        return None
    with prefix_errors("Table", address.about):
        try:
            # Another program may have stored properties that would act on the streams of others.
            properties = check_properties(catalog, row["properties"], address.stream.scope)
            table = load_streams(catalog, address.stream, properties, earlier=row["known"])
        except errors.MemberNotFoundError as error:
            raise errors.MemberNotFoundError(
                f"{error.message} To name other streams, DROP TABLE, which drops no stream, and CREATE TABLE again."
            ) from None
        described = describe(catalog, address, table, row, {} if writing else read)
    if writing:
        refused = MergedStreams.refusal("Writing", described.name)
        raise errors.UnsupportedOperationError(f"{refused.rstrip('.')}: {described.properties['location']}.")
    return described


def describe(
    catalog: Catalog,
    address: Address,
    table: StreamTable,
    row: Mapping[str, Any],
    read: Mapping[str, str] = MappingProxyType({}),
) -> TableDescription:
    """Describe a loaded table of which `row` is kept; see `load`."""
    options = resolve_read(catalog.options, table, read)
    if options.get(o.SCHEMA_VERSION) is not None:
        refused = describe_merged_refusal("WITH ('schema-version'=...)", address.shown)
        raise errors.UnsupportedOperationError(refused)
    permissive = options.get(o.MODE) == PERMISSIVE
    table = identify_members(catalog, address.note_spelling(table).as_asked(permissive=permissive))
    location = make_place_properties(*(member.stream for member in table.members))
    comment = {"comment": row["comment"]} if row.get("comment") else {}
    properties = {"provider": PROVIDER, **row["properties"], **comment, **location}
    return describe_table(catalog, table, f"{address.stream}/several/{row['id']}", properties=properties)


def load_streams(
    catalog: Catalog, stream: Stream, properties: Mapping[str, str], *, earlier: Iterable[str] = ()
) -> StreamTable:
    """Load the streams that properties name, as one table. `stream` has its scope and name.

    `earlier` are names of members from before: to a user who may not read one, Pravega does not list it. Raises the
    errors of `load`.
    """
    options = catalog.options(properties=properties)
    choice = MemberChoice.of(options, stream.scope)
    try:
        members = _load_members(catalog, choice, options)
    except (
        errors.StreamNotFoundError,
        errors.ScopeNotFoundError,
    ) as error:  # it would look like one about the table itself
        raise errors.MemberNotFoundError(
            f"{error.message.rstrip('.')}, which '{o.STREAMS.key}' names. Create it, or leave it out of "
            f"'{o.STREAMS.key}'; tables of several streams, views and key-value tables cannot be named there."
        ) from None
    if not members:
        raise errors.MemberNotFoundError(describe_no_match(stream.scope, str(choice.pattern)))
    if choice.pattern is not None:
        names = {member.stream.name for member in members}
        for name in earlier:
            # Those that are gone do not matter; of one that may not be read this raises PermissionDeniedError.
            if name not in names:
                with suppress(errors.StreamNotFoundError):
                    catalog.pravega.controller.stream_configuration(Stream(stream.scope, name))
    table = merge_tables(stream, members)
    scan_properties = {**table.scan_properties, **properties}
    return replace(table, schema=remove_defaults(table.schema), scan_properties=scan_properties)


def check_properties(catalog: Catalog, properties: Mapping[str, str], scope: str) -> dict[str, str]:
    """Return the properties of a table of several streams as they are kept, without Spark's own.

    Raises InvalidOptionError for other properties, both ways of naming streams, and a wrong value.
    """
    options = catalog.options(properties=properties)
    for option in o.OPTIONS.values():
        if option not in NAMING and options.source(option) is o.Source.PROPERTY:
            raise errors.InvalidOptionError(
                f"'{options.name(option)}' does not apply with '{o.STREAMS.key}' or '{o.PATTERN_OF_STREAMS.key}': a "
                "table of several streams has the settings of its streams. Leave it out."
            )
    options_set = [option for option in NAMING if options.is_set(option)]
    if len(options_set) != 1:
        both = " and ".join(f"'{option.key}'" for option in NAMING)
        what = (
            f"has {both}: both say which streams it is"
            if options_set
            else f"has neither of {both}, which say what it is"
        )
        raise errors.InvalidOptionError(f"It {what}. Set one of them.")
    choice = MemberChoice.of(options, scope)
    if choice.pattern is not None:
        return {o.PATTERN_OF_STREAMS.key: choice.pattern}
    return {o.STREAMS.key: ",".join(member.name_in(scope) for member in choice.listed)}


def make_row(table: StreamTable, properties: Mapping[str, str], comment: str | None) -> dict[str, Any]:
    """Make the stored row of a table of several streams, without its id."""
    own = [member.stream.name for member in table.members if member.stream.scope == table.stream.scope]
    return {"properties": dict(properties), "comment": comment, "known": own}


def create(catalog: Catalog, address: Address, request: CreateTable) -> TableDescription:
    """Create a table of several streams. Columns that are given must be those that it has.

    Raises StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedOperationError for
    constraints and defaults, and the errors of `load_streams`.
    """
    stream, shown = address.stream, address.shown
    check_new_stream(stream.name)
    for clause in (
        *(constraint.text for constraint in request.constraints),
        *(f"DEFAULT of {name}" for name in request.defaults),
    ):
        raise errors.UnsupportedOperationError(
            f"{clause} is not possible on {shown}: nothing is written to several streams. Leave it out."
        )
    properties = check_properties(catalog, request.properties, stream.scope)
    check_scope_exists(catalog, request.namespace, stream.scope)
    if catalog.pravega.controller.stream_exists(stream) or key_value_tables.has_table(catalog, stream):
        raise errors.StreamExistsError(f"There is a stream or a key-value table {stream}. Give the table another name.")
    table = load_streams(catalog, stream, properties)
    _check_columns(table, request.schema)
    row = {"id": uuid.uuid4().hex, **make_row(table, properties, request.properties.get("comment"))}

    def choose_row(before: Mapping[str, Any]) -> Mapping[str, Any]:
        if before and before["id"] != row["id"]:
            raise errors.StreamExistsError(f"There is a table {shown} of several streams.")
        return row

    with shield():
        ScopeTable(catalog.pravega, stream.scope).change(RowKind.SEVERAL_STREAMS, stream.name, choose_row)
    return describe(catalog, address, table, {**row, "name": stream.name})


def alter(catalog: Catalog, address: Address, changes: Sequence[TableChange]) -> TableDescription | None:
    """Change which streams a table of several streams is, and its comment; None if there is no such table.

    Raises UnsupportedOperationError for other changes, InvalidOptionError, and the errors of `load_streams`.
    """
    stream, shown = address.stream, address.shown
    row = find(catalog, stream)
    if row is None:
        return None
    new_texts = _read_changes(changes, shown)
    tables: list[tuple[StreamTable, Mapping[str, Any]]] = []

    def make_changed(before: Mapping[str, Any]) -> Mapping[str, Any]:
        if before.get("id") != row["id"]:
            raise errors.StreamNotFoundError(f"There is no table {shown} any more.")
        texts: dict[str, str | None] = {**before["properties"], "comment": before["comment"]}
        for key, value in new_texts:
            texts[key] = value
            if value is not None and _OTHER.get(key) in before["properties"]:
                texts[_OTHER[key]] = None
        comment = texts.pop("comment")
        kept = {key: text for key, text in texts.items() if text is not None}
        properties = check_properties(catalog, kept, stream.scope)
        table = load_streams(catalog, stream, properties)
        tables.append((table, {**before, **make_row(table, properties, comment)}))
        return tables[-1][1]

    with prefix_errors("Table", address.about):
        ScopeTable(catalog.pravega, stream.scope).change(RowKind.SEVERAL_STREAMS, stream.name, make_changed)
    table, new = tables[-1]
    return describe(catalog, address, table, new)


def drop(catalog: Catalog, stream: Stream, only: str | None = None) -> bool:
    """Drop the name of several streams; False if there is none. `only`: the table whose description has this id."""

    def is_meant(row: Mapping[str, Any]) -> bool:
        return only is None or only == f"{stream}/several/{row['id']}"

    return ScopeTable(catalog.pravega, stream.scope).remove(RowKind.SEVERAL_STREAMS, stream.name, is_meant)


def describe_members(catalog: Catalog, stream: Stream, row: Mapping[str, Any]) -> str:
    """Return a phrase for messages that says which streams a table is, without loading them."""
    choice = MemberChoice.of(catalog.options(properties=row["properties"]), stream.scope)
    if choice.pattern is not None:
        return f"the streams of {stream.scope} whose names match '{choice.pattern}'"
    return f"the streams {', '.join(str(member.stream) for member in choice.listed)}"


def _read_changes(changes: Sequence[TableChange], shown: str) -> list[tuple[str, str | None]]:
    """Return the keys and new values (None: removed) of properties. Raises UnsupportedOperationError for others."""
    texts = []
    for change in changes:
        if change.kind not in ("SetProperty", "RemoveProperty") or change.property in ("location", "collation"):
            raise errors.UnsupportedOperationError(MergedStreams.refusal("ALTER TABLE", shown))
        option = o.find_option(str(change.property))
        texts.append((str(change.property) if option is None else option.key, change.value))
    return texts


def _check_columns(table: StreamTable, schema: StructType) -> None:
    """Raise InvalidOptionError if a statement declares other columns than the streams have."""
    declared = [(field.name, field.dataType.simpleString()) for field in schema]
    columns = [(field.name, field.dataType.simpleString()) for field in table.schema]
    if declared in ([], columns):
        return
    types = dict(columns)
    for name, type in declared:
        if types.get(name) != type:
            has = f"there it is {types[name]}" if name in types else "they have no such column"
            raise errors.InvalidOptionError(
                f"It declares the column {name} {type}, but its columns are those of its streams, and {has}. Declare "
                f"no columns, or all of these: {_list(columns)}."
            )
    raise errors.InvalidOptionError(
        f"It declares the columns {_list(declared)}, but those of its streams are {_list(columns)}. Declare no "
        "columns, or all of these in this order."
    )


def _list(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns)


def _load_members(catalog: Catalog, choice: MemberChoice, options: o.Options) -> list[StreamTable]:
    until = time.monotonic() + _CREATION_SECONDS
    while True:
        try:
            return load_members(catalog.pravega, options, choice.scope, choice.find(catalog.pravega))
        except (errors.SchemaNotFoundError, errors.StreamNotFoundError) as error:
            listed = isinstance(error, errors.StreamNotFoundError) and choice.pattern is None
            if listed or time.monotonic() > until:
                raise
        cancellation.sleep(_PAUSE)
