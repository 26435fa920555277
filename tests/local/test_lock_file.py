"""Lock files and checksums."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.jars.lock_file import SERVERS_LOCK, Artifact, read_lock


def test_lock_of_the_servers_is_complete() -> None:
    artifacts = read_lock(SERVERS_LOCK)
    assert len(artifacts) == 97
    assert len({artifact.relative_path for artifact in artifacts}) == 97
    assert {artifact.name for artifact in artifacts} >= {"pravega-standalone", "schemaregistry-server"}


def test_classifier_is_part_of_the_file_name(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"# comment\n\ng.h\ta\t1.0\tlinux\t3\t{'0' * 64}\n")
    (artifact,) = read_lock(lock)
    assert artifact == Artifact("g.h", "a", "1.0", "linux", 3, "0" * 64)
    assert artifact.relative_path == Path("g.h/a-1.0-linux.jar")


@pytest.mark.parametrize(
    "line",
    [
        "g\ta\t1.0\t-\t3",
        f"g\ta\t1.0\t-\tthree\t{'0' * 64}",
        "g\ta\t1.0\t-\t3\tabc",
        f"../g\ta/b\t1.0\t-\t3\t{'0' * 64}",
    ],
)
def test_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"# comment\n{line}\n")
    with pytest.raises(SetupError, match=r"line 2 .*some\.lock"):
        read_lock(lock)
