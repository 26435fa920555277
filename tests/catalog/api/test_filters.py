"""Filters of the Python API, as the conditions of a scan."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_pravega.catalog.api.filters import find_columns, read_conditions
from pyspark_pravega.errors import InvalidOptionError

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("yes", pa.bool_()), ("no", pa.bool_())])


@pytest.mark.parametrize(("parts", "pushed"), [(3, 3), (10, 10), (60, 0)])
def test_a_filter_that_is_nested_deeply_is_left_to_pyarrow(parts: int, pushed: int) -> None:
    """Its translation would take two to the power of the nesting in memory."""
    condition = pc.field("a") > 0
    for number in range(1, parts):
        condition = condition & (pc.field("a") != number)
    assert len(read_conditions(condition, COLUMNS)) == pushed
    assert find_columns(condition, COLUMNS, COLUMNS.names) == ["a"]


def test_decimals_are_compared_with_decimals() -> None:
    columns = pa.schema([("_offset", pa.int64()), ("credit", pa.decimal128(10, 2))])
    with pytest.raises(InvalidOptionError, match=r"does not fit the columns credit: .*21\. .* such as Decimal\('0'\)$"):
        find_columns(pc.field("credit") < 0, columns, ["credit"])
    assert find_columns(pc.field("credit") < Decimal("0"), columns, ["credit"]) == ["credit"]


def test_parts_that_are_columns() -> None:
    conditions = read_conditions(pc.field("yes") & pc.field("no"), COLUMNS)
    assert [condition.columns for condition in conditions] == [["yes"], ["no"]]
    assert len(read_conditions((pc.field("a") > 1) & pc.field("yes"), COLUMNS)) == 2
