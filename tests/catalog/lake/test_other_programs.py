"""Lakes in object storage, and lakes that Polars and DuckDB read by their own code: `make lakes`."""

from __future__ import annotations

import json
import pickle
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.conftest import add_catalog
from tests.catalog.lake.test_history_in_a_lake import (
    TYPES,
    create,
    flatten,
    ids,
    insert,
    name_table,
    read_stream,
    split_name,
    tier,
    truncate,
)
from tests.catalog.lake.test_tierings import open_lake
from tests.drivers import ROOT
from tests.spark_servers import free_port, listens

pytestmark = pytest.mark.lakes
PROGRAMS = ROOT / "build" / "lakes" / "bin"
SECRET = "xyzzy-secret"


@pytest.fixture(scope="module")
def storage(
    cluster: ClusterInfo, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The settings of lakes in an S3 storage, which the session's catalog `stored` has."""
    port, folder = free_port(), tmp_path_factory.mktemp("storage")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([PROGRAMS / "moto_server", "-p", str(port)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not listens(port):
            assert server.poll() is None and time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.1)
        address = f"http://127.0.0.1:{port}"
        login = {"access_key": "key", "secret_key": SECRET, "region": "us-east-1"}
        S3FileSystem(**login, endpoint_override=address, allow_bucket_creation=True).create_dir("bucket")
        settings = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": "s3://bucket/lake"}
        settings |= {"s3.endpoint": address, "s3.access-key-id": "key", "s3.secret-access-key": SECRET}
        settings |= {"s3.region": "us-east-1", "token": "not-for-tasks"}
        add_catalog(cluster, "stored", settings)
        yield settings
    finally:
        server.kill()
        server.wait()


def test_object_storage(
    spark: SparkSession, pravega: Pravega, storage: dict[str, str], scope: str, tmp_path: Path
) -> None:
    """Tasks write and read files there, and get nothing that only the catalog needs."""
    table = create(spark, scope, "t", catalog="stored")
    assert tier(spark, table).rows == 300
    truncate(spark, table, "tail")
    insert(spark, table, 300, 100)
    assert ids(spark.table(table)) == list(range(400))
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE text = 'r7'")) == [7]
    assert sorted(flatten(read_stream(spark, table, tmp_path / "c"))) == list(range(400))
    io = pickle.dumps(open_lake(pravega, Stream(scope, "t"), storage)[1].io)
    assert SECRET.encode() in io and b"not-for-tasks" not in io and b"sqlite" not in io


def test_polars_and_duckdb_find_the_same_rows(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    table = name_table(scope, "types")
    columns = {f"c{number}": (type, value) for number, (type, value) in enumerate(TYPES.items())}
    listed = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
    name = split_name(table)[1]
    properties = f"'format'='avro', 'scaling.min-segments'='2', 'routing-key'='id', 'lake'='{name}'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, {listed}) USING pravega TBLPROPERTIES ({properties})")
    values = ", ".join(f"CASE WHEN id < 20 THEN {value} END" for _, value in columns.values())
    for first in (0, 20):
        spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range({first}, {first + 20})")
        tier(spark, table)
    command = [str(PROGRAMS / "python"), str(Path(__file__).with_name("other_readers.py")), json.dumps(lake), name]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"rows": 40, "polars": [], "duckdb": []}
