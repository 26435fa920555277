"""Primitive fields of the segment store's wire protocol: integers, modified UTF-8 text, UUIDs, table keys."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Annotated, TypeVar

from pyspark_pravega.errors import ProtocolError

HEADER = struct.Struct(">ii")
"""The header of a frame: its type, and the number of bytes after these eight."""

INT16 = struct.Struct(">H")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

_MAX_TEXT = 0xFFFF

Value = TypeVar("Value")


def encode_text(text: str) -> bytes:
    """Return a text as Java's `DataOutput.writeUTF` writes it.

    That is a 16-bit length in bytes, and modified UTF-8 (NUL as C0 80, surrogates one by one). Raises ProtocolError if
    the encoded text is longer than 65,535 bytes.
    """
    encoded = text.encode() if text.isascii() else _encode_modified_utf8(text)
    if b"\0" in encoded:
        encoded = encoded.replace(b"\0", b"\xc0\x80")
    if len(encoded) > _MAX_TEXT:
        raise ProtocolError(
            f"a text of {len(encoded):,} bytes does not fit into a wire command; at most {_MAX_TEXT:,} are allowed"
        )
    return INT16.pack(len(encoded)) + encoded


def _encode_modified_utf8(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(unit[0]) for unit in struct.iter_unpack(">H", units)).encode("utf-8", "surrogatepass")


def decode_modified_utf8(encoded: bytes) -> str:
    """Return the text of modified UTF-8. Raises UnicodeDecodeError for other bytes."""
    if encoded.isascii():
        return encoded.decode("ascii")
    halves = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class FieldReader:
    """Reads the fields of one frame. Raises ProtocolError for reading past the end and for impossible lengths."""

    __slots__ = ("_body", "_end", "_position", "_what")

    def __init__(self, body: bytes | bytearray | memoryview, what: str) -> None:
        """Read from the start of `body`; `what` names the command in error messages."""
        self._body = memoryview(body)
        self._position = 0
        self._end = len(self._body)
        self._what = what

    @property
    def remaining(self) -> int:
        """Return the number of bytes that are left."""
        return self._end - self._position

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes, without a copy."""
        start = self._position
        if size < 0 or size > self._end - start:
            raise ProtocolError(
                f"the server's {self._what} is corrupt: a field of {size:,} bytes at position "
                f"{start:,} of {self._end:,}; "
                "check that the address is a Pravega segment store of version 0.13 or compatible"
            )
        self._position = start + size
        return self._body[start : self._position]

    def int32(self) -> int:
        value: int = INT32.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = INT64.unpack(self.take(8))[0]
        return value

    def boolean(self) -> bool:
        return self.take(1)[0] != 0

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=bytes(self.take(16)))

    def text(self) -> str:
        """Read a string after its 16-bit length."""
        size: int = INT16.unpack(self.take(2))[0]
        encoded = bytes(self.take(size))
        try:
            return decode_modified_utf8(encoded)
        except UnicodeDecodeError as error:
            raise ProtocolError(
                f"the server sent a text in {self._what} that is not modified UTF-8: {error.reason}"
            ) from error

    def optional_text(self) -> str:
        """Read a trailing string, "" from older servers that leave it out."""
        return self.text() if self.remaining else ""

    def optional_int64(self, default: int = -1) -> int:
        """Read a trailing int64, `default` from older servers that leave it out."""
        return self.int64() if self.remaining >= 8 else default

    def optional_int32(self, default: int = -1) -> int:
        """Read a trailing int32, `default` from older servers that leave it out."""
        return self.int32() if self.remaining >= 4 else default

    def count(self, smallest_item: int) -> int:
        """Read an int32 count of items of at least `smallest_item` bytes, which must fit into the rest."""
        value = self.int32()
        if value < 0 or value * smallest_item > self.remaining:
            raise ProtocolError(
                f"the server's {self._what} is corrupt: it announces {value:,} items in {self.remaining:,} bytes"
            )
        return value

    def sized_bytes(self) -> bytes:
        """Read bytes after their int32 length."""
        return bytes(self.take(self.int32()))


def _skip_trace_after(read: Callable[[FieldReader], Value]) -> Callable[[FieldReader], Value]:
    def read_both(fields: FieldReader) -> Value:
        value = read(fields)
        fields.optional_text()
        return value

    return read_both


READ_BY_TYPE: dict[object, Callable[[FieldReader], object]] = {
    int: FieldReader.int64,
    bool: FieldReader.boolean,
    str: FieldReader.text,
    uuid.UUID: FieldReader.uuid,
}
"""How fields of replies are read whose type does not say it."""

Int32 = Annotated[int, FieldReader.int32]
TrailingInt32 = Annotated[int, FieldReader.optional_int32]
TrailingInt64 = Annotated[int, FieldReader.optional_int64]
SizedBytes = Annotated[bytes, FieldReader.sized_bytes]
SizedView = Annotated[memoryview, lambda fields: fields.take(fields.int32())]
TracedText = Annotated[str, _skip_trace_after(FieldReader.text)]
TracedInt64 = Annotated[int, _skip_trace_after(FieldReader.int64)]
"""The types of fields of replies that say how they are read. A stack trace may stand behind the traced ones."""
