"""Counts the entries of a fold that are left out: changes that are delivered again after newer ones of their key."""

from __future__ import annotations

import pyarrow as pa

from .age import Numbers
from .names import numbers_of


class LeftOut:
    """How many were left out, and where the event of the first one lies: its segment and offset."""

    def __init__(self) -> None:
        self.count = 0
        self.first: tuple[int, int] | None = None

    def note(self, entries: pa.Table, left_out: Numbers) -> None:
        """Note that these entries are left out."""
        if not len(left_out):
            return
        self.count += len(left_out)
        if self.first is None:
            segment, offset = (numbers_of(entries, name)[left_out[0]] for name in ("segment", "offset"))
            self.first = int(segment), int(offset)
