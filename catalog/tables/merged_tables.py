"""Tables of several streams: list, describe, load, drop. What names their streams is kept in the table of the scope.

Such a table is a name alone, as a view is: no stream is made or dropped with it. Nothing stops another program from
making a stream of the same name, which the name then means until that is dropped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams
from pyspark_pravega.datasource.table_of_options import describe_no_match, member_tables
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.members import MemberChoice
from pyspark_pravega.datasource.tables.merged_table import merged_table
from pyspark_pravega.datasource.tables.read_options import resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import (
    InvalidOptionError,
    MemberNotFoundError,
    PermissionDeniedError,
    SchemaNotFoundError,
    ScopeNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.formats.core.defaults import without_defaults
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import is_internal
from pyspark_pravega.sql.refusals import describe_merged_refusal

from ..protocol.replies import TableDescription
from ..storage.connections import Catalog
from ..storage.naming import prefix_errors
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import add_stream_name, name_table
from ..storage.table_properties import PROVIDER, make_place_properties
from .description import hidden_columns, identify_members
from .lineage import name_dataset

LOG = logging.getLogger(__name__)
_NAMING = (o.STREAMS, o.PATTERN_OF_STREAMS)
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a member may lack its schema, or be gone since it was listed, and the pause between looks."""


def names(catalog: Catalog, scope: str) -> list[str]:
    """Return the names of a scope's tables of several streams; none for a user who may not read them."""
    try:
        return [row["name"] for row in ScopeTable(catalog.pravega, scope).rows(RowKind.SEVERAL_STREAMS)]
    except PermissionDeniedError as error:
        LOG.debug("The tables of several streams in scope %s are left out: %s", scope, error)
        return []


def find(catalog: Catalog, stream: Stream) -> Mapping[str, Any] | None:
    """Return what is kept of the table with a scope and a name; None if there is none, or the user may not know."""
    if is_internal(stream.scope):
        return None
    try:
        return ScopeTable(catalog.pravega, stream.scope).read(RowKind.SEVERAL_STREAMS, stream.name)
    except PermissionDeniedError as error:
        LOG.debug("Whether there is a table %s of several streams is not known: %s", stream, error)
        return None


def exists(catalog: Catalog, stream: Stream) -> bool:
    """Return whether there is a table of several streams with this scope and name."""
    return find(catalog, stream) is not None


def check_none(catalog: Catalog, stream: Stream, shown: str) -> None:
    """Raise StreamExistsError if a new table or view would have the name of a table of several streams."""
    if exists(catalog, stream):
        raise StreamExistsError(
            f"There is a table {shown} of several streams. DROP TABLE drops it, and leaves its streams."
        )


def load(
    catalog: Catalog, stream: Stream, called: tuple[str, str], read: Mapping[str, str], *, writing: bool
) -> TableDescription | None:
    """Describe a table of several streams for a query with the options `read`; None if there is none.

    `called`: its scope and name as the statement has them. Raises MemberNotFoundError, DifferentSchemasError naming the
    stream that does not fit the others, PermissionDeniedError naming one that the user may not read, and
    UnsupportedOperationError for a table that is to be written.
    """
    row = find(catalog, stream)
    if row is None:
        return None
    with prefix_errors("Table", add_stream_name(catalog.named(*called), called, stream)):
        try:
            table = load_streams(catalog, stream, row["properties"], known=row["known"])
        except MemberNotFoundError as error:
            raise MemberNotFoundError(
                f"{error.message} To name other streams, DROP TABLE, which drops no stream, and CREATE TABLE again."
            ) from None
        described = describe(catalog, table, row, called, {} if writing else read)
    if writing:
        refused = MergedStreams.refusal("Writing", described.name)
        raise UnsupportedOperationError(f"{refused.rstrip('.')}: {described.properties['location']}.")
    return described


def describe(
    catalog: Catalog,
    table: StreamTable,
    row: Mapping[str, Any],
    called: tuple[str, str],
    read: Mapping[str, str] = MappingProxyType({}),
) -> TableDescription:
    """Describe a loaded table of which `row` is kept; see `load`."""
    stream = table.stream
    options = resolve_read(catalog.options, table, read)
    if options.get(o.SCHEMA_VERSION) is not None:
        refused = describe_merged_refusal("WITH ('schema-version'=...)", catalog.named(*called))
        raise UnsupportedOperationError(refused)
    if called != (stream.scope, stream.name):
        table = replace(table, called=called)
    permissive = options.get(o.MODE) == PERMISSIVE
    table = identify_members(catalog, replace(table, permissive=permissive))
    place = make_place_properties(*(member.stream for member in table.members))
    comment = {"comment": row["comment"]} if row.get("comment") else {}
    return TableDescription(
        name=name_table(catalog, table),
        schema=make_nullable(table.schema) if permissive else table.schema,
        properties={"provider": PROVIDER, **row["properties"], **comment, **place},
        lineage=name_dataset(catalog, stream),
        metadata_columns=hidden_columns(table, table.schema),
        table=table,
        id=f"{stream}/several/{row['id']}",
        events_are_rows=MergedStreams.events_are_rows,
    )


