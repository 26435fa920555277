"""The schema registry client against a real registry."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.client.registry.confluent import ConfluentRegistry
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties, Rule, SchemaInfo, VersionInfo
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.errors import (
    AuthenticationError,
    ClientClosedError,
    IncompatibleSchemaError,
    InvalidOptionError,
    InvalidSchemaError,
    PermissionDeniedError,
    ProtocolError,
    RegistryError,
    SchemaExistsError,
    SchemaNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    TlsError,
)

GZIP = "application/x-gzip"
AVRO = GroupProperties("Avro", Compatibility("BackwardTransitive"), properties={"made": "by a test"})


def avro(*names: str, record: str = "a.T", **extra: Any) -> SchemaInfo:
    fields: list[dict[str, Any]] = [{"name": "id", "type": {"type": "int", "spark.type": "tinyint"}, "doc": "é"}]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    return SchemaInfo.of_text(record, "Avro", json.dumps({"type": "record", "name": record, "fields": fields} | extra))


JSON_SCHEMA = SchemaInfo.of_text(
    "item",
    "Json",
    json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"id": {"type": ["integer", "null"], "spark.type": "int"}},
            "required": ["id"],
        }
    ),
)


@pytest.fixture
def registry(client_config: ClientConfig) -> Iterator[SchemaRegistry]:
    """A namespace of its own."""
    with SchemaRegistry(client_config, f"test-{secrets.token_hex(6)}") as found:
        yield found
        for group in found.groups():
            found.delete_group(group)


def test_groups(registry: SchemaRegistry) -> None:
    assert registry.groups() == {}
    registry.create_group("sensor", AVRO)
    assert registry.group("sensor") == AVRO
    assert registry.groups() == {"sensor": AVRO}
    with pytest.raises(SchemaExistsError, match="'sensor' of namespace 'test-.*' already exists"):
        registry.create_group("sensor", AVRO)
    registry.delete_group("sensor")
    registry.delete_group("sensor")
    assert registry.groups() == {}
    with pytest.raises(SchemaNotFoundError, match="schema group 'sensor'"):
        registry.group("sensor")


@pytest.mark.parametrize("format", ["Avro", "Json", "Protobuf", "Any"])
def test_groups_of_every_format(registry: SchemaRegistry, format: str) -> None:
    registry.create_group("g", GroupProperties(format, allow_multiple_types=True))
    assert registry.group("g") == GroupProperties(format, allow_multiple_types=True)


@pytest.mark.parametrize("groups", [110, pytest.param(230, marks=pytest.mark.long)])
def test_more_groups_than_a_page(registry: SchemaRegistry, groups: int) -> None:
    names = {f"group-{number}" for number in range(groups)}
    with ThreadPoolExecutor(4) as threads:
        for made in [threads.submit(registry.create_group, name, AVRO) for name in names]:
            made.result()
    assert set(registry.groups()) == names


@pytest.mark.parametrize("name", ["a/b", "a b", "a+b", "a%2Fb", "é€😀", "a?b#c", "..", ".", "a;b=c&d", "'\"\\"])
def test_odd_names(registry: SchemaRegistry, name: str) -> None:
    registry.create_group(name, AVRO)
    version = registry.add_schema(name, avro())
    assert registry.encoding(name, registry.encoding_id(name, version)).schema == avro()
    assert set(registry.groups()) == {name}
    registry.delete_group(name)
    assert registry.groups() == {}


def test_an_odd_namespace(client_config: ClientConfig) -> None:
    with SchemaRegistry(client_config, f"a b/ü&{secrets.token_hex(4)}") as registry:
        registry.create_group("g", AVRO)
        assert set(registry.groups()) == {"g"}
        registry.delete_group("g")


def test_namespaces_are_separate(registry: SchemaRegistry, client_config: ClientConfig) -> None:
    name = f"test-{secrets.token_hex(6)}"
    registry.create_group(name, AVRO)
    with SchemaRegistry(client_config, None) as default:
        assert name not in default.groups()
        with pytest.raises(SchemaNotFoundError, match="default namespace"):
            default.group(name)
        default.create_group(name, GroupProperties("Json"))
        assert (default.group(name).format, registry.group(name).format) == ("Json", "Avro")
        default.delete_group(name)


def test_a_group_without_name(registry: SchemaRegistry) -> None:
    with pytest.raises(InvalidOptionError):
        registry.create_group("", AVRO)


def test_schemas_and_versions(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    assert registry.versions("g") == []
    assert registry.latest_schemas("g") == []
    first = registry.add_schema("g", avro())
    assert first == VersionInfo("a.T", "Avro", 0, 0)
    assert registry.add_schema("g", avro()) == first
    second = registry.add_schema("g", avro("temp"))
    assert (second.version, second.id) == (1, 1)
    assert [(each.schema, each.version) for each in registry.versions("g")] == [
        (avro(), first),
        (avro("temp"), second),
    ]
    assert [each.version for each in registry.latest_schemas("g")] == [second]
    assert registry.find_schema_by_id("g", 0) == avro()
    with pytest.raises(SchemaNotFoundError):
        registry.find_schema_by_id("g", 7)
    assert registry.find_version("g", avro("temp")) == second
    assert registry.find_version("g", avro("other")) is None
    with pytest.raises(SchemaNotFoundError, match="schema group 'none'"):
        registry.find_version("none", avro())


def test_the_text_comes_back_as_it_was(registry: SchemaRegistry) -> None:
    registry.create_group("j", GroupProperties("Json"))
    version = registry.add_schema("j", JSON_SCHEMA)
    assert registry.find_schema_by_id("j", version.id).text == JSON_SCHEMA.text
    registry.create_group("a", AVRO)
    registry.add_schema("a", avro("x"))
    assert registry.latest_schemas("a")[0].schema.text == avro("x").text


def test_several_types(registry: SchemaRegistry) -> None:
    registry.create_group("many", dataclasses.replace(AVRO, allow_multiple_types=True))
    registry.add_schema("many", avro(record="a.One"))
    registry.add_schema("many", avro(record="a.Two"))
    registry.add_schema("many", avro("x", record="a.One"))
    latest = {each.schema.type: each.version.version for each in registry.latest_schemas("many")}
    assert latest == {"a.One": 1, "a.Two": 0}
    registry.create_group("single", AVRO)
    registry.add_schema("single", avro(record="a.One"))
    with pytest.raises(IncompatibleSchemaError, match="takes only one type"):
        registry.add_schema("single", avro(record="a.Two"))


def test_refused_schemas(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    registry.add_schema("g", avro("x"))
    incompatible = SchemaInfo.of_text(
        "a.T", "Avro", '{"type":"record","name":"a.T","fields":[{"name":"new","type":"int"}]}'
    )
    with pytest.raises(IncompatibleSchemaError, match="group 'g' .* compatibility policy"):
        registry.add_schema("g", incompatible)
    assert registry.validate("g", incompatible) is False
    assert registry.validate("g", incompatible, Compatibility("AllowAny")) is True
    with pytest.raises(InvalidSchemaError, match="format differs from the group's"):
        registry.add_schema("g", JSON_SCHEMA)
    with pytest.raises(InvalidSchemaError, match="Unable to parse schema"):
        registry.add_schema("g", SchemaInfo.of_text("a.T", "Avro", '{"type": "wat"}'))
    with pytest.raises(InvalidSchemaError, match="Type mismatch"):
        registry.add_schema("g", dataclasses.replace(avro("x"), type="b.X"))


def test_deleted_schemas(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    first = registry.add_schema("g", avro())
    registry.add_schema("g", avro("x"))
    encoding_id = registry.encoding_id("g", first)
    registry.delete_schema("g", first.id)
    assert [each.version.id for each in registry.versions("g")] == [1]
    assert registry.encoding("g", encoding_id).schema == avro()
    with pytest.raises(SchemaNotFoundError):
        registry.delete_schema("g", 77)


def test_compatibility(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    version = registry.add_schema("g", avro())
    advanced = Compatibility("Advanced", Rule("BackwardTill", version), Rule("Forward"))
    registry.set_compatibility("g", advanced)
    assert registry.compatibility("g") == advanced
    with pytest.raises(IncompatibleSchemaError, match="changed by another client"):
        registry.set_compatibility("g", Compatibility("Full"), previous=Compatibility("Forward"))
    registry.set_compatibility("g", Compatibility("Full"), previous=advanced)
    assert registry.compatibility("g") == Compatibility("Full")
    with pytest.raises(RegistryError, match="answered 400 .*Unknown compatibility type") as caught:
        registry.set_compatibility("g", Compatibility("Sometimes"))
    assert (caught.value.status, caught.value.group) == (400, "g")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.status, copy.message) == (400, caught.value.message)


def test_encodings_and_codecs(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    version = registry.add_schema("g", avro())
    assert registry.codecs("g") == []
    assert registry.encoding_id("g", version) == 0
    with pytest.raises(RegistryError, match="codec application/x-gzip not registered") as caught:
        registry.encoding_id("g", version, GZIP)
    assert caught.value.status == 412
    registry.add_codec("g", GZIP)
    registry.add_codec("g", GZIP)
    assert registry.codecs("g") == [GZIP]
    assert registry.encoding_id("g", version, GZIP) == 1
    assert registry.encoding_id("g", version) == 0
    found = registry.encoding("g", 1)
    assert (found.schema, found.version, found.codec) == (avro(), version, GZIP)
    assert registry.encoding("g", 0).codec == ""
    with pytest.raises(SchemaNotFoundError, match="encodings/99"):
        registry.encoding("g", 99)
    with pytest.raises(SchemaNotFoundError):
        registry.encoding_id("g", VersionInfo("a.T", "Avro", 9, 9))


def test_what_is_remembered_goes_with_the_group(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    assert registry.encoding_id("g", registry.add_schema("g", avro())) == 0
    assert registry.encoding("g", 0).schema == avro()
    registry.delete_group("g")
    registry.create_group("g", AVRO)
    with pytest.raises(SchemaNotFoundError):
        registry.encoding("g", 0)
    registry.encoding_id("g", registry.add_schema("g", avro("x")))
    assert registry.encoding("g", 0).schema == avro("x")


def test_a_pickled_copy_works(registry: SchemaRegistry) -> None:
    registry.create_group("g", AVRO)
    with pickle.loads(pickle.dumps(registry)) as copy:
        assert set(copy.groups()) == {"g"}
    registry.ping()


def test_many_threads(registry: SchemaRegistry) -> None:
    registry.create_group("g", dataclasses.replace(AVRO, compatibility=Compatibility("AllowAny")))
    failures: list[BaseException] = []
    versions: list[VersionInfo] = []

    def add(number: int) -> None:
        try:
            versions.append(registry.add_schema("g", avro(f"column{number}")))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(each.id for each in versions) == list(range(12))


def test_where_the_registry_never_answers(registry: SchemaRegistry, client_config: ClientConfig) -> None:
    """Registry 0.6.0 hangs when a group of format Any gets a type name that it has in another format."""
    registry.create_group("any", GroupProperties("Any", allow_multiple_types=True))
    registry.add_schema("any", avro(record="a.T"))
    impatient = SchemaRegistry(dataclasses.replace(client_config, request_timeout=2), registry.namespace)
    with impatient, pytest.raises(ServerTimeoutError, match="did not answer POST .* within 2 s.*format Any"):
        impatient.add_schema("any", dataclasses.replace(JSON_SCHEMA, type="a.T"))


def test_a_registry_that_hangs(client_config: ClientConfig) -> None:
    with socket.create_server(("localhost", 0)) as silent:
        address = f"http://localhost:{silent.getsockname()[1]}"
        config = dataclasses.replace(client_config, registry_uri=address, request_timeout=1)
        with SchemaRegistry(config, None) as registry, pytest.raises(ServerTimeoutError) as caught:
            registry.group("any")
    assert "did not answer GET" in str(caught.value) and "format Any" not in str(caught.value)


def test_no_address(client_config: ClientConfig) -> None:
    with pytest.raises(InvalidOptionError, match="no schema registry address"):
        SchemaRegistry(dataclasses.replace(client_config, registry_uri=None), "s")


@pytest.mark.parametrize("host", ["10.0.0.256", "\N{SNOWMAN}..example"])
def test_an_address_that_cannot_be_one(client_config: ClientConfig, host: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"schema registry address http://{host}:9092 is not valid.*such as"):
        SchemaRegistry(dataclasses.replace(client_config, registry_uri=f"http://{host}:9092"), "s")


def other_address(config: ClientConfig, uri: str) -> SchemaRegistry:
    changed = dataclasses.replace(config, registry_uri=uri, request_timeout=2, retry_timeout=0.5)
    return SchemaRegistry(changed, "s")


def test_nobody_listens(client_config: ClientConfig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with other_address(client_config, uri) as registry:
            with pytest.raises(ServerUnavailableError, match="gave up after .* tries"):
                registry.groups()


def test_a_request_that_outlives_its_client_leaves_no_connection(
    client_config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, connect, opened = SchemaRegistry(client_config, None), socket.create_connection, []

    def connect_late(*arguments: Any, **options: Any) -> socket.socket:
        registry.close()
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", connect_late)
    registry.groups()
    assert [connection.fileno() for connection in opened] == [-1]
    with pytest.raises(ClientClosedError, match="the client is closed"):
        registry.groups()


def test_connections_serve_many_threads_and_end_with_their_client(
    client_config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, connect, opened = SchemaRegistry(client_config, None), socket.create_connection, list[socket.socket]()

    def count(*arguments: Any, **options: Any) -> socket.socket:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", count)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: registry.groups(), range(40)))
    assert 1 <= len(opened) <= 4 and all(connection.fileno() != -1 for connection in opened)
    monkeypatch.setattr("pyspark_pravega.client.registry.http._KEPT_SECONDS", 0.0)
    registry.groups()
    assert sum(connection.fileno() != -1 for connection in opened) == 1
    registry.close()
    assert all(connection.fileno() == -1 for connection in opened)


def test_a_closed_client_opens_nothing(client_config: ClientConfig) -> None:
    pravega = Pravega(client_config)
    pravega.close()
    for use in (pravega.registry, lambda: pravega.controller):
        with pytest.raises(ClientClosedError, match="the client is closed; connect again"):
            use()


def answering(*replies: bytes) -> tuple[socket.socket, str]:
    """A server on a socket that gives these answers one after the other, and then the last to everything."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for reply in itertools.chain(replies, itertools.repeat(replies[-1])):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (http("200 OK", b"<html>"), ProtocolError, "is not JSON; is it a schema registry"),
        (http("200 OK", b"[]"), ProtocolError, "does not have the expected form"),
        (http("500 Oops", b"<html>no news</html>"), RegistryError, "answered 500 when asked to read"),
        (http("503 Busy", b""), ServerUnavailableError, "answered 503"),
        (http("429 Too Many Requests", b""), ServerUnavailableError, r"answered 429 .* \(gave up after"),
        (http("302 Found", b""), RegistryError, "answered 302"),
        (b"", ServerUnavailableError, "closed the connection without an answer"),
    ],
)
def test_strange_answers(client_config: ClientConfig, reply: bytes, error: type[Exception], text: str) -> None:
    listener, uri = answering(reply)
    with listener, other_address(client_config, uri) as registry, pytest.raises(error, match=text):
        registry.groups()


