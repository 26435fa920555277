"""Every semantic type of Kafka Connect and Debezium in every Spark type.

A column shows the oracle's value, or the event is bad with a reason that names both types.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import types as t

from pyspark_pravega.formats.changes.encodings.kafka_connect_schema import read_json
from pyspark_pravega.formats.changes.encodings.matrix import find_reading, find_target
from pyspark_pravega.formats.changes.encodings.semantic_types import choose_type
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.fuzzing import COUNT
from tests.interop.avro_of_connect import avro_events
from tests.interop.connect_values import ImpossibleError, same, shown
from tests.interop.kafka_connect import ConnectCase, DecimalFormat, KafkaConnect

GENERATED = max(COUNT // 50, 100)
SPARK_TYPES: list[t.DataType] = [
    t.BooleanType(),
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.FloatType(),
    t.DoubleType(),
    t.DecimalType(38, 10),
    t.DecimalType(5, 1),
    t.StringType(),
    t.BinaryType(),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
    t.TimeType(0),
    t.TimeType(3),
    t.TimeType(6),
    t.ArrayType(t.StringType()),
    t.ArrayType(t.LongType()),
    t.ArrayType(t.DateType()),
    t.ArrayType(t.TimeType(6)),
    t.MapType(t.StringType(), t.StringType()),
    t.MapType(t.LongType(), t.LongType()),
    t.MapType(t.StringType(), t.TimestampNTZType()),
    t.StructType([t.StructField("x", t.DoubleType()), t.StructField("f0", t.LongType())]),
    t.VariantType(),
]


def read(
    events: Sequence[bytes], ids: Sequence[int], data_type: t.DataType, format: str = "debezium-json", **settings: str
) -> tuple[dict[int, Any], dict[int, str]]:
    """What is read of some events by id, and why others are bad."""
    table = t.StructType([t.StructField("id", t.IntegerType()), t.StructField("v", data_type)])
    found = find_format(format)
    keys = {name.replace("__", ".").replace("_", "-"): text for name, text in settings.items()}
    decoder = found.decoder(Layout(changelog_schema(table), found.schema_text(Layout(table), "t", "s"), keys))
    batch, bad = decoder.decode_valid(EventBuffer.of(list(events)))
    rows = [row["after"] for row in batch.to_pylist()]
    return {row["id"]: row["v"] for row in rows}, {ids[each.index]: each.reason for each in bad}


def schema_of(case: ConnectCase) -> Any:
    """The schema of the column `v` in an event."""
    fields = json.loads(case.event)["schema"]["fields"]
    row = next(each for each in fields if each["field"] == "after")
    return next(each for each in row["fields"] if each["field"] == "v")


def check(
    cases: Sequence[ConnectCase], data_type: t.DataType, rows: dict[int, Any], bad: dict[int, str]
) -> tuple[int, list[str]]:
    """How many values were read, and what is wrong."""
    wrong = []
    for case in cases:
        node = schema_of(case)
        schema = read_json(node)
        assert schema is not None
        target = find_target(data_type)
        assert target is not None
        written = case.payload["after"]["v"]
        title = f"{case.name} ({case.presence}) {written!r:.60} as {data_type.simpleString()}"
        try:
            wanted = shown(case.meaning, data_type, node, written)
        except ImpossibleError:
            if case.id in rows:
                wrong.append(f"{title}: read as {rows[case.id]!r:.80}, and has no such value")
        else:
            if case.id in rows and not same(rows[case.id], wanted):
                wrong.append(f"{title}: read as {rows[case.id]!r:.80}, not {wanted!r:.120}")
            plain = target.name not in ("ARRAY", "MAP", "STRUCT", "BINARY", "TIMESTAMP")
            if case.id in bad and plain and find_reading(schema, target) is not None:
                wrong.append(f"{title}: refused, {bad[case.id]:.200}")
        if case.id in bad:
            reason, column = bad[case.id], data_type.simpleString().upper()
            name = case.semantic or case.kind
            nested = target.name in ("ARRAY", "MAP", "STRUCT") and find_reading(schema, target) is not None
            if not nested and not (name in reason and column[:90] in reason):
                wrong.append(f"{title}: the reason does not name both types: {reason:.300}")
    return len(rows), wrong


def some_of_each(cases: Sequence[ConnectCase]) -> list[ConnectCase]:
    """The first case of each kind of column and one more, which has another presence and value from kind to kind."""
    of_kind: dict[str, list[ConnectCase]] = {}
    for case in cases:
        of_kind.setdefault(case.name, []).append(case)
    chosen = [(kind, {0, number % len(kind)}) for number, kind in enumerate(of_kind.values())]
    return [kind[place] for kind, places in chosen for place in sorted(places)]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("format", "decimal"),
    # Avro has decimals in one form.
    [("debezium-json", "BASE64"), ("debezium-json", "NUMERIC"), ("debezium-avro", "BASE64")],
)
def test_every_type_in_every_column(
    kafka_connect: KafkaConnect, format: str, decimal: DecimalFormat, every: bool
) -> None:
    cases = [case for case in kafka_connect.cases(decimal=decimal) if case.presence != "optional" and _true(case)]
    if decimal == "NUMERIC":
        cases = [case for case in cases if "decimal" in case.name]
    if not every:
        cases = some_of_each(cases)
    ids = [case.id for case in cases]
    events, settings = [case.event for case in cases], dict[str, str]()
    if format == "debezium-avro":
        events, settings = avro_events(cases)
    wrong: list[str] = []
    for data_type in SPARK_TYPES:
        if format == "debezium-avro" and isinstance(data_type, t.VariantType):
            continue  # Avro has no such type
        rows, bad = read(events, ids, data_type, format, **settings)
        assert len(rows) + len(bad) == len(cases)
        count, found = check(cases, data_type, rows, bad)
        wrong += found
        assert count > (20 if every else 0)
    assert wrong == [], Counter(line.partition(":")[0] for line in wrong)


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_every_inferred_column_is_read(kafka_connect: KafkaConnect, format: str) -> None:
    cases = list(filter(_true, kafka_connect.cases() + kafka_connect.generated(7, GENERATED)))
    kinds: dict[str, list[ConnectCase]] = {}
    for case in cases:
        kinds.setdefault(f"{case.name} {json.dumps(schema_of(case))}", []).append(case)
    wrong: list[str] = []
    for group in kinds.values():
        data_type = choose_type(read_json(schema_of(group[0])))
        events, settings = [case.event for case in group], dict[str, str]()
        if format == "debezium-avro":
            events, settings = avro_events(group)
        ids = [case.id for case in group]
        rows, bad = read(events, ids, data_type, format, **settings)
        _, found = check(group, data_type, rows, bad)
        wrong += found
        for case in group:
            if case.id in bad and not _has_no_key(case):
                wrong.append(f"{case.name} as {data_type.simpleString()}: {bad[case.id]:.200}")
    assert wrong == [], wrong[0]


def _true(case: ConnectCase) -> bool:
    """Whether Debezium's own conversion did not wrap, as it does near the least number of microseconds."""
    return all(part.form != "timestamp" or not part.value.startswith("-29") for part in case.meaning.parts())


