"""The examples of the README, run in their order: each does what stands there, and shows what stands there."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyspark_pravega.commands.cli import main
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.checks import find_first_mistake
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.sql.script import split_script

README = Path(__file__).resolve().parents[2] / "README.md"
PATIENCE = 180


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """What stands for `iot`, which a reader has for himself."""
    name = f"readme{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP NAMESPACE pravega.{name} CASCADE")


def test_the_readme(
    cluster: ClusterInfo,
    spark: SparkSession,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    monkeypatch.setenv("PRAVEGA_SCHEMA_REGISTRY_URI", str(cluster.registry_uri))
    page = README.read_text().replace("/tmp/checkpoints", str(tmp_path / "checkpoints"))
    page = page.replace("iot.", f"{namespace}.").replace("pravega.iot", f"pravega.{namespace}")
    [(sensor, job), (by_location, daily, of_spark, without_spark), (session, catalog)] = (
        re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        for language in ("sql", "text", "python")
    )
    [later] = re.findall(r"""pyspark-pravega sql -e "(.*)"$""", page, re.MULTILINE)
    [shown] = re.findall(r"^    pyspark-pravega (show .*)$", page, re.MULTILINE)

    def run(script: str, seen: Any = lambda: False) -> None:
        assert find_first_mistake(split_script(script)) is None
        ScriptRunner(spark.newSession(), split_script(script), ProgressDisplay()).run(seen)

    assert (README.parent / "examples" / "sensor.sql").read_text() in README.read_text()
    run(sensor)
    assert by_location in capsys.readouterr().out
    began, inserted = time.monotonic(), False

    def has_a_day() -> bool:
        nonlocal inserted
        assert time.monotonic() - began < PATIENCE
        if not inserted and spark.catalog.tableExists(f"pravega.{namespace}.daily"):
            spark.sql(later)
            inserted = True
        return inserted and spark.table(f"pravega.{namespace}.daily").count() > 0

    run(job, has_a_day)
    assert len(job.splitlines()) == 8
    capsys.readouterr()
    rows = CliRunner().invoke(main, shown.split()).output
    assert sorted(rows.splitlines()) == sorted(daily.splitlines())  # a stream's segments have no common order

    names: dict[str, Any] = {}
    for program, result in ((session, of_spark), (catalog, without_spark)):
        exec(program, names)
        assert capsys.readouterr().out == result
    names["numbers"]._catalog.pravega.close()  # the reader's program ends
