"""A table of changes that counts events by MERGE: whatever is harmed, each version has all of some micro-batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.faults.oracle import KEYS, Background, Tables

NAME = "merged"


def create(tables: Tables) -> None:
    """Make the table."""
    tables.spark.sql(
        f"CREATE TABLE {tables.name(NAME)} (k INT, n BIGINT) USING pravega TBLPROPERTIES ('format'='debezium-json', "
        "'primary-key'='k', 'framing'='none', 'scaling.min-segments'='3')"
    )


def read(tables: Tables) -> tuple[int, dict[int, int]]:
    """Return how many micro-batches are counted, and the counts by key. Their sum is what the last MERGE says."""
    rows = {row.k: row.n for row in tables.spark.table(tables.name(NAME)).collect()}
    sums = {-key: rows.pop(key) for key in sorted(rows) if key < 0}
    assert len(sums) == bool(rows) and sum(sums.values()) == sum(rows.values()), f"a part of a MERGE: {sums}, {rows}"
    return max(sums, default=0), rows


@dataclass
class CountsReader(Background):
    """Reads the counts again and again, from another driver; keeps what it saw."""

    tables: Tables
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(1.0)

    def step(self) -> None:
        self.seen.append(read(self.tables)[0])


def check(tables: Tables, written: int, reader: CountsReader) -> None:
    """Compare the counts with what was written: each event is counted once, by one version for each micro-batch."""
    batches, counts = read(tables)
    assert counts == Counter(seq % KEYS for seq in range(written))
    assert reader.seen == sorted(reader.seen), "a version was seen before an earlier one"
    history = tables.spark.sql(f"SELECT operation, rows FROM {tables.name(NAME)}.history").collect()
    assert [row.operation for row in history] == ["MERGE"] * batches
    # Of what the changelog has, `c` is a key's first count or the sum of a micro-batch.
    changelog = f"pravega.`{tables.scope}`.`{NAME}$changelog`"
    events = Counter(row.op for row in tables.spark.sql(f"SELECT op FROM {changelog}").collect())
    assert events["c"] == KEYS + batches and events["d"] == batches - 1
    assert events.total() == sum(row.rows for row in history)
