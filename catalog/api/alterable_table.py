"""A table as programs know it: its name, columns and properties as they were when it was loaded, and their changes."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.sql.identifiers import split_name

from ..name_resolution import find_in_scope
from ..protocol.service_replies import TableDescription
from ..protocol.table_requests import Identifier, TableChange
from ..storage.catalogs import Catalog
from ..storage.table_properties import make_place_properties
from .arrow_columns import to_arrow_columns, to_spark_field, to_spark_type


class AlterableTable:
    """A table as it was when it was loaded: `refresh` loads it again, and so does each change of columns or properties.

    The methods that change columns register a new version of the schema. A column is named by its name, and a field
    within a column by its path, as in SQL: `position.height`, `readings.element.unit`. They raise
    UnsupportedOperationError if older events could not be read after the change, IncompatibleSchemaError if the table's
    compatibility policy does not allow it, and InvalidOptionError if there is no such column.
    """

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
        place = make_place_properties(self._described.table.stream)
        return {key: text for key, text in self._described.properties.items() if key not in place}

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

        Raises StreamNotFoundError if it was dropped.
        """
        self._described = self._load({})

    def _load(self, options: Mapping[str, str]) -> TableDescription:
        return self._named.load_for("load_table", options)

    def add_column(self, field: pa.Field, *, after: str | None = None, first: bool = False) -> None:
        """Add a column; rows that exist already have null for it.

        `after`: the column that it follows; by default it is the last one. `first`: whether it is the first column.

        Raises InvalidOptionError if the column exists already, or `after` does not; UnsupportedTypeError if `field` is
        not a field, or its type is one that events cannot hold.

        Examples
        --------
        >>> table.add_column(pa.field("note", pa.string()))
        """
        if not isinstance(field, pa.Field):
            raise UnsupportedTypeError(
                f"Table {self.name}: the new column is given as {type(field).__name__} {field!r}. Give an Arrow "
                "field: pa.field('note', pa.string())."
            )
        path = self._split_path(field.name)
        column = StructType([to_spark_field(field.with_name(path[-1]))])
        self._alter(TableChange("AddColumn", None, None, path, column, "" if first else after))

    def drop_column(self, name: str) -> None:
        """Drop a column; the events keep its values."""
        self._alter(TableChange("DeleteColumn", None, None, self._split_path(name)))

    def rename_column(self, name: str, to: str) -> None:
        """Rename a column to a new name without a path. Raises InvalidOptionError if another column has that name."""
        self._alter(TableChange("RenameColumn", None, to, self._split_path(name)))

    def widen_column(self, name: str, type: pa.DataType) -> None:
        """Give a column a type that holds all its values, such as int64 for int32.

        Raises UnsupportedTypeError if events cannot hold the new type.
        """
        path = self._split_path(name)
        column = StructType([StructField(path[-1], to_spark_type(name, type))])
        self._alter(TableChange("UpdateColumnType", None, None, path, column))

    def allow_null(self, name: str) -> None:
        """Let a column be null."""
        self._alter(TableChange("UpdateColumnNullability", None, "true", self._split_path(name)))

    def comment_column(self, name: str, comment: str) -> None:
        """Set the comment of a column; the empty text removes it."""
        self._alter(TableChange("UpdateColumnComment", None, comment, self._split_path(name)))

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Set properties of the table, as `create_table` takes them; None removes one.

        Raises InvalidOptionError if a property is wrong, or cannot be changed.
        """
        self._alter(
            *(
                TableChange("RemoveProperty" if text is None else "SetProperty", key, text)
                for key, text in properties.items()
            )
        )

    def _split_path(self, name: str) -> tuple[str, ...]:
        """Return the parts of a name: several of a field within a column, one if a column has the whole name."""
        names = self._described.schema.names
        parts = (name,) if name in names else split_name(name)
        return parts if parts[0] in names else (name,)

    def _alter(self, *changes: TableChange) -> None:
        self._named.alter(changes)
        self.refresh()