def test_internal_errors_are_survived_until_the_time_is_over(client_config: ClientConfig) -> None:
    # What registry 0.6.0 says while containers of Pravega move.
    failed, empty = http("500 Oops", b"updateEntries"), http("200 OK", b'{"groups": {}, "continuationToken": ""}')
    listener, uri = answering(*[failed] * 3, empty)
    with listener, other_address(client_config, uri) as registry:
        assert registry.groups() == {}
    listener, uri = answering(failed)
    with listener, other_address(client_config, uri) as registry, pytest.raises(RegistryError) as refused:
        registry.groups()
    assert refused.value.status == 500
    assert re.search(r"answered 500 .*\(updateEntries\) \(gave up after \d+ tries in 0.5 s\)", refused.value.message)


def test_confluents_registry_is_asked_again_after_too_many_requests(client_config: ClientConfig) -> None:
    busy, schema = http("429 Too Many Requests", b""), http("200 OK", b'{"schema": "\\"string\\""}')
    listener, uri = answering(busy, busy, schema)
    with listener, closing(ConfluentRegistry(replace(client_config, confluent_uri=uri))) as registry:
        assert registry.encoding("", 7).schema.data == b'"string"'


def test_creation_survives_internal_errors(client_config: ClientConfig) -> None:
    failed, made = http("500 Oops", b"updateEntries"), http("201 Created", b"{}")
    after = http("200 OK", b'{"groups": {"last": null}, "continuationToken": ""}')
    listener, uri = answering(*[failed] * 3, made, after)
    with listener, other_address(client_config, uri) as registry:
        registry.create_group("g", GroupProperties("Avro", Compatibility("AllowAny")))
        assert registry.groups() == {}  # by the answer after "201 Created": it was asked four times, and no more


