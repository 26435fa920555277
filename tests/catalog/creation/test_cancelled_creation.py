"""CREATE TABLE that is cancelled or killed in the midst of its steps, or watched by others meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_pravega.catalog.creation.making import create
from pyspark_pravega.catalog.name_resolution import find_in_scope
from pyspark_pravega.catalog.protocol.table_requests import CreateTable, Identifier
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.storage.scope_table import ScopeTable
from pyspark_pravega.catalog.tables import stream_tables
from pyspark_pravega.catalog.tables.namespaces import list_tables
from pyspark_pravega.client import cancellation, connect
from pyspark_pravega.client.cancellation import Cancellation, Cancelled, activate, check
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.registry.registry_types import SchemaInfo, VersionInfo
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.errors import SchemaNotFoundError, ServerFailedError, StreamExistsError

SCHEMA = StructType([StructField("id", IntegerType())])
OTHER = StructType([StructField("name", StringType())])
ENTRIES = StructType([StructField("id", IntegerType()), StructField("name", StringType())])
KEYED = {"format": "kvtable", "primary-key": "id", "value-format": "json"}


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
    with activate(cancelled_in(client, request_name)), pytest.raises(Cancelled):
        create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=False))
    assert list_tables(catalog, [scope]) == []
    assert "t" not in catalog.pravega.registry(scope).groups()


def test_a_stream_that_becomes_a_table(
    catalog: Catalog, scope: str, cancelled_in: Callable[[type, str], Cancellation]
) -> None:
    catalog.pravega.controller.create_stream(Stream(scope, "t"), StreamConfiguration(ScalingPolicy(min_segments=1)))
    before = find_in_scope(catalog, Identifier((scope,), "t")).load_table({})
    with activate(cancelled_in(Controller, "update_stream")), pytest.raises(Cancelled):
        create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=True))
    assert find_in_scope(catalog, Identifier((scope,), "t")).load_table({}) == before
    assert "t" not in catalog.pravega.registry(scope).groups()


def _die_in(config: ClientConfig, conf: dict[str, str], scope: str, client: type, request: str) -> None:
    """Create a table, and be killed when the server has done a request."""
    real = getattr(client, request)

    def last(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(client, request, last)
    with connect(config) as pravega:
        create(Catalog(conf, pravega), CreateTable.of([scope], "t", SCHEMA, {}, adopt=False))


@pytest.mark.parametrize(("client", "request_name"), [(Controller, "create_stream"), (SchemaRegistry, "create_group")])
def test_one_that_is_killed(
    catalog: Catalog, client_config: ClientConfig, scope: str, client: type, request_name: str
) -> None:
    """The next statement says so; DROP TABLE removes what is there, and another table can be created."""
    arguments = (client_config, dict(catalog.conf), scope, client, request_name)
    process = multiprocessing.get_context("spawn").Process(target=_die_in, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with pytest.raises(SchemaNotFoundError, match="Its CREATE TABLE .* was cut off.* DROP TABLE to remove it"):
        find_in_scope(catalog, Identifier((scope,), "t")).load_table({})
    with pytest.raises(SchemaNotFoundError, match=r"with other properties \(codec, rollover-size\)"):
        create(catalog, CreateTable.of([scope], "t", SCHEMA, {"codec": "gzip", "rollover-size": "1g"}, adopt=True))
    with pytest.raises(SchemaNotFoundError, match="with other columns"):
        create(catalog, CreateTable.of([scope], "t", OTHER, {}, adopt=True))
    with pytest.raises(SchemaNotFoundError, match=r"From 20\S+Z on, .* the same statement completes the table"):
        create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=True))
    assert find_in_scope(catalog, Identifier((scope,), "t")).drop()
    assert "t" not in catalog.pravega.registry(scope).groups()
    assert create(catalog, CreateTable.of([scope], "t", OTHER, {}, adopt=False)).schema == OTHER


@pytest.mark.parametrize("fails", [True, False])
def test_one_that_is_slow(catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """While it may be running, no other statement does its rest. After that it undoes nothing that is another's."""
    begun, others_done = threading.Event(), threading.Event()
    add_schema = SchemaRegistry.add_schema

    def slow(registry: SchemaRegistry, group: str, schema: SchemaInfo) -> VersionInfo:
        begun.set()
        assert others_done.wait(60)
        if fails:
            raise ServerFailedError("not added")
        return add_schema(registry, group, schema)

    monkeypatch.setattr(SchemaRegistry, "add_schema", slow)
    monkeypatch.setattr(stream_tables, "_CREATION_SECONDS", 0.0)
    stream, controller = Stream(scope, "t"), catalog.pravega.controller
    with ThreadPoolExecutor(1) as threads:
        created = threads.submit(create, catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=False))
        assert begun.wait(30)
        monkeypatch.setattr(SchemaRegistry, "add_schema", add_schema)
        try:
            assert not find_in_scope(catalog, Identifier((scope,), "t")).confirm_existence()
            with pytest.raises(SchemaNotFoundError, match="Another CREATE TABLE is making a table of the stream"):
                create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=True))
            [mark] = controller.stream_configuration(stream).tags[:1]
            assert mark.startswith("spark.creating=")
            others = controller.stream_configuration(stream).tags[1:]
            over = replace(controller.stream_configuration(stream), tags=(f"{mark.rpartition(' ')[0]} 1", *others))
            controller.update_stream(stream, over)
            with pytest.raises(SchemaNotFoundError, match="with other columns"):
                create(catalog, CreateTable.of([scope], "t", OTHER, {}, adopt=True))
            made = create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=True))
        finally:
            others_done.set()
        if fails:
            with pytest.raises(ServerFailedError, match="not added"):
                created.result(60)
        else:
            assert created.result(60) == made
    assert find_in_scope(catalog, Identifier((scope,), "t")).load_table({}) == made
    assert controller.stream_configuration(stream).tags == others
    assert len(catalog.pravega.registry(scope).versions("t")) == 1


