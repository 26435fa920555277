"""Columns that a table has besides those of its events: the place of an event, why it is bad, the kind of a change."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.errors import InvalidSchemaError

HIDDEN_COLUMNS: dict[str, tuple[StructField, str]] = {
    "_segment": (StructField("_segment", StringType(), False), "Name of the segment that holds the event."),
    "_offset": (StructField("_offset", LongType(), False), "Byte offset of the event in its segment."),
    "_event_pointer": (
        StructField("_event_pointer", StringType(), False),
        "The event's pointer in the text form of Pravega's Java client.",
    ),
    "_error": (
        StructField("_error", StringType(), True),
        "Why the event cannot be decoded, with 'mode'='permissive'; null for a good event.",
    ),
    "_raw": (StructField("_raw", BinaryType(), False), "The event's bytes as stored, registry header included."),
    "_encoding_id": (
        StructField("_encoding_id", IntegerType(), True),
        "The encoding id in the event's registry header; null when it has none.",
    ),
    "_event_time": (
        StructField("_event_time", TimestampType(), True),
        "The newest watermark of the stream's writers before the event; null when there is none.",
    ),
    "_event_time_upper": (
        StructField("_event_time_upper", TimestampType(), True),
        "The latest time that a writer had noted at the next watermark after the event; null when there is none yet.",
    ),
    "_schema_version": (
        StructField("_schema_version", IntegerType(), True),
        "The version of its type's schema that the event was written with; null when it is not known.",
    ),
}
"""Hidden columns by name, each with its comment. A data column of the same name takes precedence."""

ORIGIN_COLUMNS: dict[str, tuple[StructField, str]] = {
    "_stream": (StructField("_stream", StringType(), False), "Name of the stream that holds the event."),
    "_scope": (StructField("_scope", StringType(), False), "Scope of the stream that holds the event."),
}
"""Hidden columns of several streams that are read as one, besides HIDDEN_COLUMNS."""

POSITION_COLUMNS = ("_segment", "_offset", "_event_pointer")
"""The ones that readers without hidden columns always get."""

TIME_COLUMNS = ("_event_time", "_event_time_upper")
"""The ones whose values come from the stream's watermarks."""

REACHED_COLUMN = StructField("_reached", LongType(), False)
"""The column after the counts in real-time mode: all events up to this offset have been read with this row."""

CHANGE_COLUMNS = StructType(
    [
        StructField("_change_type", StringType(), False),
        StructField("_commit_version", LongType(), False),
        StructField("_commit_timestamp", TimestampType(), True),
    ]
)
"""The columns that CHANGES has in Spark after those of the table."""


def map_fields_by_name(columns: StructType) -> dict[str, StructField]:
    """Return the columns that a query can name: those of the table, and hidden ones with other names."""
    hidden = {name: field for name, (field, _) in (HIDDEN_COLUMNS | ORIGIN_COLUMNS).items()}
    return {**hidden, **{field.name: field for field in columns}}


def make_changes_schema(table: StructType, key: Sequence[str]) -> StructType:
    """Return the columns of a table followed by CHANGE_COLUMNS. `key` are those of its primary key, if any.

    Raises InvalidSchemaError when a column of the table has the name of one of CHANGE_COLUMNS.
    """
    taken = [name for name in table.names if name.lower() in CHANGE_COLUMNS.names]
    if taken:
        raise InvalidSchemaError(
            f"The table has the column {', '.join(taken)}, a name that CHANGES uses for its own column. Read the "
            "table without CHANGES."
        )
    columns = [StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in table]
    return StructType([*columns, *CHANGE_COLUMNS.fields])
