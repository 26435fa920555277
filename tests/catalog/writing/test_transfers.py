"""Transfers between accounts by many at once: each version has the same sum, and statements are as if one by one."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.writing.test_row_changes import create, rows
from tests.catalog.writing.transfer_driver import transfer
from tests.drivers import run_driver

EACH = 100
STATEMENTS, TRANSFERS = 40 * int(os.environ.get("PYSPARK_PRAVEGA_FAULT_ROUNDS", "25")), 10
"""By which the long form makes 10,000 transfers: ten in each statement."""


def make_accounts(spark: SparkSession, scope: str, number: int) -> str:
    table = create(spark, scope, "accounts", "id INT, n INT", framing="none", **{"scaling.min-segments": "3"})
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), {EACH} FROM range({number})")
    return table


def read_events(spark: SparkSession, cluster: ClusterInfo, scope: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the events of each version as they are in the stream, by what the history says of its end."""
    text = spark.read.format("pravega").option("scope", scope).option("stream", "accounts").option("format", "text")
    text = text.option("framing", "none").option("controller-uri", cluster.controller_uri)
    found = [
        (row._segment.rpartition("/")[2], row._offset, row.value)
        for row in text.load().select("value", "_segment", "_offset").collect()
    ]
    found.sort(key=lambda event: event[:2])
    history = spark.sql(f"SELECT stream_cut FROM pravega.`{scope}`.accounts.history ORDER BY version").collect()
    for cut in history:
        ends = dict(re.findall(r"(\d+\.#epoch\.\d+)=(\d+)", str(StreamCut.from_text(cut.stream_cut))))
        yield [json.loads(value) for segment, offset, value in found if offset < int(ends[segment])]
        found = [event for event in found if event[1] >= int(ends[event[0]])]
    assert not found, "events without a version"


def check(versions: Iterator[list[dict[str, Any]]], accounts: int, done: Sequence[Sequence[Sequence[int]]]) -> None:
    """Replay the versions: each statement has found what those before it have left, and is there once."""
    now = {event["after"]["id"]: event["after"]["n"] for event in next(versions)}
    assert now == dict.fromkeys(range(accounts), EACH)
    found: Counter[tuple[tuple[int, int], ...]] = Counter()
    for events in versions:
        added = {}
        for event in events:
            key, former, new = event["before"]["id"], event["before"]["n"], event["after"]["n"]
            assert event["op"] == "u" and event["after"]["id"] == key and key not in added
            assert now[key] == former, f"a statement has found {former} in account {key}, which had {now[key]}"
            added[key], now[key] = new - former, new
        assert sum(added.values()) == 0
        found[tuple(sorted(added.items()))] += 1
    assert found == Counter(tuple((key, amount) for key, amount in one) for one in done)


def check_all(
    spark: SparkSession, cluster: ClusterInfo, scope: str, accounts: int, done: Sequence[Sequence[Sequence[int]]]
) -> None:
    """Replay the events, and compare them with what queries find in some versions."""
    check(read_events(spark, cluster, scope), accounts, done)
    table, versions = f"pravega.`{scope}`.accounts", list(read_events(spark, cluster, scope))
    for last in sorted({1, len(versions) // 3, len(versions) // 2, len(versions)}):
        folded = {event["after"]["id"]: event["after"]["n"] for events in versions[:last] for event in events}
        assert rows(spark, f"{table} VERSION AS OF {last}") == sorted(folded.items())
    assert rows(spark, table) == sorted(folded.items())


def test_transfers_by_threads(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    table = make_accounts(spark, scope, 6)
    with ThreadPoolExecutor() as threads:
        all_done = list(threads.map(lambda seed: transfer(spark, table, seed, 6, 4, 1), range(3)))
    check_all(spark, cluster, scope, 6, [statement for one in all_done for statement in one.done])


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_transfers_by_two_drivers(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    """10,000 transfers by four threads: 15 minutes on two cores."""
    accounts = 1000
    table = make_accounts(spark, scope, accounts)
    numbers = [str(number) for number in (accounts, STATEMENTS // 4, TRANSFERS)]
    module = "tests.catalog.writing.transfer_driver"
    with ThreadPoolExecutor() as threads:
        drivers = list(threads.map(lambda seed: run_driver(cluster, module, table, seed, *numbers), ("0", "2")))
    print("conflicts:", [driver["conflicts"] for driver in drivers])
    done = [statement for driver in drivers for statement in driver["done"]]
    assert len(done) == STATEMENTS and all(driver["conflicts"] for driver in drivers)
    check_all(spark, cluster, scope, accounts, done)
