"""Maps that have a key twice, which Arrow allows and no format can keep."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from pyspark_pravega.catalog.api.arrow_rows import RowsOfTable, find_repeated_key
from pyspark_pravega.errors import InvalidRowError

MAP = pa.map_(pa.string(), pa.int64())
NESTED = pa.struct([("maps", pa.list_(pa.map_(pa.string(), MAP)))])


def test_the_row_and_the_key_are_told() -> None:
    table = StructType([StructField("m", MapType(StringType(), LongType()))])
    rows = RowsOfTable(pa.schema([("m", MAP)]), table)
    good = pa.record_batch({"m": pa.array([[("a", 1)], None, [("a", 2), ("b", 3)], []], MAP)})
    assert rows.conform(good).equals(good)
    bad = pa.record_batch({"m": pa.array([None, [("b", 1), ("a", 1), ("b", None)]], MAP)})
    with pytest.raises(InvalidRowError, match="Row 5 has the key 'b' twice in a map of column m, .* Keep one of them"):
        rows.conform(bad)


ENTRIES = st.none() | st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=4)
MAPS = st.none() | st.lists(st.tuples(st.sampled_from("xyz"), ENTRIES), max_size=3)
DEEP = st.none() | st.fixed_dictionaries({"maps": st.none() | st.lists(MAPS, max_size=3)})


def first_of(values: list[Any]) -> int | None:
    """The first row with a key twice, found value by value."""

    def twice(entries: list[tuple[str, Any]] | None) -> bool:
        keys = [key for key, _ in entries or ()]
        return len(set(keys)) < len(keys)

    for row, value in enumerate(values):
        maps = (value or {}).get("maps") or ()
        if any(twice(outer) or any(twice(inner) for _, inner in outer or ()) for outer in maps):
            return row
    return None


@given(st.lists(DEEP, max_size=6), st.integers(0, 3))
def test_however_deep(values: list[Any], skipped: int) -> None:
    array = pa.array(values, NESTED)[skipped:]
    found = find_repeated_key(array)
    assert (None if found is None else found[0]) == first_of(values[skipped:])
