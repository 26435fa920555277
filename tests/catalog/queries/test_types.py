"""Every Spark type that a format holds comes back exactly; the others are refused when the table is made."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.formats.core.spark_types import DEEPEST
from pyspark_pravega.local.state import ClusterInfo
from tests.formats.strategies import same

FORMATS = ("avro", "json")
JSON_AT_LENGTH = ("avro", pytest.param("json", marks=pytest.mark.long))
AVRO_AT_LENGTH = (pytest.param("avro", marks=pytest.mark.long), "json")
UTC = datetime.UTC
INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
TEXTS = [
    "",
    "żółć ß 日本 🎉",
    'quote " back \\ slash / \b\f\n\r\t',
    "\x00\x01\x1f\x7f\u2028\ufeff",
    "null",
    "x" * 20_000,
]
DOUBLES = [0.0, -0.0, 0.1, 1e21, 5e-324, math.nan, math.inf, -math.inf, 9007199254740993.0]
INSTANTS = [
    datetime.datetime(1, 1, 1, tzinfo=UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime.datetime(1582, 10, 10, 1, 2, 3, 4, UTC),
    datetime.datetime(1890, 1, 1, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 12, 34, 56, 123456, INDIA),
    datetime.datetime(1970, 1, 1, tzinfo=UTC),
]
SIMPLE: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-(2**7), 2**7 - 1, 0],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, 2**53 + 1],
    "float": [0.0, -0.0, 0.10000000149011612, math.nan, math.inf, -math.inf, 2.0**-149, 3.4028234663852886e38],
    "double": [*DOUBLES, 1.7976931348623157e308, -2.2250738585072014e-308],
    "decimal(38,18)": [Decimal(f"{sign}{'9' * 20}.{'9' * 18}") for sign in ("", "-")] + [Decimal("-1E-18"), Decimal(0)],
    "decimal(38,0)": [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(7)],
    "decimal(5,2)": [Decimal("-999.99"), Decimal("0.10"), Decimal("-0.01")],
    "decimal(38,38)": [Decimal(f"0.{'9' * 38}"), Decimal("-1E-38")],
    "string": TEXTS,
    "string collate UNICODE_CI": ["Äpfel", "äPFEL"],
    "binary": [b"", bytes(range(256)), b"\x00"],
    "date": [
        datetime.date(1, 1, 1),
        datetime.date(9999, 12, 31),
        datetime.date(1969, 12, 31),
        datetime.date(1582, 10, 15),
    ],
    "timestamp": INSTANTS,
    "timestamp_ntz": [instant.replace(tzinfo=None) for instant in INSTANTS],
}
NESTED: dict[str, list[Any]] = {
    "array<int>": [[], [1, None, -3], [None]],
    "array<array<string>>": [[], [None, [], [None, "é"]]],
    "array<struct<a:int,b:string>>": [[None, Row(a=None, b=None), Row(a=1, b="x")]],
    "map<string,double>": [{}, {"": None, "ключ": math.nan, 'a"b\\': -0.0}],
    "map<string,array<decimal(10,2)>>": [{"a": [Decimal("-1.50"), None], "b": None, "c": []}],
    "map<string,map<string,boolean>>": [{"a": {"b": True, "c": None}, "d": {}, "e": None}],
    "map<string,struct<d:date,bin:binary>>": [{"a": Row(d=datetime.date(1, 1, 1), bin=b"\xff"), "b": None}],
    "struct<a:int,b:struct<c:string,d:array<timestamp>,e:map<string,timestamp_ntz>>>": [
        Row(a=1, b=Row(c="x", d=[INSTANTS[2], None], e={"k": datetime.datetime(1, 1, 1), "n": None})),
        Row(a=None, b=Row(c=None, d=None, e=None)),
        Row(a=None, b=None),
    ],
    "struct<t:tinyint,f:float>": [Row(t=-128, f=math.inf), Row(t=None, f=-0.0)],
}


@pytest.fixture
def namespace(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """A namespace of its own, dropped with all its tables."""
    spark.sql(f"CREATE NAMESPACE pravega.{fresh_name}")
    yield f"pravega.{fresh_name}"
    spark.sql(f"DROP NAMESPACE pravega.{fresh_name} CASCADE")


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows by the column `row`, exactly: Arrow keeps microseconds, years and the sign of zero."""
    return sorted(frame.toArrow().to_pylist(), key=lambda row: int(row["row"]))


