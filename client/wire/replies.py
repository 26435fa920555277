"""Replies of the segment store as typed values. Definitions: `WireCommands.java`, Pravega 0.13.0.

The fields of a reply stand in a frame in the order of its class, and their types say how they are read. The request id
comes first, unless a class declares it again at its place. Stack traces that servers may append
(`replyWithStackTraceOnError`) are read and dropped: they belong in the server's log.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, get_type_hints

from .fields import READ_BY_TYPE, FieldReader, Int32, SizedView, TracedInt64, TracedText, TrailingInt32, TrailingInt64

REPLY_KINDS: dict[int, type[Reply]] = {}
"""All replies to the commands sent, by their types."""

TOKEN_EXPIRED = 1
"""`AuthTokenCheckFailed.code` of an expired delegation token; every other code is a refusal."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The base of all replies. `request_id` is 0 or -1 if the command has none."""

    command: ClassVar[int]
    request_id: int

    def __init_subclass__(cls) -> None:
        if "command" in vars(cls):
            former = REPLY_KINDS.get(cls.command, cls).__qualname__
            assert former == cls.__qualname__, f"{cls} has the type of {former}"  # slots make a class of the same name
            REPLY_KINDS[cls.command] = cls


def make_reader(reply: type[Reply]) -> Callable[[FieldReader], Reply]:
    """Return what decodes the fields after the header of a frame."""
    names = [each.name for each in fields(reply)]
    order: dict[str, None] = {}
    for base in reversed(reply.__mro__):
        for name in inspect.get_annotations(base):
            order.pop(name, None)  # declared again, so its place is here
            order[name] = None
    hints = get_type_hints(reply, include_extras=True)
    placed = [name for name in order if name in names]
    readers = [(name, _find_reading(hints[name])) for name in placed]
    make: Callable[..., Reply] = reply
    return lambda fields: make(**{name: read(fields) for name, read in readers})


def _find_reading(hint: Any) -> Callable[[FieldReader], Any]:
    """Return how a field is read, by its annotation or else by its type."""
    return hint.__metadata__[0] if hasattr(hint, "__metadata__") else READ_BY_TYPE[hint]


@dataclass(frozen=True, slots=True)
class Hello(Reply):
    """The answer to the client's hello: the versions that the server speaks."""

    command = -127
    request_id: Annotated[int, lambda fields: 0]
    high_version: Int32
    low_version: Int32


@dataclass(frozen=True, slots=True)
class KeepAlive(Reply):
    """A sign of life, to be skipped."""

    command = 100
    request_id: Annotated[int, lambda fields: -1]


@dataclass(frozen=True, slots=True)
class AppendSetup(Reply):
    """The writer may append; `last_event_number` is the last one stored, `NO_EVENT_NUMBER` if there is none."""

    command = 2
    segment: str
    writer_id: uuid.UUID
    last_event_number: int


@dataclass(frozen=True, slots=True)
class DataAppended(Reply):
    """All blocks of the writer up to `event_number` are stored.

    `segment_write_offset` is the segment's length right after the block of `event_number`, -1 from old servers.
    """

    command = 7
    writer_id: uuid.UUID
    event_number: int
    previous_event_number: TrailingInt64
    request_id: TrailingInt64
    segment_write_offset: TrailingInt64


@dataclass(frozen=True, slots=True)
class SegmentRead(Reply):
    """Bytes of a segment from `offset` on; `data` is a view of the frame."""

    command = 10
    segment: str
    offset: int
    at_tail: bool
    end_of_segment: bool
    data: SizedView = field(repr=False)
    request_id: TrailingInt64


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
    start_offset: Annotated[int, lambda fields: fields.optional_int64(0)]


@dataclass(frozen=True, slots=True)
class SegmentSealed(Reply):
    """The segment takes no more appends."""

    command = 29
    segment: str


@dataclass(frozen=True, slots=True)
class SegmentAttribute(Reply):
    """The value of a segment's attribute, `NO_EVENT_NUMBER` if absent."""

    command = 35
    value: int


@dataclass(frozen=True, slots=True)
class SegmentFailure(Reply):
    """A failure that names the segment alone."""

    segment: TracedText


@dataclass(frozen=True, slots=True)
class OffsetFailure(Reply):
    """A failure that names the segment, and an offset in it."""

    segment: TracedText
    offset: TrailingInt64


@dataclass(frozen=True, slots=True)
class WrongHost(Reply):
    """Another segment store has the segment's container: ask the controller again."""

    command = 50
    segment: str
    correct_host: TracedText


@dataclass(frozen=True, slots=True)
class SegmentIsSealed(OffsetFailure):
    """An append to a sealed segment; `offset` is the event number refused."""

    command = 51


@dataclass(frozen=True, slots=True)
class NoSuchSegment(OffsetFailure):
    """The segment never existed, was deleted, or was merged into its parent (transactions)."""

    command = 53


@dataclass(frozen=True, slots=True)
class InvalidEventNumber(Reply):
    """The compare-and-set of a writer's event number failed: another connection writes with the same id."""

    command = 55
    writer_id: uuid.UUID
    request_id: TracedInt64
    event_number: TrailingInt64


@dataclass(frozen=True, slots=True)
class SegmentIsTruncated(Reply):
    """A read began before the segment's first byte `start_offset`; `offset` is where the read was to begin."""

    command = 56
    segment: str
    start_offset: TracedInt64
    offset: TrailingInt64


@dataclass(frozen=True, slots=True)
class OperationUnsupported(Reply):
    """The server does not support `operation` on this segment."""

    command = 57
    operation: TracedText


@dataclass(frozen=True, slots=True)
class AuthTokenCheckFailed(Reply):
    """The delegation token was refused. For reads `request_id` holds the OFFSET of the request."""

    command = 60
    request_id: TracedInt64
    code: TrailingInt32


@dataclass(frozen=True, slots=True)
class ErrorMessage(Reply):
    """The server refused the request's arguments, with a reason."""

    command = 61
    segment: str
    message: str
    code: TrailingInt32
