"""Defines a metadata table: its columns, the function that reads its rows, and what statements may do with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError

from ..protocol.service_replies import MetadataDescription, MetadataRows
from ..protocol.table_requests import LoadTable, TableChange
from ..storage.catalogs import Catalog
from ..tables.named_table import NamedTable

Rows: TypeAlias = Iterable[Sequence[Any]]
"""Values in the order of the columns: None, bool, int, float, str, lists of them; times in microseconds since 1970."""
Read: TypeAlias = Callable[[Pravega, Stream], Rows]


@dataclass(frozen=True)
class MetadataTable:
    """A metadata table that every stream has. `rows` reads its rows for a stream that exists."""

    name: str
    columns: StructType
    rows: Callable[[Catalog, Stream], Rows]


def metadata_table(*columns: StructField) -> Callable[[Read], MetadataTable]:
    """Make a metadata table, under its own name, of the function that reads its rows."""

    def make(read: Read) -> MetadataTable:
        return MetadataTable(
            read.__name__, StructType(list(columns)), lambda catalog, stream: read(catalog.pravega, stream)
        )

    return make


def column(name: str, type: DataType, comment: str, *, nullable: bool = True) -> StructField:
    return StructField(name, type, nullable, {"comment": comment})


class ReadOnlyTable(NamedTable):
    """The name of a table that statements cannot change."""

    @abstractmethod
    def refuse_change(self) -> NoReturn:
        """Raise UnsupportedOperationError."""

    def alter(self, changes: Sequence[TableChange]) -> NoReturn:
        if self.exists():
            self.refuse_change()
        self.raise_not_found()

    def drop(self) -> bool:
        if self.exists():
            self.refuse_change()
        return False


class NamedMetadata(ReadOnlyTable):
    """The name of a metadata table, which is read as it is now, and never written."""

    @abstractmethod
    def describe(self) -> MetadataDescription:
        """Describe it. Raises StreamNotFoundError."""

    @abstractmethod
    def list_rows(self) -> Rows:
        """Return its rows."""

    def load(self, request: LoadTable) -> MetadataDescription:
        described = self.describe()
        if request.writing:
            self.refuse_change()
        if request.at is not None:
            raise UnsupportedOperationError(
                f"{described.name} has no versions. Leave VERSION AS OF and TIMESTAMP AS OF out."
            )
        return described

    def load_for(self, statement: str, options: Mapping[str, str]) -> NoReturn:
        raise UnsupportedOperationError(f"{self.describe().name} has no changes. Leave CHANGES out.")

    def read_rows(self, options: Mapping[str, str]) -> MetadataRows:
        if options:
            keys = ", ".join(f"'{key}'" for key in sorted(options))
            raise InvalidOptionError(f"{self.shown} takes no options, but got {keys}. Leave them out, and use WHERE.")
        return MetadataRows(tuple(tuple(row) for row in self.list_rows()))
