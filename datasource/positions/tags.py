"""Tags of a stream: names for positions in it.

All tags of a stream are one row of its scope's commit table, next to the versions. DROP TABLE removes them. A stream
recreated under the name has another origin, and does not inherit them. Tags do not keep events from being removed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import MAX_VALUE_BYTES, Entry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import compute_row_number

_ROW = compute_row_number("tags")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RESERVED = ("head", "tail", "earliest", "latest")


@dataclass(frozen=True)
class Tag:
    """A name for a position. `version` is the version that ends there, if any.

    `created` is in microseconds since 1970.
    """

    name: str
    cut: StreamCut
    version: int | None
    created: int


class Tags:
    """The tags of one stream. Only one thread may use an object at a time.

    All calls raise PermissionDeniedError for a user without the right to read, or write, the scope's commit table.
    """

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        """Send nothing yet."""
        self._pravega = pravega
        self._stream = stream
        self._log = CommitLog(pravega, stream)

    def all(self) -> list[Tag]:
        """Return all tags, the oldest first."""
        stored = self._log.find_companion(_ROW)
        try:
            tags = _read_tags(_read(stored, self._log.learn_origin()))
        except errors.PermissionDeniedError:
            # A user who may only read cannot ask for the origin. Positions of an older stream do not fit this one.
            tags = _read_tags(_read_row(stored).get("tags", {}))
            if tags and not self._pravega.known_streams.is_cut(tags[0].cut):
                return []
        return tags

    def create(self, name: str, find: Callable[[], tuple[StreamCut, int | None]], *, replace: bool = False) -> Tag:
        """Make a tag, and the commit table if it is missing. With `replace`, the tag may exist already.

        `find` returns its position, and the version that ends there. If the stream is recreated under its name in
        between, the tag belongs to the old stream. Raises the errors of `find`, InvalidNameError for a name that cannot
        be a tag or is one already, and StreamNotFoundError.
        """
        _check(name)
        self._log.learn_origin()
        cut, version = find()
        tag = Tag(name, cut, version, time.time_ns() // 1000)

        def change(tags: dict[str, Any]) -> dict[str, Any]:
            if name in tags and not replace:
                raise errors.InvalidNameError(
                    f"Stream {self._stream} has a tag '{name}' already. Choose another name, drop "
                    "the tag first, or move it with replace => true."
                )
            return {**tags, name: {"cut": cut.to_text(), "version": version, "created": tag.created}}

        try:
            self._change(change)
        except errors.KeyValueTableNotFoundError:
            self._log.make_ready()
            self._change(change)
        return tag

    def drop(self, name: str) -> bool:
        """Remove a tag; return False if there is no such tag."""
        is_dropped = False

        def change(tags: dict[str, Any]) -> dict[str, Any] | None:
            nonlocal is_dropped
            is_dropped = name in tags
            return {tag: row for tag, row in tags.items() if tag != name} if is_dropped else None

        try:
            self._change(change)
        except errors.KeyValueTableNotFoundError:
            return False
        return is_dropped

    def _change(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        def change_row(stored: Entry | None, origin: int) -> bytes | None:
            if stored is not None and json.loads(stored.value)["origin"] > origin:
                raise errors.StreamNotFoundError(
                    f"Stream {self._stream} was deleted, and another one made under its name, while its tags were "
                    "being changed. Try again."
                )
            before = _read(stored, origin)
            tags = change(dict(before))
            if tags is None:
                return None
            value = json.dumps({"stream": self._stream.name, "origin": origin, "tags": tags}).encode()
            if len(value) > MAX_VALUE_BYTES:
                raise errors.InvalidOptionError(
                    f"Stream {self._stream} has {len(before):,} tags, and no room for more. Drop some of them."
                )
            return value

        self._log.replace_companion(_ROW, change_row)


def _read(stored: Entry | None, origin: int) -> Mapping[str, Any]:
    row = _read_row(stored)
    return row["tags"] if row.get("origin") == origin else {}


def _read_row(stored: Entry | None) -> dict[str, Any]:
    return {} if stored is None else json.loads(stored.value)


def _read_tags(rows: Mapping[str, Any]) -> list[Tag]:
    """Return tags, the oldest first."""
    tags = [Tag(name, StreamCut.from_text(row["cut"]), row["version"], row["created"]) for name, row in rows.items()]
    return sorted(tags, key=lambda tag: (tag.created, tag.name))


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or name.isdigit() or name.lower() in RESERVED:
        raise errors.InvalidNameError(
            f"'{name[:140]}' cannot be a tag. A tag has 1 to 128 letters, digits, '.', '_' and '-', begins "
            f"with a letter or a digit, and is neither a number, which would be a version, nor one of "
            f"{', '.join(RESERVED)}."
        )
