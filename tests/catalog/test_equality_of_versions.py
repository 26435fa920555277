"""Generated queries of tables as they were, of CHANGES, and of columns that were changed; see test_equality.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from tests.catalog.asked_queries import QUERIES, TIMEOUT, Asked
from tests.catalog.generated_tables import Table, tables
from tests.catalog.generated_versions import evolved_avro, evolved_json, versions

HERE = QUERIES // 4


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, client_config: ClientConfig
) -> Iterator[list[Table]]:
    with tables(spark, tmp_path_factory.mktemp("was"), client_config, versions, evolved_avro, evolved_json) as found:
        yield found


@pytest.mark.timeout(TIMEOUT)
def test_generated_queries_have_equal_results_and_errors(spark: SparkSession, made: list[Table]) -> None:
    Asked(spark, made).ask_generated(HERE, filters=HERE // 4, aggregates=HERE // 20)
