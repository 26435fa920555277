"""The jar cache, fed by the real Ivy from a repository made for the test."""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.jars import cache as jar_cache
from pyspark_pravega.local.jars import ivy
from pyspark_pravega.local.jars.lock_file import Artifact
from pyspark_pravega.local.java import Java, find_java

NO_JAVA = Java(Path("/nonexistent/java"), 17, "")
"""Fails the test if anything is run with it."""

CONTENTS = {f"lib-{letter}": letter.encode() * 1000 for letter in "abc"}


class Repository(http.server.ThreadingHTTPServer):
    """A Maven repository on this machine whose answers can be held up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requested: list[str] = []
        self.stalls_at: str | None = None
        self.stalled = threading.Event()
        self.released = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    def settings(self, path: Path) -> Path:
        """An Ivy settings file that names this repository."""
        path.write_text(
            f"""<ivysettings>
              <settings defaultResolver="mirror"/>
              <resolvers>
                <ibiblio name="mirror" m2compatible="true" usepoms="false"
                         root="http://127.0.0.1:{self.server_address[1]}/"/>
              </resolvers>
            </ivysettings>"""
        )
        return path


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: Repository

    def translate_path(self, path: str) -> str:
        return str(self.server.root / path.lstrip("/"))

    def send_head(self) -> object:  # type: ignore[override]
        self.server.requested.append(self.path)
        if self.command == "GET" and self.server.stalls_at and self.server.stalls_at in self.path:
            self.server.stalled.set()
            self.server.released.wait(60)
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def artifacts(tmp_path: Path) -> list[Artifact]:
    """Three jars, laid out as a Maven repository in `repository/`."""
    made = []
    for name, content in CONTENTS.items():
        artifact = Artifact("org.example", name, "1.0", None, len(content), hashlib.sha256(content).hexdigest())
        path = tmp_path / "repository/org/example" / name / "1.0" / artifact.file_name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        made.append(artifact)
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with Repository(tmp_path / "repository") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def test_fetch_verify_and_then_offline(tmp_path: Path, artifacts: list[Artifact], repository: Repository) -> None:
    settings, cache = repository.settings(tmp_path / "settings.xml"), tmp_path / "cache"
    reports: list[str] = []
    java = find_java()
    paths = jar_cache.provide_class_path(
        artifacts, java=java, report=reports.append, directory=cache, ivy_settings=settings
    )
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert "3 jars" in reports[0]
    assert not (cache / ".fetch").exists()

    # Complete: neither Ivy nor the repository is asked, whatever the settings.
    repository.requested.clear()
    again = jar_cache.provide_class_path(
        artifacts[::-1], java=NO_JAVA, report=reports.append, directory=cache, ivy_settings=tmp_path / "none.xml"
    )
    assert again == paths[::-1]
    assert repository.requested == []

    # Only what is missing is fetched.
    paths[1].unlink()
    jar_cache.provide_class_path(artifacts, java=java, report=reports.append, directory=cache, ivy_settings=settings)
    assert all("lib-b" in path for path in repository.requested)
    assert paths[1].read_bytes() == CONTENTS["lib-b"]


def test_settings_by_environment(
    tmp_path: Path, artifacts: list[Artifact], repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ivy.SETTINGS_VARIABLE, str(repository.settings(tmp_path / "settings.xml")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (path,) = jar_cache.provide_class_path(artifacts[:1], java=find_java(), report=lambda _: None)
    assert path == tmp_path / "xdg/pyspark-pravega/jars/org.example/lib-a-1.0.jar"


def test_changed_cached_file(tmp_path: Path, artifacts: list[Artifact]) -> None:
    path = tmp_path / "cache" / artifacts[0].relative_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1000)
    with pytest.raises(SetupError) as caught:
        jar_cache.provide_class_path(artifacts, java=NO_JAVA, report=lambda _: None, directory=tmp_path / "cache")
    found = hashlib.sha256(b"x" * 1000).hexdigest()
    for part in (str(path), artifacts[0].sha256, found, "delete the file"):
        assert part in str(caught.value)


def test_mirror_with_another_file(tmp_path: Path, artifacts: list[Artifact], repository: Repository) -> None:
    settings, cache = repository.settings(tmp_path / "settings.xml"), tmp_path / "cache"
    jar = tmp_path / "repository/org/example/lib-b/1.0/lib-b-1.0.jar"
    jar.write_bytes(b"y" * 1000)
    java = find_java()
    with pytest.raises(SetupError) as caught:
        jar_cache.provide_class_path(
            artifacts, java=java, report=lambda _: None, directory=cache, ivy_settings=settings
        )
    found = hashlib.sha256(b"y" * 1000).hexdigest()
    for part in ("lib-b-1.0.jar", artifacts[1].sha256, found, "--ivy-settings"):
        assert part in str(caught.value)
    assert not (cache / artifacts[1].relative_path).exists()

    # Ivy's own copy of the wrong file is gone too.
    jar.write_bytes(CONTENTS["lib-b"])
    jar_cache.provide_class_path(artifacts, java=java, report=lambda _: None, directory=cache, ivy_settings=settings)


def test_jar_that_the_mirror_lacks(tmp_path: Path, artifacts: list[Artifact], repository: Repository) -> None:
    (tmp_path / "repository/org/example/lib-c/1.0/lib-c-1.0.jar").unlink()
    with pytest.raises(SetupError, match=r"(?s)Ivy could not fetch.*lib-c.*--ivy-settings"):
        jar_cache.provide_class_path(
            artifacts,
            java=find_java(),
            report=lambda _: None,
            directory=tmp_path / "cache",
            ivy_settings=repository.settings(tmp_path / "settings.xml"),
        )


def test_settings_file_that_is_not_there(tmp_path: Path, artifacts: list[Artifact]) -> None:
    with pytest.raises(SetupError, match=r"none\.xml does not exist"):
        jar_cache.provide_class_path(
            artifacts,
            java=NO_JAVA,
            report=lambda _: None,
            directory=tmp_path / "cache",
            ivy_settings=tmp_path / "none.xml",
        )


_FETCH = """
import sys
from pathlib import Path
from pyspark_pravega.local import java
from pyspark_pravega.local.jars import cache, lock_file
cache.provide_class_path(lock_file.read_lock(Path(sys.argv[1])), java=java.find_java(), report=print,
                     directory=Path(sys.argv[2]), ivy_settings=Path(sys.argv[3]))
