"""Finds the table segments that are the partitions of a key-value table.

A table of a new name has the segments 0 to n - 1. One made under the name of a deleted table, even in a scope made
anew, goes on counting where that one ended. Tables never scale, so the n numbers are consecutive, all of epoch 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

from pyspark_pravega.errors import PermissionDeniedError

from ..segments.failures import SegmentAddress, missing_segment
from ..segments.store import SegmentStore
from ..stream import Access, key_value_table_stream, segment_id
from ..wire import commands as wire
from ..wire.replies import NoSuchSegment
from ..wire.table_replies import TableSegmentInfo

PROBED_STARTS = 1024
"""How often a table may have been deleted and made again until users with READ alone cannot find it any more."""

_PROBES = (0, 1, 8, 64, 256, PROBED_STARTS)


class PartitionsController(Protocol):
    """What TablePartitions needs of the controller."""

    def key_value_table_partitions(self, scope: str, name: str) -> int: ...

    def key_value_table_segments(self, scope: str, name: str) -> list[int]: ...


class TablePartitions:
    """The partitions of one table, as far as known. Thread-safe."""

    def __init__(self, store: SegmentStore, controller: PartitionsController, scope: str, name: str) -> None:
        self._store = store
        self._controller = controller
        self._scope = scope
        self._name = name
        self._stream = key_value_table_stream(scope, name)
        self._least = 0
        self.known: tuple[int, ...] | None = None
        """The segment ids in the order of the partitions; None if nobody has asked yet."""

    def ids(self) -> tuple[int, ...]:
        """Return the segment ids in the order of the partitions; found out the first time, see `learn`."""
        known = self.known
        return self.learn() if known is None else known

    def learn(self) -> tuple[int, ...]:
        """Find out the segment ids, whatever was known.

        The controller tells them only to users with READ_UPDATE on the table. For others the segments are looked
        for: any n numbers in a row have exactly one that n divides, so one lookup for each table there may have
        been of this name will do, up to `PROBED_STARTS` of them. Raises KeyValueTableNotFoundError, and
        PermissionDeniedError if there are no segments within that bound or the user may not even read.
        """
        try:
            found = tuple(self._controller.key_value_table_segments(self._scope, self._name))
        except PermissionDeniedError as denied:
            found = self._probe(denied)
        self.known = found
        return found

    def _probe(self, denied: PermissionDeniedError) -> tuple[int, ...]:
        count = self._controller.key_value_table_partitions(self._scope, self._name)
        for first, last in itertools.pairwise(_PROBES):
            hits = self._existing(range(self._least + first * count, self._least + last * count, count))
            if not hits:
                continue
            found = self._existing(range(max(0, hits[-1] - count + 1), hits[-1] + count))
            if len(found) != count:
                break
            self._least = found[0]  # numbers only ever grow
            return tuple(segment_id(number, 0) for number in found)
        else:
            raise denied
        raise missing_segment(SegmentAddress(self._stream, 0))  # it is being made or deleted right now

    def _existing(self, numbers: Iterable[int]) -> list[int]:
        addresses = [SegmentAddress(self._stream, segment_id(number, 0)) for number in numbers]
        replies = self._store.request_all(
            addresses, Access.READ, "look up", wire.get_table_info, TableSegmentInfo, NoSuchSegment
        )
        found = []
        for address in addresses:
            if isinstance(replies[address], TableSegmentInfo):
                found.append(address.segment_id)
            else:
                self._store.forget_location(address.stream, address.segment_id)
        return found
