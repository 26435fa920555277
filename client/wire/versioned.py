"""Java's versioned serialization (`VersionedSerializer` of Pravega 0.13), the form of watermarks and reader groups.

A value is `0`, the number of its type where values of several types may stand, a version, and its revisions, each with
a number and its length in bytes. Older readers skip revisions that they do not know.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark_pravega.errors import ProtocolError

from .fields import FieldReader, encode_text

K = TypeVar("K")
V = TypeVar("V")

_FORMAT = 0

_INT = {"B": (0x7F, 0), "H": (0x3FFF, 0x8000), "I": (0x3FFFFFFF, 0xC0000000)}
_LONG = {"B": (0x3F, 0), "H": (0x3FFF, 0x4000), "I": (0x3FFFFFFF, 0x80000000), "Q": (1 << 62, 0b11 << 62)}
_SIGNED_LONG = {"B": (0x1F, 0), "H": (0x1FFF, 0x2000), "I": (0x1FFFFFFF, 0x40000000), "Q": (1 << 61, 0b11 << 61)}
"""The sizes of compact numbers by their formats of `struct`: the largest number, and the bits that mark the size."""


class VersionedWriter:
    """Collects the fields of one revision."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def getvalue(self) -> bytes:
        return b"".join(self._parts)

    def pack(self, form: str, *values: float) -> None:
        """Write numbers of fixed size, in a format of `struct` without its byte order."""
        self._parts.append(struct.pack(">" + form, *values))

    def text(self, value: str) -> None:
        """Write a text as Java's `writeUTF` does."""
        self._parts.append(encode_text(value))

    def uuid(self, value: uuid.UUID) -> None:
        self._parts.append(value.bytes)

    def compact_int(self, value: int) -> None:
        """Write a number below 2**30 in 1, 2 or 4 bytes."""
        self._pack_compact(value, _INT)

    def compact_long(self, value: int) -> None:
        """Write a number below 2**62 in 1, 2, 4 or 8 bytes."""
        self._pack_compact(value, _LONG)

    def compact_signed_long(self, value: int) -> None:
        """Write a number from 0 to 2**61 in the form for signed numbers, in 1, 2, 4 or 8 bytes."""
        self._pack_compact(value, _SIGNED_LONG)

    def _pack_compact(self, value: int, sizes: Mapping[str, tuple[int, int]]) -> None:
        form, mark = next((form, mark) for form, (largest, mark) in sizes.items() if value <= largest)
        self.pack(form, value | mark)

    def block(self, content: bytes) -> None:
        """Write bytes after their number."""
        self.compact_int(len(content))
        self._parts.append(content)

    def mapping(self, entries: Mapping[K, V], key: Callable[[K], None], value: Callable[[V], None]) -> None:
        """Write entries, with functions that write a key and a value into this writer."""
        self.compact_int(len(entries))
        for entry_key, entry_value in entries.items():
            key(entry_key)
            value(entry_value)


def encode_versioned(revisions: Sequence[bytes], *, version: int = 0, type: int | None = None) -> bytes:
    """Return a value made of revisions; `type` is for places where values of several types may stand."""
    header = [_FORMAT] if type is None else [_FORMAT, type]
    parts = [bytes([*header, version, len(revisions)])]
    for number, content in enumerate(revisions):
        parts += (struct.pack(">BI", number, len(content)), content)
    return b"".join(parts)


class VersionedReader(FieldReader):
    """Reads one value, or the fields of a revision, from bytes. Raises ProtocolError if they end too early."""

    def unpack(self, form: str) -> tuple[Any, ...]:
        """Read numbers of fixed size, in a format of `struct` without its byte order."""
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))

    def compact_int(self) -> int:
        """Read a number that was written in 1, 2 or 4 bytes."""
        first = self._body[self._position] if self.remaining else 0
        if first < 0x80:
            return int(self.unpack("B")[0])
        if first < 0xC0:
            return int(self.unpack("H")[0]) & 0x3FFF
        return self.int32() & 0x3FFFFFFF

    def block(self) -> memoryview:
        """Read bytes after their number."""
        return self.take(self.compact_int())

    def texts(self) -> list[str]:
        """Read texts after their number."""
        return [self.text() for _ in range(self.compact_int())]

    def mapping(self, key: Callable[[], K], value: Callable[[], V]) -> dict[K, V]:
        """Read entries, with functions that read a key and a value from this reader."""
        return {key(): value() for _ in range(self.compact_int())}

    def revisions(self, *, version: int = 0, type: int | None = None) -> list[VersionedReader]:
        """Read the header of a value of this version, and return readers of its revisions."""
        header = [_FORMAT, version] if type is None else [_FORMAT, type, version]
        if (start := list(self.take(len(header)))) != header:
            raise self._make_form_error(f"it begins with {start} instead of {header}")
        readers = []
        for _ in range(self.unpack("B")[0]):
            _, length = self.unpack("BI")
            readers.append(VersionedReader(self.take(length), self._what))
        return readers

    def take(self, size: int) -> memoryview:
        if size > self.remaining:
            raise self._make_form_error(f"it ends after {len(self._body):,} bytes")
        return super().take(size)

    def _make_form_error(self, reason: str) -> ProtocolError:
        return ProtocolError(f"{self._what} does not have the expected form: {reason}")
