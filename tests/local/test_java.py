"""Which Java is taken, and what is said when there is none to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.java import MINIMUM_VERSION, find_java


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_java_of_this_machine() -> None:
    java = find_java()
    assert java.version >= MINIMUM_VERSION
    assert java.executable.is_file()


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    ours = _program(tmp_path / "home/bin/java", """echo 'openjdk version "21.0.2" 2024-01-16' >&2""")
    other = _program(tmp_path / "path/java", """echo 'openjdk version "17.0.1"' >&2""")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}
    assert find_java(environment).executable == ours
    assert find_java(environment).version == 21
    del environment["JAVA_HOME"]
    assert find_java(environment).executable == other


def test_no_java() -> None:
    with pytest.raises(SetupError, match="no Java found.*install a Java runtime 17"):
        find_java({"PATH": "/nonexistent"})


def test_java_home_without_java(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"JAVA_HOME is {tmp_path}.*not a program"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(("text", "version"), [("11.0.2", 11), ("1.8.0_202", 8)])
def test_java_too_old(tmp_path: Path, text: str, version: int) -> None:
    _program(tmp_path / "bin/java", f"""echo 'java version "{text}"' >&2""")
    with pytest.raises(SetupError, match=f"is version {version}; .*17 or newer"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_that_fails(tmp_path: Path) -> None:
    _program(tmp_path / "bin/java", "echo broken >&2; exit 3")
    with pytest.raises(SetupError, match=r"exit code 3\): broken"):
        find_java({"JAVA_HOME": str(tmp_path)})
