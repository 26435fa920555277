"""Translated scripts of Flink, run on real servers."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyspark_pravega.commands.cli import main
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.flink_cases import DECLARED, cases

PAGE = Path(__file__).parents[2] / "docs" / "flink.md"


LOOKED_AT = {
    "the table of the documents",
    "several streams as a stream",
    "the delay of a watermark in a sink",
    "columns by name",
    "a hopping window with names",
    "a session window",
    "timestamps of Avro",
}
"""Cases whose results are compared. The others must run."""


def in_place(script: str, cluster: ClusterInfo, scope: str, checkpoint: Path) -> str:
    """A script of Flink with the servers, the scope and a directory of the test."""
    changes = {
        "tcp://localhost:9090": cluster.controller_uri,
        "http://localhost:9092": str(cluster.registry_uri),
        "/data/checkpoints": str(checkpoint),
        "'iot'": f"'{scope}'",
        "c2.iot.": f"c2.`{scope}`.",
        "EXISTS iot": f"EXISTS `{scope}`",
        "USE iot": f"USE `{scope}`",
    }
    for old, new in changes.items():
        script = script.replace(old, new)
    return script


def run(spark: SparkSession, script: str) -> None:
    """Run a script in Spark SQL, whose streams take what there is."""
    script = "SET pravega.stream.trigger = 'available now';\n" + script
    for old in ("'10000 ms'", "'0 ms'"):
        script = script.replace(f"SET pravega.stream.trigger = {old}", "SET pravega.stream.trigger = 'available now'")
    runner = ScriptRunner(spark.newSession(), split_script(script), ProgressDisplay(io.StringIO()))
    assert runner.run(lambda: False)


@pytest.mark.parametrize("chosen", ["looked at", pytest.param("all", marks=pytest.mark.long)])
def test_all_statements_run(
    spark: SparkSession,
    cluster: ClusterInfo,
    scope: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    chosen: str,
) -> None:
    found = {case.name: case for case in cases() if case.runs}
    assert found.keys() >= LOOKED_AT
    run_cases = [case for name, case in found.items() if chosen == "all" or name in LOOKED_AT]
    done = translate(in_place(DECLARED + "\n".join(case.flink for case in run_cases), cluster, scope, tmp_path))
    # No case takes away what another one needs.
    assert done.script.count("NOT TRANSLATED") == sum(case.spark.count("NOT TRANSLATED") for case in run_cases)
    run(spark, done.script)
    shown = capsys.readouterr().out
    assert "|u1     |2017-11-26 01:00:01|" in shown
    totals = spark.table(f"pravega.`{scope}`.totals").where("item = 'd'").collect()
    assert (1.5,) in [tuple(row)[1:] for row in totals]
    halls = spark.table(f"pravega.`{scope}`.totals").where("item = 'halls'").collect()
    assert sorted(tuple(row)[1] for row in halls) == [1.0, 2.0]
    late = spark.sql(f"SHOW TBLPROPERTIES pravega.`{scope}`.late").collect()
    properties = {row.key: row.value for row in late}
    assert (properties["event-time"], properties["event-time.delay"]) == ("at", "90s")
    windows = spark.table(f"pravega.`{scope}`.`per-window`")
    sums = windows.selectExpr("date_format(timestamp_millis(w), 'HH:mm:ss.SSS')", "item", "CAST(total AS INT)")
    # 08:00 to 08:10 has 4, 2 and 5; 08:05 to 08:15 has 4, 2, 5, 3 and 1.
    expected = {("08:10:00.000", "hop", 11), ("08:15:00.000", "hop", 15), ("08:05:00.000", "a", 9)}
    assert {tuple(row) for row in sums.collect()} >= expected | {("10:00:00.123", "measured", 1)}
    assert "|1  |2020-01-01 10:00:00.123|2020-01-01 10:00:00|" in shown


def example() -> tuple[str, str, str]:
    """The script of Flink, the script that it becomes, and what is said, as the page shows them."""
    flink, job, said = re.findall(r"^```(?:sql|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[:3]
    return flink, job, said


def test_the_example_is_what_the_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flink, job, said = example()
    monkeypatch.chdir(tmp_path)
    Path("flink.sql").write_text(flink)
    arguments = ["translate", "flink.sql", "--checkpoint", "/data/checkpoints", "--output", "job.sql"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", said)
    assert Path("job.sql").read_text() == job


def test_the_example_runs(spark: SparkSession, cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    flink, _, _ = example()
    flink = flink.replace("'auction'", f"'{scope}'").replace("'totals'", "'example'").replace("'bids'", "'bids-2'")
    rows = """INSERT INTO bids VALUES
      ('C', 4.00, TIMESTAMP '2020-04-15 08:05:00'), ('A', 2.00, TIMESTAMP '2020-04-15 08:07:00'),
      ('C', 5.00, TIMESTAMP '2020-04-15 08:09:00'), ('D', 1.00, TIMESTAMP '2020-04-15 08:25:00');
    """
    flink = flink.replace("INSERT INTO totals", f"{rows}INSERT INTO totals")
    run(spark, translate(in_place(flink, cluster, scope, tmp_path), checkpoint=str(tmp_path / "c")).script)
    found = spark.table(f"pravega.`{scope}`.example").collect()
    assert {(f"{row.window_start:%H:%M}", row.item, int(row.total)) for row in found} == {
        ("08:00", "C", 9),
        ("08:00", "A", 2),
    }
