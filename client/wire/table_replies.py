"""Replies about key-value tables, as typed values. Definitions: `WireCommands.java`, Pravega 0.13.0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from .fields import FieldReader, SizedBytes
from .replies import Reply, SegmentFailure, of_type


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


def _read_key(fields: FieldReader) -> TableKey:
    fields.int32()  # total size of the key, which the next length also gives
    return TableKey(fields.sized_bytes(), fields.int64())


def _read_keys(fields: FieldReader) -> tuple[TableKey, ...]:
    return tuple(_read_key(fields) for _ in range(fields.count(16)))


def _read_entries(fields: FieldReader) -> tuple[TableEntry, ...]:
    entries = []
    for _ in range(fields.count(24)):
        key = _read_key(fields)
        fields.int32()  # total size of the value, which the next length also gives
        entries.append(TableEntry(key.key, key.version, fields.sized_bytes()))
    return tuple(entries)


Entries = Annotated[tuple[TableEntry, ...], _read_entries]


@of_type(69)
class TableSegmentInfo(Reply):
    """The state of a key-value table's partition; `entry_count` lags behind writes, `key_length` is in bytes."""

    segment: str
    start_offset: int
    length: int
    entry_count: int
    key_length: Annotated[int, lambda fields: fields.optional_int32(0)]


@of_type(75)
class TableEntriesUpdated(Reply):
    """The new versions of the entries written, in their order."""

    versions: Annotated[tuple[int, ...], lambda fields: tuple(fields.int64() for _ in range(fields.count(8)))]


@of_type(77)
class TableKeysRemoved(Reply):
    segment: str


@of_type(79)
class TableRead(Reply):
    """An entry of every key asked for, in their order; missing keys have the version -1 and an empty value."""

    segment: str
    entries: Entries


@of_type(81)
class TableKeyDoesNotExist(SegmentFailure):
    """A conditional write of a key that does not exist."""


@of_type(82)
class TableKeyBadVersion(SegmentFailure):
    """A conditional write found another version than expected, or an insert an existing key."""


@of_type(84)
class TableKeysRead(Reply):
    """A page of keys in ascending order. Tables with a fixed key length do not take the token back."""

    segment: str
    keys: Annotated[tuple[TableKey, ...], _read_keys]
    continuation_token: SizedBytes = field(repr=False)


@of_type(86)
class TableEntriesRead(Reply):
    """A page of entries, in ascending order of their keys."""

    segment: str
    entries: Entries
    continuation_token: SizedBytes = field(repr=False)
