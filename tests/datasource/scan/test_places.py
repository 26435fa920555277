"""Conditions on the places of events: exactly those events, and no more of the segments than they need."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.borders import start_later
from pyspark_pravega.datasource.scan.conditions import Condition, Term
from pyspark_pravega.datasource.scan.event_planning import measure_scan
from pyspark_pravega.datasource.scan.places import Places, Span, is_about_places
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.sql.options import resolve
from tests.datasource.scan.test_scan import insert_raw
from tests.datasource.scans import KEYED, insert_numbers, keyed_table, rows, scan

Row = dict[str, Any]
Written = tuple[tuple[Term, ...], Callable[[Row], bool]]
"""A condition, and what it says of a row."""
EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]


def column(name: str) -> tuple[Term, ...]:
    return (Term("COLUMN", 0, None, name),)


def number(value: int) -> tuple[Term, ...]:
    return (Term("LITERAL", 0, "bigint", str(value)),)


def text(value: str) -> tuple[Term, ...]:
    return (Term("LITERAL", 0, "string", base64.b64encode(value.encode()).decode()),)


def compare(name: str, left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    return (*left, *right, Term(name, 2, None, None))


ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<=>": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def written(chance: random.Random, given: list[Row], depth: int = 2) -> Written:
    """Make a condition about some of these rows, or about places where there are none."""
    if depth and chance.random() < 0.6:
        (left, says), (right, also_says) = (written(chance, given, depth - 1) for _ in range(2))
        match chance.randrange(3):
            case 0:
                return compare("AND", left, right), lambda row: says(row) and also_says(row)
            case 1:
                return compare("OR", left, right), lambda row: says(row) or also_says(row)
        return (*left, Term("NOT", 1, None, None)), lambda row: not says(row)
    some = chance.choice(given)
    offset = chance.choice([some["_offset"], some["_offset"] + chance.choice([-1, 1, 7]), *EXTREMES])
    order = chance.choice(list(ORDERS))
    match chance.randrange(6):
        case 0 | 1:
            return compare(order, column("_offset"), number(offset)), lambda row: ORDERS[order](row["_offset"], offset)
        case 2:
            return compare(order, number(offset), column("_offset")), lambda row: ORDERS[order](offset, row["_offset"])
        case 3:
            segment = chance.choice([some["_segment"], "s/t/0.#epoch.0"])
            return (
                compare(order, column("_segment"), text(segment)),
                lambda row: ORDERS[order](row["_segment"].encode(), segment.encode()),
            )
        case 4:
            pointer = chance.choice(
                [some["_event_pointer"], some["_event_pointer"] + "0", some["_segment"] + ":x-9", ""]
            )
            order = chance.choice(["=", "<>", "<"])
            return (
                compare(order, column("_event_pointer"), text(pointer)),
                lambda row: ORDERS[order](row["_event_pointer"].encode(), pointer.encode()),
            )
    several = [chance.choice(given)["_event_pointer"] for _ in range(3)]
    terms = (
        *column("_event_pointer"),
        *(term for pointer in several for term in text(pointer)),
        Term("IN", 4, None, None),
    )
    return terms, lambda row: row["_event_pointer"] in several


def of(planned_rows: list[Row]) -> list[tuple[str, int]]:
    return sorted((row["_segment"], row["_offset"]) for row in planned_rows)


@pytest.mark.parametrize("cases", [40, pytest.param(150, marks=pytest.mark.long)])
def test_exactly_the_events_that_are_wanted(pravega: Pravega, new_stream: Callable[..., Stream], cases: int) -> None:
    """Of a stream of several epochs, one of them truncated inside of a segment."""
    table = keyed_table(new_stream(2))
    insert_numbers(pravega, table, 0, 200)
    before: list[Row] = rows(scan(pravega, table))
    pravega.controller.scale_stream(table.stream, [0, 1], [(0.0, 0.3), (0.3, 0.5), (0.5, 1.0)])
    insert_numbers(pravega, table, 200, 500)
    middle = {row["_segment"].rpartition("/")[2][0]: row["_offset"] for row in before if row["v"] in range(40, 60)}
    pravega.controller.truncate_stream(StreamCut(table.stream, {int(one): offset for one, offset in middle.items()}))
    given: list[Row] = rows(scan(pravega, table))
    assert 400 < len(given) < 500 and len({row["_segment"] for row in given}) == 5
    chance = random.Random(7)
    tails = scan(pravega, table).tail
    for _ in range(cases):
        conditions = [written(chance, given) for _ in range(chance.choice([1, 1, 2, 3]))]
        planned = scan(pravega, table, hints=[Condition(terms) for terms, _ in conditions])
        wanted = [row for row in given if all(says(row) for _, says in conditions)]
        assert of(rows(planned)) == of(wanted)
        assert planned.tail == tails
        if not any("_event_pointer" in Condition(terms).columns for terms, _ in conditions):
            assert {row["_segment"] for row in wanted} <= {f"{table.stream}/{name}" for name in names(planned)}


def names(planned: Any) -> list[str]:
    found = []
    for partition in planned.reader.planned:
        for one in getattr(partition, "slices", (partition,)):
            found.append(f"{one.piece.segment_id & 0xFFFFFFFF}.#epoch.{one.piece.segment_id >> 32}")
    return found


def test_reading_begins_at_the_end_of_a_version(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Which is a border between events, in segments of all epochs."""
    table = keyed_table(new_stream(2))
    log = CommitLog(pravega, table.stream)
    for first in range(0, 160, 20):
        insert_numbers(pravega, table, first, first + 20)
        if first == 60:
            pravega.controller.scale_stream(table.stream, [1], [(0.5, 0.8), (0.8, 1.0)])
    given: list[Row] = rows(scan(pravega, table))
    ends = {segment: {0} for segment in (row["_segment"] for row in given)}
    for version in log.versions():
        for segment, offset in version.cut.positions.items():
            ends[make_segment_name(table.stream, segment)].add(offset)
    slices = measure_scan(OpenTable(pravega, table, resolve(env={})), None).slices
    saved = 0
    for row in given[::4]:
        name, offset = row["_segment"], row["_offset"] + random.Random(row["_offset"]).choice([-1, 0, 1])
        wanted = [(piece, Span(offset, piece.end - 1, True)) for piece in slices]
        wanted = [(piece, span) for piece, span in wanted if make_segment_name(table.stream, piece.segment_id) == name]
        [(found, span)] = start_later(log, wanted, worth=1)
        assert (found.end, span) == (wanted[0][0].end, wanted[0][1])
        assert found.start == max(end for end in ends[name] if end <= max(offset, 0))
        saved += found.start
        assert start_later(log, wanted) == wanted  # too little to be worth it
    assert saved


