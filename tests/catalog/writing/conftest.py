"""A function of SQL that waits, for statements that others overtake."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark_fixtures import registered


class Gate:
    """A function of SQL that waits in a task until it is opened: what a statement reads is fixed by then."""

    def __init__(self, folder: Path) -> None:
        self.waits, self.opened = folder / "waits", folder / "opened"
        waits, opened = str(self.waits), str(self.opened)

        def gate(value: str) -> str:
            Path(waits).touch()
            while not Path(opened).exists():
                time.sleep(0.02)
            return value

        self.function = gate

    def wait(self, statement: Future[Any]) -> None:
        while not self.waits.exists():
            assert not statement.done(), statement.result()
            time.sleep(0.02)


@pytest.fixture
def gate(spark: SparkSession, tmp_path: Path) -> Iterator[Gate]:
    """The function `gate` for statements; it is opened afterwards."""
    gate = Gate(tmp_path)
    with registered(spark, "gate", gate.function):
        yield gate
        gate.opened.touch()
