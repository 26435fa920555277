"""Lakes in Iceberg's REST catalog: the most important tests of lakes once more, and what only such a catalog has."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.conftest import add_catalog
from tests.catalog.lake.rest_catalog import rest_catalog
from tests.catalog.lake.test_history_in_a_lake import (
    create,
    ids,
    insert,
    split_name,
    test_a_stream_reads_history_and_tail_in_order,
    test_columns_are_added,
    test_every_read_has_each_event_once,
    test_files_may_be_rewritten_and_rows_may_not,
    test_others_read_the_lake,
    tier,
)
from tests.catalog.lake.test_tierings import tier_at_once

__all__ = [
    "test_a_stream_reads_history_and_tail_in_order",
    "test_columns_are_added",
    "test_every_read_has_each_event_once",
    "test_files_may_be_rewritten_and_rows_may_not",
    "test_others_read_the_lake",
]
CATALOG, SECRET = "rested", "xyzzy-secret"


@pytest.fixture(scope="module")
def lake(
    spark: SparkSession, cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The settings of a REST catalog, which the session's catalog `rested` has."""
    with rest_catalog(tmp_path_factory.mktemp("rest")) as settings:
        add_catalog(cluster, CATALOG, settings)
        yield settings


@pytest.fixture
def table(spark: SparkSession, lake: dict[str, str], scope: str) -> str:
    return create(spark, scope, "t", catalog=CATALOG)


def test_tierings_at_once(spark: SparkSession, table: str) -> None:
    tier(spark, table)
    insert(spark, table, 300, 50)
    assert tier_at_once(spark, table) == 50
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='only')")) == list(range(350))


UNUSABLE = {
    "token": {"type": "rest", "uri": "http://127.0.0.1:1", "token": SECRET},
    "credential": {"type": "rest", "uri": f"http://user:{SECRET}@127.0.0.1:1", "credential": f"id:{SECRET}"},
    "refused": {"type": "rest", "uri": "{uri}/nowhere", "credential": f"id:{SECRET}", "header.X-Key": SECRET},
    "driver": {"type": "sql", "uri": f"postgresql+psycopg2://user:{SECRET}@127.0.0.1:1/lake"},
    "port": {"type": "sql", "uri": f"postgresql://user:{SECRET}@127.0.0.1:a-port/lake"},
    "storage": {
        "type": "sql", "uri": "sqlite:///{folder}/lake.db", "warehouse": "s3://bucket/lake",
        "s3.endpoint": "http://127.0.0.1:1", "s3.access-key-id": "key", "s3.secret-access-key": SECRET,
        "s3.session-token": SECRET, "s3.connect-timeout": "1",
    },
}  # fmt: skip
"""Settings with secrets and a fault."""


def test_errors_show_no_secrets(
    spark: SparkSession, cluster: ClusterInfo, lake: dict[str, str], table: str, tmp_path: Path
) -> None:
    for fault, settings in UNUSABLE.items():
        filled = {key: text.format(uri=lake["uri"], folder=tmp_path) for key, text in settings.items()}
        add_catalog(cluster, f"unusable_{fault}", filled)
        with pytest.raises(PySparkException) as error:
            tier(spark, f"unusable_{fault}.{split_name(table)[1]}")
        texts = [str(error.value), "".join(traceback.format_exception(error.value, limit=0))]
        assert error.value.getCondition() in ("PRAVEGA_INVALID_OPTION", "PRAVEGA_LAKE_FAILED"), fault
        assert not [text for text in texts if SECRET in text], fault
