"""What tests run with each version of Spark: what older ones lack is left out, and what passed is counted.

    python -m tests.spark_versions modules                 # prints the test modules of `make spark41` and the others
    python -m tests.spark_versions table FILE              # renews the table in docs/spark-versions.md

A lack is refused with a sentence of this package that names the version, or is Spark's own and in SINCE. The same list
in words, with what happens before, is in `docs/spark-versions.md`. Refused statements skip tests in the long runs
alone, which fail if more of them do than before. In short runs such a test fails.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.type_matrix import insert_table

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
TESTS = Path(__file__).resolve().parent
RESULTS = TESTS / "spark_results"
"""What `make spark41` and the others found: a file for each version of Spark."""

FEATURES = {
    "statements in PySpark, spark-sql and JDBC": ("catalog/test_sql_behaviours.py",),
    "metadata for BI tools over JDBC": ("catalog/test_jdbc.py",),
    "tables, columns and types": (
        "catalog/test_statements.py",
        "catalog/queries/test_types.py",
        "catalog/tables/test_merged_tables.py",
    ),
    "VARIANT": ("catalog/queries/test_variants.py",),
    "TIME": ("catalog/queries/test_times_of_day.py",),
    "formats, schema versions, bad events": (
        "catalog/creation/test_formats.py",
        "catalog/queries/test_bad_event_modes.py",
    ),
    "errors that say what to do": ("catalog/test_bad_input.py",),
    "time travel and tags": ("catalog/tables/test_time_travel.py",),
    "procedures": ("catalog/procedures/test_procedures.py",),
    "key-value tables, with UPDATE, MERGE and DELETE": ("catalog/tables/test_key_value_tables.py",),
    "views": ("catalog/tables/test_views.py",),
    "changes (CHANGES, `.changes`, the option `changes`)": (
        "catalog/tables/test_changes.py",
        "catalog/tables/test_changes_by_options.py",
    ),
    "streams of changes": ("catalog/streaming/test_changes_stream.py", "catalog/streaming/test_changes_stream_rows.py"),
    "tables of Debezium's changes": ("catalog/tables/test_debezium.py",),
    "streaming reads": (
        "catalog/streaming/test_streams.py",
        "catalog/streaming/test_stream_queries.py",
        "catalog/streaming/test_stream_starts.py",
        "catalog/streaming/test_stream_restarts.py",
    ),
    "sources that have names": ("catalog/streaming/test_named_sources.py",),
    "event time": ("catalog/streaming/test_event_time.py",),
    "joins of streams with key-value tables": ("catalog/queries/test_lookup_joins.py",),
    "streaming queries started by SQL": ("catalog/running/test_running_queries.py",),
    "streaming writes, exactly once": ("catalog/writing/test_stream_sink.py", "faults/test_epochs.py"),
    "real-time mode": ("datasource/stream_source/test_real_time.py",),
    "Iceberg 1.12 with 4.1, Delta 4.4 with 4.2": ("lakehouse/test_lakehouses.py",),
    "Spark's packages for Kafka and Avro": ("kafka/test_kafka.py",),
    "recipes": ("catalog/test_recipes.py",),
    "scripts of `pyspark-pravega run`": ("front_ends/test_script_runner.py",),
    "what a version lacks": ("catalog/test_spark_versions.py",),
}
"""The test modules that show a feature."""

SINCE: dict[str, dict[str, tuple[str, ...]]] = {
    "4.2": {
        "CREATE TABLE LIKE": (
            "test_bad_input.py::test_clauses_of_create_table[CREATE TABLE * LIKE *",
            "test_sql_behaviours.py::test_behaviour[*created: like another]",
            "test_sql_behaviours.py::test_behaviour[*several streams: like another]",
        ),
        "INSERT WITH SCHEMA EVOLUTION": ("test_sql_behaviours.py::test_behaviour[*inserted: columns that are new]",),
        "ALTER VIEW, DROP VIEW and SHOW VIEWS": (
            "test_bad_input.py::test_statements_on_a_table[ALTER VIEW *",
            "test_bad_input.py::test_statements_on_a_table[CREATE VIEW * WITH METRICS *",
            "test_bad_input.py::test_statements_on_a_table[DROP VIEW *",
            "test_bad_input.py::test_statements_on_a_table[SHOW VIEWS *",
            "test_views.py::test_definitions_that_change",
        ),
        "CHANGES": (
            "test_sql_behaviours.py::test_behaviour[*created: underscores are hyphens]",
            "test_sql_behaviours.py::test_behaviour[*several streams refused: changes]",
            "test_changes_stream.py::test_without_a_start_all_rows_come",
            "test_key_value_tables.py::test_what_key_value_tables_cannot_do_says_what_to_do",
        ),
        "INSERT ... REPLACE USING": ("test_bad_input.py::test_statements_on_a_table[INSERT INTO t REPLACE USING *",),
        "the type GEOMETRY": ("test_bad_input.py::test_columns[*GEOMETRY*",),
        "DROP FUNCTION of a catalog": ("test_bad_input.py::test_statements_on_a_table[DROP FUNCTION f]",),
        "spark-sql shows errors without Java's frames": (
            "test_sql_behaviours.py::test_behaviour[spark-sql-*errors of queries: *",
            "test_sql_behaviours.py::test_behaviour[spark-sql-*created: by a query that fails]",
            "test_sql_behaviours.py::test_behaviour[spark-sql-*altered: NOT NULL]",
            "test_sql_behaviours.py::test_behaviour[spark-sql-*not inserted: a number that is too large]",
            "test_sql_behaviours.py::test_behaviour[spark-sql-*not inserted: an error in the middle]",
        ),
        "DESCRIBE PROCEDURE shows parameters": ("test_procedures.py::test_procedures_are_listed_and_described",),
        "trigger(realTime=...) in PySpark": (
            "test_real_time.py::test_events_come_once_and_in_order_while_segments_split_and_merge",
            "test_real_time.py::test_a_query_without_end_has_no_end_cut",
            "test_event_time.py::test_where_a_drift_in_event_time_makes_no_sense",
        ),
        "readStream.name(...)": ("test_named_sources.py::*",),
        "a query's progress has offsets as JSON in Python": (
            "test_streams.py::test_progress_tells_how_far_a_query_is_behind",
        ),
    },
    "4.3": {
        "a query's options 'mode'='permissive', with NOT NULL columns, and 'schema-version'": (
            "test_bad_event_modes.py::test_permissive",
            "test_bad_event_modes.py::test_the_number_of_bad_events_is_a_metric",
            "test_formats.py::test_a_format_of_ones_own",
            "test_formats.py::TestVersions::test_pinned",
            "test_sql_behaviours.py::test_behaviour[*hidden columns: no error of good events]",
            "test_sql_behaviours.py::test_behaviour[*several streams refused: options that change columns]",
            "test_stream_restarts.py::test_columns_that_are_gone_or_of_another_type",
            "test_views.py::test_views_in_queries",
        ),
        "TIME with more than 6 digits, and comparisons of TIME with different digits": (
            "test_times_of_day.py::test_more_digits_than_six*",
            "test_times_of_day.py::test_times_of_several_precisions_are_compared*",
        ),
        "a micro-batch looks keys up": ("test_lookup_joins.py::*",),
        "CALL system.start_query": ("test_running_queries.py::*", "test_resumed_queries.py::*"),
        "INSERT ... FROM STREAM in scripts": (
            "test_script_runner.py::test_a_streaming_insert_is_an_insert_that_goes_on_where_it_stopped",
            "test_script_runner.py::test_a_statement_goes_on_however_it_spells_its_table",
            "test_script_runner.py::test_views_watermarks_and_variables",
            "test_script_runner.py::test_streaming_statements_run_side_by_side_until_they_are_stopped",
            "test_script_runner.py::test_a_query_that_fails_ends_the_script",
            "test_script_runner.py::test_a_statement_after_a_failed_query_does_not_run",
            "test_script_runner.py::test_mistakes_are_told_with_their_line*needs a checkpoint]",
            "test_script_runner.py::test_mistakes_are_told_with_their_line[*/dev/null]",
            "test_script_runner.py::test_mistakes_are_told_with_their_line[*write option 'colour']",
            "test_script_runner.py::test_mistakes_are_told_with_their_line[*complete*",
            "test_script_runner.py::test_mistakes_are_told_with_their_line[*Distinct aggregations are not supported]",
            "test_script_runner.py::test_a_statement_whose_streams_have_an_end_ends_by_itself",
            "test_script_runner.py::test_two_statements_of_one_name_are_refused",
            "test_script_runner.py::test_two_statements_into_one_table_of_files_are_refused",
        ),
        "COMMENT ON COLUMN": (
            "test_bad_input.py::test_statements_on_a_table[COMMENT ON COLUMN*",
            "test_sql_behaviours.py::test_behaviour[*altered: comments]",
        ),
        "SHOW TABLE EXTENDED shows properties as they are": (
            "test_sql_behaviours.py::test_behaviour[*described: tables with their properties]",
        ),
        "CREATE TABLE LIKE a table with DEFAULT values": ("test_statements.py::test_a_table_like_another",),
    },
}
"""From which version on Spark has something, and the tests of it. `*` stands for any text."""

_BEGIN, _END = "<!-- features by version: begin -->\n", "<!-- features by version: end -->\n"


def _is_before(version: str) -> bool:
    return tuple(map(int, version.split("."))) > VERSION


class SparkVersions:
    """Leaves out the tests of what the Spark that runs lacks, and counts what passed for each feature."""

    def __init__(self, results: str | None) -> None:
        """`results`: the folder for the file of the counts, if one is wanted."""
        self._file = None if results is None else Path(results, f"{pyspark.__version__}.json")
        self._began = time.monotonic()
        self._counts: dict[str, Counter[str]] = {feature: Counter() for feature in FEATURES}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for since, lacks in SINCE.items():
            for what, patterns in lacks.items() if _is_before(since) else ():
                for item in items:
                    if any(_fits(item.nodeid, pattern) for pattern in patterns):
                        item.add_marker(pytest.mark.skip(reason=_reason(since, what)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        yield from self._with_refusals()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        yield from self._with_refusals()

    def _with_refusals(self) -> Generator[None, None, None]:
        """Skip a test that ends with this package's own sentence about a statement of a later Spark."""
        try:
            yield
        except Exception as error:
            for since in SINCE if self._file is not None else ():
                if _is_before(since) and f"from {since} on" in str(error):
                    pytest.skip(_reason(since, "what the refused statement does"))
            raise

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        feature = next((name for name, paths in FEATURES.items() if _module(report.nodeid) in paths), None)
        if feature is None or (report.when != "call" and report.passed):
            return
        lacking = report.skipped and "from Spark" in str(report.longrepr)
        self._counts[feature]["lacking" if lacking else report.outcome] += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._file is None or hasattr(session.config, "workerinput"):
            return
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or session.config.option.keyword:
            return  # it has run a part of each module
        # A run of some features leaves the numbers of the others as they are.
        found = json.loads(self._file.read_text()) if self._file.exists() else {"features": {}, "minutes": None}
        for feature, counts in self._counts.items():
            before = found["features"].get(feature, {}).get("lacking", counts["lacking"])
            if counts["lacking"] > before:
                print(f"\n{feature}: {counts['lacking']} lacking, {before} in {self._file}: delete it if right.")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
                return
        found.update(spark=pyspark.__version__, python=platform.python_version())
        if all(self._counts.values()):
            found["minutes"] = round((time.monotonic() - self._began) / 60)
        found["features"].update({key: dict(sorted(counts.items())) for key, counts in self._counts.items() if counts})
        self._file.write_text(json.dumps(found, indent=2) + "\n")


