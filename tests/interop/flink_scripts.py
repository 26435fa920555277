"""Scripts of Flink on the servers of a test run: in Flink as they are, and in Spark as `translate` makes them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.sql.flink.statements import split_flink_script
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.interop.flink import Flink

BATCH_OF_BIDS = {
    "'scan.streams' = 'bid'": "'scan.streams' = 'bid', 'scan.execution.type' = 'batch'",
    "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'": "'format' = 'avro'",
}
"""Changes of the table of bids that let a batch of Flink find its rows: batches of JSON have none."""
_MODE = "execution.runtime-mode"


def place(script: str, cluster: ClusterInfo, scope: str, checkpoints: Path) -> str:
    """Return a script for the servers of the tests."""
    places = {
        "tcp://localhost:9090": cluster.controller_uri,
        "http://localhost:9092": str(cluster.registry_uri),
        "file:///data/checkpoints": checkpoints.as_uri(),
        "'iot'": f"'{scope}'",
        "c2.iot.": f"c2.`{scope}`.",
        "EXISTS iot": f"EXISTS `{scope}`",
        # Rows of a transaction would be seen after a checkpoint.
        "'sink.semantic' = 'exactly-once'": "'sink.semantic' = 'at-least-once'",
    }
    for old, new in places.items():
        script = script.replace(old, new)
    return script


def run_by_spark(spark: SparkSession, script: str) -> None:
    """Run a script of Flink, translated, on what its streams have."""
    session = spark.newSession()
    session.conf.set("pravega.stream.trigger", "available now")
    runner = ScriptRunner(session, split_script(translate(script).script), ProgressDisplay(io.StringIO()))
    assert runner.run(lambda: False)


def declarations(script: str) -> str:
    """Return the tables of connector `pravega`, whose streams Flink does not create."""
    statements = [each.text for each in split_flink_script(script)[0] if each.words[:2] == ("CREATE", "TABLE")]
    return "".join(f"{each};\n" for each in statements if "'connector' = 'pravega'" in each)


def change(script: str, changes: Mapping[str, str]) -> str:
    """Return a script with these texts in place of others, all of which it has."""
    for old, new in changes.items():
        assert old in script
        script = script.replace(old, new)
    return script


def statements_with_ends(script: str) -> Iterator[tuple[str, bool]]:
    """Yield the statements of a stream as Flink's SQL client runs them, each with whether it ends by itself."""
    parts = []
    for each in split_flink_script(script.replace("BEGIN STATEMENT SET;", "EXECUTE STATEMENT SET BEGIN"))[0]:
        parts.append(each)
        # A statement set is one job.
        if parts[0].words[0] != "EXECUTE" or each.words == ("END",):
            endless = parts[0].words[0] != "CREATE" and any("FROM" in part.words for part in parts)
            yield ";\n".join(part.text for part in parts), not endless
            parts = []


@contextmanager
def running_in_flink(flink: Flink, script: str) -> Iterator[None]:
    """Run a script; jobs that do not end by themselves are cancelled after the body."""
    batch = f"SET '{_MODE}' = 'batch';" in script
    session = flink.begin({_MODE: "batch"} if batch else {})
    with ExitStack() as jobs:
        for statement, ends in statements_with_ends(script):
            if statement.startswith(("SET ", "SELECT ")):
                continue
            if ends or batch:
                session.run(statement)
            else:
                jobs.enter_context(session.running(statement))
        yield
