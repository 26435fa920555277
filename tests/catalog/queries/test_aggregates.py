"""Aggregates that tasks begin have the results that Spark comes to without, in bits: rows of all sorts, all modes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import Stream
from tests.catalog.queries.test_bad_event_modes import BAD, GOOD
from tests.catalog.streaming.changes_streams import scale
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

ROWS = 20_000
"""More than a batch has, of one segment: Spark adds doubles of several tasks in any order."""
SOURCE = f"""
    SELECT id,
      element_at(array('', 'a', NULL, 'ż', 'a ', '\uffff', '\U0001f600', 'Z'), int(abs(hash(id)) % 8) + 1) AS k,
      IF(id % 13 = 0, NULL, hash(id, 1) % 2 = 0) AS b,
      CAST(pmod(hash(id, 2), 256) - 128 AS TINYINT) AS y,
      CAST(pmod(hash(id, 3), 65536) - 32768 AS SMALLINT) AS h,
      CASE id % 997 WHEN 1 THEN 2147483647 WHEN 2 THEN -2147483648 WHEN 3 THEN NULL ELSE hash(id, 4) END AS n,
      IF(id % 7 = 0, NULL, hash(id, 5) * 1000L) AS l,
      xxhash64(id) AS w,
      IF(id % 9 = 0, NULL, hash(id, 6) / 7.0D) AS d,
      CAST(hash(id, 7) / 3.0D AS FLOAT) AS f,
      element_at(array(0.0D, -0.0D, double('NaN'), NULL, double('inf'), 1.5D, -2.5D, 0.1D), int(id % 8) + 1) AS z,
      element_at(array(-0.0D, double('NaN'), NULL, 1.5D, -2.5D), int(id % 5) + 1) AS e,
      date_add(DATE '0001-01-01', int(pmod(hash(id, 9), 3652058))) AS day,
      timestamp_micros(hash(id, 10) * 1000003L) AS at,
      CAST(timestamp_micros(hash(id) * 77L) AS TIMESTAMP_NTZ) AS local,
      IF(id % 5 = 0, NULL, concat(char(int(abs(hash(id)) % 300)), repeat('ż', int(id % 4)), id)) AS s,
      CAST(concat('b', id % 50) AS BINARY) AS x,
      CAST(hash(id, 11) AS DECIMAL(20, 3)) AS c,
      named_struct('m', IF(id % 3 = 0, NULL, id)) AS st,
      CAST(k AS STRING COLLATE UNICODE_CI) AS u
    FROM range(0, {ROWS}, 1, 1)"""
MANY = """
    count(*), count(k), count(st), sum(y), sum(h), sum(n), sum(l), sum(d), sum(f), avg(d), avg(f), min(b), max(b),
    min(y), max(h), min(n), max(n), min(l), max(w), min(d), max(d), min(f), max(f), min(e), max(e), min(day), max(day),
    min(at), max(at), min(local), max(local), min(s), max(s)"""
PUSHED = {
    "one row of all": f"SELECT {MANY}, count(1) + 1 AS more, sum(n) / count(n) AS mean FROM rows",
    "groups": f"SELECT k, b, {MANY} FROM rows GROUP BY k, b",
    "groups of bytes and of whole numbers": "SELECT x, y, count(*), max(s), avg(d) FROM rows GROUP BY ALL",
    "groups of one row each": "SELECT at, local, day, n, count(*), sum(d), min(k) FROM rows GROUP BY ALL",
    "numbers with NaN and -0.0": "SELECT k, min(z), max(z), sum(z), avg(z), count(z) FROM rows GROUP BY k",
    "greatest of numbers with NaN": "SELECT max(z), min(z), max(s), sum(l) FROM rows",
    "sums of numbers with NaN": "SELECT b, sum(z), avg(z) FROM rows GROUP BY b",
    "sums that are too large": "SELECT k, sum(w) FROM rows GROUP BY k",
    "one sum that is too large": "SELECT sum(w), max(w) FROM rows",
    "tried sums that are too large": "SELECT k, try_sum(w), sum(l) FROM rows GROUP BY k",
    "different rows": "SELECT DISTINCT k, b, y FROM rows",
    "filtered": "SELECT k, count(*), max(n), sum(d) FROM rows WHERE l > 5 AND s IS NOT NULL GROUP BY k",
    "numbers of filtered rows": "SELECT count(*) FROM rows WHERE z > 1 OR NOT (k LIKE 'a%')",
    "none of the rows": "SELECT count(*), max(n), avg(d) FROM rows WHERE n > 5 AND n < 5",
    "behind": """
        SELECT one.n, two.n FROM (SELECT k, count(*) AS n FROM rows GROUP BY k HAVING n > 2000) one
        JOIN (SELECT k, max(s) AS n FROM rows GROUP BY k ORDER BY n LIMIT 5) two ON one.k <=> two.k
        WHERE one.n > (SELECT min(n) FROM rows)""",
}
TOO_LARGE = ("sums that are too large", "one sum that is too large")
NOT_PUSHED = {
    "averages of whole numbers": "SELECT avg(n), avg(l), count(n), sum(n) FROM rows",
    "different values": "SELECT k, count(DISTINCT b), sum(DISTINCT y), count(*) FROM rows GROUP BY k",
    "expressions": "SELECT sum(n + 1L), max(upper(s)), count(st.m), count(k, b) FROM rows",
    "of expressions": "SELECT n % 10, count(*) FROM rows GROUP BY n % 10",
    "some of the rows": "SELECT count(*) FILTER (WHERE n > 0), count(*), max(n) FROM rows",
    "filtered by what a task cannot tell": "SELECT k, count(*), max(n) FROM rows WHERE l > 5 AND n % 3 = 1 GROUP BY k",
    "limited": "SELECT count(*), count(s) FROM (SELECT s FROM rows LIMIT 7)",
    "groups of floating-point numbers": "SELECT z, count(*) FROM rows GROUP BY z",
    "groups of collated texts": "SELECT u, count(*) FROM rows GROUP BY u HAVING count(*) > 2600",
    "other types": "SELECT max(u), sum(c), max(c), avg(c), max(st) FROM rows",
    "other functions": "SELECT stddev(d), max_by(n, w), bit_xor(w), approx_count_distinct(k) FROM rows",
    "several groupings": "SELECT k, b, count(*), max(n) FROM rows GROUP BY ROLLUP (k, b)",
}


@pytest.fixture
def table(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """The rows in one segment."""
    spark.sql(f"CREATE NAMESPACE pravega.{fresh_name}")
    spark.sql(f"CREATE TABLE pravega.{fresh_name}.t USING pravega TBLPROPERTIES ('format'='avro') AS {SOURCE}")
    yield f"pravega.{fresh_name}.t"
    spark.sql(f"DROP NAMESPACE pravega.{fresh_name} CASCADE")


def plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def answer(rows: DataFrame) -> list[str]:
    """The rows in any order, with all bits of their numbers; of an error its condition."""
    try:
        return sorted(map(repr, rows.collect()))
    except PySparkException as error:
        return [str(error.getCondition())]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["brief", "every way"])
def test_results_are_those_of_spark(spark: SparkSession, table: str, tmp_path: Path, every: bool) -> None:
    """Every way: also without push-down, and what is not pushed."""
    spark.sql(SOURCE).write.parquet(str(tmp_path / "rows"))
    for ansi in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", ansi)
        sources = {
            "pushed": session.table(table),
            "not pushed": session.read.option("push-down-aggregates", "false").table(table),
            "Parquet": session.read.parquet(str(tmp_path / "rows")),
        }
        statements = {**PUSHED, **NOT_PUSHED} if ansi == "true" else {k: v for k, v in PUSHED.items() if "sum" in k}
        for name, text in statements.items():
            found = {}
            for source, rows in sources.items():
                if source == "not pushed" and (name in NOT_PUSHED or not every):
                    continue  # of what is not pushed the same as "pushed"
                if source == "Parquet" and name in NOT_PUSHED and not every:
                    continue  # only planned
                rows.createOrReplaceTempView("rows")
                asked = session.sql(text)
                assert ("; aggregates: " in plan(asked)) == (source == "pushed" and name in PUSHED), (name, plan(asked))
                if every or name in PUSHED:
                    found[source] = answer(asked)
            for other in found.values():
                assert other == found["Parquet"], (name, ansi)
            if found:
                assert (found["pushed"] == ["ARITHMETIC_OVERFLOW"]) == (ansi == "true" and name in TOO_LARGE), name


def test_explain_shows_them_and_an_option_turns_them_off(spark: SparkSession, table: str) -> None:
    asked = "SELECT k, count(*), avg(d), max(s) FROM {} GROUP BY k"
    shown = "columns: k, d, s; segments: 1, bytes: "
    begun = "; aggregates: count(*), sum(d), count(d), max(s) by k"
    text = plan(spark.sql(asked.format(table)))
    assert shown in text and begun in text
    text = plan(spark.sql(asked.format(f"{table} WITH ('push-down-aggregates'='false')")))
    assert shown in text and "aggregates" not in text
    with pytest.raises(PySparkException, match="'some' of 'push-down-aggregates'"):
        spark.sql(asked.format(f"{table} WITH ('push-down-aggregates'='some')")).collect()
    places = spark.sql(f"SELECT _segment, count(*) AS n, min(_offset), count(_event_pointer) FROM {table} GROUP BY ALL")
    assert "; aggregates: " in plan(places)
    [row] = places.collect()
    assert (row._segment.rsplit("/", 2)[1:], *row[1:]) == (["t", "0.#epoch.0"], ROWS, 0, ROWS)
    # CHANGES are read as they are.
    changes = spark.sql(f"SELECT _change_type, count(*) FROM {table} CHANGES FROM VERSION 1 GROUP BY ALL")
    assert "aggregates" not in plan(changes) and list(map(tuple, changes.collect())) == [("insert", ROWS)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dead-letter": "letters"},
        # Which test_equality_of_bad_events.py asks for too.
        pytest.param({"mode": "permissive"}, marks=pytest.mark.long),
        pytest.param({"mode": "dropmalformed"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_bad_events(spark: SparkSession, client_config: ClientConfig, scope: str, options: dict[str, str]) -> None:
    name = f"pravega.`{scope}`.events"
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING) TBLPROPERTIES ('format'='json', 'framing'='none')")
    payloads = [each for pair in zip(BAD, GOOD, strict=False) for each in pair] + GOOD[len(BAD) :]
    with connect(client_config) as pravega:
        insert(
            pravega,
            raw_table(Stream(scope, "events")),
            pa.record_batch([pa.array(payloads, pa.binary())], names=["event"]),
        )

    def found(text: str, pushed: str) -> list[str]:
        given = {**options, "push-down-aggregates": pushed}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        asked = spark.sql(text.replace("FROM rows", f"FROM {name} WITH ({listed})"))
        # In failfast mode nobody looks into the events, all of which are from INSERTs.
        by_log = text.startswith("SELECT count(*) AS n") and not options
        assert (("LocalTableScan" if by_log else "; aggregates: ") in plan(asked)) == (pushed == "true")
        try:
            return sorted(map(repr, asked.collect()))
        except PySparkException as error:
            return [str(error)]

    for text in (
        "SELECT count(*) AS n FROM rows",
        "SELECT count(*), count(k), count(v), min(v), sum(k) FROM rows",
        "SELECT v, count(*), max(k) FROM rows GROUP BY v",
        "SELECT DISTINCT k FROM rows",
        "SELECT _segment, count(*), max(_offset) FROM rows GROUP BY _segment",
    ):
        assert found(text, "true") == found(text, "false"), text
    good = 15 if options.get("mode", "") != "dropmalformed" and "dead-letter" not in options else 10
    assert found("SELECT count(*) AS n FROM rows", "true") == [f"Row(n={good})"]


def test_all_rows_are_counted_by_the_commit_log(spark: SparkSession, scope: str, pravega: Pravega) -> None:
    table, stream = f"pravega.`{scope}`.t", Stream(scope, "t")
    create = (
        f"CREATE TABLE {table} (id INT, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='json', 'framing'='none', 'scaling.min-segments'='3')"
    )
    insert = f"INSERT INTO {table} SELECT int(id), repeat('v', int(id % 5)) FROM range(20)"

    def counted(by_log: bool, text: str = f"SELECT count(*) AS n FROM {table}") -> int:
        asked = spark.sql(text)
        assert ("LocalTableScan" in plan(asked)) == by_log, plan(asked)
        [(number,)] = asked.collect()
        assert number == spark.read.option("push-down-aggregates", "false").table(table).count()
        return int(number)

    spark.sql(create)
    assert counted(False) == 0
    for number in (1, 2):
        spark.sql(insert)
        assert counted(True) == 20 * number
    assert spark.sql(f"SELECT count(*), 2 * count(1), count(id) FROM {table}").collect() == [(40, 80, 40)]
    twice = spark.sql(f"SELECT (SELECT count(*) FROM {table}) AS n, count(*) FROM {table} HAVING count(*) > 39 LIMIT 1")
    assert twice.collect() == [(40, 40)]
    assert counted(False, f"SELECT count(*) FROM {table} WITH ('mode'='permissive')") == 40
    assert spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF 1").collect() == [(20,)]
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE id < 5").collect() == [(10,)]
    segment = pravega.controller.current_segments(stream)[0].segment_id
    with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
        appender.append(frame(pa.array([b'{"id":1}'], pa.binary())), 1)
        appender.flush()
    assert counted(False) == 41
    spark.sql(insert)
    assert counted(False) == 61
    spark.sql(f"TRUNCATE TABLE {table}")
    spark.sql(insert)
    assert counted(False) == 20
    spark.sql(f"DROP TABLE {table}")
    spark.sql(create)
    spark.sql(insert)
    assert counted(True) == 20
    scale(pravega, stream, 0)
    spark.sql(insert)
    assert counted(False) == 40


def test_other_tables(spark: SparkSession, scope: str) -> None:
    """Empty ones, those of changes, and several as one."""
    for name in ("a", "b", "empty"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.{name} (id INT, v STRING) TBLPROPERTIES ('format'='json')")
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.changed (id INT, v STRING) "
        f"TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id', 'scaling.min-segments'='2')"
    )
    for name, ids in {"a": "range(20)", "b": "range(15, 40)", "changed": "range(30)"}.items():
        spark.sql(f"INSERT INTO pravega.`{scope}`.{name} SELECT int(id), concat('v', id % 3) FROM {ids}")
    spark.sql(f"INSERT INTO pravega.`{scope}`.changed SELECT int(id), 'again' FROM range(10)")

    def read(name: str, pushed: str) -> DataFrame:
        reader = spark.read.option("push-down-aggregates", pushed)
        if name == "several":
            return reader.format("pravega").options(catalog="pravega", scope=scope, streams="a,b,empty").load()
        return reader.table(f"pravega.`{scope}`.`{name}`")

    ask: dict[str, Callable[[DataFrame], DataFrame]] = {
        "count": lambda rows: rows.groupBy().count(),
        "more": lambda rows: rows.selectExpr("count(id)", "sum(id)", "max(v)", "count(*)"),
        "groups": lambda rows: rows.groupBy("v").agg({"id": "max", "*": "count"}),
    }
    counts = {"a": 20, "empty": 0, "changed": 30, "changed$changelog": 40, "several": 45}
    for name, count in counts.items():
        for key, question in ask.items():
            if "$" in name and key != "count":
                continue
            pushed, not_pushed = question(read(name, "true")), question(read(name, "false"))
            by_log = key == "count" and name in ("a", "changed$changelog")
            shown = "LocalTableScan" if by_log else "; aggregates: "
            assert shown in plan(pushed) and "aggregates" not in plan(not_pushed), (name, key)
            assert answer(pushed) == answer(not_pushed), (name, key)
        assert read(name, "true").count() == count
    streams = read("several", "true").groupBy("_stream").count()
    assert sorted(map(tuple, streams.collect())) == [("a", 20), ("b", 25)]
    nothing = read("empty", "true").selectExpr("count(*)", "count(id)", "sum(id)", "max(v)")
    assert nothing.collect() == [(0, 0, None, None)]
