"""VARIANT columns of JSON tables and tables of changes: values are those that Spark's `parse_json` makes of a text."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

from pyspark_pravega import catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.streaming.changes_streams import Target
from tests.catalog.tables.test_debezium import create_stream
from tests.catalog.tables.test_debezium import write as write_changes
from tests.catalog.tables.test_json_of_others import write
from tests.debezium import Record

EDGES = [
    "1", "-128", "128", "9223372036854775807", "9223372036854775808", "1.50", "-0.0", "1e3", "1E-400", "0.1e1",
    "12345678901234567890123456789012345678", "123456789012345678901234567890123456789", "0." + "1" * 38, "true",
    '""', '"\\u0000 \\ud83d\\ude00 ż"', f'"{"long " * 100}"', "[]", "{}", "[[[]], {}]", '{"a": null}', "[null]",
    '{"b": 1, "a": {"b": [1, "x", false, 2.5]}}', "[" + ", ".join(map(str, range(300))) + "]",
    json.dumps({f"key {number}": number for number in range(40)}),
    json.dumps({f"{name}{number}": 0 for number in range(20) for name in ("\ufb00", "é", "z")}),
    json.dumps({f"{name}{number}": 0 for number in range(20) for name in ("\U00010000", "é", "z")}),
]  # fmt: skip


def any_document(chance: random.Random, depth: int = 3) -> Any:
    """A random JSON value."""
    kind = chance.randrange(7 if depth else 5)
    if kind < 5:
        number = chance.choice([0, 1, -1, 300, 70_000, 2**40]) * chance.choice([1, 0.5])
        return (None, chance.random() < 0.5, number, chance.random() * 10 ** chance.randrange(-20, 20), "text")[kind]
    if kind == 5:
        return [any_document(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {f"k{chance.randrange(9)}": any_document(chance, depth - 1) for _ in range(chance.randrange(4))}


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.bag"
    spark.sql(f"CREATE TABLE {name} (id INT, v VARIANT, s STRING) USING pravega TBLPROPERTIES ('format'='json')")
    return name


@pytest.mark.parametrize("generated", [30, pytest.param(300, marks=pytest.mark.long)])
def test_values_are_those_of_parse_json(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, generated: int
) -> None:
    chance = random.Random(5)
    documents = EDGES + [json.dumps(any_document(chance)) for _ in range(generated)]
    spark.sql(f"INSERT INTO {table} VALUES (-1, parse_json('1'), '')")
    header = bytes(spark.sql(f"SELECT _raw FROM {table}").first()[0])[:5]
    events = [
        header + b'{"id":%d,"v":%b,"s":%b}' % (number, document.encode(), json.dumps(document).encode())
        for number, document in enumerate(documents)
    ]
    write(spark, pravega, scope, "bag", *events)
    wanted = "CASE WHEN is_variant_null(parse_json(s)) THEN NULL ELSE parse_json(s) END"
    rows = spark.sql(
        f"SELECT id, s, to_json(v) AS found, to_json({wanted}) AS wanted, schema_of_variant(v) AS kind, "
        f"schema_of_variant({wanted}) AS wanted_kind, variant_get(v, '$.k1', 'string') AS part, "
        f"variant_get({wanted}, '$.k1', 'string') AS wanted_part FROM {table} WHERE id >= 0"
    ).collect()
    assert len(rows) == len(documents)
    for row in rows:
        assert (row.found, row.kind, row.part) == (row.wanted, row.wanted_kind, row.wanted_part), row
    for name, count in (("\ufb003", 1), ("\U000100007", 1), ("z19", 2), ("é0", 2)):
        path = f"$['{name}']"
        found = spark.sql(f"SELECT id FROM {table} WHERE variant_get(v, \"{path}\", 'int') = 0").collect()
        assert len(found) == count, name


def test_keys_that_java_sorts_otherwise_are_a_bad_event(
    spark: SparkSession, pravega: Pravega, scope: str, table: str
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, NULL, '')")
    header = bytes(spark.sql(f"SELECT _raw FROM {table}").first()[0])[:5]
    write(spark, pravega, scope, "bag", header + '{"id":2,"v":[{"\ufb00":1,"\U00010000":2}]}'.encode())
    rows = spark.read.option("mode", "permissive").table(table).select("id", "_error").collect()
    assert sorted(row._error or "" for row in rows) == [
        "",
        "column 'v': no VARIANT can hold an object whose keys mix characters beyond U+FFFF with some below it",
    ]


def doubles(text: str) -> str:
    """A JSON text whose numbers with an exponent are Python's: Java before 19 shows more digits than it must."""
    return re.sub(r"-?\d+\.\d+E-?\d+", lambda found: repr(float(found[0])), text)


