"""Build the source distribution from an export of a commit, and from it, unpacked, a wheel for each platform."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from native_build import PLATFORM_SWITCH, TARGETS, find_cargo, has_standard_library

PURE = "any"
"""The wheel without native code."""
PLATFORMS = (*TARGETS, PURE)


@dataclass(frozen=True)
class Source:
    """An exported commit, and its time in seconds since 1970."""

    folder: Path
    commit: str
    time: int


def export_commit(root: Path, folder: Path, *, with_changes: bool) -> Source:
    """Export the newest commit. Ends the program if there are changes besides it, unless they may be left out."""
    changes = _git(root, "status", "--porcelain").decode().splitlines()
    if changes and not with_changes:
        sys.exit(
            f"A release is made of a commit, but {len(changes)} files are changed or new, the first is "
            f"{changes[0][3:]}. Commit them, or leave them out with --uncommitted."
        )
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "HEAD"))) as archive:
        archive.extractall(folder, filter="data")
    commit, time = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Source(folder, commit, int(time))


def read_version(folder: Path) -> str:
    """Return the version, which stands in the package and nowhere else. Ends the program if nobody has described it."""
    text = (folder / "pyspark_pravega" / "__init__.py").read_text()
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert version is not None
    if not re.search(rf"^## .*\b{re.escape(version[1])}(\s|$)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE):
        sys.exit(f"The version is {version[1]}, but CHANGELOG.md has no section of that name.")
    return version[1]


def build_all(source: Source, platforms: Sequence[str], folder: Path) -> list[Path]:
    """Build everything in a new folder, and return the archives. Ends the program where a tool is missing."""
    check_rust(source, platforms)
    shutil.rmtree(folder, ignore_errors=True)
    out = folder / "out"
    out.mkdir(parents=True)
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(folder / "cargo"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": "",
        "SOURCE_DATE_EPOCH": str(source.time),
        "TZ": "UTC",
    }
    _build("--sdist", source.folder, out, environment)
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    unpacked = next(path for path in folder.iterdir() if (path / "pyproject.toml").is_file())
    for platform in platforms:
        switch = {"PYSPARK_PRAVEGA_NATIVE": "0"} if platform == PURE else {PLATFORM_SWITCH: platform}
        _build("--wheel", unpacked, out, {**environment, **switch})
    return sorted(out.iterdir())


def check_rust(source: Source, platforms: Sequence[str]) -> None:
    """End the program if Rust is missing, is not the version of the image, or cannot compile for one."""
    native = [platform for platform in platforms if platform != PURE]
    if not native:
        return
    cargo = find_cargo()
    if cargo is None:
        sys.exit(f"The wheels for {', '.join(native)} need Rust's cargo. Without it only `--platform {PURE}` is built.")
    wanted = re.search(
        r"^ARG RUST_IMAGE=rust:([\d.]+)", (source.folder / "docker/Dockerfile").read_text(), re.MULTILINE
    )
    assert wanted is not None
    found = subprocess.run([Path(cargo).with_name("rustc"), "--version"], text=True, capture_output=True).stdout
    if found.split()[1:2] != [wanted[1]]:
        sys.exit(f"Releases are made with Rust {wanted[1]}, but here is {found.strip()}: rustup default {wanted[1]}.")
    lacking = [TARGETS[platform] for platform in native if not has_standard_library(TARGETS[platform])]
    if lacking:
        sys.exit(
            f"Rust's standard library for {', '.join(lacking)} is missing: rustup target add {' '.join(lacking)}. "
            "Where it cannot be fetched, name the other platforms with --platform; the workflow release.yml builds all."
        )


def _build(kind: str, folder: Path, out: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(out), str(folder)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nThe build of {folder} ({kind[2:]}) has failed, see above.")


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, check=True).stdout
