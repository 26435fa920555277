"""The pages as an application: which address shows what, and the server that serves them until Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url

import uvicorn
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pyspark_pravega import __version__
from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.catalog.api.summary import summarize_table
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import PravegaError, ScopeNotFoundError
from pyspark_pravega.sql.identifiers import find_nearest, quote, quote_all, split_name
from pyspark_pravega.values_as_text import format_bytes, format_cell

from .facts import TABS, AskedTable, Problem, Tab, list_tabs
from .guard import Guard
from .histories import RATES, Histories
from .kept_answers import KeptAnswers
from .streaming_work import find_address, find_work, list_sources, name_writer

PER_PAGE = 50


@dataclass(frozen=True)
class PageOfNames:
    """A page of the names that a search has found. `number` counts from 1."""

    names: Sequence[str]
    found: int
    number: int
    pages: int


@dataclass(frozen=True)
class ScopeTotals:
    """The tables of a scope together. `unknown` counts those that cannot be loaded."""

    tables: int
    segments: int
    bytes: int
    unknown: int


def select_names(names: Sequence[str], text: str) -> list[str]:
    part = text.lower()
    return [name for name in names if part in name.lower()]


def search(names: Sequence[str], text: str, number: int) -> PageOfNames:
    """Return a page of the names that contain a text; the last page if there is no such page."""
    matching = select_names(names, text)
    pages = max(1, -(-len(matching) // PER_PAGE))
    number = min(max(1, number), pages)
    return PageOfNames(matching[(number - 1) * PER_PAGE : number * PER_PAGE], len(matching), number, pages)


_HERE = Path(__file__).parent
PATIENCE = 0.5
RELOAD_SECONDS = 5
_LONGEST_VALUE = 2000
_MOST_ADDED_UP = 200
"""Tables of a scope whose sizes are added up."""
SECONDS_OF_WATCH = 15.0
_HEALTH_SECONDS = 6.0
_MOST_WATCHED = 10
"""Parts of tables that are measured for charts though nobody looks, those looked at last."""
_MOST_LISTED = 500
"""Writers, and consumers, on one page."""
_FILES = {"style.css": "text/css", "icon.svg": "image/svg+xml"}


def make_application(
    catalog: PravegaCatalog,
    *,
    controller: str,
    hosts: Collection[str] = (),
    patience: float = PATIENCE,
    check: Callable[[], Iterable[Any]] = tuple,
) -> ASGIApp:
    """Make the application that shows a catalog.

    `controller` is its address, `hosts` are names of this server. `patience` is the number of seconds for which a list
    waits for what it can do without. `check` asks the servers for their health.
    """
    pages = Pages(catalog, controller, patience, check)
    threading.Thread(target=pages.list_ahead, name="list ahead", daemon=True).start()
    routes = [
        Route("/", pages.show_scopes),
        Route("/health", pages.show_health),
        Route("/queries", pages.show_queries),
        Route("/queries/{name:path}", pages.show_query),
        Route("/scopes/{scope}", pages.show_scope),
        Route("/tables/{scope}/{table}", pages.show_table),
        Route("/tables/{scope}/{table}/{tab}", pages.show_table),
        *(Route(f"/{name}", partial(_send_file, name)) for name in _FILES),
    ]
    handlers: Mapping[Any, Any] = {
        PravegaError: pages.show_error,
        HTTPException: pages.show_missing,
        Exception: pages.show_fault,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=pages.watch), hosts)


def _send_file(name: str, _request: Request) -> Response:
    return Response((_HERE / name).read_bytes(), media_type=_FILES[name])


class Pages:
    """The pages. Every method answers one request, in a thread of its own."""

    def __init__(
        self, catalog: PravegaCatalog, controller: str, patience: float, check: Callable[[], Iterable[Any]]
    ) -> None:
        self._catalog = catalog
        self._patience = patience
        self._names = KeptAnswers(self._list_names)
        self._summaries = KeptAnswers(partial(summarize_table, catalog))
        self._work = KeptAnswers(partial(find_work, catalog))
        self._totals = KeptAnswers(self._add_up)
        self._histories = Histories()
        self._health = KeptAnswers(lambda _: list(check()))
        self._looked: Recent[str, tuple[Tab, AskedTable]] = Recent(_MOST_WATCHED)
        self._over = threading.Event()
        loader = FileSystemLoader(_HERE / "templates")
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(
            address=find_address,
            bytes=format_bytes,
            cell=format_cell,
            part=partial(quote_url, safe=""),
            sources=list_sources,
            whole=partial(format_cell, longest=_LONGEST_VALUE),
        )
        self._templates.globals.update(controller=controller, release=__version__)

    def show_health(self, request: Request) -> Response:
        """Say what the controller, the segment stores and the registry answer."""
        answer = self._health.look("", time.monotonic() + _HEALTH_SECONDS)
        facts = {"checks": answer.value, "age": answer.age} if answer else {"checks": (), "age": None}
        return self._render(request, "health.html", **facts)

    @asynccontextmanager
    async def watch(self, _application: object) -> AsyncIterator[None]:
        """Measure queries, and the tables that were looked at last, while the application runs."""
        thread = threading.Thread(target=self._measure, name="measure", daemon=True)
        thread.start()
        yield
        self._over.set()
        thread.join(_HEALTH_SECONDS)

    def _measure(self) -> None:
        while not self._over.wait(SECONDS_OF_WATCH):
            try:
                self._histories.note_queries(self._catalog.queries().to_pylist())
                for _, (tab, table) in self._looked.items():
                    tab.collect(table)
            except PravegaError:
                continue  # whoever looks is told why

    def list_ahead(self) -> None:
        """Begin to list the tables of all scopes, so that the first page need not wait for ten thousand names."""
        try:
            for scope in self._catalog.list_namespaces():
                self._names.begin(scope)
        except PravegaError:
            return  # the first page asks again, and says why

    def show_scopes(self, request: Request) -> Response:
        """List the scopes, each with the number of its tables."""
        scopes = self._catalog.list_namespaces()
        deadline = time.monotonic() + self._patience
        for scope in scopes:
            self._names.begin(scope)
        counts = [self._count(scope, deadline) for scope in scopes]
        text = request.query_params.get("q", "")[:200]
        rows = [
            (scope, count, self._total(scope, count, deadline))
            for scope, count in zip(scopes, counts, strict=True)
            if text.lower() in scope.lower()
        ]
        names = {scope: self._names.find(scope) for scope in scopes} if text else {}
        matching = [(scope, name) for scope, listed in names.items() for name in select_names(listed or (), text)]
        unlisted = [scope for scope, listed in names.items() if listed is None]
        return self._render(request, "scopes.html", scopes=rows, text=text, found=matching, unlisted=unlisted)

    def show_scope(self, request: Request) -> Response:
        """List the tables of a scope, a page at a time."""
        scope = request.path_params["scope"]
        text = request.query_params.get("q", "")[:200]
        number = request.query_params.get("page", "1")
        listed = self._names.get(scope, self._patience)
        page = search(listed.value, text, int(number) if number.isdecimal() and len(number) < 9 else 1)
        tables = [quote_all((scope, name)) for name in page.names]
        rows = self._summaries.look_at_all(tables, time.monotonic() + self._patience)
        return self._render(
            request,
            "scope.html",
            scope=scope,
            text=text,
            page=page,
            rows=list(zip(page.names, rows, strict=True)),
            age=listed.age,
            totals=self._total(scope, len(listed.value), time.monotonic() + self._patience),
            comment=self._catalog.namespace_properties(quote(scope)).get("comment", ""),
        )

    def show_table(self, request: Request) -> Response:
        """Show one part of what is known of a table."""
        names = request.path_params["scope"], request.path_params["table"]
        table = AskedTable(self._catalog, *names, self._histories, request.query_params)
        summary = table.summarize()
        tabs = {tab.key: tab for tab in list_tabs(summary)}
        if (tab := tabs.get(request.path_params.get("tab", "columns"))) is None:
            raise HTTPException(404)
        problem, facts = None, {}
        try:
            facts = dict(tab.collect(table))
        except PravegaError as error:
            problem = Problem.of(error)
        if tab.watched:
            self._looked.put(f"{table.sql_name} {tab.key}", (tab, table))
        about = {"place": table, "summary": summary, "tabs": tabs.values(), "tab": tab, "problem": problem}
        return self._render(request, "table.html", problem.status if problem else 200, facts=facts, **about)

    def show_queries(self, request: Request) -> Response:
        """List the streaming queries that SQL has started, and what tables know of others."""
        queries = self._catalog.queries().to_pylist()
        scopes = self._catalog.list_namespaces()
        answers = self._work.look_at_all(scopes, time.monotonic() + self._patience)
        work = [answer for answer in answers if answer is not None]
        writers = sorted((one for each in work for one in each.writers), key=lambda one: one.time, reverse=True)
        return self._render(
            request,
            "queries.html",
            queries=queries,
            writers=[(one, name_writer(one.writer, queries)) for one in writers[:_MOST_LISTED]],
            consumers=[one for each in work for one in each.consumers][:_MOST_LISTED],
            hidden=sorted({sentence for each in work for sentence in each.hidden}),
            asked=[scope for scope, answer in zip(scopes, answers, strict=True) if answer is None],
        )

    def show_query(self, request: Request) -> Response:
        """Show what is kept of a streaming query that SQL has started."""
        name = request.path_params["name"].replace("%2F", "/")
        queries = self._catalog.queries().to_pylist()
        self._histories.note_queries(queries)
        if matching := [query for query in queries if query["name"] == name]:
            for query in matching:
                query["charts"] = [self._histories.draw((query["into"], name, key), RATES[key]) for key in RATES]
            return self._render(request, "query.html", name=name, queries=matching)
        raise HTTPException(404)

    def show_error(self, request: Request, error: PravegaError) -> Response:
        """Say why there is no page."""
        problem = Problem.of(error)
        status = problem.status if problem.status != 200 else 500
        return self._render(request, "problem.html", status, problem=problem, near=self._find_near(request))

    def _find_near(self, request: Request) -> list[tuple[str, str]]:
        """Return addresses with names that are near those of a page that does not exist, among those listed before."""
        scope, table = (request.path_params.get(key, "") for key in ("scope", "table"))
        names = self._names.find(scope) or ()
        if table in names or not scope:
            return []
        if table:
            tables = [quote_all((scope, name)) for name in get_close_matches(table, names, 3)]
            return [(address, name) for name in tables if (address := find_address(name))]
        scopes = get_close_matches(scope, self._names.names(), 3)
        return [(f"/scopes/{quote_url(name, safe='')}", name) for name in scopes]

    def show_missing(self, request: Request, error: HTTPException) -> Response:
        """Say that there is no such page, and which one is near."""
        section, _, last = request.url.path.rpartition("/")
        tabs = [tab.key for tab in TABS] if section.startswith("/tables/") else [] if section else ["queries", "health"]
        near = find_nearest(last, tabs)
        cure = f"Did you mean {section}/{near}?" if near else "Begin with the list of scopes."
        problem = Problem(error.status_code, "", "There is no such page.", cure)
        links = [(f"{section}/{near}", f"{section}/{near}")] if near else []
        return self._render(request, "problem.html", error.status_code, problem=problem, near=links)

    def show_fault(self, request: Request, _error: Exception) -> Response:
        """Say that the page has failed; the server logs why, on the terminal."""
        problem = Problem(500, "", "This page has failed.", "The terminal of pyspark-pravega ui says why: report it.")
        return self._render(request, "problem.html", 500, problem=problem, near=())

    def _list_names(self, scope: str) -> list[str]:
        """Return the names of a scope's tables, without the scope."""
        return [split_name(name)[-1] for name in self._catalog.list_tables(quote(scope))]

    def _count(self, scope: str, deadline: float) -> int | Problem | None:
        """Return the number of a scope's tables, why it is not known, or None if that takes too long for a page."""
        try:
            answer = self._names.look(scope, deadline)
            return None if answer is None else len(answer.value)
        except PravegaError as error:
            return Problem.of(error)

    def _total(self, scope: str, count: object, deadline: float) -> ScopeTotals | None:
        """Return what a scope's tables have together; None if they are many, it takes too long, or it is gone."""
        if isinstance(count, int) and count <= _MOST_ADDED_UP:
            with suppress(ScopeNotFoundError):
                return self._totals.look_at_all([scope], deadline)[0]
        return None

    def _add_up(self, scope: str) -> ScopeTotals:
        names = [quote_all((scope, name)) for name in self._names.get(scope, 60).value]
        for name in names:
            self._summaries.begin(name)
        summaries = [self._summaries.get(name, 60).value for name in names]
        segments, size = sum(one.segments or 0 for one in summaries), sum(one.bytes or 0 for one in summaries)
        return ScopeTotals(len(summaries), segments, size, sum(one.error is not None for one in summaries))

    def _render(self, request: Request, template: str, status: int = 200, **facts: Any) -> Response:
        url = request.url.remove_query_params("reload")
        stop, again = (f"{one.path}?{one.query}" for one in (url, url.include_query_params(reload=RELOAD_SECONDS)))
        reloads = request.query_params.get("reload") == str(RELOAD_SECONDS)
        links = {"reloads": RELOAD_SECONDS if reloads else 0, "reload": stop if reloads else again}
        return HTMLResponse(self._templates.get_template(template).render(links | facts), status)


def make_server(application: ASGIApp) -> uvicorn.Server:
    """Make the server of the pages; `run(sockets=[...])` serves them until it is told to exit."""
    config = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, lifespan="on", ws="none"
    )
    return uvicorn.Server(config)
