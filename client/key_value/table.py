"""Key-value tables: entries with versions and conditional writes, each table a few table segments.

All tables have keys of a fixed length and are sorted within each partition. One request is atomic on its
partition. A token for the pretend stream `<table>_kvtable` opens a table's partitions; those that the controller
hands out for the table itself are refused by the segment stores of Pravega 0.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from pyspark_pravega.errors import (
    ConditionalUpdateError,
    InvalidRowError,
    KeyValueTableNotFoundError,
    PravegaError,
    ServerFailedError,
)

from ..routing import hash_table_key
from ..segments.connection import LongFrameError
from ..segments.failures import SegmentAddress, segment_not_found
from ..segments.store import Request, SegmentStore
from ..stream import Access, key_value_table_stream
from ..wire import commands as wire
from ..wire.replies import ErrorMessage, Reply
from ..wire.table_replies import (
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    TableKeysRead,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
)
from .partitions import (
    PageRequest,
    PartitionsController,
    PartitionSize,
    TablePartitions,
    find_next_start,
    make_page_request,
)

T = TypeVar("T")
PageT = TypeVar("PageT", TableEntriesRead, TableKeysRead)

ANY = wire.ANY_VERSION
"""Version for `put` and `delete`: whatever is stored, or nothing."""

NOT_EXISTS = wire.NOT_EXISTS
"""Version for `put`: only if the key is absent."""

MAX_VALUE_BYTES = 1024 * 1024 - 8 * 1024
"""Most bytes of a value (server constant)."""

MAX_BATCH_KEYS = 256
"""Most keys of one write (server constant)."""

MAX_READ_KEYS = 15
"""Most keys of one read: the largest values of more would be too large for a reply."""


@dataclass(frozen=True)
class Entry:
    """A value with its version, which every write of the key changes."""

    value: bytes = field(repr=False)
    version: int


class TableController(PartitionsController, Protocol):
    """What a KeyValueTable needs of the controller."""

    def create_key_value_table(
        self, scope: str, name: str, partitions: int, primary_key_length: int, secondary_key_length: int = 0
    ) -> bool: ...

    def delete_key_value_table(self, scope: str, name: str) -> None: ...


class KeyValueTable:
    """One table. Thread-safe; keeps no connection of its own.

    Besides what their descriptions say, all calls raise KeyValueTableNotFoundError, PermissionDeniedError,
    InvalidRowError for keys of a wrong length and values that are too long, TlsError, ServerUnavailableError and
    ServerTimeoutError. Reading needs only READ on the table and its pretend stream. A table that somebody deletes
    and makes again is found again, with what is in it now.
    """

    def __init__(
        self,
        store: SegmentStore,
        controller: TableController,
        scope: str,
        name: str,
        *,
        primary_key_length: int | None = None,
    ) -> None:
        """Nothing is sent yet.

        `primary_key_length`: bytes of the key that decide on the partition, if the table has secondary keys too.
        """
        self._store = store
        self._controller = controller
        self._scope = scope
        self._name = name
        self._title = f"key-value table '{scope}/{name}'"
        self._stream = key_value_table_stream(scope, name)
        self._primary = primary_key_length
        self._partitions = TablePartitions(store, controller, scope, name)

    def __repr__(self) -> str:
        return f"KeyValueTable({self._scope}/{self._name})"

    def create(self, partitions: int, primary_key_length: int, secondary_key_length: int = 0) -> bool:
        """Create the table; False if it exists already. Lengths are bytes. Needs READ_UPDATE on the scope."""
        created = self._controller.create_key_value_table(
            self._scope, self._name, partitions, primary_key_length, secondary_key_length
        )
        self._partitions.known = None
        return created

    def drop(self) -> None:
        """Delete the table with all its entries."""
        self._controller.delete_key_value_table(self._scope, self._name)
        self._partitions.known = None

    def check_writable(self) -> None:
        """Raise PermissionDeniedError if the user may not write to the table, before anything is written."""
        self._store.token(self._stream, Access.WRITE)

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return the entries of keys, in their order, None where there is none.

        Atomic for `MAX_READ_KEYS` keys of one partition at most.
        """
        return self._as_it_is_now(lambda: self._get_many(keys))

    def _get_many(self, keys: Sequence[bytes]) -> list[Entry | None]:
        found: dict[bytes, Entry | None] = {}
        for partition, of_partition in self._by_partition(keys).items():
            for at in range(0, len(of_partition), MAX_READ_KEYS):
                for entry in self._read(partition, of_partition[at : at + MAX_READ_KEYS]):
                    found[entry.key] = None if entry.version == NOT_EXISTS else Entry(entry.value, entry.version)
        return [found.get(key) for key in keys]

    def _read(self, partition: int, keys: Sequence[bytes]) -> Sequence[TableEntry]:
        def make(request_id: int, segment: str, token: str) -> bytes:
            return wire.read_table(request_id, segment, token, keys)

        reply = self._request(partition, Access.READ, "read", make, TableRead, keys=keys)
        assert isinstance(reply, TableRead)
        return reply.entries

    def put(self, key: bytes, value: bytes, version: int = ANY) -> int:
        """Write an entry and return its new version.

        `version`: `ANY`, `NOT_EXISTS`, or the one the entry must have. Raises ConditionalUpdateError when it has
        another. If the reply to a first attempt is lost and the entry turns out to hold this very value in a new
        version, it counts as written.
        """
        return self.put_many([(key, value, version)])[0]

    def put_many(self, writes: Sequence[tuple[bytes, bytes, int]]) -> list[int]:
        """Write several (key, value, version) at once or not at all, and return their new versions; see `put`.

        The keys must be different and in one partition, as they always are in tables with one partition.
        """
        for _, value, _ in writes:
            if len(value) > MAX_VALUE_BYTES:
                raise InvalidRowError(
                    f"a value of {len(value):,} bytes does not fit {self._title}; at "
                    f"most {MAX_VALUE_BYTES:,} are allowed"
                )
        keys = [key for key, _, _ in writes]
        entries = [TableEntry(key, version, value) for key, value, version in writes]
        repeated: list[None] = []
        reply = self._as_it_is_now(
            lambda: self._request(
                self._one_partition(keys),
                Access.WRITE,
                "write to",
                lambda request_id, segment, token: wire.update_table_entries(request_id, segment, token, entries),
                TableEntriesUpdated,
                TableKeyBadVersion,
                TableKeyDoesNotExist,
                keys=keys,
                repeated=repeated,
            )
        )
        if isinstance(reply, TableEntriesUpdated):
            return list(reply.versions)
        if repeated:
            stored = self.get_many(keys)
            versions = [
                entry.version
                for entry, (_, value, version) in zip(stored, writes, strict=True)
                if entry is not None and entry.value == value and entry.version != version
            ]
            if len(versions) == len(writes):
                return versions
        raise self._lost_race("written")

    def delete(self, key: bytes, version: int = ANY) -> None:
        """Remove an entry. Without a version it need not exist; with one ConditionalUpdateError is possible.

        If the reply to a first attempt is lost and the key turns out to be absent, it counts as removed.
        """
        repeated: list[None] = []
        reply = self._as_it_is_now(
            lambda: self._request(
                self.partition_of(key),
                Access.WRITE,
                "remove from",
                lambda request_id, segment, token: wire.remove_table_keys(
                    request_id, segment, token, [TableKey(key, version)]
                ),
                TableKeysRemoved,
                TableKeyBadVersion,
                TableKeyDoesNotExist,
                keys=[key],
                repeated=repeated,
            )
        )
        if not isinstance(reply, TableKeysRemoved) and not (repeated and self.get(key) is None):
            raise self._lost_race("removed")

    def delete_many(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Remove entries, all of one partition, whatever their versions; they need not exist.

        With `versions` all are removed if each has its version, or ConditionalUpdateError is raised: also if the reply
        to a first attempt, which removed them, is lost.
        """
        gone = list(map(TableKey, keys, [ANY] * len(keys) if versions is None else versions))
        reply = self._as_it_is_now(
            lambda: self._request(
                self._one_partition(keys),
                Access.WRITE,
                "remove from",
                lambda request_id, segment, token: wire.remove_table_keys(request_id, segment, token, gone),
                TableKeysRemoved,
                *((TableKeyBadVersion, TableKeyDoesNotExist) if versions is not None else ()),
                keys=keys,
            )
        )
        if not isinstance(reply, TableKeysRemoved):
            raise self._lost_race("removed")

    def entries(self, first: bytes = b"", last: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Yield all entries from key `first` to key `last`, both included (b"": open), ascending in each partition.

        Entries written or removed meanwhile may or may not be seen.
        """
        for page in self._of_all(self.pages, first, last):
            yield from ((entry.key, Entry(entry.value, entry.version)) for entry in page)

    def keys(self, first: bytes = b"", last: bytes = b"") -> Iterator[bytes]:
        """Yield the keys as `entries` does, without the values."""
        for page in self._of_all(self.key_pages, first, last):
            yield from (key.key for key in page)

    def pages(self, partition: int, first: bytes = b"", last: bytes = b"") -> Iterator[Sequence[TableEntry]]:
        """Yield the entries of one partition as `entries` does, many at a time."""
        try:
            for page in self._pages_of(partition, wire.read_table_entries, TableEntriesRead, first, last):
                yield page.entries
                first = find_next_start(page) or first
        except LongFrameError:  # the server bounds pages by the number of their entries, and these have large values
            for keys in self.key_pages(partition, first, last):
                for at in range(0, len(keys), MAX_READ_KEYS):
                    wanted = [each.key for each in keys[at : at + MAX_READ_KEYS]]
                    found = self._as_it_is_now(partial(self._read, partition, wanted))
                    yield [each for each in found if each.version != NOT_EXISTS]

    def key_pages(self, partition: int, first: bytes = b"", last: bytes = b"") -> Iterator[Sequence[TableKey]]:
        """Yield the keys of one partition as `pages` does, without the values."""
        for page in self._pages_of(partition, wire.read_table_keys, TableKeysRead, first, last):
            yield page.keys

    def sizes(self) -> list[PartitionSize]:
        """Measure each partition, entries included that were replaced a short time ago."""
        return self._as_it_is_now(self._sizes)

    def _sizes(self) -> list[PartitionSize]:
        addresses = [SegmentAddress(self._stream, each) for each in self._partitions.ids()]
        infos = self._store.request_all(addresses, Access.READ, "look up", wire.get_table_info, TableSegmentInfo)
        found = [each for each in map(infos.__getitem__, addresses) if isinstance(each, TableSegmentInfo)]
        return [PartitionSize(each.length - each.start_offset, each.entry_count) for each in found]

    def segments(self) -> tuple[int, ...]:
        """Ask for the segment ids of the partitions, in their order. A table made again has others."""
        return self._partitions.learn()

    def _of_all(self, pages: Callable[[int, bytes, bytes], Iterator[T]], first: bytes, last: bytes) -> Iterator[T]:
        partition = 0
        while partition < len(self._partitions.ids()):
            yield from pages(partition, first, last)
            partition += 1

    def _pages_of(
        self, partition: int, request: PageRequest, expected: type[PageT], first: bytes, last: bytes
    ) -> Iterator[PageT]:
        bounds = [key for key in (first, last) if key]
        start: bytes | None = first
        while start is not None:
            make = make_page_request(request, start, last)
            reply = self._as_it_is_now(
                partial(self._request, partition, Access.READ, "read", make, expected, keys=bounds)
            )
            assert isinstance(reply, expected)
            yield reply
            start = find_next_start(reply)
            if start is not None and last and start > last:
                break

    def _as_it_is_now(self, act: Callable[[], T]) -> T:
        """Do something, once more if the table has other segments than was thought: it was deleted and made again."""
        known = self._partitions.known
        try:
            return act()
        except KeyValueTableNotFoundError:
            if known is None or self._partitions.learn() == known:
                raise
            return act()

    def partition_of(self, key: bytes) -> int:
        """Return the partition of a key."""
        count = len(self._partitions.ids())
        if count == 1:
            return 0
        share = 1.0 / count
        position = hash_table_key(key[: self._primary])
        return next((number for number in range(count - 1) if position < (number + 1) * share), count - 1)

    def _by_partition(self, keys: Sequence[bytes]) -> dict[int, list[bytes]]:
        groups: dict[int, list[bytes]] = {}
        for key in keys:
            groups.setdefault(self.partition_of(key), []).append(key)
        return groups

    def _one_partition(self, keys: Sequence[bytes]) -> int:
        partitions = {self.partition_of(key) for key in keys}
        if len(partitions) != 1:
            raise InvalidRowError(
                f"{len(keys)} keys of {self._title} are in {len(partitions)} "
                "partitions; what is written at once must be in one"
            )
        return partitions.pop()

    def _request(
        self,
        partition: int,
        access: Access,
        action: str,
        make: Request,
        *expected: type[Reply],
        keys: Sequence[bytes],
        repeated: list[None] | None = None,
    ) -> Reply:
        """Send a request about `keys` to a partition; `repeated` gets an element for each uncertain attempt before."""
        segments = self._partitions.ids()
        if partition >= len(segments):  # made again with fewer partitions, while its entries were read
            raise segment_not_found(SegmentAddress(self._stream, partition))
        address = SegmentAddress(self._stream, segments[partition])
        reply = self._store.request(
            address,
            access,
            f"{action} {self._title}:",
            make,
            *expected,
            ErrorMessage,
            on_repeat=None if repeated is None else lambda: repeated.append(None),
        )
        if isinstance(reply, ErrorMessage):
            raise self._refused(address, keys, reply)
        return reply

    def _refused(self, address: SegmentAddress, keys: Sequence[bytes], reply: ErrorMessage) -> PravegaError:
        # The segment store only says that an argument was wrong, and the key's length nearly always is it.
        info = self._store.request(address, Access.READ, "look up", wire.get_table_info, TableSegmentInfo)
        assert isinstance(info, TableSegmentInfo)
        wrong = [key for key in keys if len(key) != info.key_length]
        if wrong:
            return InvalidRowError(
                f"a key of {len(wrong[0])} bytes does not fit {self._title}; its keys have {info.key_length} bytes"
            )
        return ServerFailedError(
            f"the segment store refused a request about {self._title}: "
            f"{reply.message.splitlines()[0] if reply.message else 'no reason given'}"
        )

    def _lost_race(self, what: str) -> ConditionalUpdateError:
        return ConditionalUpdateError(
            f"an entry of {self._title} was not {what}: its version is not the expected "
            "one, because somebody else changed it; read it again"
        )
