"""Replies of the segment store as typed values. Definitions: `WireCommands.java`, Pravega 0.13.0.

Stack traces that servers may append (`replyWithStackTraceOnError`) are read and dropped: they belong in the server's
log.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import ClassVar, Self

from .fields import FieldReader

TOKEN_EXPIRED = 1
"""`AuthTokenCheckFailed.code` of an expired delegation token; every other code is a refusal."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The base of all replies. `request_id` is 0 or -1 if the command has none."""

    command: ClassVar[int]
    request_id: int

    @classmethod
    def read(cls, fields: FieldReader) -> Reply:
        """Decode the fields after the header of a frame."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Hello(Reply):
    """The answer to the client's hello: the versions that the server speaks."""

    command = -127
    high_version: int
    low_version: int

    @classmethod
    def read(cls, fields: FieldReader) -> Hello:
        return cls(0, fields.int32(), fields.int32())


@dataclass(frozen=True, slots=True)
class KeepAlive(Reply):
    """A sign of life, to be skipped."""

    command = 100

    @classmethod
    def read(cls, fields: FieldReader) -> KeepAlive:
        return cls(-1)


@dataclass(frozen=True, slots=True)
class AppendSetup(Reply):
    """The writer may append; `last_event_number` is the last one stored, `NO_EVENT_NUMBER` if there is none."""

    command = 2
    segment: str
    writer_id: uuid.UUID
    last_event_number: int

    @classmethod
    def read(cls, fields: FieldReader) -> AppendSetup:
        return cls(fields.int64(), fields.text(), fields.uuid(), fields.int64())


@dataclass(frozen=True, slots=True)
class DataAppended(Reply):
    """All blocks of the writer up to `event_number` are stored.

    `segment_write_offset` is the segment's length right after the block of `event_number`, -1 from old servers.
    """

    command = 7
    writer_id: uuid.UUID
    event_number: int
    previous_event_number: int
    segment_write_offset: int

    @classmethod
    def read(cls, fields: FieldReader) -> DataAppended:
        writer_id, event_number = fields.uuid(), fields.int64()
        previous, request_id = fields.optional_int64(), fields.optional_int64()
        return cls(request_id, writer_id, event_number, previous, fields.optional_int64())


@dataclass(frozen=True, slots=True)
class ConditionalCheckFailed(Reply):
    """A conditional append found another length of the segment than expected."""

    command = 8
    writer_id: uuid.UUID
    event_number: int

    @classmethod
    def read(cls, fields: FieldReader) -> ConditionalCheckFailed:
        writer_id, event_number = fields.uuid(), fields.int64()
        return cls(fields.optional_int64(), writer_id, event_number)


@dataclass(frozen=True, slots=True)
class SegmentRead(Reply):
    """Bytes of a segment from `offset` on; `data` is a view of the frame."""

    command = 10
    segment: str
    offset: int
    at_tail: bool
    end_of_segment: bool
    data: memoryview = field(repr=False)

    @classmethod
    def read(cls, fields: FieldReader) -> SegmentRead:
        segment, offset = fields.text(), fields.int64()
        at_tail, end_of_segment = fields.boolean(), fields.boolean()
        data = fields.take(fields.int32())
        return cls(fields.optional_int64(), segment, offset, at_tail, end_of_segment, data)


