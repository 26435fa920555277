"""Finds the keys of rows that can fulfil a query's conditions: ranges of bytes, in the order of the segment store.

The conditions are evaluated on the rows too. So ranges may have more keys than wanted, but never fewer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from pyspark_pravega.client.key_value.key_value_table import MAX_READ_KEYS

from ..scan.conditions import COLUMN, LITERAL, Condition, Term
from ..tables.stream_table import KeyColumn, KeyColumns
from .keys import BINARY, NUMBERS, STRING

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ascending, disjoint ranges that include both ends. Keys are numbers here, with their first byte the highest."""

MOST_RANGES = 20_000
"""The most ranges: beyond this, conditions on the next column are simplified to one range."""
_TURNED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparisons, with their operands exchanged."""


def find_key_ranges(columns: KeyColumns, conditions: Sequence[Condition]) -> Ranges | None:
    """Return the keys of rows that can fulfil all conditions; None if any key can."""
    key_ranges: Ranges = ((0, 0),)
    limited = False
    for column in columns.all:
        whole: Ranges = ((0, _find_largest(column)),)
        column_ranges = [one.fold(partial(_find_ranges, column)) for one in conditions]
        limits = reduce(_intersect, [ranges for ranges in column_ranges if isinstance(ranges, tuple)], whole)
        limited = limited or limits != whole
        key_ranges = _append_column(key_ranges, limits, column)
    return key_ranges if limited else None


def choose_fewest_requests(
    points: Sequence[bytes], ranges: Sequence[tuple[bytes, bytes]], pages: int
) -> tuple[tuple[bytes, ...], tuple[tuple[bytes, bytes], ...]]:
    """Return what to read of a partition: the wanted keys and ranges, or one range with all of them.

    That is chosen if the others take more requests than all `pages` of the partition.
    """
    if -(-len(points) // MAX_READ_KEYS) + len(ranges) <= pages:
        return tuple(points), tuple(ranges)
    ends = [*points, *(key for bounds in ranges for key in bounds)]
    return (), ((min(ends), max(ends)),)


def _append_column(ranges: Ranges, limits: Ranges, column: KeyColumn) -> Ranges:
    """Return keys with the bytes of the next column appended; after a range of keys these can be any."""
    shift, largest = 8 * column.bytes, _find_largest(column)
    if len(ranges) * len(limits) > MOST_RANGES:
        limits = ((limits[0][0], limits[-1][1]),) if limits else ()
    longer: list[tuple[int, int]] = []
    for first, last in ranges:
        if first == last:
            longer += [((first << shift) + low, (first << shift) + high) for low, high in limits]
        elif limits:
            longer.append((first << shift, (last << shift) + largest))
    return _join(longer)


def _join(ranges: Sequence[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)


def _intersect(one: Ranges, other: Ranges) -> Ranges:
    ranges = []
    at = begin = 0
    while at < len(one) and begin < len(other):
        first, last = max(one[at][0], other[begin][0]), min(one[at][1], other[begin][1])
        if first <= last:
            ranges.append((first, last))
        if one[at][1] < other[begin][1]:
            at += 1
        else:
            begin += 1
    return tuple(ranges)


def _find_ranges(column: KeyColumn, term: Term, children: Sequence[Term | Ranges | None]) -> Term | Ranges | None:
    """Return the ranges in which a condition can be fulfilled, None for any; a column or literal as it is."""
    name, child_ranges = term.name, [child for child in children if isinstance(child, tuple)]
    if name in (COLUMN, LITERAL):
        return term
    if name == "AND":
        return reduce(_intersect, child_ranges) if child_ranges else None
    if name == "OR":
        every = _join([bounds for ranges in child_ranges for bounds in ranges])
        return every if len(child_ranges) == len(children) else None
    if not children or not all(isinstance(child, Term) for child in children):
        return None
    left, *others = [child for child in children if isinstance(child, Term)]
    if left.name == LITERAL and len(others) == 1 and name in _TURNED:
        name, left, others = _TURNED[name], others[0], [left]
    literals = [other.value for other in others if other.name == LITERAL and other.type == column.type]
    values = [literal for literal in literals if literal is not None]
    if left.name != COLUMN or left.value != column.name or len(values) != len(others):
        return None
    if name == "IN":
        return _join([bounds for value in values for bounds in _compare("=", value, column) or ()])
    return _compare(name, values[0], column) if len(values) == 1 else None


def _compare(name: str, value: str, column: KeyColumn) -> Ranges | None:
    of_type: Callable[[str, str, KeyColumn], Ranges | None] = (
        _find_ranges_of_number if column.type in NUMBERS else _find_ranges_of_text
    )
    return of_type("=" if name == "<=>" else name, value, column)


def _find_ranges_of_number(name: str, value: str, column: KeyColumn) -> Ranges | None:
    number, most = int(value), _find_largest(column) >> 1
    least = -most - 1
    bounds = {
        "=": (number, number),
        "<": (least, number - 1),
        "<=": (least, number),
        ">": (number + 1, most),
        ">=": (number, most),
    }.get(name)
    if bounds is None:
        return None
    # In two's complement, negative numbers come after the others.
    positive = max(bounds[0], 0), bounds[1]
    negative = bounds[0] - 2 * least, min(bounds[1], -1) - 2 * least
    return tuple((first, last) for first, last in (positive, negative) if first <= last)


def _find_ranges_of_text(name: str, value: str, column: KeyColumn) -> Ranges | None:
    if column.type not in (STRING, BINARY):
        return None
    data, length = base64.b64decode(value), column.bytes
    near = int.from_bytes(data[:length].ljust(length, b"\0"), "big")
    match name:
        case "=":
            fits = len(data) <= length if column.type == STRING else len(data) == length
            return ((near, near),) if fits else ()
        case "<" | "<=":
            return ((0, near),)
        case ">" | ">=":
            return ((near, _find_largest(column)),)
        case "STARTS_WITH":
            last = int.from_bytes(data[:length].ljust(length, b"\xff"), "big")
            return ((near, last),) if len(data) <= length else ()
    return None


def _find_largest(column: KeyColumn) -> int:
    return (1 << 8 * column.bytes) - 1
