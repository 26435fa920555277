"""Which scopes a look at all queries asks: after the first look, only those that may have some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_pravega.catalog.running.kept_query import EmptyScopes, KeptQueries
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.storage.scope_table import RowKind, ScopeTable
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig

from .conftest import Kept


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes whose rows are read, one after the other."""
    found: list[str] = []
    read = ScopeTable.rows

    def rows(table: ScopeTable, kind: RowKind) -> Iterator[Any]:
        found.append(table._scope)
        return read(table, kind)

    monkeypatch.setattr(ScopeTable, "rows", rows)
    return found


def names(queries: KeptQueries) -> set[str]:
    return {kept.name for kept in queries.all()}


def test_a_scope_without_queries_is_asked_once(kept: Kept, other_kept: Kept, asked: list[str]) -> None:
    other_kept.put()
    assert other_kept.name in names(kept.queries) and kept.scope in asked
    asked.clear()
    assert other_kept.name in names(kept.queries)
    assert kept.scope not in asked and other_kept.scope in asked


def test_what_this_process_starts_is_seen_by_all_its_connections(kept: Kept, client_config: ClientConfig) -> None:
    with connect(client_config) as another:
        elsewhere = KeptQueries(Catalog(kept.conf, another))
        assert kept.name not in names(kept.queries) | names(elsewhere)
        kept.put()
        assert kept.name in names(kept.queries) & names(elsewhere)


def test_what_another_process_starts_is_seen_after_some_time(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found at once for stop_query, by its name, and for start_query, which asks all scopes."""
    with monkeypatch.context() as unnoticed:
        unnoticed.setattr(EmptyScopes, "note_written", lambda scopes, scope: None)
        assert kept.name not in names(kept.queries)
        kept.put()
    assert kept.name not in names(kept.queries)
    assert [found.name for found in kept.queries.find(kept.name)] == [kept.name]
    assert kept.name in {found.name for found in kept.queries.all(age=0)}


def test_a_scope_that_is_written_to_during_a_look_is_asked_again() -> None:
    scopes = EmptyScopes()
    with connect(ClientConfig("tcp://localhost:1")) as pravega:  # nothing is sent
        scopes.note_written("iot")
        scopes.note_empty(pravega, "iot", moment=0.0)
        assert scopes.select(pravega, ["iot"], 3600.0) == ["iot"]