def written(spark: SparkSession, table: str) -> dict[int, str]:
    """The text of `v` that the event of each row has, found before the texts of `s`."""
    found = {}
    for row in spark.sql(f"SELECT id, s, _raw FROM {table} WHERE v IS NOT NULL").collect():
        event = bytes(row._raw)[5:].decode()
        found[row.id] = event.removeprefix(f'{{"id":{row.id},"v":').removesuffix(
            ',"s":' + json.dumps(row.s, ensure_ascii=False) + "}"
        )
    return found


OWN_VALUES = [
    f"parse_json(r'{text}')" for text in (
        *EDGES, "5", '"it is a text"', '[1,{"k":98765432109876543210987654321098.5}]', "0.0000001", "-0.00",
        "0.00000012345678901234567890123", "-99999999999999999999999999999999999999",
        '"\\u001f\\\\u001f\\n\\u007f\\u2028/"',
        '{"\\u0001": {"b": {"a": "it is \\u017c"}}}',
    )
] + [
    "to_variant_object(named_struct('a', DATE'2026-11-26', 'b', 1.5D))", "CAST(X'0001' AS VARIANT)",
    "CAST(TIMESTAMP_NTZ'2024-01-31 12:00:00.5' AS VARIANT)", "CAST(TIMESTAMP'2024-07-31 12:00:00.123456' AS VARIANT)",
    "CAST(TIMESTAMP'1883-11-18 12:00:00' AS VARIANT)", "CAST(DATE'-0044-03-15' AS VARIANT)",
    "CAST(DATE'+12345-01-01' AS VARIANT)", "CAST(TIMESTAMP'+12345-01-01 00:00:00' AS VARIANT)",
    *(f"CAST(CAST('{number}' AS {kind}) AS VARIANT)" for kind in ("FLOAT", "DOUBLE")
      for number in (
          "0.1", "-0.0", "1e10", "100", "9999999", "1e7", "0.001", "0.00099", "1.5e-20", "16777216", "12.75",
      )),
    "CAST(1e-7BD AS VARIANT)", "CAST(0.00000000000000000000000000000000000007BD AS VARIANT)", "NULL",
]  # fmt: skip


AGAIN = "schema_of_variant(parse_json(to_json(v)))"
"""The type of a value that has been read, and is written and read again: 1000.0 is 1000 then."""


@pytest.mark.parametrize("generated", [20, pytest.param(200, marks=pytest.mark.long)])
def test_what_is_written_is_what_to_json_says(spark: SparkSession, table: str, generated: int) -> None:
    """And what is read is what `parse_json` makes of that."""
    chance = random.Random(6)
    values = OWN_VALUES + [f"parse_json(r'{json.dumps(any_document(chance))}')" for _ in range(generated)]
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
    spark.sql(f"INSERT INTO {table} SELECT id, v, to_json(v) FROM VALUES {rows} t(id, v)")
    parsed = "CASE WHEN is_variant_null(parse_json(s)) THEN NULL ELSE parse_json(s) END"
    found = spark.sql(
        f"SELECT id, s, to_json(v) AS v, schema_of_variant(v) AS kind, to_json({parsed}) AS wanted, "
        f"schema_of_variant({parsed}) AS wanted_kind FROM {table} ORDER BY id"
    ).collect()
    assert [row.id for row in found] == list(range(len(values)))
    texts = written(spark, table)
    for row in found:
        assert (row.v, row.kind) == (row.wanted, row.wanted_kind), (row, values[row.id])
        assert doubles(texts.get(row.id, "null")) == doubles(row.s or "null"), (row, values[row.id])
    assert len(texts) > len(values) / 2


