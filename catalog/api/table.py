"""A table as a Python object: its columns and properties, its rows as Arrow data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.sql.identifiers import split_name

from ..altering.properties import alter
from ..protocol import TableChange
from ..protocol.replies import TableDescription
from ..queries.changes import load_changes
from ..storage.connections import Catalog
from ..storage.table_properties import make_place_properties
from ..tables import stream_tables, views
from ..tables.time_travel import travel_to
from .appending import append
from .arrow_columns import to_arrow_columns, to_spark_field, to_spark_type
from .details import TableSchema, TableSize, TableVersion, inspect_table, list_schemas, list_versions, measure_table
from .following import NewRows, follow
from .scan import Bound, Scan, check_columns, make_bound_options, make_change_range, make_scan, make_time_travel


class Table:
    """A table of a catalog, as it was when it was loaded; `refresh` loads it again."""

    def __init__(self, catalog: Catalog, namespace: tuple[str, ...], name: str) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._name = name
        self._described = self._load({})

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(self.schema.names)})"

    @property
    def name(self) -> str:
        """Return the full name, as SQL has it."""
        return self._described.name

    @property
    def schema(self) -> pa.Schema:
        """Return the columns; a comment is in the metadata of its field, under `comment`."""
        return to_arrow_columns(self._described.schema)

    @property
    def spark_schema(self) -> StructType:
        """Return the columns as Spark's types, which know more than Arrow's: VARCHAR(20)."""
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
        """Return the stream that the table is, as `scope/name`."""
        return str(self._described.table.stream)

    @property
    def hidden_columns(self) -> Mapping[str, str]:
        """Return the columns that a scan has only if it names them, each with what it tells."""
        return {column.name: column.comment for column in self._described.metadata_columns}

    def refresh(self) -> None:
        """Load the table again. Raises StreamNotFoundError if it was dropped."""
        self._described = self._load({})

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        limit: int | None = None,
        *,
        as_of: Bound | None = None,
        start: Bound | None = None,
        end: Bound | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Return a scan of some columns (None: all but hidden ones), of rows that fulfil `filter`, at most `limit`.

        `filter` is an expression of pyarrow: `pyarrow.compute.field("temp") > 30`. `as_of` is a version,
        a tag, a stream cut or a time with a zone: the table as it was, as with VERSION AS OF and TIMESTAMP AS OF.
        `start` and `end`, versions, times with a zone or texts of stream cuts, are bounds of what is read, both
        included; None: all that there is. `options` are read options, such as `{"mode": "permissive"}`.
        Raises InvalidOptionError, InvalidSchemaError.
        """
        given = {**(options or {}), **make_bound_options(start, end)}
        described = self._load(given) if given else self._described
        if as_of is not None:
            described = travel_to(self._catalog, described, make_time_travel(as_of))
        return make_scan(self._catalog, described, columns, filter, limit, given)

    def changes(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        limit: int | None = None,
        *,
        start: Bound | None = None,
        end: Bound | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Return a scan of the changes of the table, as CHANGES has them: rows with what became of them, and when.

        `start` and `end` are versions, or times with a zone; both are included, None: all that there are. The columns
        are those of the table followed by `_change_type`, `_commit_version` and `_commit_timestamp`; there are no
        hidden ones. A filter on `_commit_version` reads the events of those versions only. Raises InvalidOptionError,
        InvalidSchemaError, DataLossError for events that were removed.
        """
        given = dict(options or {})
        described = load_changes(self._catalog, self._namespace, self._name, make_change_range(start, end), given)
        return make_scan(self._catalog, replace(described, metadata_columns=()), columns, filter, limit, given)

    def inspect(self, name: str) -> pa.Table:
        """Return the rows of a metadata table, as they are now: history, segments, schemas, tags and others.

        Raises InvalidNameError naming those that there are.
        """
        return inspect_table(self._catalog, self._namespace, self._name, name)

    def head(self, rows: int = 10) -> pa.Table:
        """Return the first rows, reading no more than they need."""
        return self.scan(limit=rows).to_arrow()

    def append(self, rows: object, *, options: Mapping[str, str] | None = None) -> int:
        """Append rows in one transaction, exactly like an INSERT: all become visible at once, or none. Return how many.

        A key-value table has no transaction: each row replaces the one of its key, and is visible when it is written.
        `rows` are a pyarrow Table, RecordBatch or RecordBatchReader, or anything that exports Arrow data. Columns are
        found by name; those that are missing are null. Values are cast where none changes; only floating-point numbers
        are rounded, to DECIMAL and FLOAT, as an INSERT does. Rows of a routing key keep their order. `options` are
        write options of docs/options.md; with `txn-app-id` and `txn-version` a write that is repeated is done once.
        Raises InvalidSchemaError, InvalidRowError naming the row, StreamSealedError, PermissionDeniedError,
        TransactionOutcomeUnknownError if the servers do not tell what became of the commit.
        """
        described = stream_tables.load(self._catalog, self._namespace, self._name, writing=True)
        return append(self._catalog, described, rows, options or {})

    def follow(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        position: str | None = None,
        start: Bound | None = None,
        available_now: bool = False,
        timeout: float | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[NewRows]:
        """Yield the rows of the table and those that come to it, a batch at a time, each with the position behind it.

        Every event comes once, and those of a routing key in their order, also when the stream is scaled. `position`
        is that of an earlier batch; without one it begins at `start`, by default with the oldest event, with "latest"
        after what is there now. It ends with what is there now if `available_now`, or after `timeout` seconds without
        new rows. A batch has 64 MiB of events at most, or what the options `max-bytes-per-trigger` and
        `max-rows-per-trigger` say. It may have no rows if `filter` keeps none. Raises DataLossError for events that
        were removed before they were read, CheckpointError for a position of another stream.
        """
        given = {**(options or {}), **make_bound_options(start, None)}
        described = self._load(given)
        names = described.schema.names if columns is None else columns
        check_columns(described, names)
        return follow(self._catalog, described, names, filter, position, available_now, timeout, given)

    def add_column(self, field: pa.Field, *, after: str | None = None, first: bool = False) -> None:
        """Add a column, behind the others unless told otherwise; rows that are there have null for it.

        A field within a column is named by its path, as in SQL: `position.height`, `readings.element.unit`.

        This and the other methods that change columns register a new version of the schema, which the policy of the
        table must allow. They raise UnsupportedOperationError for a change with which older events could not be read,
        InvalidOptionError, IncompatibleSchemaError; UnsupportedTypeError for what is no field, or has a type that no
        event holds.
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
        """Rename a column."""
        self._alter(TableChange("RenameColumn", None, to, self._split_path(name)))

    def widen_column(self, name: str, type: pa.DataType) -> None:
        """Give a column a type that holds all of its values: int32 to int64, float32 to float64."""
        path = self._split_path(name)
        column = StructType([StructField(path[-1], to_spark_type(name, type))])
        self._alter(TableChange("UpdateColumnType", None, None, path, column))

    def allow_null(self, name: str) -> None:
        """Let a column have null."""
        self._alter(TableChange("UpdateColumnNullability", None, "true", self._split_path(name)))

    def comment_column(self, name: str, comment: str) -> None:
        """Set the comment of a column."""
        self._alter(TableChange("UpdateColumnComment", None, comment, self._split_path(name)))

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Set properties of the table; None removes one. Raises InvalidOptionError."""
        self._alter(
            *(
                TableChange("RemoveProperty" if text is None else "SetProperty", key, text)
                for key, text in properties.items()
            )
        )

    def history(self) -> list[TableVersion]:
        """Return the versions of the table, one for each commit of an INSERT, of `append` or of a streaming query."""
        return list_versions(self._catalog, self._described.table)

    def size(self) -> TableSize:
        """Measure how many segments take appends, and how many bytes all events have."""
        return measure_table(self._catalog, self._described.table)

    def schema_versions(self) -> list[TableSchema]:
        """Return the versions of the schema in the registry, the oldest first; none without a registry."""
        return list_schemas(self._catalog, self._described.table)

    def _load(self, options: Mapping[str, str]) -> TableDescription:
        with views.refuse_views(self._catalog, self._namespace, self._name, "load_table"):
            return stream_tables.load(self._catalog, self._namespace, self._name, options)

    def _split_path(self, name: str) -> tuple[str, ...]:
        """Return the parts of a name: several of a field within a column, one if a column has the whole name."""
        names = self._described.schema.names
        parts = (name,) if name in names else split_name(name)
        return parts if parts[0] in names else (name,)

    def _alter(self, *changes: TableChange) -> None:
        alter(self._catalog, self._namespace, self._name, changes)
        self.refresh()
