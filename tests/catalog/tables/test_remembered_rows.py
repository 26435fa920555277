"""Tables of changes whose rows are remembered: the same rows, from the events that are new."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect as open_catalog
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.bad_input import SECRET
from tests.catalog.queries.test_bad_event_modes import metrics_in_the_ui
from tests.catalog.streaming.changes_streams import forget, scale
from tests.catalog.streaming.test_changes_stream_rows import leave_unfinished
from tests.catalog.tables.test_debezium import create_stream, in_segments, write
from tests.debezium import Record

Image = dict[str, Any]


def change(op: str, key: int, v: str | None, position: int, **more: Any) -> Image:
    row = {"id": key, "v": v, "w": f"w{position}"}
    source = {"connector": "postgresql", "name": "dbz", "db": "shop", "lsn": position, "ts_ms": position, **more}
    return {
        "op": op,
        "before": {"id": key} if op == "d" else None,
        "after": None if op == "d" else row,
        "source": source,
    }


def read_bytes(spark: SparkSession) -> int:
    """The bytes of events that the last query read."""
    return int((metrics_in_the_ui(spark)["bytes of events read"] or "0").replace(",", ""))


class Table:
    """A table of changes whose rows are remembered in a directory."""

    def __init__(self, spark: SparkSession, pravega: Pravega, stream: Stream, directory: Path) -> None:
        self.spark, self.pravega, self.stream, self.directory = spark, pravega, stream, directory
        self.name = f"pravega.`{stream.scope}`.`{stream.name}`"

    def create(self, segments: int, key: str = ", 'primary-key'='id'") -> None:
        create_stream(self.pravega, self.stream, segments)
        self.spark.sql(
            f"CREATE TABLE {self.name} (id INT, v STRING, w STRING) USING pravega "
            f"TBLPROPERTIES ('format'='debezium-json'{key})"
        )

    def write(self, *changes: Image) -> None:
        in_segments(self.pravega, self.stream, changes)

    def truncate(self, position: int) -> None:
        """As Debezium writes a truncation, which has no key."""
        event = {**change("t", 0, None, position), "after": None, "ts_ms": position}
        write(self.pravega, self.stream, [Record(None, json.dumps(event).encode())])

    def rows(self, columns: str = "*", more: str = "", **options: str) -> list[tuple[Any, ...]]:
        """The rows, and in `read` how many bytes of events were read for them."""
        given = {"current-rows.remembered-in": self.directory.as_uri(), **options}
        shown = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        query = f"SELECT {columns} FROM {self.name} WITH ({shown}) {more}"
        found = sorted((tuple(row) for row in self.spark.sql(query).collect()), key=str)
        self.read = read_bytes(self.spark)
        return found

    def all_rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows by all events, and in `total` how many bytes these have."""
        rows = sorted((tuple(row) for row in self.spark.sql(f"SELECT {columns} FROM {self.name}").collect()), key=str)
        self.total = read_bytes(self.spark)
        return rows

    def states(self) -> list[Path]:
        return sorted(self.directory.glob("*/*.whole"))

    def size(self) -> int:
        return sum(measure_tail(self.pravega, self.stream).positions.values())


@pytest.fixture
def table(spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path) -> Iterator[Table]:
    with connect(client_config) as pravega:
        yield Table(spark, pravega, Stream(scope, "rows"), tmp_path / "rows")


def test_a_second_select_reads_no_event_and_a_later_one_what_is_new(table: Table) -> None:
    table.create(2)
    table.write(*(change("c", key, "a", 10 + key) for key in range(20)), change("d", 3, None, 40))
    expected = table.all_rows()
    assert len(expected) == 19 and not table.directory.exists()
    assert table.rows() == expected and table.read == table.size()
    states = [(path, path.stat().st_mtime_ns) for path in table.states()]
    assert len(states) == 2
    forget(table.spark)
    assert table.rows() == expected and table.read == 0
    assert table.rows("_event_pointer, v") == table.all_rows("_event_pointer, v") and table.read == 0
    assert table.rows("count(*)") == [(19,)] and table.read == 0
    assert table.rows("w", "WHERE id = 5") == [("w15",)] and table.read == 0
    assert len(table.rows("id", "LIMIT 3")) == 3 and table.read == 0
    assert [(path, path.stat().st_mtime_ns) for path in table.states()] == states, "nothing was written again"
    before = table.size()
    table.write(change("u", 4, "b", 50), change("c", 3, "again", 51))
    assert table.rows() == table.all_rows() and 0 < table.read == table.size() - before
    assert table.rows() == table.all_rows() and table.read == 0


