"""Lock files, which list the exact jars that a Java program of this project runs on.

Each line is an artifact, in class path order, with tabs between its fields: group, artifact, version, classifier (`-`
for none), size in bytes, sha256. Lines that start with `#` are comments. A lock file does not say where to fetch from:
that is up to `ivy.py` and the user's settings.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SetupError

SERVERS_LOCK = Path(__file__).parents[1] / "servers.lock"
"""The jars of Pravega standalone and the schema registry, one class path for both."""

_LINE = re.compile(r"([A-Za-z0-9_.-]+)\t" * 4 + r"([0-9]+)\t([0-9a-f]{64})")


@dataclass(frozen=True)
class Artifact:
    """A jar: its Maven coordinates, and the size and checksum of its bytes."""

    group: str
    name: str
    version: str
    classifier: str | None
    """With the ending of the file behind it if that is not a jar: `all.tar.gz`."""
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """Return the file name in Maven repositories, e.g. `pravega-client-0.13.0.jar`."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{suffix}" + ("" if "." in suffix else ".jar")

    @property
    def relative_path(self) -> Path:
        """Return the place inside a jar cache; different groups may have jars of equal names."""
        return Path(self.group, self.file_name)

    def matches(self, path: Path) -> bool:
        """Return whether the file exists and has exactly the locked bytes."""
        return path.is_file() and path.stat().st_size == self.size and hash_file(path) == self.sha256


def hash_file(path: Path) -> str:
    """Return the sha256 of a file's content, in lower-case hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lock(path: Path) -> tuple[Artifact, ...]:
    """Return the artifacts of a lock file. Raises SetupError for other lines, with the file and the line."""
    artifacts: list[Artifact] = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        if (fields := _LINE.fullmatch(line)) is None:
            raise SetupError(
                f"line {number} of the lock file {path} is not an artifact "
                "(group, artifact, version, classifier or -, bytes, sha256, separated by tabs): "
                "the file was damaged; install the package again"
            )
        group, name, version, classifier, size, sha256 = fields.groups()
        artifacts.append(Artifact(group, name, version, None if classifier == "-" else classifier, int(size), sha256))
    return tuple(artifacts)
