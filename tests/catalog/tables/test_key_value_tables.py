"""Key-value tables as tables: those of other programs, and those that CREATE TABLE makes."""

from __future__ import annotations

import json
import re
import struct
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.catalog.storage.scope_table import RowKind, ScopeTable
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import ANY
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.errors import InvalidNameError, StreamExistsError, UnsupportedOperationError
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Foreign
from tests.spark_fixtures import registered

PAGE = Path(__file__).parents[3] / "docs" / "key-value-tables.md"


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(statement).collect())


def condition(spark: SparkSession, statement: str) -> str:
    """Return the condition and the sentence of the error that a statement raises."""
    with pytest.raises(PySparkException) as raised:
        spark.sql(statement).collect()
    return f"{raised.value.getCondition()}: {raised.value}"


def plan(spark: SparkSession, statement: str) -> str:
    return str(spark.sql(f"EXPLAIN {statement}").first()[0])


def entries_read(spark: SparkSession, statement: str) -> int:
    """Run a join, and return how many entries the scan of its key-value table has read."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        found = spark.sql(statement)
        found.collect()
        plan = found._jdf.queryExecution().executedPlan()
        leaves = plan.collectLeaves()
        scans = [leaves.apply(number) for number in range(leaves.size())]
        [scan] = [each for each in scans if "allowed" in str(each.output())]
        return int(scan.metrics().apply("numOutputRows").value())
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_tables_of_other_programs_are_tables_of_bytes(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    plain, halves = pravega.key_value_table(scope, "of-java"), f"pravega.`{scope}`.halves"
    plain.create(3, 4)
    entries = [(struct.pack(">i", number), b"%d" % number, ANY) for number in range(2500)]
    for partition in range(3):
        writes = [entry for entry in entries if plain.find_partition(entry[0]) == partition]
        for at in range(0, len(writes), 256):
            plain.put_many(writes[at : at + 256])
    both = pravega.key_value_table(scope, "halves", primary_key_length=2)
    both.create(2, 2, 3)
    both.put(b"ab123", b"v")

    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect()] == ["halves", "of_java"]
    table = f"pravega.`{scope}`.of_java"
    assert [tuple(row)[:2] for row in spark.sql(f"DESCRIBE {table}").collect()] == [
        ("key", "binary"),
        ("value", "binary"),
    ]
    found = spark.table(table).collect()
    assert sorted((struct.unpack(">i", row.key)[0], int(row.value)) for row in found) == [(n, n) for n in range(2500)]
    assert rows(spark, f"SELECT count(*), count(DISTINCT key) FROM {table}") == [(2500, 2500)]
    assert len(spark.sql(f"SELECT key FROM {table} LIMIT 7").collect()) == 7
    assert rows(spark, f"SELECT * FROM {halves}") == [(b"ab", b"123", b"v")]
    assert rows(spark, f"SELECT value FROM {table} WHERE key = X'00000007'") == [(b"7",)]
    assert "segments: 1," in plan(spark, f"SELECT value FROM {table} WHERE key = X'00000007'")

    spark.sql(f"INSERT INTO {table} VALUES (X'00000007', X'61'), (X'7fffffff', X'62')")
    assert plain.get(struct.pack(">i", 7)).value == b"a"
    assert plain.get(b"\x7f\xff\xff\xff").value == b"b"
    assert "exactly 4" in condition(spark, f"INSERT INTO {table} VALUES (X'07', X'61')")
    spark.sql(f"DROP TABLE {halves}")
    assert pravega.controller.list_key_value_tables(scope) == ["of-java"]


def test_a_key_that_is_no_text(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """The error tells how to remove it, which SQL cannot."""
    table = f"pravega.`{scope}`.sites"
    properties = "'format'='kvtable', 'primary-key'='site(4), id'"
    spark.sql(f"CREATE TABLE {table} (site STRING, id INT, n INT) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 1, 1)")
    entries, bad = pravega.key_value_table(scope, "sites"), b"\xff\xfe\0\0" + struct.pack(">i", 7)
    entries.put(bad, b'{"n": 7}')
    assert rows(spark, f"SELECT n FROM {table} ORDER BY n") == [(1,), (7,)]
    told = condition(spark, f"SELECT * FROM {table}")
    assert "column site" in told and f"delete(bytes.fromhex('{bad.hex()}'))" in told
    entries.delete(bad)
    assert rows(spark, f"SELECT * FROM {table}") == [("a", 1, 1)]


CONDITIONS = {
    "country = 'de' AND id = -4 AND day = DATE '2026-01-02'": 1,
    "country = 'longer'": 0,
    "country IN ('de', 'fra') AND id IN (-3, 4)": None,
    "country = 'fra' AND id < 3": 3,
    "country LIKE 'f%' AND temp > 3": 3,
    "(country = 'de' AND id = 2) OR (country = 'fra' AND id = 3)": None,
    "NOT country = 'de'": 3,
}
"""Conditions on keys, with the number of partitions that they leave."""
MORE_CONDITIONS = {
    "country = 'de' AND id = -4": 1,
    "country >= 'e' AND day > DATE '2026-01-01'": 3,
    "id BETWEEN -7 AND 9 AND country = 'de'": 3,
    "country = 'de' OR temp > 20": 3,
    "'e' > country": 3,
    "temp = 1.5": 3,
    "id <=> 4 AND country <=> 'de'": 1,
}


@pytest.mark.parametrize(
    "conditions", [CONDITIONS, pytest.param(MORE_CONDITIONS, marks=pytest.mark.long)], ids=["some", "more"]
)
def test_tables_of_typed_keys_and_rows(
    spark: SparkSession, pravega: Pravega, scope: str, conditions: dict[str, int | None]
) -> None:
    table = f"pravega.`{scope}`.machine_state"
    columns = "country STRING, id INT, day DATE, temp DOUBLE, tags ARRAY<STRING>, at TIMESTAMP"
    properties = "'format'='kvtable', 'primary-key'='country(3), id', 'secondary-key'='day', 'partitions'='3'"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega COMMENT 'states' TBLPROPERTIES ({properties})")
    assert pravega.controller.key_value_table_configuration(scope, "machine-state").primary_key_length == 7
    shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert shown["primary-key"] == "country(3),id" and shown["secondary-key"] == "day" and shown["partitions"] == "3"
    assert shown["format"] == "kvtable" and shown["value-format"] == "json"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["Comment"] == "states" and described["Location"] == f"{scope}/machine-state"

    spark.sql(
        f"INSERT INTO {table} SELECT if(id % 2 = 0, 'de', 'fra'), CAST(id - 50 AS INT), "
        "DATE '2026-01-01' + CAST(id % 3 AS INT), id / 4, array('a', NULL), TIMESTAMP '2026-01-01 00:00:00' "
        "FROM range(100)"
    )
    copy = spark.table(table).collect()
    assert len(copy) == 100
    spark.createDataFrame(copy, spark.table(table).schema).createOrReplaceTempView("copied")
    for where, partitions in conditions.items():
        found = rows(spark, f"SELECT * FROM {table} WHERE {where}")
        assert found == rows(spark, f"SELECT * FROM copied WHERE {where}"), where
        if partitions is not None:
            assert f"segments: {partitions}," in plan(spark, f"SELECT * FROM {table} WHERE {where}"), where
    spark.catalog.dropTempView("copied")

    key = "WHERE country = 'de' AND id = -4 AND day = DATE '2026-01-02'"
    spark.sql(f"INSERT INTO {table} (country, id, day, temp) VALUES ('de', -4, DATE '2026-01-02', 99.5)")
    assert rows(spark, f"SELECT temp, tags FROM {table} {key}") == [(99.5, None)]
    assert rows(spark, f"SELECT count(*) FROM {table}") == [(100,)]
    stored = pravega.key_value_table(scope, "machine-state", primary_key_length=7)
    raw = stored.get(b"de\0" + struct.pack(">i", -4) + struct.pack(">i", 20455)).value
    assert json.loads(raw)["temp"] == 99.5

    spark.sql(f"UPDATE {table} SET temp = temp + 1 WHERE country = 'de' AND id > 0")
    assert rows(spark, f"SELECT sum(temp) FROM {table} WHERE country = 'de' AND id > 0") == [
        (sum(row.temp + 1 for row in copy if row.country == "de" and row.id > 0),)
    ]
    spark.sql(f"DELETE FROM {table} WHERE country = 'fra' AND id < 0")
    assert rows(spark, f"SELECT count(*) FROM {table}") == [(75,)]
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 'de' c, -50 i, DATE '2026-01-01' d, 7.0 v UNION ALL SELECT 'usa', 1, DATE "
        "'2026-01-01', 8.0) s ON t.country = s.c AND t.id = s.i AND t.day = s.d "
        "WHEN MATCHED THEN UPDATE SET temp = s.v "
        "WHEN NOT MATCHED THEN INSERT (country, id, day, temp) VALUES (c, i, d, v)"
    )
    assert rows(spark, f"SELECT temp FROM {table} WHERE id = -50 OR country = 'usa'") == [(7.0,), (8.0,)]
    assert "another key" in condition(spark, f"UPDATE {table} SET id = 1000 WHERE country = 'usa'")
    spark.sql(f"TRUNCATE TABLE {table}")
    assert rows(spark, f"SELECT * FROM {table}") == []
    spark.sql(f"DROP TABLE {table}")
    assert rows(spark, f"SHOW TABLES IN pravega.`{scope}`") == []


def test_a_table_of_a_java_program_gets_columns(
    spark: SparkSession, cluster: ClusterInfo, foreign: Foreign, scope: str
) -> None:
    java, table = foreign.connect(cluster), f"pravega.`{scope}`.states"
    java.create_key_value_table(scope, "states", 3, 7, 4)
    java.put_entry(scope, "states", "de", -4, "2026-01-02", '{"temp": 1.5}')
    create = f"CREATE TABLE {table} (day DATE, country STRING, id INT, temp DOUBLE) USING pravega TBLPROPERTIES "
    properties = "'format'='kvtable', 'primary-key'='country({}), id', 'secondary-key'='day'"
    assert "primary keys of 7 bytes" in condition(spark, f"{create} ({properties.format(4)})")
    too_few = f"{properties.format(3)}, 'partitions'='2'"
    assert "3 partitions, not 2. Leave 'partitions' out." in condition(spark, f"{create} ({too_few})")
    assert rows(spark, f"SELECT secondary_key FROM {table}") == [(struct.pack(">i", 20455),)]
    spark.sql(f"{create} ({properties.format(3)})")
    assert "ALREADY_EXISTS" in condition(spark, f"{create} ({properties.format(3)})")
    spark.sql(f"INSERT INTO {table} VALUES (DATE '1969-12-31', 'fra', 7, 2.5)")
    assert rows(spark, f"SELECT CAST(day AS STRING), country, id, temp FROM {table}") == [
        ("1969-12-31", "fra", 7, 2.5),
        ("2026-01-02", "de", -4, 1.5),
    ]
    assert json.loads(java.entry(scope, "states", "fra", 7, "1969-12-31") or "") == {"temp": 2.5}
    java.put_entry(scope, "states", "fra", 8, "2026-01-02", "no JSON")
    assert "PRAVEGA_MALFORMED_EVENT" in condition(spark, f"SELECT * FROM {table}")
    assert rows(spark, f"SELECT temp FROM {table} WHERE country = 'de'") == [(1.5,)]
    spark.sql(f"DELETE FROM {table} WHERE country = 'fra' AND id = 8")
    assert java.entry(scope, "states", "fra", 8, "2026-01-02") is None


def test_what_key_value_tables_cannot_do_says_what_to_do(
    spark: SparkSession, pravega: Pravega, cluster: ClusterInfo, scope: str
) -> None:
    table = f"pravega.`{scope}`.state"
    create = f"CREATE TABLE {table} (id INT, name STRING, data BINARY) USING pravega TBLPROPERTIES ('format'='kvtable'"
    for properties, words in {
        "": "'primary-key'",
        ", 'primary-key'='name'": "name(16)",
        ", 'primary-key'='nam(4)'": "Did you mean 'name'",
        ", 'primary-key'='id(3)'": "has 4",
        ", 'primary-key'='id,'": "not a list of columns",
        ", 'primary-key'='id', 'secondary-key'='id'": "twice",
        ", 'primary-key'='name(9000)'": "8,192",
        ", 'primary-key'='id', 'value-format'='raw'": "exactly one column, of type BINARY",
        ", 'primary-key'='id', 'routing-key'='id'": "does not apply",
        ", 'primary-key'='id', 'value-format'='csv'": "value-format",
        ", 'primary-key'='id', 'partitions'='0'": "partitions",
    }.items():
        assert words in condition(spark, f"{create}{properties})"), properties
    assert "'secondary-key'" in condition(
        spark, f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ('secondary-key'='id')"
    )
    assert "not in the key" in condition(
        spark,
        f"CREATE TABLE {table} (id INT) USING pravega TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')",
    )
    for hidden in ("pyspark_pravega_commits", "pyspark_pravega_catalog"):
        assert "another name" in condition(
            spark, f"{create}, 'primary-key'='id')".replace(f"{table} ", f"pravega.`{scope}`.{hidden} ")
        )
    assert pravega.controller.list_key_value_tables(scope) == []
    pravega.key_value_table(scope, "state").create(1, 4)  # as another program's
    assert "'format'='kvtable'" in condition(spark, f"CREATE TABLE {table} (id INT) USING pravega")
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        with pytest.raises(InvalidNameError, match="kvtable"):
            catalog.create_table(f"`{scope}`.state", StructType([StructField("id", IntegerType())]))
    assert not pravega.controller.stream_exists(Stream(scope, "state"))

    spark.sql(f"{create}, 'primary-key'='id', 'value-format'='avro', 'partitions'='1')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', X'00')")
    for statement, words in {
        f"INSERT OVERWRITE {table} VALUES (2, 'a', X'00')": "INSERT INTO",
        f"ALTER TABLE {table} ADD COLUMN more INT": "fixed",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('partitions'='2')": "fixed",
        f"SELECT * FROM {table} VERSION AS OF 1": "no history",
        f"SELECT * FROM {table} CHANGES FROM VERSION 1": "no history",
        f"SELECT * FROM {table} WITH ('mode'='permissive')": "does not apply",
        f"INSERT INTO {table} WITH ('codec'='gzip') VALUES (1, 'a', X'00')": "does not apply",
        f"SELECT * FROM {table}.history": "not a stream",
        f"CREATE TABLE {table}_3 (a STRING, id INT, v INT, PRIMARY KEY (a, id) NOT ENFORCED) TBLPROPERTIES "
        "('format'='kvtable', 'primary-key'='a(2)')": "the keys a differ",
        f"CREATE OR REPLACE TABLE {table} (id INT) USING pravega": "would be lost",
    }.items():
        assert words in condition(spark, statement), statement
    with pytest.raises(PySparkException, match="no history"):
        spark.readStream.table(table).writeStream.format("noop").start()
    assert [tuple(row) for row in spark.table(table).collect()] == [(1, "a", bytearray(b"\0"))]

    spark.sql(f"CREATE TABLE {table}_2 LIKE {table}")
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.copy USING pravega TBLPROPERTIES ('format'='kvtable', "
        f"'primary-key'='id', 'value-format'='avro') AS SELECT * FROM {table}"
    )
    assert rows(spark, f"SELECT * FROM pravega.`{scope}`.copy") == rows(spark, f"SELECT * FROM {table}")
    pravega.controller.delete_key_value_table(scope, "state")
    pravega.key_value_table(scope, "state").create(1, 2)
    assert spark.table(table).columns == [
        "key",
        "value",
    ]  # a table that is made again has no old columns
    spark.sql(f"CREATE TABLE pravega.`{scope}`.both (n INT) USING pravega")
    pravega.key_value_table(scope, "both").create(1, 2)
    assert spark.table(f"pravega.`{scope}`.both").columns == ["n"]
    assert spark.table(f"pravega.`{scope}`.`both$kvtable`").columns == ["key", "value"]
    comment = "SET TBLPROPERTIES ('comment'='x')"
    assert "fixed" in condition(spark, f"ALTER TABLE pravega.`{scope}`.`both$kvtable` {comment}")
    spark.sql(f"DROP TABLE pravega.`{scope}`.`both$kvtable`")
    assert spark.table(f"pravega.`{scope}`.both").columns == ["n"]
    pravega.controller.create_stream(Stream(scope, "bare"), StreamConfiguration(ScalingPolicy("fixed", 0, 0, 1)))
    assert "drop the stream" in condition(
        spark, f"{create}, 'primary-key'='id')".replace(f"{table} ", f"pravega.`{scope}`.bare ")
    )
    assert "pyspark-pravega-catalog" not in str(spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect())
    assert "NOT_FOUND" in condition(spark, f"SELECT * FROM pravega.`{scope}`.pyspark_pravega_catalog")


def test_the_examples_of_the_page(spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    """docs/key-value-tables.md: its SQL, then its Python."""
    page = PAGE.read_text().replace("pravega.iot.", f"pravega.`{scope}`.")
    statements = [
        (each, spark.sql(each))
        for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        for each in re.sub(r"--.*", "", block).split(";")
        if each.strip()
    ]
    answers = [[tuple(row) for row in found.collect()] for each, found in statements if "SELECT" in each]
    assert answers[0] == [("M2", 95.0)]
    name = f"pravega.`{scope}`"
    joined = next(each for each, _ in statements if "JOIN" in each)
    assert rows(spark, joined) == [(97.0, 95.0)]
    assert entries_read(spark, joined) == 1  # of two, because the scan was told the only key

    spark.sql(f"CREATE TABLE {name}.alarms (country STRING, id INT, temp DOUBLE, allowed DOUBLE) USING pravega")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for events in ("('de', 2, 96.0), ('de', 1, 10.0)", "('de', 2, 20.0), ('de', 1, 99.0), ('fr', 1, 99.0)"):
        spark.sql(f"INSERT INTO {name}.measured VALUES {events}")
        for number, program in enumerate(programs):
            known: dict[str, Any] = {"spark": spark, "max": functions.max, "count": functions.count}
            exec(program, known | {"checkpoint": str(tmp_path / str(number))}, known)
            assert known["query"].awaitTermination(120) and known["query"].exception() is None
    for table in ("alarms", "too_hot"):
        assert rows(spark, f"SELECT * FROM {name}.{table}") == [
            ("de", 1, 99.0, 81.0),
            ("de", 2, 96.0, 95.0),
            ("de", 2, 97.0, 95.0),
        ]
    assert rows(spark, f"SELECT id, epoch FROM {name}.rated") == [(1, 2), (2, 2)]
    assert rows(spark, f"SELECT * FROM {name}.hottest") == [
        ("de", 1, 99.0, 2),
        ("de", 2, 97.0, 3),
        ("fr", 1, 99.0, 2),
    ]


def test_writing_again_changes_nothing(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    """Tasks that fail after they have written, and statements that are run again; by Python without Spark too."""
    table = f"pravega.`{scope}`.numbers"
    properties = "'format'='kvtable', 'primary-key'='n', 'value-format'='avro', 'partitions'='1'"
    spark.sql(f"CREATE TABLE {table} (n INT, square BIGINT) USING pravega TBLPROPERTIES ({properties})")

    def fails_once(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
        context = TaskContext.get()
        assert context is not None
        for n in numbers:
            yield n, n * n
        if context.attemptNumber() == 0:
            raise ValueError("after all of its rows")

    squares = spark.sparkContext.range(0, 6000, 1, 2).mapPartitions(fails_once)
    expected = [(n, n * n) for n in range(6000)]
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")  # so that rows are written before it fails
    try:
        spark.createDataFrame(squares, "n INT, square BIGINT").writeTo(table).append()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert rows(spark, f"SELECT * FROM {table}") == expected
    spark.sql(f"INSERT INTO {table} SELECT n, square FROM {table} WHERE n % 3 = 0")
    assert rows(spark, f"SELECT * FROM {table}") == expected
    assert rows(spark, f"SELECT sum(square), count(*) FROM {table} WHERE n >= 5990") == [
        (sum(n * n for n in range(5990, 6000)), 10)
    ]
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        numbers = catalog.load_table(f"`{scope}`.numbers")
        found = numbers.scan(filter=pc.field("n") > 5997).to_arrow()
        assert sorted(found.column("n").to_pylist()) == [5998, 5999]
        assert numbers.append(found) == 2 and numbers.scan().count() == 6000
        assert numbers.name in [f"pravega.{name}" for name in catalog.list_tables(f"`{scope}`")]
        for ask in (numbers.size, numbers.history, numbers.schema_versions):
            with pytest.raises(UnsupportedOperationError, match="numbers"):
                ask()

    def one_more(n: int) -> int:
        context = TaskContext.get()
        assert context is not None
        if n == 5999 and context.attemptNumber() == 0:
            raise ValueError("after more rows than are written at once")
        return 1

    more = functions.udf(one_more, "int", useArrow=False)
    with registered(spark, "one_more", more):
        # No task sees what the statement has written: neither one that runs again, nor one that goes on reading.
        spark.sql(f"UPDATE {table} SET square = square + one_more(n)")
    expected = [(n, square + 1) for n, square in expected]
    assert rows(spark, f"SELECT * FROM {table}") == expected
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        texts = f"pravega.`{scope}`.texts"
        spark.sql(
            f"CREATE TABLE {texts} USING pravega TBLPROPERTIES ({properties}) "
            f"AS SELECT n, repeat('x', 2000) AS text FROM {table}"
        )
        spark.sql(f"INSERT INTO {texts} SELECT n + 6000, text FROM {texts} WHERE n < 18000")
        assert rows(spark, f"SELECT count(*), max(n) FROM {texts}") == [(12000, 11999)]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.parametrize("times", [2, pytest.param(8, marks=pytest.mark.long)])
def test_columns_are_declared_once(pravega: Pravega, cluster: ClusterInfo, scope: str, times: int) -> None:
    """By one of several programs that do it at the same time; and they are forgotten with their own table alone."""
    kept = ScopeTable(pravega, scope)
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:

        def declare(table: str, column: str, together: threading.Barrier) -> str | None:
            columns = StructType([StructField("id", IntegerType()), StructField(column, IntegerType())])
            together.wait()
            try:
                catalog.create_table(table, columns, properties={"format": "kvtable", "primary-key": "id"})
            except StreamExistsError:
                return None
            return column

        for number in range(times):
            table = f"`{scope}`.declared{number}"
            pravega.key_value_table(scope, f"declared{number}").create(4, 4)
            together = threading.Barrier(4)
            with ThreadPoolExecutor(4) as threads:
                found = list(threads.map(partial(declare, table, together=together), "abcd"))
            [winner] = [each for each in found if each is not None]
            assert catalog.load_table(table).schema.names == ["id", winner]
        pravega.controller.delete_key_value_table(scope, "declared0")
        pravega.key_value_table(scope, "declared0").create(4, 4)
        catalog.drop_table(f"`{scope}`.declared0")  # which is another one
        catalog.drop_table(f"`{scope}`.declared1")
        assert kept.read(RowKind.KEY_VALUE_TABLE, "declared0") is not None
        assert kept.read(RowKind.KEY_VALUE_TABLE, "declared1") is None


def test_a_query_writes_to_no_other_table_of_the_name(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    source, target = f"pravega.`{scope}`.source", f"pravega.`{scope}`.target"
    spark.sql(f"CREATE TABLE {source} (id INT, v INT)")
    create = f"CREATE TABLE {target} (id INT, %s) TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')"
    spark.sql(create % "v INT")
    stream = spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path))
    query = stream.outputMode("update").toTable(target)
    try:
        spark.sql(f"INSERT INTO {source} VALUES (1, 1)")
        query.processAllAvailable()
        assert rows(spark, f"SELECT * FROM {target}") == [(1, 1)]
        spark.sql(f"DROP TABLE {target}")
        spark.sql(create % "w STRING")
        spark.sql(f"INSERT INTO {source} VALUES (2, 2)")
        with pytest.raises(StreamingQueryException, match="target has been dropped and recreated"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert rows(spark, f"SELECT * FROM {target}") == []


def test_programs_that_start_together_make_a_table_once(cluster: ClusterInfo, fresh_name: str) -> None:
    table = f"`{fresh_name}`.settings"
    columns = StructType([StructField("k", IntegerType()), StructField("v", StringType())])
    with ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
        catalogs = [stack.enter_context(connect(**uris)) for _ in range(4)]
        for format in ({"format": "kvtable", "primary-key": "k"}, {"format": "json"}):

            def start(catalog: PravegaCatalog, properties: dict[str, str] = format) -> list[str]:
                catalog.create_namespace(f"`{fresh_name}`", if_not_exists=True)
                made = catalog.create_table(table, columns, properties=properties, if_not_exists=True)
                return list(made.schema.names)

            assert list(threads.map(start, catalogs)) == [["k", "v"]] * 4
            assert catalogs[0].load_table(table).schema.names == ["k", "v"]
            catalogs[0].drop_namespace(f"`{fresh_name}`", cascade=True)


def test_lists_of_values_are_looked_up_up_to_their_limit(spark: SparkSession, scope: str) -> None:
    name = f"pravega.`{scope}`.machine"
    spark.sql(
        f"CREATE TABLE {name} (id INT, allowed DOUBLE) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 10), (2, 20), (3, 30), (-1, 0), (-2, 0)")
    for values, read in ((498, 3), (499, 5)):
        query = f"SELECT allowed FROM {name} WHERE id IN ({', '.join(map(str, range(1, values + 1)))})"
        assert rows(spark, query) == [(10.0,), (20.0,), (30.0,)]
        assert entries_read(spark, query) == read, values
