"""Archives of loaded classes: recorded by the first cluster, used by the next, harmless when damaged."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.directories import find_jar_directory
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.server_class_archive import ClassArchive, find_server_archive


@pytest.mark.faults  # two starts of a cluster, one of them without archives; other tests use what it leaves
def test_first_cluster_leaves_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = find_jar_directory()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "pyspark-pravega").mkdir()
    (tmp_path / "pyspark-pravega/jars").symlink_to(jars)
    reports: list[str] = []
    LocalCluster.start(tmp_path / "cluster", end_with_parent=True).stop(reports.append)
    assert any("once" in report for report in reports)
    archives = sorted((tmp_path / "pyspark-pravega/classes").iterdir())
    assert [archive.name.split("-")[0] for archive in archives] == ["pravega", "registry"]
    assert all(archive.stat().st_size > 1_000_000 for archive in archives)

    with LocalCluster.start(tmp_path / "cluster", end_with_parent=True) as second:
        command = Path(f"/proc/{second.state.processes['pravega'].pid}/cmdline").read_text()
        assert f"-XX:SharedArchiveFile={archives[0]}" in command
        assert second.state.recordings == {}


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_damaged_archive_is_ignored_by_java(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    archive = find_server_archive("server", java, [])
    archive.file.parent.mkdir(parents=True)
    archive.file.write_bytes(content)
    options = archive.options()
    assert options[0] == f"-XX:SharedArchiveFile={archive.file}"
    result = subprocess.run([java.executable, *options, "-version"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0] == java.build.splitlines()[0]


def test_archives_belong_to_one_java_and_class_path() -> None:
    java = find_java()
    first = find_server_archive("server", java, [Path("a.jar")])
    assert first == find_server_archive("server", java, [Path("a.jar")])
    assert first != find_server_archive("server", java, [Path("b.jar")])


def test_unused_archives_go(tmp_path: Path) -> None:
    recording = tmp_path / "recorded"
    recording.write_bytes(b"new")
    cache = tmp_path / "cache"
    cache.mkdir()
    for name, days in (("old", 40), ("recent", 2)):
        (cache / f"{name}.jsa").touch()
        then = time.time() - days * 24 * 3600
        os.utime(cache / f"{name}.jsa", (then, then))
    ClassArchive(cache / "server.jsa").keep(recording)
    assert {path.name for path in cache.iterdir()} == {"recent.jsa", "server.jsa"}
    assert (cache / "server.jsa").read_bytes() == b"new"
    ClassArchive(cache / "other.jsa").keep(tmp_path / "not recorded")
    assert not (cache / "other.jsa").exists()
