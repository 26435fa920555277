"""Decides what a name means: a stream or a part of it, a key-value table, several streams, a view, a metadata table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_pravega import errors
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.key_value_entries import KeyValueEntries
from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stream_table import CHANGELOG, StreamTable, TableName
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, is_internal
from pyspark_pravega.sql.refusals import describe_key_value_refusal, describe_merged_refusal, describe_view_refusal

from .altering.properties import alter
from .metadata import system
from .metadata.tables_of_streams import TABLES, MetadataOfStream, PartOfStream
from .protocol.service_replies import TableDescription, ViewDefinition
from .protocol.table_requests import Identifier, LoadTable, TableChange
from .storage.catalogs import Catalog
from .storage.creation_mark import remove_mark
from .storage.dropping import drop_stream
from .storage.spelling import spell_table_for_pravega
from .tables import key_value_tables, merged_tables, stream_tables, views
from .tables.named_table import NamedTable, TableInScope


def find_named(catalog: Catalog, identifier: Identifier) -> NamedTable:
    """Return what a name means in SQL. A table about the catalog hides a stream of the same name."""
    namespace, name = identifier.namespace, identifier.name
    if system.has_table(namespace, name):
        return system.TableOfCatalog(catalog, identifier)
    if len(namespace) != 2:
        return find_in_scope(catalog, identifier)
    scope, stream = namespace
    whole = find_in_scope(catalog, Identifier((scope,), stream))
    if name.lower() in TABLES:
        return MetadataOfStream(catalog, identifier, whole)
    part = find_in_scope(catalog, Identifier((scope,), str(TableName(stream, name))))
    return PartOfStream(catalog, identifier, whole, part)


def find_in_scope(catalog: Catalog, identifier: Identifier) -> TableInScope:
    """Return what a name means in its scope, without metadata tables.

    `stream$type` is the table of the events of one type, `stream$changelog` that of the events of a table of changes,
    and `name$kvtable` a key-value table, whatever else has that name.
    """
    name = TableName.parse(identifier.name)
    if _is_impossible(catalog, identifier.namespace, name):
        return NoTable(catalog, identifier)
    if name.part is None:
        return TableOfScope(catalog, identifier)
    return NamedKeyValueTable(catalog, identifier) if name.is_key_value_table else NamedPart(catalog, identifier)


def _is_impossible(catalog: Catalog, namespace: Sequence[str], name: TableName) -> bool:
    """Return whether an internal scope or stream has this name, so that no table can have it."""
    if len(namespace) != 1 or not name.stream or len(name.stream) > MAX_STREAM_NAME or name.part == "":
        return True
    return is_internal(spell_table_for_pravega(catalog, name.stream)) or is_internal(namespace[0])


def undo_creation(catalog: Catalog, table: StreamTable, id: str | None) -> None:
    """Drop the table that a failed statement has made, unless others have replaced it or written to it.

    `id` is the id of the table that was made. It is unknown whether a key-value table has rows from other programs.
    """
    kind = find_table_kind(table)
    if kind is MergedStreams:
        merged_tables.drop(catalog, table.stream, id)
    elif kind is KeyValueEntries:
        key_value_tables.drop(catalog, table.stream, table.first_segment)
    else:
        stream_tables.undo_creation(catalog, table.stream, id)


class NoTable(TableInScope):
    """A name that no table can have."""

    def load_table(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        _ = self.address  # whose error comes first
        self.raise_not_found()

    def exists(self) -> bool:
        return False

    def alter(self, changes: Sequence[TableChange]) -> TableDescription:
        return self.load_table({})

    def drop(self) -> bool:
        return False


class NamedKeyValueTable(TableInScope):
    """A key-value table named as such, `name$kvtable`."""

    def load_table(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        description = key_value_tables.load(self.catalog, self.address)
        if description is None:
            name = self.catalog.named(*self.identifier.namespace, TableName.parse(self.identifier.name).stream)
            raise errors.StreamNotFoundError(f"There is no key-value table {name}.")
        return description

    def exists(self) -> bool:
        return key_value_tables.has_table(self.catalog, self.address.stream)

    def alter(self, changes: Sequence[TableChange]) -> TableDescription:
        raise errors.UnsupportedOperationError(describe_key_value_refusal("ALTER TABLE", self.shown))

    def drop(self) -> bool:
        return key_value_tables.drop(self.catalog, self.address.stream)


class NamedPart(TableInScope):
    """A changelog, or one type of the events of a stream, by the name `stream$part`."""

    @property
    def _whole(self) -> str:
        return self.catalog.named(*self.identifier.namespace, TableName.parse(self.identifier.name).stream)

    def load_table(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        return stream_tables.load(self.catalog, self.address, options, writing=writing)

    def exists(self) -> bool:
        try:
            self.load_table({})
        except (errors.StreamNotFoundError, errors.SchemaNotFoundError):
            return False
        return True

    def alter(self, changes: Sequence[TableChange]) -> TableDescription:
        if TableName.parse(self.identifier.name).part == CHANGELOG:
            raise errors.UnsupportedOperationError(
                f"{self.shown} is a part of the table {self._whole}. ALTER TABLE {self._whole}."
            )
        raise errors.UnsupportedOperationError(
            f"{self.shown} is one type of the events of a stream, which has no properties of its own. Alter the "
            "stream's retention, scaling and policy with Pravega's own tools."
        )

    def drop(self) -> bool:
        if not self.exists():
            return False
        raise errors.UnsupportedOperationError(
            f"{self.shown} is a part of {self._whole}, and cannot be dropped alone. Drop {self._whole}."
        )


class TableOfScope(TableInScope):
    """A stream; where there is none, a key-value table, several streams or a view of this name, in this order.

    To a user who may not know whether there is a stream, the others count.
    """

    def load_table(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        address = self.address
        try:
            return stream_tables.load(self.catalog, address, options, writing=writing)
        except (errors.StreamNotFoundError, errors.PermissionDeniedError):
            other = key_value_tables.load(self.catalog, address) or merged_tables.load(
                self.catalog, address, options, writing=writing
            )
            if other is None:
                raise
            return other

    def load(self, request: LoadTable) -> TableDescription | ViewDefinition:
        try:
            return super().load(request)
        except (errors.StreamNotFoundError, errors.PermissionDeniedError):
            refused = _find_what_no_view_has(request)
            reads_view = request.or_view or refused is not None
            view = views.find(self.catalog, self.identifier, to_read=refused is None) if reads_view else None
            if view is None:
                raise
            if refused is not None:
                raise errors.UnsupportedOperationError(describe_view_refusal(refused, self.shown)) from None
            return view

    def load_for(self, statement: str, options: Mapping[str, str]) -> TableDescription:
        with views.refuse_views(self.catalog, self.identifier, statement):
            return self.load_table(options)

    def exists(self) -> bool:
        stream = self.address.stream
        return self._is_stream() or (
            key_value_tables.has_table(self.catalog, stream) or merged_tables.has_table(self.catalog, stream)
        )

    def confirm_existence(self) -> bool:
        stream = self.address.stream
        if not self._is_stream():
            made = key_value_tables.find_made(self.catalog, stream)
            return (made is not None and made.row is not None) or merged_tables.has_table(self.catalog, stream)
        table = stream_tables.find_complete(self.catalog, stream)
        if table is None:
            return False
        # Callers may write as soon as they know that it exists: a statement that is still making it must not undo it.
        remove_mark(self.catalog, table)
        return True

    def _is_stream(self) -> bool:
        """Return whether there is a stream. For a user who may not know, another table of the name counts."""
        stream = self.address.stream
        try:
            return self.catalog.pravega.controller.stream_exists(stream)
        except errors.PermissionDeniedError:
            if key_value_tables.has_table(self.catalog, stream) or merged_tables.has_table(self.catalog, stream):
                return False
            raise

    def check_is_stream(self) -> None:
        stream = self.address.stream
        if self.catalog.pravega.controller.stream_exists(stream):
            return
        if (row := merged_tables.find(self.catalog, stream)) is not None:
            raise errors.InvalidNameError(
                f"{self.shown} is {merged_tables.describe_members(self.catalog, stream, row)}, and has no metadata "
                "tables. Read those of its streams."
            )
        super().check_is_stream()

    def find_stream(self, statement: str) -> Stream:
        stream = self.address.stream
        if self.catalog.pravega.controller.stream_exists(stream):
            return stream
        if merged_tables.has_table(self.catalog, stream):
            raise errors.UnsupportedOperationError(describe_merged_refusal(statement, self.shown))
        if key_value_tables.has_table(self.catalog, stream):
            raise errors.UnsupportedOperationError(describe_key_value_refusal(statement, self.shown))
        with views.refuse_views(self.catalog, self.identifier, statement):
            self.raise_not_found()

    def alter(self, changes: Sequence[TableChange]) -> TableDescription:
        address = self.address
        try:
            loaded = load_table(self.catalog.pravega, address.stream)
        except errors.StreamNotFoundError:
            if key_value_tables.has_table(self.catalog, address.stream):
                raise errors.UnsupportedOperationError(describe_key_value_refusal("ALTER TABLE", self.shown)) from None
            altered = merged_tables.alter(self.catalog, address, changes)
            if altered is None:
                raise
            return altered
        return alter(self.catalog, address, loaded, changes)

    def drop(self) -> bool:
        stream = self.address.stream
        try:
            if drop_stream(self.catalog, stream):
                return True
        except errors.PermissionDeniedError:
            if self._is_stream():
                raise
        return key_value_tables.drop(self.catalog, stream) or merged_tables.drop(self.catalog, stream)


def _find_what_no_view_has(request: LoadTable) -> str | None:
    """Return the part of a request that views cannot do, or None."""
    if request.writing:
        return "Writing"
    if request.at is not None:
        return "VERSION AS OF"
    return f"WITH ('{next(iter(request.options))}'=...)" if request.options else None
