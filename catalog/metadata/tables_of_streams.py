"""Defines the tables whose namespace is a stream: its metadata tables, and its parts that are tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NoReturn

from pyspark_pravega import errors
from pyspark_pravega.sql.names_elsewhere import METADATA_TABLES
from pyspark_pravega.sql.refusals import describe_metadata_refusal

from ..protocol.service_replies import MetadataDescription, TableDescription
from ..protocol.table_requests import Identifier, LoadTable
from ..storage.catalogs import Catalog
from ..storage.spelling import resolve_stream
from ..tables.named_table import NamedTable, TableInScope
from ..tables.time_travel import travel_to
from .commit_history import consumers, history, stream_cuts, tags, transactions
from .metadata_table import MetadataTable, NamedMetadata, ReadOnlyTable, Rows
from .registered_schemas import encodings, lake, properties, schemas
from .segment_rows import scale_events, segments

TABLES: Mapping[str, MetadataTable] = {
    table.name: table
    for table in (
        *(history, segments, schemas, encodings, stream_cuts, tags),
        *(scale_events, transactions, consumers, properties, lake),
    )
}


class TableOfStream(ReadOnlyTable):
    """A table whose namespace is a stream. Only the stream can be changed."""

    def __init__(self, catalog: Catalog, identifier: Identifier, whole: NamedTable) -> None:
        super().__init__(catalog, identifier)
        self._whole = whole

    def exists(self) -> bool:
        try:
            self.describe()
        except (errors.StreamNotFoundError, errors.InvalidNameError):
            return False
        except errors.PravegaError:
            return True  # it exists, even if it cannot be loaded
        return True

    def refuse_change(self) -> NoReturn:
        """Raise UnsupportedOperationError, because only the stream can be changed."""
        whole = self._whole.shown
        raise errors.UnsupportedOperationError(
            f"{self.shown} describes {whole}, and can only be read. Change {whole} itself."
        )

    @abstractmethod
    def describe(self) -> object:
        """Describe it.

        Raises StreamNotFoundError if there is no such stream, InvalidNameError if it has no table of this name.
        """

    def _describe_refusal(self, statement: str, name: str) -> str:
        return describe_metadata_refusal(statement, name)


class MetadataOfStream(TableOfStream, NamedMetadata):
    def __init__(self, catalog: Catalog, identifier: Identifier, whole: NamedTable) -> None:
        super().__init__(catalog, identifier, whole)
        self._table = TABLES[identifier.name.lower()]

    @property
    def shown(self) -> str:
        return self.catalog.named(*self.identifier.namespace, self._table.name)

    def describe(self) -> MetadataDescription:
        self._whole.check_is_stream()
        return MetadataDescription(self.shown, self._table.columns)

    def list_rows(self) -> Rows:
        scope, stream = self.identifier.namespace
        return self._table.rows(self.catalog, resolve_stream(self.catalog, (scope,), stream))


class PartOfStream(TableOfStream):
    """The changelog or one type of the events of a stream, in the namespace of the stream."""

    def __init__(self, catalog: Catalog, identifier: Identifier, whole: NamedTable, part: TableInScope) -> None:
        super().__init__(catalog, identifier, whole)
        self._part = part

    def load(self, request: LoadTable) -> TableDescription:
        return travel_to(self.catalog, self._load(request.options, writing=request.writing), request.at)

    def load_for(self, statement: str, options: Mapping[str, str]) -> TableDescription:
        return self._load(options)

    def describe(self) -> TableDescription:
        return self._load({})

    def _load(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        self._whole.check_is_stream()
        try:
            return self._part.load_table(options, writing=writing)
        except errors.SchemaNotFoundError as error:
            name = self.identifier.name
            like = METADATA_TABLES.get(name.lower())
            hint = f" Did you mean {self.catalog.named(*self.identifier.namespace, like)}?" if like is not None else ""
            raise errors.InvalidNameError(
                f"{self._whole.shown} has no table {name}.{hint} Its metadata tables are {', '.join(TABLES)}. "
                f"Its events are tables too if they have several types, or are changes of rows (changelog). "
                f"{error.message}"
            ) from None
