"""Sets up tables that `writeStream.toTable` makes: Spark makes them first and passes the query's options later."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, StreamExistsError, UnsupportedOperationError
from pyspark_pravega.sql.options import DELETE_COLUMN, PRIMARY_KEY, SettableAs, find_option
from pyspark_pravega.sql.refusals import describe_changes_refusal, describe_key_value_refusal, describe_refusal

from ..creation.making import create
from ..creation.new_key_value_table import is_key_value_table
from ..name_resolution import find_in_scope
from ..protocol.service_replies import TableDescription
from ..protocol.table_requests import CreateTable, Identifier
from ..storage.catalogs import Catalog
from ..storage.dropping import drop_stream
from ..storage.reporting import prefix_errors
from ..writing.insert_start import select_write_options

_APPEND, _UPDATE, _COMPLETE = "append", "update", "complete"


def settle(
    catalog: Catalog, table: StreamTable, schema: StructType, options: Mapping[str, str], output_mode: str
) -> TableDescription:
    """Create a table that toTable has just made again, with the properties among the query's options; return it.

    Drops the table and raises UnsupportedOperationError for an output mode that tables do not have, or
    InvalidOptionError for an option that a write does not have. Raises StreamExistsError if another program has written
    to the table, and the errors of `create`.
    """
    stream = table.stream
    scope, name = table.asked.called or (stream.scope, stream.name)
    shown = catalog.named(scope, name)
    options_by_key = {
        key: option
        for key in options
        if (option := find_option(key)) is not None and SettableAs.PROPERTY in option.allowed
    }
    properties = {option.key: options[key] for key, option in options_by_key.items()}
    has_entries, has_changes = is_key_value_table(properties), PRIMARY_KEY.key in properties
    modes = (_APPEND, *((_UPDATE,) if has_entries or has_changes else ()), *((_COMPLETE,) if has_changes else ()))
    try:
        if output_mode not in modes:
            refused = describe_changes_refusal if has_changes else describe_refusal
            refused = describe_key_value_refusal if has_entries else refused
            raise UnsupportedOperationError(refused(f"writeStream.outputMode('{output_mode}')", shown))
        with prefix_errors("Table", shown):
            rest = {key: text for key, text in options.items() if key not in options_by_key}
            catalog.options(properties=properties, write=select_write_options(table, rest))
    except (UnsupportedOperationError, InvalidOptionError):
        if not _is_written(catalog, stream):
            drop_stream(catalog, stream)
        raise
    if not properties:
        return find_in_scope(catalog, Identifier((scope,), name)).load_table({})
    if _is_written(catalog, stream):
        raise StreamExistsError(
            f"Table {shown} was created for this query, but somebody has written to it, so these properties "
            f"could no longer be set: {', '.join(sorted(properties))}. Drop it, or leave these options out."
        )
    drop_stream(catalog, stream)
    deleted = options.get(DELETE_COLUMN.key, "").lower()  # a column of the query that the table does not get
    schema = StructType([field for field in schema if field.name.lower() != deleted])
    return create(catalog, CreateTable.of((scope,), name, schema, properties, adopt=False))


def _is_written(catalog: Catalog, stream: Stream) -> bool:
    return any(measure_tail(catalog.pravega, stream).positions.values()) or bool(
        CommitLog(catalog.pravega, stream).versions()
    )
