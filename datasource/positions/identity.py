"""Distinguishes a stream from others of its name: from one recreated later, and from one of another cluster.

Within a cluster, a stream that is recreated continues the numbers of segments, so the number of its first segment tells
it from the former one. Another cluster at the same address begins with 0 as well. Its segments were created at another
time, which the segment store keeps with each segment (`Attributes.CREATION_TIME`) and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PermissionDeniedError

Creation: TypeAlias = tuple[int, int]
"""A segment, and when it was created, in milliseconds since 1970 by its segment store's clock."""


@dataclass(frozen=True)
class StreamIdentity:
    """What is known of a stream beside its name.

    `origin` has the name and the number of the first segment; it is empty for users who may only read. `creation` is
    that of one of its segments, None if nobody knows it.
    """

    origin: str
    creation: Creation | None = None

    @classmethod
    def parse(cls, text: str) -> StreamIdentity:
        """Read what `str` gives. Raises ValueError for anything else."""
        origin, mark, creation = text.partition("@")
        if not mark:
            return cls(origin)
        segment, _, created = creation.partition(":")
        return cls(origin, (int(segment), int(created)))

    def __str__(self) -> str:
        return self.origin if self.creation is None else "{}@{}:{}".format(self.origin, *self.creation)

    def is_of_other_origin(self, other: StreamIdentity) -> bool:
        """Return whether one of the streams was dropped before the other one was made."""
        return "" not in (self.origin, other.origin) and self.origin != other.origin

    def is_of_other_time(self, other: StreamIdentity) -> bool:
        """Return whether the same segment was created at another time, and so in another cluster."""
        if self.creation is None or other.creation is None:
            return False
        return self.creation[0] == other.creation[0] and self.creation != other.creation

    def is_of_other_stream(self, other: StreamIdentity) -> bool:
        """Return whether these are two streams of one name, as far as anybody knows."""
        return self.is_of_other_origin(other) or self.is_of_other_time(other)


def is_same_stream(one: str | None, other: str | None) -> bool:
    """Return whether two texts are the identity of one stream, as far as anybody knows."""
    if one is None or other is None:
        return one == other
    return not StreamIdentity.parse(one).is_of_other_stream(StreamIdentity.parse(other))


def identify(pravega: Pravega, stream: Stream) -> str | None:
    """Return the text of a stream's identity; None for a user who may know nothing of it.

    Raises StreamNotFoundError.
    """
    try:
        number, creation = pravega.known_streams.identify(stream)
    except PermissionDeniedError:
        return None
    origin = "" if number is None else f"{stream}/{number}"
    return str(StreamIdentity(origin, creation)) or None


def describe_time(creation: Creation) -> str:
    """Return when a segment was created, as text for a message."""
    return datetime.fromtimestamp(creation[1] / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


def make_creation_member(creation: Creation | None) -> dict[str, Any]:
    """Return the member of an offset's JSON that has a creation; nothing for None."""
    return {} if creation is None else {"created": {str(creation[0]): creation[1]}}


def read_creation_member(offset: Mapping[str, Any]) -> Creation | None:
    """Return the creation in an offset's JSON, None if it has none. Raises ValueError, TypeError, AttributeError."""
    return next(((int(segment), int(time)) for segment, time in offset.get("created", {}).items()), None)


def find_creation(pravega: Pravega, stream: Stream) -> Creation | None:
    """Return a segment of a stream and when it was created, asked for once in a connection; None if nobody knows."""
    try:
        return pravega.known_streams.creation(stream)
    except PermissionDeniedError:
        return None
