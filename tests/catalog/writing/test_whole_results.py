"""Output mode `complete` into tables of changes: each result replaces all rows, by the fewest events."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.catalog.writing.conftest import Gate
from tests.catalog.writing.test_row_changes import create, history, rows

OPTIONS = {"format": "debezium-json", "primary-key": "customer"}


def make_orders(spark: SparkSession, scope: str) -> str:
    orders = f"pravega.`{scope}`.orders"
    spark.sql(f"CREATE TABLE {orders} (customer BIGINT, n INT) USING pravega")
    return orders


def add_up(spark: SparkSession, orders: str) -> DataFrame:
    return spark.readStream.table(orders).groupBy("customer").agg({"n": "sum"}).toDF("customer", "total")


def write(result: DataFrame, table: str, checkpoint: Path, **options: str) -> None:
    writer = result.writeStream.outputMode("complete").option("checkpointLocation", str(checkpoint)).options(**options)
    writer.trigger(availableNow=True).toTable(table).awaitTermination()


def test_a_result_is_written_by_its_changes(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    orders, totals = make_orders(spark, scope), f"pravega.`{scope}`.totals"
    result = add_up(spark, orders).filter("total < 10")
    versions: list[tuple[str, int]] = []
    for values, expected, operations in (
        ("(1, 2), (2, 3)", [(1, 2), (2, 3)], "cc"),
        ("(1, 20), (3, 1)", [(2, 3), (3, 1)], "cd"),  # the first row is gone, and the second stays the same
        ("(2, 1)", [(2, 4), (3, 1)], "u"),
        ("(3, 0)", [(2, 4), (3, 1)], ""),
        ("(2, 6), (3, 9)", [], "dd"),
        ("(4, 4)", [(4, 4)], "c"),
    ):
        spark.sql(f"INSERT INTO {orders} VALUES {values}")
        before = versions
        write(result, totals, tmp_path, **(OPTIONS if not before else {}))
        assert rows(spark, totals) == expected
        versions = history(spark, totals)
        assert versions[len(before) :] == ([("STREAM", len(operations))] if operations else [])
        changes = spark.sql(f"SELECT op FROM pravega.`{scope}`.`totals$changelog` ORDER BY _segment, _offset").collect()
        last = [row.op for row in changes][sum(count for _, count in before) :]
        assert "".join(sorted(last)) == operations


def test_what_others_write_goes_with_the_next_result(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    orders, checkpoint = make_orders(spark, scope), tmp_path / "checkpoint"
    totals = create(spark, scope, "totals", "customer BIGINT, total BIGINT", primary_key="customer")
    spark.sql(f"INSERT INTO {totals} VALUES (1, 7), (8, 8)")
    spark.sql(f"INSERT INTO {orders} VALUES (1, 1), (2, 2)")
    result = add_up(spark, orders)
    write(result, totals, checkpoint)
    assert rows(spark, totals) == [(1, 1), (2, 2)] and history(spark, totals) == [("INSERT", 2), ("STREAM", 3)]
    # A micro-batch that is repeated late is in the table already.
    spark.sql(f"UPDATE {totals} SET total = -1 WHERE customer = 2")
    for done in (checkpoint / "commits").iterdir():
        done.unlink()
    write(result, totals, checkpoint)
    assert rows(spark, totals) == [(1, 1), (2, -1)] and len(history(spark, totals)) == 3
    spark.sql(f"INSERT INTO {orders} VALUES (3, 3)")
    write(result, totals, checkpoint)
    assert rows(spark, totals) == [(1, 1), (2, 2), (3, 3)] and history(spark, totals)[3:] == [("STREAM", 2)]


def test_a_change_while_a_result_is_written(spark: SparkSession, scope: str, gate: Gate, tmp_path: Path) -> None:
    orders, checkpoint = make_orders(spark, scope), tmp_path / "checkpoint"
    totals = create(spark, scope, "totals", "customer BIGINT, total BIGINT, name STRING", primary_key="customer")
    spark.sql(f"INSERT INTO {orders} VALUES (1, 1), (2, 2)")
    result = add_up(spark, orders).coalesce(1).selectExpr("*", "gate('x') AS name")  # other tasks have a core
    with ThreadPoolExecutor() as threads:
        late = threads.submit(lambda: write(result, totals, checkpoint))
        gate.wait(late)
        spark.sql(f"INSERT INTO {totals} VALUES (9, 9, 'y')")
        gate.opened.touch()
        with pytest.raises(PySparkException, match="PRAVEGA_CONCURRENT_CHANGE"):
            late.result()
    assert rows(spark, totals) == [(9, 9, "y")]
    write(result, totals, checkpoint)
    assert rows(spark, totals) == [(1, 1, "x"), (2, 2, "x")]


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_columns_of_all_types_are_compared(spark: SparkSession, scope: str, format: str, tmp_path: Path) -> None:
    orders = make_orders(spark, scope)
    columns: dict[str, tuple[str, Any]] = {
        "customer": ("CHAR(4)", "string(customer)"),
        "total": ("BIGINT", "total"),
        "d": ("DOUBLE", "total / 3"),
        "m": ("DECIMAL(20,4)", "CAST(total / 3 AS DECIMAL(20,4))"),
        "y": ("DATE", "date_add(DATE'2020-02-29', int(customer))"),
        "t": ("TIMESTAMP", "TIMESTAMP'2020-01-01 00:00:00.123456Z'"),
        "n": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2021-01-01 01:02:03'"),
        "x": ("BINARY", "X'00FF'"),
        "a": ("ARRAY<STRING>", "array('p', string(customer))"),
        "s": ("STRUCT<p: INT, q: STRUCT<r: STRING>>", "named_struct('p', 1, 'q', named_struct('r', 'z'))"),
        "k": ("MAP<STRING, INT>", "map('k', 2)"),
        "v": ("VARCHAR(5)", "'four'"),
        "u": ("STRING", "CAST(NULL AS STRING)"),
    }
    declared = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
    totals = create(spark, scope, "totals", declared, primary_key="customer", format=format)
    result = add_up(spark, orders).selectExpr(*(f"{value} AS {name}" for name, (_, value) in columns.items()))
    for values, changed in (("(1, 1), (2, 2), (3, 3)", 3), ("(2, 2)", 1), ("(4, 1)", 1)):
        spark.sql(f"INSERT INTO {orders} VALUES {values}")
        write(result, totals, tmp_path)
        assert history(spark, totals)[-1] == ("STREAM", changed)
    assert [(row.customer, row.total, row.a[1]) for row in sorted(spark.table(totals).collect())] == [
        (f"{id}   ", total, str(id)) for id, total in ((1, 1), (2, 4), (3, 3), (4, 1))
    ]


def test_results_that_cannot_replace_all_rows(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    orders = make_orders(spark, scope)
    spark.sql(f"INSERT INTO {orders} VALUES (1, 1), (1, 2)")
    keyless = create(spark, scope, "keyless", "customer BIGINT, total BIGINT", primary_key="")
    with pytest.raises(PySparkException, match=r"outputMode\('complete'\) is not possible .*: it has no primary key"):
        write(add_up(spark, orders), keyless, tmp_path / "keyless")
    routed = {"primary_key": "customer", "routing_key": "total"}
    other = create(spark, scope, "routed", "customer BIGINT, total BIGINT", **routed)
    with pytest.raises(PySparkException, match="the changes of a row may lose their order"):
        write(add_up(spark, orders), other, tmp_path / "routed")
    totals = create(spark, scope, "totals", "customer BIGINT, total BIGINT", primary_key="customer")
    twice = spark.readStream.table(orders).groupBy("customer", "n").count()
    result = twice.selectExpr("customer", "count AS total")
    with pytest.raises(PySparkException, match=r"(?s)more than one row of the key \{\"customer\":1\}"):
        write(result, totals, tmp_path / "twice")
    for option, value in (("write-mode", "at-least-once"), ("delete-column", "gone")):
        with pytest.raises(PySparkException, match=r"in outputMode\('complete'\)|outputMode\('complete'\) needs"):
            rest = add_up(spark, orders).selectExpr("*", "false AS gone") if option == "delete-column" else result
            write(rest, totals, tmp_path / option, **{option: value})
    assert rows(spark, totals) == [] and history(spark, totals) == []
