"""Ranges of keys hold every key that fulfils the conditions, and as few others as they can."""

from __future__ import annotations

import base64
import operator
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pyspark_pravega.datasource.key_value.keys import decode_keys, encode_keys
from pyspark_pravega.datasource.key_value.ranges import choose_fewest_requests, find_key_ranges
from pyspark_pravega.datasource.scan.conditions import COLUMN, LITERAL, Condition, Term
from pyspark_pravega.datasource.tables.stream_table import KeyColumn, KeyColumns
from pyspark_pravega.errors import InvalidRowError, MalformedEventError

COLUMNS = KeyColumns(
    (KeyColumn("country", "string", 3), KeyColumn("id", "smallint", 2)), (KeyColumn("data", "binary", 2),)
)
COUNTRIES = ["", "d", "de", "deu", "é", "fr", "fra"]
IDS = [-32768, -300, -1, 0, 1, 255, 256, 32767]
DATA = [b"\0\0", b"\0\1", b"ab", b"\xff\xff"]
ROWS = [(country, id, data) for country in COUNTRIES for id in IDS for data in DATA]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "STARTS_WITH": lambda left, right: left.startswith(right),
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def batch() -> pa.RecordBatch:
    country, id, data = zip(*ROWS, strict=True)
    return pa.RecordBatch.from_pydict(
        {"country": pa.array(country), "id": pa.array(id, pa.int16()), "data": pa.array(data, pa.binary())}
    )


def bytes_of(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def literal(type: str, value: Any) -> Term:
    return Term(LITERAL, 0, type, str(value) if type == "smallint" else base64.b64encode(bytes_of(value)).decode())


Asked = tuple[tuple[Term, ...], Callable[[tuple[Any, ...]], bool]]


def comparison(random: random.Random) -> Asked:
    place = random.randrange(3)
    column, values = COLUMNS.all[place], ([*COUNTRIES, "longer"], IDS, [*DATA, b"a", b"abc"])[place]
    name = random.choice([*COMPARED, "IN", "UNKNOWN"])
    named = Term(COLUMN, 0, None, column.name)
    if name == "IN":
        wanted = random.sample(values, random.randint(1, 3))
        terms = (named, *(literal(column.type, value) for value in wanted), Term("IN", len(wanted) + 1, None, None))
        return terms, lambda row: row[place] in wanted
    value = random.choice(values)
    if name == "UNKNOWN" or (name == "STARTS_WITH" and place == 1):
        terms = (named, literal(column.type, value), Term("UNKNOWN", 2, None, None))
        return terms, lambda row: len(str(row)) % 2 == 0
    if name in TURNED and random.random() < 0.3:
        terms = (literal(column.type, value), named, Term(TURNED[name], 2, None, None))
    else:
        terms = (named, literal(column.type, value), Term(name, 2, None, None))
    return terms, lambda row: COMPARED[name](bytes_of(row[place]), bytes_of(value))


def make_condition(random: random.Random, depth: int) -> Asked:
    kind = random.choice(["AND", "OR", "NOT", ""]) if depth else ""
    if not kind:
        return comparison(random)
    terms, holds = make_condition(random, depth - 1)
    if kind == "NOT":
        return (*terms, Term("NOT", 1, None, None)), lambda row: not holds(row)
    others, other = make_condition(random, depth - 1)
    joined = (*terms, *others, Term(kind, 2, None, None))
    return joined, lambda row: (holds(row) and other(row)) if kind == "AND" else (holds(row) or other(row))


def test_every_key_that_is_wanted_is_in_a_range() -> None:
    keys = [int.from_bytes(key, "big") for key in encode_keys(COLUMNS, batch())]
    narrowed = 0
    for seed in range(3000):
        source = random.Random(seed)
        conditions = [make_condition(source, source.randint(0, 2)) for _ in range(source.randint(1, 3))]
        ranges = find_key_ranges(COLUMNS, [Condition(terms) for terms, _ in conditions])
        narrowed += ranges is not None
        if ranges is None:
            continue
        assert all(first <= last for first, last in ranges) and list(ranges) == sorted(ranges)
        for key, row in zip(keys, ROWS, strict=True):
            if all(holds(row) for _, holds in conditions):
                assert any(first <= key <= last for first, last in ranges), (seed, row)
    assert narrowed > 1000


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([("country", "=", "de"), ("id", "=", 1), ("data", "=", b"ab")], [("64650000016162",) * 2]),
        ([("country", "=", "de"), ("id", "=", -1)], [("646500ffff0000", "646500ffffffff")]),
        (
            [("country", "=", "de"), ("id", ">=", -1)],
            [("64650000000000", "6465007fffffff"), ("646500ffff0000", "646500ffffffff")],
        ),
        ([("country", "STARTS_WITH", "d")], [("64000000000000", "64ffffffffffff")]),
        ([("country", "=", "longer")], []),
        ([("country", "=", "de"), ("data", "=", b"ab")], [("64650000000000", "646500ffffffff")]),
    ],
)
def test_ranges_are_narrow(terms: list[tuple[str, str, Any]], expected: list[tuple[str, str]]) -> None:
    types = {column.name: column.type for column in COLUMNS.all}
    conditions = [
        Condition((Term(COLUMN, 0, None, column), literal(types[column], value), Term(name, 2, None, None)))
        for column, name, value in terms
    ]
    ranges = find_key_ranges(COLUMNS, conditions)
    assert [(first.to_bytes(7, "big").hex(), last.to_bytes(7, "big").hex()) for first, last in ranges] == expected


