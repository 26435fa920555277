"""Install what is in dist/ into new environments, one for each Python, and run the tutorial there.

As a program, with a checkout and a folder to work in:

    python tools/release/trial.py DIST CHECKOUT FOLDER [3.11 ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Python:
    """A Python of this machine."""

    version: str
    path: Path


def find_pythons(wanted: Sequence[str] | None) -> list[Python]:
    """Return the Pythons of this machine, on PATH and of pyenv. Ends the program if a wanted one is missing."""
    found = [Python(version, path) for version in wanted or VERSIONS if (path := _find(version)) is not None]
    lacking = set(wanted or ()) - {python.version for python in found}
    if lacking or not found:
        sys.exit(
            f"There is no Python {', '.join(sorted(lacking) or VERSIONS)} on PATH or in pyenv to try a release with."
        )
    return found


def try_release(python: Python, dist: Path, source: Path, folder: Path, *, first: bool) -> None:
    """Run the tutorial with the wheel that pip chooses; with `first`, try the other archives in brief too.

    Ends the program if something fails. The environment is deleted afterwards.
    """
    shutil.rmtree(folder, ignore_errors=True)
    environment = Environment(python, folder)
    wheel = environment.choose(dist)
    environment.install(str(wheel))
    environment.run("native code" if "-abi3-" in wheel.name else "no native code", _STATUS)
    environment.run_tutorial(source)
    if first:
        environment.install("--force-reinstall", "--no-deps", str(next(dist.glob("*-any.whl"))))
        environment.run("no native code", _STATUS)
        environment.install("--force-reinstall", "--no-deps", str(next(dist.glob("*.tar.gz"))))
        environment.run("native code" if shutil.which("cargo") else "no native code", _STATUS)
    shutil.rmtree(folder)


_STATUS = """
import os
from pyspark_pravega import native
from pyspark_pravega.spark.home import find_adapter_jar
assert find_adapter_jar(os.environ).is_file()
print("native code" if native.get_status().active else "no native code")
"""


class Environment:
    """A new virtual environment, in which nothing of the checkout or of this program's environment is seen."""

    def __init__(self, python: Python, folder: Path) -> None:
        """Make it, with Python's own pip."""
        self._folder = folder
        self._python = folder / "env" / "bin" / "python"
        self._environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PRAVEGA"))
        }
        self._environment["PATH"] = os.pathsep.join([str(self._python.parent), os.environ["PATH"]])
        self._environment["XDG_STATE_HOME"] = str(folder / "state")
        subprocess.run([python.path, "-m", "venv", folder / "env"], check=True, env=self._environment)

    def choose(self, dist: Path) -> Path:
        """Return the archive that pip takes for this Python and machine."""
        out = self._folder / "chosen"
        self._pip(
            "download", "--no-deps", "--no-index", "--find-links", str(dist), "--dest", str(out), "pyspark-pravega"
        )
        return dist / next(out.iterdir()).name

    def install(self, *arguments: str) -> None:
        """Install an archive and what it needs."""
        self._pip("install", *arguments)

    def run(self, expected: str, program: str) -> None:
        """Run a program, and end with what it has printed if it does not print what is expected."""
        done = self._run([str(self._python), "-c", program])
        if done.stdout.strip() != expected:
            sys.exit(f"{done.stdout}{done.stderr}\nExpected with {self._python}: {expected}")

    def run_tutorial(self, source: Path) -> None:
        """Run the tutorial of an export on a Pravega that the installed package starts."""
        command = [str(self._python), str(HERE / "run_tutorial.py"), str(source)]
        done = self._run(command)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}\nThe tutorial has failed with {self._python}.")

    def _pip(self, *arguments: str) -> None:
        done = self._run([str(self._python), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}\npip {' '.join(arguments)} has failed in {self._folder}.")

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self._folder, text=True, capture_output=True, env=self._environment)


def _find(version: str) -> Path | None:
    """Return a Python of this version that runs; on PATH, pyenv's wrapper may be for a version that is not chosen."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for candidate in (shutil.which(f"python{version}"), *sorted(root.glob(f"versions/{version}.*/bin/python"))):
        if candidate is not None:
            program = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([candidate, "-c", program], text=True, capture_output=True)
            if done.stdout.strip() == version:
                return Path(candidate)
    return None


if __name__ == "__main__":
    dist, checkout, work = (Path(argument).resolve() for argument in sys.argv[1:4])
    for each in find_pythons(sys.argv[4:] or None):
        try_release(each, dist, checkout, work / each.version, first=False)
