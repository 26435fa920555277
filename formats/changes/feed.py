"""Defines formats whose events are changes of rows: the changelog they decode to, and their tables' settings.

A change format (`Format.changes`) speaks of two schemas. Its schema text, `spark_schema` and the encoder are about the
rows of the table. Its decoder gives the changelog of such rows: one row per event, with the columns of
`changelog_schema`, so that it can be asked for any of these, nested ones cut down like others. Events of other
programs are recognised, so that the advice in their errors is about what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import pyarrow as pa
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidOptionError, UnsupportedTypeError

from ..core.arrow_types import find_arrow_type
from ..core.columns import find_column
from ..core.events import EventBuffer, EventPositions
from ..core.format import Encoder, Format, Settings, find_format
from ..core.spark_types import make_nullable
from ..core.times_of_day import UNITS

CREATE, UPDATE, DELETE, READ, TRUNCATE, MESSAGE = OPERATIONS = ("c", "u", "d", "r", "t", "m")
"""Debezium's letters, for all formats: created, updated, deleted, read in a snapshot, table truncated, message."""

UPSERTS = (CREATE, UPDATE, READ)

PRIMARY_KEY = "primary-key"
TIME_UNITS = "debezium.time-units"
TIME_PRECISION = "debezium.time-precision"
DECIMAL = "debezium.decimal"
BINARY = "debezium.binary"
UNAVAILABLE_VALUE = "debezium.unavailable-value"
AVRO_SCHEMAS = "debezium.avro-schemas"
SNAPSHOTS = "debezium.snapshots"
INFER_COLUMNS = "infer-columns"
WRITTEN_AT = "written-at"
"""Not an option: milliseconds since 1970 that an INSERT puts into its events, the same in every task and retry."""

OWN_CONNECTOR = "pyspark-pravega"
"""The name of the connector in the events that this software writes."""

DEFAULT_UNAVAILABLE_VALUE = "__debezium_unavailable_value"

POSITION = T.StructType(
    [
        T.StructField("origin", T.StringType()),
        T.StructField("major", T.LongType()),
        T.StructField("minor", T.LongType()),
        T.StructField("row", T.LongType()),
        T.StructField("time", T.TimestampType()),
    ]
)
"""The place of a change in the database's log. Positions of one `origin` (connector, server) are ordered by `major`,
`minor`, `row`: the LSN in PostgreSQL; number of the binlog file, position and row in MySQL; SCN or LSN elsewhere.
`time` is when the database committed the change, or read the row for a snapshot."""

MARKS = T.StructField(
    "marks", T.StructType([T.StructField("snapshot", T.StringType()), T.StructField("row", T.LongType())])
)
"""A column of decoders, not of changelogs: `snapshot` and `row` of the source, to count rows without a primary key."""

READ_BY_SNAPSHOT = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last")
"""What `source.snapshot` says of rows that a snapshot of whole tables has read. Debezium writes them with `op` `r`, its
transformation ReadToInsertEvent makes `c` of this. Rows of incremental snapshots have `incremental` there."""

_ATOMIC_BUT_NO_KEY = (T.FloatType, T.DoubleType, T.ArrayType, T.MapType, T.StructType, T.VariantType)


@dataclass(frozen=True)
class RowChanges:
    """Changes of rows: for each an operation (c, u or d), and the row `before` and `after` it.

    A row that is only repeated has the operation r. A row is a struct of the table's columns, null where there is none.
    """

    operations: pa.Array
    before: pa.StructArray
    after: pa.StructArray


class ChangeEncoder(Encoder, Protocol):
    """Writes rows as creations, and changes of rows."""

    def encode_changes(self, changes: RowChanges) -> pa.LargeBinaryArray:
        """Return the payload of each change; null for an update that leaves its row as it is.

        Raises InvalidRowError naming the column for a row that the schema does not allow.
        """
        ...


class ChangeFormat(Format, Protocol):
    """A format whose events are changes of rows."""

    def infer_columns(self, tails: Iterable[EventBuffer], settings: Settings) -> T.StructType | None:
        """Return the columns of the rows by the newest schema that comes with some events; None if none has one.

        Each of `tails` has the last events of one segment. Events that cannot be decoded are skipped, as the first
        bytes of a tail may not be an event. Raises UnsupportedTypeError for schemas that contradict each other.
        """
        ...

    def truncate_candidates(self, events: EventBuffer) -> EventPositions:
        """Return the events that may be truncations, found without decoding them. No other event is one."""
        ...


def find_change_format(name: str) -> ChangeFormat:
    """Return the change format of this name. Raises InvalidOptionError for any other."""
    change_format = find_format(name)
    if not is_change_format(name):
        raise InvalidOptionError(f"events of the format '{name}' are not changes of rows")
    return cast(ChangeFormat, change_format)


def is_change_format(name: str) -> bool:
    """Return whether events of this format are changes of rows. Raises InvalidOptionError for an unknown format."""
    return bool(getattr(find_format(name), "changes", False))  # formats of other distributions may lack it


def changelog_schema(table: T.StructType) -> T.StructType:
    """Return the columns of the changelog of a table with these columns.

    * `op`: one of OPERATIONS; null for an event that changes no row (tombstone, heartbeat, transaction metadata,
      schema change), so that there is one row for each event.
    * `before`, `after`: the row, as far as the event contains it.
    * `source`: the source block of the event as texts, nested values as JSON.
    * `ts`: when the connector handled the change.
    * `unavailable`: columns that the database did not send, as they had not changed; they are null in `after`.
    * `position`: the place of the change in the database's log, see POSITION.
    """
    image = make_nullable(table)
    return T.StructType(
        [
            T.StructField("op", T.StringType()),
            T.StructField("before", image),
            T.StructField("after", image),
            T.StructField("source", T.MapType(T.StringType(), T.StringType())),
            T.StructField("ts", T.TimestampType()),
            T.StructField("unavailable", T.ArrayType(T.StringType(), containsNull=False)),
            T.StructField("position", POSITION),
        ]
    )


