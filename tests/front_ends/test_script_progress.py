"""What is shown of running queries, on a terminal and elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_pravega.script.progress import QueryProgress, describe_lag


def make_report(batch: int, second: int, rows_in: int, rows_out: int, **metrics: str) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": f"2026-01-01T00:00:{second:02}.000Z",
        "numInputRows": rows_in,
        "durationMs": {"triggerExecution": 500} | ({"addBatch": 400} if rows_in else {}),
        "sources": [{"metrics": metrics}, {"metrics": None}],
        "sink": {"numOutputRows": rows_out},
    }


def test_rows_are_added_up_and_rates_are_those_of_the_last_batch() -> None:
    progress = QueryProgress("agg")
    assert progress.line() == "agg: starting"
    first = [make_report(0, 1, 1000, 10), make_report(1, 2, 3000, 20)]
    progress.add(first)
    assert progress.line() == "agg: batch 1, 4,000 rows in, 30 out, 6,000/s"
    # Spark repeats what it has reported, and reports of an idle query have the number of the next batch.
    progress.add([*first, make_report(2, 12, 0, 0, bytesBehind="0")])
    assert progress.line() == "agg: up to date, batch 1, 4,000 rows in, 30 out, idle"


def test_a_line_fits_a_terminal_and_begins_with_the_lag() -> None:
    progress = QueryProgress("pravega.iot.daily")
    progress.add([make_report(99, 1, 9_999, 9_999, bytesBehind="0")])
    assert progress.line().startswith("pravega.iot.daily: up to date, ") and len(progress.line()) < 80


def test_a_sink_that_counts_nothing() -> None:
    progress = QueryProgress("files")
    progress.add([make_report(0, 1, 1000, -1)])
    assert progress.line() == "files: batch 0, 1,000 rows in, 2,000/s"


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({}, ""),
        ({"offset": "7"}, ""),
        ({"bytesBehind": "0", "secondsBehind": "0"}, "up to date"),
        ({"bytesBehind": "1048576", "bytesBehind.1.#epoch.0": "1048576"}, "1,024 KiB behind"),
        (
            {"bytesBehind": "2048", "secondsBehind": "3.4", "estimatedEventsBehind": "1234"},
            "2 KiB, 3 s, about 1,234 events behind",
        ),
    ],
)
def test_how_far_a_source_is_behind(metrics: dict[str, str], text: str) -> None:
    assert describe_lag(metrics) == text
