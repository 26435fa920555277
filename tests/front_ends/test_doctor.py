"""The doctor: nothing to complain of on sound servers, and advice for everything that can be wrong."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.registry.registry_types import Compatibility, GroupProperties
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.doctor import CheckResult, examine, greet, summarize
from pyspark_pravega.local.state import ClusterInfo

GIVEN_UP_SOON = {"retry-timeout": "2s"}
"""For tests in which no server answers."""
NO_SERVERS = {name: text for name, text in os.environ.items() if not name.lower().startswith("pravega")}


def examine_environment(settings: Mapping[str, str] | None = None, **environment: str) -> dict[str, CheckResult]:
    return {finding.subject: finding for finding in examine(settings or {}, {**NO_SERVERS, **environment})}


def settings_of(cluster: ClusterInfo) -> dict[str, str]:
    settings = {"controller-uri": cluster.controller_uri, "schema-registry-uri": str(cluster.registry_uri)}
    if cluster.ca_file:
        settings["security.trust-store"] = cluster.ca_file
    return settings


def test_all_is_well(cluster: ClusterInfo) -> None:
    findings = examine_environment({**settings_of(cluster), **_login_of_the_environment()})
    assert [finding for finding in findings.values() if not finding.good] == []
    assert set(findings) == {
        "Python", "Packages", "Spark", "Java", "Adapter", "Native decoder", "Class archive",
        "Python of Spark's workers", "Controller", "Segment store", "Schema registry",
    }  # fmt: skip


def test_what_rules_an_archive_of_classes_out_is_told(tmp_path: Path) -> None:
    confs = tmp_path / "conf"
    confs.mkdir()
    assert "holds files" not in examine_environment(SPARK_CONF_DIR=str(confs))["Class archive"].text
    (confs / "hive-site.xml").touch()
    found = examine_environment(SPARK_CONF_DIR=str(confs))["Class archive"]
    assert found.good and found.text.startswith("not used. ") and f"while '{confs}'" in found.text
    found = examine_environment(XDG_CACHE_HOME=str(tmp_path / "my cache"))["Class archive"]
    assert found.good and found.text.startswith("not used. ") and "Set XDG_CACHE_HOME to another one" in found.text


def _login_of_the_environment() -> dict[str, str]:
    names = {"security.auth-type": "pravega_client_auth_method", "security.auth-token": "pravega_client_auth_token"}
    return {key: os.environ[name] for key, name in names.items() if name in os.environ}


def test_a_secured_cluster(secure_cluster: ClusterInfo) -> None:
    for user in ("admin", "nobody"):
        login = {"security.username": user, "security.password": secure_cluster.users[user]}
        findings = examine_environment({**settings_of(secure_cluster), **login})
        assert findings["Controller"].good and findings["Schema registry"].good, findings
        # Pravega's own streams are enough for one who may see them.
        said = "greets" if user == "admin" else "not checked, because there is no stream that this user may read"
        assert findings["Segment store"].good and findings["Segment store"].text.endswith(said), findings
        assert findings["Controller"].sure is findings["Segment store"].sure is (user == "admin")
        end = "All is well." if user == "admin" else "No problem was found, but 2 things could not be tried."
        assert summarize([*findings.values()]) == end


def test_what_is_counted_is_what_users_see(
    quick_cluster: ClusterInfo, quick_config: ClientConfig, quick_scope: str
) -> None:
    """Scopes without Pravega's own, which SHOW NAMESPACES hides too, and the schema groups of all of them."""
    settings = settings_of(quick_cluster)
    with connect(quick_config) as pravega:
        pravega.registry(quick_scope).create_group("sensor", GroupProperties("Json", Compatibility("AllowAny")))

        def counts() -> tuple[str, str]:
            scopes = [name for name in pravega.controller.list_scopes() if not name.startswith("_")]
            groups = sum(len(pravega.registry(name).groups()) for name in scopes)
            return (f"{len(scopes)} scope" + "s" * (len(scopes) > 1), f"{groups} schema group" + "s" * (groups > 1))

        before = None
        while before != (after := counts()):  # a few other tests make scopes there
            before, findings = after, examine_environment(settings)
    scopes, groups = after
    assert findings["Controller"].text.endswith(f"answers: {scopes}")
    assert findings["Schema registry"].text.endswith(f"answers: {groups}")


def test_a_scheme_that_the_servers_do_not_speak(cluster: ClusterInfo, secure_cluster: ClusterInfo) -> None:
    plain, secure = settings_of(cluster), settings_of(secure_cluster)
    assert plain["controller-uri"].startswith("tcp://") and secure["controller-uri"].startswith("tls://")
    tls = {key: text.replace("tcp://", "tls://").replace("http://", "https://") for key, text in plain.items()}
    no_tls = {key: text.replace("tls://", "tcp://").replace("https://", "http://") for key, text in secure.items()}
    for given, right in ((tls, plain), (no_tls, secure)):
        findings = examine_environment({**given, **GIVEN_UP_SOON})
        assert f"write {right['controller-uri']}" in findings["Controller"].advice
        assert f"write {right['schema-registry-uri']}" in findings["Schema registry"].advice
        assert "2 problems" in summarize([*findings.values()])


