"""Encodes columns as keys of key-value tables, and decodes keys.

Numbers, dates and times have the bytes that Java's `ByteBuffer.putInt` and its like write: the highest first, negative
numbers in two's complement. Dates are days, and times microseconds, since 1970. Strings are UTF-8, padded with zero
bytes to the length of the column, and binary values have exactly that length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import InvalidRowError, MalformedEventError

from ..tables.stream_table import KeyColumn, KeyColumns

STRING, BINARY = "string", "binary"
NUMBERS: Mapping[str, tuple[int, pa.DataType]] = {
    "tinyint": (1, pa.int8()),
    "smallint": (2, pa.int16()),
    "int": (4, pa.int32()),
    "bigint": (8, pa.int64()),
    "date": (4, pa.date32()),
    "timestamp": (8, pa.timestamp("us", "UTC")),
    "timestamp_ntz": (8, pa.timestamp("us")),
}
"""The types of a fixed length: bytes, and Arrow's type."""

_Bytes = npt.NDArray[np.uint8]


def encode_keys(columns: KeyColumns, rows: pa.RecordBatch) -> list[bytes]:
    """Return the key of each row. Raises InvalidRowError naming a column whose value cannot be in a key."""
    parts = [_encode(column, rows.column(column.name)) for column in columns.all]
    joined = np.ascontiguousarray(np.hstack(parts))
    data, length = joined.tobytes(), columns.length
    return [data[at : at + length] for at in range(0, len(data), length)]


def _encode(column: KeyColumn, values: pa.Array) -> _Bytes:
    if values.null_count:
        raise InvalidRowError(f"Column {column.name} is NULL, but every row needs a key.")
    if column.type in NUMBERS:
        width, arrow = NUMBERS[column.type]
        whole = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[width]
        numbers: npt.NDArray[Any] = values.cast(arrow).view(whole).to_numpy(zero_copy_only=False)
        return numbers.astype(f">i{width}").view(np.uint8).reshape(len(values), width)
    data = values.cast(pa.large_binary())
    lengths = pc.binary_length(data)
    bounds = pc.min_max(lengths).as_py()
    most, least = bounds["max"] or 0, bounds["min"] or 0
    if most > column.bytes:
        raise InvalidRowError(
            f"Column {column.name} has a value of {most:,} bytes, but its part of the key has {column.bytes:,}."
        )
    if column.type == BINARY and len(values) and least != column.bytes:
        raise InvalidRowError(
            f"Column {column.name} has a value of {least:,} bytes, but its part of the key has exactly "
            f"{column.bytes:,}, because binary values are not padded."
        )
    texts: list[bytes] = data.to_pylist()
    if column.type == STRING and any(b"\0" in text for text in texts):
        raise InvalidRowError(
            f"Column {column.name} has a value with the character U+0000, which pads shorter strings in keys."
        )
    filled: npt.NDArray[np.bytes_] = np.array(texts, dtype=f"S{column.bytes}")
    return filled.view(np.uint8).reshape(len(values), column.bytes)


def decode_keys(columns: KeyColumns, keys: Sequence[bytes], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return the wanted key columns. Raises MalformedEventError for a key that is not UTF-8 in a string column.

    The keys have the length of the columns.
    """
    matrix = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), columns.length)
    arrays: dict[str, pa.Array] = {}
    at = 0
    for column in columns.all:
        if column.name in names:
            data = np.ascontiguousarray(matrix[:, at : at + column.bytes])
            try:
                arrays[column.name] = _decode(column, data)
            except pa.ArrowInvalid:
                bad = next(key for key in keys if not _is_text(key[at : at + column.bytes].rstrip(b"\0")))
                raise MalformedEventError(
                    f"The key column {column.name} of the entry with the key {bad.hex()} is not UTF-8. Another program "
                    f"wrote it: remove it by key_value_table(scope, name).delete(bytes.fromhex('{bad.hex()}')) of "
                    "pyspark_pravega.client.connect."
                ) from None
        at += column.bytes
    return arrays


def _decode(column: KeyColumn, data: _Bytes) -> pa.Array:
    if column.type in NUMBERS:
        width, arrow = NUMBERS[column.type]
        numbers: npt.NDArray[Any] = data.view(f">i{width}").ravel().astype(f"=i{width}")
        return pa.array(numbers).view(arrow)
    if column.type == BINARY:
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(column.bytes), len(data), [None, pa.py_buffer(data)])
        return fixed.cast(pa.binary())
    texts = data.view(f"S{column.bytes}").ravel().tolist()  # without the zero bytes at the end
    return pa.array(texts, pa.binary()).cast(pa.string())


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
