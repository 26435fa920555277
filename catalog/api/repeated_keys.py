"""Finds maps that have a key twice: Arrow allows it, Spark refuses it, and what is written would keep one value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def repeated_key(array: pa.Array) -> tuple[int, Any] | None:
    """Return the first row of a column in which some map, however deep, has a key twice, and that key; None if none."""
    found = [each for each in _repeated(array, np.arange(len(array), dtype=np.int64)) if each is not None]
    return min(found, key=lambda each: each[0], default=None)


def _repeated(array: pa.Array, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any] | None]:
    """Yield findings in the maps of an array. `rows`: the column's row of each of its values."""
    kind = array.type
    if not _has_maps(kind):
        return
    if types.is_struct(kind):
        there = array.is_valid()
        inside = rows[there.to_numpy(zero_copy_only=False)]
        for part in array.filter(there).flatten():
            yield from _repeated(part, inside)
        return
    if types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    inside = np.repeat(rows, pc.fill_null(pc.list_value_length(array), 0).to_numpy())
    values = array.flatten()
    if not types.is_map(kind):
        yield from _repeated(values, inside)
        return
    # Entries are never null, so that their parts are the values'.
    keys, items = values.flatten()
    yield _twice(keys, _map_of_each(array, len(values)), inside)
    yield from _repeated(items, inside)


def _map_of_each(maps: pa.Array, entries: int) -> npt.NDArray[np.int64]:
    lengths = pc.fill_null(pc.list_value_length(maps), 0).to_numpy()
    return np.repeat(np.arange(len(maps), dtype=np.int64), lengths) if entries else np.zeros(0, np.int64)


def _twice(keys: pa.Array, maps: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> tuple[int, Any] | None:
    """Return the row and the key of the first entry whose map had the key before."""
    if not len(keys):
        return None
    coded = keys.dictionary_encode()
    pairs = maps * len(coded.dictionary) + coded.indices.to_numpy()
    _, first = np.unique(pairs, return_index=True)
    if len(first) == len(pairs):
        return None
    again = np.ones(len(pairs), np.bool_)
    again[first] = False
    place = int(np.flatnonzero(again)[0])
    return int(rows[place]), keys[place].as_py()


def _has_maps(kind: pa.DataType) -> bool:
    return types.is_map(kind) or any(_has_maps(kind.field(place).type) for place in range(kind.num_fields))
