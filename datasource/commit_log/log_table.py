"""The rows of the commit log: what they hold, how they are read, and how they are replaced in one step."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConditionalUpdateError, KeyValueTableNotFoundError, PermissionDeniedError

T = TypeVar("T")
Write: TypeAlias = tuple[bytes, bytes, int]
"""The key of a row, its new value, and the version that this replaces."""

TABLE_NAME = "pyspark-pravega-commits"
"""The key-value table of each scope."""
_KEY_LENGTH = 24
FIRST_BORDER_ROW = 1 << 62
"""Rows from here to 2 ** 63 have borders between events, see `scan/noted_borders.py`."""
FIRST_COMPANION_ROW = 1 << 63
"""Rows of the commit table from this number on are companion rows; those before are versions, or borders."""


class Content(NamedTuple):
    """The number of some events, and of their bytes in segments, headers included."""

    events: int
    bytes: int


class ChangeCounts(NamedTuple):
    """How many rows a transaction inserts, updates and deletes. A row that gets another key is deleted and inserted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class CommitEntry:
    """A transaction in the queue, with what its version will say of it, as the head row stores it.

    `content` is what it holds; None if its writer did not say. `changes` are counted if it does more than insert rows.
    """

    transaction: uuid.UUID
    rows: int
    operation: str
    content: Content | None = None
    changes: ChangeCounts | None = None


@dataclass(frozen=True)
class HeadRow:
    """The head row: the newest version, the queue of transactions to commit, and the stream's first segment.

    `timestamp_ms` is the time of the newest version. From version `ordered_from` on, no version has an earlier time
    than the one before it; None if the last writer was an older release that writes neither.

    `content` is what the transactions of all versions hold together, without what others append; None if the content
    of one is unknown.
    """

    version: int = 0
    queue: tuple[CommitEntry, ...] = ()
    origin: int | None = None
    row_version: int = NOT_EXISTS
    timestamp_ms: int = 0
    ordered_from: int | None = None
    content: Content | None = None

    @property
    def committing(self) -> tuple[uuid.UUID, ...]:
        """Return the ids of the queue's transactions, the first one first."""
        return tuple(entry.transaction for entry in self.queue)

    def without(self, transaction: uuid.UUID) -> HeadRow:
        return replace(self, queue=tuple(entry for entry in self.queue if entry.transaction != transaction))

    def content_with(self, entry: CommitEntry) -> Content | None:
        """Return what all versions hold together once a transaction is published."""
        if self.content is None or entry.content is None:
            return None
        return Content(self.content.events + entry.content.events, self.content.bytes + entry.content.bytes)


COMPACT = "COMPACT"
"""The operation of versions that repeat rows."""


@dataclass(frozen=True)
class Version:
    """A commit, which made everything up to `cut` visible. Published at `timestamp`, microseconds since 1970.

    It added `rows` by an `operation` such as INSERT, in a transaction. The `changes` are None if all were inserted.
    """

    number: int
    cut: StreamCut
    timestamp: int
    rows: int = 0
    operation: str = ""
    transaction: uuid.UUID | None = None
    changes: ChangeCounts | None = None

    @property
    def counts(self) -> ChangeCounts:
        """Return what it did to rows."""
        return self.changes or ChangeCounts(inserted=self.rows)


def read_counts(kind: Callable[..., T], value: Sequence[int] | None) -> T | None:
    """Read counts in a row; None where a row has none, as one that an older release has written."""
    return None if value is None else kind(*value)


def read_version(row: Mapping[str, Any]) -> Version:
    return Version(
        row["version"],
        StreamCut.from_text(row["cut"]),
        row["timestamp_ms"] * 1000,
        row["rows"],
        row["operation"],
        uuid.UUID(row["transaction"]),
        read_counts(ChangeCounts, row.get("changes")),
    )


class CompanionRow(Protocol):
    """A row of the same stream that is replaced in one atomic step with the head row."""

    @property
    def number(self) -> int:
        """Return the number in its key: from 2 ** 63 on, beyond all versions."""

    def make_value_when_entered(self, transaction: uuid.UUID, origin: int, stored: Entry | None) -> bytes:
        """Return its value once a transaction is entered, given what is stored. Raises if it may not be committed."""

    def make_value_when_published(self, transaction: uuid.UUID, stored: Entry | None) -> bytes | None:
        """Return its value once a transaction is published, given what is stored; None leaves it unchanged."""


@dataclass(frozen=True)
class _Known:
    """Rows that were written in one step."""

    head: HeadRow
    others: dict[bytes, Entry]


