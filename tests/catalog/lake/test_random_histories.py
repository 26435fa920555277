"""Random steps on a table with a lake, without Spark: after each, all reads agree with a list that was kept aside.

The reads are those of the Python API, which plan and decode as tasks of Spark do, in a tenth of the time.
`PRAVEGA_SEED` repeats one run, and `PRAVEGA_STEPS` says how many steps the long one has.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.catalog.procedures.segments import plan_scaling
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
from pyspark_pravega.errors import ConcurrentChangeError
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql import options as o

KEYS = 7
LONG = int(os.environ.get("PRAVEGA_STEPS", "1000"))
Values = tuple[int | None, ...]


@dataclass
class Follower:
    """A stream with a checkpoint: how far it has read, and the rows that it had, without those of later columns."""

    position: str | None = None
    rows: list[Values] = field(default_factory=list)


class Trial:
    """A table, and what its reads should have.

    `rows` have a value for each column that they were written with, and grow. Version `n` has the first `ends[n]` of
    them; rows behind the last end belong to the next one.
    """

    def __init__(self, random: Random, pravega: Pravega, cluster: ClusterInfo, scope: str, folder: Path) -> None:
        self.random, self.pravega, self.stream = random, pravega, Stream(scope, folder.name)
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"}
        self.conf = {f"lake.{key}": text for key, text in lake.items()}
        uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
        self.connect: Callable[[], PravegaCatalog] = lambda: connect_catalog(**uris, **self.conf)
        self.catalog = self.connect()
        properties = {
            "format": random.choice(["avro", "json"]),
            "routing-key": "k",
            "scaling.min-segments": "1",
            "lake": f"{scope}.{folder.name}",
            "lake.partition-by": random.choice(["hour", "day", "month", "none"]),
        }
        columns = pa.schema([("id", pa.int64()), ("k", pa.int32())])
        self.name = f"`{scope}`.{folder.name}"
        self.catalog.create_table(self.name, columns, properties=properties)
        self.columns = ["id", "k"]
        self.rows: list[dict[str, int]] = []
        self.ends = [0]
        self.followers = [Follower() for _ in range(3)]
        self.removed = self.segments = self.added = 1

    def load(self) -> Table:
        return self.catalog.load_table(self.name)

    def open(self) -> OpenTable:
        table = load_table(self.pravega, self.stream).table
        return OpenTable(self.pravega, table, o.resolve(conf=self.conf, properties=table.scan_properties, env={}))

    def open_lake(self) -> tuple[OpenTable, LakeTable | None]:
        opened = self.open()
        name = str(find_lake_name(opened))
        return opened, LakeTable.load(require_catalog(opened, name), name)

    def insert(self) -> None:
        first, count = len(self.rows), self.random.randint(1, 40)
        rows = [
            {name: number % KEYS if name == "k" else number for name in self.columns}
            for number in range(first, first + count)
        ]
        has_version = self.random.random() < 0.8
        options = {} if has_version else {"write-mode": "at-least-once"}
        table = self.load()
        table.append(pa.Table.from_pylist(rows, table.schema), options=options)
        self.rows += rows
        if has_version:
            self.ends.append(len(self.rows))

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
        if len(self.ends) > 1:
            [version] = CommitLog(self.pravega, self.stream).versions(*[self.random.randrange(1, len(self.ends))] * 2)
            self.tier(Point(version.cut, version.number))

    def tier_beside_another(self) -> None:
        """Other commits between the files of a tiering and its own commit: an INSERT, or a compaction."""
        self.tier(between=self.random.choice([self.insert, self.compact]))

    def tier_at_once(self) -> None:
        """Of two tierings of the same events, the second is refused."""
        (first, files), (second, others) = self.write(), self.write()
        if files is not None and others is not None:
            finish_tiering(first, *files)
            with pytest.raises(ConcurrentChangeError):
                finish_tiering(second, *others)

    def compact(self, is_killed: bool = False) -> None:
        _, lake = self.open_lake()
        if lake is not None and lake.history is not None and (planned := plan_compaction(lake)) is not None:
            files = _run(planned[0])
            if not is_killed:
                finish_compaction(lake, planned[1], files)

    def be_killed(self) -> None:
        """A tiering or a compaction ends before its commit."""
        works: list[Callable[[], object]] = [self.write, partial(self.compact, is_killed=True)]
        self.random.choice(works)()

    def rewrite(self) -> None:
        """Another program writes all rows into other files, in any order, and forgets former snapshots."""
        _, lake = self.open_lake()
        if lake is not None and lake.history is not None:
            table = lake._table
            rows = table.scan().to_arrow()
            table.overwrite(rows.take(self.random.sample(range(len(rows)), len(rows))))
            if self.random.random() < 0.5:
                table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()

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

    def change_columns(self) -> None:
        if len(self.columns) == 2 or (len(self.columns) < 6 and self.random.random() < 0.7):
            name, self.added = f"c{self.added}", self.added + 1
            self.load().add_column(pa.field(name, pa.int64()))
            self.columns.append(name)
        else:
            self.columns.remove(name := self.random.choice(self.columns[2:]))
            self.load().drop_column(name)

    def restart(self) -> None:
        """Another process goes on with the positions of the former one."""
        self.catalog.close()
        self.catalog = self.connect()

    def begin_again(self) -> None:
        self.followers[self.random.randrange(len(self.followers))] = Follower()

    def follow(self, table: Table) -> None:
        """Let one of the streams go on. It may have been left behind, in the lake or where that was."""
        one, options = self.random.choice(self.followers), {"max-rows-per-trigger": str(self.random.randint(20, 400))}
        for new in table.follow(["id", "k"], position=one.position, available_now=True, options=options):
            one.rows += _list_values(new.rows)
            one.position = new.position
        assert sorted(one.rows) == [(row["id"], row["k"]) for row in self.rows]
        self.check_order(one.rows)

    def check_order(self, rows: list[Values]) -> None:
        """Events with one routing key come in their order."""
        by_key: dict[int | None, list[int | None]] = defaultdict(list)
        for number, key, *_ in rows:
            by_key[key].append(number)
        assert all(numbers == sorted(numbers, key=int) for numbers in by_key.values())

    def check(self) -> None:
        """Compare a whole read, a condition, a former version, a range of changes and a stream with the list."""
        table, random = self.load(), self.random
        assert table.schema.names == self.columns
        whole = [tuple(map(row.get, self.columns)) for row in self.rows]
        assert sorted(_list_values(table.scan().to_arrow()), key=lambda row: int(row[0] or 0)) == whole
        least, column = random.randint(0, len(whole)), random.choice([self.columns[0], self.columns[-1]])
        kept = table.scan(["id"], filter=pc.field(column) >= least).to_arrow().column("id").to_pylist()
        assert sorted(kept) == [row["id"] for row in self.rows if row.get(column, -1) >= least]
        assert random.random() < 0.8 or table.scan().count() == len(whole)
        self.follow(table)
        if len(self.ends) > 1:
            version, first = (random.randrange(1, len(self.ends)) for _ in range(2))
            ids = sorted(table.scan(["id"], as_of=version).to_arrow().column("id").to_pylist())
            assert ids == list(range(self.ends[version]))
            changes = table.changes(["id", "_commit_version"], start=first).to_arrow()
            bounds = pairwise([*self.ends[first - 1 :], len(self.rows)])
            expected = [(number, one) for one, ends in enumerate(bounds, first) for number in range(*ends)]
            assert sorted(_list_values(changes)) == expected


def _run(source: RowSource) -> list[str]:
    return [text for batch in source.reader.read_all() for text in batch.column(FILES.names[0]).to_pylist()]


def _list_values(rows: pa.Table) -> list[Values]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


STEPS = {
    "insert": 6,
    "tier": 3,
    "tier_until": 2,
    "tier_beside_another": 2,
    "tier_at_once": 1,
    "be_killed": 1,
    "compact": 1,
    "rewrite": 1,
    "truncate": 2,
    "scale": 1,
    "change_columns": 1,
    "restart": 1,
    "begin_again": 1,
}
"""How often each step comes."""


@pytest.mark.parametrize("steps", [20, pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_steps(pravega: Pravega, cluster: ClusterInfo, scope: str, tmp_path: Path, steps: int) -> None:
    """Of writers, tierings, compactions, truncations, scalings, schema changes, kills and restarts."""
    seed, of_trial = int(os.environ.get("PRAVEGA_SEED", time.time_ns() % 10**6)), min(100, steps)

    def run(number: int) -> None:
        done = list[str]()
        (folder := tmp_path / f"t{number}").mkdir()
        trial = Trial(Random(seed + number), pravega, cluster, scope, folder)
        try:
            for step in trial.random.choices(list(STEPS), list(STEPS.values()), k=of_trial):
                done.append(step)
                getattr(trial, step)()
                trial.check()
        except Exception as error:
            raise AssertionError(f"seed {seed + number}: {done}") from error
        trial.catalog.drop_table(trial.name)
        trial.catalog.close()
        print(f"seed {seed + number}: {of_trial} steps, {len(trial.rows)} rows", flush=True)

    # Steps mostly wait for servers.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(-(-steps // of_trial))))
