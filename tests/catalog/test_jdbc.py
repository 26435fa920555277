"""Other programs than beeline at the Thrift server: the JDBC driver in a Java program, by the catalog's own URLs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from pyspark_pravega.local.java import find_java
from tests.sql_clients import SqlClient

PROGRAM = Path(__file__).with_name("Jdbc.java")
DRIVER = Path(str(pyspark.__file__)).parent / "jars" / "*"


def answers(url: str, namespace: str, *queries: str) -> dict[str, list[tuple[str, ...]]]:
    """What Jdbc.java shows: the rows of the queries, and those of each metadata call."""
    java: list[str | Path] = [find_java().executable, "-XX:TieredStopAtLevel=1", "-cp", DRIVER, PROGRAM]
    done = subprocess.run([*java, url, namespace, *queries], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[tuple[str, ...]]] = {"query": [], "catalogs": [], "schemas": [], "tables": [], "columns": []}
    for line in done.stdout.splitlines():
        call, *cells = line.split("\t")
        found[call].append(tuple(cells))
    return found


@pytest.mark.parametrize(("sql", "catalog_name"), [("jdbc", "secure")], indirect=True)
def test_a_url_names_catalog_and_namespace(thrift_url: str, sql: SqlClient, catalog_name: str, fresh_name: str) -> None:
    current = "SELECT current_catalog(), current_schema()"
    sql.run(f"CREATE NAMESPACE {catalog_name}.{fresh_name}")
    try:
        sql.run(f"CREATE TABLE {catalog_name}.{fresh_name}.t (id BIGINT) USING pravega")
        sql.run(f"INSERT INTO {catalog_name}.{fresh_name}.t VALUES (1), (2)")
        whole = answers(f"{thrift_url}/{catalog_name}", fresh_name, current)
        one = answers(f"{thrift_url}/{catalog_name}.{fresh_name}", fresh_name, current, "SELECT sum(id) FROM t")
    finally:
        sql.run(f"DROP NAMESPACE {catalog_name}.{fresh_name} CASCADE")
    assert whole["query"] == [(catalog_name, "")]
    assert one["query"] == [(catalog_name, fresh_name), ("3",)]
    # With spark.sql.thriftServer.catalogMetadata.enabled; docs/deployment.md says what the metadata calls show.
    for found in (whole, one):
        assert (catalog_name,) in found["catalogs"]
        assert found["schemas"] == [(fresh_name, catalog_name)]
        assert found["tables"] == found["columns"] == []