def make_table_schema(columns: T.StructType, settings: Settings) -> T.StructType:
    """Return the columns of a change table as they are read: all nullable except those of the primary key.

    Events from before a column was added have no value for it, even if the database has one now.
    """
    key = list_key_columns(settings)
    return T.StructType([T.StructField(f.name, f.dataType, f.name not in key, f.metadata) for f in columns.fields])


def list_key_columns(settings: Settings) -> list[str]:
    """Return the columns of the property `primary-key`, in its order; none if it is not set."""
    return [name for part in settings.get(PRIMARY_KEY, "").split(",") if (name := part.strip())]


def parse_time_units(settings: Settings) -> dict[str, str]:
    """Return the units of the property `debezium.time-units` by column. Raises InvalidOptionError for a wrong one."""
    text = settings.get(TIME_UNITS, "")
    pairs: dict[str, str] = {}
    if text.lstrip().startswith("{"):
        try:
            units = json.loads(text)
        except ValueError as error:
            raise InvalidOptionError(f"'{TIME_UNITS}' is not a JSON object: {error}") from None
        pairs = {str(column): str(unit) for column, unit in units.items()}
    else:
        for part in filter(None, map(str.strip, text.split(","))):
            column, _, unit = part.rpartition("=")
            pairs[column.strip()] = unit.strip()
    for column, unit in pairs.items():
        if unit not in UNITS or not column:
            raise InvalidOptionError(
                f"'{TIME_UNITS}'='{text}' is not valid: '{column}={unit}' should be a column and one of "
                f"{', '.join(UNITS)}, for example 'created=ms,updated=us'"
            )
    return pairs


def check_settings(columns: T.StructType, settings: Settings) -> dict[str, str]:
    """Return the settings, with column names spelled as in the table.

    Raises InvalidOptionError for columns that the table does not have, UnsupportedTypeError for a primary key of a
    type whose values cannot identify rows.
    """
    checked = dict(settings)
    if PRIMARY_KEY in checked:
        key = [find_column(PRIMARY_KEY, name, columns).name for name in list_key_columns(settings)]
        if not key or len(set(key)) != len(key):
            raise InvalidOptionError(
                f"'{PRIMARY_KEY}'='{checked[PRIMARY_KEY]}' should name one or more different columns, such as 'id' or "
                "'order_id,line_no'"
            )
        for name in key:
            _check_key_type(name, columns[name].dataType)
        checked[PRIMARY_KEY] = ",".join(key)
    elif settings.get(SNAPSHOTS, "").lower() == "partial":
        raise InvalidOptionError(
            f"'{SNAPSHOTS}'='partial' cannot be used without a primary key, which identifies the rows that a "
            f"snapshot reads again. Set '{PRIMARY_KEY}', or leave the property out if snapshots read the whole table."
        )
    for column in parse_time_units(settings):
        find_column(TIME_UNITS, column, columns)
    return checked


def _check_key_type(name: str, data_type: T.DataType) -> None:
    if isinstance(data_type, _ATOMIC_BUT_NO_KEY):
        raise UnsupportedTypeError(
            f"'{PRIMARY_KEY}' names the column {name} of type {data_type.simpleString()}, whose values cannot "
            "identify rows. A primary key consists of strings, whole numbers, decimals, booleans, dates, timestamps "
            "or bytes."
        )


def encode_utf8(text: object) -> bytes:
    """Return the bytes of a text from JSON, with a replacement for halves of surrogate pairs."""
    return str(text).encode("utf-8", "replace")


def replace_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which are not characters to Arrow."""
    return text if text.isascii() else encode_utf8(text).decode()


POSITION_TYPE = find_arrow_type(POSITION)
"""The Arrow type of POSITION."""


DEBEZIUM_JSON, MAXWELL_JSON = "debezium-json", "maxwell-json"

_CLOUD_EVENT = {"specversion", "type"}
_CANAL = ("isDdl", "mysqlType", "pkNames")
_MAXWELL = {"database", "table", "type", "data"}


def find_advice(event: Mapping[str, Any], format: str) -> str | None:
    """Return what an event is and how to read it, None if its program is unknown. `format` has tried to read it."""
    data, metadata = event.get("data"), event.get("metadata")
    if event.keys() >= _CLOUD_EVENT:
        return (
            "it is a CloudEvent, which wraps the change; let the connector write the change itself: "
            "'value.converter'='org.apache.kafka.connect.json.JsonConverter', or in Debezium Server "
            "'debezium.format.value'='json'"
        )
    if any(name in event for name in _CANAL):
        return (
            "it is a Canal event, which holds several rows; Canal is not supported: capture the changes with "
            "Debezium or Maxwell, or read its events as they are with 'format'='json'"
        )
    if type(metadata) is dict and "record-type" in metadata:
        return (
            "it is an AWS DMS event, which is not supported as a change; read it as it is with 'format'='json' and "
            "the columns 'data' and 'metadata'"
        )
    if "op_type" in event:
        return (
            "it is an Oracle GoldenGate event, which is not supported as a change; read it as it is with "
            "'format'='json'"
        )
    if format != DEBEZIUM_JSON and type(event.get("op")) is str and type(event.get("source")) is dict:
        return "it is a Debezium change event; set 'format'='debezium-json'"
    if format != MAXWELL_JSON and event.keys() >= _MAXWELL and type(data) is dict:
        return "it is a Maxwell event; set 'format'='maxwell-json'"
    return None
