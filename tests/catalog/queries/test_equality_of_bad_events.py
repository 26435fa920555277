"""Generated queries of tables with bad events, in every mode, and of current rows; see test_equality.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from tests.catalog.queries.asked_queries import BRIEF, NUMBERS, SEED, TIMEOUT, Asked
from tests.catalog.queries.generated_bad_events import bad, bad_avro, current
from tests.catalog.queries.generated_queries import Query, generated
from tests.catalog.queries.generated_tables import Table, tables


@pytest.fixture(scope="module", params=NUMBERS)
def queries(request: pytest.FixtureRequest) -> int:
    """How many are asked, in all modules together."""
    return int(request.param)


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, client_config: ClientConfig, queries: int
) -> Iterator[list[Table]]:
    kinds = (current, bad) if queries <= BRIEF else (current, bad, bad_avro)
    with tables(spark, tmp_path_factory.mktemp("bad"), client_config, *kinds) as found:
        yield found


@pytest.mark.timeout(TIMEOUT)
def test_generated_queries_have_equal_results_and_errors(spark: SparkSession, made: list[Table], queries: int) -> None:
    here = queries // 4
    Asked(spark, made, queries).ask_generated(here, filters=here // 4, aggregates=(here - 1) // 12)


def test_queries_that_once_were_wrong(spark: SparkSession, made: list[Table], queries: int) -> None:
    # Spark sorts the rows to find the greatest text, and adds the numbers in that order.
    query = Query("dropped", ("max(_segment)", "sum(d)"), groups=("dt",))
    [table] = [table for table in made if table.name == "dropped"]
    Asked(spark, made, queries).compare([query], tuple(table.ways))


def test_bad_events_fail_generated_queries_alike(spark: SparkSession, made: list[Table], queries: int) -> None:
    asked = Asked(spark, made, queries)
    [table] = [table for table in made if table.name == "failfast"]
    for query in generated(SEED, [replace(table, weight=1)], max(8, queries // 250)):
        # Bad events elsewhere are not met.
        if not query.any_rows and "_offset" not in " ".join((*query.where, *query.joined)):
            asked.compare([query], ("pushed", "not pushed"))
    assert asked.errors["PRAVEGA_MALFORMED_EVENT"] > 4
