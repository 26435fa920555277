"""What a table is to programs: its name, its columns and its properties, as they were when it was loaded."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from ..names import find_in_scope
from ..protocol.replies import TableDescription
from ..protocol.tables import Identifier
from ..storage.catalogs import Catalog
from ..storage.table_properties import make_place_properties
from .arrow_columns import to_arrow_columns


class DescribedTable:
    """A table as it was when it was loaded; `refresh` loads it again."""

    def __init__(self, catalog: Catalog, identifier: Identifier) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._named = find_in_scope(catalog, identifier)
        self._described = self._load({})

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(self.schema.names)})"

    @property
    def name(self) -> str:
        """Return the full name, as SQL writes it."""
        return self._described.name

    @property
    def schema(self) -> pa.Schema:
        """Return the columns; a comment is in the metadata of its field, under `comment`."""
        return to_arrow_columns(self._described.schema)

    @property
    def spark_schema(self) -> StructType:
        """Return the columns as Spark's types, which are more exact than Arrow's: VARCHAR(20)."""
        return self._described.schema

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the properties, as `create_table` takes them."""
        found = self._described.properties
        return {
            key: text for key, text in found.items() if key not in make_place_properties(self._described.table.stream)
        }

    @property
    def stream(self) -> str:
        """Return the table's stream, as `scope/name`; of several streams, the table's own scope and name."""
        return str(self._described.table.stream)

    @property
    def streams(self) -> list[str]:
        """Return the streams that the table is, as `scope/name`: one, or several that are read as one."""
        table = self._described.table
        return [str(member.stream) for member in table.members or (table,)]

    @property
    def hidden_columns(self) -> Mapping[str, str]:
        """Return the columns that a scan has only if it names them, each with its description."""
        return {column.name: column.comment for column in self._described.metadata_columns}

    def refresh(self) -> None:
        """Load the table again.

        Raises
        ------
        StreamNotFoundError
            If it was dropped.
        """
        self._described = self._load({})

    def _load(self, options: Mapping[str, str]) -> TableDescription:
        return self._named.load_for("load_table", options)
