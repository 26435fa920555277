"""Kafka Connect and Debezium as a third party: events that their own classes wrote, and what each value is.

One Java process (KafkaConnect.java) serves a whole test run. Get it from the fixture `kafka_connect`:

    for case in kafka_connect.cases(decimal="NUMERIC"):
        case.event       # the envelope's bytes, as a topic has them; the row is (id, v)
        case.meaning     # what v is, whatever its encoding

A column's schema comes from the class that publishes its type, the bytes from Connect's JsonConverter; the meaning
comes from the values of java.time and java.math that the case was made of, so that it owes nothing to our readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.interop.java_process import JavaProcess

Connector = Literal["postgresql", "mysql", "mariadb", "sqlserver", "oracle"]
DecimalFormat = Literal["BASE64", "NUMERIC"]
Presence = Literal["required", "optional", "null", "default", "null-with-default"]
Form = Literal[
    "null", "boolean", "integer", "float", "decimal", "special", "text", "bytes", "bits", "date", "time", "zoned-time",
    "timestamp", "instant", "infinity", "duration", "year", "list", "map", "struct",
]  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """What a value is: a form, and the value in it.

    | form | value |
    | --- | --- |
    | `null` | None |
    | `boolean` | bool |
    | `integer`, `year` | int |
    | `duration` | int: nanoseconds |
    | `float` | float; of a FLOAT32 it is its exact value |
    | `decimal` | str: digits without an exponent, all digits of its scale |
    | `special` | str: `NAN`, `POSITIVE_INFINITY`, `NEGATIVE_INFINITY` |
    | `text` | str |
    | `bytes` | bytes |
    | `bits` | str of 0 and 1, the most significant first, as long as the column's type |
    | `date`, `time`, `timestamp` | str: ISO 8601 without a zone, at most nanoseconds |
    | `zoned-time` | str: ISO 8601 with its offset |
    | `instant` | str: ISO 8601 in UTC, with Z |
    | `infinity` | str: `infinity` or `-infinity`, PostgreSQL's dates and timestamps |
    | `list` | list of Meaning |
    | `map` | list of (Meaning, Meaning), in no order |
    | `struct` | dict of Meaning; an interval is one of years, months, days, hours, minutes and seconds |
    """

    form: Form
    value: Any

    def parts(self) -> Iterator[Meaning]:
        """This meaning and those inside it."""
        yield self
        if self.form == "list":
            inside = list(self.value)
        elif self.form == "map":
            inside = [each for pair in self.value for each in pair]
        else:
            inside = list(self.value.values()) if self.form == "struct" else []
        for each in inside:
            yield from each.parts()


@dataclass(frozen=True)
class ConnectCase:
    """A column `v` beside its key `id` (INT32) in one event: an INSERT of Debezium.

    Attributes:
        name: what the column is, e.g. `micro-timestamp`, `binary-hex`, `map of int32 to int64`.
        presence: whether its schema is optional or has a default, and what of it is there.
        semantic: name of its schema, e.g. `io.debezium.time.MicroTimestamp`; "" if it has none.
        kind: Connect's type: `int8` to `int64`, `float32`, `float64`, `boolean`, `string`, `bytes`, `array`, `map`,
            `struct`.
        id: the row's key, the number of the case in its answer from 1.
        event: what JsonConverter wrote.
        meaning: what `v` is.
        read_back: whether JsonConverter read the same value and schema from it; None where no schema is written.
    """

    name: str
    presence: Presence
    semantic: str
    kind: str
    id: int
    event: bytes
    meaning: Meaning
    read_back: bool | None

    @property
    def payload(self) -> Any:
        """The envelope's members, from an event with or without a schema."""
        document = json.loads(self.event)
        return document["payload"] if self.read_back is not None else document


class KafkaConnect(JavaProcess):
    """The Java process with Kafka Connect's and Debezium's classes."""

    def __init__(self, log: Path) -> None:
        super().__init__("KafkaConnect.java", "kafka_connect.lock", log)

    def cases(
        self,
        *,
        schemas: bool = True,
        decimal: DecimalFormat = "BASE64",
        connector: Connector = "postgresql",
        defaults: bool = True,
    ) -> list[ConnectCase]:
        """Return every kind of column with its ordinary and extreme values, each as one event.

        Args:
            schemas: `schemas.enable` of the converter: whether an event carries its schema.
            decimal: `decimal.format` of the converter.
            connector: which database's connector the events are said to come from.
            defaults: `replace.null.with.default` of the converter.
        """
        return self._cases("cases", schemas=schemas, decimal=decimal, connector=connector, defaults=defaults)

    def generated(
        self,
        seed: int,
        count: int,
        *,
        schemas: bool = True,
        decimal: DecimalFormat = "BASE64",
        connector: Connector = "postgresql",
    ) -> list[ConnectCase]:
        """Return random values of random kinds, nested two deep; four of a kind in a row."""
        return self._cases("generated", seed=seed, count=count, schemas=schemas, decimal=decimal, connector=connector)

    def published(self) -> set[str]:
        """Return the names of all semantic types that Connect's and Debezium's classes publish."""
        return set(self.ask({"operation": "published"})["names"])

    def _cases(self, operation: str, **request: Any) -> list[ConnectCase]:
        answer = self.ask({"operation": operation, **request})
        return [
            ConnectCase(
                each["name"],
                each["presence"],
                each["semantic"] or "",
                each["kind"],
                each["id"],
                each["event"].encode(),
                _meaning(each["meaning"]),
                each.get("readBack"),
            )
            for each in answer["cases"]
        ]


def _meaning(node: dict[str, Any]) -> Meaning:
    form: Form = node["form"]
    value = node["value"]
    if form in ("integer", "year", "duration"):
        value = int(value)
    elif form == "float":
        value = float(value)
    elif form == "bytes":
        value = bytes.fromhex(value)
    elif form == "list":
        value = [_meaning(each) for each in value]
    elif form == "map":
        value = [(_meaning(key), _meaning(each)) for key, each in value]
    elif form == "struct":
        value = {name: _meaning(each) for name, each in value.items()}
    return Meaning(form, value)