def test_keys_come_back_as_columns() -> None:
    found = decode_keys(COLUMNS, encode_keys(COLUMNS, batch()), ["country", "id", "data"])
    assert pa.RecordBatch.from_pydict(found).equals(batch())
    times = KeyColumns((KeyColumn("day", "date", 4), KeyColumn("at", "timestamp", 8), KeyColumn("n", "bigint", 8)))
    rows = pa.RecordBatch.from_pydict(
        {
            "day": pa.array([-1, 20454], pa.int32()).view(pa.date32()),
            "at": pa.array([-5, 7], pa.timestamp("us", "UTC")),
            "n": pa.array([-(2**63), 2**63 - 1]),
        }
    )
    keys = encode_keys(times, rows)
    assert keys[0].hex() == "ffffffff" + "fffffffffffffffb" + "8000000000000000"
    assert pa.RecordBatch.from_pydict(decode_keys(times, keys, times.names)).equals(rows)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("country", "long", "4 bytes"),
        ("country", None, "NULL"),
        ("country", "a\0", "U+0000"),
        ("data", b"a", "exactly 2"),
    ],
)
def test_what_no_key_can_have(column: str, value: object, words: str) -> None:
    row: dict[str, Any] = {"country": "de", "id": 1, "data": b"ab", column: value}
    arrays = [pa.array([row["country"]], pa.string()), pa.array([row["id"]], pa.int16())]
    arrays.append(pa.array([row["data"]], pa.binary()))
    with pytest.raises(InvalidRowError, match=column) as raised:
        encode_keys(COLUMNS, pa.RecordBatch.from_arrays(arrays, names=["country", "id", "data"]))
    assert words in str(raised.value)


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(MalformedEventError, match="country.*ff"):
        decode_keys(COLUMNS, [b"\xff\0\0\0\0\0\0"], ["country"])


def test_many_keys_are_read_as_one_range_where_that_is_less() -> None:
    points = [bytes([number]) for number in range(40)]
    ranges = [(b"\x80", b"\x90"), (b"\xa0", b"\xb0")]
    assert choose_fewest_requests(points, ranges, 5) == (tuple(points), tuple(ranges))
    assert choose_fewest_requests(points, ranges, 4) == ((), ((b"\0", b"\xb0"),))
    assert choose_fewest_requests(points[:15], [], 1) == (tuple(points[:15]), ())
