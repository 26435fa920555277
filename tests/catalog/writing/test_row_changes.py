"""UPDATE, DELETE and MERGE on tables of changes: each is one transaction, one version, and events that others read."""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of
from tests.spark_fixtures import registered

PAGE = Path(__file__).parents[3] / "docs" / "tables-that-change.md"
COLUMNS = "id BIGINT NOT NULL, name STRING, city STRING, credit DECIMAL(10,2)"


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(f"SELECT * FROM {table}").collect())


def history(spark: SparkSession, table: str) -> list[tuple[str, int]]:
    found = spark.sql(f"SELECT operation, rows FROM {table}.history ORDER BY version").collect()
    return [(row.operation, row.rows) for row in found]


def create(spark: SparkSession, scope: str, name: str, columns: str, **properties: str) -> str:
    table = f"pravega.`{scope}`.{name}"
    given = {"format": "debezium-json", "primary-key": "id"}
    given |= {key.replace("_", "-"): value for key, value in properties.items()}
    shown = ", ".join(f"'{key}'='{value}'" for key, value in given.items() if value)
    spark.sql(f"CREATE TABLE {table} ({columns}) USING pravega TBLPROPERTIES ({shown})")
    return table


def condition(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as raised:
        spark.sql(statement).collect()
    return f"{raised.value.getCondition()}: {raised.value}"


def deliver_first_row(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    """Write to the stream `t` the row (1, 'a') as a connector does, with its position in a database's log."""
    source = {"connector": "postgresql", "name": "db", "db": "db", "lsn": 10, "ts_ms": 1}
    event = {"before": None, "after": {"id": 1, "name": "a"}, "source": source, "op": "c", "ts_ms": 1}
    deliver(spark, cluster, scope, json.dumps(event))


def deliver(spark: SparkSession, cluster: ClusterInfo, scope: str, event: str) -> None:
    written = spark.createDataFrame([(event,)], ["value"]).write.format("pravega").mode("append")
    options = {"controller-uri": cluster.controller_uri, "scope": scope, "stream": "t"}
    written.options(**options, format="text", framing="none").save()


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_each_statement_is_one_version(spark: SparkSession, scope: str, format: str) -> None:
    table = create(spark, scope, "customers", COLUMNS, format=format)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'Ada', 'London', 10), (2, 'Alan', 'Wilmslow', 20), (3, 'X', 'Y', -5)")
    spark.sql(f"UPDATE {table} SET city = 'Oxford' WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE credit < 0")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (1, true, 'a', 1), (2, false, 'b', 3), (9, false, 'new', 4) "
        "AS o(customer, cancelled, name, total)) o ON t.id = o.customer WHEN MATCHED AND o.cancelled THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET credit = t.credit - o.total "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (o.customer, o.name)"
    )
    assert [(row[0], row[1], row[2], None if row[3] is None else float(row[3])) for row in rows(spark, table)] == [
        (2, "Alan", "Wilmslow", 17.0),
        (9, "new", None, None),
    ]
    assert history(spark, table) == [("INSERT", 3), ("UPDATE", 1), ("DELETE", 1), ("MERGE", 3)]
    counts = spark.sql(f"SELECT inserted, updated, deleted FROM {table}.history ORDER BY version").collect()
    assert [tuple(row) for row in counts] == [(3, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    of_third = spark.sql(f"SELECT id, city FROM {table} VERSION AS OF 2 ORDER BY id").collect()
    assert [tuple(row) for row in of_third] == [(1, "Oxford"), (2, "Wilmslow"), (3, "Y")]

    spark.sql(f"UPDATE {table} SET city = city")
    spark.sql(f"DELETE FROM {table} WHERE id = 77")
    assert len(history(spark, table)) == 4  # what leaves rows as they are writes nothing
    spark.sql(f"UPDATE {table} SET id = id + 100 WHERE id = 9")
    assert [row[0] for row in rows(spark, table)] == [2, 109]
    assert history(spark, table)[4:] == [("UPDATE", 2)]  # a deletion and a creation


def test_events_are_those_of_debezium(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT NOT NULL, name STRING", framing="none")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {table} SET name = 'c' WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(f"UPDATE {table} SET id = 3")
    read = spark.read.format("pravega").option("scope", scope).option("stream", "t").option("format", "text")
    read = read.option("controller-uri", cluster.controller_uri)
    events = [json.loads(row[0]) for row in read.option("framing", "none").load().orderBy("_offset").collect()]
    one, two, three = {"id": 1, "name": "c"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}
    assert [(event["op"], event["before"], event["after"]) for event in events[2:]] == [
        ("u", {"id": 1, "name": "a"}, one),
        ("d", two, None),
        ("d", one, None),
        ("c", None, three),
    ]
    assert {event["source"]["connector"] for event in events} == {"pyspark-pravega"}
    changelog = spark.sql(f"SELECT op FROM pravega.`{scope}`.`t$changelog`").collect()
    assert sorted(row.op for row in changelog) == ["c", "c", "c", "d", "d", "u"] and rows(spark, table) == [(3, "c")]


def test_columns_of_all_types_keep_their_former_values(spark: SparkSession, scope: str) -> None:
    columns = (
        "id STRING, part INT, b BOOLEAN, l BIGINT, d DOUBLE, m DECIMAL(20,4), y DATE, t TIMESTAMP, n TIMESTAMP_NTZ, "
        "x BINARY, a ARRAY<STRING>, s STRUCT<p: INT, q: STRUCT<r: STRING>>, k MAP<STRING, INT>, c CHAR(3), v VARCHAR(5)"
    )
    table = create(spark, scope, "wide", columns, primary_key="id,part")
    values = (
        "true, 7, 1.5, 12.3456, DATE'2020-02-29', TIMESTAMP'2020-01-01 00:00:00Z', TIMESTAMP_NTZ'2021-01-01 01:02:03', "
        "X'00FF', array('p', NULL), named_struct('p', 1, 'q', named_struct('r', 'z')), map('k', 2), 'ab', 'four'"
    )
    spark.sql(f"INSERT INTO {table} SELECT 'a', 1, {values} UNION ALL SELECT 'a', 2, {', '.join(['NULL'] * 13)}")
    before = {tuple(row)[:2]: row for row in spark.table(table).collect()}
    spark.sql(f"UPDATE {table} SET l = 8, c = 'z' WHERE s.q.r = 'z' OR part = 2")
    after = {tuple(row)[:2]: row for row in spark.table(table).collect()}
    for key, row in after.items():
        assert row.asDict(True) == before[key].asDict(True) | {"l": 8, "c": "z  "}
    assert history(spark, table)[1:] == [("UPDATE", 2)]
    spark.sql(f"DELETE FROM {table} WHERE s.p IS NULL")
    assert [tuple(row)[:2] for row in spark.table(table).collect()] == [("a", 1)]
    assert "EXCEED_LIMIT_LENGTH" in condition(spark, f"UPDATE {table} SET v = 'more than five'")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "UPDATE {t} SET id = id + 1",
            'PRAVEGA_INVALID_ROW: .*UPDATE changes the row of the key {"id":2} more',
        ),
        ("UPDATE {t} SET id = 7", 'PRAVEGA_INVALID_ROW: .*{"id":7} more than once: .*each key may be changed once'),
        ("UPDATE {t} SET id = NULL WHERE id = 1", "NOT_NULL_ASSERT_VIOLATION"),
        (
            "MERGE INTO {t} t USING (SELECT * FROM VALUES (1), (1) AS s(n)) s ON t.id = s.n "
            "WHEN MATCHED THEN UPDATE SET name = 'x'",
            "MERGE_CARDINALITY_VIOLATION",
        ),
        (
            "MERGE INTO {t} t USING (SELECT * FROM VALUES (5), (5) AS s(n)) s ON t.id = s.n "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.n)",
            'The MERGE changes the row of the key {"id":5} more than once',
        ),
        (
            "MERGE INTO {t} t USING (SELECT * FROM VALUES (1), (1) AS s(n)) s ON t.id = s.n WHEN MATCHED THEN DELETE",
            'The MERGE changes the row of the key {"id":1} more than once',
        ),
        (
            "MERGE INTO {t} t USING (SELECT * FROM VALUES (5), (5) AS s(n)) s ON t.id = s.n "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.n)",
            'The INSERT or MERGE changes the row of the key {"id":5} more than once',
        ),
        ("INSERT INTO {t} SELECT 9, name FROM {t}", 'The INSERT or MERGE changes the row of the key {"id":9}'),
    ],
)
def test_wrong_statements_write_nothing(spark: SparkSession, scope: str, statement: str, message: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    raised = condition(spark, statement.format(t=table))
    assert all(part in raised for part in message.split(": .*")), raised
    assert rows(spark, table) == [(1, "a"), (2, "b")] and len(history(spark, table)) == 1


def test_tables_that_cannot_be_changed(spark: SparkSession, scope: str) -> None:
    keyless = create(spark, scope, "keyless", "id BIGINT", primary_key="")
    spark.sql(f"INSERT INTO {keyless} VALUES (1)")
    assert "it has no primary key" in condition(spark, f"DELETE FROM {keyless} WHERE id = 1")
    assert "Its columns cannot be changed" in condition(spark, f"ALTER TABLE {keyless} ADD COLUMN name STRING")
    routed = create(spark, scope, "routed", "id BIGINT, name STRING", routing_key="name")
    spark.sql(f"INSERT INTO {routed} VALUES (1, 'a')")
    assert "may lose their order" in condition(spark, f"UPDATE {routed} SET name = 'b'")
    taken = create(spark, scope, "taken", "id BIGINT, _former_row STRING")
    spark.sql(f"INSERT INTO {taken} VALUES (1, 'a')")
    assert "it has a column _former_row" in condition(spark, f"UPDATE {taken} SET _former_row = 'b'")
    maxwell = create(spark, scope, "maxwell", "id BIGINT, name STRING", format="maxwell-json")
    assert "only Maxwell makes" in condition(spark, f"UPDATE {maxwell} SET name = 'b'")


def test_all_rows_can_be_deleted(spark: SparkSession, scope: str) -> None:
    """Spark would truncate a table that can be truncated."""
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    for statement in (f"DELETE FROM {table}", f"DELETE FROM {table} WHERE id IS NOT NULL"):
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        spark.sql(statement)
        assert rows(spark, table) == []
    assert history(spark, table) == [("INSERT", 2), ("DELETE", 2)] * 2
    refused = condition(spark, f"TRUNCATE TABLE {table}")
    assert "TRUNCATE TABLE is not possible" in refused and "DELETE without WHERE deletes all rows" in refused


def test_rows_of_an_earlier_version_can_be_restored(spark: SparkSession, scope: str) -> None:
    """What a version has does not change, so that it is no conflict."""
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {table} SET name = 'wrong'")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM {table} VERSION AS OF 1) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(spark, table) == [(1, "a"), (2, "b")] and len(history(spark, table)) == 3


def test_statements_are_transactions_whatever_inserts_are(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    spark.conf.set("spark.sql.catalog.pravega.write-mode", "at-least-once")
    try:
        spark.sql(f"UPDATE {table} SET name = 'b'")
    finally:
        spark.conf.unset("spark.sql.catalog.pravega.write-mode")
    assert rows(spark, table) == [(1, "b")]


def test_rows_of_a_connector_cannot_be_changed(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    """It may deliver its changes again when it starts again, and they would count as newer ones."""
    table = create(spark, scope, "t", "id BIGINT, name STRING", framing="none")
    deliver_first_row(spark, cluster, scope)
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    assert rows(spark, table) == [(1, "a"), (2, "b")]
    assert "read from a database's log" in condition(spark, f"UPDATE {table} SET name = 'c'")
    assert rows(spark, table) == [(1, "a"), (2, "b")]


def test_statements_on_events_that_cannot_be_read_write_nothing(
    spark: SparkSession, cluster: ClusterInfo, scope: str
) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING", framing="none")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    deliver(spark, cluster, scope, '{"before":null,"after":{"id":3')
    before = history(spark, table)
    for statement in (
        "UPDATE {t} SET name = 'c' WHERE id = 1",
        "DELETE FROM {t} WHERE name = 'a'",
        "MERGE INTO {t} t USING (SELECT 9 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (id) VALUES (s.k) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ):
        assert "PRAVEGA_MALFORMED_EVENT" in condition(spark, statement.format(t=table))
    assert history(spark, table) == before


def test_a_user_without_rights_to_the_log_changes_nothing(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str
) -> None:
    target = f"`{secure_scope}`.target"
    secure_spark.sql(
        f"CREATE TABLE secure.{target} (id BIGINT PRIMARY KEY, name STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json')"
    )
    secure_spark.sql(f"INSERT INTO secure.{target} VALUES (1, 'a')")
    name = catalog_of(secure_spark, secure_cluster, "appender", "appender", secure_cluster.users["appender"])
    for statement in (
        "UPDATE {t} SET name = 'b'",
        "DELETE FROM {t}",
        "MERGE INTO {t} t USING (SELECT 9 AS k) s ON t.id = s.k WHEN NOT MATCHED THEN INSERT (id) VALUES (s.k)",
    ):
        with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*pyspark-pravega-commits"):
            secure_spark.sql(statement.format(t=f"{name}.{target}"))
    assert rows(secure_spark, f"secure.{target}") == [(1, "a")]


def test_a_stream_of_results_replaces_rows(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    source, counts = f"pravega.`{scope}`.orders", f"pravega.`{scope}`.counts"
    spark.sql(f"CREATE TABLE {source} (customer BIGINT) USING pravega")
    for values in ("(1), (2), (1)", "(1), (3)"):
        spark.sql(f"INSERT INTO {source} VALUES {values}")
        counted = spark.readStream.table(source).groupBy("customer").count()
        writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
        options = {"format": "debezium-json", "primary-key": "customer"} if values.endswith("(1)") else {}
        query = writer.options(**options).trigger(availableNow=True).toTable(counts)
        query.awaitTermination()
    assert rows(spark, counts) == [(1, 3), (2, 1), (3, 1)]
    assert rows(spark, f"{counts} VERSION AS OF 1") == [(1, 2), (2, 1)]


def test_a_stream_passes_changes_on(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Deletions too: the table that they go into has the same rows after each micro-batch."""
    table, names = create(spark, scope, "customers", "id BIGINT, name STRING"), f"pravega.`{scope}`.names"
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    for statement in (
        f"UPDATE {table} SET name = name || name WHERE id < 3",
        f"DELETE FROM {table} WHERE id = 2",
        f"MERGE INTO {table} t USING (SELECT id + 2 AS id FROM range(3)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')",
    ):
        spark.sql(statement)
        changes = spark.readStream.changes(table).filter("_change_type <> 'update_preimage'")
        passed = changes.selectExpr("id", "upper(name) AS name", "_change_type = 'delete' AS gone")
        options = {"format": "debezium-json", "primary-key": "id"} if statement.startswith("UPDATE") else {}
        writer = passed.writeStream.options(**options).option("delete-column", "gone").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).toTable(names).awaitTermination()
        assert rows(spark, names) == [(id, name.upper()) for id, name in rows(spark, table)]
    assert spark.table(names).columns == ["id", "name"] and rows(spark, names) == [(1, "AA"), (2, "NEW"), (4, "NEW")]

    with pytest.raises(PySparkException, match="whose rows do not change"):
        events = f"pravega.`{scope}`.events"
        spark.sql(f"CREATE TABLE {events} (id BIGINT, name STRING) USING pravega")
        query = passed.writeStream.option("delete-column", "gone").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "events")).toTable(events).awaitTermination()


def test_a_batch_that_deletes_does_not_read_its_own_table(
    spark: SparkSession, cluster: ClusterInfo, scope: str
) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    uris = {"controller-uri": cluster.controller_uri, "schema-registry-uri": cluster.registry_uri}
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")

    def delete_by(rows: str) -> None:
        writer = spark.sql(f"SELECT *, id = 1 AS gone FROM {rows}").write.format("pravega").mode("append")
        writer.options(**uris, scope=scope, stream="t").option("delete-column", "gone").save()

    with pytest.raises(PySparkException, match=r"'delete-column'='gone' is not supported in a batch .* use MERGE"):
        delete_by(table)
    assert rows(spark, table) == [(1, "a"), (2, "b")] and len(history(spark, table)) == 1
    delete_by("VALUES (1, 'a'), (3, 'c') AS t(id, name)")
    assert rows(spark, table) == [(2, "b"), (3, "c")] and len(history(spark, table)) == 2


@pytest.mark.parametrize("option", ["'end-version'='1'", "'mode'='dropmalformed'", "'primary-key'='name'"])
def test_a_statement_reads_the_rows_as_they_are(spark: SparkSession, scope: str, option: str) -> None:
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {table} SET name = 'c' WHERE id = 1")
    for statement in ("UPDATE {} SET id = id + 10", "DELETE FROM {}"):
        raised = condition(spark, statement.format(f"{table} WITH ({option})"))
        assert raised.startswith("PRAVEGA_INVALID_OPTION") and f"{option} is for SELECT" in raised
    assert rows(spark, table) == [(1, "c"), (2, "b")] and len(history(spark, table)) == 2
    spark.sql(f"DELETE FROM {table} WITH ('read-window'='1m', 'current-rows.memory'='64m') WHERE id = 1")
    assert rows(spark, table) == [(2, "b")]


def test_keys_of_others_that_are_not_padded_stay_as_they_are(
    spark: SparkSession, cluster: ClusterInfo, scope: str
) -> None:
    """MySQL's connector writes CHAR without the blanks at the end."""
    table = create(spark, scope, "t", "id CHAR(3), part CHAR(2), name STRING", framing="none", primary_key="id,part")
    source = {"connector": "other", "name": "other", "ts_ms": 1}
    event = {"before": None, "after": {"id": "ab", "part": "xy", "name": "a"}, "source": source, "op": "c", "ts_ms": 1}
    deliver(spark, cluster, scope, json.dumps(event))
    spark.sql(f"UPDATE {table} SET name = 'b' WHERE id = 'ab'")
    spark.sql(f"UPDATE {table} SET part = 'z' WHERE id = 'ab'")
    changes = spark.sql(
        f"SELECT op, before.id, after.* FROM pravega.`{scope}`.`t$changelog` ORDER BY _offset"
    ).collect()
    assert [tuple(row) for row in changes] == [
        ("c", None, "ab ", "xy", "a"),
        ("u", "ab ", "ab ", "xy", "b"),
        ("d", "ab ", None, None, None),
        ("c", None, "ab ", "z ", "b"),
    ]
    assert rows(spark, table) == [("ab ", "z ", "b")]
    spark.sql(f"DELETE FROM {table}")
    assert rows(spark, table) == []


def test_the_page_is_true(spark: SparkSession, scope: str) -> None:
    """docs/tables-that-change.md: its SQL."""
    text = PAGE.read_text().split("```sql\n")[1].split("```")[0].replace("pravega.shop", f"pravega.`{scope}`")
    statements = [part.strip() for part in re.sub(r" +--.*", "", text).split(";") if part.strip()]
    *_, now, first, operations = [spark.sql(statement).collect() for statement in statements]
    assert [(row.id, row.credit) for row in sorted(now)] == [(1, Decimal("6.00")), (9, Decimal("-2.00"))]
    assert len(first) == 3 and [row.operation for row in operations] == ["INSERT", "UPDATE", "DELETE", "MERGE"]


def test_a_task_that_is_killed_after_it_has_written_a_part(spark: SparkSession, scope: str) -> None:
    """The second attempt of a task finds what the first one has appended to the transaction."""
    table = create(spark, scope, "t", "id BIGINT, n BIGINT")
    spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(50000)")

    def fail_once(id: int) -> int:
        context = TaskContext.get()
        assert context is not None
        if id == 49_999 and context.attemptNumber() == 0:
            os._exit(1)
        return id + 1

    with registered(spark, "fail_once", fail_once, "bigint"):
        spark.sql(f"UPDATE {table} SET n = fail_once(id)")
    found = spark.sql(f"SELECT count(*), count(DISTINCT id), sum(n - id) FROM {table}").first()
    assert tuple(found) == (50_000, 50_000, 50_000)
    assert history(spark, table) == [("INSERT", 50_000), ("UPDATE", 50_000)]
