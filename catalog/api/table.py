"""A table as a Python object: its columns and properties, its rows as Arrow data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.sql.identifiers import split_name

from ..names import find_in_scope
from ..protocol.replies import TableDescription
from ..protocol.tables import Identifier, TableChange
from ..queries.changes import load_changes
from ..storage.catalogs import Catalog
from ..storage.table_properties import make_place_properties
from ..tables.time_travel import travel_to
from .appending import append
from .arrow_columns import to_arrow_columns, to_spark_field, to_spark_type
from .details import TableSchema, TableSize, TableVersion, inspect_table, list_schemas, list_versions, measure_table
from .following import FollowRequest, NewRows, follow
from .scan import Bound, Scan, check_columns, make_bound_options, make_change_range, make_scan, make_time_travel


class Table:
    """A table of a catalog, as it was when it was loaded; `refresh` loads it again.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> from pyspark_pravega.catalog import connect
    >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
    >>> table = pravega.load_table("iot.sensor")
    >>> table.append(pa.table({"id": [1, 2], "temp": [20.5, 31.0]}))
    2
    >>> table.scan(["id"], filter=pc.field("temp") > 30).to_arrow().to_pylist()
    [{'id': 2}]
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

    def scan(  # noqa: PLR0913  (by keyword)
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
        """Describe a scan of the table; nothing is read yet.

        Parameters
        ----------
        columns : sequence of str, optional
            The names of the columns; by default all but the hidden ones.
        filter : pyarrow.compute.Expression, optional
            The condition that the rows fulfil: `pyarrow.compute.field("temp") > 30`.
        limit : int, optional
            The largest number of rows.
        as_of : int, str or datetime, optional
            A version, a tag, a stream cut or a time with a zone: the table is read as it was then, as with VERSION AS
            OF and TIMESTAMP AS OF.
        start, end : int, str or datetime, optional
            The bounds of what is read, both included: versions, texts of stream cuts or times with a zone. By default
            everything is read.
        options : mapping of str to str, optional
            Read options of docs/options.md, such as `{"mode": "permissive"}`.

        Returns
        -------
        Scan
            The scan.

        Raises
        ------
        InvalidOptionError
            If the filter, the limit, a bound or an option is wrong.
        InvalidSchemaError
            If there is no such column.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> table = pravega.load_table("iot.sensor")
        >>> hot = table.scan(["id", "temp"], filter=pc.field("temp") > 30).to_arrow()
        >>> before = table.scan(as_of=1).count()
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
        """Describe a scan of the table's changes: rows, what happened to them and when, as CHANGES shows them.

        The columns are those of the table, followed by `_change_type`, `_commit_version` and `_commit_timestamp`; there
        are no hidden ones. A filter on `_commit_version` reads only the events of those versions.

        Parameters
        ----------
        columns : sequence of str, optional
            The names of the columns; by default all.
        filter : pyarrow.compute.Expression, optional
            The condition that the rows fulfil.
        limit : int, optional
            The largest number of rows.
        start, end : int or datetime, optional
            Two versions, or two times with a zone; both are included. By default all changes are read.
        options : mapping of str to str, optional
            Read options of docs/options.md.

        Returns
        -------
        Scan
            The scan.

        Raises
        ------
        InvalidOptionError
            If the filter, the limit, a bound or an option is wrong.
        InvalidSchemaError
            If there is no such column.
        DataLossError
            If events were removed.

        Examples
        --------
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> table = pravega.load_table("iot.sensor")
        >>> table.changes(start=2).to_arrow().column("_change_type").to_pylist()
        ['insert', 'insert']
        """
        given = dict(options or {})
        described = load_changes(self._named, make_change_range(start, end), given)
        return make_scan(self._catalog, replace(described, metadata_columns=()), columns, filter, limit, given)

    def inspect(self, name: str) -> pa.Table:
        """Read a metadata table of this table: history, segments, schemas, tags and others.

        Parameters
        ----------
        name : str
            The name of the metadata table.

        Returns
        -------
        pyarrow.Table
            The rows, as they are now.

        Raises
        ------
        InvalidNameError
            If there is no such metadata table; the message names those that exist.

        Examples
        --------
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> table = pravega.load_table("iot.sensor")
        >>> table.inspect("segments").column("number").to_pylist()
        [0]
        """
        return inspect_table(self._catalog, self._identifier, name)

    def head(self, rows: int = 10) -> pa.Table:
        """Read the first rows, and no more events than they need.

        Parameters
        ----------
        rows : int, default 10
            The largest number of rows.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        MalformedEventError
            If an event does not fit the table; the message names it.
        DataLossError
            If events were removed before they were read.
        """
        return self.scan(limit=rows).to_arrow()

    def append(self, rows: object, *, options: Mapping[str, str] | None = None) -> int:
        """Append rows in one transaction, exactly like an INSERT: all become visible at once, or none.

        A key-value table has no transactions: each row replaces the one with its key, and is visible once it is
        written.

        Columns are found by name, and a missing column is null. A value of another type is cast if the cast keeps it
        exactly. Only floating-point numbers are rounded, to DECIMAL and FLOAT, as an INSERT does. Rows with the same
        routing key keep their order.

        Parameters
        ----------
        rows : pyarrow.Table, pyarrow.RecordBatch, pyarrow.RecordBatchReader or any object that exports Arrow data
            The rows.
        options : mapping of str to str, optional
            Write options of docs/options.md. With `txn-app-id` and `txn-version`, a write that is repeated is done
            once.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        InvalidSchemaError
            If the columns do not fit.
        InvalidRowError
            If a value does not fit; the message names the row.
        StreamSealedError
            If the stream is sealed.
        PermissionDeniedError
            If the user may not write.
        TransactionOutcomeUnknownError
            If the servers do not say whether the commit succeeded.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> pravega.load_table("iot.sensor").append(pa.table({"id": [1, 2], "temp": [20.5, 31.0]}))
        2
        """
        described = self._named.load_table({}, writing=True)
        return append(self._catalog, described, rows, options or {})

    def follow(  # noqa: PLR0913  (by keyword)
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
        """Read the rows of the table and those that come to it, a batch at a time.

        Every event comes once, and those with the same routing key in their order, even when the stream is scaled. A
        batch holds at most 64 MiB of events, or what the options `max-bytes-per-trigger` and `max-rows-per-trigger`
        say. It may have no rows if `filter` keeps none, or if one of several streams is new.

        Parameters
        ----------
        columns : sequence of str, optional
            The names of the columns; by default all but the hidden ones.
        filter : pyarrow.compute.Expression, optional
            The condition that the rows fulfil.
        position : str, optional
            The position of an earlier batch, after which reading continues.
        start : int, str or datetime, optional
            Where reading begins without a position: by default at the oldest event, with "latest" after what exists
            now.
        available_now : bool, default False
            Whether reading ends with what exists now.
        timeout : float, optional
            The seconds without new rows after which reading ends; by default it never does.
        options : mapping of str to str, optional
            Read options of docs/options.md.

        Yields
        ------
        NewRows
            Rows, with the position after them.

        Raises
        ------
        DataLossError
            If events were removed before they were read.
        CheckpointError
            If the position belongs to another stream.

        Examples
        --------
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> for new in pravega.load_table("iot.sensor").follow(timeout=10):
        ...     print(new.rows.num_rows, new.position)
        """
        given = {**(options or {}), **make_bound_options(start, None)}
        described = self._load(given)
        names = described.schema.names if columns is None else columns
        check_columns(described, names)
        request = FollowRequest(tuple(names), filter, position, available_now, timeout, given)
        return follow(self._catalog, described, request)

    def add_column(self, field: pa.Field, *, after: str | None = None, first: bool = False) -> None:
        """Add a column; rows that exist already have null for it.

        This and the other methods that change columns register a new version of the schema, which the table's
        compatibility policy must allow.

        Parameters
        ----------
        field : pyarrow.Field
            The column. A field within a column is named by its path, as in SQL: `position.height`,
            `readings.element.unit`.
        after : str, optional
            The column that it follows; by default it is the last one.
        first : bool, default False
            Whether it is the first column.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If the column exists already, or `after` does not.
        UnsupportedTypeError
            If `field` is not a field, or its type is one that events cannot hold.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> pravega.load_table("iot.sensor").add_column(pa.field("note", pa.string()))
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
        """Drop a column; the events keep its values.

        Parameters
        ----------
        name : str
            The name of the column, or the path of a field within a column.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If there is no such column.
        """
        self._alter(TableChange("DeleteColumn", None, None, self._split_path(name)))

    def rename_column(self, name: str, to: str) -> None:
        """Rename a column.

        Parameters
        ----------
        name : str
            The name of the column, or the path of a field within a column.
        to : str
            The new name, without the path.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If there is no such column, or one has the new name already.
        """
        self._alter(TableChange("RenameColumn", None, to, self._split_path(name)))

    def widen_column(self, name: str, type: pa.DataType) -> None:
        """Give a column a type that holds all its values, such as int64 for int32.

        Parameters
        ----------
        name : str
            The name of the column, or the path of a field within a column.
        type : pyarrow.DataType
            The new type.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If there is no such column.
        UnsupportedTypeError
            If events cannot hold the new type.
        """
        path = self._split_path(name)
        column = StructType([StructField(path[-1], to_spark_type(name, type))])
        self._alter(TableChange("UpdateColumnType", None, None, path, column))

    def allow_null(self, name: str) -> None:
        """Let a column be null.

        Parameters
        ----------
        name : str
            The name of the column, or the path of a field within a column.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If there is no such column.
        """
        self._alter(TableChange("UpdateColumnNullability", None, "true", self._split_path(name)))

    def comment_column(self, name: str, comment: str) -> None:
        """Set the comment of a column.

        Parameters
        ----------
        name : str
            The name of the column, or the path of a field within a column.
        comment : str
            The comment; the empty text removes it.

        Raises
        ------
        UnsupportedOperationError
            If older events could not be read after the change.
        IncompatibleSchemaError
            If the policy does not allow the change.
        InvalidOptionError
            If there is no such column.
        """
        self._alter(TableChange("UpdateColumnComment", None, comment, self._split_path(name)))

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Set properties of the table.

        Parameters
        ----------
        properties : mapping of str to str or None
            The properties as `create_table` takes them; None removes one.

        Raises
        ------
        InvalidOptionError
            If a property is wrong, or cannot be changed.
        """
        self._alter(
            *(
                TableChange("RemoveProperty" if text is None else "SetProperty", key, text)
                for key, text in properties.items()
            )
        )

    def history(self, newest: int | None = None) -> list[TableVersion]:
        """List the versions of the table, one for each commit of an INSERT, of `append` or of a streaming query.

        Parameters
        ----------
        newest : int, optional
            How many of the newest versions to list; by default all.

        Returns
        -------
        list of TableVersion
            The versions, the oldest first.

        Raises
        ------
        InvalidOptionError
            If `newest` is less than 1.
        UnsupportedOperationError
            For a key-value table and for several streams, which have no versions.

        Examples
        --------
        >>> from pyspark_pravega.catalog import connect
        >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
        >>> table = pravega.load_table("iot.sensor")
        >>> for version in table.history(newest=2):
        ...     print(version.version, version.operation, version.rows)
        """
        return list_versions(self._catalog, self._described.table, newest)

    def size(self, start: str | None = None) -> TableSize:
        """Measure the table.

        Parameters
        ----------
        start : str, optional
            The text of a stream cut, after which events count; by default all events count.

        Returns
        -------
        TableSize
            The number of segments that take appends, and the bytes of the events.

        Raises
        ------
        InvalidOptionError
            If `start` is not a stream cut of the table's stream.
        UnsupportedOperationError
            For a key-value table and for several streams.
        """
        return measure_table(self._catalog, self._described.table, start)

    def schema_versions(self) -> list[TableSchema]:
        """List the versions of the schema in the registry.

        Returns
        -------
        list of TableSchema
            The versions, the oldest first; none without a registry.

        Raises
        ------
        UnsupportedOperationError
            For a key-value table and for several streams.
        """
        return list_schemas(self._catalog, self._described.table)

    def _load(self, options: Mapping[str, str]) -> TableDescription:
        return self._named.load_for("load_table", options)

    def _split_path(self, name: str) -> tuple[str, ...]:
        """Return the parts of a name: several of a field within a column, one if a column has the whole name."""
        names = self._described.schema.names
        parts = (name,) if name in names else split_name(name)
        return parts if parts[0] in names else (name,)

    def _alter(self, *changes: TableChange) -> None:
        self._named.alter(changes)
        self.refresh()
