"""The main job, end to end: `make demo`.

Starts a Pravega and its schema registry on this machine (unless PRAVEGA_CONTROLLER_URI names one), runs
sensor_pipeline.sql in PySpark, looks at the tables it made from the SQL shell and over JDBC, and stops what it started.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.local.cluster import LocalCluster

EXAMPLES = Path(__file__).resolve().parent
PIPELINE = EXAMPLES / "sensor_pipeline.sql"
COMMAND = [sys.executable, "-m", "pyspark_pravega"]
QUESTION = (
    "SELECT location, min(min) AS lowest, max(max) AS highest, count(*) AS days, sum(count) AS readings "
    "FROM pravega.iot.`sensor-agg` GROUP BY location ORDER BY location"
)
# Quiet, and no more parallel than a laptop.
CONFS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}
LISTENING_WITHIN = 180.0  # seconds; a loaded machine takes long to start two JVMs

Rows = list[tuple[str, ...]]


def main() -> int:
    """Run all steps; 0 when the three front ends agree."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-demo-") as scratch:
        with servers(Path(scratch)) as environment:
            os.environ.update(environment)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark warns when it has to choose
            answers = {"PySpark": in_pyspark(), "the SQL shell": in_sql_shell(scratch), "JDBC": over_jdbc(scratch)}
    step(f"Done in {time.monotonic() - began:.0f} s")
    if len({tuple(rows) for rows in answers.values()}) != 1:
        print(f"The front ends do not agree: {answers}", file=sys.stderr)
        return 1
    print("The same rows through " + ", ".join(answers) + ".")
    print(NEXT)
    return 0


def step(text: str) -> None:
    """Show what comes next."""
    print(f"\n=== {text}", flush=True)


@contextmanager
def servers(scratch: Path) -> Iterator[Mapping[str, str]]:
    """Yield the environment variables that lead to Pravega, which runs as long as the `with` block."""
    if os.environ.get("PRAVEGA_CONTROLLER_URI"):
        step(f"Using the Pravega of the environment, {os.environ['PRAVEGA_CONTROLLER_URI']}")
        yield {}
        return
    step("Starting Pravega and the schema registry (the first time this downloads 45 MB)")
    with LocalCluster.start(scratch / "cluster", report=print, end_with_parent=True) as cluster:
        yield {
            "PRAVEGA_CONTROLLER_URI": cluster.info.controller_uri,
            "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.info.registry_uri),
        }
        step("Stopping Pravega and the schema registry")


def in_pyspark() -> Rows:
    """Run the pipeline, statement by statement, and ask the question."""
    step("PySpark: running examples/sensor_pipeline.sql")
    builder = SparkSession.builder.master("local[2]").appName("demo")
    for key, value in CONFS.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    for table in ("sensor", "`sensor-agg`"):  # of an earlier run on a Pravega that stays
        if spark.catalog.databaseExists("pravega.iot"):
            spark.sql(f"DROP TABLE IF EXISTS pravega.iot.{table}")
    for statement in statements(PIPELINE):
        print(f"\n{statement};")
        began = time.monotonic()
        spark.sql(statement.replace("'examples/", f"'{EXAMPLES}/"))
        print(f"-- {time.monotonic() - began:.1f} s", flush=True)
    step("PySpark: SELECT * FROM pravega.iot.`sensor-agg` ORDER BY date, location LIMIT 6")
    spark.sql("SELECT * FROM pravega.iot.`sensor-agg` ORDER BY date, location LIMIT 6").show()
    print(QUESTION)
    frame = spark.sql(QUESTION)
    frame.show()
    rows = [tuple(str(value) for value in row) for row in frame.collect()]
    spark.stop()
    return rows


def in_sql_shell(scratch: str) -> Rows:
    """Ask the question in spark-sql."""
    step(f'pyspark-pravega sql -e "{QUESTION}"')
    return table(output([*COMMAND, "sql", *arguments(), "-e", QUESTION], scratch))


def over_jdbc(scratch: str) -> Rows:
    """Ask the question in beeline, connected to a Thrift server."""
    port = free_port()
    step(f"pyspark-pravega thriftserver --port {port}")
    log = Path(scratch, "thriftserver.log")
    began = time.monotonic()
    with log.open("w") as file:
        command = [*COMMAND, "thriftserver", "--host", "localhost", "--port", str(port), *arguments()]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=scratch)
    try:
        while not listens(port):
            if server.poll() is not None or time.monotonic() - began > LISTENING_WITHIN:
                sys.exit(f"The Thrift server did not start:\n{log.read_text()}")
            time.sleep(0.5)
        print(f"-- listens after {time.monotonic() - began:.1f} s")
        url = f"jdbc:hive2://localhost:{port}"
        step(f'pyspark-pravega beeline -u {url} -e "{QUESTION}"')
        options = ["--silent=true", "--outputformat=tsv2", "--showHeader=false"]
        return table(output([*COMMAND, "beeline", *options, "-u", url, "-e", QUESTION], scratch))
    finally:
        server.terminate()
        server.wait()


def statements(path: Path) -> list[str]:
    """Split a SQL file; a statement ends with `;` at the end of a line."""
    lines = (line for line in path.read_text().splitlines() if not line.startswith("--"))
    return [text.strip() for text in re.split(r";\s*\n", "\n".join(lines) + "\n") if text.strip()]


def arguments() -> list[str]:
    """Return CONFS as arguments of Spark's programs."""
    return [part for key, value in CONFS.items() for part in ("--conf", f"{key}={value}")]


def output(command: list[str], cwd: str) -> str:
    """Run a program to its end; its messages are shown only when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[2:4])} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def table(text: str) -> Rows:
    """Show the tab-separated rows of a program's output and return them."""
    # beeline puts its prompt before the first row.
    lines = (re.sub(r"^\d+: jdbc:\S+> ", "", line) for line in text.splitlines())
    rows = [tuple(line.split("\t")) for line in lines if "\t" in line]
    for row in rows:
        print("  ".join(f"{value:<15}" for value in row))
    return rows


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Tell whether a server takes connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("localhost", port)) == 0


NEXT = """
Where to go next (.venv/bin/... in this checkout):
  pyspark-pravega local start               a Pravega that stays
  eval "$(pyspark-pravega local env)"       point this shell at it
  pyspark-pravega sql                       the SQL shell; also: pyspark, submit, thriftserver, beeline
  pyspark-pravega doctor                    when something does not work
  docs/                                     options, architecture, guarantees
"""

if __name__ == "__main__":
    sys.exit(main())
