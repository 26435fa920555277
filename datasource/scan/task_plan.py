"""What the tasks of one scan share, and the hidden columns that every table has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.client.config import ClientConfig

from ..tables.stream_table import StreamTable, WriterSchemas
from .bad_events import BadEventRule

METADATA_COLUMNS: dict[str, tuple[StructField, str]] = {
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
    "_schema_version": (
        StructField("_schema_version", IntegerType(), True),
        "The version of its type's schema that the event was written with; null when it is not known.",
    ),
}
"""Hidden columns by name, each with its documentation. A data column of the same name hides them."""

POSITION_COLUMNS = ("_segment", "_offset", "_event_pointer")
"""Those that readers without hidden columns always get."""

BAD_EVENTS_COLUMN = StructField("_bad_events", LongType(), True)
"""The last column of rows that go through the adapter's counting reader. A row where it is not null is no row of the
table but tells how many bad events a batch had."""


CHANGE_COLUMNS = StructType(
    [
        StructField("_change_type", StringType(), False),
        StructField("_commit_version", LongType(), False),
        StructField("_commit_timestamp", TimestampType(), True),
    ]
)
"""The columns that Spark wants of CHANGES, behind those of the table."""


@dataclass(frozen=True)
class SegmentVersions:
    """To which version the events of one segment belong.

    Those before `ends[i]` (and not before `ends[i - 1]`) to version `numbers[i]`, which was published at `times[i]`
    (microseconds since 1970, -1 if it was not yet); the last end is that of what is read.
    """

    ends: tuple[int, ...]
    numbers: tuple[int, ...]
    times: tuple[int, ...]


@dataclass(frozen=True)
class ScanPlan:
    """All that tasks share. `schema` is what Spark asked for, data and metadata columns in its order.

    `columns` are the data columns to decode: those that are asked for where a bad event ends the query, and all of
    the table's otherwise, so that the same events are bad whatever is asked for. When Spark needs only the number
    of rows it still gets one column, the carrier, which is filled with nulls.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    columns: StructType
    limit: int | None
    fail_on_data_loss: bool
    window_bytes: int
    writer_schemas: WriterSchemas
    bad_events: BadEventRule
    counted: bool
    """Rows carry BAD_EVENTS_COLUMN."""
    versions: Mapping[str, SegmentVersions] | None = None
    """By the name of a segment, where rows are changes and have CHANGE_COLUMNS."""

    @property
    def output(self) -> StructType:
        """The columns of the batches that tasks make."""
        if not self.counted:
            return self.schema
        # Rows that only tell a number are null in all other columns.
        nullable = [StructField(field.name, field.dataType, True, field.metadata) for field in self.schema]
        return StructType([*nullable, BAD_EVENTS_COLUMN])
