"""The archive of Spark's classes: recorded by a real session, used by others, harmless where it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.class_archive import JAVA_OPTIONS_CONF, ClassArchive, driver_options
from pyspark_pravega.errors import SetupError
from pyspark_pravega.launch import find_spark_home, plan

SPARK_HOME = find_spark_home(os.environ)
SHARED = "-XX:SharedArchiveFile="
# Prints how many of the driver's first classes were taken from the archive, and whether the session works.
PROGRAM = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark_pravega import configure
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.driver.extraJavaOptions", f"-Xlog:class+load:file={sys.argv[1]}")
spark = configure(builder, controller_uri="tcp://localhost:1").getOrCreate()
assert spark.sql("SELECT count(*) FROM range(10)").collect()[0][0] == 10
print(open(sys.argv[1]).read().count("source: shared objects file (top)"))
"""


def placed(cache: Path, content: bytes = b"") -> ClassArchive:
    """The archive's place in a cache, with a file that holds `content`."""
    archive = ClassArchive.of(SPARK_HOME, {**os.environ, "XDG_CACHE_HOME": str(cache)})
    assert archive is not None
    archive.file.parent.mkdir(parents=True)
    archive.file.write_bytes(content)
    return archive


def command(*arguments: str, cache: Path, **environment: str) -> tuple[str, ...]:
    given = {**os.environ, "XDG_CACHE_HOME": str(cache), **environment}
    return plan("sql", arguments, catalog="pravega", settings={}, environment=given).command


def classes_from_the_archive(tmp_path: Path, cache: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "classes.log")],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        text=True,
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "archive" not in done.stderr
    return int(done.stdout)


def test_a_session_starts_from_what_another_one_recorded(tmp_path: Path) -> None:
    """The archive is the one of `make setup`, or is recorded here where there is none."""
    archive = ClassArchive.of(SPARK_HOME, os.environ)
    assert archive is not None
    if not archive.file.is_file():
        subprocess.run([sys.executable, "-m", "pyspark_pravega", "class-archive"], check=True, timeout=280)
    assert archive.file.stat().st_size > 50_000_000
    assert classes_from_the_archive(tmp_path, archive.file.parents[2]) > 5000


def test_an_archive_that_java_cannot_use_changes_nothing(tmp_path: Path) -> None:
    placed(tmp_path / "cache", b"garbage" * 1000)
    assert classes_from_the_archive(tmp_path, tmp_path / "cache") == 0


def test_commands_start_from_it_unless_the_user_chose(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert not any(SHARED in part for part in command(cache=cache))
    ours = f"{JAVA_OPTIONS_CONF}={placed(cache).options()}"
    assert SHARED in ours and ours in command(cache=cache)
    for chosen in (
        ("--conf", f"{JAVA_OPTIONS_CONF}=-Xss8m"),
        ("--conf", "spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit=/tmp/x"),
        ("--driver-java-options", "-Xshare:off"),
        ("--deploy-mode", "cluster"),
        ("--conf", "spark.submit.deployMode=cluster"),
    ):
        assert ours not in command(*chosen, cache=cache), chosen
    assert ours in command("--conf", "spark.driver.extraJavaOptions=-Xss8m", cache=cache)


def test_it_belongs_to_one_spark_and_one_java(tmp_path: Path) -> None:
    home, other = tmp_path / "spark", tmp_path / "java"
    (home / "jars").mkdir(parents=True)
    (home / "jars/a.jar").write_bytes(b"a")
    (other / "bin").mkdir(parents=True)
    (other / "bin/java").touch()

    def file(**environment: str) -> Path:
        found = ClassArchive.of(home, {**os.environ, **environment})
        assert found is not None
        return found.file

    first = file()
    assert first == file()
    assert first != file(JAVA_HOME=str(other))
    (home / "jars/a.jar").write_bytes(b"ab")
    assert first != file()
    assert ClassArchive.of(home, {"PATH": str(tmp_path)}) is None
    assert driver_options(home, {"PATH": str(tmp_path)}, "", "client") == ""


def test_a_cache_whose_path_has_a_space_is_not_used(tmp_path: Path) -> None:
    placed(tmp_path / "my cache")
    assert not any(SHARED in part for part in command(cache=tmp_path / "my cache"))


def test_it_is_deleted_on_request(tmp_path: Path) -> None:
    archive = placed(tmp_path / "cache")
    delete = [sys.executable, "-m", "pyspark_pravega", "class-archive", "--delete"]
    given = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    shown = [subprocess.run(delete, env=given, text=True, capture_output=True, check=True).stdout for _ in range(2)]
    assert shown == [f"Deleted {archive.file}\n", "There is none.\n"]
    assert not archive.file.exists()


def test_without_java_none_is_recorded(tmp_path: Path) -> None:
    from pyspark_pravega.class_archive import record

    with pytest.raises(SetupError, match="No Java was found: set JAVA_HOME"):
        record(SPARK_HOME, {"PATH": str(tmp_path)})
