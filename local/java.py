"""Finds a Java 17 or newer that can run the servers: by JAVA_HOME, otherwise on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error

MINIMUM_VERSION = 17
_INSTALL_HINT = "install a Java runtime 17, 21 or 25 and put it on PATH, or set JAVA_HOME to its directory"
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_VERSION_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Java:
    """A Java launcher, and the version that it printed."""

    executable: Path
    version: int
    build: str
    """All that it prints about its version."""


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java launcher of an environment (by default this process's), checked.

    Raises SetupError if there is none, it does not run, or it is older than 17.
    """
    environment = os.environ if environment is None else environment
    executable, origin = locate_java(environment)
    try:
        # -version writes to stderr. Unlike --version it exists in Java 8 too, which must be recognized as too old.
        result = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            env=dict(environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else error
        raise SetupError(f"Java at {executable} ({origin}) does not run: {reason}; {_INSTALL_HINT}") from error
    # Java repeats the options of the environment, which may hold passwords.
    shown = "\n".join(line for line in result.stderr.splitlines() if "Picked up " not in line)
    match = _VERSION.search(shown)
    if result.returncode != 0 or match is None:
        raise SetupError(
            f"Java at {executable} ({origin}) does not print its version "
            f"(exit code {result.returncode}): {shown.strip()[-500:]}; {_INSTALL_HINT}"
        )
    major = int(match[1]) if match[1] != "1" else int(match[2] or 0)
    if major < MINIMUM_VERSION:
        raise SetupError(
            f"Java at {executable} ({origin}) is version {major}; Spark and the local servers need "
            f"{MINIMUM_VERSION} or newer: {_INSTALL_HINT}"
        )
    return Java(executable, major, shown)


def locate_java(environment: Mapping[str, str]) -> tuple[Path, str]:
    """Return the Java launcher of an environment, unchecked, and where it comes from. Raises SetupError."""
    home = environment.get("JAVA_HOME")
    if home:
        executable = Path(home, "bin", "java")
        if not os.access(executable, os.X_OK):
            other = shutil.which("java", path=environment.get("PATH"))
            unset = f"unset JAVA_HOME, which leaves {other}, or set it to another Java's directory"
            raise SetupError(
                f"JAVA_HOME is {home}, but {executable} is not a program: {unset if other else _INSTALL_HINT}"
            )
        return executable, "from JAVA_HOME"
    java = shutil.which("java", path=environment.get("PATH"))
    if java is None:
        raise SetupError(f"no Java found: JAVA_HOME is not set and PATH has no java; {_INSTALL_HINT}")
    return Path(java), "from PATH"
