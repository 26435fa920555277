"""Debezium's other encodings: schema envelopes, other modes, Avro, other databases.

The events here are constructed by hand after Debezium's documentation and the notice in tests/data/debezium; those of
PostgreSQL's default modes are captured ones, see test_debezium_capture.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from pyspark_pravega.datasource.changes.rows.current import CurrentRows
from pyspark_pravega.datasource.changes.rows.entries import EventLocations, name_value
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import changelog_schema, check_settings, parse_time_units
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Layout, WriterSchema, find_format


def columns(**types: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, data_type) for name, data_type in types.items()])


def decode(
    table: t.StructType, events: Sequence[bytes], format: str = "debezium-json", **settings: str
) -> list[dict[str, Any]]:
    """The changelog of some events; options with _ for - and __ for dots."""
    found = find_format(format)
    keys = {name.replace("__", ".").replace("_", "-"): text for name, text in settings.items()}
    decoder = found.decoder(Layout(changelog_schema(table), found.schema_text(Layout(table), "t", "s"), keys))
    rows: list[dict[str, Any]] = decoder.decode(EventBuffer.of(list(events))).to_pylist()
    return rows


def event(after: Mapping[str, Any] | None, op: str = "c", **more: Any) -> bytes:
    source = {"connector": "postgresql", "name": "x"}
    return json.dumps({"before": None, "after": after, "source": source, "op": op, "ts_ms": 5, **more}).encode()


def number(value: Decimal) -> str:
    """Base64 of the unscaled number."""
    unscaled = int(str(value).replace(".", ""))
    return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()


FIELDS: list[tuple[str, dict[str, Any], Any, t.DataType, Any]] = [
    ("id", {"type": "int32"}, 7, t.IntegerType(), 7),
    (
        "fixed",
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "4"}},
        number(Decimal("-123.4500")),
        t.DecimalType(10, 4),
        Decimal("-123.4500"),
    ),
    (
        "wider",
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}},
        number(Decimal("0.5")),
        t.DecimalType(10, 4),
        Decimal("0.5000"),
    ),
    (
        "digits",
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        number(Decimal("1234.56")),
        t.StringType(),
        "1234.56",
    ),
    (
        "free",
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []},
        {"scale": 10, "value": number(Decimal("98765432109876543210.0123456789"))},
        t.DecimalType(38, 10),
        Decimal("98765432109876543210.0123456789"),
    ),
    (
        "free_text",
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []},
        {"scale": 3, "value": number(Decimal("1.500"))},
        t.StringType(),
        "1.500",
    ),
    ("day", {"type": "int32", "name": "io.debezium.time.Date"}, 19782, t.DateType(), date(2024, 2, 29)),
    ("day_text", {"type": "int32", "name": "io.debezium.time.Date"}, -1, t.StringType(), "1969-12-31"),
    (
        "ms",
        {"type": "int64", "name": "io.debezium.time.Timestamp"},
        1709212455123,
        t.TimestampNTZType(),
        datetime(2024, 2, 29, 13, 14, 15, 123000),
    ),
    (
        "us",
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        1709212455123456,
        t.TimestampNTZType(),
        datetime(2024, 2, 29, 13, 14, 15, 123456),
    ),
    (
        "ns",
        {"type": "int64", "name": "io.debezium.time.NanoTimestamp"},
        1709212455123456789,
        t.TimestampNTZType(),
        datetime(2024, 2, 29, 13, 14, 15, 123456),
    ),
    (
        "connect",
        {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        -1,
        t.TimestampType(),
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
    ),
    (
        "zoned",
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "2024-02-29T11:14:15+02:00",
        t.TimestampType(),
        datetime(2024, 2, 29, 9, 14, 15, tzinfo=UTC),
    ),
    (
        "clock",
        {"type": "int64", "name": "io.debezium.time.MicroTime"},
        47655123456,
        t.StringType(),
        "13:14:15.123456",
    ),
    ("clock_number", {"type": "int32", "name": "io.debezium.time.Time"}, 47655123, t.LongType(), 47655123),
    ("clock_ms", {"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, 1, t.StringType(), "00:00:00.001"),
    ("flag", {"type": "boolean"}, True, t.BooleanType(), True),
    ("bits", {"type": "bytes", "name": "io.debezium.data.Bits"}, "Fg==", t.BinaryType(), b"\x16"),
    ("real", {"type": "float"}, "NaN", t.StringType(), "NaN"),
    ("double", {"type": "double"}, "-Infinity", t.DoubleType(), float("-inf")),
    ("list", {"type": "array", "items": {"type": "string"}}, ["a", None], t.ArrayType(t.StringType()), ["a", None]),
    (
        "decimals",
        {
            "type": "array",
            "items": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        },
        ["bg==", None],
        t.ArrayType(t.DecimalType(8, 2)),
        [Decimal("1.10"), None],
    ),
    (
        "moments",
        {"type": "array", "items": {"type": "int64", "name": "io.debezium.time.Timestamp"}},
        [0],
        t.ArrayType(t.TimestampNTZType()),
        [datetime(1970, 1, 1)],
    ),
    (
        "store",
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
        {"k": None},
        t.MapType(t.StringType(), t.StringType()),
        [("k", None)],
    ),
    ("store_text", {"type": "string"}, '{"k":"v"}', t.MapType(t.StringType(), t.StringType()), [("k", "v")]),
]


def envelope(payload: Any, fields: Sequence[tuple[str, dict[str, Any]]]) -> bytes:
    """An event with the schema of its images, as JsonConverter writes it."""
    image = {
        "type": "struct",
        "optional": True,
        "name": "x.Value",
        "fields": [schema | {"optional": True, "field": name} for name, schema in fields],
    }
    schema = {
        "type": "struct",
        "optional": False,
        "name": "x.Envelope",
        "fields": [image | {"field": "before"}, image | {"field": "after"}, {"type": "string", "field": "op"}],
    }
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_the_schema_in_the_event_tells_the_encodings() -> None:
    table = columns(**{name: data_type for name, _, _, data_type, _ in FIELDS})
    after = {name: value for name, _, value, _, _ in FIELDS}
    schemas = [(name, schema) for name, schema, _, _, _ in FIELDS]
    payload = {"before": None, "after": after, "source": {"connector": "postgresql"}, "op": "c", "ts_ms": 5}
    # What the table says about events without schema does not count.
    rows = decode(table, [envelope(payload, schemas)] * 3, debezium__decimal="double", debezium__time_units="ms=ns")
    for row in rows:
        assert row["after"] == {name: wanted for name, _, _, _, wanted in FIELDS}


def test_every_event_has_a_schema_of_its_own_or_none() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}}
    payload = {"before": None, "after": {"a": "AQ==", "b": 1}, "source": None, "op": "c"}
    table = columns(a=t.DecimalType(5, 2), b=t.TimestampNTZType())
    events = [
        envelope(payload, [("a", decimal), ("b", {"type": "int64", "name": "io.debezium.time.Timestamp"})]),
        event({"a": "1234.5"[1:], "b": 1}),
        envelope(payload, [("a", decimal), ("b", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"})]),
        b"",
        envelope(None, []),
        b'{"schema":null,"payload":null}',
        event({"a": 2.5}),
        json.dumps(json.loads(envelope(payload | {"after": {"a": "AQ=="}}, [("a", decimal)])), indent=1).encode(),
        b'\xef\xbb\xbf {"payload":' + event({"a": None, "b": None}, "d", before={"a": "1"}) + b"}",
    ]
    rows = decode(table, events)
    assert [row["op"] for row in rows] == ["c", "c", "c", None, None, None, "c", "c", "d"]
    assert [row["after"] and row["after"]["a"] for row in rows][:8] == [
        Decimal("0.10"),
        Decimal("234.50"),
        Decimal("0.10"),
        None,
        None,
        None,
        Decimal("2.50"),
        Decimal("0.10"),
    ]
    assert [row["after"] and row["after"]["b"] for row in rows][:3] == [
        datetime(1970, 1, 1, 0, 0, 0, 1000),
        datetime(1970, 1, 1, 0, 0, 0, 1),
        datetime(1970, 1, 1, 0, 0, 0, 1),
    ]


def test_precise_decimals_without_schema_need_the_property() -> None:
    table = columns(d=t.DecimalType(10, 4))
    rows = decode(table, [event({"d": "EtZE"}), event({"d": "1234"}), event({"d": 1.5})], debezium__decimal="precise")
    # "1234" is base64 of three bytes as well as digits.
    assert [row["after"]["d"] for row in rows] == [Decimal("123.4500"), Decimal("-265.8824"), Decimal("1.5000")]
    with pytest.raises(BadEvent, match="set the table property 'debezium.decimal' to 'precise'"):
        decode(table, [event({"d": "EtZE"})])
    with pytest.raises(BadEvent, match="set the table property 'debezium.decimal' to 'string'"):
        decode(table, [event({"d": "12.5"})], debezium__decimal="precise")


def test_doubles_are_rounded_to_the_column() -> None:
    table = columns(d=t.DecimalType(10, 2), n=t.DecimalType(38, 2))
    rows = decode(table, [event({"d": 0.125, "n": 9.876543210987654e19})], debezium__decimal="double")
    assert rows[0]["after"] == {"d": Decimal("0.13"), "n": Decimal("98765432109876540000.00")}
    with pytest.raises(BadEvent, match=r"column 'after.d': the number 0.125 has more fraction digits"):
        decode(table, [event({"d": 0.125})])


def test_connect_times_are_milliseconds() -> None:
    table = columns(a=t.TimestampNTZType(), b=t.TimestampType(), day=t.DateType())
    rows = decode(table, [event({"a": 1, "b": -1, "day": 1})], debezium__time_precision="connect")
    assert rows[0]["after"] == {
        "a": datetime(1970, 1, 1, 0, 0, 0, 1000),
        "b": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        "day": date(1970, 1, 2),
    }


def test_units_of_columns_and_of_databases() -> None:
    table = columns(a=t.TimestampNTZType(), b=t.TimestampNTZType())
    plain = {"a": 1_000_000_000, "b": 1_000_000_000}

    def seen(connector: str, **settings: str) -> list[Any]:
        row = decode(table, [event(plain, source={"connector": connector})], **settings)[0]["after"]
        return [row["a"], row["b"]]

    micros, millis = datetime(1970, 1, 1, 0, 16, 40), datetime(1970, 1, 12, 13, 46, 40)
    assert seen("postgresql") == [micros, micros]
    assert seen("mysql") == [millis, millis]
    assert seen("mysql", debezium__time_units="b=us") == [millis, micros]
    assert seen("sqlserver", debezium__time_units='{"a": "ns", "b": "s"}') == [
        datetime(1970, 1, 1, 0, 0, 1),
        datetime(2001, 9, 9, 1, 46, 40),
    ]
    with pytest.raises(BadEvent, match="'debezium.time-units', for example 'created=ms'"):
        seen("sqlserver")


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
@pytest.mark.parametrize("number", [1_709_212_455_123_456, -1_709_212_455_123_456, 2**62])
def test_a_number_too_large_for_the_assumed_unit_is_refused(connector: str, number: int) -> None:
    table = columns(id=t.LongType(), at=t.TimestampType())
    events = [event({"id": 1, "at": moment}, source={"connector": connector}) for moment in (1_709_212_455_000, number)]
    with pytest.raises(BadEvent, match=f"number {number} is beyond the year 9999.*'debezium.time-units'"):
        decode(table, events)
    # Where the unit is said, it is a time that Spark has no value for.
    assert decode(table, events, debezium__time_units="at=ms")[1]["after"]["at"] is None
    assert decode(table, events, debezium__time_precision="connect")[1]["after"]["at"] is None


def test_times_that_spark_has_no_value_for_are_strings_where_asked_for() -> None:
    micros = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "optional": True}
    days = {"type": "int32", "name": "io.debezium.time.Date", "optional": True}
    moments = ["+20001-12-31T11:10:45.000001", "-0043-01-02T00:00:00.000000", "1970-01-01T00:00:01.000001"]
    cases = [(int(np.datetime64(text.lstrip("+"), "us").astype(int)), text) for text in moments]
    cases += [(9_223_372_036_825_200_000, "infinity"), (-9_223_372_036_832_400_000, "-infinity")]
    dates = ["+10000-01-01", "-0043-03-15", "0000-02-29", "2024-02-29", "+5877641-06-23"]
    dated = [(int(np.datetime64(text.lstrip("+"), "D").astype(int)), text) for text in dates]
    for schema, pairs in ((micros, cases), (days, dated)):
        payloads = [envelope({"before": None, "after": {"x": value}, "op": "c"}, [("x", schema)]) for value, _ in pairs]
        assert [row["after"]["x"] for row in decode(columns(x=t.StringType()), payloads)] == [text for _, text in pairs]
        kind = t.DateType() if schema is days else t.TimestampNTZType()
        nulls = [row["after"]["x"] is None for row in decode(columns(x=kind), payloads)]
        assert nulls == [not text[:4].isdigit() or text.startswith("0000") for _, text in pairs]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("io.debezium.time.MicroTime", -3_020_399_000_000, "-838:59:59.000000"),
        ("io.debezium.time.MicroTime", -997_000, "-00:00:00.997000"),
        ("io.debezium.time.MicroTime", 3_020_399_000_000, "838:59:59.000000"),
        ("io.debezium.time.MicroTime", 0, "00:00:00.000000"),
        ("io.debezium.time.Time", -1, "-00:00:00.001"),
        ("org.apache.kafka.connect.data.Time", -3_600_000, "-01:00:00.000"),
        ("io.debezium.time.NanoTime", -60_000_000_001, "-00:01:00.000000001"),
    ],
)
def test_negative_times_of_mysql_are_shown_as_mysql_shows_them(name: str, value: int, text: str) -> None:
    schema = {"type": "int64", "name": name, "optional": True}
    change = envelope({"before": {"x": value}, "after": {"x": value}, "op": "u"}, [("x", schema)])
    (row,) = decode(columns(x=t.StringType()), [change])
    assert (row["before"]["x"], row["after"]["x"]) == (text, text)
    (row,) = decode(columns(x=t.LongType()), [change])
    assert row["after"]["x"] == value


def mysql(
    op: str, before: Any, after: Any, position: int, row: int = 0, file: str = "binlog.000003", **source: Any
) -> bytes:
    """An event in the shape of the MySQL connector's."""
    block = {
        "version": "3.6.1.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": 1_700_000_000_000,
        "snapshot": "false" if op != "r" else "true",
        "db": "inventory",
        "sequence": None,
        "table": "orders",
        "server_id": 223344 if op != "r" else 0,
        "gtid": None,
        "file": file,
        "pos": position,
        "row": row,
        "thread": 7,
        "query": None,
    }
    return json.dumps(
        {"before": before, "after": after, "source": block | source, "op": op, "ts_ms": 1_700_000_000_500}
    ).encode()


