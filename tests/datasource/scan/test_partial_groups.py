"""What tasks begin of aggregates leads Spark, which goes over it in order, to what the rows themselves do: in bits."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.datasource.scan.aggregates import aggregating_reader
from pyspark_pravega.datasource.scan.aggregates.aggregating_reader import PartialGroups
from pyspark_pravega.datasource.scan.aggregates.aggregation import AggregateFunction, Aggregation, can_begin

TYPES = {"k": "string", "n": "integer", "l": "long", "d": "double", "f": "float", "b": "boolean", "s": "string"}
COLUMNS = StructType.fromJson(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": type, "nullable": True, "metadata": {}}
            for name, type in {**TYPES, "x": "binary", "at": "timestamp"}.items()
        ],
    }
)
ALL = (
    *(("Sum", name) for name in "nldf"),
    *((name, column) for name in ("Min", "Max") for column in ("n", "l", "d", "f", "b", "s", "at")),
    *(("Count", name) for name in ("k", "l", "x")),
)
FUNCTIONS = [AggregateFunction("CountStar", ()), *(AggregateFunction(name, (column,)) for name, column in ALL)]

few = st.sampled_from
small = st.integers(-3, 3)
ROW = st.tuples(
    few([None, "", "ż", "a", "\U0001f600", "\uffff"]),
    st.none() | small | few([-(2**31), 2**31 - 1]),
    st.none() | small | few([2**62, 2**63 - 1, -(2**63), 2**61]),
    st.none() | few([0.1, 0.2, 1e16, -1e16, 0.0, 3.7]) | few([0.1, -0.0, float("nan"), float("inf"), float("-inf")]),
    st.none() | few([0.5, 0.0, -1.25]) | few([-0.0, float("nan")]),
    st.none() | st.booleans(),
    st.none() | st.text(max_size=3),
    st.none() | st.binary(max_size=2),
    st.none() | st.integers(-(2**55), 2**55),
)
BATCHES = st.lists(st.lists(ROW, max_size=9), max_size=7)
ASKED = st.builds(
    lambda functions, groups: Aggregation(tuple(functions), tuple((name,) for name in groups)),
    st.lists(few(FUNCTIONS), max_size=6, unique=True),
    st.lists(few(["k", "n", "b", "s", "at", "x"]), max_size=2, unique=True),
).filter(lambda asked: can_begin(asked, asked, COLUMNS))


class Folded:
    """A group as Spark's aggregates go over values, of which those that are null say nothing."""

    def __init__(self, function: AggregateFunction) -> None:
        self.function = function.name
        self.value: Any = 0 if "Count" in function.name else None
        self.overflowed = False

    def add(self, value: Any) -> None:
        """Go on with one value; of counts with a number."""
        if value is None:
            return
        if self.function in ("Min", "Max"):
            if self.value is None or self._is_beyond(value):
                self.value = value
            return
        self.value = (0.0 if isinstance(value, float) else 0) + (self.value or 0) + value
        if isinstance(value, int) and not -(2**63) <= self.value < 2**63:
            self.overflowed = True  # where the sum wraps, or is an error
            self.value = (self.value + 2**63) % 2**64 - 2**63

    def _is_beyond(self, value: Any) -> bool:
        def order(each: Any) -> Any:
            if isinstance(each, float):
                return (each != each, 0.0 if each != each else each)
            return each.encode() if isinstance(each, str) else each

        first, second = order(self.value), order(value)
        return bool(second < first if self.function == "Min" else second > first)

    def result(self) -> tuple[Any, bool]:
        """The value, of floating-point numbers its bits, and whether a sum was too large on the way."""
        bits = struct.pack(">d", self.value) if isinstance(self.value, float) else self.value
        return ("nan" if self.value != self.value else bits), self.overflowed


def fold_rows(aggregation: Aggregation, rows: Iterable[tuple[tuple[Any, ...], list[Any]]]) -> dict[Any, Any]:
    """The results by group, of rows with their groups and with a value for each function."""
    groups: dict[tuple[Any, ...], list[Folded]] = {}
    for key, values in rows:
        group = groups.setdefault(key, [Folded(function) for function in aggregation.functions])
        for aggregate, value in zip(group, values, strict=True):
            aggregate.add(value)
    return {key: [aggregate.result() for aggregate in group] for key, group in groups.items()}


