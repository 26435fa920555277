"""CHANGES through SQL and spark.read.changes: rows appended by version, rows changed by the database's position."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.tables.test_debezium import create_stream, declare, rows_of, write, write_scaled
from tests.debezium import Record, records, tables
from tests.formats.changes.test_debezium_capture import assert_equal


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """A table to which three statements added rows."""
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT, b STRING) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")
    for values in ("(1, 'x'), (2, 'y')", "(3, 'z')", "(4, 'x'), (5, 'y')"):
        spark.sql(f"INSERT INTO {name} VALUES {values}")
    return name


def versions(spark: SparkSession, query: str) -> list[tuple[int, int]]:
    """Value and version of inserted rows, sorted."""
    found = spark.sql(query).collect()
    assert {row._change_type for row in found} <= {"insert"}
    return sorted((row.a, row._commit_version) for row in found)


def test_of_an_appended_table_every_row_is_an_insert(spark: SparkSession, table: str) -> None:
    everything = [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)]
    assert versions(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 1") == everything
    assert versions(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 2 TO VERSION 2") == [(3, 2)]
    assert versions(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 2 TO VERSION 9") == everything[2:]
    assert versions(spark, f"SELECT * FROM {table} CHANGES FROM VERSION 4") == []
    assert spark.sql(f"SELECT b, a FROM {table} CHANGES FROM VERSION 3 WHERE a > 4").collect() == [Row(b="y", a=5)]
    assert spark.sql(f"SELECT count(*) FROM {table} CHANGES FROM VERSION 2").first() == (3,)
    assert len(spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 1 LIMIT 2").collect()) == 2
    frame = spark.read.option("startingVersion", 2).option("endingVersion", 3).changes(table)
    assert sorted(row.a for row in frame.collect()) == [3, 4, 5]
    assert frame.columns == ["a", "b", "_change_type", "_commit_version", "_commit_timestamp"]


def test_net_changes_of_an_appended_table_are_its_rows(spark: SparkSession, table: str) -> None:
    query = f"SELECT * FROM {table} CHANGES FROM VERSION 1 TO VERSION 2 WITH (deduplicationMode = 'netChanges')"
    assert versions(spark, query) == [(1, 1), (2, 1), (3, 2)]


def test_versions_have_the_time_of_their_commit(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    times = {
        row._commit_version: row._commit_timestamp
        for row in spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 1").collect()
    }
    assert times[1] < times[2] < times[3]
    assert abs(times[3].timestamp() - time.time()) < 300
    shown = {version: found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f") for version, found in times.items()}

    def between(bounds: str) -> list[int]:
        return [a for a, _ in versions(spark, f"SELECT * FROM {table} CHANGES FROM TIMESTAMP {bounds}")]

    assert between(f"'{shown[2]}'") == [3, 4, 5]
    assert between(f"'{shown[1]}' TO TIMESTAMP '{shown[2]}'") == [1, 2, 3]
    assert between(f"'{shown[1]}' EXCLUSIVE TO TIMESTAMP '{shown[3]}' EXCLUSIVE") == [3]
    assert between("'2001-01-01' TO TIMESTAMP '2001-01-02'") == []
    assert between(f"'2001-01-01' TO TIMESTAMP '{shown[3]}'") == [1, 2, 3, 4, 5]


def test_what_others_wrote_belongs_to_the_next_version(
    spark: SparkSession, client_config: ClientConfig, scope: str
) -> None:
    name, stream = f"pravega.`{scope}`.mixed", Stream(scope, "mixed")
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none')")
    with connect(client_config) as pravega:
        write(pravega, stream, [Record("k", b'{"a":1}')])
        assert versions(spark, f"SELECT * FROM {name} CHANGES FROM VERSION 1") == [(1, 1)]
        spark.sql(f"INSERT INTO {name} VALUES (2)")
        write(pravega, stream, [Record("k", b'{"a":3}')])
        segment = pravega.controller.current_segments(stream)[0]
        pravega.controller.scale_stream(stream, [segment.segment_id], [(0.0, 0.5), (0.5, 1.0)])
        write(pravega, stream, [Record("k", b'{"a":4}')])
    found = spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1").collect()
    assert sorted((row.a, row._commit_version) for row in found) == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert {row.a for row in found if row._commit_timestamp is None} == {3, 4}
    spark.sql(f"INSERT INTO {name} VALUES (5)")
    later = spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 2").collect()
    assert sorted((row.a, row._commit_version) for row in later) == [(3, 2), (4, 2), (5, 2)]
    assert all(row._commit_timestamp is not None for row in later)


def test_what_has_no_version_yet_counts_as_of_now(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    name, stream = f"pravega.`{scope}`.foreign", Stream(scope, "foreign")
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none')")
    with connect(client_config) as pravega:
        write(pravega, stream, [Record("k", b'{"a":1}')])
    changes = f"SELECT * FROM {name} CHANGES FROM TIMESTAMP"
    assert versions(spark, f"{changes} '2020-01-01' TO TIMESTAMP '2100-01-01'") == [(1, 1)]
    assert versions(spark, f"{changes} '2020-01-01'") == [(1, 1)]
    assert versions(spark, f"{changes} '2020-01-01' TO TIMESTAMP '2021-01-01'") == []


def test_ranges_without_sense(spark: SparkSession, table: str) -> None:
    for bounds, words in (
        ("VERSION 'x'", "FROM VERSION 'x' is not a version: give a whole number"),
        ("VERSION 1 TO VERSION 'y'", "TO VERSION 'y' is not a version: give a whole number"),
        ("VERSION 7", "the newest version is 3, and the next one will be 4"),
        ("VERSION 3 TO VERSION 2", "ends at version 2, before its start 3"),
    ):
        with pytest.raises(PySparkException, match=words):
            spark.sql(f"SELECT * FROM {table} CHANGES FROM {bounds}").collect()
    with pytest.raises(PySparkException, match="'end-stream-cut' out"):
        spark.read.option("startingVersion", 1).option("end-stream-cut", "latest").changes(table).collect()
    with pytest.raises(PySparkException, match="no option 'startVersion'. Did you mean 'startingVersion'"):
        spark.read.option("startVersion", 1).changes(table).collect()
    with pytest.raises(PySparkException, match="cannot be found"):
        spark.sql(f"SELECT * FROM {table}s CHANGES FROM VERSION 1").collect()


def test_columns_of_the_same_name(spark: SparkSession, scope: str) -> None:
    name = f"pravega.`{scope}`.taken"
    spark.sql(f"CREATE TABLE {name} (a INT, _Commit_Version INT) USING pravega")
    with pytest.raises(PySparkException, match="has the column _Commit_Version, a name that CHANGES uses"):
        spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1").collect()


def change(op: str, lsn: int, before: Any, after: Any) -> Record:
    """A change as Debezium writes it, for PostgreSQL."""
    source = {"connector": "postgresql", "name": "dbz", "db": "shop", "lsn": lsn, "ts_ms": 1_000 * lsn}
    envelope = {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1_000 * lsn + 7}
    key = (after or before or {"id": 0})["id"]
    return Record(None if op == "t" else json.dumps({"id": key}), json.dumps(envelope).encode())


CHANGES = (
    change("r", 10, None, {"id": 1, "v": "a"}),
    change("c", 20, None, {"id": 2, "v": "b"}),
    change("u", 30, {"id": 1, "v": None}, {"id": 1, "v": "c"}),
    change("u", 30, {"id": 1, "v": None}, {"id": 1, "v": "c"}),
    change("d", 40, {"id": 2, "v": None}, None),
    change("u", 50, {"id": 1, "v": None}, {"id": 1, "v": "d"}),
    change("t", 60, None, None),
    change("c", 70, None, {"id": 3, "v": "e"}),
)


@pytest.fixture
def changed(spark: SparkSession, client_config: ClientConfig, scope: str) -> str:
    """A change table whose events lie in two segments."""
    stream = Stream(scope, "dbz.shop")
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        write(pravega, stream, CHANGES)
    name = f"pravega.`{scope}`.`dbz.shop`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    return name


def feed(spark: SparkSession, table: str, bounds: str) -> list[tuple[int, str, int, str]]:
    """Version, kind, key and value of each change, by version."""
    found = spark.sql(f"SELECT * FROM {table} CHANGES FROM {bounds}").collect()
    order = ["delete", "update_preimage", "update_postimage", "insert"]
    rows = [(row._commit_version, row._change_type, row.id, row.v) for row in found]
    return sorted(rows, key=lambda row: (row[0], row[2], order.index(row[1])))


HISTORY = [
    (10, "insert", 1, "a"),
    (20, "insert", 2, "b"),
    (30, "update_preimage", 1, "a"),
    (30, "update_postimage", 1, "c"),
    (40, "delete", 2, "b"),
    (50, "update_preimage", 1, "c"),
    (50, "update_postimage", 1, "d"),
    (60, "delete", 1, "d"),
    (70, "insert", 3, "e"),
]


def test_of_a_change_table_rows_come_with_both_images(spark: SparkSession, changed: str) -> None:
    assert feed(spark, changed, "VERSION 0") == HISTORY
    assert feed(spark, changed, "VERSION 30 TO VERSION 50") == HISTORY[2:7]
    assert feed(spark, changed, "VERSION '0/1E' EXCLUSIVE TO VERSION '0/32' EXCLUSIVE") == HISTORY[4:5]
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert feed(spark, changed, "TIMESTAMP '1970-01-01 00:01:00' TO TIMESTAMP '1970-01-01 00:01:05'") == HISTORY[7:8]
    stamps = {
        row._commit_version: row._commit_timestamp.astimezone(UTC)
        for row in spark.sql(
            f"SELECT _commit_version, _commit_timestamp FROM {changed} CHANGES FROM VERSION 20 TO VERSION 30"
        ).collect()
    }
    assert stamps == {at: datetime.fromtimestamp(at, UTC) for at in (20, 30)}
    count = spark.sql(f"SELECT count(*) FROM {changed} CHANGES FROM VERSION 0").first()
    assert count == (len(HISTORY),)
    kinds = spark.sql(f"SELECT _change_type FROM {changed} CHANGES FROM VERSION 0 WHERE v = 'c'").collect()
    assert sorted(row[0] for row in kinds) == ["update_postimage", "update_preimage"]


def test_net_changes_of_a_change_table(spark: SparkSession, changed: str) -> None:
    net = "WITH (deduplicationMode = 'netChanges')"
    found = spark.sql(f"SELECT * FROM {changed} CHANGES FROM VERSION 0 {net}").collect()
    assert [(row._change_type, row.id, row.v) for row in found] == [("insert", 3, "e")]
    query = f"SELECT * FROM {changed} CHANGES FROM VERSION 30 TO VERSION 50 "
    for settings, expected in (
        (net, [(1, "delete", "a"), (1, "insert", "d"), (2, "delete", "b")]),
        (
            "WITH (deduplicationMode = 'netChanges', computeUpdates = 'true')",
            [(1, "update_postimage", "d"), (1, "update_preimage", "a"), (2, "delete", "b")],
        ),
    ):
        found = spark.sql(query + settings).collect()
        assert sorted((row.id, row._change_type, row.v) for row in found) == expected


def test_changes_of_no_row(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    stream = Stream(scope, "nobody")
    name = f"pravega.`{scope}`.nobody"
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 1)
        write(
            pravega, stream, [change("c", 10, None, {"id": 1, "v": "a"}), change("c", 20, None, {"v": "b", "id": None})]
        )
    spark.sql(
        f"CREATE TABLE {name} (id INT NOT NULL, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    with pytest.raises(
        PySparkException, match=r"The event at offset \d+ of segment .*nobody.* no value in column 'id'"
    ):
        spark.table(name).collect()
    with pytest.raises(PySparkException, match="no value in column 'id'"):
        spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 0").collect()
    with pytest.raises(PySparkException, match="_raw"):
        spark.sql(f"SELECT _raw FROM {name}").collect()


def test_a_change_that_cannot_be_decoded(spark: SparkSession, client_config: ClientConfig, scope: str) -> None:
    """The rows without it, where that is asked for."""
    stream, name = Stream(scope, "dbz.shop"), f"pravega.`{scope}`.`dbz.shop`"
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        write(
            pravega,
            stream,
            [*CHANGES[:4], Record(None, b"?"), Record(json.dumps({"id": 1}), b'{"op":"x"}'), *CHANGES[4:]],
        )
    spark.sql(
        f"CREATE TABLE {name} (id INT, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    rows = f"SELECT * FROM {name}"
    for query in (rows, f"{rows} CHANGES FROM VERSION 0"):
        with pytest.raises(PySparkException, match="PRAVEGA_MALFORMED_EVENT.*its 'op' is 'x'|not a JSON document"):
            spark.sql(query).collect()
    changelog = f"SELECT op, _error, _raw FROM pravega.`{scope}`.`dbz.shop$changelog`"
    with pytest.raises(PySparkException, match="PRAVEGA_MALFORMED_EVENT"):
        spark.sql(changelog).collect()
    logged = spark.sql(f"{changelog} WITH ('mode'='permissive')").collect()
    assert sorted((str(row.op), bytes(row._raw)) for row in logged if row._error) == [
        ("None", b"?"),
        ("None", b'{"op":"x"}'),
    ]
    assert len(logged) == len(CHANGES) + 2
    assert spark.sql(f"{changelog} WITH ('mode'='dropmalformed')").count() == len(CHANGES)
    with pytest.raises(PySparkException, match="'permissive' cannot be used for the rows of stream"):
        spark.sql(f"{rows} WITH ('mode'='permissive')").collect()
    assert spark.sql(f"{rows} WITH ('mode'='dropmalformed')").collect() == [Row(id=3, v="e")]
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('dead-letter'='letters')")
    assert spark.sql(f"SELECT v FROM {name}").collect() == [Row(v="e")]
    assert feed(spark, name, "VERSION 0") == HISTORY
    letters = spark.sql(f"SELECT DISTINCT reason, event FROM pravega.`{scope}`.letters").collect()
    assert sorted(bytes(row.event) for row in letters) == [b"?", b'{"op":"x"}']


def after_changes(found: Sequence[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that changes lead to. Those of one version and key are in the order in which they were read."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in found:
        kind = each.pop("_change_type")
        del each["_commit_version"], each["_commit_timestamp"]
        place = tuple(each[name] for name in key)
        if kind in ("insert", "update_postimage"):
            assert (kind == "insert") == (place not in rows)
            rows[place] = each
        elif kind == "delete":
            assert str(rows.pop(place)) == str(each)
        else:
            assert str(rows[place]) == str(each)
    return list(rows.values())


@pytest.mark.parametrize("name", ["customers", "orders", "staging", "scratch"])
def test_changes_of_captured_streams_lead_to_their_tables(
    spark: SparkSession, client_config: ClientConfig, scope: str, name: str
) -> None:
    captured = tables()[name]
    stream = Stream(scope, captured.topic.replace("_", "-"))
    with connect(client_config) as pravega:
        write_scaled(pravega, stream, records()[captured.topic])
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    shown = declare(spark, stream, captured)
    found = rows_of(spark, f"SELECT * FROM {shown} CHANGES FROM VERSION 0")
    for row, (column, kind) in itertools.product(found, spark.table(shown).dtypes):
        if kind == "timestamp" and row[column] is not None:
            row[column] = row[column].astimezone(UTC)
    rows = after_changes(found, captured.key)
    assert_equal(captured, rows)