def test_a_limit_and_an_earlier_end_write_nothing(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    middle = measure_tail(table.pravega, table.stream).to_text()
    table.write(change("u", 1, "b", 20))
    assert len(table.rows("id", "LIMIT 3")) == 1
    assert table.rows("v", **{"end-stream-cut": middle}) == [("a",)]
    assert table.states() == []
    assert table.rows("v") == [("b",)] and len(table.states()) == 1
    # A state of later events is not used; one of earlier events is.
    assert table.rows("v", **{"end-stream-cut": middle}) == [("a",)] and table.read > 0
    late = measure_tail(table.pravega, table.stream).to_text()
    table.write(change("u", 1, "c", 30))
    assert table.rows("v", **{"end-stream-cut": late}) == [("b",)] and table.read == 0
    assert table.rows("v") == [("c",)]


def step(table: Table, rng: random.Random, number: int) -> None:
    """Let a database and its connector do what they may do."""
    position = 1000 * (number + 1)
    changes: list[Image] = []
    for place in range(rng.randrange(5, 30)):
        op = rng.choice("cuuud")
        v = rng.choice(["x", "__debezium_unavailable_value", str(place)])
        changes.append(change(op, rng.randrange(12), v, position + place))
    changes += rng.sample(changes, 3)  # the connector delivers them again
    if number == 2:
        marks = ["first", "true", "true", "last"]
        changes += [change("r", key, "snapshot", position + 50, snapshot=mark) for key, mark in enumerate(marks)]
    table.write(*changes)
    if number in (1, 4):
        table.truncate(position + 10)


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("memory", ["256m", pytest.param("1m", marks=pytest.mark.long)])
def test_any_history_gives_the_rows_of_all_events(table: Table, segments: int, memory: str) -> None:
    rng = random.Random(segments)
    table.create(segments)
    for number in range(6):
        step(table, rng, number)
        everything = table.all_rows("*, _event_pointer")
        assert table.rows("*, _event_pointer", **{"current-rows.memory": memory}) == everything
        if number == 4:
            assert 0 < table.read < table.total
        forget(table.spark)
        assert table.rows("*, _event_pointer") == everything and table.read == 0
        if number in (0, 2, 3):
            scale(table.pravega, table.stream, number)
    assert table.rows("*, _event_pointer") == everything


def test_a_truncation_before_a_merge_counts_with_and_without_an_event_after_it(table: Table) -> None:
    table.create(1)
    scale(table.pravega, table.stream, 0)
    table.write(*(change("c", key, "a", 10 + 2 * key) for key in range(20)))
    table.truncate(21)
    table.write(*(change("u", key, "b", 5 + 2 * key) for key in range(20)))
    scale(table.pravega, table.stream, 1)
    rows = table.all_rows()
    assert {row[0] for row in rows} == {*range(6, 20)}
    assert table.rows() == rows
    table.write(change("c", 30, "c", 60))
    assert table.rows() == table.all_rows() == sorted([*rows, (30, "c", "w60")], key=str)


def test_files_that_cannot_be_used_are_written_again(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    assert table.rows("v") == [("a",)]
    (state,) = table.states()
    content = state.read_bytes()
    for harmed in (b"", content[:-40], content[:100] + b"?" + content[101:]):
        state.write_bytes(harmed)
        state.with_name(f".{state.name}.crc").unlink(missing_ok=True)
        forget(table.spark)
        assert table.rows("v") == [("a",)] and table.read > 0
        assert state.read_bytes() == content, "the same rows have the same file"
        assert table.rows("v") == [("a",)] and table.read == 0
    # Hadoop finds that the file is not what its own checksum says.
    state.write_bytes(content[:100] + b"?" + content[101:])
    forget(table.spark)
    assert table.rows("v") == [("a",)] and table.read > 0
    shutil.rmtree(table.directory)
    assert table.rows("v") == [("a",)] and table.read > 0
    assert table.states() == [state]


def test_two_states_stay_and_what_killed_writers_left_goes(table: Table) -> None:
    table.create(1)
    for number in range(5):
        table.write(change("u", 1, str(number), 10 + number))
        assert table.rows("v") == [(str(number),)]
        assert len(table.states()) <= 3
    (folder,) = table.directory.iterdir()
    left = leave_unfinished(folder)
    foreign = folder / "notes.txt"
    foreign.write_text("of somebody")
    assert table.rows("v") == [("4",)] and table.read == 0
    assert len(table.states()) == 2
    assert [path for path in left if path.exists()] == [
        path for path in left if path.name == "new.tmp" or path is left[-1]
    ]
    assert foreign.exists()


def test_queries_at_the_same_time_find_the_same_rows(table: Table) -> None:
    table.create(2)
    query = f"SELECT id, v FROM {table.name} WITH ('current-rows.remembered-in'='{table.directory.as_uri()}')"
    for number in range(3):
        table.write(*(change("u", key, str(number), 10 + number) for key in range(10)))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: sorted(table.spark.sql(query).collect()), range(4)))
        assert found == [[(key, str(number)) for key in range(10)]] * 4
    assert len(table.rows()) == 10 and table.read == 0


