"""Collects what the parts of a table's page show, or what a page says instead if that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark_pravega import errors
from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog.api.summary import SEVERAL_STREAMS, TableSummary, summarize_loaded
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.options import KEY_VALUE_FORMAT
from pyspark_pravega.values_as_text import list_number_columns

from .histories import Histories, count_commits
from .newest_rows import COMMITTED, AskedRows, find_newest_rows
from .schema_changes import compare_versions
from .segment_picture import LEFT, TOP, WIDTH, draw_segments
from .streaming_work import find_address, find_queries_of, name_writer

_STATUS: tuple[tuple[type[errors.PravegaError], int], ...] = (
    (errors.StreamNotFoundError, 404),
    (errors.ScopeNotFoundError, 404),
    (errors.InvalidNameError, 404),
    (errors.PermissionDeniedError, 403),
    (errors.AuthenticationError, 403),
    (errors.ServerUnavailableError, 503),
    (errors.ServerTimeoutError, 503),
)


@dataclass(frozen=True)
class Problem:
    """What a page says instead of what was asked for."""

    status: int
    condition: str
    sentence: str
    cure: str

    @classmethod
    def of(cls, error: errors.PravegaError) -> Problem:
        """Describe an error. One that belongs to the table, such as a schema that is missing, is a page like others."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 200)
        return cls(status, error.condition, error.sentence, error.cure)


_VERSIONS = 200
_MOST_SEGMENTS = 500

Facts = Mapping[str, Any]
T = TypeVar("T")


