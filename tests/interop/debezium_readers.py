"""Readers of Debezium's events as a third party: the classes of Flink, of Debezium's sinks and of Kafka Connect.

One Java process (DebeziumReaders.java) serves a whole test run. Get it from the fixture `debezium_readers`. Each reader
takes events in their order, and folds what it makes of them to the rows that a table would have there:

    rows = debezium_readers.flink(table, events, "json")

The values are those of PyArrow's `to_pylist`; floats are texts, so that NaN equals itself.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyspark.sql.types as T

from tests.interop.java_process import JavaProcess

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""Rows by their keys."""

_EPOCH = dt.datetime(1970, 1, 1)
_FLINK = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INT", "bigint": "BIGINT", "boolean": "BOOLEAN",
    "float": "FLOAT", "double": "DOUBLE", "string": "STRING", "binary": "BYTES", "timestamp_ntz": "BIGINT",
}  # fmt: skip
_FLINK_JSON = _FLINK | {"date": "INT", "timestamp": "TIMESTAMP_LTZ(6)"}
_FLINK_AVRO = _FLINK | {"date": "DATE", "timestamp": "BIGINT"}
"""Debezium's numbers are declared as what they are where Flink's format has texts, or milliseconds only."""

_CONNECT = {
    "tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "boolean": "boolean",
    "float": "float", "double": "double", "string": "string", "binary": "bytes", "date": "int32 io.debezium.time.Date",
    "timestamp": "string io.debezium.time.ZonedTimestamp", "timestamp_ntz": "int64 io.debezium.time.MicroTimestamp",
}  # fmt: skip
"""Kafka Connect's types and their meanings."""


@dataclass(frozen=True)
class ReadTable:
    """What a reader is told of a table: its columns, its key, and the schema of its envelopes in Avro."""

    columns: T.StructType
    key: Sequence[str]
    schema: str = ""


class DebeziumReaders(JavaProcess):
    """The Java process with the readers' classes."""

    def __init__(self, log: Path) -> None:
        super().__init__("DebeziumReaders.java", "debezium_readers.lock", log)

    def flink(self, table: ReadTable, events: Sequence[bytes], format: Literal["json", "avro"]) -> Rows:
        """Fold what Flink's `debezium-json` or `debezium-avro-confluent` reads.

        A change takes back the very row that is there, on which Flink's own aggregates rely; a creation may replace it.
        """
        row = _declare(table.columns, _FLINK_JSON if format == "json" else _FLINK_AVRO)
        rows: Rows = {}
        for kind, values in self._ask(f"flink-{format}", table, events, row=row):
            found = convert(values, table.columns)
            key = _key(found, table)
            if kind in ("-U", "-D"):
                assert rows.pop(key) == found
            else:
                assert kind == "+I" or key not in rows
                rows[key] = found
        return rows

    def connect(self, table: ReadTable, events: Sequence[bytes], reader: Literal["sink", "unwrap"]) -> Rows:
        """Fold what Debezium's sinks, or others behind ExtractNewRecordState, take from records of Kafka Connect."""
        keys = T.StructType([table.columns[name] for name in table.key])
        rows: Rows = {}
        for key, values in self._ask(reader, table, events, key=list(table.key)):
            place = tuple(convert(key, keys).values())
            if values is None:
                del rows[place]
            else:
                rows[place] = convert(values, table.columns)
                assert _key(rows[place], table) == place
        return rows

    def jdbc(
        self, table: ReadTable, events: Sequence[bytes], format: Literal["json", "avro"], settings: Mapping[str, str]
    ) -> Rows:
        """Have Debezium's JDBC sink write the events into a table of PostgreSQL, and return what is in it then.

        `settings` are the connector's, among them the database's URL and the table's name.
        """
        columns = ", ".join(map(_select, table.columns.fields))
        query = f'SELECT json_build_array({columns}) FROM "{settings["collection.name.format"]}"'
        answer = self._ask(f"jdbc-{format}", table, events, key=list(table.key), settings=settings, query=query)
        rows = [convert(values, table.columns) for values in answer]
        assert len(rows) == len({_key(row, table) for row in rows})
        return {_key(row, table): row for row in rows}

    def _ask(self, operation: str, table: ReadTable, events: Sequence[bytes], **more: Any) -> list[Any]:
        listed = [event.hex() for event in events]
        answer = self.ask({"operation": operation, "events": listed, "schema": table.schema, **more})
        changes: list[Any] = answer["changes"]
        return changes