def test_a_stream_that_was_dropped_and_created_again(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    assert table.rows("v") == [("a",)]
    table.spark.sql(f"DROP TABLE {table.name}")
    table.create(1)
    table.write(change("c", 2, "longer than the one before", 10), change("c", 3, "c", 11))
    assert table.rows("v") == table.all_rows("v") and len(table.rows()) == 2
    assert table.rows("v") == table.all_rows("v") and table.read == 0


def test_the_creation_of_a_segment_counts_and_not_only_its_number(table: Table) -> None:
    """Another cluster at the same address begins with the same numbers."""
    table.create(2)
    segments = [each.segment_id for each in table.pravega.controller.current_segments(table.stream)]
    found = table.pravega.segments.creation_times(table.stream, segments)
    other = Stream(table.stream.scope, "later")
    create_stream(table.pravega, other, 1)
    (later,) = table.pravega.segments.creation_times(other, [0]).values()
    times = [time for time in found.values() if time is not None]
    assert len(times) == 2 and later is not None and 1_600_000_000_000 < max(times) < later


def test_retention_that_removes_events_removes_their_rows(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    assert table.rows("v") == [("a",)]
    table.pravega.controller.truncate_stream(measure_tail(table.pravega, table.stream))
    table.write(change("c", 2, "b", 11))
    assert table.rows("v") == table.all_rows("v") == [("b",)]
    assert table.rows("v") == [("b",)] and table.read == 0


def test_changed_columns_and_settings_are_another_table(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10), change("u", 1, "b", 5))
    assert table.rows("v") == [("a",)]
    assert table.rows("v", **{"debezium.older-positions": "new-log"}) == table.all_rows("v") and table.read > 0
    again = Table(table.spark, table.pravega, table.stream, table.directory)
    schema = table.spark.table(table.name).schema.add("x", "string")
    connection = {"controller-uri": table.pravega.config.controller_uri, "scope": table.stream.scope, "stream": "rows"}
    reader = table.spark.read.format("pravega").options(**connection).option("format", "debezium-json")
    reader = reader.option("primary-key", "id").option("current-rows.remembered-in", again.directory.as_uri())
    for expected in (table.size(), 0):
        assert [tuple(row) for row in reader.schema(schema).load().select("v", "x").collect()] == [("a", None)]
        assert read_bytes(table.spark) == expected


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (", 'primary-key'='id'", {"mode": "dropmalformed"}),
        (", 'primary-key'='id'", {"fail-on-data-loss": "false"}),
        ("", {}),
    ],
    ids=["bad-events", "lost-events", "no-key"],
)
def test_reads_that_remember_nothing(table: Table, key: str, options: dict[str, str]) -> None:
    """Their rows, and what they report, would not be those of the events alone."""
    table.create(1, key)
    table.write(change("c", 1, "a", 10))
    for _ in range(2):
        assert table.rows("v", **options) == [("a",)] and table.read > 0
    assert not table.directory.exists()


