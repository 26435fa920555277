"""Aggregates that tasks may begin, and those that would change Spark's result."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from pyspark_pravega.datasource.scan.aggregates.aggregation import AggregateFunction, Aggregation, can_begin

COLUMNS = StructType().add("k", LongType()).add("n", LongType()).add("x", DoubleType()).add("t", StringType())


def aggregate(*functions: tuple[str, str], by: tuple[str, ...] = ("k",)) -> Aggregation:
    """Functions of columns by groups."""
    return Aggregation(
        tuple(AggregateFunction(name, (column,)) for name, column in functions), tuple((name,) for name in by)
    )


def test_sums_of_floating_point_numbers_keep_the_order_of_the_rows() -> None:
    """Spark sorts the rows of a group to find a least text, and adds them in that order."""
    both = aggregate(("Sum", "x"), ("Min", "t"))
    assert not can_begin(both, both, COLUMNS)
    for other in (
        aggregate(("Sum", "x")),
        aggregate(("Sum", "n"), ("Min", "t")),
        aggregate(("Sum", "x"), ("Max", "n")),
        aggregate(("Sum", "x"), ("Max", "t"), by=("t",)),
        aggregate(("Sum", "x"), ("Max", "t"), by=("k", "n")),
    ):
        assert can_begin(other, other, COLUMNS), other


def test_averages_of_whole_numbers_are_left_to_spark() -> None:
    """It adds them as doubles, which differs from dividing their sum."""
    parts = {column: aggregate(("Sum", column), ("Count", column)) for column in ("n", "x")}
    assert not can_begin(parts["n"], aggregate(("Avg", "n")), COLUMNS)
    assert can_begin(parts["x"], aggregate(("Avg", "x")), COLUMNS)
    assert can_begin(parts["n"], parts["n"], COLUMNS)
