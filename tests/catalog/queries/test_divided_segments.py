"""Queries whose scan divides a segment: the answers are those of one task."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.queries.test_bad_event_modes import metrics_in_the_ui
from tests.catalog.storage.test_secrets import catalog_of
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table
from tests.streams import run_available

VERSIONS = 6
DIVIDED = {"min-partitions": "6", "max-bytes-per-task": "200k"}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[str]:
    """A table of one segment, written by several INSERTs, and its rows."""
    namespace = f"pravega.t{uuid.uuid4().hex[:12]}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    name = f"{namespace}.one"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, name STRING, half DOUBLE) USING pravega")
    for version in range(VERSIONS):
        rows = f"SELECT id, concat('name ', id % 7), id / 2 FROM range({version * 1000}, {version * 1000 + 1000}, 1, 1)"
        spark.sql(f"INSERT INTO {name} {rows}")
    yield name
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ("SELECT id, name, half, _offset, _event_pointer FROM {t}", VERSIONS),
        ("SELECT name, count(*), min(half), max(id), sum(id) FROM {t} GROUP BY name ORDER BY name", None),
        ("SELECT id FROM {t} WHERE name = 'name 3' AND half > 100", VERSIONS),
        ("SELECT count(*) FROM {t} WHERE id % 2 = 0", None),
        ("SELECT * FROM {t} LIMIT 5", 1),
        ("SELECT id, _commit_version FROM {t} CHANGES FROM VERSION 1", VERSIONS),
        ("SELECT id, _commit_version FROM {t} CHANGES FROM VERSION 3 TO VERSION 4", 2),
        ("SELECT id FROM {t} VERSION AS OF 2", 2),
        ("SELECT id FROM {t} WHERE _offset < 20000", 1),
    ],
)
def test_answers_are_those_of_one_task(spark: SparkSession, table: str, query: str, tasks: int | None) -> None:
    options = ", ".join(f"'{key}'='{value}'" for key, value in DIVIDED.items())
    before, _, after = query.partition("{t}")
    place = next((at for at in (" WHERE", " GROUP", " LIMIT") if at in after), None)
    asked, rest = (after, "") if place is None else (after[: after.index(place)], after[after.index(place) :])
    whole = spark.sql(f"{before}{table}{after}")
    divided = spark.sql(f"{before}{table}{asked} WITH ({options}){rest}")
    assert [tuple(row) for row in divided.collect()] == [tuple(row) for row in whole.collect()]
    if tasks is not None:
        assert (whole.rdd.getNumPartitions(), divided.rdd.getNumPartitions()) == (1, tasks)


def test_micro_batches_are_divided_if_order_does_not_matter(spark: SparkSession, table: str, tmp_path: Path) -> None:
    seen: list[tuple[int, list[int]]] = []

    def note(batch: DataFrame, number: int) -> None:
        seen.append((batch.rdd.getNumPartitions(), sorted(row.id for row in batch.collect())))

    def stream(**options: str) -> DataStreamReader:
        return spark.readStream.options(**options)

    every = list(range(VERSIONS * 1000))
    for number, (reader, tasks) in enumerate(
        [(stream(), 1), (stream(unordered="true"), 1), (stream(unordered="true", **DIVIDED), VERSIONS)]
    ):
        seen.clear()
        run_available(reader.table(table).writeStream.foreachBatch(note), tmp_path / str(number))
        assert seen == [(tasks, every)]
    with pytest.raises(PySparkException, match="set 'unordered'='true' if the order does not matter"):
        run_available(stream(**DIVIDED).table(table).writeStream.foreachBatch(note), tmp_path / "ordered")
    with pytest.raises(PySparkException, match="'unordered'='true' is given, but a batch has no micro-batches"):
        spark.read.option("unordered", "true").table(table).collect()


def test_all_cores_aggregate_one_segment_from_the_second_scan_on(spark: SparkSession, table: str) -> None:
    """One INSERT of 45 MB has no border within; the first scan notes some, and rows in order stay in one task."""
    name = table.replace(".one", ".large")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, filler STRING) USING pravega")
    spark.sql(f"INSERT INTO {name} SELECT id, repeat(cast(id AS STRING), 600) FROM range(0, 15000, 1, 1)")
    query = f"SELECT count(id), min(filler), max(id) FROM {name}"

    def explain(query: str) -> str:
        return str(spark.sql(f"EXPLAIN {query}").first()[0])  # type: ignore[index]

    assert "parts:" not in explain(query)
    first = spark.sql(query).collect()
    assert first == [(15_000, "0" * 600, 14_999)]
    assert "parts: 3, at borders noted by scans" in explain(query)
    assert spark.sql(query).collect() == first
    assert "parts:" not in explain(f"SELECT id FROM {name}")
    assert "parts:" not in explain(f"SELECT sum(id) FROM {name}"), "which may overflow in one order and not in another"
    assert "parts:" not in explain(f"SELECT count(*) FROM {name}"), "which the commit log answers"
    assert "parts:" not in explain(f"SELECT first(id), last(id) FROM {name}"), "which want the order of the segment"
    divided = spark.sql(f"SELECT id FROM {name} WITH ('min-partitions'='4')")
    assert divided.rdd.getNumPartitions() == 4
    assert [row.id for row in divided.collect()] == list(range(15_000))
    slices, size = (
        metrics_in_the_ui(spark)[name] for name in ("number of segment slices read", "bytes of events read")
    )
    spark.sql(f"SELECT id FROM {name}").collect()
    whole = metrics_in_the_ui(spark)
    assert (slices, whole["number of segment slices read"]) == ("4", "1")
    assert size == whole["bytes of events read"]


def test_who_may_only_read_has_borders_from_the_second_scan_on(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str
) -> None:
    """The tasks cannot note them, and tell the driver, whose service remembers them."""
    spark, place = secure_spark, f"`{secure_scope}`.large"
    spark.sql(f"CREATE TABLE secure.{place} (id BIGINT, filler STRING) USING pravega")
    spark.sql(f"INSERT INTO secure.{place} SELECT id, repeat(cast(id AS STRING), 600) FROM range(0, 15000, 1, 1)")
    name = catalog_of(spark, secure_cluster, "divided", "reader", secure_cluster.users["reader"])

    def explain(catalog: str) -> str:
        return str(spark.sql(f"EXPLAIN {query.format(catalog)}").first()[0])  # type: ignore[index]

    query = f"SELECT count(id), min(filler), max(id) FROM {{}}.{place}"
    first = spark.sql(query.format(name)).collect()
    assert first == [(15_000, "0" * 600, 14_999)]
    wait_until(lambda: "parts: 3, at borders noted by scans" in explain(name), "what the task has told", 30)
    assert spark.sql(query.format(name)).collect() == first
    assert "parts:" not in explain("secure"), "which knows only what is in the commit table"


def test_bad_events_are_those_of_one_task(spark: SparkSession, table: str, client_config: ClientConfig) -> None:
    """A scan that goes on behind bad events reads the segment whole; one in parts fails at one of them, too."""
    name = table.replace(".one", ".bad")
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none')")
    scope = name.split(".")[1]
    events = [b'{"id":%d}' % number if number % 250 else b"?" for number in range(1, 3000)]
    with connect(client_config) as pravega:
        for first in range(0, len(events), 500):
            batch = pa.record_batch([pa.array(events[first : first + 500], pa.binary())], names=["event"])
            insert(pravega, raw_table(Stream(scope, "bad")), batch)

    def read(columns: str, options: dict[str, str]) -> list[tuple[object, ...]]:
        found = spark.read.options(**options).table(name)
        assert found.rdd.getNumPartitions() == 1
        return [tuple(row) for row in found.selectExpr(*columns.split()).collect()]

    for columns, options in (
        ("id _error _raw _offset", {"mode": "permissive"}),
        ("id", {"mode": "dropmalformed"}),
        ("id", {"dead-letter": "letters"}),
    ):
        assert read(columns, options | DIVIDED) == read(columns, options), options
    letters = spark.table(table.replace(".one", ".letters")).count()
    assert letters == 2 * 11, "each read writes them"
    with pytest.raises(
        PySparkException, match=r"The event at offset \d+ of segment .*/bad/.* cannot be decoded"
    ) as one:
        spark.table(name).collect()
    parts = spark.read.options(**DIVIDED).table(name)
    assert parts.rdd.getNumPartitions() == 6
    with pytest.raises(PySparkException, match="cannot be decoded") as some:
        parts.collect()
    offset = re.compile(r"at offset (\d+)")
    errors = spark.read.option("mode", "permissive").table(name).where("_error IS NOT NULL").select("_offset")
    bad = {row._offset for row in errors.collect()}
    places = [int(offset.findall(str(each.value))[0]) for each in (one, some)]
    assert places[0] == min(bad) and places[1] in bad


def test_spark_groups_the_parts_of_a_changelog_to_its_rows(spark: SparkSession, table: str) -> None:
    """The recipe of the tuning page: a fold reads a segment whole, the changelog is divided."""
    name = table.replace(".one", ".changes")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, text STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    for version in range(4):
        spark.sql(
            f"INSERT INTO {name} SELECT id, 'version {version}' FROM range({version * 200}, {version * 200 + 500})"
        )
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = {version}")
    namespace = name.rpartition(".")[0]
    changelog = f"{namespace}.`changes$changelog` WITH ('min-partitions'='4')"
    assert spark.sql(f"SELECT op FROM {changelog}").rdd.getNumPartitions() >= 4
    grouped = spark.sql(
        f"""SELECT last.after.* FROM (SELECT max_by(struct(op, after), _offset) AS last FROM {changelog}
        GROUP BY coalesce(after.id, before.id)) WHERE last.op <> 'd'"""
    )
    assert sorted(grouped.collect()) == sorted(spark.table(name).collect())
