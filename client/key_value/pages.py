"""Pages of entries or keys: how they are asked for, and where the next one begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..segments.store import Request
from ..wire.replies import Reply
from ..wire.table_replies import TableEntriesRead, TableKeysRead

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


def page_request(request: PageRequest, start: bytes, last: bytes) -> Request:
    """Return the request for a page that begins with a key and does not go beyond the last (b"": open)."""
    return lambda request_id, segment, token: request(request_id, segment, token, _PAGE, start, last)


def start_of_next(page: Reply) -> bytes | None:
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