def test_spans() -> None:
    """Between which offsets events may lie, and whether all there are wanted."""
    piece = SegmentSlice(0, 100, 200)
    offset, segment, pointer = column("_offset"), column("_segment"), column("_event_pointer")
    for expected, *terms in (
        (Span(100, 199, True), compare(">=", offset, number(-5))),
        (Span(151, 199, True), compare(">", offset, number(150))),
        (Span(100, 149, True), compare("<", offset, number(150))),
        (Span(120, 150, True), compare(">=", offset, number(120)), compare("<=", offset, number(150))),
        (None, compare(">", offset, number(150)), compare("<", offset, number(150))),
        (None, compare(">=", offset, number(200))),
        (None, compare("<", offset, number(-(2**63)))),
        (Span(100, 199, False), compare("<>", offset, number(150))),
        (Span(199, 199, True), compare("=", offset, number(199))),
        (Span(100, 199, True), compare("=", segment, text("s/t/0.#epoch.0"))),
        (None, compare("=", segment, text("s/t/0.#epoch.1"))),
        (Span(130, 130, False), compare("=", pointer, text("s/t/0.#epoch.0:130-9"))),
        (None, compare("=", pointer, text("s/t/0.#epoch.1:130-9"))),
        (None, compare("=", pointer, text("s/t/0.#epoch.0:99-9"))),
        (Span(100, 199, False), compare("<", pointer, text("s/t/0.#epoch.0:130-9"))),
        (Span(100, 110, False), compare("<", pointer, text("x")), compare("<=", offset, number(110))),
    ):
        assert Places([Condition(term) for term in terms]).span("s/t/0.#epoch.0", piece) == expected, terms


def test_what_is_about_places() -> None:
    about = Condition(compare("=", column("_offset"), number(1)))
    assert is_about_places(about, KEYED)
    assert not is_about_places(about, StructType([*KEYED, StructField("_offset", LongType())]))
    assert not is_about_places(Condition(compare("AND", about.terms, compare("=", column("v"), number(1)))), KEYED)


@pytest.mark.parametrize("mode", ["failfast", "permissive", "dropmalformed"])
def test_bad_events_elsewhere_are_not_met(pravega: Pravega, new_stream: Callable[..., Stream], mode: str) -> None:
    table = keyed_table(new_stream(1))
    insert_raw(pravega, table.stream, [b"?", b'{"k":1,"v":1}', b"?", b'{"k":2,"v":2}'])
    whole: list[Row] = rows(scan(pravega, table, ["v", "_offset"], mode="permissive"))
    places = [row["_offset"] for row in whole]

    def found(*terms: tuple[Term, ...]) -> list[Row]:
        return rows(scan(pravega, table, ["v"], hints=[Condition(term) for term in terms], mode=mode))

    good = (*column("_offset"), *number(places[1]), *number(places[3]), Term("IN", 3, None, None))
    assert [row["v"] for row in found(good)] == [1, 2]
    last = compare(">", column("_offset"), number(places[2]))
    assert [row["v"] for row in found(last)] == [2]
    if mode == "failfast":
        with pytest.raises(MalformedEventError, match=f"offset {places[2]} "):
            found(compare(">", column("_offset"), number(places[1])))
