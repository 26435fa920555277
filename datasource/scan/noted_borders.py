"""Borders between events that scans note in the commit table, so that later scans can divide segments there.

Events have no marks by which a reader could begin in the middle of a segment. But a scan that reads a segment from its
head sees where events begin, and bytes never change. A row that is wrong all the same does no harm: a task that begins
at a border between events ends exactly at the next one, or else fails, and with it the scan.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from bisect import bisect_left
from collections.abc import Sequence

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, Entry
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import Window
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.errors import (
    ConditionalUpdateError,
    KeyValueTableNotFoundError,
    MalformedEventError,
    PermissionDeniedError,
    PravegaError,
)
from pyspark_pravega.sql import options as o

from ..commit_log.log_table import KEY_LENGTH, TABLE_NAME, encode_row, make_row_key

LOG = logging.getLogger(__name__)

SPACING = 6 << 20
"""Bytes between two borders that are noted, at least. So each window of the usual size has one."""
_MOST = 4096
"""Borders of a segment in its row. In a long segment they are farther apart."""
_SECONDS = 1.0
"""How long a task tries to note borders."""


class NotedBorders:
    """The borders that scans have noted in the segments of one stream: one row for each segment.

    Segment numbers distinguish a stream from one recreated under its name.
    """

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        """Send nothing yet."""
        self._stream = stream
        self._rows = pravega.key_value_table(stream.scope, TABLE_NAME)

    def of(self, segment_id: int) -> list[int]:
        """Return the borders of a segment, in order; none for a user who may not read the commit table."""
        try:
            return _read(self._rows.get(self._key(segment_id)))
        except (KeyValueTableNotFoundError, PermissionDeniedError):
            return []

    def add(self, segment_id: int, head: int, borders: Sequence[int]) -> None:
        """Note borders behind the head of a segment, in order, unless others are known near them.

        Users who may not write the commit table note nothing. What fails is tried again by the next scan.
        """
        try:
            with limit_retries(_SECONDS):
                try:
                    self._add(segment_id, head, borders)
                except KeyValueTableNotFoundError:
                    self._rows.create(1, KEY_LENGTH)
                    self._add(segment_id, head, borders)
        except (PermissionDeniedError, ConditionalUpdateError) as error:
            LOG.debug("Borders of segment %s were not noted: %s", self._name(segment_id), error)
        except PravegaError as error:
            LOG.warning("Borders of segment %s were not noted: %s", self._name(segment_id), error)

    def _add(self, segment_id: int, head: int, borders: Sequence[int]) -> None:
        stored = self._rows.get(self._key(segment_id))
        before = _read(stored)
        kept = _merge(before, borders, head)
        if kept != before:
            deltas = [border - previous for previous, border in itertools.pairwise([0, *kept])]
            row = {"stream": self._stream.name, "segment": segment_id, "borders": deltas}
            self._rows.put(self._key(segment_id), encode_row(row), NOT_EXISTS if stored is None else stored.version)

    def explain(self, segment_id: int, error: MalformedEventError) -> MalformedEventError:
        """Remove the borders of a segment in which a task could not read an event; return the error to raise."""
        hint = "they were removed, and the query reads the segment in one piece when it runs again"
        try:
            self._rows.delete(self._key(segment_id))
        except PermissionDeniedError:
            hint = f"read it in one piece, with '{o.MIN_PARTITIONS.key}'='1', to see whether the event is really bad"
        except KeyValueTableNotFoundError:
            LOG.debug("The borders of segment %s are gone.", self._name(segment_id))
        return MalformedEventError(
            f"{error.message.rstrip('.')}. The segment was divided at borders that earlier scans had noted; {hint}."
        )

    def _key(self, segment_id: int) -> bytes:
        digest = hashlib.blake2b(f"borders {segment_id}".encode(), digest_size=8).digest()
        return make_row_key(self._stream, 1 << 63 | int.from_bytes(digest, "big"))

    def _name(self, segment_id: int) -> str:
        return make_segment_name(self._stream, segment_id)


def _read(stored: Entry | None) -> list[int]:
    return [] if stored is None else list(itertools.accumulate(json.loads(stored.value)["borders"]))


def _merge(stored: Sequence[int], new: Sequence[int], head: int) -> list[int]:
    """Return stored borders behind the head, and new ones that are far from these, no more than a row may have."""
    behind = [border for border in (*stored, *new) if border > head]
    spacing = max(SPACING, (max(behind, default=head) - head) // (_MOST // 2))
    kept: list[int] = []
    for border in behind:
        index = bisect_left(kept, border)
        neighbors = kept[max(index - 1, 0) : index + 1]
        if all(abs(border - neighbor) >= spacing for neighbor in neighbors):
            kept.insert(index, border)
    return kept


class BorderNotes:
    """The borders that a task sees in one slice while it reads it."""

    def __init__(self, start: int) -> None:
        """Begin at the first offset of the slice."""
        self._last = start
        self.borders: list[int] = []

    def take(self, window: Window) -> None:
        """Take the beginning of the first event of a window, if it is far enough behind the last one."""
        border = int(window.base + window.starts[0] - HEADER_BYTES)
        if border - self._last >= SPACING:
            self.borders.append(border)
            self._last = border
