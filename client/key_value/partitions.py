"""The partitions of a key-value table: how to find their segments, and the requests for pages of entries.

A partition is a table segment. Only users with READ_UPDATE learn the segments' numbers from the controller.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_pravega.errors import PermissionDeniedError

from ..segments.failures import SegmentAddress, make_segment_not_found_error
from ..segments.store import SegmentStore
from ..stream import Access, make_key_value_table_stream, make_segment_id
from ..wire import commands as wire
from ..wire.replies import NoSuchSegment
from ..wire.table_replies import TableEntriesRead, TableKeysRead, TableSegmentInfo

if TYPE_CHECKING:
    from ..controller.controller import Controller

PROBED_STARTS = 1024
"""How often a table may have been deleted and created again before users with READ alone cannot find it any more."""

_PROBES = (0, 1, 8, 64, 256, PROBED_STARTS)
"""Bounds of the numbers of earlier tables that are looked for at once."""

PAGE = 1000
"""Entries asked for at once. Segment stores answer with 200 to 1,400, however many are asked for and however large."""

_PAGE_BYTES = 2 << 20


class TablePartitions:
    """The segments of one table's partitions, as far as they are known. Thread-safe."""

    def __init__(self, store: SegmentStore, controller: Controller, scope: str, name: str) -> None:
        self._store = store
        self._controller = controller
        self._scope = scope
        self._name = name
        self._stream = make_key_value_table_stream(scope, name)
        self._least = 0
        self.known: tuple[int, ...] | None = None
        """The segment ids in the order of the partitions; None before they are needed."""

    def ids(self) -> tuple[int, ...]:
        """Return the segment ids in the order of the partitions; the first call finds them, see `learn`."""
        ids = self.known
        return self.learn() if ids is None else ids

    def learn(self) -> tuple[int, ...]:
        """Find the segment ids again, even if they are known.

        The controller gives them only to users with READ_UPDATE on the table. For others this looks for the segments:
        n successive numbers include exactly one multiple of n, so one lookup for each table that may have had this name
        suffices, up to `PROBED_STARTS` of them. Raises KeyValueTableNotFoundError, and PermissionDeniedError if there
        are no segments within that bound, or the user may not even read.
        """
        try:
            ids = tuple(self._controller.key_value_table_segments(self._scope, self._name))
        except PermissionDeniedError as denied:
            ids = self._probe(denied)
        self.known = ids
        return ids

    def _probe(self, denied: PermissionDeniedError) -> tuple[int, ...]:
        count = self._controller.key_value_table_configuration(self._scope, self._name).partitions
        for first, last in itertools.pairwise(_PROBES):
            hits = self._find_existing(range(self._least + first * count, self._least + last * count, count))
            if not hits:
                continue
            ids = self._find_existing(range(max(0, hits[-1] - count + 1), hits[-1] + count))
            if len(ids) != count:
                break
            self._least = ids[0]  # numbers only grow
            return tuple(make_segment_id(number, 0) for number in ids)
        else:
            raise denied
        raise make_segment_not_found_error(SegmentAddress(self._stream, 0))  # it is being created or deleted right now

    def _find_existing(self, numbers: Iterable[int]) -> list[int]:
        addresses = [SegmentAddress(self._stream, make_segment_id(number, 0)) for number in numbers]
        replies = self._store.request_all(
            addresses, Access.READ, "look up", wire.get_table_info, TableSegmentInfo, NoSuchSegment
        )
        ids = []
        for address in addresses:
            if isinstance(replies[address], TableSegmentInfo):
                ids.append(address.segment_id)
            else:
                self._store.forget_location(address.stream, address.segment_id)
        return ids


@dataclass(frozen=True)
class PartitionSize:
    """The size of a partition. The number of its entries lags behind writes."""

    bytes: int
    entries: int

    @property
    def pages(self) -> int:
        """Return about how many pages hold all entries, at least one."""
        return 1 + max(self.entries // PAGE, self.bytes // _PAGE_BYTES)


def find_next_start(page: TableEntriesRead | TableKeysRead) -> bytes | None:
    """Return the first key of the page after this one, which has the same length; None if there is no further page."""
    entries = page.entries if isinstance(page, TableEntriesRead) else page.keys
    if not entries:
        return None
    last = entries[-1].key
    number = int.from_bytes(last, "big") + 1
    return number.to_bytes(len(last), "big") if number < 1 << 8 * len(last) else None
