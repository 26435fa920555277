"""Streams that the server has not made to their end: they can be neither read nor sealed, but dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega.catalog.creation.making import create
from pyspark_pravega.catalog.name_resolution import find_in_scope
from pyspark_pravega.catalog.protocol.table_requests import CreateTable, Identifier
from pyspark_pravega.catalog.storage import table_properties
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.tables.namespaces import drop_namespace, list_tables
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.stored_properties import make_tags
from pyspark_pravega.errors import ServerFailedError

TOO_MANY = StreamConfiguration(ScalingPolicy(min_segments=60_000))
"""The server writes down such a stream, and then fails to write down its segments."""


@pytest.fixture
def catalog(client_config: ClientConfig) -> Iterator[Catalog]:
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    with connect(client_config) as pravega:
        yield Catalog(conf, pravega)


@pytest.fixture
def stream(catalog: Catalog, scope: str) -> Iterator[Stream]:
    """A half-made stream. None is left to the end of its scope, which would seal it: servers choke on that."""
    half = Stream(scope, "half")
    controller = catalog.pravega.controller
    with pytest.raises(ServerFailedError):
        controller.create_stream(half, TOO_MANY)
    assert controller.is_half_made(half)
    assert list_tables(catalog, [scope]) == ["half"]
    yield half
    if controller.stream_exists(half):
        controller.delete_stream(half)


def test_they_are_dropped(catalog: Catalog, scope: str, stream: Stream) -> None:
    with pytest.raises(ServerFailedError, match="is only half made.*drop it if that lasts"):
        find_in_scope(catalog, Identifier((scope,), stream.name)).load_table({})
    assert find_in_scope(catalog, Identifier((scope,), "half")).drop()
    assert not find_in_scope(catalog, Identifier((scope,), "half")).exists()


@pytest.mark.usefixtures("stream")
def test_they_go_with_their_namespace(catalog: Catalog, scope: str) -> None:
    drop_namespace(catalog, [scope], cascade=True)
    assert not catalog.pravega.controller.scope_exists(scope)


def test_create_table_leaves_none(catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server has begun is undone when it fails."""
    monkeypatch.setattr(
        table_properties, "make_stream_configuration", lambda settings, kept: replace(TOO_MANY, tags=make_tags(kept))
    )
    schema = StructType([StructField("id", IntegerType())])
    with pytest.raises(ServerFailedError):
        create(catalog, CreateTable.of([scope], "half", schema, {}, adopt=False))
    assert list_tables(catalog, [scope]) == []
    monkeypatch.undo()
    create(catalog, CreateTable.of([scope], "half", schema, {}, adopt=False))
    assert list_tables(catalog, [scope]) == ["half"]
