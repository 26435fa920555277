"""The user's cache of jars, which is complete and verified before anything runs on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error

from ..directories import find_jar_directory, hold_lock
from ..java import Java
from . import ivy
from .lock_file import Artifact, hash_file

_MEGABYTE = 1_000_000


def provide_class_path(
    artifacts: Sequence[Artifact],
    *,
    java: Java,
    report: Callable[[str], None],
    directory: Path | None = None,
    ivy_settings: Path | None = None,
) -> list[Path]:
    """Return the artifacts as verified files, in the given order, and fetch the missing ones.

    If the cache is complete, neither Ivy nor the network is used. A file gets its name in the cache only after its
    checksum was verified, so that an interrupted fetch leaves nothing trusted. Concurrent callers wait for each other.

    `java` runs Ivy if a file is missing. `report` receives progress, one line at a time. `directory` is the cache, by
    default the user's. `ivy_settings` is the user's Ivy settings file, by default that of the environment, if any.
    Raises SetupError if a cached or fetched file does not have the checksum of the lock file, or if a fetch fails.
    """
    directory = find_jar_directory() if directory is None else directory
    missing = _find_missing(artifacts, directory)
    if missing:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"the jar cache {directory} cannot be created: {describe_os_error(error)}; "
                "set XDG_CACHE_HOME to a directory that can be written"
            ) from error
        with hold_lock(
            directory / ".lock", lambda: report(f"waiting for another process that fetches into {directory}")
        ):
            missing = _find_missing(artifacts, directory)
            if missing:
                _fetch(missing, directory, java, _find_settings(ivy_settings), report)
    return [directory / artifact.relative_path for artifact in artifacts]


def _find_missing(artifacts: Sequence[Artifact], directory: Path) -> list[Artifact]:
    """Return the artifacts without a file. Raises SetupError for a file with other bytes than the lock file says."""
    missing = []
    for artifact in artifacts:
        path = directory / artifact.relative_path
        if not path.exists():
            missing.append(artifact)
        elif not artifact.matches(path):
            raise SetupError(
                f"wrong checksum: {path} has sha256 {hash_file(path)} ({path.stat().st_size} bytes), expected "
                f"{artifact.sha256} ({artifact.size} bytes). It was changed after it was fetched; delete the "
                "file and run the command again to fetch it again"
            )
    return missing


def _find_settings(path: Path | None) -> Path | None:
    if path is not None:
        return path.absolute()
    named = os.environ.get(ivy.SETTINGS_VARIABLE)
    return Path(named).absolute() if named else None


def _fetch(
    artifacts: Sequence[Artifact], directory: Path, java: Java, settings: Path | None, report: Callable[[str], None]
) -> None:
    size = sum(artifact.size for artifact in artifacts)
    report(f"fetching {len(artifacts)} jars ({size / _MEGABYTE:.1f} MB) into {directory} (once)")
    staging = directory / ".fetch"
    ivy.retrieve(artifacts, staging, java=java, settings=settings, report=report)
    for artifact in artifacts:
        fetched = staging / artifact.relative_path
        if not fetched.is_file():
            raise SetupError(
                f"Ivy reported success but delivered no {artifact.relative_path}: check the patterns "
                "of the Ivy settings file (it must expect a Maven layout)"
            )
        if not artifact.matches(fetched):
            checksum, size = hash_file(fetched), fetched.stat().st_size
            # Ivy's cache would deliver the same bytes at the next try.
            shutil.rmtree(staging)
            raise SetupError(
                f"wrong checksum: fetched {artifact.relative_path} has sha256 {checksum} ({size} bytes), expected "
                f"{artifact.sha256} ({artifact.size} bytes). Nothing was kept. The repository or mirror delivers "
                f"another file: run again, or use another one by --ivy-settings FILE or {ivy.SETTINGS_VARIABLE}"
            )
        final = directory / artifact.relative_path
        final.parent.mkdir(exist_ok=True)
        os.replace(fetched, final)
    shutil.rmtree(staging)
    report(f"fetched and verified {len(artifacts)} jars")
