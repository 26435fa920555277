"""The oracle of Kafka Connect and Debezium itself: it knows every type, and Connect reads what it wrote."""

from __future__ import annotations

import json

import pytest

from tests.interop.kafka_connect import ConnectCase, DecimalFormat, KafkaConnect

NOT_NUMBERS = ("float-not-finite", "debezium-decimal-double")
"""Kinds with values such as NaN, which Connect writes as texts; its own reader takes those for 0."""


def _row(case: ConnectCase) -> dict[str, object]:
    row: dict[str, object] = case.payload["after"]
    return row


def test_every_published_type_has_cases(kafka_connect: KafkaConnect) -> None:
    published = kafka_connect.published()
    assert len(published) == 35
    assert published - {case.semantic for case in kafka_connect.cases()} == set()


@pytest.mark.parametrize("decimal", ["BASE64", "NUMERIC"])
def test_connect_reads_back(kafka_connect: KafkaConnect, decimal: DecimalFormat) -> None:
    cases = kafka_connect.cases(decimal=decimal) + kafka_connect.generated(1, 300, decimal=decimal)
    wrong = {case.name for case in cases if not case.read_back}
    assert [name for name in wrong if not any(kind in name for kind in NOT_NUMBERS)] == []
    assert sum(case.read_back is True for case in cases) > 1500


def test_values_are_written_as_their_modes_say(kafka_connect: KafkaConnect) -> None:
    rows = {(case.name, case.presence): _row(case)["v"] for case in reversed(kafka_connect.cases())}
    assert rows["binary-bytes", "required"] == "+/8A"
    assert rows["binary-base64", "required"] == "+/8A"
    assert rows["binary-base64-url-safe", "required"] == "-_8A"
    assert rows["binary-hex", "required"] == "fbff00"
    assert rows["debezium-decimal-precise", "required"] == "AJY="
    assert rows["debezium-decimal-double", "required"] == 1.5
    assert rows["debezium-decimal-string", "required"] == "1.50"
    assert rows["iso-date", "required"] == "2024-01-31Z"
    assert rows["map of int32 to int64", "required"] == [
        [70000, 5000000000], [0, None], [-70000, -5000000000], [-(2**31), -(2**63)], [2**31 - 1, 2**63 - 1],
    ]  # fmt: skip
    assert rows["date", "null"] is None
    assert rows["date", "null-with-default"] == rows["date", "required"] == 19753
    numeric = {(case.name, case.presence): case.event for case in reversed(kafka_connect.cases(decimal="NUMERIC"))}
    assert b',"v":1.50}' in numeric["decimal-12-2", "required"]


def test_without_schemas_the_rows_are_the_same(kafka_connect: KafkaConnect) -> None:
    with_schema, without = kafka_connect.cases(), kafka_connect.cases(schemas=False)
    assert all(json.loads(case.event).keys() >= {"schema", "payload"} for case in with_schema)
    assert all("schema" not in json.loads(case.event) for case in without)
    assert [case.payload for case in with_schema] == [case.payload for case in without]
    assert {case.payload["source"]["connector"] for case in kafka_connect.cases(connector="oracle")} == {"oracle"}


def test_nulls_stay_null_where_defaults_do_not_replace_them(kafka_connect: KafkaConnect) -> None:
    cases = [case for case in kafka_connect.cases(defaults=False) if case.presence == "null-with-default"]
    assert len(cases) > 100
    assert all(_row(case)["v"] is None and case.meaning.form == "null" for case in cases)
