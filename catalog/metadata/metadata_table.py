"""Defines a metadata table: its columns, and the function that reads its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream

Rows: TypeAlias = Iterable[Sequence[Any]]
"""Values in the order of the columns: None, bool, int, float, str, lists of them; times in microseconds since 1970."""
Read: TypeAlias = Callable[[Pravega, Stream], Rows]


@dataclass(frozen=True)
class MetadataTable:
    """A metadata table that every stream has. `rows` reads its rows for a stream that exists."""

    name: str
    columns: StructType
    rows: Read


def metadata_table(*columns: StructField) -> Callable[[Read], MetadataTable]:
    """Make a metadata table, under its own name, of the function that reads its rows."""
    return lambda read: MetadataTable(read.__name__, StructType(list(columns)), read)


def column(name: str, type: DataType, comment: str, *, nullable: bool = True) -> StructField:
    """Return a column with a comment."""
    return StructField(name, type, nullable, {"comment": comment})
