"""Tables that servers tier by themselves, one server at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog.running.kept_query import KeptQueries
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.conftest import CATALOG
from tests.catalog.lake.test_history_in_a_lake import create, fails, ids, insert, load_lake, tier
from tests.catalog.streaming.test_resumed_queries import Servers, kill_with_its_service, wait_for


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def find_rows(spark: SparkSession, scope: str, table: str = "t") -> list[Row]:
    listed = f"SELECT * FROM {CATALOG}.system.queries WHERE name = 'tier-of-{scope}/{table}'"
    return spark.sql(listed).collect()


@pytest.mark.timeout(600)
def test_servers_tier_by_themselves(
    spark: SparkSession, lake: dict[str, str], scope: str, cluster: ClusterInfo, tmp_path: Path, stack: ExitStack
) -> None:
    """A server repeats the call, another one goes on when it is killed, and no server does without the property."""
    table = create(spark, scope, "t", **{"tier.interval": "1s"})
    servers = Servers(spark, cluster, tmp_path, **{f"lake.{key}": text for key, text in lake.items()})
    with ThreadPoolExecutor() as threads:
        shells = [threads.submit(servers.begin_shell, stack) for _ in range(2)]
    pids = {shell.result().pid for shell in shells}

    def tiered() -> list[int]:
        return ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')"))

    assert find_rows(spark, scope) == []
    tier(spark, table)
    wait_for(lambda: find_rows(spark, scope)[0].state == "RUNNING")
    [row] = find_rows(spark, scope)
    assert (row.query, row.into, row.trigger) == ("CALL system.tier", f"{CATALOG}.`{scope}`.t", "1000 milliseconds")
    insert(spark, table, 300, 100)
    wait_for(lambda: tiered() == list(range(400)))
    first = int(row.server.partition(":")[2].partition("/")[0])
    assert first in pids
    kill_with_its_service(first)
    insert(spark, table, 400, 100)
    wait_for(lambda: tiered() == list(range(500)))
    assert find_rows(spark, scope)[0].server != row.server
    assert ids(spark.table(table)) == list(range(500))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('tier.interval'='2s')")
    tier(spark, table)
    assert find_rows(spark, scope)[0].trigger == "2000 milliseconds"
    wait_for(lambda: find_rows(spark, scope)[0].state == "RUNNING")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('tier.interval')")
    wait_for(lambda: find_rows(spark, scope) == [])
    insert(spark, table, 500, 100)
    assert tier(spark, table).rows == 100
    assert tiered() == list(range(600))


def test_a_table_that_is_dropped_is_tiered_no_more(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    table = create(spark, scope, "t", **{"tier.interval": "1h"})
    tier(spark, table)
    tier(spark, table)
    assert [(row.state, row.failures) for row in find_rows(spark, scope)] == [("WAITING", 0)]
    spark.sql(f"DROP TABLE {table}")
    with pytest.raises(PySparkException, match="PRAVEGA_STREAM_NOT_FOUND"):
        tier(spark, table)
    assert find_rows(spark, scope) == []


def test_a_call_that_fails_leaves_no_row_and_takes_no_query_away(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str
) -> None:
    table = create(spark, scope, "t", **{"tier.interval": "1h"})
    with pytest.raises(PySparkException, match="PRAVEGA_"):
        tier(spark, table, until="99")
    assert find_rows(spark, scope) == []
    tier(spark, table)
    [row] = find_rows(spark, scope)
    assert row.state == "WAITING"
    queries = KeptQueries(Catalog({}, pravega))
    query = queries.read(scope, row.name)
    assert query is not None
    queries.change(scope, row.name, lambda _: replace(query, definition=replace(query.definition, query="SELECT 1")))
    assert "PRAVEGA_QUERY_EXISTS" in fails(lambda: tier(spark, table), "PRAVEGA_QUERY_EXISTS")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('tier.interval')")
    tier(spark, table)
    assert len(find_rows(spark, scope)) == 1
    [stopped] = spark.sql(f"CALL {CATALOG}.system.stop_query(name => '{row.name}')").collect()
    assert stopped.stopped


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"tier.interval": "1h"}, "'tier.interval' needs 'lake'"),
        ({"tier.interval": "soon", "lake": "a.b"}, "'tier.interval'"),
    ],
)
def test_intervals_that_are_refused(
    spark: SparkSession, lake: dict[str, str], scope: str, properties: dict[str, Any], words: str
) -> None:
    listed = ", ".join(f"'{key}'='{text}'" for key, text in properties.items())
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"CREATE TABLE {CATALOG}.`{scope}`.t (id BIGINT) USING pravega TBLPROPERTIES ({listed})")


def test_many_tierings_leave_few_manifests(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """Each tiering adds a manifest, which pyiceberg merges with others, and no event is lost by that."""
    table = create(spark, scope, "t")
    tier(spark, table)
    load_lake(lake, table).transaction().set_properties(
        {"commit.manifest.min-count-to-merge": "3"}
    ).commit_transaction()
    for number in range(3, 10):
        insert(spark, table, 100 * number, 100)
        tier(spark, table)
    snapshot = load_lake(lake, table).current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(load_lake(lake, table).io)) <= 3
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(1000))
