"""Key-value tables: entries with versions and conditional writes.

All tables have keys of a fixed length. Each partition is a table segment, which sorts its keys; one request is atomic
on its partition. A token for the pretend stream `<table>_kvtable` opens a table's partitions; the segment stores of
Pravega 0.13 refuse those that the controller hands out for the table itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark_pravega import errors

from ..routing import hash_table_key
from ..segments.connection import LongFrameError
from ..segments.failures import SegmentAddress, make_segment_not_found_error
from ..segments.store import Request, SegmentStore
from ..stream import Access, make_key_value_table_stream
from ..wire import commands as wire
from ..wire import table_replies
from ..wire.replies import ErrorMessage, Reply
from ..wire.table_replies import TableEntriesRead, TableEntry, TableKey, TableKeysRead
from .partitions import PAGE, PartitionSize, TablePartitions, find_next_start

if TYPE_CHECKING:
    from ..controller.controller import Controller

T = TypeVar("T")
PageT = TypeVar("PageT", TableEntriesRead, TableKeysRead)

_CONFLICTS = (table_replies.TableKeyBadVersion, table_replies.TableKeyDoesNotExist)
"""The replies to a write if an entry has another version."""
_WRITTEN = (table_replies.TableEntriesUpdated, table_replies.TableKeysRemoved, *_CONFLICTS)

ANY = wire.ANY_VERSION
"""Version for `put` and `delete`: whether or not there is an entry, and whatever its version is."""

NOT_EXISTS = wire.NOT_EXISTS
"""Version for `put`: only if there is no entry."""

MAX_VALUE_BYTES = 1024 * 1024 - 8 * 1024
"""Most bytes of a value (server constant)."""

MAX_BATCH_KEYS = 256
"""Most keys of one write (server constant)."""

MAX_READ_KEYS = 15
"""Most keys of one read: a reply could not hold more values of the largest size."""


@dataclass(frozen=True)
class Entry:
    """A value and its version, which every write of the key changes."""

    value: bytes = field(repr=False)
    version: int


class KeyValueTable:
    """A key-value table.

    Thread-safe. It has no connection of its own, and sends nothing before the first call. If the table is deleted and
    created again, it reads the new one. Reading needs only READ on the table and its pretend stream.

    `primary_key_length`: bytes of the key that decide on the partition, if the table has secondary keys too.

    Any call raises, besides its own errors, KeyValueTableNotFoundError, PermissionDeniedError, TlsError,
    ServerUnavailableError and ServerTimeoutError, and InvalidRowError for the length of a key or a value.

    Examples
    --------
    >>> table = pravega.key_value_table("plant", "limits")
    >>> table.create(partitions=1, primary_key_length=4)
    True
    >>> version = table.put(b"t001", b"80", NOT_EXISTS)
    >>> table.get(b"t001").value
    b'80'
    """

    def __init__(
        self,
        store: SegmentStore,
        controller: Controller,
        scope: str,
        name: str,
        *,
        primary_key_length: int | None = None,
    ) -> None:
        self._store = store
        self._controller = controller
        self._scope = scope
        self._name = name
        self._title = f"key-value table '{scope}/{name}'"
        self._stream = make_key_value_table_stream(scope, name)
        self._primary = primary_key_length
        self._partitions = TablePartitions(store, controller, scope, name)

    def __repr__(self) -> str:
        return f"KeyValueTable({self._scope}/{self._name})"

    def create(self, partitions: int, primary_key_length: int, secondary_key_length: int = 0) -> bool:
        """Create the table. Needs READ_UPDATE on the scope.

        `primary_key_length`, `secondary_key_length`: bytes; all keys have the sum of both.

        Returns false if the table already exists.
        """
        created = self._controller.create_key_value_table(
            self._scope, self._name, partitions, primary_key_length, secondary_key_length
        )
        self._partitions.known = None
        return created

    def drop(self) -> None:
        """Delete the table and all its entries."""
        self._controller.delete_key_value_table(self._scope, self._name)
        self._partitions.known = None

    def check_writable(self) -> None:
        """Raise PermissionDeniedError if the user may not write to the table, before anything is written."""
        self._store.tokens.token(self._stream, Access.WRITE)

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of a key, or None."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return the entries of keys, in the order of the keys, with None for keys without an entry.

        The read is atomic for at most `MAX_READ_KEYS` keys of one partition.
        """
        return self._retry_if_recreated(lambda: self._get_many(keys))

    def _get_many(self, keys: Sequence[bytes]) -> list[Entry | None]:
        entries: dict[bytes, Entry | None] = {}
        by_partition: defaultdict[int, list[bytes]] = defaultdict(list)
        for key in keys:
            by_partition[self.find_partition(key)].append(key)
        for partition, of_partition in by_partition.items():
            for at in range(0, len(of_partition), MAX_READ_KEYS):
                for entry in self._read(partition, of_partition[at : at + MAX_READ_KEYS]):
                    entries[entry.key] = None if entry.version == NOT_EXISTS else Entry(entry.value, entry.version)
        return [entries.get(key) for key in keys]

    def _read(self, partition: int, keys: Sequence[bytes]) -> Sequence[TableEntry]:
        make = partial(wire.read_table, keys=keys)
        reply = self._request(partition, Access.READ, "read", make, table_replies.TableRead, keys=keys)
        assert isinstance(reply, table_replies.TableRead)
        return reply.entries

    def put(self, key: bytes, value: bytes, version: int = ANY) -> int:
        """Write an entry.

        If the first reply is lost, and the entry then has exactly this value in a new version, it counts as written.

        `version`: `ANY`, `NOT_EXISTS`, or the version that the entry must have.

        Returns the new version of the entry.

        Raises ConditionalUpdateError if the entry has another version.
        """
        return self.put_many([(key, value, version)])[0]

    def put_many(self, writes: Sequence[tuple[bytes, bytes, int]]) -> list[int]:
        """Write several (key, value, version) in one step, or none of them; return their new versions. See `put`.

        The keys must differ and lie in one partition.
        """
        for _, value, _ in writes:
            if len(value) > MAX_VALUE_BYTES:
                raise errors.InvalidRowError(
                    f"a value of {len(value):,} bytes does not fit into {self._title}; at "
                    f"most {MAX_VALUE_BYTES:,} are allowed"
                )
        given = {key: version for key, _, version in writes}
        reply, repeated = self._write(given, {key: value for key, value, _ in writes})
        if isinstance(reply, table_replies.TableEntriesUpdated):
            return list(reply.versions)
        if repeated:
            stored = self.get_many([*given])
            versions = [
                entry.version
                for entry, (_, value, version) in zip(stored, writes, strict=True)
                if entry is not None and entry.value == value and entry.version != version
            ]
            if len(versions) == len(writes):
                return versions
        raise self._make_lost_race_error("written")

    def delete(self, key: bytes, version: int = ANY) -> None:
        """Remove an entry, which need not exist unless a version is given.

        If the reply to a first attempt is lost, and there is no entry then, it counts as removed.

        Raises ConditionalUpdateError if the entry does not have the given version.
        """
        reply, repeated = self._write({key: version})
        if not isinstance(reply, table_replies.TableKeysRemoved) and not (repeated and self.get(key) is None):
            raise self._make_lost_race_error("removed")

    def delete_many(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Remove entries of one partition in one step. Without `versions` they need not exist.

        Raises ConditionalUpdateError if an entry does not have its version, and none was removed; or if the reply to a
        first attempt was lost, and that attempt has removed them all.
        """
        given = dict.fromkeys(keys, ANY) if versions is None else dict(zip(keys, versions, strict=True))
        reply, _ = self._write(given)
        if not isinstance(reply, table_replies.TableKeysRemoved):
            raise self._make_lost_race_error("removed")

    def entries(self, first: bytes = b"", last: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Yield all entries from the key `first` to the key `last`, both included, ascending in each partition.

        b"" leaves an end open. Entries that are written or removed during the iteration may or may not appear.
        """
        for page in self._read_all_partitions(self.pages, first, last):
            yield from ((entry.key, Entry(entry.value, entry.version)) for entry in page)

    def keys(self, first: bytes = b"", last: bytes = b"") -> Iterator[bytes]:
        """Yield keys as `entries` does, without the values."""
        for page in self._read_all_partitions(self.list_key_pages, first, last):
            yield from (key.key for key in page)

    def pages(self, partition: int, first: bytes = b"", last: bytes = b"") -> Iterator[Sequence[TableEntry]]:
        """Yield the entries of one partition as `entries` does, many at a time."""
        try:
            for page in self._read_pages(partition, wire.read_table_entries, TableEntriesRead, first, last):
                yield page.entries
                first = find_next_start(page) or first
        except LongFrameError:  # the server limits the number of entries in a page, but not their size
            for keys in self.list_key_pages(partition, first, last):
                for at in range(0, len(keys), MAX_READ_KEYS):
                    page_keys = [key.key for key in keys[at : at + MAX_READ_KEYS]]
                    entries = self._retry_if_recreated(partial(self._read, partition, page_keys))
                    yield [entry for entry in entries if entry.version != NOT_EXISTS]

    def list_key_pages(self, partition: int, first: bytes = b"", last: bytes = b"") -> Iterator[Sequence[TableKey]]:
        """Yield the keys of one partition as `pages` does, without the values."""
        for page in self._read_pages(partition, wire.read_table_keys, TableKeysRead, first, last):
            yield page.keys

    def sizes(self) -> list[PartitionSize]:
        """Return the size of each partition, which includes entries that were replaced a short time ago."""
        return self._retry_if_recreated(self._sizes)

    def _sizes(self) -> list[PartitionSize]:
        addresses = [SegmentAddress(self._stream, segment_id) for segment_id in self._partitions.ids()]
        infos = self._store.request_all(
            addresses, Access.READ, "look up", wire.get_table_info, table_replies.TableSegmentInfo
        )
        sizes = [info for info in map(infos.__getitem__, addresses) if isinstance(info, table_replies.TableSegmentInfo)]
        return [PartitionSize(info.length - info.start_offset, info.entry_count) for info in sizes]

    def segments(self) -> tuple[int, ...]:
        """Return the present segment ids of the partitions, in order. A table created again has others."""
        return self._partitions.learn()

    def _read_all_partitions(
        self, pages: Callable[[int, bytes, bytes], Iterator[T]], first: bytes, last: bytes
    ) -> Iterator[T]:
        partition = 0
        while partition < len(self._partitions.ids()):
            yield from pages(partition, first, last)
            partition += 1

    def _read_pages(
        self, partition: int, request: Callable[..., bytes], expected: type[PageT], first: bytes, last: bytes
    ) -> Iterator[PageT]:
        bounds = [key for key in (first, last) if key]
        start: bytes | None = first
        while start is not None:
            make = partial(request, count=PAGE, first=start, last=last)
            reply = self._retry_if_recreated(
                partial(self._request, partition, Access.READ, "read", make, expected, keys=bounds)
            )
            assert isinstance(reply, expected)
            yield reply
            start = find_next_start(reply)
            if start is not None and last and start > last:
                break

    def _retry_if_recreated(self, act: Callable[[], T]) -> T:
        """Call `act`, and call it again if the table turns out to have other segments: it was created again."""
        ids = self._partitions.known
        try:
            return act()
        except errors.KeyValueTableNotFoundError:
            if ids is None or self._partitions.learn() == ids:
                raise
            return act()

    def find_partition(self, key: bytes) -> int:
        count = len(self._partitions.ids())
        if count == 1:
            return 0
        share = 1.0 / count
        position = hash_table_key(key[: self._primary])
        return next((number for number in range(count - 1) if position < (number + 1) * share), count - 1)

    def _find_partition(self, keys: Sequence[bytes]) -> int:
        partitions = {self.find_partition(key) for key in keys}
        if len(partitions) != 1:
            raise errors.InvalidRowError(
                f"{len(keys)} keys of {self._title} are in {len(partitions)} partitions; keys that are written at once "
                "must be in one partition"
            )
        return partitions.pop()

    def _write(self, given: Mapping[bytes, int], values: Mapping[bytes, bytes] | None = None) -> tuple[Reply, bool]:
        """Write the values of keys that have given versions in one partition; without `values` remove the keys.

        Returns the reply, and whether an earlier attempt may have done it.
        """
        repeats, versions = list[None](), given

        def send() -> Reply:
            make: Request = partial(wire.remove_table_keys, keys=[*map(TableKey, versions, versions.values())])
            if values is not None:
                entries = [TableEntry(key, versions[key], value) for key, value in values.items()]
                make = partial(wire.update_table_entries, entries=entries)
            action, partition = "remove from" if values is None else "write to", self._find_partition([*given])
            return self._request(
                partition, Access.WRITE, action, make, *_WRITTEN, keys=[*given], on_repeat=partial(repeats.append, None)
            )

        while True:
            reply = self._retry_if_recreated(send)
            if not isinstance(reply, _CONFLICTS) or versions == (now := {**given, **self._find_moved(given)}):
                return reply, bool(repeats)
            versions = now

    def _find_moved(self, given: Mapping[bytes, int]) -> dict[bytes, int]:
        """Return what a segment store compares with in place of given versions, if the entries still have these.

        When it compacts a table, it moves entries, and what it reads has their versions. But it compares those with the
        new places (`FixedKeyLengthTableCompactor` and `getCompareVersion` in pravega 0.13), which it lists with keys.
        """
        known = {key: version for key, version in given.items() if version >= 0}

        def is_unchanged() -> bool:
            return [entry and entry.version for entry in self.get_many([*known])] == [*known.values()]

        if not is_unchanged():
            return {}
        pages = (page for key in known for page in self.list_key_pages(self.find_partition(key), key, key))
        places = {one.key: one.version for page in pages for one in page if one.version > known[one.key]}
        # An entry that is unchanged after its place was read is the one at that place.
        return places if is_unchanged() else {}

    def _request(
        self,
        partition: int,
        access: Access,
        action: str,
        make: Request,
        *expected: type[Reply],
        keys: Sequence[bytes],
        on_repeat: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request about `keys` to a partition; see `SegmentStore.request`."""
        segments = self._partitions.ids()
        if partition >= len(segments):  # created again with fewer partitions while its entries are read
            raise make_segment_not_found_error(SegmentAddress(self._stream, partition))
        address = SegmentAddress(self._stream, segments[partition])
        reply = self._store.request(
            address, access, f"{action} {self._title}:", make, *expected, ErrorMessage, on_repeat=on_repeat
        )
        if isinstance(reply, ErrorMessage):
            raise self._find_refusal(address, keys, reply)
        return reply

    def _find_refusal(self, address: SegmentAddress, keys: Sequence[bytes], reply: ErrorMessage) -> errors.PravegaError:
        # The segment store only says that an argument is wrong, which nearly always is the length of a key.
        info = self._store.request(address, Access.READ, "look up", wire.get_table_info, table_replies.TableSegmentInfo)
        assert isinstance(info, table_replies.TableSegmentInfo)
        wrong = [key for key in keys if len(key) != info.key_length]
        if wrong:
            return errors.InvalidRowError(
                f"a key of {len(wrong[0])} bytes does not fit into {self._title}; its keys have {info.key_length} bytes"
            )
        return errors.ServerFailedError(
            f"the segment store refused a request about {self._title}: "
            f"{reply.message.splitlines()[0] if reply.message else 'no reason given'}"
        )

    def _make_lost_race_error(self, what: str) -> errors.ConditionalUpdateError:
        return errors.ConditionalUpdateError(
            f"an entry of {self._title} was not {what}: it does not have the expected version, because another client "
            "changed it; read it again"
        )
