"""Compile the Java adapter: a jar for each line of Spark versions whose interfaces are the same.

The line of the installed pyspark is compiled against its jars. A wheel is for all lines: the others are compiled
against the few jars that a lock file beside their sources names, which are fetched into the user's cache of jars and
compared with their checksums. The same sources give the same jar byte for byte: entries are sorted and carry no time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What all lines share.
JVM = ROOT / "pyspark_pravega" / "jvm"
SOURCES = JVM / "src"
# Interfaces of programs that may be there when the adapter runs. Their classes go into no jar.
PROVIDED = JVM / "provided"
# The oldest Java that Spark runs on.
JAVA_RELEASE = "17"
OTHERS_SWITCH = "PYSPARK_PRAVEGA_OTHER_SPARKS"
"""Environment variable: with 0, a wheel has only the jar for the pyspark it is built with, and downloads nothing."""


@dataclass(frozen=True)
class Line:
    """Versions of Spark that one jar serves; it is compiled for the last of them."""

    versions: tuple[str, ...]
    folder: Path
    jar: Path

    @property
    def lock(self) -> Path:
        """The lock file of the jars to compile against if pyspark is of another line."""
        return self.folder / "compile.lock"

    def sources(self) -> list[Path]:
        """Return the files to compile."""
        return [path for folder in (SOURCES, self.folder, PROVIDED) for path in sorted(folder.rglob("*.java"))]


# As `adapter.JARS`.
LINES = (
    Line(("4.1",), JVM / "spark41", JVM / "pyspark-pravega-adapter-4.1.jar"),
    Line(("4.2", "4.3"), JVM / "spark42", JVM / "pyspark-pravega-adapter.jar"),
)


def compile_adapters(*, others: bool = False) -> list[Path]:
    """Compile the jars that do not fit their sources, and return them.

    Args:
        others: compile the lines of other Spark versions than the installed pyspark's too. If the environment says
            that they are left out, their jars of earlier builds are deleted.

    Ends the build with a sentence when there is no JDK, pyspark is too old for its line, or sources do not compile.
    """
    installed = _find_installed_version()
    if others and os.environ.get(OTHERS_SWITCH, "").strip() == "0":
        others = False
        for line in LINES:
            if installed not in line.versions:
                line.jar.unlink(missing_ok=True)
    if not any(installed in line.versions for line in LINES):
        known = ", ".join(version for line in LINES for version in line.versions)
        sys.exit(f"There is no adapter for Spark {installed}, only for {known}. Install one of these pysparks.")
    return [line.jar for line in LINES if (others or installed in line.versions) and _compile(line)]


def write_zip(target: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive that depends only on its content. Readers see either the old file or the new one."""
    partial = target.with_suffix(f".{os.getpid()}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    partial.replace(target)


def _read_version(path: Path) -> str:
    """Return the `__version__` that a Python file assigns."""
    match = re.search(r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", path.read_text(), re.MULTILINE)
    if match is None:
        sys.exit(f"There is no __version__ in {path}.")
    return match[1]


def _compile(line: Line) -> bool:
    """Compile one line; False when its jar already fits the sources."""
    services = sorted((SOURCES / "META-INF").rglob("*.*"))
    manifest = _build_manifest(line, services)
    if line.jar.is_file() and _read_manifest(line.jar) == manifest:
        return False
    print(f"Compiling the Java adapter for Spark {line.versions[-1]}, which takes up to a minute", file=sys.stderr)
    with tempfile.TemporaryDirectory() as classes:
        command = [
            _find_javac(), "--release", JAVA_RELEASE, "-encoding", "UTF-8", "-proc:none", "-g",
            "-Xlint:all,-classfile,-path", "-cp", _build_class_path(line), "-d", classes, *map(str, line.sources()),
        ]  # fmt: skip
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nThe Java adapter does not compile for Spark {line.versions[-1]}.")
        sys.stderr.write(done.stdout)
        files = {"META-INF/MANIFEST.MF": manifest}
        provided = {path.relative_to(PROVIDED).with_suffix(".class") for path in PROVIDED.rglob("*.java")}
        for path in sorted(Path(classes).rglob("*.class")):
            if path.relative_to(classes) not in provided:
                files[path.relative_to(classes).as_posix()] = path.read_bytes()
        for path in services:
            files[path.relative_to(SOURCES).as_posix()] = path.read_bytes()
        write_zip(line.jar, files)
    return True


def _build_manifest(line: Line, services: Sequence[Path]) -> bytes:
    digest = hashlib.sha256()
    for source in [*line.sources(), *services]:
        digest.update(source.relative_to(SOURCES.parent).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return (
        "Manifest-Version: 1.0\r\n"
        "Implementation-Title: pyspark-pravega\r\n"
        f"Implementation-Version: {_read_version(ROOT / 'pyspark_pravega' / '__init__.py')}\r\n"
        f"Spark-Versions: {' '.join(line.versions)}\r\n"
        f"Source-SHA-256: {digest.hexdigest()}\r\n\r\n"
    ).encode()


def _read_manifest(jar: Path) -> bytes | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read("META-INF/MANIFEST.MF")
    except (KeyError, zipfile.BadZipFile):
        return None  # half-written: compile it again


def _build_class_path(line: Line) -> str:
    installed = _find_installed_version()
    if installed == line.versions[-1]:
        return str(_find_pyspark() / "jars" / "*")
    if line.lock.is_file():
        return os.pathsep.join(map(str, [*_fetch(line), *_list_other_jars()]))
    sys.exit(
        f"The Java adapter for Spark {' and '.join(line.versions)} is compiled against Spark {line.versions[-1]}; here "
        f"is {installed}. Let pip build in an environment of its own, without --no-build-isolation, or install a wheel."
    )


def _list_other_jars() -> list[Path]:
    """Return pyspark's jars other than Spark's own, and Hive's server, whose classes are the same in all lines."""
    jars = sorted((_find_pyspark() / "jars").glob("*.jar"))
    return [jar for jar in jars if not jar.name.startswith("spark-") or "hive-thriftserver" in jar.name]


def _fetch(line: Line) -> list[Path]:
    # A checkout and a source distribution have the package beside this folder.
    sys.path.insert(0, str(ROOT))
    from pyspark_pravega.errors import SetupError
    from pyspark_pravega.local.jars.cache import provide_class_path
    from pyspark_pravega.local.jars.lock_file import read_lock
    from pyspark_pravega.local.java import find_java

    try:
        return provide_class_path(
            read_lock(line.lock), java=find_java(), report=lambda text: print(text, file=sys.stderr)
        )
    except SetupError as error:
        sys.exit(
            f"{error}\nA wheel has a jar for Spark {line.versions[-1]} too, which is compiled against these jars. "
            f"Set {OTHERS_SWITCH}=0 to build one without it."
        )


def _find_javac() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("javac")
    wanted = "Building pyspark-pravega takes a JDK, 17 or newer; running its wheel only a Java runtime."
    if found is None:
        sys.exit(f"No javac in JAVA_HOME or on PATH. {wanted} Install one or set JAVA_HOME.")
    version = subprocess.run([found, "-version"], text=True, capture_output=True)
    match = re.search(r"javac (\d+)", version.stdout + version.stderr)
    if match is None or int(match[1]) < int(JAVA_RELEASE):
        sys.exit(f"{found} is {match[0] if match else 'no JDK'}. {wanted} Set JAVA_HOME to one.")
    return found


def _find_installed_version() -> str:
    return _read_version(_find_pyspark() / "version.py").rpartition(".")[0]


def _find_pyspark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("The Java adapter is compiled against pyspark's jars. Run: pip install 'pyspark>=4.3,<4.4'")
    return Path(spec.origin).parent
