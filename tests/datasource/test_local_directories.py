"""Temporary files lie where Spark wants an executor's, on all of its disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_pravega.datasource.changes.states import RowStates
from pyspark_pravega.datasource.workers.local_directories import choose_spill_directory, list_local_directories


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two directories, as Spark names them to the Python workers of an executor."""
    disks = [tmp_path / "disk-1", tmp_path / "disk-2"]
    for disk in disks:
        disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, disks)))
    return disks


def test_the_files_of_tasks_share_the_disks(disks: list[Path]) -> None:
    assert {choose_spill_directory() for _ in range(64)} == set(disks)


def test_states_of_rows_stay_in_one_place(disks: list[Path]) -> None:
    assert {RowStates().directory.parent for _ in range(16)} == {disks[0]}


def test_without_an_executor_it_is_the_systems_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert list_local_directories() == [tmp_path]
