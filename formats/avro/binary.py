"""Reads Avro's binary encoding into Python values, by the writer's schema only.

A reader is a function from (payload, position) to (value, position after it). Values have the form that the columns
expect: strings stay bytes (Arrow checks UTF-8 when it takes them over), enums are symbol numbers, records are lists of
the wanted fields' values, values of unions with several types are (branch, value). Logical types do not matter here.

It is stricter than other readers: numbers longer than 64 bits, ints beyond 32 bits, negative lengths,
symbol and branch numbers out of range and booleans other than 0 and 1 are refused. Everything is
checked, wanted or not, except whether unwanted strings are UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..core.framing import Undecodable
from . import schema_model as avro

Reader = Callable[[bytes, int], tuple[Any, int]]

_unpack_float = struct.Struct("<f").unpack_from
_unpack_double = struct.Struct("<d").unpack_from


def read_whole(reader: Reader, payload: bytes, padded: bool) -> Any:
    """Read the value that fills the payload exactly, or with NULs if `padded`. Raises Undecodable with the reason."""
    try:
        value, end = reader(payload, 0)
    except (IndexError, struct.error):
        value, end = None, len(payload) + 1
    if end == len(payload):
        return value
    if end > len(payload):
        raise Undecodable(_CUT_OFF if payload else "it is empty")
    if padded and payload.count(0, end) == len(payload) - end:
        return value
    raise Undecodable(f"it has {len(payload) - end} bytes more than its schema accounts for")


_CUT_OFF = "it is cut off, or was written with another schema: it ends inside a value"


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable-length, zigzag-encoded number of at most 64 bits."""
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number = byte & 127
    shift = 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Undecodable("it has a number of more than 64 bits")
    if number >> 64:
        raise Undecodable("it has a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at + 1


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    number, at = read_long(data, at)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise Undecodable("it has an int of more than 32 bits")
    return number, at


def _read_null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise Undecodable(f"it has a boolean that is {byte}, neither 0 nor 1")
    return byte == 1, at + 1


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    return _unpack_float(data, at)[0], at + 4


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    return _unpack_double(data, at)[0], at + 8


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read bytes, or a string as bytes, with their length before them."""
    length = data[at]
    if length < 128 and not length & 1:
        # The usual case, a length below 64, without a call.
        at += 1
        end = at + (length >> 1)
    else:
        length, at = read_long(data, at)
        if length < 0:
            raise Undecodable("it has a string of negative length")
        end = at + length
    # Beyond the payload's end the slice is too short; `read_whole` notices the position at the latest.
    return data[at:end], end


_PRIMITIVES: dict[str, Reader] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": read_bytes,
    "string": read_bytes,
}


def make_skipping_reader(node: avro.Node, records: dict[int, Reader] | None = None) -> Reader:
    """Return a reader that skips values of a type that are not wanted. `records` are readers of records, by their ids.

    Records that contain themselves are skipped in a loop.
    """
    records = {} if records is None else records
    if isinstance(node, avro.Record):
        if node.recursive:
            return _make_skipper(node)
        if id(node) not in records:
            fields = [make_skipping_reader(field.type, records) for field in node.fields]
            records[id(node)] = make_record_reader([(field, False) for field in fields])
        return records[id(node)]
    if isinstance(node, avro.Array):
        return make_array_reader(node, make_skipping_reader(node.items, records))
    if isinstance(node, avro.Map):
        return make_map_reader(make_skipping_reader(node.values, records))
    if isinstance(node, avro.Union):
        return make_union_reader([make_skipping_reader(branch, records) for branch in node.branches])
    return make_scalar_reader(node)


def _make_skipper(record: avro.Record) -> Reader:
    """Return a reader that skips values of any depth without recursion."""

    def skip(data: bytes, at: int) -> tuple[None, int]:
        # Types that are left to skip, the next one at the end, and how many items of it a block still has.
        left: list[tuple[avro.Node, int | None]] = [(record, None)]
        while left:
            node, count = left.pop()
            if isinstance(node, avro.Record):
                left += [(field.type, None) for field in reversed(node.fields)]
            elif isinstance(node, avro.Union):
                branch, at = read_long(data, at)
                if not 0 <= branch < len(node.branches):
                    raise Undecodable(f"it has the branch number {branch} of a union of {len(node.branches)} types")
                left.append((node.branches[branch], None))
            elif not isinstance(node, avro.Array | avro.Map):
                _, at = make_scalar_reader(node)(data, at)
            elif not count:
                weightless = isinstance(node, avro.Array) and avro.is_weightless(node.items)
                count, at = read_bounded_block(data, at, weightless)
                if count:
                    left.append((node, count))
            else:
                left.append((node, count - 1))
                if isinstance(node, avro.Map):
                    _, at = read_bytes(data, at)
                left.append((node.items if isinstance(node, avro.Array) else node.values, None))
        return None, at

    return skip


def make_scalar_reader(node: avro.Node) -> Reader:
    """Return a reader for a primitive type, an enum (as symbol numbers) or a fixed."""
    if isinstance(node, avro.Enum):
        return _make_enum_reader(len(node.symbols))
    if isinstance(node, avro.Fixed):
        return _make_fixed_reader(node.size)
    assert isinstance(node, avro.Primitive)
    return _PRIMITIVES[node.name]


def _make_enum_reader(count: int) -> Reader:
    def read(data: bytes, at: int) -> tuple[int, int]:
        number, at = read_long(data, at)
        if not 0 <= number < count:
            raise Undecodable(f"it has the symbol number {number} of an enum with {count} symbols")
        return number, at

    return read


def _make_fixed_reader(size: int) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        return data[at:end], end

    return read


def make_record_reader(steps: Sequence[tuple[Reader, bool]]) -> Reader:
    """Return a reader for fields in the writer's order. Fields marked true go into the list of values."""

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values = []
        for reader, is_wanted in steps:
            value, at = reader(data, at)
            if is_wanted:
                values.append(value)
        return values, at

    return read


def make_array_reader(node: avro.Array, item: Reader) -> Reader:
    """Return a reader for blocks of items up to the empty block."""
    if avro.is_weightless(node.items):
        return _make_weightless_reader(item)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        append = values.append
        while True:
            count, at = read_block_count(data, at)
            if count == 0:
                return values, at
            if count > len(data) - at:
                raise Undecodable(f"it has an array that claims {count} more elements than there can be")
            for _ in range(count):
                value, at = item(data, at)
                append(value)

    return read


def _make_weightless_reader(item: Reader) -> Reader:
    """Return a reader for arrays whose elements take no bytes, where a few bytes could claim billions of them."""
    # The event that was read last, up to where, and its number of elements so far. Threads that disturb each other
    # here count too few elements, never too many.
    last: tuple[bytes, int, int] = (b"", 0, 0)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        nonlocal last
        values: list[Any] = []
        while True:
            count, at = read_block_count(data, at)
            if count == 0:
                return values, at
            event, where, before = last
            last = data, at, count + (before if event is data and at > where else 0)
            if last[2] > MOST_WEIGHTLESS:
                raise Undecodable(f"it has more than {MOST_WEIGHTLESS:,} elements that take no bytes")
            values += [item(data, at)[0] for _ in range(count)]

    return read


MOST_WEIGHTLESS = 10_000
"""Most elements without bytes, such as records without fields, in the arrays of an event."""


def make_map_reader(item: Reader) -> Reader:
    """Return a reader for blocks of keys and values. If a key occurs twice, its last value counts."""

    def read(data: bytes, at: int) -> tuple[dict[bytes, Any], int]:
        values: dict[bytes, Any] = {}
        while True:
            count, at = read_block_count(data, at)
            if count == 0:
                return values, at
            if count > len(data) - at:
                raise Undecodable(f"it has a map that claims {count} more entries than there can be")
            for _ in range(count):
                key, at = read_bytes(data, at)
                values[key], at = item(data, at)

    return read


def read_block_count(data: bytes, at: int) -> tuple[int, int]:
    """Read how many items follow. After a negative count comes the block's size in bytes, which is not needed."""
    count, at = read_long(data, at)
    if count < 0:
        size, at = read_long(data, at)
        if size < 0:
            raise Undecodable("it has a block of negative size")
        count = -count
    return count, at


def read_bounded_block(data: bytes, at: int, weightless: bool = False) -> tuple[int, int]:
    """Read how many items follow: at most one per remaining byte, or MOST_WEIGHTLESS if they take no bytes."""
    count, at = read_block_count(data, at)
    if count > (MOST_WEIGHTLESS if weightless else len(data) - at):
        raise Undecodable(f"it has a block that claims {count} more items than there can be")
    return count, at


def make_nullable_reader(null_branch: int, reader: Reader) -> Reader:
    """Return a reader for a union of null and one other type: None or the value."""
    null_byte, other_byte = (0, 2) if null_branch == 0 else (2, 0)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        byte = data[at]
        if byte == other_byte:
            return reader(data, at + 1)
        if byte == null_byte:
            return None, at + 1
        # A number may be written with more bytes than it needs.
        branch, at = read_long(data, at)
        if not 0 <= branch < 2:
            raise Undecodable(f"it has the branch number {branch} of a union of 2 types")
        return (None, at) if branch == null_branch else reader(data, at)

    return read


def make_converting_reader(reader: Reader, convert: Callable[[Any], Any]) -> Reader:
    """Return a reader of what `convert` makes of each value."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = reader(data, at)
        return convert(value), at

    return read


def make_union_reader(branches: Sequence[Reader]) -> Reader:
    """Return a reader for a union, as (branch number, value)."""
    count = len(branches)

    def read(data: bytes, at: int) -> tuple[tuple[int, Any], int]:
        branch, at = read_long(data, at)
        if not 0 <= branch < count:
            raise Undecodable(f"it has the branch number {branch} of a union of {count} types")
        value, at = branches[branch](data, at)
        return (branch, value), at

    return read
