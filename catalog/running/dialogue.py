"""The dialogue with a server: reads its reports of queries, and collects what it is told to start and to stop."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from pyspark_pravega.errors import InvalidNameError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import split_name
from pyspark_pravega.sql.options import OPTIONS, Options

from ..protocol.service_replies import QueryCommands, QueryStart, QueryStop
from ..storage.catalogs import Catalog
from ..storage.spelling import resolve_scope
from .kept_query import KeptQuery
from .repeated_tiering import TIERING

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
    progress: dict[str, Any] = {"failures": 0, "rows_per_second": _measure_rate(report, report["numInputRows"])}
    # A query that waits for rows reports the number of the next micro-batch.
    completed = report["batchId"] - (0 if "addBatch" in report["durationMs"] else 1)
    if completed >= 0:
        progress["batch"] = completed
    metrics = [source.get("metrics") or {} for source in report["sources"]]
    behind = [int(source["bytesBehind"]) for source in metrics if "bytesBehind" in source]
    progress["bytes_behind"] = sum(behind) if behind else None
    seconds = [float(source["secondsBehind"]) for source in metrics if "secondsBehind" in source]
    progress["seconds_behind"] = max(seconds, default=None)
    progress["query_id"] = report.get("id")
    progress["sources"] = [source["description"] for source in report["sources"] if "description" in source]
    written = report.get("sink", {}).get("numOutputRows", -1)  # -1: Spark does not know
    progress["rows_written_per_second"] = None if written < 0 else _measure_rate(report, written)
    return progress


def _measure_rate(report: Mapping[str, Any], rows: int) -> float:
    seconds = report["durationMs"].get("triggerExecution", 0) / 1000
    return float(rows / seconds) if seconds else 0.0


def describe_error(text: str, options: Options) -> str:
    """Return the message of an error without stacks, plans and the secrets of the catalog."""
    details = _DETAILS.search(text)
    shown = (text[: details.start()] if details else text).strip()
    texts = options.texts()
    for option in OPTIONS.values():
        if option.secret and (secret := texts.get(option.key)):
            shown = shown.replace(secret, "*****")
    return shorten(shown, _LONGEST_ERROR)


Run: TypeAlias = tuple[str, str, int]
"""The scope and the name of a query, and the epoch of its lease."""


class Commands:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._start: list[QueryStart] = []
        self._stop: dict[Run, QueryStop] = {}

    def start(self, kept: KeptQuery) -> None:
        """Have a query started. Raises InvalidNameError if its row does not name a table of the row's own scope."""
        definition = kept.definition
        trigger = None if definition.trigger is None else o.TRIGGER_OF_BATCHES.type.parse(definition.trigger)
        interval = trigger // timedelta(milliseconds=1) if isinstance(trigger, timedelta) else 0
        repeats = definition.query == TIERING
        self._start.append(
            QueryStart(
                kept.scope,
                kept.name,
                kept.status.epoch,
                query=f"CALL {self._catalog.named('system', 'tier')}(table => :into)" if repeats else definition.query,
                into=_name_table(self._catalog, kept),
                checkpoint=definition.checkpoint,
                output_mode=definition.output_mode,
                available_now=isinstance(trigger, str),
                interval=interval,
                options=definition.options,
                settings=definition.settings,
                catalog=definition.catalog or self._catalog.name,
                namespace=definition.namespace,
                repeats=repeats,
            )
        )

    def stop(self, run: Run, *, at_once: bool = True) -> None:
        """Have a run stopped, if not at once after its micro-batch."""
        earlier = self._stop.get(run)
        self._stop[run] = QueryStop(*run, at_once or (earlier is not None and earlier.at_once))

    def all(self) -> QueryCommands:
        return QueryCommands(tuple(self._start), tuple(self._stop.values()))


def _name_table(catalog: Catalog, kept: KeptQuery) -> str:
    """Return the table that a query writes to, in SQL. The result is only a name, whoever has written the row."""
    parts = split_name(kept.definition.into)
    if len(parts) != 2 or resolve_scope(catalog, parts[:1]) != kept.scope:
        raise InvalidNameError(
            f"The query is kept in scope {kept.scope}, but writes into '{kept.definition.into}'. A query writes into a "
            "table of the scope that keeps it: remove it with stop_query, and start it again."
        )
    return catalog.named(*parts)
