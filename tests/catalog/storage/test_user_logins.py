"""Sessions of one server that log in as their own users: each has the rights of its user in Pravega, and no others."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_pravega.catalog.storage import user_logins
from pyspark_pravega.catalog.storage.user_logins import UserLogins
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.test_jdbc import answers
from tests.spark_servers import JDBC, free_port, listening

USERS = ("admin", "writer", "reader", "nobody", "single")


def write_logins(path: Path, entries: object) -> Path:
    path.touch(mode=0o600)
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture(scope="module")
def logins(secure_cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("logins") / "logins.json"
    return write_logins(file, {user: secure_cluster.users[user] for user in USERS})


@pytest.fixture(scope="module")
def shadows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with modules of the names of others, which leave a file there when they are imported."""
    directory = tmp_path_factory.mktemp("shadows")
    for name in ("httpx", "grpc", "pyarrow"):
        (directory / f"{name}.py").write_text(f"open({str(directory / name)!r}, 'w')\nraise SystemExit\n")
    return directory


@pytest.fixture(scope="module")
def url(
    secure_cluster: ClusterInfo, logins: Path, shadows: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server for users, one of whom has added files before the catalog service starts."""
    with thrift_server(secure_cluster, logins, tmp_path_factory.mktemp("users")) as url:
        added = [("query", f"ADD FILE '{file}'") for file in sorted(shadows.iterdir())]
        assert not any(answers(f"{url}/;user=nobody", *added))
        yield url


@contextmanager
def thrift_server(secure_cluster: ClusterInfo, logins: Path, directory: Path, **more: str) -> Iterator[str]:
    """A Thrift server whose own login is the admin's, and whose sessions have those of the file."""
    prefix = "spark.sql.catalog.pravega"
    confs = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}.controller-uri": secure_cluster.controller_uri,
        f"{prefix}.schema-registry-uri": str(secure_cluster.registry_uri),
        f"{prefix}.security.trust-store": str(secure_cluster.ca_file),
        f"{prefix}.security.username": "admin",
        f"{prefix}.security.password": "${env:TEST_PASSWORD}",
        f"{prefix}.security.userLogins": str(logins),
        **more,
    }
    options = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    port = free_port()
    hive = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    command = ["thriftserver", "--master", "local[2]", *options, *hive]
    environment = {
        "TEST_PASSWORD": secure_cluster.users["admin"],
        # The environment's login is the admin's too: no user's query may have it.
        "PRAVEGA_CONTROLLER_URI": secure_cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(secure_cluster.registry_uri),
        "PRAVEGA_TRUST_STORE": str(secure_cluster.ca_file),
    }
    with listening(port, command, environment, directory, ready=f"{JDBC}{port}\n"):
        yield f"jdbc:hive2://127.0.0.1:{port}"


class Sessions:
    """Runs statements, each as (user, SQL), in one session per user that stays open; returns their rows or errors."""

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, *statements: tuple[str, str]) -> list[str]:
        calls = []
        for user, statement in statements:
            calls += [("connect", f"{self._url}/;user={user}"), ("query", statement)]
        found = answers(f"{self._url}/;user=admin", *calls)
        return ["; ".join("\t".join(row) for row in rows) for rows in found[1::2]]


@pytest.fixture(scope="module")
def sessions(url: str) -> Sessions:
    return Sessions(url)


@pytest.fixture(scope="module")
def scope(sessions: Sessions) -> Iterator[str]:
    """A namespace with tables that no test writes to."""
    name = f"t{uuid.uuid4().hex[:12]}"
    made = sessions.run(
        ("admin", f"CREATE NAMESPACE pravega.{name}"),
        ("admin", f"CREATE TABLE pravega.{name}.secret (a INT) USING pravega"),
        ("admin", f"CREATE TABLE pravega.{name}.single (a INT) USING pravega"),
        ("admin", f"INSERT INTO pravega.{name}.secret VALUES (1), (2)"),
        ("admin", f"INSERT INTO pravega.{name}.single VALUES (5)"),
        ("admin", f"CREATE VIEW pravega.{name}.v AS SELECT sum(a) AS s FROM pravega.{name}.secret"),
    )
    assert not any("error" in answer for answer in made), made
    yield name
    sessions.run(("admin", f"DROP NAMESPACE pravega.{name} CASCADE"))