MYSQL = columns(
    id=t.LongType(),
    flag=t.BooleanType(),
    small=t.ShortType(),
    at=t.TimestampNTZType(),
    at6=t.TimestampNTZType(),
    stamp=t.TimestampType(),
    day=t.DateType(),
    year=t.IntegerType(),
    price=t.DecimalType(10, 2),
    size=t.StringType(),
    doc=t.StringType(),
    bits=t.BinaryType(),
    spot=t.StructType([t.StructField("x", t.DoubleType())]),
)
MYSQL_ROW = {
    "id": 1,
    "flag": 1,
    "small": 1,
    "at": 1709212455000,
    "at6": 1709212455123456,
    "stamp": "2024-02-29T11:14:15Z",
    "day": 19782,
    "year": 2024,
    "price": "12.50",
    "size": "S,M",
    "doc": '{"a": 1}',
    "bits": "AQI=",
    "spot": {"x": 1.5, "y": 2.5, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAARA", "srid": None},
}


def test_the_shapes_of_mysql() -> None:
    events = [mysql("r", None, MYSQL_ROW, 154), mysql("u", MYSQL_ROW, MYSQL_ROW | {"flag": 0}, 200, 1)]
    rows = decode(MYSQL, events, debezium__time_units="at6=us")
    assert rows[0]["after"] == {
        "id": 1,
        "flag": True,
        "small": 1,
        "at": datetime(2024, 2, 29, 13, 14, 15),
        "at6": datetime(2024, 2, 29, 13, 14, 15, 123456),
        "stamp": datetime(2024, 2, 29, 11, 14, 15, tzinfo=UTC),
        "day": date(2024, 2, 29),
        "year": 2024,
        "price": Decimal("12.50"),
        "size": "S,M",
        "doc": '{"a": 1}',
        "bits": b"\x01\x02",
        "spot": {"x": 1.5},
    }
    assert rows[1]["before"] == rows[0]["after"]
    position = rows[1]["position"]
    assert (position["origin"], position["major"], position["minor"], position["row"]) == (
        "mysql/shop/223344/binlog",
        3,
        200,
        1,
    )
    assert dict(rows[1]["source"])["file"] == "binlog.000003"
    assert dict(rows[1]["source"])["gtid"] is None


def fold(table: t.StructType, key: list[str], events: Sequence[bytes]) -> dict[Any, dict[str, Any]]:
    format = find_format("debezium-json")
    batch = format.decoder(Layout(changelog_schema(table), format.schema_text(Layout(table), "t", "s"))).decode(
        EventBuffer.of(list(events))
    )
    with CurrentRows(key, [name for name in table.names if name not in key], 1 << 28) as rows:
        for place in range(len(batch)):
            rows.feed(batch.slice(place, 1), EventLocations(0, np.array([place]), np.array([1])))
        found = [row for part in rows.rows() for row in part.to_pylist()]
    shown = [{name: row[name_value(name)] for name in table.names} for row in found]
    return {tuple(row[name] for name in key): row for row in shown}


def test_positions_in_binlogs_tell_what_was_written_again() -> None:
    table = columns(id=t.LongType(), v=t.StringType())
    rows = fold(
        table,
        ["id"],
        [
            mysql("c", None, {"id": 1, "v": "a"}, 900, file="binlog.000009"),
            mysql("u", None, {"id": 1, "v": "b"}, 100, file="binlog.000010"),
            mysql("u", None, {"id": 1, "v": "old"}, 950, file="binlog.000009"),
            mysql("c", None, {"id": 2, "v": "a"}, 100, 0, file="binlog.000010"),
            mysql("d", {"id": 2, "v": "a"}, None, 100, 1, file="binlog.000010"),
            mysql("c", None, {"id": 2, "v": "again"}, 100, 0, file="binlog.000010"),
            mysql("c", None, {"id": 3, "v": "one"}, 900, file="binlog.000010"),
            mysql("u", None, {"id": 3, "v": "after a failover"}, 4, file="binlog.000001", server_id=5),
        ],
    )
    assert {key[0]: row["v"] for key, row in rows.items()} == {1: "b", 3: "after a failover"}


def test_an_update_of_the_key_moves_the_row() -> None:
    table = columns(id=t.LongType(), v=t.StringType())
    before, after = {"id": 1, "v": "a"}, {"id": 2, "v": "a"}
    rows = fold(table, ["id"], [mysql("c", None, before, 1), mysql("u", before, after, 2)])
    assert rows == {(2,): {"id": 2, "v": "a"}}


AVRO_SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}


