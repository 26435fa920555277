"""Temporary files lie where Spark wants an executor's, on all of its disks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pyspark_pravega.datasource.changes.states import RowStates
from pyspark_pravega.datasource.insert.spool import Spool
from pyspark_pravega.datasource.workers.local_directories import local_directories


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two directories, as Spark names them to the Python workers of an executor."""
    disks = [tmp_path / "disk-1", tmp_path / "disk-2"]
    for disk in disks:
        disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, disks)))
    return disks


def open_files_below(directory: Path) -> int:
    """How many files of a directory this process has open; a deleted one counts."""
    return sum(os.readlink(f"/proc/self/fd/{number}").startswith(f"{directory}/") for number in open_descriptors())


def open_descriptors() -> list[str]:
    listed = os.listdir("/proc/self/fd")
    return [number for number in listed if os.path.lexists(f"/proc/self/fd/{number}")]


def test_spools_share_the_disks(disks: list[Path]) -> None:
    spools = [Spool(memory=10) for _ in range(64)]
    for spool in spools:
        spool.room(0, 19, 1)[:] = b"more than ten bytes"
        spool.take_filled()
        spool.room(0, 4, 2)[:] = b"rest"
        spool.take_filled()
    on_each = [open_files_below(disk) for disk in disks]
    assert sum(on_each) == len(spools) and all(on_each)
    for spool in spools:
        assert [(bytes(block), events) for block, events in spool.blocks(0)] == [
            (b"more than ten bytes", 1),
            (b"rest", 2),
        ]
        assert spool.digest(0) == hashlib.sha256(b"more than ten bytesrest").digest()
        spool.close()
    assert [open_files_below(disk) for disk in disks] == [0, 0]


def test_states_of_rows_stay_in_one_place(disks: list[Path]) -> None:
    assert {RowStates().directory.parent for _ in range(16)} == {disks[0]}


def test_without_an_executor_it_is_the_systems_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert local_directories() == [tmp_path]
