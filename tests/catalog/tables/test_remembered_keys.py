"""Rows of single keys from remembered rows: they are those of all events, and little is read for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.streaming.changes_streams import forget, state_directory
from tests.catalog.tables.test_remembered_rows import Table, change

COUNT = 30_000


@pytest.fixture
def table(spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path) -> Iterator[Table]:
    with connect(client_config) as pravega:
        yield Table(spark, pravega, Stream(scope, "rows"), tmp_path / "rows")


@pytest.fixture
def remembering(table: Table, client_config: ClientConfig) -> Iterator[str]:
    """The table in a catalog that remembers rows."""
    conf, name = table.spark.conf, "spark.sql.catalog.remembering"
    confs = {
        name: "io.github.pysparkpravega.PravegaCatalog",
        f"{name}.controller-uri": client_config.controller_uri,
        f"{name}.schema-registry-uri": str(client_config.registry_uri),
        f"{name}.current-rows.remembered-in": table.directory.as_uri(),
    }
    for key, value in confs.items():
        conf.set(key, value)
    yield table.name.replace("pravega", "remembering", 1)
    for key in confs:
        conf.unset(key)


def fill(table: Table, count: int = COUNT, begin: int = 0) -> None:
    table.spark.sql(
        f"INSERT INTO {table.name} SELECT CAST(id AS INT), repeat('x', 150), 'w' FROM range({begin}, {begin + count})"
    )


def bytes_of_files(spark: SparkSession) -> int:
    """The bytes that Hadoop has read so far."""
    statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()  # type: ignore[union-attr]
    return sum(one.getBytesRead() for one in statistics if one.getScheme() == "file")


def stamps(table: Table) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_mtime_ns) for path in table.states()]


def test_a_key_is_read_from_its_block(table: Table, remembering: str) -> None:
    table.create(1)
    fill(table)
    assert table.rows("count(*)") == [(COUNT,)]
    written, [state] = stamps(table), table.states()
    forget(table.spark)
    before = bytes_of_files(table.spark)
    assert table.rows("id, w", "WHERE id = 777") == [(777, "w")] and table.read == 0
    assert bytes_of_files(table.spark) - before < state.stat().st_size * 0.6
    assert list(state_directory(table.spark).iterdir()) == [], "the copy of the block is gone"
    assert state_directory(table.spark).stat().st_mode & 0o077 == 0
    table.write(change("u", 777, "new", 10), change("d", 5, None, 11), change("c", COUNT, "b", 12))
    where = f"WHERE id IN (1, 5, 777, {COUNT})"
    rows = [(1, "w"), (COUNT, "w12"), (777, "w10")]
    assert table.rows("id, w", where) == rows and 0 < table.read < 10_000
    assert table.rows("count(*)", where) == [(3,)]
    assert stamps(table) == written, "without the other keys nothing can be written"
    assert table.rows("count(*)") == [(COUNT,)]
    assert len(table.states()) == 2
    assert table.rows("id, w", where) == rows and table.read == 0
    written = stamps(table)
    fill(table, begin=COUNT + 1)
    assert table.rows("id, w", where) == rows and table.read > 8 << 20
    assert len({*stamps(table)} - {*written}) == 1, "many new events are written too"
    assert table.rows("id, w", where) == rows and table.read == 0


def test_a_task_looks_keys_up_in_several_segments(table: Table, remembering: str) -> None:
    table.create(12)
    fill(table, 600)
    assert table.rows("count(*)") == [(600,)]
    written = stamps(table)
    table.states()[3].write_bytes(b"?" * 1000)
    table.states()[3].with_name(f".{table.states()[3].name}.crc").unlink()
    forget(table.spark)
    assert table.rows("id", "WHERE id IN (7, 8)") == [(7,), (8,)] and table.read < table.size() / 4
    assert len({*stamps(table)} - {*written}) == 1, "the task has written the state of one segment again"
    assert table.rows("id", "WHERE id IN (7, 8)") == [(7,), (8,)] and table.read == 0
    written = stamps(table)
    fill(table, 1, begin=600)
    for keys, cores, tasks in (
        ([7], 12, 3), ([*range(597, 601)], 12, 3), ([*range(100, 111)], 12, 12),
        ([7], 2, 2), ([*range(100, 111)], 2, 2), ([*range(100, 111)], 5, 6),
    ):  # fmt: skip
        table.spark.conf.set("spark.sql.leafNodeDefaultParallelism", cores)
        try:
            rows = table.spark.table(remembering).where(f"id IN ({', '.join(map(str, keys))})").select("id")
            assert sorted(row.id for row in rows.collect()) == keys
            assert rows.rdd.getNumPartitions() == tasks
        finally:
            table.spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    assert stamps(table) == written


def test_a_join_looks_keys_up(table: Table, remembering: str) -> None:
    table.create(1)
    fill(table)
    assert table.rows("count(*)") == [(COUNT,)]
    [state] = table.states()
    forget(table.spark)
    before = bytes_of_files(table.spark)
    other = "(SELECT CAST(id AS INT) AS k FROM range(1000) WHERE id % 1000 = 777)"
    found = table.spark.sql(f"SELECT t.id, t.w FROM {remembering} t JOIN {other} o ON t.id = o.k").collect()
    assert [tuple(row) for row in found] == [(777, "w")]
    assert bytes_of_files(table.spark) - before < state.stat().st_size * 0.6


def test_statements_by_key_change_the_row_that_all_events_lead_to(table: Table, remembering: str) -> None:
    table.create(2)
    fill(table, 200)
    assert table.rows("count(*)") == [(200,)]
    written = stamps(table)
    for number in range(3):
        table.spark.sql(f"UPDATE {remembering} SET w = concat(w, {number}), v = 'short' WHERE id = 7")
    table.spark.sql(f"UPDATE {remembering} SET id = 1000 WHERE id = 8")
    table.spark.sql(f"DELETE FROM {remembering} WHERE id IN (9, 10)")
    table.spark.sql(f"UPDATE {remembering} SET w = 'moved' WHERE id = 1000")
    assert stamps(table) == written
    shown = {id: (v, w) for id, v, w in table.all_rows()}
    assert shown[7] == ("short", "w012") and shown[1000] == ("x" * 150, "moved") and len(shown) == 198
    assert not {8, 9, 10} & set(shown)
    assert table.rows() == table.all_rows()


def test_rows_of_a_connector_are_refused_whatever_the_key(table: Table, remembering: str) -> None:
    table.create(1)
    fill(table, 20)
    table.write(change("c", 100, "a", 10))
    for _ in range(2):
        with pytest.raises(PySparkException, match="has changes that a connector has read"):
            table.spark.sql(f"UPDATE {remembering} SET w = 'b' WHERE id = 7")
        assert table.rows("count(*)") == [(21,)]


KEYS = {
    "BIGINT": "(CAST({} AS BIGINT) * 1000000007 - 5000000000)",
    "STRING": "concat('é', {}, '\\'')",
    "DATE": "date_add(DATE'1969-12-01', CAST({} AS INT))",
    "DECIMAL(20,3)": "CAST({} / 8 AS DECIMAL(20,3))",
    "TIMESTAMP": "timestamp_micros({} * 1234567 - 9000000)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros({} * 1234567 - 9000000) AS TIMESTAMP_NTZ)",
    "BINARY": "CAST(concat('é', {}) AS BINARY)",
    "BOOLEAN": "({} % 2 = 0)",
}


@pytest.mark.parametrize("key", [*KEYS, "two"])
@pytest.mark.parametrize("steps", [2, pytest.param(4, marks=pytest.mark.long)])
def test_any_keys_have_the_rows_of_all_events(table: Table, remembering: str, key: str, steps: int) -> None:
    rng = random.Random(key)
    type, text = (key, KEYS[key]) if key in KEYS else ("INT", "CAST({} AS INT)")
    names = "a" if key in KEYS else "a,b"
    table.spark.sql(
        f"CREATE TABLE {table.name} (a {type}, b STRING, n INT) USING pravega TBLPROPERTIES "
        f"('format'='debezium-json', 'primary-key'='{names}', 'scaling.min-segments'='2')"
    )
    keys = range(2 if key == "BOOLEAN" else 12)
    for step in range(steps):
        source = f"(SELECT {text.format('id')} AS a, concat('b', id % 2) AS b, CAST({step} AS INT) AS n FROM range(12))"
        table.spark.sql(f"INSERT INTO {table.name} SELECT first(a), first(b), first(n) FROM {source} GROUP BY {names}")
        if step % 2:
            assert table.rows() == table.all_rows()
        one = text.format(rng.choice(keys))
        table.spark.sql(f"UPDATE {remembering} SET n = n + 100 WHERE a = {one} AND b <> 'none'")
        table.spark.sql(f"DELETE FROM {remembering} WHERE a = {text.format(rng.choice(keys))} AND b IN ('b0', 'b1')")
        chosen = rng.sample([*keys, 40], 2)
        for where in (
            f"a = {text.format(chosen[0])} AND b = 'b{chosen[0] % 2}'",
            f"a IN ({', '.join(text.format(number) for number in chosen)}) AND b IN ('b0', 'b1')",
            f"a = {text.format(chosen[0])} AND b = 'b0' OR a = {text.format(chosen[1])} AND b = 'b1'",
        ):
            found = table.spark.sql(f"SELECT * FROM {remembering} WHERE {where}").collect()
            expected = table.spark.sql(f"SELECT * FROM {table.name} WHERE {where}").collect()
            assert sorted(map(str, found)) == sorted(map(str, expected)), where


def test_a_damaged_block_is_read_from_events_and_written_again(table: Table) -> None:
    table.create(1)
    fill(table)
    assert table.rows("count(*)") == [(COUNT,)]
    [state] = table.states()
    content = state.read_bytes()
    middle = len(content) // 2
    state.write_bytes(content[:middle] + bytes(200_000) + content[middle + 200_000 :])
    state.with_name(f".{state.name}.crc").unlink()
    for key in range(100):
        forget(table.spark)
        assert table.rows("id", f"WHERE id = {key}") == [(key,)]
        if table.read:
            break
    assert table.read and state.read_bytes() == content
    assert table.rows("id", f"WHERE id = {key}") == [(key,)] and table.read == 0
