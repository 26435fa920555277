"""Defines what statements ask of what a name means: each meaning is a class that does it, or refuses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NoReturn

from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidNameError, StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.sql.refusals import describe_refusal

from ..protocol.service_replies import KeySpace, MetadataDescription, MetadataRows, TableDescription, ViewDefinition
from ..protocol.table_requests import Identifier, LoadTable, TableChange
from ..storage.catalogs import Catalog
from ..storage.spelling import Address, find_address, resolve_stream
from .description import check_letter_case
from .time_travel import travel_to


class NamedTable(ABC):
    """What a name means. It looks up only what it is asked for, and only then."""

    def __init__(self, catalog: Catalog, identifier: Identifier) -> None:
        self.catalog = catalog
        self.identifier = identifier

    @property
    def shown(self) -> str:
        """Return the whole name for messages."""
        return self.catalog.named(*self.identifier.parts)

    @abstractmethod
    def load(self, request: LoadTable) -> TableDescription | ViewDefinition | MetadataDescription:
        """Describe it for a query or a write.

        Raises StreamNotFoundError, and UnsupportedOperationError if a write or time travel is asked for in vain.
        """

    @abstractmethod
    def load_for(self, statement: str, options: Mapping[str, str]) -> TableDescription:
        """Describe the table for a statement that takes neither views nor metadata tables, which this names.

        Raises StreamNotFoundError, UnsupportedOperationError.
        """

    @abstractmethod
    def exists(self) -> bool:
        """Return whether it exists, even if it cannot be loaded."""

    def confirm_existence(self) -> bool:
        """Return whether CREATE TABLE must fail because it exists. If so, it is sure to stay.

        A statement that is still making it does not undo it any more.
        """
        return False

    def check_is_stream(self) -> None:
        """Raise InvalidNameError if it is not a stream, which has metadata tables, and StreamNotFoundError."""
        self.raise_not_found()

    def find_stream(self, statement: str) -> Stream:
        """Return the stream that a statement acts on. Raises StreamNotFoundError, UnsupportedOperationError."""
        self.raise_not_found()

    def read_rows(self, options: Mapping[str, str]) -> MetadataRows:
        """Return the rows of a metadata table, as they are now. Raises InvalidOptionError if the query has options."""
        raise UnsupportedOperationError(f"{self.shown} is not a metadata table. Load it, and scan its rows.")

    @abstractmethod
    def alter(self, changes: Sequence[TableChange]) -> TableDescription:
        """Carry out ALTER TABLE. Raises StreamNotFoundError, UnsupportedOperationError, InvalidOptionError."""

    @abstractmethod
    def drop(self) -> bool:
        """Drop it; False if there is none. Raises UnsupportedOperationError for what cannot be dropped alone."""

    def find_key_space(self) -> KeySpace:
        """Return which segment takes the events of which part of the key space. Raises StreamNotFoundError."""
        stream = resolve_stream(self.catalog, self.identifier.namespace, self.identifier.name)
        current = self.catalog.pravega.controller.current_segments(stream)
        segments = sorted(current, key=lambda segment: segment.max_key)
        names = tuple(make_segment_name(stream, segment.segment_id) for segment in segments)
        return KeySpace(names, tuple(repr(segment.max_key) for segment in segments))

    def refuse(self, statement: str, loaded: StreamTable | None) -> NoReturn:
        """Raise UnsupportedOperationError for a statement that tables cannot do. `loaded`: the table, if it was."""
        spelled = "mode('overwrite')" if self.catalog.by_options and statement == "INSERT OVERWRITE" else statement
        refusal = self._describe_refusal if loaded is None else find_table_kind(loaded).refusal
        raise UnsupportedOperationError(refusal(spelled, self.shown))

    def _describe_refusal(self, statement: str, name: str) -> str:
        return describe_refusal(statement, name)

    def raise_not_found(self) -> NoReturn:
        raise StreamNotFoundError(f"There is no table {self.shown}.")


class TableInScope(NamedTable):
    """What a name in a scope means, if it can have rows of its own."""

    @cached_property
    def address(self) -> Address:
        """Return where the name leads. Raises InvalidNameError, ScopeNotFoundError for namespaces that are no scope."""
        return find_address(self.catalog, self.identifier)

    def check_is_stream(self) -> None:
        if self.exists():
            raise InvalidNameError(f"{self.shown} is not a stream, and has no metadata tables.")
        self.raise_not_found()

    @abstractmethod
    def load_table(self, options: Mapping[str, str], *, writing: bool = False) -> TableDescription:
        """Describe the table for a query with the `options` that change its columns, or for a write.

        Raises StreamNotFoundError, and the errors of the kind that it is.
        """

    def load(self, request: LoadTable) -> TableDescription | ViewDefinition:
        described = self.load_table(request.options, writing=request.writing)
        described = travel_to(self.catalog, described, request.at)
        if not (request.case_sensitive or request.writing):
            check_letter_case(self.shown, described.schema)
        return described

    def load_for(self, statement: str, options: Mapping[str, str]) -> TableDescription:
        return self.load_table(options)
