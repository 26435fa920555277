"""Generated queries have the results and the errors that they have without push-down, and of a Parquet copy.

`make test` asks 2,000 queries, the same each time; `make fuzz` 100,000 others (FUZZ_QUERIES, FUZZ_SEED).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client.config import ClientConfig
from tests.catalog.generated_queries import Query, generated
from tests.catalog.generated_tables import Table, tables

QUERIES = int(os.environ.get("FUZZ_QUERIES", "2000"))
SEED = os.environ.get("FUZZ_SEED", "1")
TOGETHER = 20
"""Queries that are one statement: each has a scan of its own in it, and all are planned and run at once."""
OTHER_WAYS = ("not pushed", "rows", "not pushed", "columns")
"""The ways of which a statement is asked in one beside "pushed" and "Parquet", in turns."""
EXPECTED = {
    *(
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "DATETIME_FIELD_OUT_OF_BOUNDS",
    ),
    *("DIVIDE_BY_ZERO", "INVALID_ARRAY_INDEX", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "NUMERIC_VALUE_OUT_OF_RANGE"),
    *("REMAINDER_BY_ZERO",),
}
"""Conditions of the errors that queries are made to have: any other is a mistake of the grammar, or of ours."""
FIXED = (
    *(Query("plain", ("id",), (f"d {negated}IN (0d, 0.1d)",)) for negated in ("", "NOT ")),
    *(Query("plain", ("id",), (f"f {negated}IN (float('-0.0'), float('NaN'))",)) for negated in ("", "NOT ")),
    # Spark's interpreted functions take a null out of an array of Arrow without looking.
    Query("apart", ("hash(a)", "a")),
    # Spark sorts the rows to find the greatest text, and adds the numbers in that order.
    Query("dropped", ("max(_segment)", "sum(d)"), groups=("dt",)),
    Query("plain", ("max(t)", "avg(d)", "sum(f)"), groups=("dt",)),
)
"""Queries that once had other rows or none, and what generated ones seldom are."""


class Asked:
    """Asks queries of tables, each in several ways, and compares."""

    def __init__(self, spark: SparkSession, tables: Sequence[Table]) -> None:
        self._tables = {table.name: table for table in tables}
        self._sessions = {ansi: self._session(spark, ansi) for ansi in (True, False)}
        self.pushed: Counter[str] = Counter()
        """How many of the scans have something pushed, by what it is."""
        self.errors: Counter[str] = Counter()
        """How many queries that were asked alone were an error, by its condition."""

    @staticmethod
    def _session(spark: SparkSession, ansi: bool) -> SparkSession:
        """A session in which small queries take least, and Parquet leaves no rows out by itself."""
        session = spark.newSession()
        for key, value in {
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.parquet.filterPushdown": "false",
            # It would make one scan of those of several queries.
            "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.execution.planmerging.MergeSubplans",
            "spark.sql.binaryOutputStyle": "HEX",
        }.items():
            session.conf.set(key, value)
        return session

    def compare(self, queries: Sequence[Query], ways: Sequence[str]) -> None:
        """Ask queries that all have one mode for ANSI, and assert that the answers are equal."""
        answers = {way: self._answers(queries, way) for way in ways}
        for place, query in enumerate(queries):
            if not equal(query, {way: answers[way][place] for way in ways}):
                self._fail(query, ways)

    def _answers(self, queries: Sequence[Query], way: str) -> list[list[str]]:
        """Of each query the rows in any order, or the error: of its condition, of one of ours with its message."""
        try:
            frame = self._frame(queries, way)
            if way == "pushed":
                plan = str(frame._jdf.queryExecution().executedPlan().toString())
                self.pushed.update(re.findall(r"; (filters|aggregates|limit|routing key): ", plan))
            rows: list[list[str]] = [[] for _ in queries]
            for row in frame.collect():
                rows[row.query].append(row.text)
            return [sorted(each) for each in rows]
        except (PySparkException, Py4JJavaError) as error:
            if len(queries) > 1:
                return [answer for query in queries for answer in self._answers([query], way)]
            condition = condition_of(error)
            self.errors[condition] += 1
            return [[str(error).splitlines()[0] if condition.startswith("PRAVEGA_") else condition]]

    def _frame(self, queries: Sequence[Query], way: str) -> DataFrame:
        branches = [
            f"SELECT {number} AS query, CAST(struct(*) AS STRING) AS text FROM ({self._text(query, way)})"
            for number, query in enumerate(queries)
        ]
        return self._sessions[queries[0].ansi].sql(" UNION ALL ".join(branches))

    def _text(self, query: Query, way: str) -> str:
        """The query of a table; of Parquet all rows, where any so many of them are right."""
        if query.any_rows and way == "Parquet":
            query = replace(query, limit=None)
        return query.text(self._tables[query.table].ways[way])

    def _fail(self, query: Query, ways: Sequence[str]) -> None:
        """Fail with the smallest query like this one that shows a difference."""

        def alone(query: Query) -> dict[str, list[str]]:
            return {way: self._answers([query], way)[0] for way in ways}

        found = alone(query)
        while smaller := next((each for each in query.smaller() if not equal(each, alone(each))), None):
            query, found = smaller, alone(smaller)
        common = set.intersection(*map(set, found.values())) if len(found[ways[-1]]) > 20 else set()
        shown = {way: [row for row in rows if row not in common][:20] for way, rows in found.items()}
        texts = "\n".join(f"{way}: {self._text(query, way)}\n  {shown[way]}" for way in ways)
        pytest.fail(f"FUZZ_SEED={SEED} FUZZ_QUERIES={QUERIES}: {query}\n{texts}", pytrace=False)


def condition_of(error: PySparkException | Py4JJavaError) -> str:
    """The condition of an error. PySpark does not look for it in those of subqueries."""
    if isinstance(error, PySparkException) and (condition := error.getCondition()):
        return condition.partition(".")[0]
    found = re.search(r"\[([A-Z_]+)[.\]]", str(error))
    return found[1] if found else str(error)


def equal(query: Query, found: Mapping[str, list[str]]) -> bool:
    """Tell whether the answers are right, given that the last one is."""
    *others, wanted = found.values()
    if not query.any_rows:
        return all(answer == wanted for answer in others)
    count = min(query.limit, len(wanted))
    return all(len(answer) == count and not Counter(answer) - Counter(wanted) for answer in others)


def together(queries: Iterator[Query]) -> Iterator[list[Query]]:
    """Put queries together that can be one statement."""

    def kind(query: Query) -> tuple[bool, bool]:
        return query.failing, query.ansi

    while some := list(islice(queries, 500)):
        for (failing, _), same in groupby(sorted(some, key=kind), key=kind):
            while batch := list(islice(same, 1 if failing else TOGETHER)):
                yield batch


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, client_config: ClientConfig
) -> Iterator[list[Table]]:
    with tables(spark, tmp_path_factory.mktemp("equality"), client_config) as found:
        yield found


@pytest.mark.timeout(900 if QUERIES <= 2000 else 0)
def test_generated_queries_have_equal_results_and_errors(spark: SparkSession, made: list[Table]) -> None:
    asked = Asked(spark, made)
    for number, queries in enumerate(together(generated(SEED, made, QUERIES))):
        if queries[0].failing and queries[0].where:
            # Of files Spark evaluates conditions in another order, and so meets other errors.
            asked.compare(queries, ("pushed", "not pushed"))
        else:
            asked.compare(queries, ("pushed", OTHER_WAYS[number % len(OTHER_WAYS)], "Parquet"))
    assert asked.errors.keys() <= EXPECTED, asked.errors
    # Many are pushed: else nothing would be shown.
    assert asked.pushed["filters"] > QUERIES / 4, asked.pushed
    assert asked.pushed["aggregates"] > QUERIES / 12, asked.pushed
    assert asked.pushed["limit"] > QUERIES / 60, asked.pushed
    assert asked.pushed["routing key"] > QUERIES / 200, asked.pushed


def test_queries_that_once_were_wrong(spark: SparkSession, made: list[Table]) -> None:
    Asked(spark, made).compare(FIXED, tuple(made[0].ways))


def test_bad_events_fail_generated_queries_alike(spark: SparkSession, made: list[Table]) -> None:
    asked = Asked(spark, made)
    [table] = [table for table in made if table.name == "failfast"]
    for query in generated(SEED, [replace(table, weight=1)], max(8, QUERIES // 250)):
        # Bad events elsewhere are not met.
        if not query.any_rows and "_offset" not in " ".join(query.where):
            asked.compare([query], ("pushed", "not pushed"))
    assert asked.errors["PRAVEGA_MALFORMED_EVENT"] > 4