def describe_events(columns: T.StructType) -> str:
    """Return the schema of Kafka Connect for a table's events in JSON, as its converter's `schema.content` takes it."""
    fields = [{"field": field.name, **_describe(field.dataType, field.nullable)} for field in columns.fields]
    images = [{"field": name, "type": "struct", "optional": True, "fields": fields} for name in ("before", "after")]
    envelope = [*images, {"field": "op", "type": "string", "optional": False}]
    return json.dumps({"type": "struct", "name": "t.Envelope", "optional": False, "fields": envelope})


def show_floats(value: Any) -> Any:
    """Return a value of `to_pylist` with texts for floats."""
    if isinstance(value, dict):
        return {name: show_floats(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(show_floats(each) for each in value)
    return str(value) if isinstance(value, float) else value


def _key(row: dict[str, Any], table: ReadTable) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)


def _declare(data_type: T.DataType, names: dict[str, str]) -> str:
    """The type in Flink's SQL."""
    match data_type:
        case T.StructType():
            nulls = {True: "", False: " NOT NULL"}
            fields = [f"`{f.name}` {_declare(f.dataType, names)}{nulls[f.nullable]}" for f in data_type.fields]
            return f"ROW<{', '.join(fields)}>"
        case T.ArrayType():
            return f"ARRAY<{_declare(data_type.elementType, names)}>"
        case T.MapType():
            return f"MAP<STRING, {_declare(data_type.valueType, names)}>"
        case T.DecimalType():
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return names[data_type.simpleString()]


def _describe(data_type: T.DataType, nullable: bool) -> dict[str, Any]:
    """The schema of Kafka Connect for a type's values in JSON."""
    match data_type:
        case T.ArrayType():
            schema = {"type": "array", "items": _describe(data_type.elementType, data_type.containsNull)}
        case T.DecimalType():
            digits = {"scale": str(data_type.scale), "connect.decimal.precision": str(data_type.precision)}
            schema = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": digits}
        case _:
            kind, _, name = _CONNECT[data_type.simpleString()].partition(" ")
            schema = {"type": kind, "name": name} if name else {"type": kind}
    return {**schema, "optional": nullable}


def _select(field: T.StructField) -> str:
    """PostgreSQL's expression for what `convert` takes."""
    match field.dataType:
        case T.ArrayType():
            return f'to_json("{field.name}")'
        case T.BinaryType():
            return f"encode(\"{field.name}\", 'hex')"
    return f'"{field.name}"::text'


def convert(shown: Any, data_type: T.DataType) -> Any:
    """Return the value that Java has shown."""
    match data_type:
        case _ if shown is None:
            return None
        case T.StructType():
            pairs = zip(data_type.fields, shown, strict=True)
            return {field.name: convert(value, field.dataType) for field, value in pairs}
        case T.ArrayType():
            return [convert(value, data_type.elementType) for value in shown]
        case T.MapType():
            keys, values = shown
            return sorted(zip(keys, [convert(value, data_type.valueType) for value in values], strict=True))
        case T.BooleanType():
            return {"true": True, "false": False}[shown]
        case T.IntegralType():
            return int(shown)
        case T.FloatType():
            return str(float(np.float32(shown)))
        case T.DoubleType():
            return str(float(shown))
        case T.DecimalType():
            return Decimal(shown)
        case T.BinaryType():
            return bytes.fromhex(shown)
        case T.DateType():
            return _read_time(shown, dt.timedelta(days=1)).date()
        case T.TimestampNTZType():
            return _read_time(shown, dt.timedelta(microseconds=1))
        case T.TimestampType():
            return _read_time(shown, dt.timedelta(microseconds=1)).replace(tzinfo=dt.UTC)
    return shown


def _read_time(shown: str, unit: dt.timedelta) -> dt.datetime:
    """The time of ISO 8601 in UTC, or of a number of units since 1970."""
    if shown.lstrip("-").isdigit():
        return _EPOCH + int(shown) * unit
    return dt.datetime.fromisoformat(shown).replace(tzinfo=None)
