"""Queries of Flink's scripts, run by Flink, beside what `translate` makes of them, run by Spark: the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.sql.flink.statements import split_flink_script
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.flink_cases import DECLARED, Case, cases
from tests.interop.debezium_readers import convert, show_floats
from tests.interop.flink import Flink, FlinkSession
from tests.interop.flink_scripts import BATCH_OF_BIDS, change, declarations, place, run_by_spark
from tests.interop.java_process import JavaError

MORE_THAN_ALL = 1000
TOLD = {
    "an element by a column": "elements of an array are counted from 0 here",
    "divisions": "The quotient of whole numbers is a whole number in Flink, but a fraction in Spark",
}
"""Names of cases whose rows differ, each with what the report says."""
REFUSED_BY_FLINK = {
    "SELECT item, SESSION_START": "Cannot generate a valid execution plan",
    "SELECT COUNT(*), COUNT(DISTINCT item)": "Cannot generate a valid execution plan",
    "SELECT SPLIT(item, '.')": "No match found for function signature SPLIT",
}
"""How queries begin that batches of Flink 1.18 do not run, each with the error."""
NEVER_THE_SAME = "the time now"
"""A case whose queries show when they run."""


def queries(script: str) -> list[str]:
    return [each.text for each in split_flink_script(script)[0] if each.words[0] == "SELECT"]


def reads_bids_alone(case: Case) -> bool:
    """Return whether the case runs and has queries, but no table of its own."""
    translated = case.runs and "NOT TRANSLATED" not in case.spark
    return translated and "CREATE " not in case.flink and bool(queries(case.flink)) and case.name != NEVER_THE_SAME


CASES = [case for case in cases() if reads_bids_alone(case)]


def rows_of_both(spark: SparkSession, flink: FlinkSession, query: str, translated: str) -> tuple[list[Any], list[Any]]:
    """Return the rows that Spark and Flink have for a query, in the order of their texts."""
    frame = spark.sql(translated)
    frame = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    types = [field.dataType for field in frame.schema.fields]
    ours = [show_floats(list(row.values())) for row in frame.toArrow().to_pylist()]
    changes = flink.changes(query, MORE_THAN_ALL)
    assert {kind for kind, _ in changes} == {"+I"}
    theirs = [[convert(*pair) for pair in zip(row, types, strict=True)] for _, row in changes]
    return sorted(ours, key=repr), sorted(theirs, key=repr)


@pytest.mark.flink
def test_queries_give_the_same_rows_or_the_report_tells(
    spark: SparkSession, flink_jobs: Flink, cluster: ClusterInfo, scope: str, tmp_path: Path
) -> None:
    declared = place(change(DECLARED, BATCH_OF_BIDS), cluster, scope, tmp_path)
    run_by_spark(spark, declared)
    session = flink_jobs.begin({"execution.runtime-mode": "batch"})
    for statement in split_flink_script(declarations(declared))[0]:
        session.run(statement.text)
    ours = spark.newSession()
    ours.conf.set("spark.sql.session.timeZone", "UTC")
    differing, refused = set(), {}
    for case in CASES:
        translated = split_script(translate(declared + case.flink).script)
        texts = [each.text for each in translated if each.text.startswith("SELECT")]
        for query, text in zip(queries(case.flink), texts, strict=True):
            try:
                of_spark, of_flink = rows_of_both(ours, session, query, text)
            except JavaError as refusal:
                refused[query] = str(refusal)
            else:
                differing |= {case.name} if of_spark != of_flink else set()
    assert differing == TOLD.keys()
    for beginning, error in REFUSED_BY_FLINK.items():
        [of_query] = [refused.pop(query) for query in list(refused) if query.startswith(beginning)]
        assert error in of_query
    assert refused == {}


@pytest.mark.parametrize(("name", "reason"), TOLD.items(), ids=TOLD)
def test_the_report_tells_of_rows_that_differ(name: str, reason: str) -> None:
    [case] = [case for case in CASES if case.name == name]
    assert any(line.startswith("-- CHECK:") and reason in line for line in case.spark.splitlines())