def test_rows_are_copied_as_they_are(spark: SparkSession, scope: str, table: str) -> None:
    rows = ", ".join(f"({number}, parse_json(r'{text}'))" for number, text in enumerate(EDGES))
    spark.sql(f"INSERT INTO {table} SELECT id, v, to_json(v) FROM VALUES {rows} t(id, v)")
    copy = f"pravega.`{scope}`.copy"
    spark.sql(f"CREATE TABLE {copy} LIKE {table}")
    spark.sql(f"INSERT INTO {copy} SELECT * FROM {table}")
    shown = spark.sql(f"SELECT id, to_json(v), {AGAIN} FROM {table} ORDER BY id").collect()
    assert written(spark, copy) == {row[0]: row[1] for row in shown if row[1] is not None}
    assert spark.sql(f"SELECT id, to_json(v), schema_of_variant(v) FROM {copy} ORDER BY id").collect() == shown


def test_rows_of_key_value_tables_stay_as_they_are(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.held"
    columns, properties = "id INT, v VARIANT, n INT", "'format'='kvtable', 'primary-key'='id', 'value-format'='json'"
    spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({properties})")
    rows = ", ".join(f"({number}, parse_json(r'{text}'), 0)" for number, text in enumerate(EDGES))
    spark.sql(f"INSERT INTO {table} VALUES {rows}")
    query = f"SELECT id, to_json(v), schema_of_variant(v), n FROM {table} ORDER BY id"
    before = spark.sql(f"SELECT id, to_json(v), {AGAIN} FROM {table} ORDER BY id").collect()
    spark.sql(f"UPDATE {table} SET n = 1")
    after = spark.sql(query).collect()
    assert after == [(*row, 1) for row in before] and len(after) == len(EDGES)
    with pytest.raises(PySparkException, match="column 'v' is a VARIANT whose .* more than 511 levels deep"):
        spark.sql(f"UPDATE {table} SET v = parse_json('{'[' * 512}{']' * 512}') WHERE id = 1")
    assert spark.sql(query).collect() == after


def test_instants_are_written_in_utc(spark: SparkSession, table: str) -> None:
    """Whatever the session's time zone is, as those of TIMESTAMP columns are."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        spark.sql(
            f"INSERT INTO {table} VALUES (1, CAST(TIMESTAMP'2024-01-31 12:00:00.5' AS VARIANT), ''), "
            "(2, CAST(TIMESTAMP_NTZ'2024-01-31 12:00:00.5' AS VARIANT), '')"
        )
        assert written(spark, table) == {1: '"2024-01-31 17:00:00.5+00:00"', 2: '"2024-01-31 12:00:00.5"'}
        instant = "v::timestamp = TIMESTAMP'2024-01-31 12:00:00.5'"
        assert spark.sql(f"SELECT id FROM {table} WHERE {instant} ORDER BY id").collect() == [(1,), (2,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_values_that_could_not_be_read_are_refused(spark: SparkSession, scope: str, table: str) -> None:
    one, too_deep = "\ufb00", "[" * 512 + "]" * 512
    for value, words in (
        ("CAST('NaN' AS DOUBLE)", "has no JSON .it holds NaN"),
        ("CAST('-Infinity' AS FLOAT)", "has no JSON .it holds infinity"),
        (f'parse_json(\'[{{"{one}": 1, "\U00010000": 2}}]\')', "could not be read back .*keys mix characters"),
        (f"parse_json('{too_deep}')", "whose arrays and objects are nested more than 511 levels deep"),
    ):
        with pytest.raises(PySparkException, match=f"column 'v' is a VARIANT (that )?{words}"):
            spark.sql(f"INSERT INTO {table} VALUES (9, CAST({value} AS VARIANT), '')")
    spark.sql(f"INSERT INTO {table} VALUES (1, parse_json('{too_deep[1:-1]}'), '')")
    assert [row.v for row in spark.sql(f"SELECT to_json(v) AS v FROM {table}").collect()] == [too_deep[1:-1]]
    required = f"pravega.`{scope}`.required"
    spark.sql(f"CREATE TABLE {required} (v VARIANT NOT NULL) TBLPROPERTIES ('format'='json')")
    with pytest.raises(PySparkException, match="column 'v' is null, but the column is NOT NULL"):
        spark.sql(f"INSERT INTO {required} VALUES (parse_json('null'))")
    assert spark.table(required).count() == 0


def test_nested_required_and_added(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.nested"
    columns = "id INT, v VARIANT NOT NULL, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, s STRUCT<x: VARIANT>"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ('format'='json')")
    before = spark.table(table).schema.simpleString()
    one = "parse_json('[1]')"
    spark.sql(f"INSERT INTO {table} VALUES (1, {one}, array({one}, NULL), map('k', {one}), named_struct('x', {one}))")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more VARIANT")
    assert spark.table(table).schema.simpleString().startswith(before[:-1])
    row = spark.sql(f"SELECT to_json(v), to_json(l), to_json(m), to_json(s), more FROM {table}").first()
    assert tuple(row) == ("[1]", "[[1],null]", '{"k":[1]}', '{"x":[1]}', None)
    shown = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "v VARIANT NOT NULL" in shown and "l ARRAY<VARIANT>" in shown


def test_streams_and_python(
    spark: SparkSession, scope: str, table: str, client_config: ClientConfig, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, parse_json(concat('{{\"n\":', id, '}}')), '' FROM range(50)")
    copy = f"pravega.`{scope}`.copy"
    spark.sql(f"CREATE TABLE {copy} LIKE {table}")
    query = (
        spark.readStream.table(table)
        .where("variant_get(v, '$.n', 'int') % 2 = 0")
        .writeStream.option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .toTable(copy)
    )
    query.awaitTermination()
    assert spark.sql(f"SELECT sum(v:n::int), count(*) FROM {copy}").first()[:] == (600, 25)
    uris = {"controller_uri": client_config.controller_uri, "schema_registry_uri": client_config.registry_uri}
    with catalog.connect(**uris) as pravega:
        rows = pravega.load_table(f"{scope}.copy").scan(["v"]).to_arrow()["v"].to_pylist()
    numbers = sorted(VariantVal(row["value"], row["metadata"]).toPython()["n"] for row in rows)
    assert numbers == list(range(0, 50, 2))


OLD, NEW = (1, '{"n": [1, 2.50]}', None), (1, '{"n": [3], "ż": null}', {"x": {"y": 1}})


def change(operation: str, before: Any, after: Any) -> Record:
    """A change of a row of `carts`."""
    names = ("id", "v", "s")
    rows = [None if row is None else dict(zip(names, row, strict=True)) for row in (before, after)]
    return Record("1", json.dumps({"before": rows[0], "after": rows[1], "op": operation, "ts_ms": 1}).encode())


@pytest.fixture
def carts(spark: SparkSession, pravega: Pravega, scope: str) -> str:
    """A table of changes with a row that was updated, and another one."""
    stream = Stream(scope, "carts")
    create_stream(pravega, stream, 1)
    table = f"pravega.`{scope}`.carts"
    columns = "id INT, v VARIANT, s STRUCT<x: VARIANT>"
    spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    write_changes(pravega, stream, [change("c", None, OLD), change("u", OLD, NEW), change("c", None, (2, "5", None))])
    return table


def test_tables_of_changes(spark: SparkSession, pravega: Pravega, scope: str, carts: str) -> None:
    spark.sql(f"INSERT INTO {carts} VALUES (3, parse_json('\"it is a text\"'), NULL), (4, NULL, NULL)")
    query = f"SELECT id, to_json(v) AS v, schema_of_variant(v) AS kind, s.x:y::int AS y FROM {carts} ORDER BY id"
    assert spark.sql(query).collect() == [
        (1, '{"n":[3],"ż":null}', "OBJECT<n: ARRAY<BIGINT>, `ż`: VOID>", 1),
        (2, "5", "BIGINT", None),
        (3, '"it is a text"', "STRING", None),
        (4, None, None, None),
    ]
    assert spark.sql(f"SELECT id FROM {carts} WHERE v:n[0]::int = 3").collect() == [(1,)]
    log = f"pravega.`{scope}`.`carts$changelog`"
    found = spark.sql(f"SELECT to_json(before.v), to_json(after.v) FROM {log} WHERE op = 'u'").collect()
    assert found == [('{"n":[1,2.5]}', '{"n":[3],"ż":null}')]
    write_changes(pravega, Stream(scope, "carts"), [change("d", NEW, None), change("c", None, (5, "no JSON", None))])
    with pytest.raises(PySparkException, match="the string 'no JSON' is not JSON"):
        spark.sql(query).collect()
    rows = spark.sql(f"SELECT id FROM {carts} WITH ('mode'='dropmalformed') ORDER BY id").collect()
    assert rows == [(2,), (3,), (4,)]
    with pytest.raises(PySparkException, match="(?s)'primary-key' names the column v of type variant, whose values"):
        spark.sql(f"CREATE TABLE {carts}2 (v VARIANT) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='v')")


def test_streams_of_changes(spark: SparkSession, pravega: Pravega, scope: str, carts: str, tmp_path: Path) -> None:
    """What was known of a row at the end of a batch comes back with its deletion in the next one."""
    target = Target(spark, tmp_path)
    changes = spark.readStream.changes(carts).selectExpr("id", "to_json(v) AS v", "_change_type AS kind")
    target.take(changes)
    values = {(1, '{"n":[1,2.5]}'), (1, '{"n":[3],"ż":null}'), (2, "5")}
    assert {(row["id"], row["v"]) for row in target.rows()} == values
    write_changes(pravega, Stream(scope, "carts"), [change("d", NEW, None)])
    target.take(changes)
    assert [(row["id"], row["v"]) for row in target.rows() if row["kind"] == "delete"] == [(1, '{"n":[3],"ż":null}')]


def test_rows_without_a_key_are_compared_by_their_values(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    stream = Stream(scope, "bags")
    create_stream(pravega, stream, 1)
    table = f"pravega.`{scope}`.bags"
    spark.sql(f"CREATE TABLE {table} (v VARIANT) TBLPROPERTIES ('format'='debezium-json')")
    rows = ['{"a": 1, "b": 2}', '{"a": 1, "b": 2}', "[1]", None]
    events = [{"before": None, "after": {"v": text}, "op": "c"} for text in rows]
    events.append({"before": {"v": '{"a": 1,"b": 2}'}, "after": None, "op": "d"})
    events.append({"before": {"v": "[1]"}, "after": {"v": "[2]"}, "op": "u"})
    write_changes(pravega, stream, [Record("k", json.dumps(event).encode()) for event in events])
    found = spark.sql(f"SELECT to_json(v) AS v FROM {table}").collect()
    assert sorted(str(row.v) for row in found) == ["None", "[2]", '{"a":1,"b":2}']


def test_other_formats_refuse_it(spark: SparkSession, scope: str) -> None:
    for format, more in (("avro", ""), ("debezium-avro", ", 'primary-key'='id'"), ("csv", "")):
        with pytest.raises(PySparkException, match="PRAVEGA_UNSUPPORTED_TYPE.*'v'"):
            spark.sql(
                f"CREATE TABLE pravega.`{scope}`.no (id INT, v VARIANT) USING pravega "
                f"TBLPROPERTIES ('format'='{format}'{more})"
            )
