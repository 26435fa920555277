"""Key-value tables made again under the name of a deleted one: their segments have other numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value import partitions as table_partitions
from pyspark_pravega.client.key_value.key_value_table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.client.key_value.partitions import TablePartitions
from pyspark_pravega.errors import ConditionalUpdateError, KeyValueTableNotFoundError, PermissionDeniedError

KEYS = [number.to_bytes(8, "big") for number in range(40)]


def table_of(pravega: Pravega, scope: str) -> KeyValueTable:
    """A table object that knows nothing yet."""
    return KeyValueTable(pravega.segments, pravega.controller, scope, "table")


def fill(table: KeyValueTable, value: bytes) -> None:
    for key in KEYS:
        table.put(key, value, NOT_EXISTS)


def content(table: KeyValueTable) -> dict[bytes, bytes]:
    return {key: entry.value for key, entry in table.entries()}


def test_each_new_table_works_and_is_empty(pravega: Pravega, scope: str) -> None:
    started = 0
    for partitions in (1, 3, 2, 1, 4):
        table = table_of(pravega, scope)
        assert table.create(partitions, 8)
        assert pravega.controller.key_value_table_segments(scope, "table") == list(range(started, started + partitions))
        assert content(table) == {}
        fill(table, b"%d" % partitions)
        assert content(table) == dict.fromkeys(KEYS, b"%d" % partitions)
        table.drop()
        started += partitions


def test_the_scope_dropped_with_the_table(pravega: Pravega, scope: str) -> None:
    for value in (b"1", b"2", b"3"):
        table = table_of(pravega, scope)
        assert table.create(2, 8)
        fill(table, value)
        assert content(table) == dict.fromkeys(KEYS, value)
        table.drop()
        pravega.controller.delete_scope(scope)
        pravega.controller.create_scope(scope)


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param(2, id="as many partitions", marks=pytest.mark.long),
        pytest.param(1, id="fewer", marks=pytest.mark.long),
        pytest.param(5, id="more"),
    ],
)
def test_others_made_the_table_anew_meanwhile(
    client_config: ClientConfig, pravega: Pravega, scope: str, partitions: int
) -> None:
    """One that knew the old table finds the new one, whatever it does first, and never mixes the two."""
    acts: list[Callable[[KeyValueTable], object]] = [
        lambda table: table.get(KEYS[0]),
        lambda table: table.get_many(KEYS),
        lambda table: table.put(KEYS[0], b"again"),
        lambda table: table.delete(KEYS[0]),
        lambda table: list(table.keys()),
        content,
    ]
    with connect(client_config) as elsewhere:
        held = [table_of(elsewhere, scope) for _ in acts]
        mine = table_of(pravega, scope)
        assert mine.create(2, 8)
        fill(mine, b"old")
        for table in held:
            assert content(table) == dict.fromkeys(KEYS, b"old")
        mine.drop()
        for table in held:
            with pytest.raises(KeyValueTableNotFoundError, match=f"'table' in scope '{scope}'"):
                table.get(KEYS[0])
        assert mine.create(partitions, 8)
        fill(mine, b"new")
        for table, act in zip(held, acts, strict=True):
            act(table)
            assert set(content(table).values()) <= {b"new", b"again"}
            assert len(content(table)) >= len(KEYS) - 1


def test_a_version_of_the_old_table_is_none_of_the_new(pravega: Pravega, scope: str) -> None:
    held, other = table_of(pravega, scope), table_of(pravega, scope)
    held.create(1, 8)
    version = held.put(KEYS[0], b"old")
    other.drop()
    other.create(1, 8)
    with pytest.raises(ConditionalUpdateError):
        held.put(KEYS[0], b"new", version)
    assert held.get(KEYS[0]) is None


def test_made_anew_while_its_entries_are_read(pravega: Pravega, scope: str) -> None:
    """A reader in the middle sees entries of both tables or an error, no endless loop and nothing else."""
    held, other = table_of(pravega, scope), table_of(pravega, scope)
    held.create(3, 8)
    fill(held, b"old")
    reading = held.entries()
    seen = [next(reading)]
    other.drop()
    other.create(1, 8)
    fill(other, b"new")
    with contextlib.suppress(KeyValueTableNotFoundError):
        seen += reading
    assert {key for key, _ in seen} <= set(KEYS)
    assert content(held) == dict.fromkeys(KEYS, b"new")


class TestWithReadOnly:
    """A user that may only read is not told the segments, and looks for them."""

    @pytest.fixture
    def reader(self, secure_client_config: Callable[..., ClientConfig]) -> Iterator[Pravega]:
        with connect(secure_client_config("reader")) as connected:
            yield connected

    @pytest.fixture
    def admin(self, secure_client_config: Callable[..., ClientConfig]) -> Iterator[Pravega]:
        with connect(secure_client_config()) as connected:
            yield connected

    def test_finds_the_segments_of_every_new_table(self, admin: Pravega, reader: Pravega, secure_scope: str) -> None:
        with pytest.raises(KeyValueTableNotFoundError):
            table_of(reader, secure_scope).get(KEYS[0])
        held = table_of(reader, secure_scope)
        for partitions in (3, 1, 1, 4):
            table = table_of(admin, secure_scope)
            assert table.create(partitions, 8)
            with pytest.raises(PermissionDeniedError, match=r"READ_UPDATE on .*key-value-table:table"):
                reader.controller.key_value_table_segments(secure_scope, "table")
            found = TablePartitions(reader.segments, reader.controller, secure_scope, "table").ids()
            assert list(found) == admin.controller.key_value_table_segments(secure_scope, "table")
            fill(table, b"%d" % partitions)
            for seen in (held, table_of(reader, secure_scope)):
                assert content(seen) == dict.fromkeys(KEYS, b"%d" % partitions)
                with pytest.raises(PermissionDeniedError, match="READ_UPDATE"):
                    seen.put(KEYS[0], b"x")
            table.drop()
            with pytest.raises(KeyValueTableNotFoundError):
                held.get(KEYS[0])

    def test_many_tables_of_the_name_are_gone(
        self, admin: Pravega, reader: Pravega, secure_scope: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More than are looked for at once; and more than are looked for at all."""
        for _ in range(6):
            table = table_of(admin, secure_scope)
            table.create(1, 8)
            table.drop()
        table.create(1, 8)
        version = table.put(KEYS[0], b"x")
        entry = table_of(reader, secure_scope).get(KEYS[0])
        assert entry is not None
        assert (entry.value, entry.version) == (b"x", version)
        monkeypatch.setattr(table_partitions, "_PROBES", (0, 1, 4))
        with pytest.raises(PermissionDeniedError, match=r"READ_UPDATE on .*key-value-table:table"):
            table_of(reader, secure_scope).get(KEYS[0])
