"""The columns of a lake's table: those of a stream's table, and where each event lies in the stream."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedTypeError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.spark_types import convert_parts
from pyspark_pravega.sql import options as o

from ..tables.hidden_columns import HIDDEN_COLUMNS, VERSION_COLUMNS
from ..tables.table_settings import OF_LAKE, TableSettings

SEGMENT, OFFSET, LENGTH = "_segment", "_offset", "_event_length"
ENCODING, ERROR, RAW = "_encoding_id", "_error", "_raw"
VERSION, TIME = VERSION_COLUMNS
OF_PLACE: dict[str, tuple[pa.DataType, str]] = {
    SEGMENT: (pa.string(), "Name of the segment that holds the event."),
    OFFSET: (pa.int64(), "Byte offset of the event in its segment."),
    LENGTH: (pa.int32(), "Bytes of the event, without the header of its frame."),
    ENCODING: (pa.int32(), HIDDEN_COLUMNS[ENCODING][1]),
    ERROR: (pa.string(), "Why the event could not be decoded; null for a good event."),
    RAW: (pa.binary(), "The bytes of a change, or of an event that could not be decoded; null for others."),
    VERSION: (pa.int64(), "Version of the table that the event came with; null if it had none yet."),
    TIME: (pa.timestamp("us", "UTC"), "When that version was published."),
}
"""The columns after those of the table, with their comments. Within a segment, offsets say the order of the events."""
UNITS = {"hour": "h", "day": "D", "month": "M"}
"""The units of `TIME` by which lakes may be partitioned, and their names in numpy."""
_REFUSED = (T.VariantType, T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType, T.NullType)


def check_lake_settings(columns: T.StructType, settings: TableSettings) -> None:
    """Raise InvalidOptionError for settings about a lake without one, and the errors of `make_lake_schema`.

    `columns` are those of the rows that are events.
    """
    if o.LAKE.key in settings.scan_properties:
        make_lake_schema(columns)
        return
    for option in OF_LAKE:
        if option.key in settings.scan_properties:
            raise InvalidOptionError(f"'{option.key}' needs '{o.LAKE.key}', the table that keeps events longer.")


def make_lake_schema(columns: T.StructType) -> pa.Schema:
    """Return the columns of the lake's table of a table with these columns, all of them nullable.

    Raises UnsupportedTypeError for a column whose type Iceberg does not have, and InvalidSchemaError for a column with
    the name of one of OF_PLACE, or of a partition.
    """
    for column in columns:
        if column.name.lower() in {*OF_PLACE, *(f"{TIME}_{unit}" for unit in UNITS)}:
            raise InvalidSchemaError(
                f"Column {column.name} has the name of one that a lake's table has for the places of events, or for "
                "its partitions. A table with such a column cannot have a lake."
            )
    fields = [T.StructField(column.name, _find_type(column.name, column.dataType)) for column in columns]
    own = [pa.field(name, type) for name, (type, _) in OF_PLACE.items()]
    return pa.schema([*arrow_schema(T.StructType(fields)), *own])


def _find_type(name: str, data_type: T.DataType) -> T.DataType:
    """Return the type of a column, or of a part of it, in a lake: Iceberg has no small whole numbers."""
    for part in [name, *(data_type.names if isinstance(data_type, T.StructType) else [])]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
            raise InvalidSchemaError(
                f"'{part}' in column {name} is a name that writers of Iceberg spell otherwise in files: only letters, "
                "digits and _ stay as they are. A table with such a name cannot have a lake."
            )
    if isinstance(data_type, _REFUSED):
        raise UnsupportedTypeError(
            f"Column {name} has the type {data_type.simpleString()}, which Iceberg's tables do not have. A table with "
            "such a column cannot have a lake."
        )
    if isinstance(data_type, (T.ByteType, T.ShortType)):
        return T.IntegerType()
    return convert_parts(data_type, lambda part: _find_type(name, part))


def convert_batch(batch: pa.RecordBatch, schema: pa.Schema, *, whole: bool) -> pa.RecordBatch:
    """Return decoded events, with their hidden columns, in the columns of the lake's table.

    With `whole`, good events keep their bytes too.
    """
    error, raw = batch.column(ERROR), batch.column(RAW)
    kept = raw if whole else pc.if_else(pc.is_valid(error), raw, pa.scalar(None, raw.type))
    made = {LENGTH: pc.binary_length(raw), RAW: kept}
    columns = [made[field.name] if field.name in made else batch.column(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
