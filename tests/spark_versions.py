"""What older versions of Spark lack: the tests of it, which run from a version on.

Each lack is refused with a sentence, or is Spark's own; `test_spark_versions.py` shows the refusals. The same list in
words, with what happens before, is in `docs/spark-versions.md`.
"""

from __future__ import annotations

import pyspark
import pytest

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

SINCE: dict[str, dict[str, tuple[str, ...]]] = {
    "4.3": {
        "a query's options 'mode'='permissive', with NOT NULL columns, and 'schema-version'": (
            "test_bad_event_modes.py::test_permissive",
            "test_bad_event_modes.py::test_the_number_of_bad_events_is_a_metric",
            "test_formats.py::test_a_format_of_ones_own",
            "test_formats.py::TestVersions::test_pinned",
            "test_sql_behaviours.py::test_behaviour[*hidden columns: no error of good events]",
            "test_stream_restarts.py::test_columns_that_are_gone_or_of_another_type",
            "test_views.py::test_views_in_queries",
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


def leave_out(items: list[pytest.Item]) -> None:
    """Skip the tests of what the Spark that runs does not have."""
    for since, lacks in SINCE.items():
        if tuple(map(int, since.split("."))) <= VERSION:
            continue
        for what, patterns in lacks.items():
            for item in items:
                if any(_fits(item.nodeid, pattern) for pattern in patterns):
                    item.add_marker(pytest.mark.skip(reason=f"from Spark {since} on: {what}"))


def _fits(nodeid: str, pattern: str) -> bool:
    """Compare with a pattern in which `*` stands for any text; `[` is a letter as others."""
    before, star, after = pattern.partition("*")
    name = nodeid.rpartition("/")[2]
    return name.startswith(before) and name.endswith(after) if star else name == pattern
