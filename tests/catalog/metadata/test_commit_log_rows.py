"""The commit log's rows go with their stream, and the log with its scope; SHOW TABLES knows neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_pravega.catalog.name_resolution import find_in_scope
from pyspark_pravega.catalog.protocol.table_requests import Identifier
from pyspark_pravega.catalog.storage import dropping
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.tables.namespaces import create_namespace, drop_namespace, list_tables
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME
from pyspark_pravega.errors import ScopeNotEmptyError
from tests.datasource.transactions import insert_into_all, log_rows


@pytest.fixture
def catalog(client_config: ClientConfig) -> Iterator[Catalog]:
    with connect(client_config) as pravega:
        yield Catalog({"controller-uri": client_config.controller_uri}, pravega)


def fill(catalog: Catalog, scope: str, *names: str) -> None:
    """Make streams and INSERT two rows into each, one at a time."""
    for name in names:
        stream = Stream(scope, name)
        catalog.pravega.controller.create_stream(stream, StreamConfiguration())
        for _ in range(2):
            insert_into_all(catalog.pravega, stream, 1)


def test_drop_table_deletes_the_rows_of_its_stream_alone(catalog: Catalog, scope: str) -> None:
    fill(catalog, scope, "first", "second")
    assert list_tables(catalog, [scope]) == ["first", "second"]
    assert find_in_scope(catalog, Identifier((scope,), "first")).drop()
    assert [(row["stream"], row["version"]) for row in log_rows(catalog.pravega, scope)] == [
        ("second", 2),
        ("second", 1),
        ("second", 2),
    ]
    fill(catalog, scope, "first")
    assert sorted({(row["stream"], row["version"]) for row in log_rows(catalog.pravega, scope)}) == [
        ("first", 1),
        ("first", 2),
        ("second", 1),
        ("second", 2),
    ]


def test_a_table_that_is_made_again_while_it_is_dropped(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session makes it, and commits, before the rows of the old one are removed: its own stay."""
    fill(catalog, scope, "table")
    insert_into_all(catalog.pravega, Stream(scope, "table"), 1)
    delete = dropping.delete_stream

    def delete_and_make(*arguments: Any) -> None:
        delete(*arguments)
        fill(catalog, scope, "table")

    monkeypatch.setattr(dropping, "delete_stream", delete_and_make)
    assert find_in_scope(catalog, Identifier((scope,), "table")).drop()
    assert [row["version"] for row in log_rows(catalog.pravega, scope)] == [2, 1, 2]
    assert [each.number for each in CommitLog(catalog.pravega, Stream(scope, "table")).versions()] == [1, 2]


def test_drop_namespace_deletes_the_log(catalog: Catalog, scope: str) -> None:
    """And the namespace works when it is created again, on the same connection."""
    controller = catalog.pravega.controller
    for _ in range(3):
        fill(catalog, scope, "stream")
        assert len(log_rows(catalog.pravega, scope)) == 3
        words = "has 1 stream, 0 key-value tables, 0 tables of several streams and 0 views"
        with pytest.raises(ScopeNotEmptyError, match=words):
            drop_namespace(catalog, [scope], cascade=False)
        assert len(log_rows(catalog.pravega, scope)) == 3
        drop_namespace(catalog, [scope], cascade=True)
        assert not controller.scope_exists(scope)
        create_namespace(catalog, [scope], {})
        assert controller.list_key_value_tables(scope) == []


def test_a_namespace_without_tables_is_empty_although_it_has_a_log(catalog: Catalog, scope: str) -> None:
    fill(catalog, scope, "stream")
    assert find_in_scope(catalog, Identifier((scope,), "stream")).drop()
    assert catalog.pravega.controller.list_key_value_tables(scope) == [TABLE_NAME]
    drop_namespace(catalog, [scope], cascade=False)
    assert not catalog.pravega.controller.scope_exists(scope)
