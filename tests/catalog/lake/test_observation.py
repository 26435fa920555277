"""What Prometheus and the web pages show of a lake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.test_history_in_a_lake import create, insert, tier

pytest.importorskip("prometheus_client", reason="the extra 'metrics' is not installed: make setup")
from pyspark_pravega.metrics.measurement import measure
from tests.front_ends.pages import serving
from tests.front_ends.test_browser import read_page
from tests.front_ends.test_monitoring import read_once


def test_metrics_say_what_a_lake_lacks(
    spark: SparkSession, pravega: Pravega, lake: dict[str, str], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without confs of the lake, nothing is said of it, and that is no error."""
    monkeypatch.delenv("PRAVEGA_LAKE", raising=False)
    table, of_lake = create(spark, scope, "t"), {f"lake.{key}": text for key, text in lake.items()}

    def read(conf: dict[str, str]) -> dict[str, float | None]:
        metrics = read_once(lambda: measure(Catalog(conf, pravega), [scope]))
        assert not metrics["pravega_unread"]
        return {name: values.get(("t",)) for name, values in metrics.items() if name.startswith("pravega_lake_")}

    assert set(read({}).values()) == {None}
    empty = read(of_lake)
    assert (empty["pravega_lake_rows"], empty["pravega_lake_files"]) == (0, 0)
    assert (empty["pravega_lake_bytes_behind"] or 0) > 0 and (empty["pravega_lake_seconds_behind"] or 0) > 0
    tier(spark, table)
    whole = read(of_lake)
    assert (whole["pravega_lake_rows"], whole["pravega_lake_bytes_behind"]) == (300, 0)
    assert whole["pravega_lake_seconds_behind"] == 0 and (whole["pravega_lake_bytes"] or 0) > 0
    insert(spark, table, 300, 10)
    behind = read(of_lake)
    assert behind["pravega_lake_rows"] == 300
    assert 0 < (behind["pravega_lake_bytes_behind"] or 0) < (empty["pravega_lake_bytes_behind"] or 0)
    assert (behind["pravega_lake_seconds_behind"] or 0) > 0


def test_the_page_of_a_table_shows_its_lake(
    spark: SparkSession, cluster: ClusterInfo, lake: dict[str, str], scope: str
) -> None:
    table = create(spark, scope, "t")
    uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    with connect(**uris, **{f"lake.{key}": text for key, text in lake.items()}) as catalog, serving(catalog) as client:
        page = f"/tables/{scope}/t/lake"
        before = read_page(client, page)
        assert "Rows 0" in before and "Newest version" not in before
        tier(spark, table)
        after = read_page(client, page)
        snapshot = spark.table(f"{table}.lake").first()
        assert "Rows 300" in after and "Newest version 3" in after
        assert f"Snapshot {snapshot.snapshot_id}" in after and snapshot.stream_cut in after
        spark.sql(f"CREATE TABLE {table}_without (id INT) USING pravega TBLPROPERTIES ('format'='json')")
        assert "This table has no lake" in read_page(client, f"/tables/{scope}/t-without/lake")


@pytest.mark.parametrize("by_argument", [False, True])
@pytest.mark.parametrize(
    ("command", "path", "shows"),
    [("metrics", "metrics", "pravega_lake_rows{"), ("ui", "tables/{scope}/t/lake", "Table in the catalog of lakes")],
)
def test_commands_with_the_lake_of_the_environment(
    spark: SparkSession,
    cluster: ClusterInfo,
    lake: dict[str, str],
    scope: str,
    by_argument: bool,
    command: str,
    path: str,
    shows: str,
) -> None:
    """It counts unless an argument gives an address, though that is the same one; the page then says so."""
    create(spark, scope, "t")
    uris = {"controller-uri": cluster.controller_uri, "schema-registry-uri": str(cluster.registry_uri)}
    variables = {f"PRAVEGA_{key.upper().replace('-', '_')}": uri for key, uri in uris.items() if not by_argument}
    arguments = [part for key, uri in uris.items() for part in (f"--{key}", uri) if by_argument]
    arguments += ["--scope", scope] if command == "metrics" else []
    own = {name: text for name, text in os.environ.items() if not name.startswith("PRAVEGA_")}
    program = [sys.executable, "-m", "pyspark_pravega", command, "--port", "0", *arguments]
    environment = {**own, **variables, "PRAVEGA_LAKE": json.dumps(lake)}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            address = re.match(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address is not None
            answer = httpx.get(page := f"{address[0]}/{path.format(scope=scope)}", timeout=60)
            while "pravega_up 0.0" in answer.text:  # before the first measurement has ended
                time.sleep(0.1)
                answer = httpx.get(page, timeout=60)
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert answer.status_code == 200
    assert (shows in answer.text) != by_argument
    if command == "ui" and by_argument:
        assert "PRAVEGA_LAKE, which does not count beside an address" in answer.text
