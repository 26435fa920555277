"""The rows of one stream in the commit log's table: reading them, and replacing them in one step."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.table import NOT_EXISTS
from pyspark_pravega.client.key_value.table import Entry as Stored
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import ConditionalUpdateError, KeyValueTableNotFoundError, PermissionDeniedError

from .commit_log_rows import Beside, Entry, Head, content_value, read_content

T = TypeVar("T")
Write: TypeAlias = tuple[bytes, bytes, int]
"""The key, the value and the version of the row that is replaced."""

TABLE_NAME = "pyspark-pravega-commits"
KEY_LENGTH = 24


@dataclass(frozen=True)
class _Known:
    """Rows that were written in one step."""

    head: Head
    others: dict[bytes, Stored]


class LogTable:
    """The rows of one stream. An object of it is used by one thread at a time."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        """Nothing is sent yet."""
        self._pravega = pravega
        self._stream = stream
        self._table = pravega.key_value_table(stream.scope, TABLE_NAME)
        self._origin: int | None = None
        self._known: _Known | None = None
        """The rows as this object has written them last: who writes again and again need not read them each time."""

    def learn_origin(self) -> int:
        """Return the number of the stream's first segment; what is written later is about that stream.

        Raises StreamNotFoundError, and PermissionDeniedError for users without READ_UPDATE.
        """
        if self._origin is None:
            self._origin = origin_of(self._pravega, self._stream)
        return self._origin

    def _known_rows(self, beside: Beside | None) -> tuple[Head, Stored | None]:
        """Return the rows as they were written last, else as they are. Nobody relies on the first for a second try."""
        known, self._known = self._known, None
        if known is not None and (beside is None or self._key(beside.number) in known.others):
            return known.head, None if beside is None else known.others[self._key(beside.number)]
        return self._rows(beside)

    def _rows(self, beside: Beside | None) -> tuple[Head, Stored | None]:
        """Return the head row, and what is stored of the row beside it."""
        if beside is None:
            return self._head(), None
        head, stored = self._table.get_many([self._key(0), self._key(beside.number)])
        return self._as_head(head), stored

    def _write(self, beside: Beside | None, value: bytes | None, stored: Stored | None) -> list[Write]:
        if beside is None or value is None:
            return []
        return [(self._key(beside.number), value, NOT_EXISTS if stored is None else stored.version)]

    def read_beside(self, number: int, read: Callable[[Stored | None, int], T]) -> T:
        """Read a row of another kind with this number, given what is stored of it and the stream's origin.

        It may be what this log has written last, and another one since.
        """
        return read(self.stored_beside(number), self.learn_origin())

    def stored_beside(self, number: int) -> Stored | None:
        """Return what is stored of a row of another kind, which may be about an older stream of this name."""
        if self._known is not None and self._key(number) in self._known.others:
            return self._known.others[self._key(number)]
        try:
            return self._table.get(self._key(number))
        except KeyValueTableNotFoundError:
            return None

    def all_beside(self) -> list[Stored]:
        """Return all rows of other kinds, also those about an older stream of this name."""
        try:
            return [entry for _, entry in self._table.entries(self._key(1 << 63), self._key((1 << 64) - 1))]
        except KeyValueTableNotFoundError:
            return []

    def replace_beside(self, number: int, change: Callable[[Stored | None, int], bytes | None]) -> None:
        """Replace such a row by what `change` returns for it, which may be called again; None leaves it as it is."""
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

    def _head(self) -> Head:
        return self._as_head(self._table.get(self._key(0)))

    @staticmethod
    def _as_head(entry: Stored | None) -> Head:
        if entry is None:
            return Head()
        row = json.loads(entry.value)
        queue = tuple(
            Entry(uuid.UUID(one["transaction"]), one["rows"], one["operation"], read_content(one.get("content")))
            for one in row["committing"]
        )
        times = row.get("timestamp_ms", 0), row.get("ordered_from")
        return Head(row["version"], queue, row["origin"], entry.version, *times, read_content(row.get("content")))

    def _record(self, version: int) -> dict[str, Any]:
        entry = self._table.get(self._key(version))
        record: dict[str, Any] = {} if entry is None else json.loads(entry.value)
        return record

    def _replace(self, old: Head, new: Head, also: Sequence[Write] = ()) -> bool:
        """Replace the head row, and write other rows in the same atomic step; False if `old` is old."""
        committing = [
            {
                "transaction": str(entry.transaction),
                "rows": entry.rows,
                "operation": entry.operation,
                "content": content_value(entry.content),
            }
            for entry in new.queue
        ]
        row = {
            "stream": self._stream.name,
            "version": new.version,
            "committing": committing,
            "origin": new.origin,
            "timestamp_ms": new.timestamp_ms,
            "ordered_from": new.ordered_from,
            "content": content_value(new.content),
        }
        self._known = None
        try:
            versions = self._table.put_many([(self._key(0), as_bytes(row), old.row_version), *also])
        except ConditionalUpdateError:
            return False
        others = {key: Stored(value, version) for (key, value, _), version in zip(also, versions[1:], strict=True)}
        self._known = _Known(replace(new, row_version=versions[0]), others)
        return True

    def _key(self, number: int) -> bytes:
        return row_key(self._stream, number)

    def _is_of_this_stream(self, head: Head) -> bool:
        try:
            return head.origin == origin_of(self._pravega, self._stream)
        except PermissionDeniedError:
            return True


def row_key(stream: Stream, number: int) -> bytes:
    """Return the key of a row of a stream."""
    return hashlib.blake2b(stream.name.encode(), digest_size=16).digest() + number.to_bytes(8, "big")


def origin_of(pravega: Pravega, stream: Stream) -> int:
    """Return the number of a stream's very first segment, which tells it from one made again under its name."""
    return pravega.known_streams.origin(stream)


def as_bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
