"""Pravega's connector for Flink: compiled from its own repository, because no repository of jars has it.

The environment variable FLINK_CONNECTORS is that repository: a path or an URL of Git. Without it, it is the public one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from pyspark_pravega.local.jars import cache
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from tests.interop.java_process import compile_sources

REPOSITORY, COMMIT = "https://github.com/pravega/flink-connectors", "bcc4e07b574d4e13ee91f3f281ead7cf4343c213"
"""The last commit: version 0.14 for Flink 1.18.1, which compiles with the client of Pravega 0.13 as well."""
_HOOK = Path("java/io/pravega/connectors/flink/ReaderCheckpointHook.java")
_CALL, _CALL_FOR_CLIENT_0_13 = (
    f"initiateCheckpoint({values})" for values in ("checkpointName", "checkpointName, scheduledExecutorService")
)
_LOCKS = ("flink.lock", "flink_connector.lock")
_CLASSES = Path(__file__).parents[2] / "build" / "flink" / "connector" / f"{COMMIT}-client-0.13"


def provide_connector() -> list[Path]:
    """Return the connector's class path without Flink's own jars; skip the test if its sources are out of reach.

    The connector is compiled once.
    """
    java = find_java()
    flink, more = (
        cache.provide_class_path(read_lock(Path(__file__).with_name(lock)), java=java, report=print) for lock in _LOCKS
    )
    if not _CLASSES.exists():
        _CLASSES.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CLASSES.parent) as directory:
            sources, classes = _fetch(Path(directory) / "sources") / "src" / "main", Path(directory) / "classes"
            _adapt(sources / _HOOK)
            shutil.copytree(sources / "resources", classes)
            compile_sources(java, [*flink, *more], sorted(sources.rglob("*.java")), classes)
            if not _CLASSES.exists():  # Another process may have been quicker.
                classes.rename(_CLASSES)
    return [_CLASSES, *more]


def _adapt(hook: Path) -> None:
    """Let checkpoints wait in a thread of their own, as in the connector that was released for client 0.13.

    The call of the last commit waits for itself in that client, for 30 seconds and in vain:
    https://github.com/pravega/pravega/issues/7215.
    """
    text = hook.read_text()
    assert text.count(_CALL) == 1
    hook.write_text(text.replace(_CALL, _CALL_FOR_CLIENT_0_13))


def _fetch(sources: Path) -> Path:
    repository = os.environ.get("FLINK_CONNECTORS", REPOSITORY)
    subprocess.run(["git", "init", "-q", sources], check=True)
    command = ["git", "-C", str(sources), "fetch", "-q", "--depth", "1", repository, COMMIT]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        reason = (
            f"{repository} has not given the commit {COMMIT}: {fetched.stderr.strip()}. "
            "Set FLINK_CONNECTORS to a clone of pravega/flink-connectors"
        )
        if "FLINK_CONNECTORS" in os.environ:
            raise RuntimeError(reason)
        pytest.skip(reason)
    subprocess.run(["git", "-C", str(sources), "checkout", "-q", "FETCH_HEAD"], check=True)
    return sources