def assert_same_rows(found: DataFrame, wanted: DataFrame) -> None:
    left, right = rows_of(found), rows_of(wanted)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name in other:
            assert same(one[name], other[name]), (name, one[name], other[name])


def source_of(spark: SparkSession, types: dict[str, list[Any]]) -> DataFrame:
    """A column `cN` for each type, its values from the first row on, then null; the last row is all null."""
    count = max(map(len, types.values())) + 1
    columns = [values + [None] * (count - len(values)) for values in types.values()]
    schema = ", ".join(["row INT NOT NULL", *(f"c{number} {name}" for number, name in enumerate(types))])
    return spark.createDataFrame([(number, *row) for number, row in enumerate(zip(*columns, strict=True))], schema)


def create(spark: SparkSession, table: str, format_name: str, columns: str) -> None:
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ('format'='{format_name}')")


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_type_comes_back_exactly(spark: SparkSession, namespace: str, format_name: str) -> None:
    types = SIMPLE | NESTED
    source = source_of(spark, types)
    create(
        spark,
        f"{namespace}.t",
        format_name,
        ", ".join(["row INT NOT NULL", *(f"c{number} {name}" for number, name in enumerate(types))]),
    )
    table = spark.table(f"{namespace}.t")
    assert table.schema == source.schema
    source.createOrReplaceTempView("source")
    spark.sql(f"INSERT INTO {namespace}.t SELECT * FROM source")
    assert_same_rows(table, source)
    # Columns for themselves too: what is decoded depends on what is asked for.
    for number, name in enumerate(types):
        if name in NESTED:
            assert_same_rows(table.select("row", f"c{number}"), source.select("row", f"c{number}"))


@pytest.mark.parametrize("format_name", AVRO_AT_LENGTH)
def test_char_and_varchar(spark: SparkSession, cluster: ClusterInfo, namespace: str, format_name: str) -> None:
    table = f"{namespace}.t"
    create(spark, table, format_name, "c CHAR(4), v VARCHAR(4), a ARRAY<VARCHAR(2)>, s STRUCT<c: CHAR(3)>")
    described = [tuple(row)[:2] for row in spark.sql(f"DESCRIBE TABLE {table}").collect()][:4]
    assert described == [("c", "char(4)"), ("v", "varchar(4)"), ("a", "array<varchar(2)>"), ("s", "struct<c:char(3)>")]
    spark.sql(f"INSERT INTO {table} VALUES ('é', 'abcd', array('xy', NULL), struct('z')), (NULL, '', NULL, NULL)")
    rows = spark.sql(f"SELECT c, v, a, s.c FROM {table} ORDER BY v").collect()
    assert [tuple(row) for row in rows] == [(None, "", None, None), ("é   ", "abcd", ["xy", None], "z  ")]
    assert spark.sql(f"SELECT v FROM {table} WHERE c = 'é'").first()[0] == "abcd"
    for row in ("('abcde', '', NULL, NULL)", "('', 'abcde', NULL, NULL)", "('', '', array('xyz'), NULL)"):
        with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
            spark.sql(f"INSERT INTO {table} VALUES {row}")
    assert spark.table(table).count() == 2

    # Without catalog they are plain strings.
    _, scope, name = table.split(".")
    options = {"scope": scope, "stream": name, "controller-uri": str(cluster.controller_uri)}
    reader = spark.read.format("pravega").options(**options, **{"schema-registry-uri": str(cluster.registry_uri)})
    assert [tuple(row) for row in reader.load().where("c IS NOT NULL").select("c", "s.c").collect()] == [
        ("é   ", "z  ")
    ]


