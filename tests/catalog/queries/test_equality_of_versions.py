"""Generated queries of tables as they were, of CHANGES, and of columns that were changed; see test_equality.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from tests.catalog.queries.asked_queries import BRIEF, NUMBERS, TIMEOUT, Asked
from tests.catalog.queries.generated_tables import Table, tables
from tests.catalog.queries.generated_versions import evolved_avro, evolved_json, versions


@pytest.fixture(scope="module", params=NUMBERS)
def queries(request: pytest.FixtureRequest) -> int:
    """How many are asked, in all modules together."""
    return int(request.param)


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, client_config: ClientConfig, queries: int
) -> Iterator[list[Table]]:
    kinds = (versions, evolved_avro) if queries <= BRIEF else (versions, evolved_avro, evolved_json)
    with tables(spark, tmp_path_factory.mktemp("was"), client_config, *kinds) as found:
        yield found


@pytest.mark.timeout(TIMEOUT)
def test_generated_queries_have_equal_results_and_errors(spark: SparkSession, made: list[Table], queries: int) -> None:
    here = queries // 4
    least = {"filters": here // 4}
    if queries > BRIEF:
        least["aggregates"] = here // 20  # which a dozen queries need not have
    Asked(spark, made, queries).ask_generated(here, **least)
