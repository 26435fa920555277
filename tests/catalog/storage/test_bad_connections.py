"""Catalogs that cannot work: wrong addresses, dead servers, contradicting logins, another Python.

Every message says which catalog or server it is about, comes in bounded time (the statements return at all), and
leaves nothing behind. Secrets are in none of them.
"""

from __future__ import annotations

import socket
import sys
import uuid
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.bad_input import SECRET, Refusal, Watched, check_message
from tests.sql_clients import PySparkClient

OPTION = "PRAVEGA_INVALID_OPTION"
UNAVAILABLE = "PRAVEGA_SERVER_UNAVAILABLE"
CLASS = "io.github.pysparkpravega.PravegaCatalog"
Configured = Callable[[Mapping[str, str]], str]


@pytest.fixture
def configured(spark: SparkSession) -> Iterator[Configured]:
    """A function from confs to a new catalog with them; returns its name."""
    keys = []

    def add(confs: Mapping[str, str]) -> str:
        name = f"c{uuid.uuid4().hex[:8]}"
        for key, value in {"": CLASS, **{f".{key}": value for key, value in confs.items()}}.items():
            keys.append(f"spark.sql.catalog.{name}{key}")
            spark.conf.set(keys[-1], value)
        return name

    yield add
    for key in keys:
        spark.conf.unset(key)


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that is taken, and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def watched(spark: SparkSession, client_config: ClientConfig) -> Iterator[Watched]:
    """A namespace that no broken catalog may change."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, "badconnections")
        made.settle()
        yield made
        made.close()


def working(cluster: ClusterInfo) -> dict[str, str]:
    """Confs that work, and give up soon when they are made not to."""
    return {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "retry-timeout": "2s",
        "request-timeout": "5s",
    }


SOON = {"retry-timeout": "1s"}
"""For a controller that never answers, and is tried for as long as this."""


WRONG_CONFS = [
    ({"controller-uri": "http://localhost:9090"}, ("'http://localhost:9090'", "tcp://", "tls://")),
    ({"controller-uri": "localhost:9090"}, ("'localhost:9090'", "tcp://localhost:9090")),
    ({"controller-uri": "tcp://localhost:99999"}, ("'99999'", "1 to 65535")),
    ({"controller-uri": "tcp://localhost:port"}, ("'port'", "1 to 65535")),
    ({"controller-uri": "tcp://"}, ("'tcp://'", "has no host")),
    ({"controller-uri": "tcp://local host:9090"}, ("'local host'", "host name")),
    ({"controller-uri": ""}, ("'controller-uri'", "it is empty")),
    ({"controller-uri": f"tcp://me:{SECRET}@localhost:9090"}, ("'controller-uri'", "security.username")),
    ({"schema-registry-uri": "ftp://localhost:1"}, ("'ftp://localhost:1'", "http://localhost:9092")),
    ({"schema-registry-uri": "localhost:9092"}, ("'localhost:9092'", "http://localhost:9092")),
    ({"schema-registry-uri": "http://localhost:99999"}, ("'http://localhost:99999'", "http://localhost:9092")),
    ({"schema-registry-uri": f"http://me:{SECRET}@localhost"}, ("'schema-registry-uri'", "security.username")),
    ({"controler-uri": "tcp://localhost:9090"}, ("'controler-uri'", "Did you mean 'controller-uri'?")),
    ({"retry-timeout": "soon"}, ("'soon'", "'retry-timeout'", "500ms")),
    ({"retry-timeout": "0s"}, ("'0s'", "'retry-timeout'", "100ms to 1d")),
    ({"routing-key": "id"}, ("'routing-key' cannot be a catalog conf", "table property")),
    ({"format": "json"}, ("'format' cannot be a catalog conf", "table property")),
    ({"security.password": SECRET}, ("'security.password' is set without 'security.username'",)),
    ({"security.username": "me"}, ("'security.username' is set without 'security.password'",)),
    ({"pasword": SECRET}, ("'pasword'", "Did you mean 'security.password'?")),
    ({"api.key": SECRET}, ("'api.key'", "Valid keys")),
    (
        {"security.username": "me", "security.password": "${env:PYSPARK_PRAVEGA_NOT_SET}"},
        ("'security.password'", "PYSPARK_PRAVEGA_NOT_SET"),
    ),
    (
        {"security.username": "me", "security.password": SECRET, "security.auth-token": SECRET},
        ("more than one way", "'security.username' and 'security.auth-type'"),
    ),
    ({"security.credentials": "nonsense"}, ("'nonsense'", "module:attribute")),
    ({"security.credentials": "no.such.module:Login"}, ("'no.such.module:Login'", "cannot be imported")),
]  # fmt: skip


@pytest.mark.parametrize(("confs", "words"), WRONG_CONFS, ids=lambda value: str(value)[:60].replace(SECRET, "secret"))
def test_wrong_confs(
    watched: Watched, configured: Configured, cluster: ClusterInfo, confs: dict[str, str], words: tuple[str, ...]
) -> None:
    name = configured({**working(cluster), **confs})
    for statement in (
        f"SHOW NAMESPACES IN {name}",
        f"CREATE TABLE {name}.`{watched.scope}`.new (id INT) USING pravega",
    ):
        watched.refuse(
            Refusal(
                statement,
                OPTION,
                (
                    f"Catalog {name}: ",
                    *words,
                ),
            )
        )


def test_no_address_at_all(watched: Watched, configured: Configured) -> None:
    name = configured({})
    words = (f"Catalog {name}: ", "'controller-uri' is needed", "PRAVEGA_CONTROLLER_URI")
    watched.refuse(Refusal(f"SHOW NAMESPACES IN {name}", OPTION, words))


STATEMENTS = [
    "SHOW NAMESPACES IN {c}",
    "SHOW TABLES IN {c}.`{s}`",
    "SELECT * FROM {c}.`{s}`.t",
    "CREATE TABLE {c}.`{s}`.new (id INT) USING pravega",
    "INSERT INTO {c}.`{s}`.t VALUES (3, 'z')",
    "DROP TABLE {c}.`{s}`.t",
    "DROP NAMESPACE {c}.`{s}` CASCADE",
]


EACH_WAY = (STATEMENTS[2], STATEMENTS[3], STATEMENTS[4])
"""They read, make and write a table, and ask all servers. The others do not, and fail as these do."""


def at_length(*statements: str) -> list[Any]:
    """Statements for `make long`."""
    return [pytest.param(each, marks=pytest.mark.long) for each in statements]


@pytest.mark.parametrize("statement", [*EACH_WAY, *at_length(*(each for each in STATEMENTS if each not in EACH_WAY))])
def test_no_controller_listens(
    watched: Watched, configured: Configured, cluster: ClusterInfo, dead_port: int, statement: str
) -> None:
    address = f"localhost:{dead_port}"
    name = configured({**working(cluster), **SOON, "controller-uri": f"tcp://{address}"})
    text = statement.format(c=name, s=watched.scope)
    watched.refuse(
        Refusal(
            text,
            UNAVAILABLE,
            (
                address,
                "check the address",
                "in 1 s",
            ),
        )
    )


def test_a_controller_that_no_name_server_knows(watched: Watched, configured: Configured, cluster: ClusterInfo) -> None:
    name = configured({**working(cluster), **SOON, "controller-uri": "tcp://no-such-host.invalid:9090"})
    statement = f"SHOW NAMESPACES IN {name}"
    watched.refuse(
        Refusal(
            statement,
            UNAVAILABLE,
            (
                "no-such-host.invalid:9090",
                "check the address",
            ),
        )
    )


def test_tls_to_a_plain_controller(watched: Watched, configured: Configured, cluster: ClusterInfo) -> None:
    if not cluster.controller_uri.startswith("tcp://"):
        pytest.skip("the cluster has TLS")
    address = cluster.controller_uri.removeprefix("tcp://")
    name = configured({**working(cluster), "controller-uri": f"tls://{address}"})
    statement = f"SHOW NAMESPACES IN {name}"
    watched.refuse(
        Refusal(
            statement,
            "PRAVEGA_TLS_FAILED",
            (
                address,
                "does not speak TLS",
                "tcp://",
            ),
        )
    )


@pytest.mark.parametrize("statement", [EACH_WAY[1], *at_length(EACH_WAY[0], EACH_WAY[2])])
def test_no_registry_listens(
    watched: Watched, configured: Configured, cluster: ClusterInfo, dead_port: int, statement: str
) -> None:
    name = configured({**working(cluster), "schema-registry-uri": f"http://localhost:{dead_port}"})
    text = statement.format(c=name, s=watched.scope)
    words = ("schema registry", f"localhost:{dead_port}", "check the address", "in 2 s")
    watched.refuse(Refusal(text, UNAVAILABLE, words))
    assert watched.sql.run(f"SHOW TABLES IN {name}.`{watched.scope}`")


@pytest.mark.parametrize("statement", [EACH_WAY[1], *at_length(EACH_WAY[0], EACH_WAY[2])])
def test_tls_to_a_plain_registry(
    watched: Watched, configured: Configured, cluster: ClusterInfo, statement: str
) -> None:
    address = str(cluster.registry_uri).removeprefix("http://")
    name = configured({**working(cluster), "schema-registry-uri": f"https://{address}"})
    text = statement.format(c=name, s=watched.scope)
    watched.refuse(
        Refusal(
            text,
            "PRAVEGA_TIMEOUT",
            (
                f"registry at {address}",
                "http:// or https://",
            ),
        )
    )


def test_what_listens_is_no_registry(watched: Watched, configured: Configured, cluster: ClusterInfo) -> None:
    if cluster.rest_uri is None:
        pytest.skip("the address of the controller's REST interface is not known")
    name = configured({**working(cluster), "schema-registry-uri": cluster.rest_uri})
    new, table = f"{name}.`{watched.scope}`.new", f"{name}.`{watched.scope}`.t"
    statement = f"CREATE TABLE {new} (id INT) USING pravega"
    watched.refuse(
        Refusal(
            statement,
            "PRAVEGA_PROTOCOL_ERROR",
            (
                "is not a schema registry",
                "check the address",
            ),
        )
    )
    for statement in (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES (3, 'z')"):
        words = (f"{watched.scope}/t", "'format'='avro'", cluster.rest_uri, "'schema-registry-uri'")
        watched.refuse(Refusal(statement, "PRAVEGA_SCHEMA_NOT_FOUND", words))


def test_no_registry_is_configured(watched: Watched, configured: Configured, cluster: ClusterInfo) -> None:
    name = configured({"controller-uri": cluster.controller_uri})
    new, table = f"{name}.`{watched.scope}`.new", f"{name}.`{watched.scope}`.t"
    statement = f"CREATE TABLE {new} (id INT) USING pravega"
    watched.refuse(
        Refusal(
            statement,
            OPTION,
            (
                "'schema-registry-uri' is needed",
                "PRAVEGA_SCHEMA_REGISTRY_URI",
            ),
        )
    )
    for statement in (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES (X'00')"):
        words = (f"{watched.scope}/t", "'format'='avro'", "Set 'schema-registry-uri'")
        watched.refuse(Refusal(statement, "PRAVEGA_SCHEMA_NOT_FOUND", words))
    # Raw tables need none.
    watched.sql.run(f"CREATE TABLE {name}.`{watched.scope}`.bytes USING pravega TBLPROPERTIES ('format'='raw')")
    watched.sql.run(f"INSERT INTO {name}.`{watched.scope}`.bytes VALUES (X'01')")
    assert watched.sql.run(f"SELECT hex(event) FROM {name}.`{watched.scope}`.bytes") == [("01",)]
    watched.sql.run(f"DROP TABLE {name}.`{watched.scope}`.bytes")


def test_a_python_without_this_package(
    watched: Watched, configured: Configured, cluster: ClusterInfo, tmp_path: Path
) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    for python in (str(tmp_path / "empty" / "bin" / "python"), "/no/such/python"):
        name = configured({**working(cluster), "python": python})
        statement = f"SHOW NAMESPACES IN {name}"
        words = (f"'{python}'", "pyspark-pravega installed", "PYSPARK_PYTHON", "'python' conf")
        watched.refuse(Refusal(statement, "PRAVEGA_SERVICE_FAILED", words))
    again = configured({**working(cluster), "python": sys.executable})
    assert (watched.scope,) in watched.sql.run(f"SHOW NAMESPACES IN {again}")


def test_the_scope_of_the_conf_is_the_default_namespace(
    watched: Watched, configured: Configured, cluster: ClusterInfo, spark: SparkSession
) -> None:
    before = spark.catalog.currentCatalog()
    name = configured({**working(cluster), "scope": watched.scope})
    nowhere = configured({**working(cluster), "scope": "not-there"})
    try:
        watched.sql.run(f"USE {name}")
        assert watched.sql.run("SELECT count(*) FROM t") == [("2",)]
        watched.sql.run(f"USE {nowhere}")
        with pytest.raises(PySparkException) as caught:
            spark.sql("SELECT * FROM t").collect()
        check_message(str(caught.value), "TABLE_OR_VIEW_NOT_FOUND", "`t`")
    finally:
        spark.catalog.setCurrentCatalog(before)


@pytest.mark.parametrize("confs", [{"security.password": SECRET}, {}], ids=["wrong password", "no login"])
def test_a_login_that_the_servers_refuse(
    watched: Watched, configured: Configured, secure_cluster: ClusterInfo, confs: dict[str, str]
) -> None:
    login = {"security.username": "admin", **confs} if confs else {}
    trust = {"security.trust-store": str(secure_cluster.ca_file)}
    name = configured({**working(secure_cluster), **trust, **login})
    for statement in STATEMENTS:
        text = statement.format(c=name, s=watched.scope)
        words = (secure_cluster.controller_uri.removeprefix("tls://"),)
        message = watched.refuse(Refusal(text, "PRAVEGA_AUTHENTICATION_FAILED", words))
        assert secure_cluster.users["admin"] not in message


def test_a_trust_store_that_is_not_there(watched: Watched, configured: Configured, secure_cluster: ClusterInfo) -> None:
    name = configured({**working(secure_cluster), "security.trust-store": "/no/such/file.pem"})
    watched.refuse(Refusal(f"SHOW NAMESPACES IN {name}", OPTION, ("'/no/such/file.pem'", "PEM")))


def test_a_certificate_authority_that_is_not_trusted(
    watched: Watched, configured: Configured, secure_cluster: ClusterInfo
) -> None:
    login = {"security.username": "admin", "security.password": secure_cluster.users["admin"]}
    name = configured({**working(secure_cluster), **login})
    words = (secure_cluster.controller_uri.removeprefix("tls://"), "trust")
    watched.refuse(Refusal(f"SHOW NAMESPACES IN {name}", "PRAVEGA_TLS_FAILED", words))
