"""Routes keys to segments exactly as the Java client does.

The hash is Guava's murmur3_128 with the seed "EventRouter".hashCode() over the UTF-16LE code units of the key; the top
52 bits of the first eight bytes become a number in [0, 1). Events with equal keys must go to the same segment whichever
client writes them, or they lose their order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pyspark_pravega import native
from pyspark_pravega.errors import InvalidRowError, ProtocolError

from .stream import SegmentRange

if TYPE_CHECKING:
    import pyarrow as pa

MAX_KEY = 65_536
"""Most UTF-16 code units of a routing key. A column of longer texts is unlikely to be a key, and slow to hash."""

Words: TypeAlias = Any
"""One word of 64 bits, or an array of many; the mask takes nothing from these."""

_M64 = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


def _hash_as_java(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


# Guava widens the int seed with its sign.
_EVENT_SEED = _hash_as_java("EventRouter") & _M64
_TABLE_SEED = _hash_as_java("KeyValueTableRouter") & _M64


def hash_table_key(primary_key: bytes) -> float:
    """Return the position of a key-value table's primary key in the key space [0, 1)."""
    return _hash_one(primary_key, _TABLE_SEED)


def _hash_one(data: bytes, seed: int) -> float:
    padded = _fill_last_block(data)
    position: float = _hash_words(struct.unpack(f"<{len(padded) // 8}Q", padded), len(data), seed)
    return position


def _fill_last_block(data: bytes) -> bytes:
    """Return bytes with as many zeros behind them as their last block of 16 lacks; it may have none of them."""
    return data.ljust((len(data) // 16 + 1) * 16, b"\0")


def _rotate(value: Words, bits: int) -> Words:
    return (value << bits | value >> (64 - bits)) & _M64


def _scramble_1(k1: Words) -> Words:
    return _rotate(k1 * _C1 & _M64, 31) * _C2 & _M64


def _scramble_2(k2: Words) -> Words:
    return _rotate(k2 * _C2 & _M64, 33) * _C1 & _M64


def _mix(value: Words) -> Words:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _M64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    return value ^ value >> 33


def _hash_words(words: Sequence[Words], size: int, seed: int) -> Any:
    """Return the position, by the first 64 bits (little-endian) of MurmurHash3_x64_128, of `size` bytes in blocks."""
    h1: Words = seed
    h2: Words = seed
    for first, second in zip(words[:-2:2], words[1:-2:2], strict=True):
        h1 = h1 ^ _scramble_1(first)
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _M64
        h2 = h2 ^ _scramble_2(second)
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _M64
    h1 = h1 ^ _scramble_1(words[-2]) ^ size
    h2 = h2 ^ _scramble_2(words[-1]) ^ size
    h1 = (h1 + h2) & _M64
    h2 = (h2 + h1) & _M64
    return (((_mix(h1) + _mix(h2)) & _M64) >> 12) / float(1 << 52)


def hash_keys(keys: pa.Array) -> npt.NDArray[np.float64]:
    """Return the positions of routing keys, an Arrow array of strings, in the key space [0, 1).

    Raises InvalidRowError for a null and for a key longer than MAX_KEY; names the row.
    """
    module = native.get_module()
    hashes = None if module is None else module.hash_keys(keys, _EVENT_SEED, MAX_KEY)
    if hashes is not None:  # the module refuses keys for which this raises an error
        return np.frombuffer(hashes, np.float64)
    if keys.null_count:
        row = next(index for index in range(len(keys)) if not keys[index].is_valid)
        raise InvalidRowError(f"the routing key of row {row} is null; every event needs a routing key")
    every = [key.encode("utf-16-le") for key in keys.to_pylist()]
    sizes = np.fromiter(map(len, every), np.int64, len(every))
    if sizes.max(initial=0) > 2 * MAX_KEY:
        row = int(np.argmax(sizes > 2 * MAX_KEY))
        raise InvalidRowError(
            f"the routing key of row {row} has {sizes[row] // 2:,} characters; at most {MAX_KEY:,} are allowed. Choose "
            "a column with shorter texts, or write a hash of this one into a separate column and route by that"
        )
    positions = np.empty(len(every), np.float64)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        blocks = b"".join([_fill_last_block(every[row]) for row in rows])
        words: Any = np.frombuffer(blocks, "<u8").reshape(len(rows), -1).T
        positions[rows] = _hash_words(words, size, _EVENT_SEED)
    return positions


class SegmentRouter:
    """Finds the segment of each key position. A boundary belongs to the lower segment, as in Java.

    Raises ProtocolError if the ranges overlap, or leave a gap in the key space.
    """

    def __init__(self, ranges: Sequence[SegmentRange]) -> None:
        ordered = sorted(ranges, key=lambda segment: segment.max_key)
        lows = np.array([segment.min_key for segment in ordered])
        highs = np.array([segment.max_key for segment in ordered])
        # The server computes boundaries with rounding, so neighbours may differ in the last bits.
        whole = len(ordered) > 0 and abs(lows[0]) < 1e-5 and abs(highs[-1] - 1.0) < 1e-5
        if not whole or (np.abs(lows[1:] - highs[:-1]) > 1e-5).any():
            raise ProtocolError(f"the segments {ordered} do not cover the key space [0, 1] once")
        self._highs = highs
        self.segment_ids = [segment.segment_id for segment in ordered]
        """In the order of their key ranges."""

    def places(self, hashes: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return for each position in [0, 1) the index of its segment in `segment_ids`."""
        # Positions above a last boundary of 0.99999999 still belong to the last segment.
        return np.minimum(np.searchsorted(self._highs, hashes, side="left"), len(self._highs) - 1)