def test_a_file_system_that_only_hadoop_knows(table: Table, tmp_path: Path) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    (tmp_path / "disk").mkdir()
    conf = table.spark.conf
    conf.set("fs.viewfs.mounttable.remembered.link./mounted", (tmp_path / "disk").as_uri())
    try:
        query = f"SELECT v FROM {table.name} WITH ('current-rows.remembered-in'='viewfs://remembered/mounted/rows')"
        for _ in range(2):
            assert [row.v for row in table.spark.sql(query).collect()] == ["a"]
            forget(table.spark)
        assert read_bytes(table.spark) == 0
    finally:
        conf.unset("fs.viewfs.mounttable.remembered.link./mounted")
    assert list((tmp_path / "disk" / "rows").glob("*/*.whole"))


def in_file(path: Path) -> str:
    path.write_text("no directory")
    return path.as_uri()


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        (in_file, ["PRAVEGA_INVALID_OPTION", "current-rows.remembered-in", "rows", "The file system says"]),
        (lambda _: "nosuch://there/rows", ["PRAVEGA_INVALID_OPTION", "nosuch://there/rows"]),
        (lambda _: "relative/rows", ["PRAVEGA_INVALID_OPTION", "'relative/rows'", "s3a://bucket/rows"]),
        (lambda _: f"s3a://user:{SECRET}@bucket/rows", ["PRAVEGA_INVALID_OPTION", "Hadoop's configuration"]),
    ],
    ids=["file", "scheme", "relative", "secret"],
)
def test_a_directory_that_cannot_be_used_is_named(
    table: Table, tmp_path: Path, directory: Callable[[Path], str], words: list[str]
) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    reader = table.spark.read.option("current-rows.remembered-in", directory(tmp_path / "rows"))
    with pytest.raises(PySparkException) as caught:
        reader.table(table.name).collect()
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert SECRET not in str(caught.value)


def test_explain_reads_and_writes_no_file(table: Table) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    frame = table.spark.read.option("current-rows.remembered-in", table.directory.as_uri()).table(table.name)
    assert "bytes:" in frame._jdf.queryExecution().toString()
    assert not table.directory.exists()


def test_parts_of_columns_come_from_whole_ones(table: Table) -> None:
    create_stream(table.pravega, table.stream, 1)
    columns = "id INT, p STRUCT<a: INT, b: STRING>, q ARRAY<STRUCT<a: INT, b: STRING>>, m MAP<STRING, STRING>"
    properties = "'format'='debezium-json', 'primary-key'='id'"
    table.spark.sql(f"CREATE TABLE {table.name} ({columns}) USING pravega TBLPROPERTIES ({properties})")
    pair = {"a": 1, "b": "x"}
    row = {"id": 1, "p": pair, "q": [pair, None], "m": {"k": "v"}}
    table.write(
        {**change("c", 1, "", 10), "after": row}, {**change("c", 2, "", 11), "after": {"id": 2, "p": {"b": "y"}}}
    )
    for read in (table.size(), 0):
        assert table.rows("p.b, q.a, m") == [("x", [1, None], {"k": "v"}), ("y", None, None)] and table.read == read
    assert table.rows() == table.all_rows()


def test_python_without_spark_reads_all_events(table: Table, client_config: ClientConfig) -> None:
    table.create(1)
    table.write(change("c", 1, "a", 10))
    with open_catalog(
        controller_uri=client_config.controller_uri, schema_registry_uri=client_config.registry_uri
    ) as catalog:
        found = catalog.load_table(f"`{table.stream.scope}`.rows")
        scan = found.scan(columns=["v"], options={"current-rows.remembered-in": table.directory.as_uri()})
        assert scan.to_arrow().to_pylist() == [{"v": "a"}]
    assert not table.directory.exists()
