"""Generated queries have the results and the errors that they have without push-down, and of a Parquet copy.

`make test` asks 50 queries, `make long` 500, the same each time; `make fuzz` 100,000 others (FUZZ_QUERIES, FUZZ_SEED).
Half of them are here, of good events; the others are in test_equality_of_bad_events.py and
test_equality_of_versions.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from tests.catalog.queries import generated_tables as t
from tests.catalog.queries.asked_queries import BRIEF, NUMBERS, TIMEOUT, Asked
from tests.catalog.queries.generated_queries import Query

IN_BRIEF = (t.plain, t.apart, t.keyed)
FIXED = (
    *(Query("plain", ("id",), (f"d {negated}IN (0d, 0.1d)",)) for negated in ("", "NOT ")),
    *(Query("plain", ("id",), (f"f {negated}IN (float('-0.0'), float('NaN'))",)) for negated in ("", "NOT ")),
    # Spark's interpreted functions take a null out of an array of Arrow without looking.
    Query("apart", ("hash(a)", "a")),
    # Spark sorts the rows to find the greatest text, and adds the numbers in that order.
    Query("plain", ("max(t)", "avg(d)", "sum(f)"), groups=("dt",)),
)
"""Queries that once had other rows or none, and what generated ones seldom are."""


@pytest.fixture(scope="module", params=NUMBERS)
def queries(request: pytest.FixtureRequest) -> int:
    """How many are asked, in all modules together."""
    return int(request.param)


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, client_config: ClientConfig, queries: int
) -> Iterator[list[t.Table]]:
    kinds = IN_BRIEF if queries <= BRIEF else (*IN_BRIEF, t.sparse, t.several, t.empty)
    with t.tables(spark, tmp_path_factory.mktemp("equality"), client_config, *kinds) as found:
        yield found


@pytest.mark.timeout(TIMEOUT)
def test_generated_queries_have_equal_results_and_errors(
    spark: SparkSession, made: list[t.Table], queries: int
) -> None:
    here = queries // 2
    least = {"filters": here // 4, "aggregates": here // 12, "limit": here // 60}
    if queries > BRIEF:
        least["routing_key"] = here // 200  # which few have: test_routing_keys.py asks more
    Asked(spark, made, queries).ask_generated(here, **least)


def test_queries_that_once_were_wrong(spark: SparkSession, made: list[t.Table], queries: int) -> None:
    Asked(spark, made, queries).compare(FIXED, tuple(made[0].ways))
