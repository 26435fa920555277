"""Replies about key-value tables, as typed values. Definitions: `WireCommands.java`, Pravega 0.13.0."""

from __future__ import annotations

from dataclasses import dataclass, field

from .fields import FieldReader
from .replies import Reply, SegmentFailure


@dataclass(frozen=True, slots=True)
class TableKey:
    """A key of a key-value table, with the version that a conditional write expects."""

    key: bytes
    version: int


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A key of a key-value table, its version and its value. In replies a missing key has the version -1."""

    key: bytes
    version: int
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TableSegmentInfo(Reply):
    """The state of a key-value table's partition; `entry_count` lags behind writes, `key_length` is in bytes."""

    command = 69
    segment: str
    start_offset: int
    length: int
    entry_count: int
    key_length: int

    @classmethod
    def read(cls, fields: FieldReader) -> TableSegmentInfo:
        return cls(
            fields.int64(), fields.text(), fields.int64(), fields.int64(), fields.int64(), fields.optional_int32(0)
        )


@dataclass(frozen=True, slots=True)
class TableEntriesUpdated(Reply):
    """The new versions of the entries written, in their order."""

    command = 75
    versions: tuple[int, ...]

    @classmethod
    def read(cls, fields: FieldReader) -> TableEntriesUpdated:
        request_id = fields.int64()
        return cls(request_id, tuple(fields.int64() for _ in range(fields.count(8))))


@dataclass(frozen=True, slots=True)
class TableKeysRemoved(Reply):
    """The keys were removed."""

    command = 77
    segment: str

    @classmethod
    def read(cls, fields: FieldReader) -> TableKeysRemoved:
        return cls(fields.int64(), fields.text())


@dataclass(frozen=True, slots=True)
class TableRead(Reply):
    """An entry of every key asked for, in their order; missing keys have the version -1 and an empty value."""

    command = 79
    segment: str
    entries: tuple[TableEntry, ...]

    @classmethod
    def read(cls, fields: FieldReader) -> TableRead:
        return cls(fields.int64(), fields.text(), _read_entries(fields))


@dataclass(frozen=True, slots=True)
class TableSegmentNotEmpty(SegmentFailure):
    """A table segment to be deleted still has keys."""

    command = 80


@dataclass(frozen=True, slots=True)
class TableKeyDoesNotExist(SegmentFailure):
    """A conditional write of a key that does not exist."""

    command = 81


@dataclass(frozen=True, slots=True)
class TableKeyBadVersion(SegmentFailure):
    """A conditional write found another version than expected, or an insert an existing key."""

    command = 82


@dataclass(frozen=True, slots=True)
class TableKeysRead(Reply):
    """A page of keys in ascending order. Tables with a fixed key length do not take the token back."""

    command = 84
    segment: str
    keys: tuple[TableKey, ...]
    continuation_token: bytes = field(repr=False)

    @classmethod
    def read(cls, fields: FieldReader) -> TableKeysRead:
        request_id, segment = fields.int64(), fields.text()
        keys = tuple(_read_key(fields) for _ in range(fields.count(16)))
        return cls(request_id, segment, keys, fields.sized_bytes())


@dataclass(frozen=True, slots=True)
class TableEntriesRead(Reply):
    """A page of entries, in ascending order of their keys."""

    command = 86
    segment: str
    entries: tuple[TableEntry, ...]
    continuation_token: bytes = field(repr=False)

    @classmethod
    def read(cls, fields: FieldReader) -> TableEntriesRead:
        return cls(fields.int64(), fields.text(), _read_entries(fields), fields.sized_bytes())


def _read_key(fields: FieldReader) -> TableKey:
    fields.int32()  # total size of the key, which the next length also gives
    return TableKey(fields.sized_bytes(), fields.int64())


def _read_entries(fields: FieldReader) -> tuple[TableEntry, ...]:
    entries = []
    for _ in range(fields.count(24)):
        key = _read_key(fields)
        fields.int32()  # total size of the value, which the next length also gives
        entries.append(TableEntry(key.key, key.version, fields.sized_bytes()))
    return tuple(entries)


TABLE_REPLIES: tuple[type[Reply], ...] = (
    TableSegmentInfo, TableEntriesUpdated, TableKeysRemoved, TableRead, TableSegmentNotEmpty, TableKeyDoesNotExist,
    TableKeyBadVersion, TableKeysRead, TableEntriesRead,
)  # fmt: skip
"""All replies to commands about tables."""
