"""Build backend: setuptools, and before a wheel the Java adapter and the native decoder are compiled.

The adapter is compiled into `jvm/` against the jars of the installed pyspark, which must be that of Spark 4.3; the jar
serves Spark 4.2 too. The same sources give the same jar byte for byte: entries are sorted and carry no time.

The native decoder is compiled into `native/` where Rust's cargo is there, and makes the wheel one for the platform.
Without cargo, or with PYSPARK_PRAVEGA_NATIVE=0, the wheel is for any platform and decodes in Python.

    python tools/build_backend.py                # only compile both, what is not up to date
    python tools/build_backend.py jar|native     # or one of them
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.bdist_wheel import bdist_wheel

__all__ = [
    "PlatformWheel",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "jvm" / "src"
# What differs between versions of Spark.
SOURCES_42 = ROOT / "jvm" / "spark42"
JAR = ROOT / "jvm" / "pyspark-pravega-adapter.jar"
# The versions that the jar serves, as `adapter.VERSIONS`: it is compiled for the last one.
SPARK_VERSIONS = ("4.2", "4.3")
# The oldest Java that Spark runs on.
JAVA_RELEASE = "17"
CRATE = ROOT / "native"
LIBRARY = CRATE / "_native.abi3.so"
# As `native.SWITCH`: no native code where it is 0.
NATIVE_SWITCH = "PYSPARK_PRAVEGA_NATIVE"

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Compile the adapter and the native decoder, then let setuptools build the wheel with them."""
    compile_adapter()
    compile_native()
    # Left-overs of an earlier layout would end up in the wheel.
    for left_over in (ROOT / "build").glob("lib*"):
        shutil.rmtree(left_over)
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel that only points at this checkout.

    Spark finds Python data sources by walking the directories of `sys.path`. setuptools' own editable install
    maps our folders by an import hook, which such a walk does not see; a path file it does.
    """
    compile_adapter()
    compile_native()
    with tempfile.TemporaryDirectory() as scratch:
        metadata = Path(scratch, prepare_metadata_for_build_wheel(scratch, config_settings))
        name = f"{metadata.stem}-py3-none-any.whl"
        files = {"__editable__.pyspark_pravega.pth": f"{ROOT}\n".encode()}
        wheel_file = "Wheel-Version: 1.0\nGenerator: pyspark-pravega\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files[f"{metadata.name}/WHEEL"] = wheel_file.encode()
        for path in sorted(metadata.rglob("*")):
            if path.is_file() and path.name not in ("WHEEL", "RECORD"):
                files[path.relative_to(scratch).as_posix()] = path.read_bytes()
        record = [f"{path},sha256={_record_hash(content)},{len(content)}" for path, content in files.items()]
        files[f"{metadata.name}/RECORD"] = "\n".join([*record, f"{metadata.name}/RECORD,,", ""]).encode()
        _write_zip(Path(wheel_directory, name), files)
    return name


class PlatformWheel(bdist_wheel):  # type: ignore[misc]  # setuptools has no types
    """A wheel for this platform if the native decoder is in it, and for every Python from 3.11 on."""

    def finalize_options(self) -> None:
        if LIBRARY.is_file():
            # setuptools did not build it, but must put everything where code of the platform belongs.
            self.distribution.has_ext_modules = lambda: True
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("cp311", "abi3", platform)


def compile_native() -> bool:
    """Compile `native/` into the library beside its sources; False when there is nothing to do.

    Without cargo there is nothing to do: everything works without the library. One of other sources is taken away.
    Ends the build with a sentence when there is a cargo and the sources do not compile.
    """
    sources = [CRATE / "Cargo.toml", CRATE / "Cargo.lock", *sorted((CRATE / "src").rglob("*.rs"))]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.relative_to(CRATE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    # The library has the digest in it, so that a copied or half-written one is not taken for up to date.
    if LIBRARY.is_file():
        if digest.hexdigest().encode() in LIBRARY.read_bytes():
            return False
        LIBRARY.unlink()
    cargo = find_cargo()
    if cargo is None:
        return False
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "build" / "native")
    # The stable interface of Python 3.11 and newer needs no particular interpreter at build time.
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "NATIVE_SOURCES": digest.hexdigest(),
        "PYO3_NO_PYTHON": "1",
    }
    if sys.platform == "darwin":
        # Python's own symbols come with the process that loads the library.
        environment["RUSTFLAGS"] = (
            f"{os.environ.get('RUSTFLAGS', '')} -C link-arg=-undefined -C link-arg=dynamic_lookup"
        )
    sys.stderr.write("Compiling the native decoder: the first time this takes some minutes\n")
    command = [cargo, "build", "--release", "--locked", "--quiet", "--manifest-path", str(CRATE / "Cargo.toml")]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        sys.exit(
            f"{done.stdout}\nThe native decoder does not compile with {cargo}. It takes Rust 1.85 or newer and, the "
            f"first time, access to crates.io. Set {NATIVE_SWITCH}=0 to build without it; events are then decoded in "
            "Python."
        )
    sys.stderr.write(done.stdout)
    built = target / "release" / ("lib_native.dylib" if sys.platform == "darwin" else "lib_native.so")
    partial = LIBRARY.with_suffix(f".{os.getpid()}.partial")
    shutil.copyfile(built, partial)
    # Processes that have the old library loaded keep it.
    partial.replace(LIBRARY)
    return True


def find_cargo() -> str | None:
    """Rust's cargo, unless native code is switched off."""
    if os.environ.get(NATIVE_SWITCH, "").strip() == "0":
        return None
    return shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))