def of_events(aggregation: Aggregation, batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Rows of the table as `fold_rows` takes them."""
    for row in batch.to_pylist():
        values: list[Any] = []
        for function in aggregation.functions:
            value = row[function.column[0]] if function.column else None
            if "Count" in function.name:
                value = int(function.name == "CountStar" or value is not None)
            values.append(value)
        yield tuple(row[name] for (name,) in aggregation.groups), values


CASES = (ASKED, BATCHES, few([1, 4, 20]), few([1, 3, 100]))


@settings(max_examples=100, deadline=None)
@given(*CASES)
def test_what_is_begun_leads_to_the_same(
    aggregation: Aggregation, batches: list[list[tuple[Any, ...]]], pending: int, most: int
) -> None:
    check_begun(aggregation, batches, pending, most)


@pytest.mark.long
@settings(max_examples=1000, deadline=None)
@given(*CASES)
def test_more_of_what_is_begun_leads_to_the_same(
    aggregation: Aggregation, batches: list[list[tuple[Any, ...]]], pending: int, most: int
) -> None:
    check_begun(aggregation, batches, pending, most)


def check_begun(aggregation: Aggregation, batches: list[list[tuple[Any, ...]]], pending: int, most: int) -> None:
    """Compare what Spark makes of begun groups with what it makes of the rows."""
    schema = to_arrow_schema(COLUMNS, timezone="UTC")
    types = dict(zip(schema.names, schema.types, strict=True))
    operands = aggregation.operands(COLUMNS)
    wanted, begun = [], []
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(aggregating_reader, "PENDING_ROWS", pending)
        limits.setattr(aggregating_reader, "MOST_GROUPS", most)
        groups = PartialGroups(aggregation, COLUMNS, operands)
        for rows in batches:
            columns = [pa.array([row[place] for row in rows], types[name]) for place, name in enumerate(COLUMNS.names)]
            whole = pa.RecordBatch.from_arrays(columns, schema=schema)
            wanted += list(of_events(aggregation, whole))
            # Without operands a batch still has a column, for the number of rows.
            begun += list(groups.feed(whole.select(operands.names or ["k"])))
        begun += list(groups.finish())
    rows_begun = []
    for batch in begun:
        assert batch.schema.equals(to_arrow_schema(aggregation.begin_rows(COLUMNS), timezone="UTC"))
        for row in batch.to_pylist():
            values = list(row.values())
            rows_begun.append((tuple(values[: len(aggregation.groups)]), values[len(aggregation.groups) :]))
    expected = fold_rows(aggregation, wanted)
    if not aggregation.groups and not expected:
        expected = {(): [Folded(function).result() for function in aggregation.functions]}
    assert fold_rows(aggregation, rows_begun) == expected


@pytest.mark.parametrize("groups", [(), (("k",),)])
def test_sums_of_what_was_returned_count_for_those_that_follow(
    groups: tuple[tuple[str, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that lead over the limit and back again are not put together to nothing."""
    monkeypatch.setattr(aggregating_reader, "PENDING_ROWS", 2)
    aggregation = Aggregation((AggregateFunction("Sum", ("l",)),), groups)
    begun = PartialGroups(aggregation, COLUMNS, StructType([COLUMNS["k"], COLUMNS["l"]]))
    numbers = [2**63 - 6, 0, 10, -10]
    batches = [pa.record_batch([pa.array(["a"] * 2), pa.array(numbers[at : at + 2])], ["k", "l"]) for at in (0, 2)]
    returned = [row for batch in batches for row in begun.feed(batch)] + list(begun.finish())
    rows = [tuple(row.values()) for batch in returned for row in batch.to_pylist()]
    found = fold_rows(aggregation, ((row[:-1], [row[-1]]) for row in rows))
    assert found == {("a",) * len(groups): [(2**63 - 6, True)]}


@pytest.mark.parametrize("size", [180_000, pytest.param(300_000, marks=pytest.mark.long)])
def test_a_group_is_one_row_and_groups_have_bounds(size: int) -> None:
    aggregation = Aggregation((AggregateFunction("CountStar", ()), AggregateFunction("Sum", ("n",))), (("k",),))
    numbers = pa.array(range(size), pa.int32())

    def rows(keys: pa.Array, functions: tuple[AggregateFunction, ...] = aggregation.functions) -> list[int]:
        groups = PartialGroups(Aggregation(functions, (("k",),)), COLUMNS, aggregation.operands(COLUMNS))
        table = pa.Table.from_arrays([keys, numbers], names=["k", "n"])
        return [len(out) for batch in table.to_batches(16_384) for out in groups.feed(batch)] + list(
            map(len, groups.finish())
        )

    assert rows(pa.array([str(number % 5) for number in range(size)])) == [5]
    # Where hardly any two rows have one group, they go on one by one; else new groups are begun.
    unique = rows(pa.array([str(number) for number in range(size)]))
    assert sum(unique) == size and set(unique[4:-1]) == {16_384}
    thrice = rows(pa.array([str(number // 3) for number in range(size)]))
    assert sum(thrice) <= size // 3 + 10
    long = rows(pa.array([str(number // 2) * 200 for number in range(size)]))
    assert len(long) > 1 and max(long) < 65_536


@pytest.mark.parametrize(
    ("function", "column"),
    [("Sum", "b"), ("Sum", "s"), ("Min", "x"), ("Max", "missing"), ("Avg", "d"), ("Count", "missing")],
)
def test_what_is_not_begun(function: str, column: str) -> None:
    aggregation = Aggregation((AggregateFunction(function, (column,)),), ())
    assert not can_begin(aggregation, aggregation, COLUMNS)


def test_groups_averages_and_expressions_that_are_not_begun() -> None:
    count, total = AggregateFunction("Count", ("n",)), AggregateFunction("Sum", ("n",))

    def taken(*functions: AggregateFunction, groups: tuple[tuple[str, ...], ...] = (), average: str = "s") -> bool:
        written = Aggregation((AggregateFunction("Avg", (average,)),), groups)
        return can_begin(Aggregation(functions, groups), written, COLUMNS)

    assert not can_begin(Aggregation((), ()), Aggregation((), ()), COLUMNS)
    assert taken(count, total) and not taken(count, total, average="n")
    doubles = AggregateFunction("Sum", ("d",)), AggregateFunction("Count", ("d",))
    assert taken(*doubles, average="d")
    # Spark sorts by the group to find the greatest text, by a single number in any order of the others.
    greatest = AggregateFunction("Max", ("s",))
    for groups, begun in (((), True), ((("k",),), True), ((("n",),), False), ((("n",), ("k",)), True)):
        assert taken(doubles[0], greatest, groups=groups, average="d") == begun
        assert taken(total, greatest, groups=groups, average="d")
    for group in ("d", "f", "missing"):
        assert not taken(count, groups=((group,),))
    assert taken(count, groups=(("_segment",), ("k",)))
    for column in ((), ("n", "m")):
        assert not taken(AggregateFunction("Sum", column)) and not taken(count, groups=(column,))
