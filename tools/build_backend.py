"""Build backend: setuptools, and before a wheel the Java adapter and the native decoder are compiled.

The adapter is compiled into `pyspark_pravega/jvm/` as `adapter_build.py` says: for the installed pyspark, or for all
versions of Spark.

Where there is Rust's cargo, the native decoder is compiled into `pyspark_pravega/native/` as `native_build.py` says,
and the wheel is one for the platform. Without cargo, or with PYSPARK_PRAVEGA_NATIVE=0, the wheel is for any platform
and decodes in Python.

The same sources make the same source distribution and the same wheel byte for byte, with the same tools. Files have the
time SOURCE_DATE_EPOCH.

    python tools/build_backend.py                # only compile both, what is not up to date
    python tools/build_backend.py jar|native     # or one of them
    python tools/build_backend.py jars           # or the adapter for all versions of Spark
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapter_build import compile_adapters, write_zip
from native_build import LIBRARY, NATIVE_SWITCH, ROOT, compile_native, wheel_platform
from setuptools import build_meta
from setuptools.build_meta import (
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

# Archives cannot hold earlier times than the start of 1980.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Let setuptools build a source distribution, and pack it again without times, owners and the umask."""
    name = str(build_meta.build_sdist(sdist_directory, config_settings))
    archive = Path(sdist_directory, name)
    packed = io.BytesIO()
    time = int(os.environ["SOURCE_DATE_EPOCH"])
    with tarfile.open(archive) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, time
            entry.mode = 0o755 if member.isdir() else 0o644
            new.addfile(entry, old.extractfile(member) if member.isfile() else None)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=time) as compressed:
        compressed.write(packed.getvalue())
    return name


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
        return (python, abi, platform) if self.root_is_pure else ("cp311", "abi3", wheel_platform() or platform)


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
