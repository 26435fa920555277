"""CREATE TABLE that is cancelled while a server carries out one of its steps: nothing of the table is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega.catalog.connections import Catalog
from pyspark_pravega.catalog.tables import create, list_tables, load
from pyspark_pravega.client import connect
from pyspark_pravega.client.cancellation import Cancellation, Cancelled, check, under
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration

SCHEMA = StructType([StructField("id", IntegerType())])


@pytest.fixture
def catalog(client_config: ClientConfig) -> Iterator[Catalog]:
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    with connect(client_config) as pravega:
        yield Catalog(conf, pravega)


@pytest.fixture
def cancelled_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str], Cancellation]:
    """Return a cancellation that comes when the server has done a request, before its answer is there."""

    def arrange(client: type, request: str) -> Cancellation:
        cancellation, real = Cancellation(), getattr(client, request)

        def done_and_cancelled(*args: Any, **kwargs: Any) -> Any:
            answer = real(*args, **kwargs)
            cancellation.cancel()
            check()
            return answer

        monkeypatch.setattr(client, request, done_and_cancelled)
        return cancellation

    return arrange


@pytest.mark.parametrize(
    ("client", "request_name"),
    [(Controller, "create_stream"), (SchemaRegistry, "create_group"), (SchemaRegistry, "add_schema")],
)
def test_a_new_table(
    catalog: Catalog, scope: str, cancelled_in: Callable[[type, str], Cancellation], client: type, request_name: str
) -> None:
    with under(cancelled_in(client, request_name)), pytest.raises(Cancelled):
        create(catalog, [scope], "t", SCHEMA, [], {}, adopt=False)
    assert list_tables(catalog, [scope]) == []
    assert "t" not in catalog.pravega.registry(scope).groups()


def test_a_stream_that_becomes_a_table(
    catalog: Catalog, scope: str, cancelled_in: Callable[[type, str], Cancellation]
) -> None:
    catalog.pravega.controller.create_stream(Stream(scope, "t"), StreamConfiguration(ScalingPolicy(min_segments=1)))
    before = load(catalog, [scope], "t")
    with under(cancelled_in(Controller, "update_stream")), pytest.raises(Cancelled):
        create(catalog, [scope], "t", SCHEMA, [], {}, adopt=True)
    assert load(catalog, [scope], "t") == before
    assert "t" not in catalog.pravega.registry(scope).groups()
