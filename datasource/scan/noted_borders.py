"""Borders between events that scans note in the commit table, so that later scans can divide segments there.

Events have no marks by which a reader could begin in the middle of a segment. But a scan that reads a segment from its
head sees where events begin, and bytes never change. A row that is wrong all the same leads to no wrong result of a
scan whose tasks all read to their ends: a task that begins at a border between events ends exactly at the next one, or
else fails, and with it the scan.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from bisect import bisect_left
from collections.abc import Hashable, Sequence

import numpy as np

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, Entry
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import Window
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.sql import options as o

from ..commit_log.log_table import FIRST_BORDER_ROW, TABLE_NAME, encode_row, make_row_key, write_in_table
from ..workers.connections import hash_config

LOG = logging.getLogger(__name__)

SPACING = 2 << 20
"""Bytes between two borders that are noted, at least: few enough for a row, and parts of 64 MB differ by 3 %."""
_MOST = 2048
"""Borders of a segment in its row, about. In a long segment they are farther apart."""
_SECONDS = 1.0
"""How long a task tries to note borders, or to remove them."""
_REFUSED: Recent[Hashable, bool] = Recent()
"""The users who may not note borders, each in one scope."""
_REMEMBERED: Recent[Hashable, Sequence[int]] = Recent()
"""The borders that scans of these users have seen, as far as this process knows."""


class NotedBorders:
    """The borders that scans have noted in the segments of one stream: one row for each segment.

    Segment numbers distinguish a stream from one recreated under its name.
    """

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        """Send nothing yet."""
        self._stream = stream
        self._rows = pravega.key_value_table(stream.scope, TABLE_NAME)
        self._user = (hash_config(pravega.config), stream.scope)

    def find(self, segment_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the borders of segments, in order: those in the commit table, if the user may read it, and others."""
        keys = [self._key(segment_id) for segment_id in segment_ids]
        try:
            noted = [_read(entry) for entry in self._rows.get_many(keys)]
        except (errors.KeyValueTableNotFoundError, errors.PermissionDeniedError):
            noted = [[] for _ in keys]
        more = [_REMEMBERED.find((self._user, key)) for key in keys]
        known = (_merge(one, other, 0) if other else one for one, other in zip(noted, more, strict=True))
        return dict(zip(segment_ids, known, strict=True))

    def add(self, segment_id: int, head: int, borders: Sequence[int]) -> Sequence[int]:
        """Note borders behind the head of a segment, in order, unless others are known near them.

        What fails is tried again by the next scan. Returns numbers for `remember` in the process that plans the scans
        of a user who may not write the commit table; else none.
        """
        try:
            if not _REFUSED.find(self._user):
                with limit_retries(_SECONDS):
                    write_in_table(self._rows, lambda: self._add(segment_id, head, borders))
                return ()
        except errors.PermissionDeniedError as error:
            _REFUSED.put(self._user, True)
            LOG.debug("No borders are noted in scope %s: %s", self._stream.scope, error)
        except errors.ConditionalUpdateError as error:
            LOG.debug("Borders of segment %s were not noted: %s", self._name(segment_id), error)
        except errors.PravegaError as error:
            LOG.warning("Borders of segment %s were not noted: %s", self._name(segment_id), error)
        if not _REFUSED.find(self._user):
            return ()
        numbers = (segment_id >> 32, segment_id & 0xFFFFFFFF, head, len(borders), *borders)
        self.remember(numbers)
        return numbers

    def remember(self, numbers: Sequence[int]) -> None:
        """Remember borders in this process, as `add` has returned them in another one, of some segments."""
        left = iter(numbers)
        for high in left:
            key = self._user, self._key(high << 32 | next(left))
            head, borders = next(left), list(itertools.islice(left, next(left)))
            _REMEMBERED.put(key, _merge(_REMEMBERED.find(key) or (), borders, head))

    def _add(self, segment_id: int, head: int, borders: Sequence[int]) -> None:
        stored = self._rows.get(self._key(segment_id))
        before = _read(stored)
        merged = _merge(before, borders, head)
        if merged != before:
            deltas = [border - previous for previous, border in itertools.pairwise([0, *merged])]
            row = {"stream": self._stream.name, "segment": segment_id, "borders": deltas}
            self._rows.put(self._key(segment_id), encode_row(row), NOT_EXISTS if stored is None else stored.version)

    def doubt(self, segment_id: int, error: errors.MalformedEventError) -> errors.MalformedEventError:
        """Remove the borders of a segment in which a task could not read an event; return the error to raise."""
        advice = "in case one is wrong, they were removed: run the query again"
        _REMEMBERED.pop((self._user, self._key(segment_id)))
        try:
            with limit_retries(_SECONDS):
                self._rows.delete(self._key(segment_id))
        except errors.PravegaError as failure:
            LOG.warning("Borders of segment %s were not removed: %s", self._name(segment_id), failure)
            advice = (
                f"in case one is wrong, read the segment in one piece, with '{o.MIN_PARTITIONS.key}'='1' and a large "
                f"'{o.MAX_BYTES_PER_TASK.key}'"
            )
        return errors.MalformedEventError(
            f"{error.message.rstrip('.')}. The segment was divided at borders that earlier scans had noted; {advice}."
        )

    def _key(self, segment_id: int) -> bytes:
        digest = hashlib.blake2b(f"borders {segment_id}".encode(), digest_size=8).digest()
        return make_row_key(self._stream, FIRST_BORDER_ROW | int.from_bytes(digest, "big") >> 2)

    def _name(self, segment_id: int) -> str:
        return make_segment_name(self._stream, segment_id)


def _read(stored: Entry | None) -> list[int]:
    """Return the borders in a row; none for one that is not like those that scans write."""
    try:
        deltas = [] if stored is None else json.loads(stored.value)["borders"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        LOG.warning("A row of noted borders cannot be read: %s", error)
        return []
    is_list = isinstance(deltas, list) and all(type(delta) is int and delta > 0 for delta in deltas)
    return list(itertools.accumulate(deltas)) if is_list else []


def _merge(stored: Sequence[int], new: Sequence[int], head: int) -> list[int]:
    """Return stored borders behind the head, and new ones that are far from these, no more than a row may have."""
    spacing = max(SPACING, (new[-1] - head) // _MOST)
    merged: list[int] = []
    for border in (*stored, *new):
        index = bisect_left(merged, border)
        neighbors = merged[max(index - 1, 0) : index + 1]
        if border > head and all(abs(border - neighbor) >= spacing for neighbor in neighbors):
            merged.insert(index, border)
    return merged


class BorderNotes:
    """The borders that a task sees in one slice while it reads it."""

    def __init__(self, start: int) -> None:
        """Begin at the first offset of the slice."""
        self._last = start
        self.borders: list[int] = []

    def take(self, window: Window) -> None:
        """Take the beginnings of a window's events, each that is far enough behind the last one."""
        zero = window.base - HEADER_BYTES
        while (index := np.searchsorted(window.starts, self._last + SPACING - zero)) < len(window.starts):
            self._last = int(zero + window.starts[index])
            self.borders.append(self._last)
