"""Asks generated queries in several ways, and compares the answers."""

from __future__ import annotations

import gc
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby, islice

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.catalog.queries.generated_queries import Query, generated
from tests.catalog.queries.generated_tables import Table

BRIEF = 50
"""So many queries, of all modules together, ask some of the tables only."""
GIVEN = os.environ.get("FUZZ_QUERIES")
NUMBERS = [BRIEF, pytest.param(500, marks=pytest.mark.long)] if GIVEN is None else [int(GIVEN)]
"""How many queries there are, of all modules together."""
SEED = os.environ.get("FUZZ_SEED", "1")
TIMEOUT = 900 if int(GIVEN or BRIEF) <= 2000 else 0
"""Seconds for a test, 0 for any."""
TOGETHER = 20
"""Queries that are one statement: each has a scan of its own in it, and all are planned and run at once."""
THREADS = int(os.environ.get("FUZZ_THREADS", "3"))
"""Statements at a time: Spark plans a statement with one thread."""
OTHER_WAYS = ("not pushed", None, "rows", None, "columns", None, "Parquet", None)
"""The ways of which a statement is asked in one beside "pushed" and "kept", or in none, in turns."""
MOST_SHOWN = 20
"""Differences after which no more are looked for."""
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
UNTRANSLATED = "V2ExpressionBuilder"
"""Where Spark 4.3 fails with an assertion before it asks a source: what is said of a condition that it made null."""


