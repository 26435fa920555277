"""Checks this machine: Python and packages, Spark, Java, the adapter, the native decoder, the Python of workers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from pyspark_pravega import __version__, native
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.spark.class_archive import check_class_path, find_archive
from pyspark_pravega.spark.home import (
    adapter_jar,
    adapter_manifest,
    find_spark_home,
    line_of,
    spark_version,
    version_of_jars,
)

from .finding import Finding

_OLDEST_JAVA = 17
_PROGRAM_TIMEOUT = 60.0  # seconds: another interpreter that hangs must not hang the doctor


def check_machine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield one finding after another, as the slow ones take seconds."""
    yield from _python()
    yield from _packages()
    yield from _spark(environment)
    yield from _java(environment)
    yield from _jar()
    yield from _native()
    yield from _class_archive(environment)
    yield from _worker_python(environment)


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(
        "Python",
        sys.version_info >= (3, 11),
        f"{version} ({sys.executable})",
        "" if sys.version_info >= (3, 11) else "pyspark-pravega needs Python 3.11 or newer.",
    )


def _packages() -> Iterator[Finding]:
    try:
        requirements = metadata.requires("pyspark-pravega") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "Packages",
            False,
            "pyspark-pravega is not installed here, only importable",
            "In a checkout, run `make setup` or `pip install .`; elsewhere install a wheel that `make wheel` made.",
        )
        return
    wrong, found = [], []
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)\s*([^;]*)(;.*extra.*)?", requirement)
        if match is None or match[3]:
            continue
        name, wanted = match[1], match[2].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name}{wanted} is missing")
            continue
        found.append(f"{name} {version}")
        if not _fits(version, wanted):
            wrong.append(f"{name} is {version}, needed is {wanted}")
    if wrong:
        advice = f"Run: {sys.executable} -m pip install --upgrade pyspark-pravega"
        yield Finding("Packages", False, "; ".join(wrong), advice)
    else:
        yield Finding("Packages", True, ", ".join(found))


def _fits(version: str, wanted: str) -> bool:
    """Compare release numbers, which is all that our own requirements use."""
    have = _numbers(version)
    for bound in filter(None, wanted.split(",")):
        match = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", bound)
        if match is None:
            continue
        limit = _numbers(match[2])
        if (match[1] == ">=" and have < limit) or (match[1] == "<" and have >= limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))


def _spark(environment: Mapping[str, str]) -> Iterator[Finding]:
    import pyspark

    wanted = pyspark.__version__
    try:
        home = find_spark_home(environment)
    except PravegaError as error:
        yield Finding("Spark", False, str(error), "")
        return
    version = version_of_jars(home) or "unknown"
    good = _numbers(version)[:2] == _numbers(wanted)[:2]
    yield Finding(
        "Spark",
        good,
        f"{version} ({home})",
        "" if good else f"The installed pyspark is {wanted}. Unset SPARK_HOME, or let it name a Spark {wanted}.",
    )


def _java(environment: Mapping[str, str]) -> Iterator[Finding]:
    advice = "Install a Java runtime 17, 21 or 25 and put it on PATH, or let JAVA_HOME name it."
    home = environment.get("JAVA_HOME")
    # Spark's scripts take JAVA_HOME without looking further, so a wrong one counts even when PATH has a Java.
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if found is None or not os.access(found, os.X_OK):
        yield Finding("Java", False, f"none at {found}" if found else "not on PATH, and JAVA_HOME is not set", advice)
        return
    shown = subprocess.run([found, "-version"], text=True, capture_output=True, timeout=_PROGRAM_TIMEOUT).stderr
    match = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', shown)
    good = match is not None and int(match[1]) >= _OLDEST_JAVA
    yield Finding("Java", good, f"{match[1] + match[2] if match else 'unknown'} ({found})", "" if good else advice)


def _jar() -> Iterator[Finding]:
    spark = spark_version(os.environ)
    try:
        manifest = adapter_manifest()
    except PravegaError as error:
        yield Finding("Adapter", False, str(error), "")
        return
    version, sparks = manifest.get("Implementation-Version", "?"), manifest.get("Spark-Versions", "?").split()
    good = version == __version__ and line_of(spark) in sparks
    yield Finding(
        "Adapter",
        good,
        f"{version} for Spark {' and '.join(sparks)} ({adapter_jar()})",
        ""
        if good
        else f"It must be {__version__} for Spark {spark}. Install pyspark-pravega again (in a checkout: `make jar`).",
    )


def _native() -> Iterator[Finding]:
    """Not having it is no mistake, only slower."""
    found = native.status()
    yield Finding("Native decoder", True, found.text if found.active else f"{found.text}. {found.advice}")


def _class_archive(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look for the archive of Spark's classes. Not having it is no mistake, only slower."""
    none = "none. Sessions start in two thirds of the time with one: run `pyspark-pravega class-archive`"
    try:
        spark_home = find_spark_home(environment)
    except PravegaError:
        return  # said before
    try:
        archive = find_archive(spark_home, environment)
        check_class_path(spark_home, environment)
    except PravegaError as error:
        yield Finding("Class archive", True, f"not used. {error}")
        return
    if archive is not None:
        yield Finding("Class archive", True, str(archive.file) if archive.options() else none)


_LOOK = """\
import pkgutil, pyspark_pravega, pyspark_pravega.client.controller, cramjam, pyarrow
print(pyspark_pravega.__version__, any(m.name == "pyspark_pravega" for m in pkgutil.iter_modules()))
"""


def _worker_python(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Spark looks for Python data sources, and runs them, with PYSPARK_PYTHON."""
    python = environment.get("PYSPARK_PYTHON") or sys.executable
    advice = f"Unset PYSPARK_PYTHON, or let it name a Python that has pyspark-pravega {__version__}."
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
        yield Finding("Python of Spark's workers", False, f"{python} does not run: {error}", advice)
        return
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no output"])[-1]
        yield Finding("Python of Spark's workers", False, f"{python}: {last}", advice)
    elif shown.stdout.split() != [__version__, "True"]:
        yield Finding(
            "Python of Spark's workers",
            False,
            f"{python}: pyspark-pravega {shown.stdout.split()[0]}, found by Spark's search: {shown.stdout.split()[1]}",
            advice,
        )
    else:
        yield Finding("Python of Spark's workers", True, f"{python} has pyspark-pravega {__version__}")
