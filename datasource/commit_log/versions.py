"""The versions of a stream in the commit log: read by number and by time; old ones are folded into checkpoints."""

from __future__ import annotations

import base64
import json
import logging
import uuid
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark_pravega.client.key_value.key_value_table import MAX_VALUE_BYTES, Entry
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConditionalUpdateError, KeyValueTableNotFoundError, PravegaError

from .log_table import ChangeCounts, HeadRow, LogTable, Version, read_counts, read_version

LOG = logging.getLogger(__name__)

FOLDED = 128
"""Versions in a checkpoint, the last of which has a number divisible by this."""
_FOR_OLDER_RELEASES = "folded by a newer pyspark-pravega: upgrade this one"
"""Stands where older releases, which know no checkpoints, look for a stream cut: their error quotes it."""
_FOLDS_AT_ONCE = 8
"""The most checkpoints that one commit makes to catch up with earlier ones."""
_FOLDING_SECONDS = 5.0
"""How long a commit folds at most."""


def find_checkpoint_number(version: int) -> int:
    """Return the number of the row that holds a version once it is folded."""
    return -(-version // FOLDED) * FOLDED


def is_checkpoint(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a checkpoint, and not a single version."""
    return "folded" in row


def encode_checkpoint(stream: Stream, origin: int, versions: Sequence[Version]) -> bytes:
    """Return the row of these consecutive versions."""
    rows: list[list[Any]] = []
    before: Mapping[int, int] = {}
    for version in versions:
        positions = version.cut.positions
        moved = {segment: end - before.get(segment, 0) for segment, end in positions.items()}
        moved = {segment: more for segment, more in moved.items() if more or segment not in before}
        gone = [segment for segment in before if segment not in positions]
        transaction = None if version.transaction is None else version.transaction.hex
        facts = [version.timestamp // 1000, version.rows, version.operation, transaction, moved, gone]
        rows.append(facts if version.changes is None else [*facts, version.changes])
        before = positions
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
    row = {
        "stream": stream.name,
        "version": versions[-1].number,
        "cut": _FOR_OLDER_RELEASES,
        "transaction": "",
        "origin": origin,
        "folded": base64.b64encode(packed).decode("ascii"),
        "first": versions[0].number,
    }
    return json.dumps(row).encode()


def read_checkpoint(stream: Stream, row: Mapping[str, Any]) -> list[Version]:
    """Return the versions of a checkpoint, ascending."""
    versions: list[Version] = []
    positions: dict[int, int] = {}
    for number, packed in enumerate(json.loads(zlib.decompress(base64.b64decode(row["folded"]))), row["first"]):
        timestamp_ms, rows, operation, transaction, moved, gone, *changes = packed
        for segment, more in moved.items():
            positions[int(segment)] = positions.get(int(segment), 0) + more
        for segment in gone:
            del positions[segment]
        transaction_id = None if transaction is None else uuid.UUID(hex=transaction)
        cut, counts = StreamCut(stream, positions), read_counts(ChangeCounts, *changes) if changes else None
        versions.append(Version(number, cut, timestamp_ms * 1000, rows, operation, transaction_id, counts))
    return versions


class VersionTable(LogTable):
    """The versions of one stream. Only one thread may use an object at a time."""

    def versions(self, first: int = 1, last: int | None = None) -> list[Version]:
        """Return the versions from `first` to `last` (None: the newest), ascending; none if nothing was logged.

        The first version is 1. Rows of an older stream of this name do not count, if this user may ask for the
        origin, which distinguishes it. Raises PermissionDeniedError for a user who may not read the log.
        """
        head = self._read_valid_head()
        return [] if head is None else self._versions(head, first, head.version if last is None else last)

    def newest(self) -> int:
        """Return the number of the newest version, 0 if nothing was logged; raises the errors of `versions`."""
        head = self._read_valid_head()
        return 0 if head is None else head.version

    def version(self, number: int) -> Version | None:
        """Return a version, None if the log does not have it; raises the errors of `versions`."""
        versions = self.versions(number, number)
        return versions[0] if versions else None

    def find_newest_by(self, timestamp: int) -> Version | None:
        """Return the newest version published at a time (microseconds since 1970) or before, or None.

        Looks at a few versions, and at all that older releases published, whose times may be in any order. Raises
        the errors of `versions`.
        """
        head = self._read_valid_head()
        if head is None:
            return None
        ordered = head.ordered_from or head.version + 1
        low, high, newest = ordered, head.version, None
        versions: dict[int, Version] = {}
        while low <= high:
            middle = (low + high) // 2
            if middle not in versions:
                # This finds all versions of a checkpoint at once.
                versions |= self._read_around(head, middle)
            here = versions.get(middle)
            if here is None or here.timestamp <= timestamp:
                low, newest = middle + 1, here or newest
            else:
                high = middle - 1
        if newest is None:
            for version in self._versions(head, 1, ordered - 1):
                newest = version if version.timestamp <= timestamp else newest
        return newest

    def has_version_of(self, transaction: uuid.UUID) -> bool:
        """Return whether a transaction has a version. Looks at all versions: the server may have forgotten it."""
        return any(version.transaction == transaction for version in self.versions())

    def fold(self) -> int:
        """Fold old versions, the oldest first; return how many checkpoints were made, or finished for others.

        There are a few at most. At least the newest FOLDED versions stay as they are. Raises PermissionDeniedError for
        a user who may not write the log.
        """
        head = self._read_valid_head()
        if head is None or head.origin is None:
            return 0
        blocks = range(FOLDED, head.version - FOLDED + 1, FOLDED)
        done = bisect_left(blocks, True, key=lambda last: not self._is_folded(last))
        count = 0
        for last in blocks[done : done + _FOLDS_AT_ONCE]:
            if not self._fold_up_to(last, head.origin):
                break
            count += 1
        return count

    def _is_folded(self, last: int) -> bool:
        """Return whether only the checkpoint is left of the versions up to this one."""
        return len(list(self._table.keys(self._key(last - FOLDED + 1), self._key(last)))) == 1

    def _fold_up_to(self, last: int, origin: int) -> bool:
        """Fold the versions up to this one, or remove what is left of them; False if they cannot be folded."""
        stored = list(self._table.entries(self._key(last - FOLDED + 1), self._key(last)))
        rows = {key: json.loads(entry.value) for key, entry in stored}
        end = rows.get(self._key(last))
        if end is None or self._head().origin != origin:
            return False  # the table is being dropped, or was recreated: some of these versions may be of the new one
        if not is_checkpoint(end):
            versions = sorted((read_version(row) for row in rows.values()), key=lambda version: version.number)
            if [version.number for version in versions] != list(range(last - FOLDED + 1, last + 1)):
                LOG.warning("Versions of stream %s before %d are missing in its commit log.", self._stream, last)
                return False
            value = encode_checkpoint(self._stream, origin, versions)
            if len(value) > MAX_VALUE_BYTES:
                return False  # the stream has thousands of segments
            end_version = dict(stored)[self._key(last)].version
            self._table.put(self._key(last), value, end_version)
        elif end["origin"] != origin:
            return False
        left = [(key, entry.version) for key, entry in stored if key != self._key(last)]
        if left:
            self._table.delete_many([key for key, _ in left], [version for _, version in left])
        return True

    def _fold_at(self, version: int) -> None:
        """Fold if this version, just published, fills a checkpoint. Errors do not matter: the version stands."""
        if version % FOLDED:
            return
        try:
            with limit_retries(_FOLDING_SECONDS):
                self.fold()
        except (ConditionalUpdateError, KeyValueTableNotFoundError):
            LOG.debug("Somebody else folds the commit log of stream %s, or drops it.", self._stream)
        except (PravegaError, ValueError, KeyError) as error:
            LOG.warning("Old versions in the commit log of stream %s were not folded: %r", self._stream, error)

    def _read_valid_head(self) -> HeadRow | None:
        try:
            head = self._head()
        except KeyValueTableNotFoundError:
            return None
        return head if head.origin is not None and self._is_of_this_stream(head) else None

    def _versions(self, head: HeadRow, first: int, last: int) -> list[Version]:
        first, last = max(first, 1), min(last, head.version)
        if last < first:
            return []
        if first == last:
            versions = self._read_around(head, first)
        else:
            versions = self._read(head, (entry for _, entry in self._table.entries(self._key(first), self._key(last))))
            if last % FOLDED and sum(first <= number <= last for number in versions) < last - first + 1:
                # Read last: a version that was removed meanwhile is in a checkpoint now.
                end = self._table.get(self._key(find_checkpoint_number(last)))
                versions = {**self._read(head, [end]), **versions}
        return [versions[number] for number in sorted(versions) if first <= number <= last]

    def _read_around(self, head: HeadRow, number: int) -> dict[int, Version]:
        """Return a version, with those in the same row."""
        keys = list(dict.fromkeys((self._key(number), self._key(find_checkpoint_number(number)))))
        return self._read(head, self._table.get_many(keys))

    def _read(self, head: HeadRow, stored: Iterable[Entry | None]) -> dict[int, Version]:
        """Return the versions in rows by their numbers. A row of its own counts more than a checkpoint.

        A checkpoint may be left over from an older stream of this name.
        """
        single: dict[int, Version] = {}
        folded: dict[int, Version] = {}
        for entry in stored:
            row: Mapping[str, Any] = {} if entry is None else json.loads(entry.value)
            if not row:
                continue
            if not is_checkpoint(row):
                version = read_version(row)
                single[version.number] = version
            elif row["origin"] == head.origin:
                folded.update((version.number, version) for version in read_checkpoint(self._stream, row))
        return {**folded, **single}
