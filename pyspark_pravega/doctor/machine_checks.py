"""Check this machine: Python and packages, Spark, Java, the adapter, the native decoder, the Python of workers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

from pyspark_pravega import __version__, native
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.local.java import find_java, locate_java
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
    for subject, check in _CHECKS.items():
        try:
            result = check(environment)
        except PravegaError as error:
            result = _Finding(False, error.sentence)
        if result is not None:
            yield CheckResult(subject, result.good, result.text, "" if result.good else result.advice)


class _Finding(NamedTuple):
    """What a check has found; `advice` is for a result that is not good."""

    good: bool
    text: str
    advice: str = ""


def _check_python(_environment: Mapping[str, str]) -> _Finding:
    text = f"{platform.python_version()} ({sys.executable})"
    return _Finding(sys.version_info >= (3, 11), text, "pyspark-pravega needs Python 3.11 or newer.")


def _check_packages(_environment: Mapping[str, str]) -> _Finding:
    try:
        requirements = metadata.requires("pyspark-pravega") or []
    except metadata.PackageNotFoundError:
        return _Finding(
            False,
            "pyspark-pravega is not installed here, only importable",
            "In a checkout, run `make setup` or `pip install .`; elsewhere install a wheel that `make wheel` made.",
        )
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
        have, bounds = _parse_version(version), re.findall(r"(>=|<)\s*([\d.]+)", versions)
        if not all((have >= _parse_version(limit)) == (sign == ">=") for sign, limit in bounds):
            wrong.append(f"{name} is {version}, but must be {versions}")
    text = "; ".join(wrong) or ", ".join(installed)
    return _Finding(not wrong, text, f"Run: {sys.executable} -m pip install --upgrade pyspark-pravega")


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))


def _check_spark(environment: Mapping[str, str]) -> _Finding:
    import pyspark

    own_version, home = pyspark.__version__, find_spark_home(environment)
    version = read_jar_version(home) or "unknown"
    return _Finding(
        _parse_version(version)[:2] == _parse_version(own_version)[:2],
        f"{version} ({home})",
        f"The installed pyspark is {own_version}. Unset SPARK_HOME, or set it to a Spark {own_version}.",
    )


def _check_java(environment: Mapping[str, str]) -> _Finding:
    java = find_java(environment)
    return _Finding(True, f"{java.build.splitlines()[0]} ({java.executable})")


def _check_jar(_environment: Mapping[str, str]) -> _Finding:
    spark, manifest = find_spark_version(os.environ), read_adapter_manifest()
    version, sparks = manifest.get("Implementation-Version", "?"), manifest.get("Spark-Versions", "?").split()
    return _Finding(
        version == __version__ and get_release_line(spark) in sparks,
        f"{version} for Spark {' and '.join(sparks)} ({find_adapter_jar()})",
        f"It must be {__version__} for Spark {spark}. Install pyspark-pravega again (in a checkout: `make jar`).",
    )


def _check_native(_environment: Mapping[str, str]) -> _Finding:
    """Check the native decoder. Without it, decoding is slower, which is not an error."""
    status = native.get_status()
    return _Finding(True, status.text if status.active else f"{status.text}. {status.advice}")


def _check_class_archive(environment: Mapping[str, str]) -> _Finding | None:
    """Look for the archive of Spark's classes. Without it, Spark starts more slowly, which is not an error."""
    try:
        spark_home, _ = find_spark_home(environment), locate_java(environment)
    except PravegaError:
        return None  # reported before
    try:
        archive = find_archive(spark_home, environment)
        check_class_path(spark_home, environment)
    except PravegaError as error:
        return _Finding(True, f"not used. {error}")
    if archive.options():
        return _Finding(True, str(archive.file))
    attempt = find_attempt(archive)
    when = f"is being made, or could not be ({attempt})" if attempt.exists() else "is made after the first session"
    return _Finding(True, f"{when}. With it, sessions start in two thirds of the time")


_LOOK = """\
import pkgutil, pyspark_pravega, pyspark_pravega.client.controller, cramjam, pyarrow
print(pyspark_pravega.__version__, any(m.name == "pyspark_pravega" for m in pkgutil.iter_modules()))
"""


def _check_worker_python(environment: Mapping[str, str]) -> _Finding:
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
        return _Finding(False, f"{python} does not run: {error}", advice)
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no output"])[-1]
        return _Finding(False, f"{python}: {last}", advice)
    version, is_found = [*shown.stdout.split(), "", ""][:2]
    if (version, is_found) != (__version__, "True"):
        return _Finding(False, f"{python}: pyspark-pravega {version}, found by Spark's search: {is_found}", advice)
    return _Finding(True, f"{python} has pyspark-pravega {__version__}")


_CHECKS: Mapping[str, Callable[[Mapping[str, str]], _Finding | None]] = {
    "Python": _check_python,
    "Packages": _check_packages,
    "Spark": _check_spark,
    "Java": _check_java,
    "Adapter": _check_jar,
    "Native decoder": _check_native,
    "Class archive": _check_class_archive,
    "Python of Spark's workers": _check_worker_python,
}
