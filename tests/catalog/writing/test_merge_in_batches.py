"""MERGE of each micro-batch into a table of changes, by `mergeInto` in `foreachBatch`."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega.errors import InvalidOptionError
from tests.catalog.writing.test_row_changes import PAGE, condition, create, history, rows


def test_the_example_of_the_page_counts_each_micro_batch_once(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """docs/tables-that-change.md: its function for `foreachBatch`, of which a micro-batch is done again."""
    orders = f"pravega.`{scope}`.orders"
    spark.sql(f"CREATE TABLE {orders} (customer BIGINT, total INT) USING pravega")
    accounts = create(spark, scope, "accounts", "id BIGINT, total BIGINT, batch BIGINT")
    [code] = [part for part in PAGE.read_text().split("```python\n")[1:] if "mergeInto" in part]
    here: dict[str, object] = {"spark": spark}
    changed = code.partition("```")[0].replace("pravega.shop", f"pravega.`{scope}`").replace("/data", str(tmp_path))
    changed = changed.replace(".start()", ".trigger(availableNow=True).start().awaitTermination()")
    for values in ("(1, 10), (2, 5), (1, 1)", "(1, 100), (3, 7)"):
        spark.sql(f"INSERT INTO {orders} VALUES {values}")
        exec(changed, here)
    assert rows(spark, accounts) == [(1, 111, 1), (2, 5, 0), (3, 7, 1)]
    for name in ("1", ".1.crc"):
        (tmp_path / "accounts" / "commits" / name).unlink()
    spark.sql(f"INSERT INTO {orders} VALUES (2, 1000)")
    exec(changed, here)
    assert rows(spark, accounts) == [(1, 111, 1), (2, 1005, 2), (3, 7, 1)]
    assert history(spark, accounts) == [("MERGE", 2), ("MERGE", 2), ("MERGE", 1)]


def test_a_write_that_happens_once_does_not_depend_on_its_table(spark: SparkSession, scope: str) -> None:
    """A transaction that is finished later would be committed without a look at what others have changed."""
    table = create(spark, scope, "t", "id BIGINT, n INT")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1)")
    named = "WITH ('txn-app-id'='a', 'txn-version'='1')"
    raised = condition(spark, f"INSERT INTO {table} {named} SELECT id, n + 1 FROM {table}")
    assert raised.startswith(InvalidOptionError.condition) and "run a MERGE" in raised
    assert rows(spark, table) == [(1, 1)]
    spark.sql(f"INSERT INTO {table} {named} VALUES (1, 2)")
    assert rows(spark, table) == [(1, 2)]