def load_streams(
    catalog: Catalog, stream: Stream, properties: Mapping[str, str], *, known: Iterable[str] = ()
) -> StreamTable:
    """Load the streams that properties name, as one table. `stream` has its scope and name.

    `known` are names of members from before: to a user who may not read one, Pravega does not list it. Raises the
    errors of `load`.
    """
    options = catalog.options(properties=properties)
    choice = MemberChoice.of(options, stream.scope)
    with _tell_of_missing_members():
        members = _load_members(catalog, choice, options)
    if not members:
        raise MemberNotFoundError(describe_no_match(stream.scope, str(choice.pattern)))
    if choice.pattern is not None:
        found = {member.stream.name for member in members}
        _check_readable(catalog, [Stream(stream.scope, name) for name in known if name not in found])
    table = merged_table(stream, members)
    scan_properties = {**table.scan_properties, **properties}
    return replace(table, schema=without_defaults(table.schema), scan_properties=scan_properties)


def check_properties(catalog: Catalog, given: Mapping[str, str], scope: str) -> dict[str, str]:
    """Return the properties of a table of several streams as they are kept; `given` has nothing of Spark's own.

    Raises InvalidOptionError for other properties, both ways of naming streams, and a wrong value.
    """
    options = catalog.options(properties=given)
    for option in o.OPTIONS.values():
        if option not in _NAMING and options.source(option) is o.Source.PROPERTY:
            raise InvalidOptionError(
                f"'{options.name(option)}' has no meaning with '{o.STREAMS.key}' or '{o.PATTERN_OF_STREAMS.key}': a "
                "table of several streams has the settings of its streams. Leave it out."
            )
    found = [option for option in _NAMING if options.is_set(option)]
    if len(found) != 1:
        both = " and ".join(f"'{option.key}'" for option in _NAMING)
        what = f"has {both}: both say which streams it is" if found else f"has neither of {both}, which say what it is"
        raise InvalidOptionError(f"It {what}. Set one of them.")
    choice = MemberChoice.of(options, scope)
    if choice.pattern is not None:
        return {o.PATTERN_OF_STREAMS.key: choice.pattern}
    return {o.STREAMS.key: ",".join(member.name_in(scope) for member in choice.listed)}


def make_row(table: StreamTable, properties: Mapping[str, str], comment: str | None) -> dict[str, Any]:
    """Return what is kept of a table of several streams, except its id."""
    own = [member.stream.name for member in table.members if member.stream.scope == table.stream.scope]
    return {"properties": dict(properties), "comment": comment, "known": own}


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


def _load_members(catalog: Catalog, choice: MemberChoice, options: o.Options) -> list[StreamTable]:
    until = time.monotonic() + _CREATION_SECONDS
    while True:
        try:
            return member_tables(catalog.pravega, options, choice.scope, choice.find(catalog.pravega))
        except (SchemaNotFoundError, StreamNotFoundError) as error:
            listed = isinstance(error, StreamNotFoundError) and choice.pattern is None
            if listed or time.monotonic() > until:
                raise
        cancellation.sleep(_PAUSE)


def _check_readable(catalog: Catalog, streams: Iterable[Stream]) -> None:
    """Raise PermissionDeniedError if the user may not read one of the streams; those that are gone do not matter."""
    for stream in streams:
        try:
            catalog.pravega.controller.stream_configuration(stream)
        except StreamNotFoundError:
            continue


@contextmanager
def _tell_of_missing_members() -> Iterator[None]:
    """Keep an error about a missing stream from looking like one about the table itself."""
    try:
        yield
    except (StreamNotFoundError, ScopeNotFoundError) as error:
        raise MemberNotFoundError(
            f"{error.message.rstrip('.')}, which '{o.STREAMS.key}' names. Create it, or leave it out of "
            f"'{o.STREAMS.key}'; tables of several streams, views and key-value tables cannot be named there."
        ) from None