class Asked:
    """Asks queries of tables, each in several ways, and compares. `queries`: the one of NUMBERS, for messages."""

    def __init__(self, spark: SparkSession, tables: Sequence[Table], queries: int) -> None:
        self._given = f"FUZZ_SEED={SEED} FUZZ_QUERIES={queries}"
        self._tables = {table.name: table for table in tables}
        self._sessions = {ansi: self._session(spark, ansi) for ansi in (True, False)}
        self._counting = threading.Lock()
        self.pushed: Counter[str] = Counter()
        """How many of the scans have something pushed, by what it is."""
        self.errors: Counter[str] = Counter()
        """How many queries that were asked alone were an error, by its condition."""
        self._unexpected: dict[str, str] = {}
        """A query for each condition that none should have."""

    @staticmethod
    def _session(spark: SparkSession, ansi: bool) -> SparkSession:
        """A session in which small queries take least, and Parquet leaves no rows out by itself."""
        session = spark.newSession()
        for key, value in {
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.shuffle.partitions": "1",
            # One task has all rows that are kept, in their order.
            "spark.sql.leafNodeDefaultParallelism": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.parquet.filterPushdown": "false",
            # Of files, conditions have dates of Java's, the older of which are not as far away.
            "spark.sql.datetime.java8API.enabled": "true",
            # It would make one scan of those of several queries.
            "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.execution.planmerging.MergeSubplans",
            "spark.sql.binaryOutputStyle": "HEX",
        }.items():
            session.conf.set(key, value)
        return session

    def ask(self, queries: Iterator[Query]) -> None:
        """Ask any queries in some ways, and fail with all differences between the answers."""
        # Numbered here, not by the threads: a seed asks each statement in the same ways, however they run.
        statements, found = enumerate(together(queries)), list[str]()

        def differences(numbered: tuple[int, Sequence[Query]]) -> list[str]:
            turn, queries = numbered
            if queries[0].failing and queries[0].where:
                # Of files Spark evaluates conditions in another order, and so meets other errors.
                return self._differences(queries, ("pushed", "not pushed"))
            other = OTHER_WAYS[turn % len(OTHER_WAYS)]
            return self._differences(queries, ("pushed", "kept") if other is None else ("pushed", other, "kept"))

        with ThreadPoolExecutor(THREADS) as pool:
            while len(found) < MOST_SHOWN and (some := list(islice(statements, 16 * THREADS))):
                found += [each for differences in pool.map(differences, some) for each in differences]
                # PySpark's errors are in cycles with the frames that they passed, which hold plans of some megabytes.
                gc.collect()
        self._fail_with(found)

    def ask_generated(self, number: int, **least: int) -> None:
        """Ask so many generated queries; `least`: of how many scans at least something is pushed, by what it is."""
        self.ask(generated(SEED, [*self._tables.values()], number))
        assert not self._unexpected, (self._unexpected, self.errors)
        assert self.errors[UNTRANSLATED] < number / 100, self.errors
        # Many are pushed: else nothing would be shown.
        for pushed, times in least.items():
            assert self.pushed[pushed.replace("_", " ")] > times, self.pushed

    def compare(self, queries: Sequence[Query], ways: Sequence[str]) -> None:
        """Ask queries that all have one mode for ANSI in some ways, and fail with all differences of the answers."""
        self._fail_with(self._differences(queries, ways))

    def _differences(self, queries: Sequence[Query], ways: Sequence[str]) -> list[str]:
        """What is not as the last one of the ways has it: the smallest queries that show it, and their answers."""
        answers = {way: self._answers(queries, way) for way in ways}
        return [
            self._shown(query, ways)
            for place, query in enumerate(queries)
            if not equal(query, {way: answers[way][place] for way in ways})
        ]

    def _answers(self, queries: Sequence[Query], way: str) -> list[list[str]]:
        """Of each query the rows in any order, or the error: of its condition, of one of ours with its message."""
        try:
            frame = self._frame(queries, way)
            if way == "pushed":
                plan = str(frame._jdf.queryExecution().executedPlan().toString())
                with self._counting:
                    self.pushed.update(re.findall(r"; (filters|aggregates|limit|routing key): ", plan))
            rows: list[list[str]] = [[] for _ in queries]
            for row in frame.collect():
                rows[row.query].append(row.text)
            return [sorted(each) for each in rows]
        except (PySparkException, Py4JJavaError) as error:
            if half := len(queries) // 2:
                return [*self._answers(queries[:half], way), *self._answers(queries[half:], way)]
            condition = UNTRANSLATED if UNTRANSLATED in str(error) else condition_of(error)
            with self._counting:
                self.errors[condition] += 1
                if condition not in EXPECTED | {UNTRANSLATED}:
                    self._unexpected[condition] = self._text(queries[0], way)
            ours = re.search(r"\[PRAVEGA_.*", str(error))
            return [[condition if ours is None else ours[0]]]

    def _frame(self, queries: Sequence[Query], way: str) -> DataFrame:
        branches = [
            f"SELECT {number} AS query, CAST(struct(*) AS STRING) AS text FROM ({self._text(query, way)})"
            for number, query in enumerate(queries)
        ]
        return self._sessions[queries[0].ansi].sql(" UNION ALL ".join(branches))

    def _text(self, query: Query, way: str) -> str:
        """The query of a table; of the copies all rows, where any so many of them are right."""
        if query.any_rows and way in ("Parquet", "kept"):
            query = replace(query, limit=None)
        return query.text(self._tables[query.table].ways[way])

    def _shown(self, query: Query, ways: Sequence[str]) -> str:
        """The smallest query like this one that shows a difference, and what it is."""

        def alone(query: Query) -> dict[str, list[str]]:
            return {way: self._answers([query], way)[0] for way in ways}

        found = alone(query)
        while smaller := next((each for each in query.smaller() if not equal(each, alone(each))), None):
            query, found = smaller, alone(smaller)
        common = set.intersection(*map(set, found.values())) if len(found[ways[-1]]) > 20 else set()
        shown = {way: [row for row in rows if row not in common][:20] for way, rows in found.items()}
        texts = "\n".join(f"{way}: {self._text(query, way)}\n  {shown[way]}" for way in ways)
        return f"{query}\n{texts}"

    def _fail_with(self, differences: Sequence[str]) -> None:
        if differences:
            pytest.fail(f"{self._given}: {len(differences)} differences\n" + "\n".join(differences), pytrace=False)


def condition_of(error: PySparkException | Py4JJavaError) -> str:
    """The condition of an error. PySpark does not look for it in those of subqueries."""
    if isinstance(error, PySparkException) and (condition := error.getCondition()):
        return condition.partition(".")[0]
    found = re.search(r"\[([A-Z_]+)[.\]]", str(error))
    return found[1] if found else str(error)


def equal(query: Query, found: Mapping[str, list[str]]) -> bool:
    """Tell whether the answers are right, given that the last one is."""
    *others, (_, wanted) = found.items()
    if any(answer == [UNTRANSLATED] for _, answer in others):
        return True
    limit = query.limit if query.any_rows else None
    for way, answer in others:
        # Of copies there are all rows.
        if limit is None or way == "Parquet":
            if answer != wanted:
                return False
        elif len(answer) != min(limit, len(wanted)) or Counter(answer) - Counter(wanted):
            return False
    return True


def together(queries: Iterable[Query]) -> Iterator[list[Query]]:
    """Put queries together that can be one statement, and load their table once."""

    def kind(query: Query) -> tuple[bool, bool, str]:
        return query.failing, query.ansi, query.table

    queries = iter(queries)
    while some := list(islice(queries, 1000)):
        for (failing, _, _), same in groupby(sorted(some, key=kind), key=kind):
            while batch := list(islice(same, 1 if failing else TOGETHER)):
                yield batch