def _reason(since: str, what: str) -> str:
    return f"from Spark {since} on: {what}"


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def _fits(nodeid: str, pattern: str) -> bool:
    """Compare the module's name and the test with a pattern in which each `*` stands for any text."""
    module, _, test = nodeid.partition("::")
    name = f"{Path(module).name}::{test}"
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def read_changes_by_options() -> None:
    """Let tests of `.changes(name)` run with a Spark that lacks it, by the option that there is instead."""
    for reader in (DataFrameReader, DataStreamReader):
        setattr(reader, "changes", _changes)  # noqa: B010


def _changes(reader: Any, name: str) -> DataFrame:
    parts = [quoted.replace("``", "`") or plain for quoted, plain in re.findall(r"`((?:[^`]|``)+)`|([^.`]+)", name)]
    catalog, scope, stream = parts
    return changes_by_options(reader, scope, stream, catalog=catalog)


def changes_by_options(reader: Any, scope: str, stream: str, **options: str) -> DataFrame:
    """Read the changes of a stream, of the catalog `pravega` unless the options name another."""
    named = {"catalog": "pravega", "scope": scope, "stream": stream, "changes": "true"}
    frame: DataFrame = reader.format("pravega").options(**{**named, **options}).load()
    return frame


def features_table() -> str:
    """Return the table of features by version, from the files of results."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"), reverse=True)]
    lines = [f"| feature | {' | '.join(each['spark'] for each in found)} |", "|---" * (len(found) + 1) + "|"]
    for feature in FEATURES:
        cells = (_cell(each["features"].get(feature, {})) for each in found)
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    lines.append(f"| minutes, on 2 cores | {' | '.join(str(each['minutes'] or '') for each in found)} |")
    return "\n".join(lines) + "\n"


def _cell(counts: dict[str, int]) -> str:
    shown = {"passed": "{}", "failed": "{} failed", "lacking": "{} lacking"}
    return ", ".join(words.format(counts[key]) for key, words in shown.items() if counts.get(key)) or "not run"


def with_features(page: str) -> str:
    """Return a page with the table of now between its markers. Raises ValueError if it has none."""
    return insert_table(page, _BEGIN, _END, features_table())


if __name__ == "__main__":
    if sys.argv[1] == "modules":
        print(*(f"tests/{path}" for paths in FEATURES.values() for path in paths))
    else:
        target = Path(sys.argv[2])
        target.write_text(with_features(target.read_text()))