def avro_schema(*more: dict[str, Any]) -> dict[str, Any]:
    """The schema of an envelope as Confluent's converter registers it."""
    row = {
        "type": "record",
        "name": "Value",
        "namespace": "dbz.inventory.t",
        "connect.name": "dbz.inventory.t.Value",
        "fields": [
            {"name": "id", "type": "int"},
            {
                "name": "price",
                "type": [
                    "null",
                    {
                        "type": "bytes",
                        "scale": 2,
                        "precision": 10,
                        "connect.version": 1,
                        "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                        "connect.name": "org.apache.kafka.connect.data.Decimal",
                        "logicalType": "decimal",
                    },
                ],
                "default": None,
            },
            {
                "name": "free",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "VariableScaleDecimal",
                        "namespace": "io.debezium.data",
                        "connect.name": "io.debezium.data.VariableScaleDecimal",
                        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
                    },
                ],
            },
            {
                "name": "at",
                "type": ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp", "connect.version": 1}],
            },
            {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
            {"name": "raw", "type": ["null", "bytes"]},
            {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
            *more,
        ],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "dbz.inventory.t",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": AVRO_SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


def confluent(number: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    # As the bytes that the converter wrote, not by the logical type.
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal"', '"logical": ""'))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


AVRO_TABLE = columns(
    id=t.IntegerType(),
    price=t.DecimalType(10, 2),
    free=t.StringType(),
    at=t.TimestampNTZType(),
    day=t.DateType(),
    raw=t.BinaryType(),
    tags=t.ArrayType(t.StringType()),
    extra=t.StringType(),
)


def avro_row(**more: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "price": (12345).to_bytes(2, "big"),
        "free": {"scale": 3, "value": (1500).to_bytes(2, "big")},
        "at": 1000,
        "day": 19782,
        "raw": b"\0\xff",
        "tags": ["a", None],
        **more,
    }


def test_avro_with_confluents_framing() -> None:
    first, second = avro_schema(), avro_schema({"name": "extra", "type": ["null", "string"], "default": None})
    source = {"connector": "postgresql", "name": "dbz", "lsn": 17}
    row: dict[str, Any] = {"before": None, "source": source, "op": "c", "ts_ms": 3}
    toast = {"raw": b"__debezium_unavailable_value", "tags": ["__debezium_unavailable_value"]}
    events = [
        confluent(7, first, {**row, "after": avro_row()}),
        b"",
        confluent(300, second, {**row, "op": "u", "after": avro_row(extra="e", **toast)}),
        confluent(7, first, {**row, "op": "d", "before": avro_row(), "after": None}),
        confluent(7, first, {**row, "op": "t", "after": None}),
    ]
    expected = {
        "id": 1,
        "price": Decimal("123.45"),
        "free": "1.500",
        "at": datetime(1970, 1, 1, 0, 0, 1),
        "day": date(2024, 2, 29),
        "raw": b"\0\xff",
        "tags": ["a", None],
        "extra": None,
    }
    by_list = json.dumps([{"id": 7, "schema": json.dumps(first)}, {"id": 300, "schema": json.dumps(second)}])
    by_object = json.dumps({"7": first, "300": json.dumps(second)})
    for schemas in (by_list, by_object):
        rows = decode(AVRO_TABLE, events, "debezium-avro", debezium__avro_schemas=schemas)
        assert [change["op"] for change in rows] == ["c", None, "u", "d", "t"]
        assert rows[0]["after"] == rows[3]["before"] == expected
        assert rows[2]["after"] == expected | {"raw": None, "tags": None, "extra": "e"}
        assert rows[2]["unavailable"] == ["raw", "tags"]
        assert rows[0]["position"]["major"] == 17
    with pytest.raises(BadEvent, match="schema id 300 is not among"):
        decode(AVRO_TABLE, events, "debezium-avro", debezium__avro_schemas=json.dumps({"7": first}))
    with pytest.raises(BadEvent, match="does not begin with a zero byte"):
        decode(AVRO_TABLE, [b"\1\0\0\0\0\0"], "debezium-avro", debezium__avro_schemas=by_object)
    with pytest.raises(InvalidOptionError, match="JSON object of schemas by id"):
        decode(AVRO_TABLE, events, "debezium-avro", debezium__avro_schemas="[7]")
    format = find_format("debezium-avro")
    with pytest.raises(UnsupportedOperationError, match="come from its own registry"):
        format.encoder(Layout(AVRO_TABLE, settings={"debezium.avro-schemas": by_object}))
    candidates = format.truncate_candidates(EventBuffer.of(events))  # type: ignore[attr-defined]
    assert 4 in candidates.tolist()


WRITTEN = columns(
    id=t.LongType(),
    d=t.DecimalType(20, 3),
    at=t.TimestampNTZType(),
    stamp=t.TimestampType(),
    day=t.DateType(),
    raw=t.BinaryType(),
    s=t.StringType(),
    list=t.ArrayType(t.DecimalType(6, 1)),
    inner=t.StructType([t.StructField("day", t.DateType()), t.StructField("f", t.FloatType())]),
    map=t.MapType(t.StringType(), t.TimestampNTZType()),
)


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"debezium.decimal": "precise"},
        {"debezium.decimal": "double", "debezium.time-precision": "connect"},
        {"debezium.time-units": "at=ns,map=s"},
    ],
)
def test_rows_are_read_as_they_were_written(format: str, settings: dict[str, str]) -> None:
    rows = [
        {
            "id": 1,
            "d": Decimal("-12345678901234567.125"),
            "at": datetime(1969, 12, 31, 23, 59, 58),
            "stamp": datetime(2024, 1, 1, 1, 2, 3, 456, UTC),
            "day": date(1, 1, 1),
            "raw": b"\xff",
            "s": 'é"\n',
            "list": [Decimal("1.5"), None],
            "inner": {"day": date(2024, 2, 29), "f": 1.5},
            "map": [("k", datetime(2000, 1, 1))],
        },
        dict.fromkeys(WRITTEN.names) | {"id": 2, "list": [], "inner": {"day": None, "f": None}, "map": []},
        dict.fromkeys(WRITTEN.names) | {"id": 3},
    ]
    found = find_format(format)
    text = found.schema_text(Layout(WRITTEN), "t", "s")
    decoder = found.decoder(Layout(WRITTEN and changelog_schema(WRITTEN), text, settings))
    after = decoder.schema.field("after").type
    batch = pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(after))))
    payloads = found.encoder(Layout(WRITTEN, text, settings | {"written-at": "1700000000000"})).encode(batch)
    changes = decoder.decode(EventBuffer.of_arrow(payloads)).to_pylist()
    assert [change["after"] for change in changes] == rows
    assert {change["op"] for change in changes} == {"c"}
    assert {change["before"] for change in changes} == {None}
    assert changes[0]["ts"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_others_read_avro_by_the_schema_of_the_table() -> None:
    table = columns(id=t.LongType(), s=t.StructType([t.StructField("name", t.StringType())]))
    format = find_format("debezium-avro")
    text = format.schema_text(Layout(table), "t", "s")
    assert format.spark_schema(text) == table and format.type_name(text) == "s.t.Envelope"
    row = {"id": 1, "s": {"name": "a"}}
    batch = pa.RecordBatch.from_pylist([row], arrow_schema(table))
    for layout in (Layout(table, text), Layout(table)):
        (event,) = format.encoder(layout).encode(batch).to_pylist()
        found: Any = fastavro.schemaless_reader(io.BytesIO(event), fastavro.parse_schema(json.loads(text)))
        assert (found["op"], found["before"], found["after"]) == ("c", None, row)


@pytest.mark.parametrize("scope, stream", [("s", "t"), ("s", "Envelope"), ("pyspark-pravega", "Source")])
def test_rows_that_look_like_envelopes(scope: str, stream: str) -> None:
    image = t.StructType([t.StructField("op", t.StringType())])
    table = columns(before=image, after=t.StringType(), source=image, op=t.StringType(), ts_ms=t.LongType())
    format = find_format("debezium-avro")
    text = format.schema_text(Layout(table), stream, scope)
    fastavro.parse_schema(json.loads(text))
    assert format.spark_schema(text) == table
    row = {"before": {"op": "x"}, "after": "a", "source": None, "op": "d", "ts_ms": 1}
    events = format.encoder(Layout(table, text)).encode(pa.RecordBatch.from_pylist([row], arrow_schema(table)))
    [change] = format.decoder(Layout(changelog_schema(table), text)).decode(EventBuffer.of_arrow(events)).to_pylist()
    assert (change["op"], change["before"], change["after"]) == ("c", None, row)


def test_the_written_encodings() -> None:
    found = find_format("debezium-json")
    table = columns(d=t.DecimalType(10, 4), at=t.TimestampNTZType(), stamp=t.TimestampType(), day=t.DateType())
    batch = pa.RecordBatch.from_struct_array(
        pa.array(
            [{"d": Decimal("123.4500"), "at": 1, "stamp": 1, "day": date(1970, 1, 2)}],
            changelog_type(table),
        )
    )
    for settings, wanted in (
        ({}, {"d": "123.4500", "at": 1}),
        ({"debezium.decimal": "precise", "debezium.time-precision": "connect"}, {"d": "EtZE", "at": 0}),
        ({"debezium.decimal": "double", "debezium.time-units": "at=ns"}, {"d": 123.45, "at": 1000}),
    ):
        payload = found.encoder(Layout(table, settings=settings)).encode(batch)[0].as_py()
        assert json.loads(payload)["after"] == wanted | {"stamp": "1970-01-01T00:00:00.000001Z", "day": 1}


@pytest.mark.parametrize(
    ("unscaled", "written"),
    [(0, "AA=="), (127, "fw=="), (128, "AIA="), (-128, "gA=="), (-129, "/38="), (-32768, "gAA=")],
)
def test_unscaled_numbers_are_as_long_as_those_of_java(unscaled: int, written: str) -> None:
    table = columns(d=t.DecimalType(10, 4))
    batch = pa.RecordBatch.from_struct_array(pa.array([{"d": Decimal(unscaled).scaleb(-4)}], changelog_type(table)))
    encoder = find_format("debezium-json").encoder(Layout(table, settings={"debezium.decimal": "precise"}))
    assert json.loads(encoder.encode(batch)[0].as_py())["after"] == {"d": written}


def test_values_are_encoded_at_any_depth() -> None:
    """Even in maps whose structs may be null, but not their fields."""
    field = t.StructType([t.StructField("d", t.DateType(), False)])
    table = columns(m=t.MapType(t.StringType(), field), l=t.ArrayType(t.DecimalType(3, 1)))
    rows = [
        {"m": [("a", {"d": 1}), ("b", None)], "l": [Decimal("1.5"), None]},
        {"m": None, "l": None},
        {"m": [], "l": []},
    ]
    batch = pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(arrow_schema(table)))))
    for begin in (0, 1):
        payloads = find_format("debezium-json").encoder(Layout(table)).encode(batch.slice(begin))
        written = [json.loads(payload)["after"] for payload in payloads.to_pylist()]
        assert (
            written
            == [{"m": {"a": {"d": 1}, "b": None}, "l": ["1.5", None]}, {"m": None, "l": None}, {"m": {}, "l": []}][
                begin:
            ]
        )


