"""Plans tell the native decoder how to fill the columns of the reference decoder.

They are made from the `Column`s that the reference decoder uses itself, so that both agree by construction about
what a column takes. A column that the native decoder does not know is `Unplanned`; its schema is then read by the
reference alone. Each format makes its own plans, in its module `native_plan`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

Spec = tuple[Any, ...]
"""A column or a plan as nested tuples, which `native/src/spec.rs` reads."""


class Unplanned(Exception):
    """Something that the native decoder cannot do. The text says what."""


def one_column(name: str, column: Spec) -> Spec:
    """Return a struct of one column, for events that are a single value."""
    _, arrow_type, nullable, *_ = column
    return ("struct", pa.struct([pa.field(name, arrow_type, nullable)]), False, [name], [column])


NO_COLUMNS: Spec = ("struct", pa.struct([]), False, [], [])
"""For events that are only counted."""
