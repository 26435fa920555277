"""Conditions on the routing key that all events have: segments that cannot have such a key are left out, no others."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.scan.conditions import Condition, Sieve, Term, can_evaluate
from pyspark_pravega.datasource.scan.keyed_segments import find_possible_keys
from pyspark_pravega.datasource.tables.stored_properties import make_tags
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from tests.catalog.streaming.changes_streams import scale
from tests.datasource.scan.test_places import column, compare, text
from tests.datasource.scans import KEYED, begin_numbers, insert_numbers, keyed_table, rows, scan

Terms = tuple[Term, ...]
KEYS = 60


def promise(pravega: Pravega, stream: Stream, key: str | None) -> None:
    """Have the stream's table promise that all events have the routing key `key`, or nothing."""
    stored = {} if key is None else {"routing-key": key, "routing-key.of-all-events": "true"}
    configuration = pravega.controller.stream_configuration(stream)
    pravega.controller.update_stream(stream, replace(configuration, tags=make_tags(stored)))


@pytest.fixture(scope="module")
def table(pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> StreamTable:
    """A table of several epochs, with transactions that are committed in a later one than they were begun in."""
    table = replace(keyed_table(new_read_stream(3, "keyed")), promised_key="k")
    promise(pravega, table.stream, "k")
    for number in range(4):
        first = 2 * KEYS * number
        commit = begin_numbers(pravega, table, first, first + KEYS, KEYS)
        scale(pravega, table.stream, number)
        commit()
        insert_numbers(pravega, table, first + KEYS, first + 2 * KEYS, KEYS)
    return table


def literal(type: str, value: int) -> Terms:
    return (Term("LITERAL", 0, type, str(value)),)


def one_of(*values: int) -> Terms:
    some = [term for value in values for term in literal("int", value)]
    return (*column("k"), *some, Term("IN", len(values) + 1, None, None))


def written(chance: random.Random, depth: int = 2) -> Terms:
    """A condition on the key, or on the other column."""
    if depth and chance.random() < 0.5:
        left, right = (written(chance, depth - 1) for _ in range(2))
        if chance.random() < 0.2:
            return (*left, Term("NOT", 1, None, None))
        return compare(chance.choice(["AND", "OR"]), left, right)
    key = chance.choice([chance.randrange(KEYS), chance.randrange(KEYS), -1, 2**31 - 1])
    sides = chance.sample([column("k"), literal("int", key)], 2)
    match chance.randrange(8):
        case 0 | 1 | 2:
            return compare(chance.choice(["=", "=", "<=>"]), *sides)
        case 3 | 4:
            return one_of(key, *(chance.randrange(KEYS) for _ in range(chance.randrange(3))))
        case 5:
            return compare(chance.choice(["<", "<>"]), *sides)
        case 6:
            return compare("=", column("k"), column("k"))
    return compare("<", column("v"), literal("bigint", chance.randrange(8 * KEYS)))


def find_fulfilling(found: list[dict[str, Any]], conditions: list[Condition]) -> list[tuple[str, int]]:
    """Where those of the rows lie that fulfil all conditions."""
    columns = {"k": pa.array([row["k"] for row in found], pa.int32())}
    columns["v"] = pa.array([row["v"] for row in found], pa.int64())
    kept = Sieve(conditions, KEYED).mask(columns).to_pylist()
    return sorted((row["_segment"], row["_offset"]) for row, keep in zip(found, kept, strict=True) if keep)


@pytest.mark.parametrize(("cases", "keys"), [(25, 6), pytest.param(200, KEYS, marks=pytest.mark.long)])
def test_exactly_the_rows_of_a_scan_of_all_segments(
    pravega: Pravega, table: StreamTable, cases: int, keys: int
) -> None:
    every = scan(pravega, table)
    whole, segments = rows(every), every.segments
    assert len(whole) == 8 * KEYS and segments > 10
    chance, fewer = random.Random(3), 0
    for _ in range(cases):
        conditions = [Condition(written(chance)) for _ in range(chance.choice([1, 1, 2]))]
        assert all(can_evaluate(conditions, KEYED))
        planned = scan(pravega, table, hints=conditions)
        assert find_fulfilling(rows(planned), conditions) == find_fulfilling(whole, conditions), conditions
        assert planned.tail == every.tail
        assert planned.keyed in (None, (planned.segments, segments))
        fewer += planned.segments < segments
    assert fewer > cases / 2
    for key in range(keys):  # one segment of each epoch, most of which are of several
        planned = scan(pravega, table, hints=[Condition(compare("=", column("k"), literal("int", key)))])
        held = {row["_segment"] for row in whole if row["k"] == key}
        assert len(held) <= planned.segments < segments * 2 / 3


def test_a_promise_that_was_taken_back_meanwhile(pravega: Pravega, table: StreamTable) -> None:
    """A table may be loaded before, and the scan planned after what was written with another key."""
    conditions = [Condition(compare("=", column("k"), literal("int", 7)))]
    keyed = scan(pravega, table, hints=conditions)
    promise(pravega, table.stream, None)
    by_value = replace(table, routing_key="v", promised_key=None)
    insert_numbers(pravega, by_value, 0, 8 * KEYS, 8)
    planned = scan(pravega, table, hints=conditions)
    assert keyed.keyed is not None and planned.keyed is None
    assert len(find_fulfilling(rows(planned), conditions)) == len(find_fulfilling(rows(keyed), conditions)) + KEYS
    promise(pravega, table.stream, "v")  # of another column
    assert scan(pravega, table, hints=conditions).keyed is None


def test_which_keys_conditions_leave() -> None:
    key, other = column("k"), compare("<", column("v"), literal("bigint", 3))
    one, two = (compare("=", key, literal("int", number)) for number in (1, 2))
    for expected, *terms in (
        ({1}, one),
        ({1}, compare("=", literal("int", 1), key)),
        ({1}, compare("<=>", key, literal("int", 1))),
        ({1, 2}, one_of(1, 2, 1)),
        ({1, 2}, compare("OR", one, two)),
        (set(), one, two),
        (set(), compare("AND", one, two)),
        ({2}, one_of(1, 2), one_of(2, 3), other),
        ({1}, compare("AND", other, one)),
        ({1, 2}, compare("AND", compare("OR", one, two), other)),
        (None, compare("OR", one, other)),
        (None, (*one, Term("NOT", 1, None, None))),
        (None, compare("<>", key, literal("int", 1))),
        (None, compare("<=", key, literal("int", 1))),
        (None, compare(">=", key, literal("int", 1))),
        (None, compare("=", column("v"), literal("int", 1))),
        (None, compare("=", key, key)),
        (None, (*key, Term("IS_NULL", 1, None, None))),
        (None, compare("<=>", key, (Term("LITERAL", 0, "int", None),))),
        (None, compare("=", key, text("1"))),
        (None, other),
        (None,),
    ):
        assert find_possible_keys([Condition(term) for term in terms], "k", "int") == expected, terms
    assert find_possible_keys([Condition(compare("=", key, literal("bigint", 1)))], "k", "tinyint") == {1}
    assert find_possible_keys([Condition(compare("=", key, text("ż")))], "k", "string") == {"ż"}
    for type, shown, value in (
        ("decimal(3,1)", "1.5", Decimal("1.5")),
        ("timestamp", "-7", -7),
        ("binary", "/w==", b"\xff"),
    ):
        equal = [Condition(compare("=", key, (Term("LITERAL", 0, type, shown),)))]
        assert find_possible_keys(equal, "k", type) == {value}
        assert all(find_possible_keys(equal, "k", one) is None for one in ("decimal(4,1)", "timestamp_ntz", "bigint"))
    for type in ("string collate UTF8_LCASE", "varchar(3)", "char(3)", "double", "boolean"):
        assert find_possible_keys([Condition(compare("=", key, (Term("LITERAL", 0, type, "1"),)))], "k", type) is None