def test_each_user_has_their_own_rights(sessions: Sessions, scope: str) -> None:
    """Also right after another one has done what they may not, in every kind of statement."""
    secret, single, written = (f"pravega.{scope}.{name}" for name in ("secret", "single", "written"))
    by_options = f"SELECT count(*) FROM pravega.`{scope}`.secret"
    asked = [
        ("admin", f"SELECT sum(a) FROM {secret}", "3"),
        ("reader", f"SELECT sum(a) FROM {secret}", "3"),
        ("single", f"SELECT sum(a) FROM {secret}", "PRAVEGA_PERMISSION_DENIED"),
        ("nobody", f"SELECT sum(a) FROM {secret}", "PRAVEGA_PERMISSION_DENIED"),
        ("single", f"SELECT sum(a) FROM {single}", "5"),
        ("admin", by_options, "2"),
        ("nobody", by_options, "PRAVEGA_PERMISSION_DENIED"),
        ("admin", f"SELECT s FROM pravega.{scope}.v", "3"),
        ("single", f"SELECT s FROM pravega.{scope}.v", "PRAVEGA_PERMISSION_DENIED"),
        ("admin", f"CREATE TABLE {written} (a INT) USING pravega", ""),
        ("admin", f"INSERT INTO {written} VALUES (3)", ""),
        ("reader", f"INSERT INTO {written} VALUES (4)", "PRAVEGA_PERMISSION_DENIED"),
        ("reader", f"DROP TABLE {secret}", "PRAVEGA_PERMISSION_DENIED"),
        ("reader", f"CALL pravega.system.seal_stream('{scope}.secret')", "PRAVEGA_PERMISSION_DENIED"),
        ("single", f"DESCRIBE TABLE {secret}", "PRAVEGA_PERMISSION_DENIED"),
        ("reader", f"SELECT sum(a) FROM {written}", "3"),
        ("stranger", f"SELECT sum(a) FROM {secret}", "User 'stranger' has no login in 'security.user-logins'"),
        ("stranger", "SHOW NAMESPACES IN pravega", "User 'stranger' has no login in 'security.user-logins'"),
        (
            "admin",
            f"CALL pravega.system.start_query(name => '{scope}.q', query => 'SELECT a FROM STREAM {secret}', "
            f"into => '{single}', checkpoint => '/tmp/never')",
            "start_query cannot be used with 'security.user-logins'",
        ),
        *(
            ("admin", f"CALL pravega.system.{call}", "Savepoints are refused with 'security.user-logins'")
            for call in (
                f"create_savepoint(savepoint => '/tmp/never', checkpoint => '/tmp/never', into => '{scope}.single')",
                "list_savepoints(directory => '/tmp')",
                "restore_savepoint(savepoint => '/tmp/never')",
            )
        ),
    ]
    answers = sessions.run(*((user, statement) for user, statement, _ in asked))
    for (user, statement, wanted), answer in zip(asked, answers, strict=True):
        assert (wanted in answer) if wanted else answer == "", (user, statement, answer)


def test_the_environment_is_not_for_users(sessions: Sessions, scope: str) -> None:
    """A statement by options has the catalog's login for its user, or its own; a session has no way to undo that."""
    options = f"'scope'='{scope}', 'stream'='secret'"
    view = f"CREATE OR REPLACE TEMPORARY VIEW v USING pravega OPTIONS ({options}"
    unset = "RESET `spark.sql.catalog.pravega.security.user-logins`"
    answers = sessions.run(
        ("single", f"{view})"),
        ("single", f"{view}, 'retry-timeout'='5s')"),
        ("admin", f"{view}, 'request-timeout'='20s')"),
        ("stranger", f"{view}, 'request-timeout'='20s')"),
        ("single", unset),
    )
    assert ["PRAVEGA_PERMISSION_DENIED" in answer for answer in answers] == [True, True, False, False, False], answers
    assert answers[2] == "" and "User 'stranger' has no login" in answers[3], answers


def test_the_service_imports_no_file_of_a_session(sessions: Sessions, scope: str, shadows: Path) -> None:
    """The session of a user without rights has added them; the service has the rights of all."""
    assert sessions.run(("reader", f"SELECT sum(a) FROM pravega.{scope}.secret")) == ["3"]
    assert {file.suffix for file in shadows.iterdir()} == {".py"}


def test_a_session_that_all_connections_share_has_no_user(
    secure_cluster: ClusterInfo, logins: Path, tmp_path: Path
) -> None:
    single = {"spark.sql.hive.thriftServer.singleSession": "true"}
    with thrift_server(secure_cluster, logins, tmp_path, **single) as url:
        listed = ("query", "SHOW NAMESPACES IN pravega")
        view = ("query", "CREATE TEMPORARY VIEW v USING pravega OPTIONS ('scope'='a', 'stream'='b')")
        found = answers(f"{url}/;user=admin", listed, view, ("connect", f"{url}/;user=reader"), listed)
    for [(_, text)] in (found[0], found[1], found[3]):
        assert "Spark does not tell whose session this is, so it has no rights" in text, text


