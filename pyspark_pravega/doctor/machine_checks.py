"""Check this machine: Python and packages, Spark, Java, the adapter, the native decoder, the Python of workers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata

from pyspark_pravega import __version__, native
from pyspark_pravega.errors import PravegaError, SetupError
from pyspark_pravega.local.java import find_java
from pyspark_pravega.spark.class_archive import check_class_path, find_archive, find_attempt
from pyspark_pravega.spark.home import (
    find_adapter_jar,
    find_spark_home,
    find_spark_version,
    get_release_line,
    read_adapter_manifest,
    read_jar_version,
)

from .check_result import CheckResult

_PROGRAM_TIMEOUT = 60.0  # seconds: another interpreter that hangs must not hang the doctor


def check_machine(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield one result after another, because slow checks take seconds."""
    yield from _check_python()
    yield from _check_packages()
    yield from _check_spark(environment)
    yield from _check_java(environment)
    yield from _check_jar()
    yield from _check_native()
    yield from _check_class_archive(environment)
    yield from _check_worker_python(environment)


def _check_python() -> Iterator[CheckResult]:
    version = platform.python_version()
    yield CheckResult(
        "Python",
        sys.version_info >= (3, 11),
        f"{version} ({sys.executable})",
        "" if sys.version_info >= (3, 11) else "pyspark-pravega needs Python 3.11 or newer.",
    )


def _check_packages() -> Iterator[CheckResult]:
    try:
        requirements = metadata.requires("pyspark-pravega") or []
    except metadata.PackageNotFoundError:
        yield CheckResult(
            "Packages",
            False,
            "pyspark-pravega is not installed here, only importable",
            "In a checkout, run `make setup` or `pip install .`; elsewhere install a wheel that `make wheel` made.",
        )
        return
    wrong, installed = [], []
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*([^;]*)(;.*extra.*)?", requirement)
        if match is None or match[3]:
            continue
        name, versions = match[1], match[2].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name}{versions} is missing")
            continue
        installed.append(f"{name} {version}")
        if not _is_within(version, versions):
            wrong.append(f"{name} is {version}, but must be {versions}")
    if wrong:
        advice = f"Run: {sys.executable} -m pip install --upgrade pyspark-pravega"
        yield CheckResult("Packages", False, "; ".join(wrong), advice)
    else:
        yield CheckResult("Packages", True, ", ".join(installed))


def _is_within(version: str, versions: str) -> bool:
    """Return whether a version is within the bounds; our own requirements use release numbers only."""
    have = _parse_version(version)
    for bound in filter(None, versions.split(",")):
        match = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", bound)
        if match is None:
            continue
        limit = _parse_version(match[2])
        if (match[1] == ">=" and have < limit) or (match[1] == "<" and have >= limit):
            return False
    return True


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))


def _check_spark(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    import pyspark

    own_version = pyspark.__version__
    try:
        home = find_spark_home(environment)
    except PravegaError as error:
        yield CheckResult("Spark", False, str(error), "")
        return
    version = read_jar_version(home) or "unknown"
    good = _parse_version(version)[:2] == _parse_version(own_version)[:2]
    yield CheckResult(
        "Spark",
        good,
        f"{version} ({home})",
        ""
        if good
        else f"The installed pyspark is {own_version}. Unset SPARK_HOME, or set it to a Spark {own_version}.",
    )


def _check_java(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    try:
        java = find_java(environment)
    except SetupError as error:
        yield CheckResult("Java", False, error.sentence, "")
        return
    yield CheckResult("Java", True, f"{java.build.splitlines()[0]} ({java.executable})")


def _check_jar() -> Iterator[CheckResult]:
    spark = find_spark_version(os.environ)
    try:
        manifest = read_adapter_manifest()
    except PravegaError as error:
        yield CheckResult("Adapter", False, str(error), "")
        return
    version, sparks = manifest.get("Implementation-Version", "?"), manifest.get("Spark-Versions", "?").split()
    good = version == __version__ and get_release_line(spark) in sparks
    yield CheckResult(
        "Adapter",
        good,
        f"{version} for Spark {' and '.join(sparks)} ({find_adapter_jar()})",
        ""
        if good
        else f"It must be {__version__} for Spark {spark}. Install pyspark-pravega again (in a checkout: `make jar`).",
    )


def _check_native() -> Iterator[CheckResult]:
    """Check the native decoder. Without it, decoding is slower, which is not an error."""
    status = native.get_status()
    yield CheckResult("Native decoder", True, status.text if status.active else f"{status.text}. {status.advice}")


def _check_class_archive(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Look for the archive of Spark's classes. Without it, Spark starts more slowly, which is not an error."""
    try:
        spark_home = find_spark_home(environment)
    except PravegaError:
        return  # reported before
    try:
        archive = find_archive(spark_home, environment)
        check_class_path(spark_home, environment)
    except PravegaError as error:
        yield CheckResult("Class archive", True, f"not used. {error}")
        return
    if archive is not None and archive.options():
        yield CheckResult("Class archive", True, str(archive.file))
    elif archive is not None:
        attempt = find_attempt(archive)
        when = f"is being made, or could not be ({attempt})" if attempt.exists() else "is made after the first session"
        yield CheckResult("Class archive", True, f"{when}. With it, sessions start in two thirds of the time")


_LOOK = """\
import pkgutil, pyspark_pravega, pyspark_pravega.client.controller, cramjam, pyarrow
print(pyspark_pravega.__version__, any(m.name == "pyspark_pravega" for m in pkgutil.iter_modules()))
"""


def _check_worker_python(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check PYSPARK_PYTHON, with which Spark looks for Python data sources and runs them."""
    python = environment.get("PYSPARK_PYTHON") or sys.executable
    advice = f"Unset PYSPARK_PYTHON, or set it to a Python that has pyspark-pravega {__version__}."
    try:
        shown = subprocess.run(
            [python, "-c", _LOOK],
            text=True,
            capture_output=True,
            timeout=_PROGRAM_TIMEOUT,
            env=dict(environment),
            cwd=tempfile.gettempdir(),  # `python -c` would find a checkout in the current directory
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield CheckResult("Python of Spark's workers", False, f"{python} does not run: {error}", advice)
        return
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no output"])[-1]
        yield CheckResult("Python of Spark's workers", False, f"{python}: {last}", advice)
    elif shown.stdout.split() != [__version__, "True"]:
        yield CheckResult(
            "Python of Spark's workers",
            False,
            f"{python}: pyspark-pravega {shown.stdout.split()[0]}, found by Spark's search: {shown.stdout.split()[1]}",
            advice,
        )
    else:
        yield CheckResult("Python of Spark's workers", True, f"{python} has pyspark-pravega {__version__}")
