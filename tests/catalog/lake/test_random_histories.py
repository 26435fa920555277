"""Random steps on a table with a lake, without Spark: after each, all reads agree with a list that was kept aside.

The reads are those of the Python API, which plan and decode as tasks of Spark do, in a tenth of the time.
`PRAVEGA_SEED` repeats one run.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
import pytest

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.catalog.altering.schema_edits import change_columns
from pyspark_pravega.catalog.procedures.segments import plan_scaling
from pyspark_pravega.catalog.protocol.table_requests import TableChange
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.lake_compaction import finish_compaction, plan_compaction
from pyspark_pravega.datasource.changes.tiering import Tiering, finish_tiering, plan_tiering
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.lake.file_writer import FILES
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.lake_columns import make_lake_schema
from pyspark_pravega.datasource.lake.open_lake import find_lake_name, require_catalog
from pyspark_pravega.datasource.positions.points_in_time import Point, find_end_now
from pyspark_pravega.datasource.scan.planned_scan import RowSource
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql import options as o

KEYS = 7


class Trial:
    """A table, and what its reads should have: `rows` are lists of values, in the order of their versions."""

    def __init__(self, random: Random, pravega: Pravega, cluster: ClusterInfo, scope: str, folder: Path) -> None:
        self.random, self.pravega, self.stream = random, pravega, Stream(scope, "t")
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"}
        self.conf = {f"lake.{key}": text for key, text in lake.items()}
        uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
        self.connect: Callable[[], PravegaCatalog] = lambda: connect_catalog(**uris, **self.conf)
        self.catalog = self.connect()
        properties = {
            "format": random.choice(["avro", "json"]),
            "routing-key": "k",
            "scaling.min-segments": "1",
            "lake": f"{scope}.t",
            "lake.partition-by": random.choice(["hour", "day", "month", "none"]),
        }
        columns = pa.schema([("id", pa.int64()), ("k", pa.int32())])
        self.catalog.create_table(f"`{scope}`.t", columns, properties=properties)
        self.columns = ["id", "k"]
        self.versions: list[list[tuple[int | None, ...]]] = [[]]
        self.followed: list[tuple[int | None, ...]] = []
        self.position: str | None = None
        self.removed = self.segments = 1

    def load(self) -> Table:
        return self.catalog.load_table(f"`{self.stream.scope}`.t")

    def open(self) -> OpenTable:
        table = load_table(self.pravega, self.stream).table
        return OpenTable(self.pravega, table, o.resolve(conf=self.conf, properties=table.scan_properties, env={}))

    def open_lake(self) -> tuple[OpenTable, LakeTable | None]:
        opened = self.open()
        name = str(find_lake_name(opened))
        return opened, LakeTable.load(require_catalog(opened, name), name)

    def insert(self) -> None:
        first, count = len(self.versions[-1]), self.random.randint(1, 40)
        ids = range(first, first + count)
        rows = {name: list(ids) for name in self.columns} | {"k": [number % KEYS for number in ids]}
        self.load().append(pa.table({**rows, "k": pa.array(rows["k"], pa.int32())}))
        width = len(self.columns)
        added = [(number, number % KEYS, *[number] * (width - 2)) for number in ids]
        self.versions.append([*self.versions[-1], *added])

    def write(self, until: Point | None = None) -> tuple[LakeTable, tuple[Tiering, list[str]] | None]:
        """Do what a tiering does before its commit."""
        opened, lake = self.open_lake()
        schema = make_lake_schema(opened.table.schema)
        if lake is None:
            name = str(find_lake_name(opened))
            unit = opened.options.get(o.LAKE_PARTITION)
            lake = LakeTable.create(require_catalog(opened, name), name, schema, self.stream, unit)
        lake.evolve(schema)
        planned = plan_tiering(opened, lake, until or find_end_now(self.pravega, self.stream))
        return lake, None if planned is None else (planned[0], _run(planned[1]))

    def tier(self, until: Point | None = None, between: Callable[[], None] | None = None) -> None:
        lake, written = self.write(until)
        if between is not None:
            between()
        if written is not None:
            finish_tiering(lake, *written)

    def tier_until(self) -> None:
        if len(self.versions) > 1:
            [version] = CommitLog(self.pravega, self.stream).versions(
                *[self.random.randrange(1, len(self.versions))] * 2
            )
            self.tier(Point(version.cut, version.number))

    def tier_beside_another(self) -> None:
        """Other commits between the files of a tiering and its own commit: an INSERT, or a compaction."""
        self.tier(between=self.random.choice([self.insert, self.compact]))

    def compact(self) -> None:
        _, lake = self.open_lake()
        if lake is not None and lake.history is not None and (planned := plan_compaction(lake)) is not None:
            finish_compaction(lake, planned[1], _run(planned[0]))

    def truncate(self) -> None:
        _, lake = self.open_lake()
        tiered = 0 if lake is None or lake.history is None else lake.history.version
        if tiered:
            self.removed = self.random.randint(min(self.removed, tiered), tiered)
            [version] = CommitLog(self.pravega, self.stream).versions(self.removed, self.removed)
            self.pravega.controller.truncate_stream(version.cut)

    def scale(self) -> None:
        self.segments = self.random.choice([number for number in (1, 2, 3, 4) if number != self.segments])
        sealed, ranges = plan_scaling(self.pravega.controller.current_segments(self.stream), self.segments)
        if sealed:
            self.pravega.controller.scale_stream(self.stream, sealed, ranges)

    def add_column(self) -> None:
        if len(self.columns) < 6:
            name = f"c{len(self.columns)}"
            field = T.StructType([T.StructField(name, T.LongType())])
            change = TableChange("AddColumn", None, None, (name,), field)
            change_columns(Catalog(self.conf, self.pravega), load_table(self.pravega, self.stream), [change])
            self.columns.append(name)

    def restart(self) -> None:
        """Another process goes on with the position of the former one."""
        self.catalog.close()
        self.catalog = self.connect()

    def follow(self) -> None:
        options = {"max-rows-per-trigger": str(self.random.randint(20, 400))}
        for new in self.load().follow(["id", "k"], position=self.position, available_now=True, options=options):
            self.followed += _values(new.rows)
            self.position = new.position
        assert sorted(self.followed) == [row[:2] for row in self.versions[-1]]
        self.check_order(self.followed)

    def check_order(self, rows: list[tuple[int | None, ...]]) -> None:
        """Events with one routing key come in their order."""
        by_key: dict[int | None, list[int | None]] = defaultdict(list)
        for number, key, *_ in rows:
            by_key[key].append(number)
        assert all(numbers == sorted(numbers, key=int) for numbers in by_key.values())

    def check(self) -> None:
        """Compare a whole read, a condition, a former version and a range of changes with the list."""
        table, width, random = self.load(), len(self.columns), self.random
        whole = [(*row, *[None] * (width - len(row))) for row in self.versions[-1]]
        assert sorted(_values(table.scan().to_arrow()), key=lambda row: int(row[0] or 0)) == whole
        least, at = random.randint(0, len(whole)), random.choice([0, width - 1])
        kept = table.scan(["id"], filter=pc.field(self.columns[at]) >= least).to_arrow().column("id").to_pylist()
        assert sorted(kept) == [row[0] for row in whole if (value := row[at]) is not None and value >= least]
        assert table.scan().count() == len(whole)
        if len(self.versions) > 1:
            version, first = (random.randrange(1, len(self.versions)) for _ in range(2))
            ids = sorted(table.scan(["id"], as_of=version).to_arrow().column("id").to_pylist())
            assert ids == [row[0] for row in self.versions[version]]
            changes = table.changes(["id", "_commit_version"], start=first).to_arrow()
            bounds = [
                (len(self.versions[one - 1]), len(self.versions[one]), one) for one in range(first, len(self.versions))
            ]
            assert sorted(_values(changes)) == [
                (number, one) for start, end, one in bounds for number in range(start, end)
            ]


def _run(source: RowSource) -> list[str]:
    return [text for batch in source.reader.read_all() for text in batch.column(FILES.names[0]).to_pylist()]


def _values(rows: pa.Table) -> list[tuple[int | None, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


STEPS = {
    "insert": 6,
    "tier": 3,
    "tier_until": 2,
    "tier_beside_another": 2,
    "write": 1,
    "compact": 1,
    "truncate": 2,
    "scale": 1,
    "add_column": 1,
    "restart": 1,
    "follow": 2,
}
"""How often each step comes. `write` alone is a tiering that is killed before its commit."""


@pytest.mark.parametrize("steps", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_random_steps(pravega: Pravega, cluster: ClusterInfo, scope: str, tmp_path: Path, steps: int) -> None:
    """Of writers, tierings, compactions, truncations, scalings, schema changes, kills and restarts."""
    seed, count = int(os.environ.get("PRAVEGA_SEED", time.time_ns() % 10**6)), 0
    while count < steps:
        (folder := tmp_path / str(count)).mkdir()
        done = list[str]()
        trial = Trial(Random(seed + count), pravega, cluster, scope, folder)
        try:
            for step in trial.random.choices(list(STEPS), list(STEPS.values()), k=min(100, steps)):
                done.append(step)
                getattr(trial, step)()
                trial.check()
        except Exception as error:
            raise AssertionError(f"seed {seed + count}: {done}") from error
        count += len(done)
        trial.catalog.drop_table(f"`{scope}`.t")
        trial.catalog.close()
