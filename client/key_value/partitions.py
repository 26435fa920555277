"""Finds the table segments that are the partitions of a key-value table, and reads pages of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pyspark_pravega.errors import PermissionDeniedError

from ..segments.failures import SegmentAddress, segment_not_found
from ..segments.store import Request, SegmentStore
from ..stream import Access, key_value_table_stream, segment_id
from ..wire import commands as wire
from ..wire.replies import NoSuchSegment, Reply
from ..wire.table_replies import TableEntriesRead, TableKeysRead, TableSegmentInfo

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
        raise segment_not_found(SegmentAddress(self._stream, 0))  # it is being made or deleted right now

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


_PAGE = 1000
"""Entries asked for at once. Segment stores answer with 200 to 1,400, whatever is asked and however large they are."""
_PAGE_BYTES = 2 << 20

PageRequest = Callable[[int, str, str, int, bytes, bytes], bytes]


@dataclass(frozen=True)
class PartitionSize:
    """How large a partition is. The number of its entries lags behind writes."""

    bytes: int
    entries: int

    @property
    def pages(self) -> int:
        """Return about how many pages all entries are, at least one."""
        return 1 + max(self.entries // _PAGE, self.bytes // _PAGE_BYTES)


def make_page_request(request: PageRequest, start: bytes, last: bytes) -> Request:
    """Return the request for a page that begins with a key and does not go beyond the last (b"": open)."""
    return lambda request_id, segment, token: request(request_id, segment, token, _PAGE, start, last)


def find_next_start(page: Reply) -> bytes | None:
    """Return where the page after this one begins; None when there is none."""
    if isinstance(page, TableEntriesRead) and page.entries:
        return _next_key(page.entries[-1].key)
    if isinstance(page, TableKeysRead) and page.keys:
        return _next_key(page.keys[-1].key)
    return None


def _next_key(key: bytes) -> bytes | None:
    """Return the key right after `key` among keys of its length, None after the last."""
    number = int.from_bytes(key, "big") + 1
    return number.to_bytes(len(key), "big") if number < 1 << 8 * len(key) else None