def test_a_connection_serves_many_requests_until_the_server_closes_it(client_config: ClientConfig) -> None:
    empty = http("200 OK", b'{"groups": {}, "continuationToken": ""}')
    served: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                served.append(0)
                with connection:
                    while served[-1] < 3 and connection.recv(65536):
                        served[-1] += 1
                        connection.sendall(empty)

        threading.Thread(target=serve, daemon=True).start()
        with other_address(client_config, f"http://127.0.0.1:{listener.getsockname()[1]}") as registry:
            for _ in range(5):
                assert registry.groups() == {}
    assert served == [3, 2]


def test_tls_against_a_plain_registry(client_config: ClientConfig) -> None:
    assert client_config.registry_uri is not None
    if not client_config.registry_uri.startswith("http://"):
        pytest.skip("the registry speaks TLS")
    uri = client_config.registry_uri.replace("http://", "https://")
    with other_address(client_config, uri) as registry:
        with pytest.raises((TlsError, ServerTimeoutError), match="https|TLS"):
            registry.groups()


class TestSecure:
    def test_rights(self, secure_client_config: Callable[..., ClientConfig]) -> None:
        namespace = f"test-{secrets.token_hex(6)}"
        with SchemaRegistry(secure_client_config(), namespace) as admin:
            admin.create_group("g", AVRO)
            admin.add_schema("g", avro())
            with SchemaRegistry(secure_client_config("nobody"), namespace) as nobody:
                assert nobody.groups() == {}
                with pytest.raises(
                    PermissionDeniedError, match=f"may not read .*grant prn::/namespace:{namespace}/group:g,READ"
                ):
                    nobody.versions("g")
                with pytest.raises(PermissionDeniedError, match=r"may not add a schema to .*/schemas:\*,READ_UPDATE"):
                    nobody.add_schema("g", avro("x"))
                with pytest.raises(PermissionDeniedError, match=f"prn::/namespace:{namespace},READ_UPDATE"):
                    nobody.create_group("h", AVRO)
            admin.delete_group("g")

    def test_wrong_password_and_none(self, secure_client_config: Callable[..., ClientConfig]) -> None:
        config = secure_client_config()
        for credentials in (BasicCredentials("admin", "sesame-7391"), None):
            with SchemaRegistry(dataclasses.replace(config, credentials=credentials), "s") as registry:
                with pytest.raises(AuthenticationError, match="knows no such user") as caught:
                    registry.ping()
                assert "sesame-7391" not in str(caught.value) + repr(registry)

    def test_registry_credentials_win(self, secure_client_config: Callable[..., ClientConfig]) -> None:
        config = secure_client_config()
        changed = dataclasses.replace(
            config, credentials=BasicCredentials("x", "y"), registry_credentials=config.credentials
        )
        with SchemaRegistry(changed, "s") as registry:
            registry.ping()
            assert registry.groups() == {}

    def test_untrusted_certificate(self, secure_client_config: Callable[..., ClientConfig]) -> None:
        config = dataclasses.replace(secure_client_config(), trust_store=None)
        with SchemaRegistry(config, "s") as registry, pytest.raises(TlsError, match="is not trusted"):
            registry.ping()

    def test_plain_against_tls(self, secure_client_config: Callable[..., ClientConfig]) -> None:
        config = replace(secure_client_config(), allow_plain_registry=True)
        assert config.registry_uri is not None
        uri = config.registry_uri.replace("https://", "http://")
        with other_address(config, uri) as registry, pytest.raises(ServerUnavailableError, match="https://"):
            registry.ping()
