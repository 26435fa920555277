"""Conditions on rows as pyarrow's expressions: which columns they are about."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import InvalidOptionError


def columns_of(condition: pc.Expression, every: pa.Schema) -> list[str]:
    """Return the names of the columns that a condition is about. Raises InvalidOptionError if it fits no such rows."""
    if not isinstance(condition, pc.Expression):
        raise InvalidOptionError(
            f"'filter' is a {type(condition).__name__}; give an expression of pyarrow, for example "
            'pyarrow.compute.field("temp") > 30'
        )
    if (wrong := _misfit(condition, every)) is not None:
        raise InvalidOptionError(f"The filter {condition} does not fit the columns {', '.join(every.names)}: {wrong}")
    # An expression does not tell what it is about, but it cannot do without.
    return [
        name
        for place, name in enumerate(every.names)
        if _misfit(condition, pa.schema([field for other, field in enumerate(every) if other != place])) is not None
    ]


def _misfit(condition: pc.Expression, columns: pa.Schema) -> str | None:
    try:
        columns.empty_table().filter(condition)
    except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
        return str(error).splitlines()[0]
    return None
