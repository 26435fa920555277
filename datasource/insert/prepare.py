"""Prepares a table for one write: with the write's own routing key and codec, checked before any event is sent."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import BooleanType, StringType, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.framing import CONFLUENT
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import Option

from ..tables.hidden_columns import HIDDEN_COLUMNS
from ..tables.named_columns import RoutingKey, resolve_event_time_column
from ..tables.open_table import OpenTable
from ..tables.stream_table import REGISTRY_CODECS, StreamTable
from ..tables.table_settings import count_milliseconds, describe_missing_event_time
from .commit import WriteSettings
from .ledger import Epoch

TRANSACTIONAL = "transactional"
BEST_EFFORT = "best-effort"


def apply_write_options(opened: OpenTable) -> StreamTable:
    """Return the table with the routing key, the event time and the codec of one write.

    Raises InvalidOptionError for a codec that does not fit, and for a delay without an event time, and
    UnsupportedOperationError for a table that is read only.
    """
    table, options = opened.table, opened.options
    if table.framing == CONFLUENT:
        raise UnsupportedOperationError(
            f"Stream {table.stream} has 'framing'='{CONFLUENT}', which can only be read: what writes its events "
            "registers their schemas in Confluent's registry. Write with that program."
        )
    if options.source(o.ROUTING_KEY) is o.Source.QUERY:
        table = replace(table, routing_key=options.get(o.ROUTING_KEY))
    if options.source(o.EVENT_TIME) is o.Source.QUERY:
        table = replace(table, event_time=options.get(o.EVENT_TIME))
    if options.source(o.EVENT_TIME_DELAY) is o.Source.QUERY:
        if table.event_time is None:
            raise InvalidOptionError(describe_missing_event_time(options))
        table = replace(table, event_time_delay=count_milliseconds(options.get(o.EVENT_TIME_DELAY)))
    if options.source(o.CODEC) is o.Source.QUERY and options.get(o.CODEC) != table.codec:
        table = _set_codec(opened.pravega, table, options.get(o.CODEC))
    return table


def fit_to_rows(table: StreamTable, rows: StructType) -> StreamTable:
    """Return the table with its routing key and event time spelled like the columns of the rows.

    Raises InvalidSchemaError for columns that do not fit the table, InvalidOptionError for a key or time that is not
    among them, and for a key other than the table's promised routing key.
    """
    try:
        table.make_encoder(rows, 0 if table.framed else None)
    except InvalidSchemaError as error:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
        hidden = [f"'{name}'" for name in rows.names if name in HIDDEN_COLUMNS and name not in table.schema.names]
        drop = f" Leave out the columns that say where an event was read: .drop({', '.join(hidden)})." if hidden else ""
        raise InvalidSchemaError(
            f"The rows do not fit stream {table.stream}: {error.message}. Its columns are {columns}.{drop}"
        ) from None
    if table.routing_key is not None:
        table = replace(table, routing_key=str(RoutingKey.of(table.routing_key, rows)))
    if not _is_promise_kept(table, rows):
        raise InvalidOptionError(
            f"{_describe_key(table)}, but stream {table.stream} promises by '{o.ROUTING_KEY_OF_ALL.key}' that all its "
            f"events have the routing key '{table.promised_key}': queries rely on it to leave segments out. Write with "
            f"that key, or first end the promise by ALTER TABLE ... SET TBLPROPERTIES "
            f"('{o.ROUTING_KEY_OF_ALL.key}'='false')."
        )
    if table.event_time is not None:
        table = replace(table, event_time=resolve_event_time_column(table.event_time, rows))
    return table


def _is_promise_kept(table: StreamTable, rows: StructType) -> bool:
    key, promised = table.routing_key, table.promised_key
    if key is None or promised is None or promised in rows.names:
        return promised in (None, key)
    return RoutingKey.of(key, rows).is_same(RoutingKey.of(promised, rows))  # a column's name may change in case


def _describe_key(table: StreamTable) -> str:
    if table.routing_key is None:
        return "The rows would be written without a routing key"
    return f"'{o.ROUTING_KEY.key}'='{table.routing_key}' would be the routing key of the rows"


def find_marking_column(rows: StructType, options: o.Options, option: Option[str | None]) -> str | None:
    """Return the column that STREAM_COLUMN or DELETE_COLUMN names: of each row's stream, or of whether it is deleted.

    None if there is none. Raises InvalidOptionError for one that the rows do not have, or whose type is another, and
    for a write without transactions.
    """
    name = options.get(option)
    if name is None:
        return None
    setting = f"'{options.name(option)}'='{name}'"
    if (mode := options.get(o.WRITE_MODE)) != TRANSACTIONAL:
        raise InvalidOptionError(
            f"{setting} needs transactions, but '{options.name(o.WRITE_MODE)}'='{mode}' asks for none. Leave one of "
            "them out."
        )
    columns = [name] if name in rows.names else [one for one in rows.names if one.lower() == name.lower()]
    if len(columns) != 1:
        raise InvalidOptionError(
            f"{setting} is not a column of the rows, which have {', '.join(rows.names)}. Name one of these. "
            "Rows of start_query have the columns of the table: add the column to it."
        )
    column, of = rows[columns[0]], StringType() if option is o.STREAM_COLUMN else BooleanType()
    if column.dataType != of:
        raise InvalidOptionError(
            f"{setting} is a column of type {column.dataType.simpleString()}, but should be a "
            f"{of.simpleString().upper()}."
        )
    return column.name


def choose_rows_to_write(table: StreamTable, rows: StructType, options: o.Options) -> StructType:
    """Return the columns of the rows without the one that names streams, unless the table has it too.

    Raises the errors of `find_marking_column`.
    """
    column = find_marking_column(rows, options, o.STREAM_COLUMN)
    if column is None or column.lower() in (name.lower() for name in table.schema.names):
        return rows
    return StructType([field for field in rows if field.name != column])


def refuse_columns(options: o.Options, why: str, *refused: Option[str | None]) -> None:
    """Raise InvalidOptionError for options that name a column with a meaning that it cannot have; `why` says where."""
    for option in refused:
        if options.get(option) is not None:
            raise InvalidOptionError(
                f"'{options.name(option)}'='{options.text(option)}' is not supported {why}. Leave it out."
            )


def write_settings(options: o.Options) -> WriteSettings:
    """Read how to write from resolved options."""
    return WriteSettings(
        lease=options.get(o.TRANSACTION_LEASE).total_seconds(),
        commit_timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds(),
        spool_memory=options.get(o.SPOOL_MEMORY),
    )


def find_epoch_of_application(options: o.Options) -> Epoch | None:
    """Return the epoch that the options `txn-app-id` and `txn-version` name, None without them.

    Raises InvalidOptionError for one without the other, and for a write without a transaction.
    """
    application, version = options.get(o.TXN_APP_ID), options.get(o.TXN_VERSION)
    if application is None and version is None:
        return None
    if application is None or version is None:
        present, missing = (o.TXN_VERSION, o.TXN_APP_ID) if application is None else (o.TXN_APP_ID, o.TXN_VERSION)
        raise InvalidOptionError(
            f"'{options.name(present)}'='{options.text(present)}' needs '{missing.key}' too: both together name a "
            "write, which then happens once. Give both, or neither."
        )
    if (mode := options.get(o.WRITE_MODE)) != TRANSACTIONAL:
        raise InvalidOptionError(
            f"'{options.name(o.TXN_APP_ID)}' makes a write happen once, which '{options.name(o.WRITE_MODE)}'='{mode}' "
            "does not promise. Leave one of them out."
        )
    return Epoch.of_application(application, version)


def _set_codec(pravega: Pravega, table: StreamTable, codec: str) -> StreamTable:
    if not table.framed:
        raise InvalidOptionError(
            f"'codec'='{codec}' needs events with the schema registry's header, which stream {table.stream} does not "
            "have. Leave 'codec' out."
        )
    if codec != "none":
        pravega.registry(table.stream.scope).add_codec(table.stream.name, REGISTRY_CODECS[codec])
    return replace(table, codec=codec)
