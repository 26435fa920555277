"""Chooses the events that a scan decodes, and the parts of segments that it reads, by conditions on events' places.

They are evaluated like others, but before an event is decoded: a bad event that does not fulfil them goes unnoticed,
like one behind the end of a stream cut.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from pyspark_pravega.client.segments.event_frames import HEADER_BYTES

from ..positions.snapshot import SegmentSlice
from ..tables.hidden_columns import HIDDEN_COLUMNS, POSITION_COLUMNS
from .conditions import COLUMN, LITERAL, Condition, Sieve, Term

_SEGMENT, _OFFSET, _POINTER = POSITION_COLUMNS
_COLUMNS = StructType([HIDDEN_COLUMNS[name][0] for name in POSITION_COLUMNS])
_COMPARES_WHOLE = {"=", "<=>", "<>", "IN"}
_PLACE = re.compile(r"(.*):(\d{1,19})-\d+", re.DOTALL)


@dataclass(frozen=True)
class Span:
    """The events of a segment that begin from `first` to `last`: all are wanted with `every`, else some."""

    first: int
    last: int
    every: bool


def is_about_places(condition: Condition, columns: StructType) -> bool:
    """Return whether a condition is only about places of events. `columns` of the table may hide POSITION_COLUMNS."""
    names = set(condition.columns)
    return bool(names) and names <= set(POSITION_COLUMNS) - set(columns.names)


class Places:
    """The places that fulfil conditions on places only, all of which `can_evaluate` accepts."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = tuple(conditions)

    def span(self, segment: str, piece: SegmentSlice) -> Span | None:
        """Return the span of the wanted events in a slice that is not empty; None if there can be none.

        There may be no event at either end.
        """
        # Whether an offset is wanted changes only at numbers in the conditions. So these, their neighbours and the
        # ends of the slice represent all others.
        located = [condition for condition in self._conditions if _can_locate(condition)]
        if not located:
            return Span(piece.start, piece.end - 1, not self._conditions)
        texts = [base64.b64decode(value).decode() for value in _list_literals(located, "string")]
        places = [(_PLACE.fullmatch(text), text) for text in texts]
        pointers = [(int(member[2]), text) for member, text in places if member is not None and member[1] == segment]
        other = "x" * (1 + max(map(len, texts), default=0))  # stands for all pointers that the conditions do not name
        borders = [*map(int, _list_literals(located, "bigint")), *(offset for offset, _ in pointers)]
        samples = {piece.start, piece.end - 1, *(border + step for border in borders for step in (-1, 0, 1))}
        rows = [*((offset, other) for offset in samples), *pointers]
        rows = sorted(row for row in rows if piece.start <= row[0] < piece.end)
        offsets, sampled = zip(*rows, strict=True)
        columns = {
            _SEGMENT: pa.repeat(segment, len(rows)),
            _OFFSET: pa.array(offsets, pa.int64()),
            _POINTER: pa.array(sampled, pa.string()),
        }
        kept = np.flatnonzero(_make_mask(Sieve(located, _COLUMNS), columns))
        if not len(kept):
            return None
        whole = len(located) == len(self._conditions) and not any(_POINTER in one.columns for one in located)
        return Span(offsets[kept[0]], offsets[kept[-1]], whole and kept[-1] - kept[0] == len(kept) - 1)

    def mask(
        self, segment: str, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return for each event, by its offset and the length of its payload, whether it is wanted."""
        names = {name for condition in self._conditions for name in condition.columns}
        columns = {_OFFSET: pa.array(offsets, pa.int64())}
        if _SEGMENT in names:
            columns[_SEGMENT] = pa.repeat(segment, len(offsets))
        if _POINTER in names:
            columns[_POINTER] = make_event_pointers(segment, offsets, lengths)
        return _make_mask(Sieve(self._conditions, _COLUMNS), columns)


def make_event_pointers(segment: str, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> pa.Array:
    """Return the pointers of a segment's events, by their offsets and the lengths of their payloads."""
    places = pc.cast(pa.array(offsets, pa.int64()), pa.string())
    return pc.binary_join_element_wise(
        f"{segment}:", places, "-", pc.cast(pa.array(lengths + HEADER_BYTES, pa.int64()), pa.string()), ""
    )


def _make_mask(sieve: Sieve, columns: dict[str, pa.Array]) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = sieve.mask(columns).to_numpy(zero_copy_only=False)
    return mask


def _can_locate(condition: Condition) -> bool:
    """Return whether samples of offsets and pointers suffice to locate the events that fulfil a condition."""

    def locate(term: Term, children: list[bool | None]) -> bool | None:
        """Return whether a term is the pointer; None if samples do not suffice."""
        if None in children or (any(children) and term.name not in _COMPARES_WHOLE):
            return None  # such as LIKE, whose result for one pointer says nothing about others
        return term.name == COLUMN and term.value == _POINTER

    return condition.fold(locate) is not None


def _list_literals(conditions: Sequence[Condition], type: str) -> list[str]:
    literals = [term for one in conditions for term in one.terms if term.name == LITERAL and term.type == type]
    return [literal.value for literal in literals if literal.value is not None]
