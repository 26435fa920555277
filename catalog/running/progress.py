"""Reads what Spark's progress reports and errors say about a query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark_pravega.errors import shorten
from pyspark_pravega.sql.options import OPTIONS, Options

_DETAILS = re.compile(r"\n\n(Driver|JVM) stacktrace:|\n=== Streaming Query ===|;\s*\n['~+A-Z]|\n\s*at |\nTraceback ")
"""Where the details of an error's message begin: stacks and plans."""
_LONGEST_ERROR = 2000


def read_progress(text: str | None) -> dict[str, Any]:
    """Return the fields of a `QueryStatus` that Spark's report contains; none without a report.

    A report says that the query has carried out a micro-batch, or has found that there is nothing to do.
    """
    if text is None:
        return {}
    report = json.loads(text)
    found: dict[str, Any] = {"failures": 0, "rows_per_second": _measure_rate(report)}
    # A query that waits for rows reports the number of the next micro-batch.
    completed = report["batchId"] - (0 if "addBatch" in report["durationMs"] else 1)
    if completed >= 0:
        found["batch"] = completed
    metrics = [source.get("metrics") or {} for source in report["sources"]]
    found["bytes_behind"] = _add_up(metrics, "bytesBehind")
    seconds = [float(source["secondsBehind"]) for source in metrics if "secondsBehind" in source]
    found["seconds_behind"] = max(seconds, default=None)
    return found


def _measure_rate(report: Mapping[str, Any]) -> float:
    seconds = report["durationMs"].get("triggerExecution", 0) / 1000
    return float(report["numInputRows"] / seconds) if seconds else 0.0


def _add_up(metrics: list[Mapping[str, str]], key: str) -> int | None:
    found = [int(source[key]) for source in metrics if key in source]
    return sum(found) if found else None


def describe_error(text: str, options: Options) -> str:
    """Return the message of an error without stacks, plans and the secrets of the catalog."""
    found = _DETAILS.search(text)
    shown = (text[: found.start()] if found else text).strip()
    texts = options.texts()
    for option in OPTIONS.values():
        if option.secret and (secret := texts.get(option.key)):
            shown = shown.replace(secret, "*****")
    return shorten(shown, _LONGEST_ERROR)
