"""Finds the column that an option names."""

from __future__ import annotations

import difflib

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import InvalidOptionError


def find_column(option: str, name: str, columns: StructType) -> StructField:
    """Return the column of a table that an option names in any case.

    Raises InvalidOptionError when there is none, or more than one and none is spelled so.
    """
    names = columns.fieldNames()
    found = [name] if name in names else [each for each in names if each.lower() == name.lower()]
    if len(found) != 1:
        near = difflib.get_close_matches(name, names, 1, 0.6)
        hint = f"Did you mean '{near[0]}'?" if near else f"Its columns are {', '.join(names)}."
        raise InvalidOptionError(f"'{option}' names '{name}', which is no column of the table. {hint}")
    return columns[found[0]]
