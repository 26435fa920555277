"""No way to name an address sends the login of the driver's environment there, or lets a session choose programs."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.test_jdbc import answers
from tests.foreign_servers import ForeignServers, foreign_servers

PLAIN_DRIVER = Path(__file__).with_name("foreign_address_driver.py")
LOGIN = base64.b64encode(b"admin:the-driver's-secret").decode()
ENVIRONMENT = {"pravega_client_auth_method": "Basic", "pravega_client_auth_token": LOGIN}
QUICK = {"retry-timeout": "1s", "request-timeout": "2s"}


@pytest.fixture
def foreign() -> Iterator[ForeignServers]:
    """Servers that the driver knows nothing of."""
    with foreign_servers() as servers:
        yield servers


@pytest.mark.parametrize("jar", [True, False])
def test_statements_of_a_driver_with_a_login_in_its_environment(
    cluster: ClusterInfo, foreign: ForeignServers, fresh_name: str, tmp_path: Path, jar: bool
) -> None:
    """Views, reads, writes and streams by options, with the adapter's jar and without it."""
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    command = [sys.executable, str(PLAIN_DRIVER), fresh_name, foreign.controller_uri, foreign.registry_uri]
    done = subprocess.run(
        [*command, "with" if jar else "without"],
        env={**os.environ, **ENVIRONMENT, **servers, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "/io.pravega.controller.stream.api.grpc.v1.ControllerService/getStreamConfiguration" in foreign.calls
    assert foreign.logins == []
    answers = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert set(answers) == set(done.stdout.split()[0].split(",")), done.stdout
    for name, answer in answers.items():
        wanted = "none are given" if "controller" in name else "option 'controller-uri' is needed, but not set"
        assert wanted in answer, f"{name}: {answer}"


def test_connect_of_python(cluster: ClusterInfo, foreign: ForeignServers, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in ENVIRONMENT.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    quick: dict[str, Any] = {key.replace("-", "_"): text for key, text in QUICK.items()}
    with (
        connect(controller_uri=foreign.controller_uri, **quick) as elsewhere,
        pytest.raises(AuthenticationError, match="requires credentials, and none are given; give them in the same"),
    ):
        elsewhere.list_namespaces()
    with pytest.raises(InvalidOptionError, match="PRAVEGA_CONTROLLER_URI does not count beside an address"):
        connect(schema_registry_uri=foreign.registry_uri, **quick)
    with connect(**quick) as here:
        here.list_namespaces()
    assert foreign.calls and not foreign.logins


def _keys(name: str, **settings: str) -> list[tuple[str, str]]:
    return [(f"spark.sql.catalog.{name}.{key.replace('_', '-')}", text) for key, text in settings.items()]


def test_sessions_of_a_server(thrift_url: str, foreign: ForeignServers, tmp_path: Path) -> None:
    """A session has its own confs, by SET and by its URL. What they may not say is refused by its key."""
    touched = tmp_path / "touched"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {touched}\n")
    program.chmod(0o755)
    own = ("spark.sql.catalog.mine", "io.github.pysparkpravega.PravegaCatalog")
    cases = {
        "controller-uri": ("secure", _keys("secure", controller_uri=foreign.controller_uri)),
        "schema-registry-uri": ("secure", _keys("secure", schemaRegistryUri=foreign.registry_uri)),
        "security.credentials": ("secure", [("spark.sql.catalog.secure.security.credentials", "os:abort")]),
        "security.trust-store": ("secure", [("spark.sql.catalog.secure.security.trust-store", "/etc/hostname")]),
        "python": ("pravega", _keys("pravega", Python=str(program))),
        "": ("mine", [own, *_keys("mine", controller_uri=foreign.controller_uri, python=str(program))]),
    }
    calls: list[tuple[str, ...]] = []
    for index, (catalog, confs) in enumerate(cases.values()):
        if index % 2:
            calls.append(("connect", thrift_url + "/?" + ";".join(f"{key}={text}" for key, text in confs)))
        else:
            calls.append(("connect", f"{thrift_url}/"))
            calls.extend(("query", f"SET `{key}`={text}") for key, text in confs)
            # the permission counts only in the driver's conf
            calls.append(("query", "SET `spark.pravega.session-connections`=true"))
        calls.append(("query", f"SHOW NAMESPACES IN {catalog}"))
    calls.append(("connect", f"{thrift_url}/"))
    calls.append(("query", "SHOW NAMESPACES IN secure"))
    found = [" ".join(" ".join(row) for row in rows) for rows in answers(thrift_url, *calls)]
    shown = [text for call, text in zip(calls, found, strict=True) if call[-1].startswith("SHOW")]
    for key, text in zip(cases, shown, strict=False):
        wanted = f"'{key}' counts" if key else "A catalog counts"
        assert f"{wanted} only as the driver's conf had it when the driver started" in text, text[:400]
    assert "error" not in shown[-1]
    assert not touched.exists() and not foreign.calls


def test_a_session_learns_no_secret_by_guessing_it(thrift_url: str, secure_cluster: ClusterInfo) -> None:
    """What a session sets beside the driver's password does not count, and so is not compared with it."""
    right, keys = secure_cluster.users["admin"], ("security.password", "Security.Password", "SECURITY.PASSWORD")
    calls: list[tuple[str, ...]] = []
    for key in (*keys, "security.auth-token", "security.authToken"):
        for guess in (right, "wrong"):
            calls.append(("connect", f"{thrift_url}/"))
            calls.append(("query", f"SET `spark.sql.catalog.secure.{key}`={guess}"))
            calls.append(("query", "SHOW NAMESPACES IN secure"))
    calls += [("connect", f"{thrift_url}/?spark.sql.catalog.secure.security.password=wrong"), calls[-1]]
    found = [" ".join(" ".join(row) for row in rows) for rows in answers(thrift_url, *calls)]
    shown = [text for call, text in zip(calls, found, strict=True) if call[-1].startswith("SHOW")]
    assert not any("error" in text for text in (*shown[:6], shown[-1])), shown
    assert all("'security.auth-token' counts only as the driver's conf had it" in text for text in shown[6:10]), shown


def test_a_login_is_not_sent_in_the_clear() -> None:
    login = BasicCredentials("reader", "secret")
    addresses: Any = {"controller_uri": "tls://localhost:9090", "registry_uri": "http://localhost:9092"}
    with pytest.raises(InvalidOptionError, match=r"in the clear.*security\.allow-plain-registry"):
        ClientConfig(**addresses, credentials=login)
    ClientConfig(**addresses)
    ClientConfig(**addresses, credentials=login, allow_plain_registry=True)
    keywords: Any = {"security_username": "reader", "security_password": "secret"}
    with pytest.raises(InvalidOptionError, match="in the clear"):
        connect(controller_uri="tls://localhost:9090", schema_registry_uri="http://localhost:9092", **keywords)


def test_credentials_are_no_option_of_a_query(spark: SparkSession, fresh_name: str) -> None:
    """Whoever reads would choose what the service of all sessions calls."""
    reading: list[Callable[[], object]] = [
        lambda: spark.read.format("pravega").options(**options).load(),
        lambda: spark.readStream.format("pravega").options(**options).load(),
        lambda: spark.range(1).write.format("pravega").options(**options).mode("append").save(),
        lambda: spark.sql(
            "CREATE TEMPORARY VIEW v USING pravega OPTIONS "
            + "("
            + ", ".join(f"'{key}'='{text}'" for key, text in options.items())
            + ")"
        ),
    ]
    options = {"scope": fresh_name, "stream": "s", "security.credentials": "os:abort"}
    for read in reading:
        with pytest.raises(Exception, match=r"'security.credentials' cannot be a (read|write) option"):
            read()
