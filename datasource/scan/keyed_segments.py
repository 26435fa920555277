"""Conditions on the routing key of a table whose events were all written with it: they say which segments are read.

A key belongs to one segment of each epoch. So what conditions say of keys tells which segments can have their events.
The conditions are evaluated as others are: the segments that are read have the events of other keys too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.errors import InvalidRowError

from ..positions.snapshot import SegmentSlice
from ..tables.loading import promised_key, stored_properties
from ..tables.named_columns import key_positions_of, routing_key_column
from .conditions import COLUMN, LITERAL, Condition, Term
from .open_table import OpenTable

Keys: TypeAlias = frozenset[Any]

_ROUNDING = 1e-4
"""How far the ends of key ranges may be from where they were meant to be, and more: servers compute them."""


@dataclass(frozen=True)
class _Type:
    """A type of keys in Arrow, and what makes a value of how literals are written."""

    arrow: pa.DataType
    value: Callable[[str], Any]


_TYPES: Mapping[str, _Type] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _Type(pa.int64(), int)),
    "date": _Type(pa.date32(), int),
    "string": _Type(pa.string(), lambda text: base64.b64decode(text).decode()),
}
"""Types of which two values are equal if and only if they have the same text, which is what is hashed.

Whole numbers of all sizes have the same texts, also those written before a column was made wider. Decimals have their
scale in theirs, and strings with a collation are equal to others. Booleans are too few.
"""


def segments_of_keys(
    opened: OpenTable, slices: Sequence[SegmentSlice], conditions: Sequence[Condition]
) -> set[int] | None:
    """Return the segments of slices that can have events which fulfil all conditions; None if that cannot be told.

    The slices have been measured. Whether the table still promises that all events have its key is looked up after
    that: what breaks the promise is written when it has been taken back, and so behind their ends.
    """
    pravega, table = opened.pravega, opened.table
    column = table.promised_key
    # The routing key is another where the options of a query say what the events are.
    if column is None or column != table.routing_key or len(slices) < 2:
        return None
    # It may be spelled in another case than the column, which can be renamed.
    spelled = routing_key_column(column, table.schema)
    type = table.schema[spelled].dataType.simpleString()
    keys = possible_keys(conditions, spelled, type)
    positions = None if keys is None else _positions(keys, type)
    if positions is None:
        return None
    configuration = run_in_background(lambda: pravega.controller.stream_configuration(table.stream))
    ranges = pravega.known_streams.ranges(table.stream, [piece.segment_id for piece in slices])
    if promised_key(stored_properties(configuration().tags)) != column:
        return None
    segments = {piece.segment_id for piece in slices}
    return {segment for segment in segments if segment not in ranges or _has_any(ranges[segment], positions)}


def possible_keys(conditions: Sequence[Condition], column: str, type: str) -> Keys | None:
    """Return the values of a column with which a row can fulfil all conditions, None if it may have any.

    The conditions are ones that tasks evaluate. None, too, if the column's type is none whose texts tell values apart.
    """
    found: Keys | None = None
    for condition in conditions if type in _TYPES else ():
        keys = _keys(condition, column, _TYPES[type])
        if keys is not None:
            found = keys if found is None else found & keys
    return found


def _keys(condition: Condition, column: str, type: _Type) -> Keys | None:
    stack: list[Term | Keys | None] = []
    for term in condition.terms:
        split = len(stack) - term.children
        children = stack[split:]
        del stack[split:]
        stack.append(term if term.name in (COLUMN, LITERAL) else _keys_of_term(term.name, children, column, type))
    [whole] = stack
    return whole if isinstance(whole, frozenset) else None


def _keys_of_term(name: str, children: Sequence[Term | Keys | None], column: str, type: _Type) -> Keys | None:
    known = [child for child in children if isinstance(child, frozenset)]
    match name:
        case "AND":
            return frozenset.intersection(*known) if known else None
        case "OR":
            return frozenset.union(*known) if len(known) == len(children) else None
        case "=" | "<=>" | "IN":
            terms = [child for child in children if isinstance(child, Term)]
            literals = [term for term in terms if term.name == LITERAL]
            columns = [term for term in terms if term.name == COLUMN and term.value == column]
            # A query that was given another type for the column compares other values than those that were hashed.
            alike = [one.value for one in literals if one.value is not None and _TYPES.get(one.type or "") == type]
            if len(columns) == 1 and len(alike) == len(children) - 1:
                return frozenset(map(type.value, alike))
    return None


def _positions(keys: Keys, type: str) -> npt.NDArray[np.float64] | None:
    """Return where keys lie in the key space, in their order there; None if one is too long for a key of ours."""
    try:
        return np.sort(key_positions_of(pa.array(list(keys), _TYPES[type].arrow)))
    except InvalidRowError:
        return None


def _has_any(segment: SegmentRange, positions: npt.NDArray[np.float64]) -> bool:
    first, last = np.searchsorted(positions, (segment.min_key - _ROUNDING, segment.max_key + _ROUNDING))
    return bool(last > first)