@pytest.mark.parametrize("format_name", JSON_AT_LENGTH)
def test_not_null_and_comments(spark: SparkSession, namespace: str, format_name: str) -> None:
    table = f"{namespace}.t"
    create(
        spark,
        table,
        format_name,
        "k STRING NOT NULL COMMENT 'the \"key\" ß', v INT COMMENT '', w DOUBLE, "
        "s STRUCT<a: INT NOT NULL COMMENT 'inner', b: STRUCT<c: DATE NOT NULL>> NOT NULL COMMENT 'outer'",
    )
    described = {row[0]: (row[1], row[2]) for row in spark.sql(f"DESCRIBE TABLE {table}").collect()}
    assert described["k"] == ("string", 'the "key" ß')
    assert described["w"][0] == "double"
    assert described["s"][1] == "outer"
    schema = spark.table(table).schema
    assert [field.nullable for field in schema] == [False, True, True, False]
    inner = schema["s"].dataType
    assert isinstance(inner, StructType)
    assert inner["a"] == StructField("a", inner["a"].dataType, False, {"comment": "inner"})
    assert isinstance(inner["b"].dataType, StructType)
    assert (inner["b"].nullable, inner["b"].dataType["c"].nullable) == (True, False)
    (statement,) = spark.sql(f"SHOW CREATE TABLE {table}").first()
    assert "NOT NULL COMMENT 'the \"key\" ß'" in statement

    spark.sql(f"INSERT INTO {table} VALUES ('a', NULL, 1, named_struct('a', 1, 'b', NULL))")
    for row in (
        "(NULL, 1, 1, named_struct('a', 1, 'b', NULL))",
        "('b', 1, 1, NULL)",
        "('b', 1, 1, named_struct('a', CAST(NULL AS INT), 'b', NULL))",
        "('b', 1, 1, named_struct('a', 1, 'b', named_struct('c', CAST(NULL AS DATE))))",
    ):
        with pytest.raises(PySparkException, match="NOT_NULL_ASSERT_VIOLATION|CANNOT_WRITE_NULL|NULLABLE|null"):
            spark.sql(f"INSERT INTO {table} VALUES {row}")
    assert [tuple(row) for row in spark.sql(f"SELECT k, v, w, s.a, s.b FROM {table}").collect()] == [
        ("a", None, 1.0, 1, None)
    ]


@pytest.mark.parametrize("format_name", JSON_AT_LENGTH)
def test_the_session_time_zone_does_not_move_instants(spark: SparkSession, namespace: str, format_name: str) -> None:
    table = f"{namespace}.t"
    create(spark, table, format_name, "i TIMESTAMP, n TIMESTAMP_NTZ, d DATE, s STRUCT<i: TIMESTAMP>")
    micros = "SELECT unix_micros(i), CAST(n AS STRING), CAST(d AS STRING), unix_micros(s.i)"
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
        instant = "TIMESTAMP'1950-07-01 00:00:00.000001'"
        spark.sql(
            f"INSERT INTO {table} VALUES ({instant}, TIMESTAMP_NTZ'2024-03-10 02:30:00.5', DATE'2024-03-10', "
            f"named_struct('i', {instant}))"
        )
        expected = spark.sql(f"SELECT unix_micros({instant})").first()[0]
        here = spark.sql(f"{micros}, CAST(i AS STRING) FROM {table}").first()
        assert here[4] == "1950-07-01 00:00:00.000001"
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        there = spark.sql(f"{micros} FROM {table}").first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert tuple(there) == tuple(here)[:4] == (expected, "2024-03-10 02:30:00.5", "2024-03-10", expected)


@pytest.mark.parametrize("format_name", AVRO_AT_LENGTH)
def test_only_the_nested_fields_that_are_asked_for_are_read(
    spark: SparkSession, namespace: str, format_name: str
) -> None:
    table = f"{namespace}.t"
    columns = "id INT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: DOUBLE>>, l ARRAY<STRUCT<x: INT, y: STRING>>"
    create(spark, table, format_name, columns)
    spark.sql(
        f"INSERT INTO {table} VALUES "
        "(1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 0.5)), array(named_struct('x', 7, 'y', 'z'))), "
        "(2, named_struct('a', 2, 'b', NULL), array(NULL)), (3, NULL, NULL)"
    )
    query = spark.sql(f"SELECT s.b.c, l.y FROM {table} WHERE id > 0")
    assert sorted(map(tuple, query.collect()), key=str) == [("x", ["z"]), (None, None), (None, [None])]
    leaves = query._jdf.queryExecution().optimizedPlan().collectLeaves()
    asked = leaves.head().scan().readSchema().simpleString()
    assert asked == "struct<s:struct<b:struct<c:string>>,l:array<struct<y:string>>>"  # tasks evaluate the condition
    assert [tuple(row) for row in spark.sql(f"SELECT s.b.d FROM {table} WHERE s.a = 1").collect()] == [(0.5,)]
    assert spark.sql(f"SELECT count(s.b), count(s) FROM {table}").first()[:] == (1, 2)


def nested(levels: int) -> tuple[str, str]:
    """A type of so many structs inside one another, and the SQL of its value with 7 in the innermost."""
    data_type, value = "INT", "7"
    for _ in range(levels):
        data_type, value = f"STRUCT<a: {data_type}>", f"named_struct('a', {value})"
    return data_type, value


