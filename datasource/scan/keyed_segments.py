"""Chooses the segments to read by conditions on the routing key, if all events of a table were written with it.

A key belongs to one segment of each epoch, so that conditions on keys show which segments can have their events. The
conditions are evaluated like others: the segments that are read have events of other keys too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.errors import InvalidOptionError, InvalidRowError

from ..positions.snapshot import SegmentSlice
from ..tables.named_columns import RoutingKey, compute_key_positions
from ..tables.open_table import OpenTable
from ..tables.stored_properties import find_promised_key, read_own_properties
from .conditions import COLUMN, LITERAL, Condition, Term

Keys: TypeAlias = frozenset[Any]

_MOST_KEYS = 10_000
"""Most keys whose segments are looked for; a key of several columns multiplies their values."""

_ROUNDING = 1e-4
"""More than the rounding error of key ranges, which servers compute."""


_HASHED_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), pa.int64()),
    "date": pa.date32(),
    "string": pa.string(),
}
"""Types whose values are equal if and only if their texts, which are hashed, are.

The text of a whole number does not depend on its size, even if it was written before a column was widened. The texts of
decimals contain their scale, and different strings can be equal by a collation. Booleans have too few values.
"""

_TYPES = {
    **_HASHED_TYPES,
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


def find_segments_of_keys(
    opened: OpenTable, slices: Sequence[SegmentSlice], conditions: Sequence[Condition]
) -> set[int] | None:
    """Return the segments that can have events which fulfil all conditions; None if that is unknown.

    The slices have been measured. Whether the table still promises its key for all events is looked up only after that:
    events that break the promise are written after its withdrawal, and so lie after the slices' ends.
    """
    pravega, table = opened.pravega, opened.table
    column = table.promised_key
    # The routing key differs if the options of a query say what the events are.
    if column is None or column != table.routing_key or len(slices) < 2 or not conditions:
        return None
    try:
        # Its case may differ from that of the column, which can be renamed.
        key = RoutingKey.of(column, table.schema)
    except InvalidOptionError:  # an older version of the schema, which a query may ask for, lacks a column of it
        return None
    if not all(table.schema[name].dataType.simpleString() in _HASHED_TYPES for name in key.columns):
        return None
    keys = list_possible_keys(conditions, key.columns, table.schema)
    if keys is None or not key.is_certain(keys):
        return None
    positions = _find_positions(key.texts(keys).cast(pa.string()))
    if positions is None:
        return None
    configuration = run_in_background(lambda: pravega.controller.stream_configuration(table.stream))
    ranges = pravega.known_streams.ranges(table.stream, [piece.segment_id for piece in slices])
    if find_promised_key(read_own_properties(configuration().tags)) != column:
        return None
    segments = {piece.segment_id for piece in slices}
    return {segment for segment in segments if segment not in ranges or _has_any(ranges[segment], positions)}


def list_possible_keys(
    conditions: Sequence[Condition], columns: Sequence[str], schema: StructType, most: int = _MOST_KEYS
) -> pa.RecordBatch | None:
    """Return the values of columns with which a row can fulfil all conditions.

    None means any values, or more than `most`.
    """
    values: dict[str, Keys] = {}
    types: dict[str, pa.DataType] = {}
    for name in columns:
        type_name = schema[name].dataType.simpleString()
        keys, type = find_possible_keys(conditions, name, type_name), _find_type(type_name)
        if keys is None or type is None:
            return None
        values[name], types[name] = keys, type
    if math.prod(map(len, values.values())) > most:
        return None
    rows = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    return pa.RecordBatch.from_pylist(rows, pa.schema(types))


def find_possible_keys(conditions: Sequence[Condition], column: str, type: str) -> Keys | None:
    """Return the values of a column with which a row can fulfil all conditions, which tasks evaluate.

    None means any value: the conditions allow it, or Spark's equality of the type is not Arrow's.
    """
    keys_of_all: Keys | None = None
    if (key_type := _find_type(type)) is None:
        return None
    for condition in conditions:
        keys = condition.fold(partial(_find_keys, column, key_type))
        if isinstance(keys, frozenset):
            keys_of_all = keys if keys_of_all is None else keys_of_all & keys
    return keys_of_all


def _find_type(name: str) -> pa.DataType | None:
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _TYPES.get(name)


def _find_keys(
    column: str, type: pa.DataType, term: Term, children: Sequence[Term | Keys | None]
) -> Term | Keys | None:
    """Return the keys with which a row can fulfil a condition, None for any; a column or literal as it is."""
    child_keys = [child for child in children if isinstance(child, frozenset)]
    match term.name:
        case "COLUMN" | "LITERAL":
            return term
        case "AND":
            return frozenset.intersection(*child_keys) if child_keys else None
        case "OR":
            return frozenset.union(*child_keys) if len(child_keys) == len(children) else None
        case "=" | "<=>" | "IN":
            terms = [child for child in children if isinstance(child, Term)]
            literals = [term for term in terms if term.name == LITERAL]
            columns = [term for term in terms if term.name == COLUMN and term.value == column]
            # With another type of the column, a query compares other values than the hashed ones.
            alike = [one for one in literals if one.value is not None and _find_type(one.type or "") == type]
            if len(columns) == 1 and len(alike) == len(children) - 1:
                return frozenset(literal.parse() for literal in alike)
    return None


def _find_positions(keys: pa.Array) -> npt.NDArray[np.float64] | None:
    """Return the sorted positions of keys in the key space; None if one is too long to be a routing key."""
    try:
        return np.sort(compute_key_positions(keys))
    except InvalidRowError:
        return None


def _has_any(segment: SegmentRange, positions: npt.NDArray[np.float64]) -> bool:
    first, last = np.searchsorted(positions, (segment.min_key - _ROUNDING, segment.max_key + _ROUNDING))
    return bool(last > first)
