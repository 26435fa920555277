"""Archives of loaded classes, from which Java programs start in about two thirds of the time.

Java's "application class data sharing" (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html): an
archive belongs to one Java and one class path. Java compares both itself and ignores an archive that does not fit:
it then only starts more slowly.

A server that finds no archive records one while it runs, and writes it when it ends. So the first `stop` of a cluster
takes a few seconds longer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .directories import find_cache_directory
from .java import Java

RECORDING_GRACE_S = 90.0
"""Seconds in which a server may end that writes its archive (about 3 s on an idle machine)."""

_UNUSED_S = 30 * 24 * 3600.0
"""Seconds after which an archive that nobody used is deleted."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one Java program; `file` is its place in the user's cache, whether it exists or not."""

    file: Path

    @classmethod
    def locate(cls, program: str, facts: Sequence[str], cache: Path | None = None) -> ClassArchive:
        """Return the archive of a program; `facts` distinguish its Java and class path from all others.

        `cache` is the user's cache directory if that is not the one of this process's environment.
        """
        key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
        return cls((find_cache_directory() if cache is None else cache) / "classes" / f"{program}-{key}.jsa")

    def options(self) -> list[str]:
        """Return Java's options to start from the archive, which then counts as used; none if it is not readable."""
        if not os.access(self.file, os.R_OK):
            return []
        with suppress(OSError):  # a cache of another user, or on a read-only file system
            os.utime(self.file)
        return [f"-XX:SharedArchiveFile={self.file}", *_log_options("off")]

    def keep(self, recording: Path) -> None:
        """Move a finished recording, if there is one, into the cache; delete archives that nobody used for long."""
        if not recording.exists():
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # In one step: another program may be starting from the archive.
        partial = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        try:
            shutil.copyfile(recording, partial)
            os.replace(partial, self.file)
        finally:
            partial.unlink(missing_ok=True)
        for other in self.file.parent.glob("*.jsa"):
            with suppress(FileNotFoundError):  # another process deletes it
                if time.time() - other.stat().st_mtime > _UNUSED_S:
                    other.unlink()


def find_server_archive(server: str, java: Java, class_path: Sequence[Path]) -> ClassArchive:
    return ClassArchive.locate(server, [java.build, *map(str, class_path)])


def list_recording_options(recording: Path, log_level: str = "off") -> list[str]:
    """Return the options with which Java writes an archive to `recording` when it ends.

    `log_level` is the level of Java's messages about the archive; by default Java writes none.
    """
    return [f"-XX:ArchiveClassesAtExit={recording}", *_log_options(log_level)]


def _log_options(level: str) -> list[str]:
    # Otherwise Java prints a line for every class that it leaves out, and for an archive that does not fit.
    return [f"-Xlog:cds*={level}", "-Xlog:class+path=off"]