def test_others_wait_for_the_schema(catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is there before its schema; who looks in between sees the table."""
    between, waited = threading.Event(), threading.Event()
    create_group, sleep = SchemaRegistry.create_group, cancellation.sleep

    def later(*args: Any) -> None:
        waited.clear()
        between.set()
        assert waited.wait(30)
        create_group(*args)

    def seen_sleeping(seconds: float) -> None:
        waited.set()
        sleep(seconds)

    monkeypatch.setattr(
        stream_tables, "_CREATION_SECONDS", 30.0
    )  # a busy machine may need more than a second for the rest
    monkeypatch.setattr(SchemaRegistry, "create_group", later)
    monkeypatch.setattr(cancellation, "sleep", seen_sleeping)
    with ThreadPoolExecutor(1) as threads:
        created = threads.submit(create, catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=False))
        assert between.wait(30)
        assert find_in_scope(catalog, Identifier((scope,), "t")).load_table({}).schema == SCHEMA
        assert created.result(30).schema == SCHEMA


def test_a_key_value_table_that_is_cancelled_is_whole(
    catalog: Catalog, scope: str, cancelled_in: Callable[[type, str], Cancellation]
) -> None:
    with activate(cancelled_in(Controller, "create_key_value_table")), pytest.raises(Cancelled):
        create(catalog, CreateTable.of([scope], "k", ENTRIES, KEYED, adopt=True))
    assert find_in_scope(catalog, Identifier((scope,), "k")).load_table({}).schema.names == ENTRIES.names


@pytest.mark.parametrize("answer", ["lost", "late"])
def test_a_key_value_table_whose_creation_is_answered(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """With its first answer lost, so that it seems to be another's; or late, when another has declared the same."""
    real = Controller.create_key_value_table

    def answered(*args: Any, **kwargs: Any) -> bool:
        made = real(*args, **kwargs)
        if made and answer == "late":
            create(catalog, CreateTable.of([scope], "k", ENTRIES, KEYED, adopt=True))
        return made and answer == "late"

    monkeypatch.setattr(Controller, "create_key_value_table", answered)
    if answer == "lost":
        create(catalog, CreateTable.of([scope], "k", ENTRIES, KEYED, adopt=True))
    else:
        with pytest.raises(StreamExistsError, match="The key-value table .*k exists"):
            create(catalog, CreateTable.of([scope], "k", ENTRIES, KEYED, adopt=True))
    assert find_in_scope(catalog, Identifier((scope,), "k")).load_table({}).schema.names == ENTRIES.names


def test_a_key_value_table_whose_columns_cannot_be_kept(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise ServerFailedError("no room")

    monkeypatch.setattr(ScopeTable, "change", full)
    with pytest.raises(ServerFailedError):
        create(catalog, CreateTable.of([scope], "k", ENTRIES, KEYED, adopt=True))
    assert list_tables(catalog, [scope]) == []
