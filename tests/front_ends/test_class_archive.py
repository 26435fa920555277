"""The archive of Spark's classes: recorded by a real session, used by others, harmless where it does not fit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.server_class_archive import ClassArchive
from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES, JAVA_OPTIONS_CONF
from pyspark_pravega.spark.class_archive import PLACE, find_archive, find_attempt
from pyspark_pravega.spark.driver_options import GROWS_LATE, choose_driver_options
from pyspark_pravega.spark.home import find_spark_home
from pyspark_pravega.spark.launch import plan

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
runtime = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
assert sys.argv[2] in list(runtime.getInputArguments())
print(open(sys.argv[1]).read().count("source: shared objects file (top)"))
"""


def place_archive(cache: Path, content: bytes = b"") -> ClassArchive:
    """Write `content` where the archive has its place in a cache."""
    archive = find_archive(SPARK_HOME, {**os.environ, "XDG_CACHE_HOME": str(cache)})
    archive.file.parent.mkdir(parents=True)
    archive.file.write_bytes(content)
    return archive


def run_command(*arguments: str, cache: Path, name: str = "sql", **environment: str) -> tuple[str, ...]:
    given = {**os.environ, "SPARK_SUBMIT_OPTS": "", "XDG_CACHE_HOME": str(cache), **environment}
    return plan(name, arguments, catalog="pravega", settings={}, environment=given).command


def record(check: bool = False, **environment: str) -> str:
    """Record an archive in an environment, and return what is said."""
    program = [sys.executable, "-m", "pyspark_pravega.spark.class_archive_recording"]
    done = subprocess.run(program, env={**os.environ, **environment}, text=True, capture_output=True, timeout=280)
    assert not check or not done.returncode, done.stderr
    return done.stdout + done.stderr


def classes_from_the_archive(tmp_path: Path, cache: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "classes.log"), GROWS_LATE],
        env={**os.environ, "SPARK_SUBMIT_OPTS": "", "XDG_CACHE_HOME": str(cache)},
        text=True,
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "archive" not in done.stderr
    return int(done.stdout)


def test_a_session_starts_from_what_another_one_recorded(tmp_path: Path) -> None:
    """The archive is the one of `make setup`, or is recorded here where there is none."""
    archive = find_archive(SPARK_HOME, os.environ)
    if not archive.file.is_file():
        record(check=True)
    assert archive.file.stat().st_size > 50_000_000
    assert classes_from_the_archive(tmp_path, archive.file.parents[2]) > 5000


@pytest.mark.long
def test_an_archive_that_java_cannot_use_changes_nothing(tmp_path: Path) -> None:
    place_archive(tmp_path / "cache", b"garbage" * 1000)
    assert classes_from_the_archive(tmp_path, tmp_path / "cache") == 0


def test_commands_start_from_it_unless_the_user_chose(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    ours = f"{JAVA_OPTIONS_CONF}={' '.join([GROWS_LATE, *place_archive(cache).options()])}"
    assert SHARED in ours and ours in run_command(cache=cache)
    for chosen in (
        ("--conf", f"{JAVA_OPTIONS_CONF}=-Xss8m"),
        ("--conf", "spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit=/tmp/x"),
        ("--driver-java-options", "-Xshare:off"),
        ("--deploy-mode", "cluster"),
        ("--conf", "spark.submit.deployMode=cluster"),
        ("--driver-class-path", "/tmp/first.jar"),
    ):
        assert not any(SHARED in part for part in run_command(*chosen, cache=cache)), chosen
    for variable in JAVA_OPTION_VARIABLES:
        chosen_by = {variable: "-Xss8m -XX:+RecordDynamicDumpInfo"}
        assert not any(SHARED in part for part in run_command(cache=cache, **chosen_by)), variable
    for name in ("thriftserver", "pipelines"):
        assert not any(SHARED in part for part in run_command(cache=cache, name=name)), name
    assert ours in run_command("--conf", "spark.driver.extraJavaOptions=-Xss8m", cache=cache)


def test_sessions_start_from_it_unless_the_user_chose(tmp_path: Path) -> None:
    """Each line is what `configure` has made of the driver's options, in a process where no driver runs."""
    archive = place_archive(tmp_path / "cache")
    program = """
import os
from pyspark.sql import SparkSession
from pyspark_pravega import configure
def options(submit="", **confs):
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit
    builder = SparkSession.Builder()
    builder._options = {"spark.driver." + key: text for key, text in confs.items()}
    configure(builder, controller_uri="tcp://localhost:1")
    print(builder._options.get("spark.driver.defaultJavaOptions", "none"))
options()
options(extraJavaOptions="-Xss8m")
options(defaultJavaOptions="-Xss8m")
options(extraJavaOptions="-Xshare:off")
options(extraClassPath="/tmp/first.jar")
options("--driver-java-options -Xshare:off pyspark-shell")
"""
    given = {**os.environ, "SPARK_SUBMIT_OPTS": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], env=given, text=True, capture_output=True)
    with_archive = " ".join([GROWS_LATE, *archive.options()])
    assert done.stdout.splitlines() == [with_archive] * 2 + ["-Xss8m"] + [GROWS_LATE] * 3, done.stderr


