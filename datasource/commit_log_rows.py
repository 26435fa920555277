"""The rows of the commit log, and what a row of another kind must be that changes in one step with them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyspark_pravega.client.key_value.table import NOT_EXISTS
from pyspark_pravega.client.key_value.table import Entry as Stored
from pyspark_pravega.client.stream_cut import StreamCut


@dataclass(frozen=True)
class Content:
    """A number of events, and of their bytes in segments, with their headers."""

    events: int
    bytes: int

    def __add__(self, more: Content) -> Content:
        return Content(self.events + more.events, self.bytes + more.bytes)


@dataclass(frozen=True)
class Entry:
    """A transaction entered for commit, with what its version will say of it.

    `content` is what it holds; None where who entered it did not tell.
    """

    transaction: uuid.UUID
    rows: int
    operation: str
    content: Content | None = None


@dataclass(frozen=True)
class Head:
    """The head row: the newest version, the queue of transactions to commit, and the stream's first segment.

    `timestamp_ms` is that of the newest version. From version `ordered_from` on no version has an earlier time than the
    one before it; None where a release has written last that knows neither.

    `content` is what the transactions of all versions hold together: not what others append. None if not all told it.
    """

    version: int = 0
    queue: tuple[Entry, ...] = ()
    origin: int | None = None
    row_version: int = NOT_EXISTS
    timestamp_ms: int = 0
    ordered_from: int | None = None
    content: Content | None = None

    @property
    def committing(self) -> tuple[uuid.UUID, ...]:
        """Return the ids of the queue's transactions, the first one first."""
        return tuple(entry.transaction for entry in self.queue)

    def without(self, transaction: uuid.UUID) -> Head:
        """Return this row with a transaction taken out."""
        return replace(self, queue=tuple(entry for entry in self.queue if entry.transaction != transaction))

    def content_with(self, entry: Entry) -> Content | None:
        """Return what all versions hold together once that of a transaction is published."""
        return None if self.content is None or entry.content is None else self.content + entry.content


@dataclass(frozen=True)
class Version:
    """A commit, which made all visible up to `cut`. Published at `timestamp`, microseconds since 1970.

    It added `rows` by an `operation` such as INSERT, in a transaction.
    """

    number: int
    cut: StreamCut
    timestamp: int
    rows: int = 0
    operation: str = ""
    transaction: uuid.UUID | None = None


def content_value(content: Content | None) -> list[int] | None:
    """Return a content as it stands in a row."""
    return None if content is None else [content.events, content.bytes]


def read_content(value: Sequence[int] | None) -> Content | None:
    """Read a content of a row, None of one that older releases have written."""
    return None if value is None else Content(*value)


def read_version(row: Mapping[str, Any]) -> Version:
    """Read a version from its row."""
    return Version(
        row["version"],
        StreamCut.from_text(row["cut"]),
        row["timestamp_ms"] * 1000,
        row["rows"],
        row["operation"],
        uuid.UUID(row["transaction"]),
    )


class Beside(Protocol):
    """A row of the same stream that is replaced in one atomic step with the head row."""

    @property
    def number(self) -> int:
        """Return the number in its key: from 2 ** 63 on, which versions do not reach."""

    def entered(self, transaction: uuid.UUID, origin: int, stored: Stored | None) -> bytes:
        """Return its value once a transaction is entered, given what is stored. Raises what forbids to commit it."""

    def published(self, transaction: uuid.UUID, stored: Stored | None) -> bytes | None:
        """Return its value once a transaction is published; None leaves it as it is."""
