"""Writes columns of numbers as Avro's bytes, a whole column at a time, and holds the base class of all such writers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..core.writing import BINARY, Cells, Rows, join_parts

Numbers = npt.NDArray[np.int64]

Parts = list[Any]
"""Binary arrays and constants that make up the bytes of each row, in this order."""


class ValueCells(Cells):
    """Writes the values of one type."""

    def all_parts(self, array: pa.Array, rows: Rows) -> Parts:
        """Return the parts of an array that may have nulls. Most types refuse nulls."""
        if array.null_count:
            index = pc.index(array.is_null(), True).as_py()
            self.refuse(rows[index], "null, but the column is NOT NULL")
        return self.parts(array, rows)

    @abstractmethod
    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        """Return the parts of an array without nulls."""

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return join_parts(self.parts(array, rows), len(array))


def make_binary_cells(data: npt.NDArray[np.uint8], lengths: Numbers | int, count: int) -> pa.LargeBinaryArray:
    """Make cells over bytes that lie one after the other. `lengths` may be one number for all of them."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.broadcast_to(lengths, count), out=offsets[1:])
    # Arrow uses the buffer's address, so it must be one piece.
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(BINARY, count, buffers)


def write_varint(number: int) -> bytes:
    """Write one number of at most 64 bits, as `write_varint_cells` writes many."""
    zigzag = (number << 1) ^ (number >> 63)
    octets = bytearray()
    while zigzag > 127:
        octets.append(zigzag & 127 | 128)
        zigzag >>= 7
    octets.append(zigzag)
    return bytes(octets)


def write_bytes(octets: bytes) -> bytes:
    """Write bytes, or a string as bytes, with their length before them."""
    return write_varint(len(octets)) + octets


def write_block(items: Sequence[bytes]) -> bytes:
    """Write the items of an array or a map: one block of them, and the empty block that ends it."""
    return b"".join([write_varint(len(items)), *items, b"\0"]) if items else b"\0"


def write_varint_cells(numbers: Numbers) -> pa.LargeBinaryArray:
    """Write Avro's int and long: zigzag, then 7 bits per byte, the lowest first."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    count = len(zigzag)
    largest = int(zigzag.max(initial=0))
    if largest < 128:
        return make_binary_cells(zigzag.astype(np.uint8), 1, count)
    most = (largest.bit_length() + 6) // 7
    lengths = np.ones(count, np.int64)
    for size in range(1, most):
        lengths += zigzag >= np.uint64(1 << (7 * size))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    data = np.empty(int(ends[-1]), np.uint8)
    for number in range(most):
        having = np.flatnonzero(lengths > number) if number else slice(None)
        bits = (zigzag[having] >> np.uint64(7 * number)).astype(np.uint8) & np.uint8(127)
        more = (lengths[having] > number + 1).astype(np.uint8) << np.uint8(7)
        data[starts[having] + number] = bits | more
    return make_binary_cells(data, lengths, count)


def write_decimal_bytes(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers]:
    """Return the unscaled numbers of a decimal128 array as 16 big-endian bytes each, and how many of them matter.

    The last n bytes are the shortest two's complement of a number, as Java's BigInteger gives it.
    """
    buffer = array.buffers()[1]
    little = np.frombuffer(buffer, np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
    big = np.ascontiguousarray(little[:, ::-1])
    sign = np.where(big[:, :1] >= 128, 255, 0).astype(np.uint8)
    # Bytes that only repeat the sign are needless, as long as the next byte begins with the bit of the sign.
    repeated = (big == sign)[:, :15] & ((big[:, 1:] >= 128) == (sign >= 128))
    needless = np.argmin(np.column_stack([repeated, np.zeros(len(big), np.bool_)]), axis=1)
    return big, (16 - needless).astype(np.int64)


def write_decimal_cells(array: pa.Array) -> tuple[pa.LargeBinaryArray, Numbers]:
    """Return the shortest two's complement of each unscaled number, and its length."""
    big, lengths = write_decimal_bytes(array)
    kept = np.arange(16) >= (16 - lengths)[:, None]
    return make_binary_cells(big[kept], lengths, len(big)), lengths


def write_fixed_decimal_cells(array: pa.Array, size: int) -> tuple[pa.LargeBinaryArray, npt.NDArray[np.bool_]]:
    """Return each unscaled number in `size` bytes, and which numbers do not fit."""
    big, lengths = write_decimal_bytes(array)
    if size <= 16:
        data = big[:, 16 - size :]
    else:
        sign = np.where(big[:, :1] >= 128, 255, 0).astype(np.uint8)
        data = np.column_stack([np.repeat(sign, size - 16, axis=1), big])
    return make_binary_cells(np.ascontiguousarray(data).reshape(-1), size, len(big)), lengths > size