def changelog_type(table: t.StructType) -> pa.DataType:
    format = find_format("debezium-json")
    return (
        format.decoder(Layout(changelog_schema(table), format.schema_text(Layout(table), "t", "s")))
        .schema.field("after")
        .type
    )


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"[]", "it should be a Debezium change event but is an array"),
        (b'{"id": 1}', "it has no 'op'. Events that ExtractNewRecordState flattened are rows"),
        (b'{"op": "x"}', "its 'op' is 'x', not one of c, u, d, r, t, m"),
        (b'{"op": "c"}', "its 'op' is 'c', but it has no 'after'"),
        (b'{"op": "c", "after": 5}', "its 'after' should be an object but is an integer"),
        (b'{"op": "c", "after": {"id": "x"}}', "column 'after.id': expected a whole number, found a string"),
        (b'{"op": "c", "after": {"id": 1}} x', "something follows the JSON document"),
        (b'{"schema":{"type":"struct"},"other":1}', "it has a 'schema', but no 'payload'"),
        (b"  ", "it consists of white space only"),
        (b"\xff", "it is not UTF-8 text"),
        (b'{"id": 7, "status": "open"}', "it has no 'op'"),
        (b'{"id": 7, "status": "END", "total": 5}', "it has no 'op'"),
        (b'{"schema":{"type":"struct","fields":5},"payload":{}}', "it has no 'op'"),
        (b'{"op": "c", "after": {"id": {"a":[' + b"[]," * 513 + b'"' + b'\\"' * 500_000, "it is not a JSON document"),
        (b'{"op": "c", "after": ' + b"[" * 100_000, "nested more than 512 levels deep"),
    ],
)
def test_a_bad_event_is_named_and_moves_no_other(payload: bytes, reason: str) -> None:
    table = columns(id=t.IntegerType())
    format = find_format("debezium-json")
    decoder = format.decoder(Layout(changelog_schema(table), format.schema_text(Layout(table), "t", "s")))
    good = [event({"id": number}) for number in range(3)]
    batch, bad = decoder.decode_valid(EventBuffer.of([good[0], payload, good[1], payload, good[2]]))
    assert [bad_event.index for bad_event in bad] == [1, 3]
    assert reason in bad[0].reason
    assert [row["after"]["id"] for row in batch.to_pylist()] == [0, 1, 2]


