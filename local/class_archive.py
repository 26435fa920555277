"""Archives of loaded classes, with which the servers start in about two thirds of the time.

Java's "application class data sharing": the first cluster that runs to its end leaves an archive for each
server, which takes its stop a few seconds; later ones start from it. An archive belongs to one Java and
one class path. Java itself ignores one that does not fit, so that nothing depends on it.
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

from .directories import cache_directory
from .java import Java

RECORDING_GRACE_S = 90.0
"""How long a server may take to end that writes its archive (some 3 s on an idle machine)."""

# Otherwise every class left out, and an archive that does not fit, is a line of output.
_QUIET = ("-Xlog:cds*=off", "-Xlog:class+path=off")
_UNUSED_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one server.

    Attributes:
        file: in the user's cache.
        recording: where a run that found none is to write it.
    """

    file: Path
    recording: Path

    @classmethod
    def of(cls, server: str, java: Java, class_path: Sequence[Path], run: Path) -> ClassArchive:
        """The archive for a server on this Java and class path; `run` is the directory of the present run."""
        key = hashlib.sha256("\n".join([java.build, *map(str, class_path)]).encode()).hexdigest()[:16]
        return cls(cache_directory() / "classes" / f"{server}-{key}.jsa", run / f"{server}.jsa")

    def options(self) -> tuple[list[str], dict[str, str]]:
        """Options for Java to use the archive or to record it, and the recording with the place it belongs to."""
        if self.file.exists():
            os.utime(self.file)
            return [f"-XX:SharedArchiveFile={self.file}", *_QUIET], {}
        return [f"-XX:ArchiveClassesAtExit={self.recording}", *_QUIET], {str(self.recording): str(self.file)}


def keep(recording: Path, file: Path) -> None:
    """Move a finished recording into the cache, and delete what was not used for long."""
    if not recording.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    # In one step: somebody may be starting from it.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        shutil.copyfile(recording, partial)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    for other in file.parent.glob("*.jsa"):
        with suppress(FileNotFoundError):  # another process deletes it
            if time.time() - other.stat().st_mtime > _UNUSED_S:
                other.unlink()
