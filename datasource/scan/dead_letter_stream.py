"""The dead-letter stream: events that could not be decoded, with their places and the reasons.

It is a table of this catalog: JSON events without header, whose columns are kept with the stream, so that it needs
no schema registry. A task appends the bad events of a batch, and waits until they are stored, before it hands the
batch on: a bad event that is missing from a result is in the dead-letter stream at least once. It is there repeatedly
if a batch query or its task runs again, but not if a micro-batch of a streaming query does.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyspark.sql.types as T

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import MAX_EVENT_SIZE, frame
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.format import BadEvent, Layout, find_format
from pyspark_pravega.sql.identifiers import check_new_stream
from pyspark_pravega.sql.options import ROUTING_KEY_OF_ALL

from ..tables.bad_events import BadEventRule
from ..tables.loading import load_table
from ..tables.stored_properties import SCHEMA_KEY, make_tags

COLUMNS = T.StructType(
    [
        T.StructField("stream", T.StringType(), False),
        T.StructField("segment", T.StringType(), False),
        T.StructField("offset", T.LongType(), False),
        T.StructField("reason", T.StringType(), False),
        T.StructField("encoding_id", T.IntegerType()),
        T.StructField("event", T.BinaryType()),
        T.StructField("written_at", T.TimestampType(), False),
    ]
)
"""`stream` is scope/stream. `event` is as stored; null if it is too large to be part of another event."""

_FORMAT = "json"
_WRITERS = uuid.UUID("5d9c0c38-6f4e-4c1e-9f6b-2f1d3c0f6a57")
_REASON_LENGTH = 500
_LARGEST_EVENT = MAX_EVENT_SIZE * 3 // 4 - 65536
"""The largest event that, in base64 and with the other columns, still fits into an event."""


@dataclass(frozen=True)
class Letter:
    """One bad event. `encoding_id` is None when it has none."""

    segment: str
    offset: int
    reason: str
    encoding_id: int | None
    event: bytes


def make_letter(segment: str, offset: int, bad: BadEvent, event: bytes, encoding_id: int | None) -> Letter:
    """Describe a bad event, as stored, for the dead-letter stream. None and -1 stand for no encoding id."""
    known_id = None if encoding_id is None or encoding_id < 0 else encoding_id
    return Letter(segment, offset, shorten_reason(bad.reason), known_id, event)


def shorten_reason(reason: str) -> str:
    """Return the part of a reason that is kept."""
    return reason if len(reason) <= _REASON_LENGTH else reason[: _REASON_LENGTH - 3] + "..."


def check_target(pravega: Pravega, target: Stream) -> None:
    """Raise InvalidOptionError if a stream with this name exists and is not a dead-letter table.

    Letters have no routing key, so a table that promises one for all its events does not fit.
    """
    try:
        table = load_table(pravega, target).table
    except errors.StreamNotFoundError:
        return
    except (errors.SchemaNotFoundError, errors.UnsupportedOperationError) as error:
        raise errors.InvalidOptionError(_describe_target_refusal(target, error.message)) from None
    own_columns = [(field.name, field.dataType) for field in table.schema]
    if (table.format, table.framing) != (_FORMAT, "none") or own_columns != [
        (one.name, one.dataType) for one in COLUMNS
    ]:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
        raise errors.InvalidOptionError(
            _describe_target_refusal(target, f"It is a table of 'format'='{table.format}' with {columns}.")
        )
    if table.promised_key is not None:
        raise errors.InvalidOptionError(
            f"'dead-letter'='{target}' is a table that promises by '{ROUTING_KEY_OF_ALL.key}' that all its events have "
            f"the routing key '{table.promised_key}', and dead letters have none: queries would not find them. End the "
            f"promise by ALTER TABLE ... SET TBLPROPERTIES ('{ROUTING_KEY_OF_ALL.key}'='false'), or name a stream that "
            "does not exist."
        )


def _describe_target_refusal(target: Stream, reason: str) -> str:
    return f"'dead-letter'='{target}' is a stream for other events. {reason} Name one that does not exist."


class DeadLetters:
    """Writes to a dead-letter stream, which is made when first needed. Not thread-safe; call `close` at the end."""

    def __init__(
        self, pravega: Pravega, rule: BadEventRule, source: Stream, partition: int, work: str | None = None
    ) -> None:
        """Write where the rule says. Nothing is sent yet. Tasks of different `partition`s start with other segments.

        `work` names work that writes the same letters in the same order when it is repeated: stored ones are left out
        then, unless the dead-letter stream was scaled in between.
        """
        assert rule.dead_letter is not None
        self._pravega = pravega
        self._target = rule.dead_letter
        self._of_table = rule.of_table
        self._source = source
        self._partition = partition
        self._work = work
        self._encoder = find_format(_FORMAT).encoder(Layout(COLUMNS))
        self._appender: SegmentAppender | None = None

    def write(self, letters: Sequence[Letter]) -> None:
        """Store the letters; returns when they are. Raises what creating or appending to a stream raises.

        Raises StreamNotFoundError for a missing stream that the table's property names.
        """
        now = datetime.datetime.now(datetime.UTC)
        rows = [
            vars(letter)
            | {
                "stream": str(self._source),
                "event": letter.event if len(letter.event) <= _LARGEST_EVENT else None,
                "written_at": now,
            }
            for letter in letters
        ]
        payloads = self._encoder.encode(pa.RecordBatch.from_pylist(rows, schema=arrow_schema(COLUMNS)))
        blocks: list[tuple[memoryview, int]] = [(frame(payloads), len(payloads))]
        while blocks:
            appender, count = self._appender or self._open(), 0
            try:
                for block, events in blocks:
                    count += 1
                    appender.append(block, events)
                appender.flush()
                return
            except errors.SegmentSealedError:
                # The stream was scaled: nothing that is pending was stored.
                blocks = [*appender.pending, *blocks[count:]]
                self.close()

    def _open(self) -> SegmentAppender:
        segments = self._segments()
        segment = segments[self._partition % len(segments)]
        # A segment keeps the number of each writer's last event; a writer with the same name continues behind it.
        writer = uuid.uuid4() if self._work is None else uuid.uuid5(_WRITERS, f"{self._work} {self._target} {segment}")
        self._appender = SegmentAppender(self._pravega.segments, self._target, segment, writer)
        return self._appender

    def _segments(self) -> list[int]:
        try:
            segments = self._pravega.controller.current_segments(self._target)
        except errors.StreamNotFoundError:
            if self._of_table:
                raise errors.StreamNotFoundError(
                    f"There is no dead-letter stream {self._target}, which the table property 'dead-letter' of "
                    f"{self._source} names. A query does not make it with the rights of its reader. Make it as the "
                    f"table's owner: ALTER TABLE ... SET TBLPROPERTIES ('dead-letter'='{self._target.name}'). Or name "
                    "a stream by the read option 'dead-letter'."
                ) from None
            create_target(self._pravega, self._target)
            segments = self._pravega.controller.current_segments(self._target)
        if not segments:
            raise errors.StreamSealedError(
                f"The dead-letter stream {self._target} is sealed and takes no events. Name another one."
            )
        return sorted(segment.segment_id for segment in segments)

    def close(self) -> None:
        if self._appender is not None:
            self._appender.close()
            self._appender = None


def make_target_of_table(pravega: Pravega, rule: BadEventRule) -> None:
    """Make the dead-letter stream that a table's property names, if there is none, with the rights of the user.

    Raises InvalidOptionError for a stream for other events, and InvalidNameError.
    """
    if rule.dead_letter is None or not rule.of_table:
        return
    if pravega.controller.stream_exists(rule.dead_letter):
        check_target(pravega, rule.dead_letter)
    else:
        create_target(pravega, rule.dead_letter)


def create_target(pravega: Pravega, target: Stream) -> None:
    """Make a dead-letter stream, unless another task has just made it. Raises InvalidNameError."""
    check_new_stream(target.name)
    text = find_format(_FORMAT).schema_text(Layout(COLUMNS), target.name, target.scope)
    properties = {"format": _FORMAT, "framing": "none", SCHEMA_KEY: text}
    try:
        pravega.controller.create_stream(target, StreamConfiguration(tags=make_tags(properties)))
    except errors.StreamExistsError:
        check_target(pravega, target)
