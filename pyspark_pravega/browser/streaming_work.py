"""Collects the streaming work that servers know of: kept queries, writers in the ledgers of tables, and consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote as quote_url

from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.catalog.api.catalog import ConsumerLag, TableWriter
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.identifiers import quote, split_name

T = TypeVar("T")


@dataclass(frozen=True)
class ScopeWork:
    """What writes and reads the tables of a scope, as far as this is noted there. `hidden` says why some is missing."""

    writers: Sequence[TableWriter]
    consumers: Sequence[ConsumerLag]
    hidden: Sequence[str]


def find_work(catalog: PravegaCatalog, scope: str) -> ScopeWork:
    """Find the work on a scope. What the user may not see is left out."""
    hidden: list[str] = []

    def ask(list_all: Callable[[], Sequence[T]]) -> Sequence[T]:
        try:
            return list_all()
        except PravegaError as error:
            hidden.append(error.sentence)
            return ()

    name = quote(scope)
    return ScopeWork(ask(lambda: catalog.writers(name)), ask(lambda: catalog.consumers(namespace=name)), hidden)


def find_address(table: str) -> str | None:
    """Return the address of the page of a table with this name in SQL, with or without its catalog."""
    try:
        parts = split_name(table)
    except PravegaError:
        return None
    if len(parts) < 2:
        return None
    return "/tables/" + "/".join(quote_url(part, safe="") for part in parts[-2:])


def list_sources(query: Mapping[str, Any]) -> list[str]:
    """Return the names of what a kept query reads; none before its first micro-batch."""
    return query["sources"].split(", ") if query["sources"] else []


def name_writer(writer: str, queries: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name of the kept query that is this writer."""
    return next((query["name"] for query in queries if writer == f"query {query['query_id']}"), None)


def find_queries_of(address: str, queries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the kept queries that read or write the table with this address, and which of both they do."""
    for query in queries:
        if address in map(find_address, list_sources(query)):
            yield query, "reads"
        if address == find_address(query["into"]):
            yield query, "writes"