class AskedTable:
    """The table that one request asks for; loaded once."""

    def __init__(
        self, catalog: PravegaCatalog, scope: str, name: str, histories: Histories, query: Mapping[str, str]
    ) -> None:
        """Send nothing yet. `histories` stay between requests, `query` has the parameters of this one."""
        self.catalog = catalog
        self.scope = scope
        self.name = name
        self.histories = histories
        self.query = query
        self._loaded: Table | errors.PravegaError | None = None

    @property
    def sql_name(self) -> str:
        """Return the name as SQL writes it, without the catalog."""
        return quote_all((self.scope, self.name))

    def load(self) -> Table:
        """Load the table. Raises the errors of loading it."""
        if self._loaded is None:
            try:
                self._loaded = self.catalog.load_table(self.sql_name)
            except errors.PravegaError as error:
                self._loaded = error
        if isinstance(self._loaded, errors.PravegaError):
            raise self._loaded
        return self._loaded

    def summarize(self) -> TableSummary:
        """Summarize the table. Raises StreamNotFoundError, and the errors of a controller that cannot be reached.

        A table that exists and cannot be loaded has a summary that says so.
        """
        if not self.catalog.table_exists(self.sql_name):
            self.load()  # which says so, with names that are near
        try:
            return summarize_loaded(self.sql_name, self.load())
        except errors.PravegaError as error:
            return TableSummary(self.sql_name, error=error.condition)

    @property
    def comment(self) -> str:
        """Return the table's comment; none for a table that cannot be loaded."""
        return "" if isinstance(self._loaded, errors.PravegaError) else self.load().properties.get("comment", "")

    def inspect(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a metadata table. Raises the errors of reading it."""
        rows: list[dict[str, Any]] = self.catalog.inspect(self.sql_name, name).to_pylist()
        return rows


def _collect_columns(page: AskedTable) -> Facts:
    table = page.load()
    properties = sorted(table.properties.items())
    return {"columns": list(table.spark_schema), "properties": properties, "hidden": table.hidden_columns}


def _collect_schemas(page: AskedTable) -> Facts:
    rows = page.inspect("schemas")
    return {"versions": compare_versions(rows), "policy": rows[0]["compatibility"] if rows else None}


def _collect_rows(page: AskedTable) -> Facts:
    selection = AskedRows.of(page.query)
    newest = find_newest_rows(page.catalog, page.load(), (page.scope, page.name), selection)
    rows = newest.rows.to_pylist()
    for row in rows:
        if "_segment" in row:  # the table's page need not repeat scope and stream in each row
            row["_segment"] = row["_segment"].rpartition("/")[2].partition(".")[0]
        if row.get(COMMITTED) is not None:
            row[COMMITTED] = row[COMMITTED].strftime("%m-%d %H:%M:%S")
    facts = {
        "names": newest.rows.schema.names,
        "numbers": list_number_columns(newest.rows),
        "rows": rows,
        "says": newest.says,
    }
    return {**facts, "asked": selection, "older": newest.older, "columns": page.load().schema.names}


def _collect_segments(page: AskedTable) -> Facts:
    segments = page.inspect("segments")
    growth, series = page.histories.measure_growth(page.sql_name, segments), (page.sql_name, "growth")
    page.histories.note(series, None if growth is None else growth.bytes / max(growth.seconds, 0.001))
    events, note = _ask_for_more(lambda: page.inspect("scale_events"))
    return {
        "picture": draw_segments(segments, events),
        "size": {"width": WIDTH, "left": LEFT, "top": TOP},
        "segments": segments[-_MOST_SEGMENTS:],
        "left_out": max(0, len(segments) - _MOST_SEGMENTS),
        "growth": growth,
        "charts": [page.histories.draw(series, "bytes/s")],
        "note": note,
    }


def _ask_for_more(ask: Callable[[], list[T]]) -> tuple[list[T], Problem | None]:
    """Return rows that a page can do without, or why there are none."""
    try:
        return ask(), None
    except errors.PravegaError as error:
        return [], Problem.of(error)


def _collect_versions(page: AskedTable) -> Facts:
    versions = page.load().history(newest=_VERSIONS)
    complete = not versions or versions[0].version == 1
    return {"versions": versions[::-1], "complete": complete, "rates": count_commits(versions, complete)}


def _collect_consumers(page: AskedTable) -> Facts:
    consumers = page.catalog.consumers(page.sql_name)
    queries = page.catalog.queries().to_pylist()
    address = find_address(page.sql_name) or ""
    writers, note = _ask_for_more(lambda: page.catalog.writers(quote_all((page.scope,))))
    for one in consumers:
        page.histories.note((page.sql_name, "consumer", one.consumer), one.bytes_behind)
    return {
        "consumers": consumers,
        "charts": [
            page.histories.draw((page.sql_name, "consumer", one.consumer), f"{one.consumer}, bytes behind")
            for one in consumers
        ],
        "queries": list(find_queries_of(address, queries)),
        "writers": [
            one for one in writers if find_address(one.table) == address and not name_writer(one.writer, queries)
        ],
        "note": note,
    }


@dataclass(frozen=True)
class Tab:
    """A part of a table's page. Some are there only for streams; numbers of `watched` ones are kept for an hour."""

    key: str
    title: str
    collect: Callable[[AskedTable], Facts]
    of_stream: bool = True
    watched: bool = False


TABS: Sequence[Tab] = (
    Tab("columns", "Columns", _collect_columns, of_stream=False),
    Tab("schemas", "Schema versions", _collect_schemas),
    Tab("rows", "Newest rows", _collect_rows, of_stream=False),
    Tab("segments", "Segments", _collect_segments, watched=True),
    Tab("versions", "Commits", _collect_versions),
    Tab("transactions", "Transactions", lambda page: {"transactions": page.inspect("transactions")}),
    Tab("consumers", "Consumers", _collect_consumers, watched=True),
    Tab("lake", "Lake", lambda page: {"lakes": page.inspect("lake")}),
)


def list_tabs(summary: TableSummary) -> list[Tab]:
    """Return the parts that the page of such a table has."""
    is_stream = summary.format not in (KEY_VALUE_FORMAT, SEVERAL_STREAMS)
    return [tab for tab in TABS if is_stream or not tab.of_stream]
