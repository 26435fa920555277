"""Columns that a table has besides those of its events: the place of an event, why it is bad, the kind of a change."""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidSchemaError

HIDDEN_COLUMNS: dict[str, tuple[T.StructField, str]] = {
    "_segment": (T.StructField("_segment", T.StringType(), False), "Name of the segment that holds the event."),
    "_offset": (T.StructField("_offset", T.LongType(), False), "Byte offset of the event in its segment."),
    "_event_pointer": (
        T.StructField("_event_pointer", T.StringType(), False),
        "The event's pointer in the text form of Pravega's Java client.",
    ),
    "_error": (
        T.StructField("_error", T.StringType(), True),
        "Why the event cannot be decoded, with 'mode'='permissive'; null for a good event.",
    ),
    "_raw": (T.StructField("_raw", T.BinaryType(), False), "The event's bytes as stored, registry header included."),
    "_encoding_id": (
        T.StructField("_encoding_id", T.IntegerType(), True),
        "The encoding id in the event's registry header; null when it has none.",
    ),
    "_event_time": (
        T.StructField("_event_time", T.TimestampType(), True),
        "The newest watermark of the stream's writers before the event; null when there is none.",
    ),
    "_event_time_upper": (
        T.StructField("_event_time_upper", T.TimestampType(), True),
        "The latest time that a writer had noted at the next watermark after the event; null when there is none yet.",
    ),
    "_schema_version": (
        T.StructField("_schema_version", T.IntegerType(), True),
        "The version of its type's schema that the event was written with; null when it is not known.",
    ),
}
"""Hidden columns by name, each with its comment. A data column of the same name takes precedence."""

ORIGIN_COLUMNS: dict[str, tuple[T.StructField, str]] = {
    "_stream": (T.StructField("_stream", T.StringType(), False), "Name of the stream that holds the event."),
    "_scope": (T.StructField("_scope", T.StringType(), False), "Scope of the stream that holds the event."),
}
"""Hidden columns of several streams that are read as one, besides HIDDEN_COLUMNS."""

VERSION_COLUMNS: dict[str, tuple[T.StructField, str]] = {
    "_commit_version": (
        T.StructField("_commit_version", T.LongType(), True),
        "The version of the table that the event came with; null when it has none yet.",
    ),
    "_commit_timestamp": (
        T.StructField("_commit_timestamp", T.TimestampType(), True),
        "When that version was published.",
    ),
}
"""Hidden columns of the events of one stream, besides HIDDEN_COLUMNS."""

FORMER_ROW = "_former_row"
"""A column of tables of changes for UPDATE, DELETE and MERGE alone: the row as one struct."""

POSITION_COLUMNS = ("_segment", "_offset", "_event_pointer")
"""The ones that readers without hidden columns always get."""

TIME_COLUMNS = ("_event_time", "_event_time_upper")
"""The ones whose values come from the stream's watermarks."""

REACHED_COLUMN = T.StructField("_reached", T.LongType(), False)
"""The column after the counts in real-time mode: all events up to this offset have been read with this row."""

CHANGE_COLUMNS = T.StructType(
    [
        T.StructField("_change_type", T.StringType(), False),
        T.StructField("_commit_version", T.LongType(), False),
        T.StructField("_commit_timestamp", T.TimestampType(), True),
    ]
)
"""The columns that CHANGES has in Spark after those of the table."""


def map_fields_by_name(columns: T.StructType) -> dict[str, T.StructField]:
    """Return the columns that a query can name: those of the table, and hidden ones with other names."""
    hidden = {name: field for name, (field, _) in (HIDDEN_COLUMNS | ORIGIN_COLUMNS | VERSION_COLUMNS).items()}
    return {**hidden, **{field.name: field for field in columns}}


def make_changes_schema(table: T.StructType, key: Sequence[str]) -> T.StructType:
    """Return the columns of a table followed by CHANGE_COLUMNS. `key` are those of its primary key, if any.

    Raises InvalidSchemaError when a column of the table has the name of one of CHANGE_COLUMNS.
    """
    taken = [name for name in table.names if name.lower() in CHANGE_COLUMNS.names]
    if taken:
        raise InvalidSchemaError(
            f"The table has the column {', '.join(taken)}, a name that CHANGES uses for its own column. Read the "
            "table without CHANGES."
        )
    columns = [T.StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in table]
    return T.StructType([*columns, *CHANGE_COLUMNS.fields])