"""


@pytest.fixture
def fetch_command(tmp_path: Path, artifacts: list[Artifact], repository: Repository) -> list[str]:
    """A command that fetches the artifacts into `cache/`."""
    lock = tmp_path / "some.lock"
    lock.write_text("".join(f"{a.group}\t{a.name}\t{a.version}\t-\t{a.size}\t{a.sha256}\n" for a in artifacts))
    settings = repository.settings(tmp_path / "settings.xml")
    return [sys.executable, "-c", _FETCH, str(lock), str(tmp_path / "cache"), str(settings)]


def test_killed_fetch_leaves_nothing_that_is_trusted(
    tmp_path: Path, artifacts: list[Artifact], repository: Repository, fetch_command: list[str]
) -> None:
    repository.stalls_at = "lib-b-1.0.jar"
    # A group of its own, so that Ivy dies with it.
    with subprocess.Popen(fetch_command, start_new_session=True, stdout=subprocess.DEVNULL) as fetch:
        assert repository.stalled.wait(120)
        os.killpg(fetch.pid, signal.SIGKILL)
    cached = list((tmp_path / "cache").glob("org.example/*"))
    assert cached == []

    repository.stalls_at = None
    repository.released.set()
    subprocess.run(fetch_command, check=True, stdout=subprocess.DEVNULL)
    assert all(artifact.matches(tmp_path / "cache" / artifact.relative_path) for artifact in artifacts)


def test_two_processes_fetch_at_once(
    tmp_path: Path, artifacts: list[Artifact], repository: Repository, fetch_command: list[str]
) -> None:
    repository.stalls_at = "lib-a-1.0.jar"
    with subprocess.Popen(fetch_command, stdout=subprocess.DEVNULL) as first:
        assert repository.stalled.wait(120)
        with subprocess.Popen(fetch_command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert "waiting for another process" in second.stdout.readline()
            repository.released.set()
            assert second.stdout.read() == ""
    assert (first.returncode, second.returncode) == (0, 0)
    assert all(artifact.matches(tmp_path / "cache" / artifact.relative_path) for artifact in artifacts)
    assert sum("lib-a-1.0.jar" in path and path.endswith(".jar") for path in repository.requested) <= 2