def test_it_belongs_to_one_spark_and_one_java(tmp_path: Path) -> None:
    home, other = tmp_path / "spark", tmp_path / "java"
    (home / "jars").mkdir(parents=True)
    (home / "jars/a.jar").write_bytes(b"a")
    (other / "bin").mkdir(parents=True)
    (other / "bin/java").touch(0o755)

    def file(**environment: str) -> Path:
        return find_archive(home, {**os.environ, **environment}).file

    first = file()
    assert first == file()
    assert first != file(JAVA_HOME=str(other))
    (home / "jars/a.jar").write_bytes(b"ab")
    assert first != file()
    with pytest.raises(SetupError, match="no Java found"):
        find_archive(home, {"PATH": str(tmp_path)})
    assert choose_driver_options(home, {"PATH": str(tmp_path)}, lambda option, conf: "") == GROWS_LATE


@pytest.mark.parametrize("name", ["my cache", "o'cache", "a:b"])
def test_a_cache_whose_path_java_could_not_read_is_not_used(tmp_path: Path, name: str) -> None:
    file = place_archive(tmp_path / "plain").file
    (tmp_path / name / "pyspark-pravega").mkdir(parents=True)
    file.parent.rename(tmp_path / name / "pyspark-pravega" / "classes")
    assert not any(SHARED in part for part in run_command(cache=tmp_path / name))
    said = record(XDG_CACHE_HOME=str(tmp_path / name))
    assert re.search("cannot be passed to Spark's Java.*Set XDG_CACHE_HOME", said), said


def test_a_cache_that_cannot_be_looked_into_is_not_used(tmp_path: Path) -> None:
    """A file stands where its directory would be, so that a look at the archive fails, whoever looks."""
    (tmp_path / "pyspark-pravega").mkdir()
    (tmp_path / "pyspark-pravega" / "classes").touch()
    assert not any(SHARED in part for part in run_command(cache=tmp_path))
    assert "cannot be written" in record(XDG_CACHE_HOME=str(tmp_path))


def test_files_in_front_of_sparks_jars_rule_it_out(tmp_path: Path) -> None:
    """Nothing is started then: the session would use what these files configure."""
    (tmp_path / "hive-site.xml").touch()
    said = record(XDG_CACHE_HOME=str(tmp_path / "cache"), SPARK_CONF_DIR=str(tmp_path))
    assert f"while '{tmp_path}', which Spark puts in front" in said
    run_command(cache=tmp_path / "cache", SPARK_CONF_DIR=str(tmp_path))
    assert not (tmp_path / "cache").exists()


def test_a_session_that_fails_is_told(tmp_path: Path) -> None:
    """Java does not take this option."""
    options = "-XX:NoSuchOption=1 -Djavax.net.ssl.trustStorePassword=geheim"
    said = record(XDG_CACHE_HOME=str(tmp_path), JAVA_TOOL_OPTIONS=options)
    assert "Spark's classes were not archived." in said and "NoSuchOption" in said
    assert not list(tmp_path.rglob("*.jsa"))


def test_without_java_none_is_recorded(tmp_path: Path) -> None:
    assert "no Java found: JAVA_HOME is not set and PATH has no java" in record(PATH=str(tmp_path), JAVA_HOME="")


def test_it_has_another_place_or_none(tmp_path: Path) -> None:
    place_archive(tmp_path / "cache")
    assert any(SHARED in part for part in run_command(cache=tmp_path / "cache"))
    assert not any(SHARED in part for part in run_command(cache=tmp_path / "cache", **{PLACE: "off"}))
    elsewhere = {**os.environ, PLACE: str(tmp_path / "image")}
    archive = find_archive(SPARK_HOME, elsewhere)
    assert archive.file.parent == tmp_path / "image" / "classes"


@pytest.mark.long
def test_the_first_session_has_one_recorded_for_later_ones(tmp_path: Path) -> None:
    """Once: the second session finds that it is being recorded."""
    cache, began = tmp_path / "cache", time.monotonic()
    for _ in range(2):
        assert not any(SHARED in part for part in run_command(cache=cache))
    archive = find_archive(SPARK_HOME, {**os.environ, "XDG_CACHE_HOME": str(cache)})
    [attempt] = (cache / "pyspark-pravega" / "classes").iterdir()
    assert attempt == find_attempt(archive)
    while attempt.exists():
        assert time.monotonic() - began < 280, attempt.read_text()
        time.sleep(0.5)
    assert any(SHARED in part for part in run_command(cache=cache))
    assert classes_from_the_archive(tmp_path, cache) > 5000
