"""The driver's heap: it grows late, unless the user has an opinion on it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pyspark_pravega.local.java import find_java
from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES
from pyspark_pravega.spark.driver_options import GROWS_LATE
from pyspark_pravega.spark.launch import plan


def is_growing_late(*arguments: str, name: str = "sql", **environment: str) -> bool:
    given = {**os.environ, **dict.fromkeys(JAVA_OPTION_VARIABLES, ""), **environment}
    command = plan(name, arguments, catalog="pravega", settings={}, environment=given).command
    return any(GROWS_LATE in part for part in command)


@pytest.mark.parametrize("name", ["sql", "submit", "pyspark", "thriftserver"])
def test_commands_start_a_heap_that_grows_late(name: str) -> None:
    assert is_growing_late(name=name)


@pytest.mark.parametrize(
    "chosen",
    [
        ("--driver-java-options", "-Xss8m -XX:+UseParallelGC"),
        ("--driver-java-options", '"-XX:+UseZGC"\t-Xss8m'),
        ("--driver-java-options", "-XX:MaxNewSize=1g"),
        ("--conf", "spark.driver.extraJavaOptions=-Xms2g"),
        ("--conf", "spark.driver.extraJavaOptions=-XX:GCTimeRatio=99"),
        ("--conf", "spark.driver.extraJavaOptions=-XX:MaxHeapFreeRatio=30"),
        ("--conf", "spark.driver.defaultJavaOptions=-Xss8m"),
        ("--deploy-mode", "cluster"),
    ],
)
def test_what_the_user_says_of_the_heap_stays(chosen: tuple[str, str]) -> None:
    assert not is_growing_late(*chosen)


def test_other_options_do_not_matter() -> None:
    assert is_growing_late("--driver-java-options", "-XX:+DisableExplicitGC -Dname=UseMyGC -Xlog:gc")


def test_a_file_of_options_counts(tmp_path: Path) -> None:
    """Spark puts its options in front of ours."""
    assert is_growing_late(SPARK_CONF_DIR=str(tmp_path))
    (tmp_path / "java-opts").write_text("-Xss8m\n-XX:+UseParallelGC\n")
    assert not is_growing_late(SPARK_CONF_DIR=str(tmp_path))


@pytest.mark.parametrize("variable", JAVA_OPTION_VARIABLES)
def test_so_does_what_the_environment_says(variable: str) -> None:
    assert not is_growing_late(**{variable: "-Xms1g"})
    assert is_growing_late(**{variable: "-Xss8m -Xlog:gc"})


def test_java_takes_the_option() -> None:
    """An option that Java does not know would keep every driver from starting."""
    java = find_java().executable
    done = subprocess.run([java, GROWS_LATE, "-XX:+PrintFlagsFinal", "-version"], text=True, capture_output=True)
    assert re.search(r"GCTimeRatio\s+= 3 ", done.stdout), done.stderr