def test_events_that_are_odd_but_good() -> None:
    deep = json.loads('{"a":' * 450 + "1" + "}" * 450)
    table = columns(id=t.IntegerType(), note=t.StringType(), h=t.MapType(t.StringType(), t.StringType()))
    rows = decode(
        table,
        [
            event({"id": 1}, source={"connector": "postgresql", "name": [], "db": {}, "lsn": 5}),
            event({"id": 2, "note": deep}),
            event({"id": 3, "h": '{"k": "v"}'}),
        ],
    )
    assert rows[0]["position"]["origin"] == "postgresql/[]/{}"
    assert json.loads(rows[1]["after"]["note"]) == deep
    assert rows[2]["after"]["h"] == [("k", "v")]


def test_a_text_that_is_no_map_makes_its_event_bad() -> None:
    format = find_format("debezium-json")
    table = columns(id=t.IntegerType(), h=t.MapType(t.StringType(), t.StringType()))
    decoder = format.decoder(Layout(changelog_schema(table), format.schema_text(Layout(table), "t", "s")))
    texts = ["[" * 200_000, "[1]", '{"a": "b"}']
    batch, bad = decoder.decode_valid(EventBuffer.of([event({"id": 1, "h": text}) for text in texts]))
    assert [bad_event.index for bad_event in bad] == [0, 1]
    assert batch.column("after").to_pylist() == [{"id": 1, "h": [("a", "b")]}]