def test_a_session_that_begins_in_a_namespace(url: str, scope: str) -> None:
    shown = answers(
        f"{url}/pravega.{scope};user=reader",
        ("query", "SELECT sum(a) FROM secret"),
        ("connect", f"{url}/;user=reader"),
        ("query", f"SELECT sum(a) FROM pravega.{scope}.secret"),
    )
    assert shown == [[("3",)], [], [("3",)]]


def test_files_of_logins(tmp_path: Path, secure_client_config: Callable[..., ClientConfig]) -> None:
    token = {"auth-type": "Bearer", "auth-token": "abc"}
    file = write_logins(tmp_path / "logins.json", {"reader": "secret-1", "robot": token, "odd": 5})
    logins = UserLogins()
    assert logins.find(str(file), "reader").credentials.authorization() == "Basic cmVhZGVyOnNlY3JldC0x"
    assert logins.find(str(file), "robot").credentials.authorization() == "Bearer abc"
    assert "secret-1" not in repr(logins.find(str(file), "reader"))
    before, times = logins.find(str(file), "reader"), file.stat()
    write_logins(file, {"reader": "secret-1", "another": "x"})
    assert logins.find(str(file), "reader") == before  # so its connections stay
    write_logins(file, {"reader": "secret-2"})
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert logins.find(str(file), "reader").state != before.state
    assert before.state not in repr(before)
    for user, message in (("robot", "User 'robot' has no login"), ("", "does not tell whose session this is")):
        with pytest.raises(AuthenticationError, match=message):
            logins.find(str(file), user)
    write_logins(file, {"odd": 5})
    with pytest.raises(InvalidOptionError, match="neither a password nor an object with auth-token and auth-type"):
        logins.find(str(file), "odd")
    file.chmod(0o640)
    with pytest.raises(InvalidOptionError, match="may be read by others; run: chmod 600"):
        logins.find(str(file), "reader")
    file.chmod(0o600)
    file.write_text('{"reader": "secret-3"')
    with pytest.raises(InvalidOptionError, match="is not a JSON object") as caught:
        logins.find(str(file), "reader")
    assert "secret-3" not in str(caught.value) and caught.value.__cause__ is None
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        logins.find(str(tmp_path / "missing.json"), "reader")


def test_plug_ins_of_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "company_logins.py").write_text(
        "class Token:\n    def __init__(self, user): self.user = user; self.asked = 0\n"
        "    def authorization(self):\n        self.asked += 1\n        return f'Bearer {self.user}-{self.asked}'\n"
        "def find(user):\n    if user == 'broken': raise ValueError('the secret of the plug-in')\n"
        "    return None if user == 'nobody' else 5 if user == 'odd' else Token(user)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    logins, place = UserLogins(), "company_logins:find"
    assert logins.find(place, "reader").credentials.authorization() == "Bearer reader-1"
    # The same object is asked again, for each request.
    assert logins.find(place, "reader").credentials.authorization() == "Bearer reader-2"
    assert logins.find(place, "writer").credentials.authorization() == "Bearer writer-1"
    # After a while the plug-in is asked again: it may give a new object, an equal one, or none.
    plug_in, before = sys.modules["company_logins"], logins.find(place, "writer")
    monkeypatch.setattr(user_logins, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(plug_in.Token, "__eq__", lambda one, other: one.user == other.user)
    assert logins.find(place, "writer") == before and logins.find(place, "writer").state == before.state
    monkeypatch.setattr(plug_in.Token, "__eq__", object.__eq__)
    assert logins.find(place, "writer").state != before.state
    monkeypatch.setattr(plug_in, "find", lambda user: None)
    with pytest.raises(AuthenticationError, match="User 'writer' has no login"):
        logins.find(place, "writer")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AuthenticationError, match="User 'nobody' has no login"):
        logins.find(place, "nobody")
    with pytest.raises(InvalidOptionError, match="has no method authorization"):
        logins.find(place, "odd")
    with pytest.raises(AuthenticationError, match=r"failed for user 'broken' \(ValueError\)") as caught:
        logins.find(place, "broken")
    assert "secret of the plug-in" not in str(caught.value)
