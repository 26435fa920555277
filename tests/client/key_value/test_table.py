"""Key-value tables on real segment stores."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import ANY, MAX_VALUE_BYTES, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import Stream, make_key_value_table_stream
from pyspark_pravega.errors import (
    ConditionalUpdateError,
    InvalidRowError,
    KeyValueTableNotFoundError,
    PermissionDeniedError,
)

KEY = b"key-0001"


@pytest.fixture
def table(pravega: Pravega, scope: str) -> KeyValueTable:
    """A new table with two partitions and keys of 8 bytes."""
    made = KeyValueTable(pravega.segments, pravega.controller, scope, "table")
    assert made.create(2, 8)
    return made


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_put_get_delete(table: KeyValueTable) -> None:
    assert table.get(KEY) is None
    version = table.put(KEY, b"one")
    assert table.get(KEY) == Entry(b"one", version)
    newer = table.put(KEY, b"")
    assert newer != version
    assert table.get(KEY) == Entry(b"", newer)
    table.delete(KEY)
    assert table.get(KEY) is None
    table.delete(KEY)  # without a version it need not exist


def test_conditional_writes(table: KeyValueTable) -> None:
    version = table.put(KEY, b"one", NOT_EXISTS)
    with pytest.raises(ConditionalUpdateError, match="table"):
        table.put(KEY, b"two", NOT_EXISTS)
    with pytest.raises(ConditionalUpdateError):
        table.put(KEY, b"two", version + 1)
    newer = table.put(KEY, b"two", version)
    for stale in (version, NOT_EXISTS):
        with pytest.raises(ConditionalUpdateError):
            table.put(KEY, b"three", stale)
    with pytest.raises(ConditionalUpdateError):
        table.delete(KEY, version)
    assert table.get(KEY) == Entry(b"two", newer)
    table.delete(KEY, newer)
    with pytest.raises(ConditionalUpdateError):
        table.put(KEY, b"three", newer)  # a version of a key that is gone
    with pytest.raises(ConditionalUpdateError):
        table.delete(KEY, newer)
    table.put(KEY, b"three", NOT_EXISTS)


def test_one_of_many_wins_each_round(table: KeyValueTable, pravega: Pravega) -> None:
    table.put(KEY, (0).to_bytes(4, "big"))

    def count_up(times: int) -> None:
        done = 0
        while done < times:
            entry = table.get(KEY)
            assert entry is not None
            try:
                table.put(KEY, (int.from_bytes(entry.value, "big") + 1).to_bytes(4, "big"), entry.version)
            except ConditionalUpdateError:
                continue
            done += 1

    threads = [threading.Thread(target=count_up, args=(25,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entry = table.get(KEY)
    assert entry is not None
    assert int.from_bytes(entry.value, "big") == 100


def test_iteration_sees_every_entry_once(table: KeyValueTable) -> None:
    chance = random.Random(5)
    expected = {key(chance.randrange(2**64)): chance.randbytes(chance.randrange(50)) for _ in range(300)}
    expected[b"\0" * 8] = b"first"
    expected[b"\xff" * 8] = b"last"
    for one, value in expected.items():
        table.put(one, value)
    assert {one: entry.value for one, entry in table.entries()} == expected
    assert sorted(table.keys()) == sorted(expected)
    ordered = sorted(expected)
    first, last = ordered[100], ordered[200]
    assert sorted(table.keys(first, last)) == ordered[100:201]
    assert sorted(one for one, _ in table.entries(first)) == ordered[100:]
    assert sorted(table.keys(b"", last)) == ordered[:201]
    assert list(table.keys(first[:7] + b"\0", first[:7] + b"\0")) in ([], [first])


def test_pages_of_large_values(table: KeyValueTable) -> None:
    values = {key(number): bytes([number]) * 700_000 for number in range(8)}
    for one, value in values.items():
        table.put(one, value)
    assert {one: entry.value for one, entry in table.entries()} == values


def test_pages_that_are_larger_than_a_server_may_send(pravega: Pravega, scope: str) -> None:
    """Small values first: it goes on behind the pages that were read."""
    table = KeyValueTable(pravega.segments, pravega.controller, scope, "long")
    table.create(1, 8)
    values = {key(number): b"x" * (1 if number < 3000 else 90_000) for number in range(3250)}
    writes = [(one, value, ANY) for one, value in values.items()]
    for at in range(0, len(writes), 50):
        table.put_many(writes[at : at + 50])
    found = [(one, entry.value) for one, entry in table.entries()]
    assert found == sorted(values.items())
    assert [one for one, _ in table.entries(key(10), key(3100))] == [key(number) for number in range(10, 3101)]


def test_many_keys_of_large_values(pravega: Pravega, scope: str) -> None:
    """Together they are larger than what a server may send at once."""
    table = KeyValueTable(pravega.segments, pravega.controller, scope, "large")
    table.create(1, 8)
    keys = [key(number) for number in range(18)]
    for one in keys:
        table.put(one, one * (1000 * 1000 // 8))
    assert [entry and entry.value for entry in table.get_many(keys)] == [one * (1000 * 1000 // 8) for one in keys]
    assert [(size.entries <= 18, size.bytes > 17_000_000, size.pages) for size in table.sizes()] == [(True, True, 9)]


def test_many_at_once(pravega: Pravega, scope: str) -> None:
    table = KeyValueTable(pravega.segments, pravega.controller, scope, "one-partition")
    table.create(1, 8)
    versions = table.put_many([(key(number), b"%d" % number, NOT_EXISTS) for number in range(100)])
    assert len(set(versions)) == 100
    wanted = [key(number) for number in (5, 500, 7, 5)]
    assert table.get_many(wanted) == [
        Entry(b"5", versions[5]),
        None,
        Entry(b"7", versions[7]),
        Entry(b"5", versions[5]),
    ]
    with pytest.raises(ConditionalUpdateError):
        table.put_many([(key(200), b"x", ANY), (key(5), b"x", NOT_EXISTS)])
    assert table.get(key(200)) is None  # all or nothing


def test_what_is_written_at_once_must_be_in_one_partition(table: KeyValueTable) -> None:
    with pytest.raises(InvalidRowError, match="2 partitions"):
        table.put_many([(key(number), b"", ANY) for number in range(20)])
    assert table.get_many([key(number) for number in range(20)]) == [None] * 20


def test_partitions_are_those_java_would_choose(pravega: Pravega, scope: str) -> None:
    """With the key length that decides: the whole key, or the primary part of it."""
    table = KeyValueTable(pravega.segments, pravega.controller, scope, "secondary", primary_key_length=4)
    table.create(3, 4, 4)
    keys = [b"%04d%04d" % (primary, secondary) for primary in range(20) for secondary in range(5)]
    for one in keys:
        table.put(one, b"")
    assert sorted(table.keys()) == keys
    for primary in range(20):
        table.put_many([(b"%04d%04d" % (primary, secondary), b"", ANY) for secondary in range(5)])


def test_large_values(table: KeyValueTable) -> None:
    largest = bytes(MAX_VALUE_BYTES)
    version = table.put(KEY, largest)
    assert table.get(KEY) == Entry(largest, version)
    with pytest.raises(InvalidRowError, match="1,040,385 bytes"):
        table.put(KEY, largest + b"x")


@pytest.mark.parametrize("wrong", [b"", b"short", b"much too long"])
def test_keys_of_a_wrong_length_are_named(table: KeyValueTable, wrong: bytes) -> None:
    message = f"a key of {len(wrong)} bytes .* have 8 bytes"
    for act in (
        lambda: table.get(wrong),
        lambda: table.put(wrong, b"x"),
        lambda: table.delete(wrong),
        lambda: list(table.keys(wrong or b"x")),
    ):
        with pytest.raises(InvalidRowError, match=message.replace("0 bytes", "[01] bytes")):
            act()
    table.put(KEY, b"the connection survives")


def test_tables_come_and_go(pravega: Pravega, scope: str) -> None:
    table = KeyValueTable(pravega.segments, pravega.controller, scope, "fleeting")
    for act in (lambda: table.get(KEY), lambda: table.put(KEY, b""), lambda: list(table.keys()), table.drop):
        with pytest.raises(KeyValueTableNotFoundError, match="'.*fleeting'"):
            act()
    assert table.create(1, 8)
    assert not table.create(1, 8)
    table.put(KEY, b"x")
    table.drop()
    with pytest.raises(KeyValueTableNotFoundError, match="'fleeting'"):
        table.get(KEY)


def test_lost_replies_are_judged_by_what_is_stored(
    pravega: Pravega, scope: str, table: KeyValueTable, stream: Stream, proxy: Any, proxied: SegmentStore
) -> None:
    """A conditional write whose reply was lost is repeated, meets its own version, and counts as written."""
    behind = KeyValueTable(proxied, pravega.controller, scope, "table")
    greeting = 16
    first = table.put(KEY, b"first")
    proxy.limits.append((None, greeting))  # the greeting comes through, the reply does not
    second = behind.put(KEY, b"second", first)
    assert table.get(KEY) == Entry(b"second", second)
    proxy.cut_all()
    proxy.limits.append((None, greeting))
    assert behind.put(key(1), b"new", NOT_EXISTS) == table.get(key(1)).version  # type: ignore[union-attr]
    proxy.cut_all()
    proxy.limits.append((None, greeting))
    with pytest.raises(ConditionalUpdateError):
        behind.put(KEY, b"third", first)
    proxy.cut_all()
    proxy.limits.append((None, greeting))
    behind.delete(KEY, second)
    assert table.get(KEY) is None
    assert proxy.connections >= 8


class TestRights:
    """On a cluster with users."""

    def test_reading_needs_only_read(
        self, secure_client_config: Callable[..., ClientConfig], secure_scope: str
    ) -> None:
        with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
            table = KeyValueTable(admin.segments, admin.controller, secure_scope, "table")
            table.create(2, 8)
            version = table.put(KEY, b"x")
            seen = KeyValueTable(reader.segments, reader.controller, secure_scope, "table")
            assert seen.get(KEY) == Entry(b"x", version)
            assert list(seen.entries()) == [(KEY, Entry(b"x", version))]
            # The segment store itself would let a token for reading write.
            for act in (lambda: seen.put(KEY, b"y"), lambda: seen.delete(KEY)):
                with pytest.raises(PermissionDeniedError, match="READ_UPDATE.*table_kvtable"):
                    act()
            assert table.get(KEY) == Entry(b"x", version)

    def test_without_rights_there_is_nothing_to_see(
        self, secure_client_config: Callable[..., ClientConfig], secure_scope: str
    ) -> None:
        with connect(secure_client_config()) as admin, connect(secure_client_config("nobody")) as nobody:
            KeyValueTable(admin.segments, admin.controller, secure_scope, "table").create(1, 8)
            hidden = KeyValueTable(nobody.segments, nobody.controller, secure_scope, "table")
            with pytest.raises(PermissionDeniedError, match="READ"):
                hidden.get(KEY)


def test_entries_that_a_compaction_has_moved(pravega: Pravega, scope: str) -> None:
    """They can be replaced and removed by the versions that are read, which the server no longer compares with.

    A segment store compacts a table of fixed keys half a minute after some megabytes of writes. What was moved is
    read with its old version.
    """
    table, stream = pravega.key_value_table(scope, "table"), make_key_value_table_stream(scope, "table")
    table.create(1, 8)
    moved = {number: table.put(key(number), b"%d" % number, NOT_EXISTS) for number in range(5)}
    [segment] = table.segments()

    def is_compacted() -> bool:
        table.put(key(99), bytes(900_000))
        return pravega.segments.segment_infos(stream, [segment])[segment].start_offset > max(moved.values())

    for _ in range(11):
        compacted = is_compacted()
    until = time.monotonic() + 240
    while not compacted:
        assert time.monotonic() < until
        time.sleep(5)
        compacted = is_compacted()
    assert {number: table.get(key(number)) for number in moved} == {
        number: Entry(b"%d" % number, version) for number, version in moved.items()
    }
    for number in moved:
        with pytest.raises(ConditionalUpdateError):
            table.put(key(number), b"x", moved[number] + 1)
    new = table.put(key(0), b"new", moved[0])
    with pytest.raises(ConditionalUpdateError):
        table.put(key(0), b"newer", moved[0])
    assert table.get(key(0)) == Entry(b"new", new)
    with pytest.raises(ConditionalUpdateError):
        table.put_many([(key(1), b"x", moved[1]), (key(0), b"x", moved[0])])
    versions = table.put_many([(key(1), b"x", moved[1]), (key(0), b"y", new)])
    assert table.get_many([key(1), key(0)]) == [Entry(b"x", versions[0]), Entry(b"y", versions[1])]
    table.delete(key(2), moved[2])
    table.delete_many([key(3), key(4)], [moved[3], moved[4]])
    assert [found for found, _ in table.entries()] == [key(0), key(1), key(99)]