def compile_adapter() -> bool:
    """Compile `jvm/` into the adapter's jar; False when the jar already fits the sources.

    Ends the build with a sentence when there is no JDK, Spark is another one, or the sources do not compile.
    """
    sources = [*sorted(SOURCES.rglob("*.java")), *sorted(SOURCES_42.rglob("*.java"))]
    services = sorted((SOURCES / "META-INF").rglob("*.*"))
    digest = hashlib.sha256()
    for source in [*sources, *services]:
        digest.update(source.relative_to(SOURCES.parent).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    manifest = (
        "Manifest-Version: 1.0\r\n"
        "Implementation-Title: pyspark-pravega\r\n"
        f"Implementation-Version: {_version_in(ROOT / 'pyspark_pravega' / '__init__.py')}\r\n"
        f"Spark-Versions: {' '.join(SPARK_VERSIONS)}\r\n"
        f"Source-SHA-256: {digest.hexdigest()}\r\n\r\n"
    ).encode()
    if JAR.is_file() and _manifest_of(JAR) == manifest:
        return False
    spark = _spark_home()
    spark_version = _version_in(spark / "version.py")
    if spark_version.rpartition(".")[0] != SPARK_VERSIONS[-1]:
        sys.exit(
            f"The Java adapter is compiled against Spark {SPARK_VERSIONS[-1]}; here is {spark_version}. Let pip build "
            "in an environment of its own, without --no-build-isolation, or install a wheel."
        )
    with tempfile.TemporaryDirectory() as classes:
        command = [
            _javac(), "--release", JAVA_RELEASE, "-encoding", "UTF-8", "-proc:none", "-g",
            "-Xlint:all,-classfile,-path", "-cp", str(spark / "jars" / "*"), "-d", classes, *map(str, sources),
        ]  # fmt: skip
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nThe Java adapter does not compile against Spark {spark_version} ({spark}).")
        sys.stderr.write(done.stdout)
        files = {"META-INF/MANIFEST.MF": manifest}
        for path in sorted(Path(classes).rglob("*.class")):
            files[path.relative_to(classes).as_posix()] = path.read_bytes()
        for path in services:
            files[path.relative_to(SOURCES).as_posix()] = path.read_bytes()
        _write_zip(JAR, files)
    return True


def _javac() -> str:
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


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("The Java adapter is compiled against pyspark's jars. Run: pip install 'pyspark>=4.3,<4.4'")
    return Path(spec.origin).parent


def _version_in(path: Path) -> str:
    match = re.search(r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", path.read_text(), re.MULTILINE)
    if match is None:
        sys.exit(f"There is no __version__ in {path}.")
    return match[1]


def _manifest_of(jar: Path) -> bytes | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read("META-INF/MANIFEST.MF")
    except (KeyError, zipfile.BadZipFile):
        return None  # half-written: compile it again


def _write_zip(target: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive that depends on nothing but its content; readers see the old file or the new one."""
    partial = target.with_suffix(f".{os.getpid()}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    partial.replace(target)


def _record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(wanted: str | None) -> None:
    """Compile what is not up to date, or only "jar" or "native", and say so."""
    os.chdir(ROOT)
    if wanted in (None, "native"):
        compiled = compile_native()
        state = "compiled" if compiled else "up to date" if LIBRARY.is_file() else "not built, there is no cargo"
        if not LIBRARY.is_file() and os.environ.get(NATIVE_SWITCH, "").strip() == "0":
            state = f"not built, {NATIVE_SWITCH} is 0"
        print(f"{LIBRARY.relative_to(ROOT)}: {state}")
    if wanted in (None, "jar"):
        print(f"{JAR.relative_to(ROOT)}: {'compiled' if compile_adapter() else 'up to date'}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