def test_a_trust_store_that_is_no_pem(secure_cluster: ClusterInfo) -> None:
    connection = examine_environment({**settings_of(secure_cluster), "security.trust-store": __file__})["Connection"]
    assert not connection.good and "holds no PEM certificate" in connection.text


def test_a_wrong_password(secure_cluster: ClusterInfo) -> None:
    login = {"security.username": "admin", "security.password": "swordfish"}
    findings = examine_environment({**settings_of(secure_cluster), **login})
    for subject in ("Controller", "Schema registry"):
        assert not findings[subject].good and "PRAVEGA_AUTHENTICATION_FAILED" in findings[subject].text
        assert "pravega_client_auth_token" in findings[subject].advice
    assert "swordfish" not in str(findings)


def test_an_unknown_authority(secure_cluster: ClusterInfo) -> None:
    settings = settings_of(secure_cluster)
    del settings["security.trust-store"]
    findings = examine_environment(settings)
    for subject in ("Controller", "Schema registry"):
        assert not findings[subject].good and "PRAVEGA_TLS_FAILED" in findings[subject].text
        assert "PRAVEGA_TRUST_STORE" in findings[subject].advice


def test_nothing_listens() -> None:
    nowhere = {"controller-uri": "tcp://localhost:1", "schema-registry-uri": "http://localhost:1"}
    findings = examine_environment({**nowhere, **GIVEN_UP_SOON})
    for subject in ("Controller", "Schema registry"):
        assert not findings[subject].good and "Is the server running" in findings[subject].advice


@pytest.mark.parametrize("secure", [False, True])
def test_a_segment_store_that_cannot_be_reached(
    client_config: ClientConfig, secure_client_config: Callable[..., ClientConfig], secure: bool
) -> None:
    """It publishes an address that leads nowhere, a firewall swallows what is sent, or TLS is not trusted."""
    config = replace(secure_client_config() if secure else client_config, request_timeout=0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        closed = greet(Endpoint("127.0.0.1", port), config)
        silent.listen()
        swallowed = greet(Endpoint("127.0.0.1", port), config)
    for finding in (closed, swallowed):
        assert finding.subject == "Segment store" and not finding.good and str(port) in finding.text, finding
        assert "published.host" in finding.advice and "executor" in finding.advice
    if secure:
        with connect(config) as pravega:
            scope, name = "_system", next(iter(pravega.controller.list_streams("_system")))
            store = pravega.controller.segment_location(Stream(scope, name), 0)
        assert greet(store, replace(config, request_timeout=30)).good
        finding = greet(store, replace(config, trust_store=None, request_timeout=30))
        assert not finding.good and "PRAVEGA_TRUST_STORE" in finding.advice, finding


def test_no_address() -> None:
    controller = examine_environment()["Controller"]
    assert not controller.good and "pyspark-pravega local start" in controller.advice


def test_a_wrong_option() -> None:
    connection = examine_environment({"controller-uri": "ftp://h:1"})["Connection"]
    assert not connection.good and "ftp" in connection.text


@pytest.mark.parametrize("home", ["", "bin"])
def test_no_java(tmp_path: Path, home: str) -> None:
    (tmp_path / "bin").mkdir()
    java = examine_environment(JAVA_HOME=str(tmp_path) if home else "", PATH=str(tmp_path))["Java"]
    assert not java.good and "JAVA_HOME" in java.text


def test_an_old_java(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    finding = examine_environment(JAVA_HOME=str(tmp_path))["Java"]
    assert not finding.good and "is version 11; " in finding.text and "17, 21 or 25" in finding.text


def test_another_spark(tmp_path: Path) -> None:
    assert "Correct or unset SPARK_HOME" in examine_environment(SPARK_HOME=str(tmp_path))["Spark"].text
    for file in ("bin/spark-submit", "jars/spark-core_2.13-3.5.1.jar"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    spark = examine_environment(SPARK_HOME=str(tmp_path))["Spark"]
    assert not spark.good and spark.text.startswith("3.5.1") and "Unset SPARK_HOME" in spark.advice


def test_workers_that_lack_the_package(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    python = examine_environment(PYSPARK_PYTHON=str(bare))["Python of Spark's workers"]
    assert not python.good and "No module named 'pyspark_pravega'" in python.text and "PYSPARK_PYTHON" in python.advice
    assert "does not run" in examine_environment(PYSPARK_PYTHON="/nowhere/python")["Python of Spark's workers"].text