@pytest.mark.parametrize("format_name", JSON_AT_LENGTH)
def test_the_deepest_types(spark: SparkSession, namespace: str, format_name: str) -> None:
    data_type, value = nested(DEEPEST)
    create(spark, f"{namespace}.deepest", format_name, f"s {data_type}")
    spark.sql(f"INSERT INTO {namespace}.deepest VALUES ({value})")
    row: Any = spark.table(f"{namespace}.deepest").collect()[0]
    for _ in range(DEEPEST + 1):
        (row,) = row
    assert row == 7
    maps = "MAP<STRING, " * (DEEPEST // 2)
    for deeper in (nested(DEEPEST + 1)[0], nested(250)[0], f"{maps} ARRAY<INT> {'>' * (DEEPEST // 2)}"):
        with pytest.raises(PySparkException, match=f"Column 's' has a type nested more than {DEEPEST} levels deep"):
            create(spark, f"{namespace}.deeper", format_name, f"id INT, s {deeper}")
    create(spark, f"{namespace}.maps", format_name, f"m {maps} INT {'>' * (DEEPEST // 2)}")
    assert spark.table(f"{namespace}.maps").collect() == []
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["deepest", "maps"]


REFUSED = [
    "INTERVAL DAY TO SECOND",
    "INTERVAL YEAR TO MONTH",
    "VARIANT",
    "VOID",
    "MAP<INT, STRING>",
    "MAP<BINARY, INT>",
    "ARRAY<INTERVAL HOUR>",
    "STRUCT<x: ARRAY<VARIANT>>",
    "MAP<STRING, MAP<DATE, INT>>",
]


@pytest.mark.parametrize("format_name", AVRO_AT_LENGTH)
def test_other_types_are_refused_by_the_name_of_their_column(
    spark: SparkSession, namespace: str, format_name: str
) -> None:
    messages = {}
    refused = [data_type for data_type in REFUSED if format_name != "json" or "VARIANT" not in data_type]
    for number, data_type in enumerate(refused):
        with pytest.raises(PySparkException) as error:
            create(spark, f"{namespace}.t{number}", format_name, f"good INT, c{number} {data_type}")
        messages[data_type] = str(error.value)
    for number, data_type in enumerate(refused):
        assert f"column 'c{number}" in messages[data_type], messages[data_type]
        assert "PRAVEGA_UNSUPPORTED_TYPE" in messages[data_type]
    with pytest.raises(PySparkException, match="column 'nothing'"):
        spark.sql(f"CREATE TABLE {namespace}.n USING pravega AS SELECT 1 AS one, NULL AS nothing")
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []


def test_years_that_events_have_no_dates_for(spark: SparkSession, namespace: str) -> None:
    days = (
        "SELECT CAST(n AS INT) AS row, date_add(DATE'0001-01-01', CAST(n AS INT)) AS d FROM VALUES (-1), (3652059) n(n)"
    )
    for format in ("avro", "json"):
        create(spark, f"{namespace}.{format}", format, "row INT, d DATE")
        with pytest.raises(PySparkException, match="(?s)PRAVEGA_INVALID_ROW.*'d' is a date outside the years 0001"):
            spark.sql(f"INSERT INTO {namespace}.{format} {days}")
        assert spark.table(f"{namespace}.{format}").count() == 0


@pytest.mark.parametrize("columns", ["id INT, ID INT", "k INT, s ARRAY<STRUCT<id: INT, ID: INT>>"])
def test_columns_that_differ_in_case_only(spark: SparkSession, scope: str, columns: str) -> None:
    """A query names both, and the setting that tells them apart; with it the table is read."""
    table = f"pravega.`{scope}`.alike"
    pair = "`id` and `ID`" if columns.startswith("id") else "`s.element.id` and `s.element.ID`"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('format'='json')")
        spark.sql(f"INSERT INTO {table} VALUES (1, {'2' if columns.startswith('id') else 'array()'})")
        assert spark.table(table).count() == 1
        spark.conf.unset("spark.sql.caseSensitive")
        for query in (f"SELECT * FROM {table}", f"SELECT id FROM {table}", f"DESCRIBE {table}"):
            with pytest.raises(PySparkException) as caught:
                spark.sql(query).collect()
            assert caught.value.getCondition() == "PRAVEGA_INVALID_SCHEMA"
            assert f"the columns {pair}, which differ in case only" in str(caught.value)
            assert "SET spark.sql.caseSensitive = true" in str(caught.value)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