class LogTable:
    """The rows of one stream. Only one thread may use an object at a time."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        """Send nothing yet."""
        self._pravega = pravega
        self._stream = stream
        self._table = pravega.key_value_table(stream.scope, TABLE_NAME)
        self._origin: int | None = None
        self._known: _Known | None = None
        """The rows as this object wrote them last, so that a frequent writer need not read them each time."""

    def learn_origin(self) -> int:
        """Return the number of the stream's first segment; later writes are about that stream.

        Raises StreamNotFoundError, and PermissionDeniedError for users without READ_UPDATE.
        """
        if self._origin is None:
            self._origin = self._pravega.known_streams.origin(self._stream)
        return self._origin

    def _known_rows(self, companion: CompanionRow | None) -> tuple[HeadRow, Entry | None]:
        """Return the rows as this object wrote them last, but only for one attempt, else as they are stored."""
        rows, self._known = self._known, None
        if rows is not None and (companion is None or self._key(companion.number) in rows.others):
            return rows.head, None if companion is None else rows.others[self._key(companion.number)]
        if companion is None:
            return self._head(), None
        head, stored = self._table.get_many([self._key(0), self._key(companion.number)])
        return self._read_head(head), stored

    def _write(self, companion: CompanionRow | None, value: bytes | None, stored: Entry | None) -> list[Write]:
        if companion is None or value is None:
            return []
        return [(self._key(companion.number), value, NOT_EXISTS if stored is None else stored.version)]

    def read_companion(self, number: int, read: Callable[[Entry | None, int], T]) -> T:
        """Return what `read` makes of the companion row with this number, given its stored value and the origin.

        The value may be the one that this log wrote last, and be outdated.
        """
        return read(self.find_companion(number), self.learn_origin())

    def find_companion(self, number: int) -> Entry | None:
        """Return a companion row as it is stored. It may be about an older stream of this name."""
        if self._known is not None and self._key(number) in self._known.others:
            return self._known.others[self._key(number)]
        try:
            return self._table.get(self._key(number))
        except KeyValueTableNotFoundError:
            return None

    def list_companions(self) -> list[Entry]:
        """Return all companion rows, including those about an older stream of this name."""
        try:
            return [entry for _, entry in self._table.entries(self._key(1 << 63), self._key((1 << 64) - 1))]
        except KeyValueTableNotFoundError:
            return []

    def replace_companion(self, number: int, change: Callable[[Entry | None, int], bytes | None]) -> None:
        """Replace a companion row by what `change` returns; None leaves it unchanged. `change` may be called again."""
        origin, self._known = self.learn_origin(), None
        while True:
            stored = self._table.get(self._key(number))
            value = change(stored, origin)
            if value is None:
                return
            try:
                self._table.put(self._key(number), value, NOT_EXISTS if stored is None else stored.version)
                return
            except ConditionalUpdateError:
                continue

    def remove_companion(self, number: int, is_removed: Callable[[Entry], bool]) -> None:
        """Remove a companion row if it exists, `is_removed` says so, and nobody changes it in the meantime."""
        self._known = None
        try:
            stored = self._table.get(self._key(number))
            if stored is not None and is_removed(stored):
                self._table.delete(self._key(number), stored.version)
        except (ConditionalUpdateError, KeyValueTableNotFoundError):
            return

    def _head(self) -> HeadRow:
        return self._read_head(self._table.get(self._key(0)))

    @staticmethod
    def _read_head(entry: Entry | None) -> HeadRow:
        if entry is None:
            return HeadRow()
        row = json.loads(entry.value)
        queue = tuple(
            CommitEntry(
                uuid.UUID(one["transaction"]),
                one["rows"],
                one["operation"],
                read_counts(Content, one.get("content")),
                read_counts(ChangeCounts, one.get("changes")),
            )
            for one in row["committing"]
        )
        times = row.get("timestamp_ms", 0), row.get("ordered_from")
        content = read_counts(Content, row.get("content"))
        return HeadRow(row["version"], queue, row["origin"], entry.version, *times, content)

    def _record(self, version: int) -> dict[str, Any]:
        entry = self._table.get(self._key(version))
        return {} if entry is None else json.loads(entry.value)

    def _replace(self, old: HeadRow, new: HeadRow, also: Sequence[Write] = ()) -> bool:
        """Replace the head row, and write other rows in the same atomic step; False if `old` is outdated."""
        row = {
            "stream": self._stream.name,
            "version": new.version,
            "committing": [asdict(entry) for entry in new.queue],
            "origin": new.origin,
            "timestamp_ms": new.timestamp_ms,
            "ordered_from": new.ordered_from,
            "content": new.content,
        }
        self._known = None
        try:
            versions = self._table.put_many([(self._key(0), encode_row(row), old.row_version), *also])
        except ConditionalUpdateError:
            return False
        others = {key: Entry(value, version) for (key, value, _), version in zip(also, versions[1:], strict=True)}
        self._known = _Known(replace(new, row_version=versions[0]), others)
        return True

    def _key(self, number: int) -> bytes:
        return make_row_key(self._stream, number)

    def _is_of_this_stream(self, head: HeadRow) -> bool:
        try:
            return head.origin == self._pravega.known_streams.origin(self._stream)
        except PermissionDeniedError:
            return True


def write_in_table(table: KeyValueTable, write: Callable[[], T]) -> T:
    """Return what `write` does with a scope's table of this name, after making the table if it is missing."""
    try:
        return write()
    except KeyValueTableNotFoundError:
        table.create(1, _KEY_LENGTH)
        return write()


def compute_row_number(name: str) -> int:
    """Return the number of the companion row with a name."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return FIRST_COMPANION_ROW | int.from_bytes(digest, "big")


def make_row_key(stream: Stream, number: int) -> bytes:
    return hashlib.blake2b(stream.name.encode(), digest_size=16).digest() + number.to_bytes(8, "big")


def encode_row(value: dict[str, Any]) -> bytes:
    """Return a row as it is stored, with ids of transactions as texts."""
    return json.dumps(value, default=str).encode()