@dataclass(frozen=True, slots=True)
class StreamSegmentInfo(Reply):
    """The state of a segment; `start_offset` is the truncation point, `last_modified` milliseconds since 1970."""

    command = 12
    segment: str
    exists: bool
    sealed: bool
    deleted: bool
    last_modified: int
    write_offset: int
    start_offset: int

    @classmethod
    def read(cls, fields: FieldReader) -> StreamSegmentInfo:
        return cls(
            fields.int64(), fields.text(), fields.boolean(), fields.boolean(), fields.boolean(),
            fields.int64(), fields.int64(), fields.optional_int64(0),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SegmentSealed(Reply):
    """The segment takes no more appends."""

    command = 29
    segment: str

    @classmethod
    def read(cls, fields: FieldReader) -> SegmentSealed:
        return cls(fields.int64(), fields.text())


@dataclass(frozen=True, slots=True)
class SegmentAttribute(Reply):
    """The value of a segment's attribute, `NO_EVENT_NUMBER` if absent."""

    command = 35
    value: int

    @classmethod
    def read(cls, fields: FieldReader) -> SegmentAttribute:
        return cls(fields.int64(), fields.int64())


@dataclass(frozen=True, slots=True)
class SegmentAttributeUpdated(Reply):
    """Whether a compare-and-set of an attribute found the expected value."""

    command = 37
    success: bool

    @classmethod
    def read(cls, fields: FieldReader) -> SegmentAttributeUpdated:
        return cls(fields.int64(), fields.boolean())


@dataclass(frozen=True, slots=True)
class Failure(Reply):
    """The base of the replies that report a failure."""


@dataclass(frozen=True, slots=True)
class SegmentFailure(Failure):
    """A failure that names the segment alone."""

    segment: str

    @classmethod
    def read(cls, fields: FieldReader) -> Self:
        reply = cls(fields.int64(), fields.text())
        fields.optional_text()
        return reply


@dataclass(frozen=True, slots=True)
class OffsetFailure(Failure):
    """A failure that names the segment, and an offset in it."""

    segment: str
    offset: int

    @classmethod
    def read(cls, fields: FieldReader) -> Self:
        request_id, segment = fields.int64(), fields.text()
        fields.optional_text()
        return cls(request_id, segment, fields.optional_int64())


@dataclass(frozen=True, slots=True)
class WrongHost(Failure):
    """Another segment store has the segment's container: ask the controller again."""

    command = 50
    segment: str
    correct_host: str

    @classmethod
    def read(cls, fields: FieldReader) -> WrongHost:
        reply = cls(fields.int64(), fields.text(), fields.text())
        fields.optional_text()
        return reply


@dataclass(frozen=True, slots=True)
class SegmentIsSealed(OffsetFailure):
    """An append to a sealed segment; `offset` is the event number refused."""

    command = 51


@dataclass(frozen=True, slots=True)
class SegmentAlreadyExists(SegmentFailure):
    """A segment to be created already exists."""

    command = 52


@dataclass(frozen=True, slots=True)
class NoSuchSegment(OffsetFailure):
    """The segment never existed, was deleted, or was merged into its parent (transactions)."""

    command = 53


@dataclass(frozen=True, slots=True)
class InvalidEventNumber(Failure):
    """The compare-and-set of a writer's event number failed: another connection writes with the same id."""

    command = 55
    writer_id: uuid.UUID
    event_number: int

    @classmethod
    def read(cls, fields: FieldReader) -> InvalidEventNumber:
        writer_id, request_id = fields.uuid(), fields.int64()
        fields.optional_text()
        return cls(request_id, writer_id, fields.optional_int64())


@dataclass(frozen=True, slots=True)
class SegmentIsTruncated(Failure):
    """A read began before the segment's first byte `start_offset`; `offset` is where the read was to begin."""

    command = 56
    segment: str
    start_offset: int
    offset: int

    @classmethod
    def read(cls, fields: FieldReader) -> SegmentIsTruncated:
        request_id, segment, start_offset = fields.int64(), fields.text(), fields.int64()
        fields.optional_text()
        return cls(request_id, segment, start_offset, fields.optional_int64())


@dataclass(frozen=True, slots=True)
class OperationUnsupported(Failure):
    """The server does not support `operation` on this segment."""

    command = 57
    operation: str

    @classmethod
    def read(cls, fields: FieldReader) -> OperationUnsupported:
        reply = cls(fields.int64(), fields.text())
        fields.optional_text()
        return reply


@dataclass(frozen=True, slots=True)
class AuthTokenCheckFailed(Failure):
    """The delegation token was refused. For reads `request_id` holds the OFFSET of the request."""

    command = 60
    code: int

    @classmethod
    def read(cls, fields: FieldReader) -> AuthTokenCheckFailed:
        request_id = fields.int64()
        fields.optional_text()
        return cls(request_id, fields.optional_int32())


@dataclass(frozen=True, slots=True)
class ErrorMessage(Failure):
    """The server refused the request's arguments, with a reason."""

    command = 61
    segment: str
    message: str
    code: int

    @classmethod
    def read(cls, fields: FieldReader) -> ErrorMessage:
        return cls(fields.int64(), fields.text(), fields.text(), fields.optional_int32())


STREAM_REPLIES: tuple[type[Reply], ...] = (
    Hello, KeepAlive, AppendSetup, DataAppended, ConditionalCheckFailed, SegmentRead, StreamSegmentInfo, SegmentSealed,
    SegmentAttribute, SegmentAttributeUpdated, WrongHost, SegmentIsSealed, SegmentAlreadyExists, NoSuchSegment,
    InvalidEventNumber, SegmentIsTruncated, OperationUnsupported, AuthTokenCheckFailed, ErrorMessage,
)  # fmt: skip
"""All replies to commands that are not about tables."""
