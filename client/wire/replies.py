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
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

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


R = TypeVar("R", bound=Reply)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def of_type(command: int) -> Callable[[type[R]], type[R]]:
    """Return a decorator that makes a class of replies a dataclass, and notes the type of their frames."""

    def note(cls: type[R]) -> type[R]:
        kind = dataclass(frozen=True, slots=True)(cls)
        assert command not in REPLY_KINDS, f"{cls} has the type of {REPLY_KINDS[command].__name__}"
        kind.command, REPLY_KINDS[command] = command, kind
        return kind

    return note


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


@of_type(-127)
class Hello(Reply):
    """The answer to the client's hello: the versions that the server speaks."""

    request_id: Annotated[int, lambda fields: 0]
    high_version: Int32
    low_version: Int32


@of_type(100)
class KeepAlive(Reply):
    """A sign of life, to be skipped."""

    request_id: Annotated[int, lambda fields: -1]


@of_type(2)
class AppendSetup(Reply):
    """The writer may append; `last_event_number` is the last one stored, `NO_EVENT_NUMBER` if there is none."""

    segment: str
    writer_id: uuid.UUID
    last_event_number: int


@of_type(7)
class DataAppended(Reply):
    """All blocks of the writer up to `event_number` are stored.

    `segment_write_offset` is the segment's length right after the block of `event_number`, -1 from old servers.
    """

    writer_id: uuid.UUID
    event_number: int
    previous_event_number: TrailingInt64
    request_id: TrailingInt64
    segment_write_offset: TrailingInt64


@of_type(10)
class SegmentRead(Reply):
    """Bytes of a segment from `offset` on; `data` is a view of the frame."""

    segment: str
    offset: int
    at_tail: bool
    end_of_segment: bool
    data: SizedView = field(repr=False)
    request_id: TrailingInt64


@of_type(12)
class StreamSegmentInfo(Reply):
    """The state of a segment; `start_offset` is the truncation point, `last_modified` milliseconds since 1970."""

    segment: str
    exists: bool
    sealed: bool
    deleted: bool
    last_modified: int
    write_offset: int
    start_offset: Annotated[int, lambda fields: fields.optional_int64(0)]


@of_type(29)
class SegmentSealed(Reply):
    """The segment takes no more appends."""

    segment: str


@of_type(35)
class SegmentAttribute(Reply):
    """The value of a segment's attribute, `NO_EVENT_NUMBER` if absent."""

    value: int


@of_type(37)
class SegmentAttributeUpdated(Reply):
    """Whether a segment's attribute had the expected value, and so was changed."""

    success: bool


@dataclass(frozen=True, slots=True)
class SegmentFailure(Reply):
    """A failure that names the segment alone."""

    segment: TracedText


@dataclass(frozen=True, slots=True)
class OffsetFailure(Reply):
    """A failure that names the segment, and an offset in it."""

    segment: TracedText
    offset: TrailingInt64


@of_type(50)
class WrongHost(Reply):
    """Another segment store has the segment's container: ask the controller again."""

    segment: str
    correct_host: TracedText


@of_type(51)
class SegmentIsSealed(OffsetFailure):
    """An append to a sealed segment; `offset` is the event number refused."""


@of_type(53)
class NoSuchSegment(OffsetFailure):
    """The segment never existed, was deleted, or was merged into its parent (transactions)."""


@of_type(55)
class InvalidEventNumber(Reply):
    """The compare-and-set of a writer's event number failed: another connection writes with the same id."""

    writer_id: uuid.UUID
    request_id: TracedInt64
    event_number: TrailingInt64


@of_type(56)
class SegmentIsTruncated(Reply):
    """A read began before the segment's first byte `start_offset`; `offset` is where the read was to begin."""

    segment: str
    start_offset: TracedInt64
    offset: TrailingInt64


@of_type(57)
class OperationUnsupported(Reply):
    """The server does not support `operation` on this segment."""

    operation: TracedText


@of_type(60)
class AuthTokenCheckFailed(Reply):
    """The delegation token was refused. For reads `request_id` holds the OFFSET of the request."""

    request_id: TracedInt64
    code: TrailingInt32


@of_type(61)
class ErrorMessage(Reply):
    """The server refused the request's arguments, with a reason."""

    segment: str
    message: str
    code: TrailingInt32
