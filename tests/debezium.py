"""The captured Debezium events of tests/data/debezium and the tables they must fold to."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import types as t

DATA = Path(__file__).parent / "data" / "debezium"


@dataclass(frozen=True)
class Record:
    """One record as Debezium handed it over; `value` is b"" for a tombstone."""

    key: str | None
    value: bytes


@cache
def records() -> dict[str, list[Record]]:
    """All records by topic, in order."""
    found: dict[str, list[Record]] = {}
    with gzip.open(DATA / "events.ndjson.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            each = json.loads(line)
            found.setdefault(each["topic"], []).append(Record(each["key"], (each["value"] or "").encode()))
    return found


@dataclass(frozen=True)
class Column:
    """A column as PostgreSQL has it."""

    name: str
    type: str


@dataclass(frozen=True)
class Table:
    """What a table is in the end: rows in the text output of PostgreSQL."""

    name: str
    columns: list[Column]
    key: list[str]
    rows: list[dict[str, str | None]]

    @property
    def topic(self) -> str:
        return "dbz.inventory." + self.name.replace(" ", "_")

    @property
    def schema(self) -> t.StructType:
        return t.StructType([t.StructField(each.name, spark_type(each.type)) for each in self.columns])

    def expected(self) -> list[dict[str, Any]]:
        """The rows as Python values of `schema`."""
        return [{each.name: value_of(each.type, row[each.name]) for each in self.columns} for row in self.rows]


@cache
def tables() -> dict[str, Table]:
    """All tables by name."""
    found = {}
    for full_name, table in json.loads((DATA / "final_tables.json").read_text(encoding="utf-8")).items():
        name = full_name.removeprefix("inventory.")
        columns = [Column(each["name"], each["type"]) for each in table["columns"]]
        found[name] = Table(name, columns, table["primary_key"] or [], table["rows"])
    return found


_TYPES: dict[str, t.DataType] = {
    "smallint": t.ShortType(),
    "integer": t.IntegerType(),
    "bigint": t.LongType(),
    "real": t.FloatType(),
    "double precision": t.DoubleType(),
    "money": t.DecimalType(20, 2),
    "boolean": t.BooleanType(),
    "bytea": t.BinaryType(),
    "date": t.DateType(),
    "timestamp with time zone": t.TimestampType(),
    "interval": t.LongType(),
    "bit(1)": t.BooleanType(),
    "point": t.StructType([t.StructField("x", t.DoubleType()), t.StructField("y", t.DoubleType())]),
}


def spark_type(name: str) -> t.DataType:
    """The type a user would declare for a type of PostgreSQL."""
    if name.endswith("[]"):
        return t.ArrayType(spark_type(name[:-2]))
    if match := re.fullmatch(r"numeric\((\d+),(\d+)\)", name):
        return t.DecimalType(int(match[1]), int(match[2]))
    if name.startswith("time") and name.endswith("without time zone"):
        return t.TimestampNTZType() if name.startswith("timestamp") else t.LongType()
    if name.startswith("bit") and name != "bit(1)":
        return t.BinaryType()
    return _TYPES.get(name, t.StringType())


def value_of(name: str, text: str | None) -> Any:
    """A value of PostgreSQL's text output as Python has it."""
    if text is None:
        return None
    if name.endswith("[]"):
        return [value_of(name[:-2], each) for each in _elements(text)]
    for kind, parse in _PARSERS:
        if re.fullmatch(kind, name):
            return parse(text)
    return text


def _elements(text: str) -> list[str | None]:
    found: list[str | None] = []
    for match in re.finditer(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', text):
        quoted, plain = match.groups()
        if quoted is not None:
            found.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            found.append(None if plain == "NULL" else plain)
    return found


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text if "+" not in text[-3:] else text + ":00").astimezone(UTC)


def _time_of_day(digits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        clock, _, fraction = text.partition(".")
        hours, minutes, seconds = map(int, clock.split(":"))
        return (hours * 3600 + minutes * 60 + seconds) * 10**digits + int(fraction.ljust(digits, "0")[:digits] or 0)

    return parse


def _zoned_time(text: str) -> str:
    match = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(\.\d+)?([+-])(\d\d)(?::(\d\d))?", text)
    assert match is not None
    sign = -1 if match[5] == "-" else 1
    minutes = int(match[1]) * 60 + int(match[2]) - sign * (int(match[6]) * 60 + int(match[7] or 0))
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}:{match[3]}{match[4] or ''}Z"


def _interval(text: str) -> int:
    """Microseconds, with a month of 30.4375 days."""
    days = Decimal(0)
    for number, unit in re.findall(r"(-?\d+) (year|mon|day)", text):
        days += int(number) * {"year": Decimal("365.25"), "mon": Decimal("30.4375"), "day": Decimal(1)}[unit]
    micros = int(days * 86_400_000_000)
    if match := re.search(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?$", text):
        seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
        part = seconds * 1_000_000 + int((match[5] or "").ljust(6, "0"))
        micros += -part if match[1] else part
    return micros


def _bits(text: str) -> bytes:
    """Little-endian, as few bytes as the number needs."""
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _point(text: str) -> dict[str, float]:
    x, y = text.strip("()").split(",")
    return {"x": float(x), "y": float(y)}


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _hstore(text: str) -> str:
    pairs = re.findall(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', text)
    nulls = re.findall(r'"((?:[^"\\]|\\.)*)"=>NULL', text)
    return json.dumps(
        {_plain(key): None if key in nulls else _plain(value) for key, value in pairs},
        separators=(",", ":"),
        ensure_ascii=False,
    )


_PARSERS: list[tuple[str, Callable[[str], Any]]] = [
    (r"smallint|integer|bigint", int),
    (r"real", lambda text: struct.unpack("f", struct.pack("f", float(text)))[0]),
    (r"double precision", float),
    (r"numeric\(.*", Decimal),
    (r"money", lambda text: Decimal(text.replace("$", "").replace(",", ""))),
    (r"boolean", lambda text: text == "true"),
    (r"bit\(1\)", lambda text: text == "1"),
    (r"bit.*", _bits),
    (r"bytea", lambda text: bytes.fromhex(text[2:])),
    (r"date", date.fromisoformat),
    (r"timestamp.*without time zone", datetime.fromisoformat),
    (r"timestamp with time zone", _moment),
    (r"time\(3\) without time zone", _time_of_day(3)),
    (r"time without time zone", _time_of_day(6)),
    (r"time with time zone", _zoned_time),
    (r"interval", _interval),
    (r"point", _point),
    (r"inet", lambda text: re.sub(r"/(32|128)$", "", text)),
    (r"hstore", _hstore),
]


def with_schema(record: Record, schema: dict[str, Any]) -> Record:
    """The record in the schema envelope."""
    payload = json.loads(record.value) if record.value else None
    return Record(record.key, json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode())


def unscaled(text: str) -> str:
    """The unscaled number of a decimal in base64, as precise mode writes it."""
    number = int(text.replace(".", ""))
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode("ascii")