def test_envelopes_with_white_space() -> None:
    """Not only as Kafka Connect's converter writes them."""
    table = columns(id=t.IntegerType(), ms=t.TimestampNTZType())
    fields = [(name, schema) for name, schema, _, _, _ in FIELDS if name in ("id", "ms")]
    after = {"id": 1, "ms": 1709212455123}
    compact = envelope({"before": None, "after": after, "op": "c"}, fields)
    document = json.loads(compact)
    events = [
        compact,
        json.dumps(document).encode(),
        json.dumps(document, indent=1).encode(),
        compact.replace(b',"payload":', b',"payload": \n'),
        compact.replace(b'{"schema":', b'{"schema":\t'),
        b" " + compact + b"\n",
    ]
    for order in (events, events[::-1]):
        rows = decode(table, order)
        assert [row["after"] for row in rows] == [{"id": 1, "ms": datetime(2024, 2, 29, 13, 14, 15, 123000)}] * 6


def test_events_that_change_no_row() -> None:
    table = columns(id=t.IntegerType())
    events = [
        b"",
        b"null",
        b'{"ts_ms": 1}',
        b'{"status":"END","id":"1:2","event_count":1,"data_collections":[],"ts_ms":1}',
        b'{"source":{},"ts_ms":1,"databaseName":"d","schemaName":null,"ddl":"CREATE ...","tableChanges":[]}',
        b'{"before":null,"after":null,"op":"m","message":{"prefix":"p","content":"eA=="}}',
    ]
    rows = decode(table, events)
    assert [row["op"] for row in rows] == [None, None, None, None, None, "m"]
    assert all(row["after"] is None for row in rows)


def test_properties_are_checked_against_the_columns() -> None:
    table = columns(Id=t.IntegerType(), line_no=t.IntegerType(), tags=t.ArrayType(t.StringType()))
    assert check_settings(table, {"primary-key": "id, LINE_NO"})["primary-key"] == "Id,line_no"
    assert parse_time_units({"debezium.time-units": "a b=ms, c=us"}) == {"a b": "ms", "c": "us"}
    for settings, message in (
        (
            {"primary-key": "line"},
            "'primary-key' names 'line', which is not a column of the table. Did you mean 'line_no'",
        ),
        ({"primary-key": "id,ID"}, "should name one or more different columns"),
        ({"primary-key": ","}, "should name one or more different columns"),
        ({"debezium.time-units": "id=days"}, "'id=days' should be a column and one of s, ms, us, ns"),
        ({"debezium.time-units": "x=ms"}, "'debezium.time-units' names 'x'"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            check_settings(table, settings)
    with pytest.raises(Exception, match=r"array<string>, whose values cannot identify rows"):
        check_settings(table, {"primary-key": "tags"})


def test_another_placeholder() -> None:
    table = columns(id=t.IntegerType(), s=t.VarcharType(9), codes=t.ArrayType(t.IntegerType()))
    rows = decode(
        table,
        [event({"id": 1, "s": "<gone>", "codes": [60, 103, 111, 110, 101, 62]}, "u")],
        debezium__unavailable_value="<gone>",
    )
    assert rows[0]["unavailable"] == ["s", "codes"]
    assert rows[0]["after"] == {"id": 1, "s": None, "codes": None}


def test_maxwell() -> None:
    table = columns(
        id=t.LongType(), at=t.TimestampNTZType(), day=t.DateType(), price=t.DecimalType(10, 2), doc=t.StringType()
    )
    row = {"id": 1, "at": "2024-02-29 13:14:15.123456", "day": "2024-02-29", "price": 12.50, "doc": {"a": [1.50]}}
    head = {"database": "shop", "table": "orders", "ts": 1_700_000_000, "xid": 5, "position": "binlog.000003:154"}
    events = [
        {**head, "type": "bootstrap-start", "data": {}},
        {**head, "type": "bootstrap-insert", "data": row},
        {**head, "type": "update", "data": row | {"id": 2}, "old": {"id": 1}},
        {**head, "type": "delete", "data": row},
        {**head, "type": "table-alter", "sql": "ALTER TABLE ..."},
    ]
    rows = decode(table, [json.dumps(event).encode() for event in events], "maxwell-json")
    assert [change["op"] for change in rows] == [None, "r", "u", "d", None]
    assert rows[1]["after"] == {
        "id": 1,
        "at": datetime(2024, 2, 29, 13, 14, 15, 123456),
        "day": date(2024, 2, 29),
        "price": Decimal("12.50"),
        "doc": '{"a":[1.5]}',
    }
    assert (rows[2]["before"]["id"], rows[2]["after"]["id"]) == (1, 2)
    assert rows[3]["before"] == rows[1]["after"] and rows[3]["after"] is None
    assert (rows[3]["position"]["major"], rows[3]["position"]["minor"]) == (3, 154)
    assert rows[3]["ts"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    with pytest.raises(BadEvent, match="its 'type' is 'c', which Maxwell does not have"):
        decode(table, [b'{"type":"c"}'], "maxwell-json")


def map_entries(value: Any) -> dict[str, Any]:
    """Return the type of a map with whole numbers as keys, which Kafka Connect writes as an array of entries."""
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    entry = {"type": "record", "name": "E", "connect.internal.type": "MapEntry", "fields": fields}
    return {"type": "array", "items": entry}


SELF_CONTAINING: dict[str, dict[str, Any]] = {
    "record": {"name": "Se", "fields": [{"name": "v", "type": "float"}, {"name": "n", "type": ["null", "Se"]}]},
    "array": {"name": "Se", "fields": [{"name": "n", "type": {"type": "array", "items": "Se"}}]},
    "entries": {"name": "Se", "fields": [{"name": "n", "type": map_entries(["null", "Se"])}]},
    "entries of entries": {
        "name": "Se",
        "fields": [{"name": "n", "type": map_entries({"type": "array", "items": "E"})}],
    },
}


@pytest.mark.parametrize("kind", list(SELF_CONTAINING))
def test_a_record_that_contains_itself_makes_the_events_of_its_schema_bad(kind: str) -> None:
    """Even if the table has no such column. Other events are read."""
    table = columns(id=t.IntegerType())
    row: dict[str, Any] = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}]}
    inner = SELF_CONTAINING[kind] | {"type": "record"}
    recursive = row | {"fields": [*row["fields"], {"name": "s", "type": ["null", inner]}]}
    texts = {1: json.dumps(row), 2: json.dumps(recursive)}
    format = find_format("debezium-avro")
    schema_text = format.schema_text(Layout(table), "t", "s")
    encoder = format.encoder(Layout(table, json.dumps(row), {}))
    (payload,) = encoder.encode(pa.record_batch({"id": pa.array([7], pa.int32())})).to_pylist()
    decoder = format.decoder(
        Layout(changelog_schema(table), schema_text, {}), lambda number: WriterSchema(texts[number], "Avro", "")
    )
    events = [b"\1" + number.to_bytes(4, "big") + payload for number in (1, 2, 1)]
    batch, bad = decoder.decode_valid(EventBuffer.of(events))
    assert [event.index for event in bad] == [1]
    assert "contains itself, and Debezium's events have no recursive schemas" in bad[0].reason
    assert batch.column("after").to_pylist() == [{"id": 7}] * 2


