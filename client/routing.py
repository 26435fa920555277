"""Routes keys to segments exactly as the Java client does.

The hash is Guava's murmur3_128 with the seed "EventRouter".hashCode() over the UTF-16LE code units of the key; the top
52 bits of the first eight bytes become a number in [0, 1). Events with equal keys must go to the same segment whichever
client writes them, or they lose their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from pyspark_pravega import native
from pyspark_pravega.errors import InvalidRowError, ProtocolError

from .stream import SegmentRange

if TYPE_CHECKING:
    import pyarrow as pa

MAX_KEY = 65_536
"""Most UTF-16 code units of a routing key. A column of longer texts is unlikely to be a key, and slow to hash."""

_FEW = 16
"""Up to this number, keys are hashed faster one by one than together, block by block."""

Words = TypeVar("Words", int, npt.NDArray[Any])
"""One word of 64 bits, or many; the mask takes nothing from many."""

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


def hash_key(key: str) -> float:
    """Return the position of an event's routing key in the key space [0, 1)."""
    return _make_fraction(_hash_murmur3_low(key.encode("utf-16-le", "surrogatepass"), _EVENT_SEED))


def hash_table_key(primary_key: bytes) -> float:
    """Return the position of a key-value table's primary key in the key space [0, 1)."""
    return _make_fraction(_hash_murmur3_low(primary_key, _TABLE_SEED))


def _make_fraction(low: int) -> float:
    return float(low >> 12) / float(1 << 52)


def _rotate(value: Words, bits: int) -> Words:
    return (value << bits | value >> (64 - bits)) & _M64


def _scramble_1(k1: Words) -> Words:
    return _rotate(k1 * _C1 & _M64, 31) * _C2 & _M64


def _scramble_2(k2: Words) -> Words:
    return _rotate(k2 * _C2 & _M64, 33) * _C1 & _M64


def _mix(value: Words) -> Words:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _M64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    mixed: Words = value ^ value >> 33
    return mixed


def _hash_murmur3_low(data: bytes, seed: int) -> int:
    """Return the first 64 bits (little-endian) of MurmurHash3_x64_128."""
    h1 = h2 = seed
    body = len(data) & ~15
    for position in range(0, body, 16):
        h1 ^= _scramble_1(int.from_bytes(data[position : position + 8], "little"))
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _M64
        h2 ^= _scramble_2(int.from_bytes(data[position + 8 : position + 16], "little"))
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _M64
    h1 ^= _scramble_1(int.from_bytes(data[body : body + 8], "little"))
    h2 ^= _scramble_2(int.from_bytes(data[body + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _M64
    h2 = (h2 + h1) & _M64
    return (_mix(h1) + _mix(h2)) & _M64


def hash_keys(keys: pa.Array) -> npt.NDArray[np.float64]:
    """Return the positions of many routing keys, an Arrow array of strings, as `hash_key` does.

    Raises InvalidRowError for a null and for a key longer than MAX_KEY; names the row.
    """
    module = native.get_module()
    hashes = None if module is None else module.hash_keys(keys, _EVENT_SEED, MAX_KEY)
    if hashes is not None:  # the module refuses keys for which this raises an error
        return np.frombuffer(hashes, np.float64)
    if keys.null_count:
        row = next(index for index in range(len(keys)) if not keys[index].is_valid)
        raise InvalidRowError(f"the routing key of row {row} is null; every event needs a routing key")
    units, starts, lengths = _convert_to_utf16_units(keys)
    if len(lengths) and lengths.max() > MAX_KEY:
        row = int(np.argmax(lengths > MAX_KEY))
        raise InvalidRowError(
            f"the routing key of row {row} has {int(lengths[row]):,} characters; at most {MAX_KEY:,} are allowed. "
            "Choose a column with shorter texts, or write a hash of this one into a separate column and route by that"
        )
    return _hash_units(units, starts, lengths)


def _convert_to_utf16_units(
    keys: pa.Array,
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return all keys as one array of UTF-16 code units, with the start and the length of each."""
    if len(keys) == 0:
        empty = np.zeros(0, np.int64)
        return np.zeros(0, np.uint16), empty, empty
    width = np.int32 if str(keys.type) == "string" else np.int64
    buffers = keys.buffers()
    offsets = np.frombuffer(buffers[1], width)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(buffers[2], np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    offsets -= first
    if not (data >= 0x80).any():
        return data.astype(np.uint16), offsets[:-1], np.diff(offsets)
    # A UTF-8 sequence of 1 to 3 bytes is one UTF-16 unit, one of 4 bytes is two: count at the lead bytes.
    units_at = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(units_at)))
    boundaries = before[offsets]
    units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), "<u2")
    return units, boundaries[:-1], np.diff(boundaries)


def _hash_units(
    units: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Hash all keys together. One by one, an INSERT without the native module would take three times as long."""
    # The longest first: then the keys that have an n-th block are always a prefix, and no masks are needed.
    order = np.argsort(-lengths, kind="stable")
    position, unit_count = starts[order], lengths[order]
    # Padded so that a word can be read at the start of any tail. `words[i]` are the 8 bytes from unit i on.
    padded = np.concatenate((units, np.zeros(8, np.uint16)))
    words = np.ndarray((len(padded) - 3,), "<u8", padded, 0, (2,))
    h1 = np.full(len(order), _EVENT_SEED, np.uint64)
    h2 = h1.copy()
    blocks = unit_count // 8
    active = int(np.count_nonzero(blocks > 0))
    block = 0
    while active > _FEW:
        at = position[:active] + block * 8
        a, b = h1[:active], h2[:active]
        a ^= _scramble_1(words[at])
        a[:] = (_rotate(a, 27) + b) * 5 + 0x52DCE729
        b ^= _scramble_2(words[at + 4])
        b[:] = (_rotate(b, 31) + a) * 5 + 0x38495AB5
        block += 1
        active = int(np.count_nonzero(blocks[:active] > block))
    at = position + blocks * 8
    rest = (unit_count - blocks * 8) * 2
    # Zero bytes scramble to zero, so an absent tail needs no special case.
    h1 ^= _scramble_1(words[at] & _make_low_masks(np.minimum(rest, 8)))
    h2 ^= _scramble_2(words[at + 4] & _make_low_masks(np.maximum(rest - 8, 0)))
    total = (unit_count * 2).astype(np.uint64)
    h1 ^= total
    h2 ^= total
    h1 += h2
    h2 += h1
    low = _mix(h1) + _mix(h2)
    result = np.empty(len(order), np.float64)
    result[order] = (low >> np.uint64(12)).astype(np.float64) / float(1 << 52)
    for key in order[:active].tolist():
        data = units[starts[key] : starts[key] + lengths[key]].tobytes()
        result[key] = _make_fraction(_hash_murmur3_low(data, _EVENT_SEED))
    return result


def _make_low_masks(count: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    masks = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
    return masks[count]


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
