"""The pages as an application: which address shows what, and the server that serves them until Ctrl-C."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from pyspark_pravega.catalog.api.summary import TableSummary, summarize_table
from pyspark_pravega.errors import PravegaError, SetupError, describe_os_error
from pyspark_pravega.sql.identifiers import quote, quote_all, split_name
from pyspark_pravega.values_as_text import format_bytes, format_cell

from .facts import AskedTable, Problem, list_tabs
from .guard import Guard
from .kept_answers import KeptAnswers
from .rates import Growths

PER_PAGE = 50


@dataclass(frozen=True)
class PageOfNames:
    """A page of the names that a search has found. `number` counts from 1."""

    names: Sequence[str]
    found: int
    number: int
    pages: int


def search(names: Sequence[str], text: str, number: int) -> PageOfNames:
    """Return a page of the names that contain a text; the last page if there is no such page."""
    wanted = text.lower()
    found = [name for name in names if wanted in name.lower()]
    pages = max(1, -(-len(found) // PER_PAGE))
    number = min(max(1, number), pages)
    return PageOfNames(found[(number - 1) * PER_PAGE : number * PER_PAGE], len(found), number, pages)


_HERE = Path(__file__).parent
PATIENCE = 0.5
_FILES = {"style.css": "text/css", "icon.svg": "image/svg+xml"}


def make_application(
    catalog: PravegaCatalog, *, controller: str, hosts: Collection[str] = (), patience: float = PATIENCE
) -> ASGIApp:
    """Make the application that shows a catalog.

    `controller` is its address, `hosts` are names of this server. `patience` is the number of seconds for which a list
    waits for what it can do without.
    """
    pages = Pages(catalog, controller, patience)
    threading.Thread(target=pages.list_ahead, name="list ahead", daemon=True).start()
    routes = [
        Route("/", pages.show_scopes),
        Route("/queries", pages.show_queries),
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
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts)


def _send_file(name: str, _request: Request) -> Response:
    return Response((_HERE / name).read_bytes(), media_type=_FILES[name])


class Pages:
    """The pages. Every method answers one request, in a thread of its own."""

    def __init__(self, catalog: PravegaCatalog, controller: str, patience: float) -> None:
        self._catalog = catalog
        self._patience = patience
        self._names = KeptAnswers(self._list_names)
        self._summaries = KeptAnswers(partial(summarize_table, catalog))
        self._growths = Growths()
        loader = FileSystemLoader(_HERE / "templates")
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(bytes=format_bytes, cell=format_cell, part=partial(quote_url, safe=""))
        self._templates.globals.update(controller=controller, release=__version__)

    def list_ahead(self) -> None:
        """Begin to list the tables of all scopes, so that the first page need not wait for ten thousand names."""
        try:
            for scope in self._catalog.list_namespaces():
                self._names.begin(scope)
        except PravegaError:
            return  # the first page asks again, and says why

    def show_scopes(self, _request: Request) -> Response:
        """List the scopes, each with the number of its tables."""
        scopes = self._catalog.list_namespaces()
        deadline = time.monotonic() + self._patience
        for scope in scopes:
            self._names.begin(scope)
        counts = [self._count(scope, deadline) for scope in scopes]
        return self._render("scopes.html", scopes=list(zip(scopes, counts, strict=True)))

    def show_scope(self, request: Request) -> Response:
        """List the tables of a scope, a page at a time."""
        scope = request.path_params["scope"]
        text = request.query_params.get("q", "")[:200]
        number = request.query_params.get("page", "1")
        listed = self._names.get(scope, self._patience)
        page = search(listed.value, text, int(number) if number.isdecimal() and len(number) < 9 else 1)
        rows = self._look_at([quote_all((scope, name)) for name in page.names])
        return self._render(
            "scope.html",
            scope=scope,
            text=text,
            page=page,
            rows=list(zip(page.names, rows, strict=True)),
            age=listed.age,
        )

    def show_table(self, request: Request) -> Response:
        """Show one part of what is known of a table."""
        asked = AskedTable(self._catalog, request.path_params["scope"], request.path_params["table"], self._growths)
        summary = asked.summarize()
        tabs = {tab.key: tab for tab in list_tabs(summary)}
        tab = tabs.get(request.path_params.get("tab", "columns"))
        if tab is None:
            raise HTTPException(404)
        problem, facts = None, {}
        try:
            facts = dict(tab.collect(asked))
        except PravegaError as error:
            problem = Problem.of(error)
        about = {"place": asked, "summary": summary, "tabs": tabs.values(), "tab": tab, "problem": problem}
        return self._render("table.html", problem.status if problem else 200, facts=facts, **about)

    def show_queries(self, _request: Request) -> Response:
        """List the streaming queries that SQL has started."""
        return self._render("queries.html", queries=self._catalog.queries().to_pylist())

    def show_error(self, _request: Request, error: PravegaError) -> Response:
        """Say why there is no page."""
        problem = Problem.of(error)
        return self._render("problem.html", problem.status if problem.status != 200 else 500, problem=problem)

    def show_missing(self, _request: Request, error: HTTPException) -> Response:
        """Say that there is no such page."""
        problem = Problem(error.status_code, "", "There is no such page.", "Begin with the list of scopes.")
        return self._render("problem.html", error.status_code, problem=problem)

    def show_fault(self, _request: Request, _error: Exception) -> Response:
        """Say that the page has failed; the server logs why, on the terminal."""
        problem = Problem(500, "", "This page has failed.", "The terminal of pyspark-pravega ui says why: report it.")
        return self._render("problem.html", 500, problem=problem)

    def _list_names(self, scope: str) -> list[str]:
        """Return the names of a scope's tables, without the scope."""
        return [split_name(name)[-1] for name in self._catalog.list_tables(quote(scope))]

    def _look_at(self, tables: Sequence[str]) -> list[TableSummary | None]:
        """Return summaries of tables, as many as there is time for."""
        deadline = time.monotonic() + self._patience
        for table in tables:
            self._summaries.begin(table)
        found = [self._summaries.look(table, deadline) for table in tables]
        return [None if answer is None else answer.value for answer in found]

    def _count(self, scope: str, deadline: float) -> int | Problem | None:
        """Return the number of a scope's tables, why it is not known, or None if that takes too long for a page."""
        try:
            found = self._names.look(scope, deadline)
            return None if found is None else len(found.value)
        except PravegaError as error:
            return Problem.of(error)

    def _render(self, template: str, status: int = 200, **facts: Any) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(facts), status)


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises SetupError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "it is not the name of a host"
        raise SetupError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another address or port with --host and --port."
        ) from error


def make_server(
    catalog: PravegaCatalog, *, controller: str, hosts: Collection[str] = (), patience: float = PATIENCE
) -> uvicorn.Server:
    """Make the server of the pages; `run(sockets=[...])` serves them until it is told to exit.

    The other parameters are those of `make_application`.
    """
    application = make_application(catalog, controller=controller, hosts=hosts, patience=patience)
    config = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, lifespan="off", ws="none"
    )
    return uvicorn.Server(config)
