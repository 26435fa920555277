"""Build backend: setuptools, and before a wheel the Java adapter and the native decoder are compiled.

The adapter is compiled into `pyspark_pravega/jvm/` as `adapter_build.py` says: for the installed pyspark, or for all
versions of Spark.

Where there is Rust's cargo, the native decoder is compiled into `pyspark_pravega/native/`, and the wheel is one for the
platform. Without cargo, or with PYSPARK_PRAVEGA_NATIVE=0, the wheel is for any platform and decodes in Python.

    python tools/build_backend.py                # only compile both, what is not up to date
    python tools/build_backend.py jar|native     # or one of them
    python tools/build_backend.py jars           # or the adapter for all versions of Spark
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapter_build import compile_adapters, write_zip
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
# A source distribution has the folders inside the package, a checkout has links there.
CRATE = ROOT / "pyspark_pravega" / "native"
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
    """Compile the adapter for all versions of Spark and the native decoder, then let setuptools build the wheel."""
    compile_adapters(others=True)
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

    Spark finds Python data sources by walking the directories of `sys.path`. Such a walk follows a path file, and
    overlooks the import hook of setuptools' own editable install.
    """
    compile_adapters()
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
        record = [f"{path},sha256={_hash_record(content)},{len(content)}" for path, content in files.items()]
        files[f"{metadata.name}/RECORD"] = "\n".join([*record, f"{metadata.name}/RECORD,,", ""]).encode()
        write_zip(Path(wheel_directory, name), files)
    return name


class PlatformWheel(bdist_wheel):  # type: ignore[misc]  # setuptools has no types
    """A wheel for this platform if it contains the native decoder, and for every Python from 3.11 on."""

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
    # The library contains the digest, so that a copied or half-written one does not count as up to date.
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
    # Processes that have loaded the old library keep it.
    partial.replace(LIBRARY)
    return True


def find_cargo() -> str | None:
    """Return the path of Rust's cargo, unless native code is switched off."""
    if os.environ.get(NATIVE_SWITCH, "").strip() == "0":
        return None
    return shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))


def _hash_record(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(wanted: str | None) -> None:
    """Compile what is not up to date, or only "jar", "jars" or "native", and say so."""
    os.chdir(ROOT)
    if wanted in (None, "native"):
        compiled = compile_native()
        state = "compiled" if compiled else "up to date" if LIBRARY.is_file() else "not built, there is no cargo"
        if not LIBRARY.is_file() and os.environ.get(NATIVE_SWITCH, "").strip() == "0":
            state = f"not built, {NATIVE_SWITCH} is 0"
        print(f"{LIBRARY.relative_to(ROOT)}: {state}")
    if wanted in (None, "jar", "jars"):
        compiled_jars = compile_adapters(others=wanted == "jars")
        for jar in compiled_jars:
            print(f"{jar.relative_to(ROOT)}: compiled")
        if not compiled_jars:
            print("The adapter is up to date")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