def bad_reasons(table: t.StructType, events: Sequence[bytes], format: str = "debezium-json", **settings: str) -> Any:
    """The images of the good events, and the reasons of the bad ones by position."""
    found = find_format(format)
    options = {name.replace("__", ".").replace("_", "-"): text for name, text in settings.items()}
    # The native decoder makes no column 'source'.
    wanted = t.StructType([field for field in changelog_schema(table) if field.name != "source"])
    decoder = found.decoder(Layout(wanted, found.schema_text(Layout(table), "t", "s"), options))
    batch, bad = decoder.decode_valid(EventBuffer.of(list(events)))
    return [row["after"] for row in batch.to_pylist()], {event.index: event.reason for event in bad}


PLAIN: list[tuple[str, t.DataType, Any]] = [
    ('"1500"', t.DecimalType(10, 2), Decimal("1500.00")),
    ("15.25", t.DecimalType(10, 2), Decimal("15.25")),
    ('"AQ=="', t.DecimalType(10, 2), "'AQ==' is not a decimal ("),
    ('{"scale":0,"value":"AQ=="}', t.DecimalType(10, 2), "expected a decimal, found an object"),
    ('{"scale":0,"value":"AQ=="}', t.LongType(), "expected a whole number, found an object"),
    ('{"scale":0,"value":"AQ=="}', t.DoubleType(), "expected a number, found an object"),
    ('{"scale":0,"value":"AQ=="}', t.StringType(), '{"scale":0,"value":"AQ=="}'),
    ('"2024-02-29T00:00:01Z"', t.TimestampNTZType(), datetime(2024, 2, 29, 0, 0, 1)),
    ("5", t.TimestampNTZType(), "expected a timestamp as a string, found the number 5"),
    ('"2024-02-29"', t.DateType(), date(2024, 2, 29)),
    ("5", t.DateType(), "expected a date as a string"),
    ('"YWJj"', t.BinaryType(), b"abc"),
    ('"00ff"', t.BinaryType(), base64.b64decode("00ff")),
    ("[1,2]", t.ArrayType(t.DateType()), "expected a date as a string"),
    ('["7"]', t.ArrayType(t.DecimalType(4, 1)), [Decimal("7.0")]),
]


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "string", "name": "io.debezium.data.Json"}, None])
@pytest.mark.parametrize(("text", "data_type", "wanted"), PLAIN)
def test_values_of_a_json_text_are_plain_json(
    schema: dict[str, Any] | None, text: str, data_type: t.DataType, wanted: Any
) -> None:
    """Whatever the properties say: no connector encodes them."""
    settings = {
        "debezium__decimal": "precise",
        "debezium__time_precision": "connect",
        "debezium__time_units": "m=s",
        "debezium__binary": "hex",
    }
    table = columns(m=t.MapType(t.StringType(), data_type))
    after = {"m": f'{{"a":{text}}}'}
    payload = {"before": None, "after": after, "source": {"connector": "postgresql"}, "op": "c", "ts_ms": 5}
    events = [event(after) if schema is None else envelope(payload, [("m", schema)])] * 2
    rows, bad = bad_reasons(table, events, **settings)
    if isinstance(wanted, str) and not isinstance(data_type, t.StringType):
        # The advice about a property would not help.
        assert wanted.rstrip("(").rstrip() in bad[0] and "debezium.decimal" not in bad[0]
    else:
        assert rows == [{"m": [("a", wanted)]}] * 2 and not bad


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize(
    ("data_type", "reason"),
    [
        (t.LongType(), "expected a whole number, found an object"),
        (t.DoubleType(), "expected a number, found an object"),
        (t.DecimalType(10, 2), "expected a decimal, found an object"),
    ],
)
def test_other_objects_are_no_numbers(
    data_type: t.DataType, reason: str, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    _, bad = bad_reasons(columns(n=data_type), [event({"n": {"x": 1}})])
    assert reason in bad[0]


@pytest.mark.parametrize("format", ["debezium-json", "maxwell-json"])
@pytest.mark.parametrize("native", ["1", "0"])
def test_framing_of_kafka_connect_is_named(format: str, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    one = event({"n": 1})
    events = [b"\0\0\0\1\0" + one, b"\0" + (9).to_bytes(8, "big") + one, b"\0\0\0\0\7\0\2\x02"]
    _, bad = bad_reasons(columns(n=t.LongType()), events, format)
    assert "the schema id 256, as Confluent's framing does, before its JSON" in bad[0]
    assert "org.apache.kafka.connect.json.JsonConverter write it, or leave out the first 5 bytes" in bad[0]
    assert ["'format'='json' and 'framing'='confluent'" in reason for reason in bad.values()] == [True, False, False]
    assert "the schema id 9, as Apicurio's framing does" in bad[1] and "the first 9 bytes" in bad[1]
    assert "what follows is not JSON" in bad[2] and "'format'='debezium-avro' and 'framing'='confluent'" in bad[2]


@pytest.mark.parametrize("native", ["1", "0"])
def test_negative_zeros_and_stray_bits(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A -0 has its sign in floats only; base64 has no bits left over, whether it is bytes or an unscaled number."""
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    table = columns(d=t.DoubleType(), n=t.LongType(), s=t.StringType(), c=t.DecimalType(5, 2), b=t.BinaryType())
    zeros = event({"d": 1, "n": 2, "s": 3, "c": 4}).replace(b" ", b"")
    for digit in b"1234":
        zeros = zeros.replace(b":%c" % digit, b":-0", 1)
    events = [zeros, event({"b": "AB=="}), event({"b": "AAEC="}), event({"c": "AB=="}), event({"c": "AQ=="})]
    rows, bad = bad_reasons(table, events, debezium__decimal="precise")
    assert repr(rows[0]) == repr({"d": -0.0, "n": 0, "s": "0", "c": Decimal("0.00"), "b": None})
    assert sorted(bad) == [1, 2, 3]
    assert "its last digit has bits that belong to no byte" in bad[1] and "Incorrect padding" in bad[2]
    assert "its last digit has bits that belong to no byte" in bad[3]


def test_maps_of_objects_and_of_texts_are_told_apart() -> None:
    table = columns(m=t.MapType(t.StringType(), t.DecimalType(10, 2)))
    values: list[Any] = ['{"a":"15"}', {"a": "Bds="}, None, '{"b":"16"}', [["c", "AQ=="]]]
    rows, bad = bad_reasons(table, [event({"m": value}) for value in values], debezium__decimal="precise")
    assert rows == [
        {"m": None if pair is None else [(pair[0], Decimal(pair[1]))]}
        for pair in (("a", "15.00"), ("a", "14.99"), None, ("b", "16.00"), ("c", "0.01"))
    ]
    assert not bad


@pytest.mark.parametrize(
    ("value", "of_debezium"),
    [
        ({"scale": 1, "value": "AQ=="}, "0.1"),
        ({"scale": 1, "value": "x y"}, None),
        ({"scale": 1, "value": ""}, None),
        ({"scale": 1, "value": 5}, None),
        ({"scale": "1", "value": "AQ=="}, None),
        ({"scale": True, "value": "AQ=="}, None),
        ({"scale": 30_000, "value": "AQ=="}, None),
    ],
)
def test_objects_that_look_like_decimals(value: Any, of_debezium: str | None) -> None:
    """In columns of strings without schema. An object of Maxwell's is always the user's own."""
    text = json.dumps(value, separators=(",", ":"))
    rows, bad = bad_reasons(columns(s=t.StringType()), [event({"s": value})])
    assert (rows, bad) == ([{"s": of_debezium or text}], {})
    payload = {"type": "insert", "database": "d", "table": "t", "ts": 1, "data": {"s": value}}
    rows, bad = bad_reasons(columns(s=t.StringType()), [json.dumps(payload).encode()], "maxwell-json")
    assert (rows, bad) == ([{"s": text}], {})


@pytest.mark.parametrize("native", ["1", "0"])
def test_texts_of_floats(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    for data_type in (t.FloatType(), t.DoubleType()):
        for schema in ({"type": "string"}, None):
            texts = ["1.5", "-2e3", "+.5", "Infinity", "1_000", " 7 ", "\u0661\u0662", "inf", "0x1p3", "nan", ""]
            payloads = [{"before": None, "after": {"x": text}, "op": "c"} for text in texts]
            events = [
                json.dumps(payload).encode() if schema is None else envelope(payload, [("x", schema)])
                for payload in payloads
            ]
            rows, bad = bad_reasons(columns(x=data_type), events)
            assert [row["x"] for row in rows] == [1.5, -2000.0, 0.5, float("inf")]
            assert list(bad) == [4, 5, 6, 7, 8, 9, 10]
            assert all("is not a number" in reason for reason in bad.values())


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("name", ["io.debezium.time.ZonedTimestamp", None])
def test_offsets_beyond_those_of_java(native: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    offsets = ["+18:00", "-18:00", "Z", "+99:99", "+18:01", "-18:59", "-19:00", "+23:59", "+05:60", "+1801"]
    payloads = [{"before": None, "after": {"x": f"2024-01-01T00:00:00{offset}"}, "op": "c"} for offset in offsets]
    schema = {"type": "string", "name": name}
    events = [
        json.dumps(payload).encode() if name is None else envelope(payload, [("x", schema)]) for payload in payloads
    ]
    for data_type in (t.TimestampType(), t.TimestampNTZType()):
        rows, bad = bad_reasons(columns(x=data_type), events)
        assert [row["x"].day for row in rows] == [31, 1, 1]
        assert list(bad) == list(range(3, 10))
        assert all("no offset between -18:00 and +18:00" in reason for reason in bad.values())
    dates = [event({"x": f"2024-01-01{offset}"}) for offset in ("+18:00", "+18:01", "-05:60")]
    assert list(bad_reasons(columns(x=t.DateType()), dates)[1]) == [1, 2]


def test_nanoseconds_are_never_infinity() -> None:
    schema = {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}
    payload = {"before": None, "after": {"x": 9_223_372_036_825_200_000}, "op": "c"}
    rows = decode(columns(x=t.StringType()), [envelope(payload, [("x", schema)])])
    assert rows[0]["after"] == {"x": "2262-04-11T23:47:16.825200000"}