def _has_no_key(case: ConnectCase) -> bool:
    """Whether a map has a key that Spark has no value for: a date beyond the year 9999, an infinite one."""
    return any(part.form == "map" and any(_endless(key) for key, _ in part.value) for part in case.meaning.parts())


def _endless(key: Any) -> bool:
    return key.form == "infinity" or (key.form in ("date", "timestamp") and (key.value < "0001" or key.value[4] != "-"))


@pytest.mark.parametrize("mode", ["base64", "base64-url-safe", "hex"])
def test_strings_that_stand_for_bytes(kafka_connect: KafkaConnect, mode: str) -> None:
    for schemas in (True, False):
        cases = [case for case in kafka_connect.cases(schemas=schemas) if case.name == f"binary-{mode}"]
        ids = [case.id for case in cases]
        assert len(cases) > 5
        rows, bad = read([case.event for case in cases], ids, t.BinaryType(), debezium__binary=mode)
        assert bad == {}
        assert rows == {case.id: case.meaning.value for case in cases}
        rows, bad = read([case.event for case in cases], ids, t.BinaryType())
        for case in cases:
            if case.id in rows:
                assert rows[case.id] == case.meaning.value
            else:
                assert "set the table property 'debezium.binary'" in bad[case.id]


@pytest.mark.parametrize("connector", ["oracle", "sqlserver"])
def test_numbers_without_schema_have_no_unit_by_default(kafka_connect: KafkaConnect, connector: Any) -> None:
    cases = [
        case
        for case in kafka_connect.cases(schemas=False, connector=connector)
        if case.meaning.form == "timestamp" and type(case.payload["after"]["v"]) is int
    ]
    ids = [case.id for case in cases]
    rows, bad = read([case.event for case in cases], ids, t.TimestampNTZType())
    assert rows == {}
    for reason in bad.values():
        assert f"the connector '{connector}'" in reason and "'debezium.time-units'" in reason
    by_unit: dict[str, list[ConnectCase]] = {"ms": [], "us": [], "ns": []}
    for case in cases:
        name = case.semantic.rpartition(".")[2]
        by_unit["us" if "Micro" in name else "ns" if "Nano" in name else "ms"].append(case)
    for unit, group in by_unit.items():
        assert len(group) > 5
        ids = [case.id for case in group]
        rows, bad = read([case.event for case in group], ids, t.TimestampNTZType(), debezium__time_units=f"v={unit}")
        assert bad == {}
        for case in group:
            wanted = shown(case.meaning, t.TimestampNTZType(), {"name": case.semantic}, None)
            assert same(rows[case.id], wanted), (case.name, rows[case.id], wanted)
