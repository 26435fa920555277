"""The main job, end to end: `make demo`.

Starts a Pravega and its schema registry on this machine, runs sensor_pipeline.sql in PySpark, and looks at the tables
it made from the SQL shell and over JDBC. Then it runs sensor_stream.sql, which is the same as a stream, kills it in the
middle, runs it again, and compares. At the end it stops what it started.

With PRAVEGA_CONTROLLER_URI set it uses that cluster instead. There it makes tables of its own, refuses to run where
some of their names exist already, and drops what it made at the end (unless --keep).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.connecting import read_client_config
from pyspark_pravega.errors import PravegaError, SchemaNotFoundError
from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.spark.arguments import SparkArguments
from pyspark_pravega.spark.home import find_spark_home
from pyspark_pravega.spark.logging import make_quiet_logging
from pyspark_pravega.sql.identifiers import hyphenate, quote_all
from pyspark_pravega.sql.options import resolve

EXAMPLES = Path(__file__).resolve().parent
PIPELINE = EXAMPLES / "sensor_pipeline.sql"
STREAM = EXAMPLES / "sensor_stream.sql"
READINGS = EXAMPLES / "hourly_temperatures.csv"
COMMAND = [sys.executable, "-m", "pyspark_pravega"]
QUESTION = (
    "SELECT location, min(min) AS lowest, max(max) AS highest, count(*) AS days, sum(count) AS readings "
    "FROM {table} GROUP BY location ORDER BY location"
)
STREAM_TABLES = ("sensor_live", "sensor_daily")
"""Tables that the streaming form of the pipeline makes."""
TABLES = ("sensor", "sensor_agg", *STREAM_TABLES)
"""Tables that the demo makes."""
FILES = 4
"""The number of files with readings, each of which becomes a micro-batch."""
# The last day is not over. Sums of floating-point numbers depend on their order, so means may differ in the last digit.
COMPARISON = """SELECT count(*), count(batch.location), count(stream.location), sum(stream.count),
  count_if(batch.min = stream.min AND batch.max = stream.max AND batch.count = stream.count
    AND abs(batch.avg - stream.avg) < 0.011)
FROM (SELECT * FROM {scope}.sensor_agg WHERE date < '2010-12-31') AS batch
FULL JOIN {scope}.sensor_daily AS stream ON batch.location = stream.location AND batch.date = stream.date"""
# Quiet, and no more parallel than a laptop.
CONFS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}
LISTENING_WITHIN = 180.0  # seconds; a loaded machine takes long to start two JVMs
STREAMED_WITHIN = 240.0

Rows = list[tuple[str, ...]]


def main() -> int:
    """Run all steps; return 0 if the three front ends agree, and the stream agrees with the batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespace", default="demo", help="scope that the tables are made in (default: demo)")
    parser.add_argument("--keep", action="store_true", help="leave the tables when the cluster stays")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what was started ends on the way out
    try:
        return run(arguments.namespace, arguments.keep)
    except PravegaError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def run(namespace: str, keep: bool) -> int:
    """Run all steps in a namespace; return 0 if the three front ends agree, and the stream agrees with the batch."""
    began = time.monotonic()
    stays = bool(os.environ.get("PRAVEGA_CONTROLLER_URI"))
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-demo-") as scratch:
        with open_servers(Path(scratch)) as environment:
            os.environ.update(environment)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark warns when it has to choose
            # As `pyspark-pravega sql` and `submit` do for the programs that they start.
            spark_home = find_spark_home(os.environ)
            os.environ.update(make_quiet_logging(SparkArguments([], False, os.environ, spark_home)))
            if names := find_existing_names(namespace):
                print(
                    f"demo: this cluster has {' and '.join(names)} already, and the demo touches nothing that it has "
                    "not made itself. Name another scope for it, existing or not: --namespace NAME "
                    "(make demo DEMO_ARGS='--namespace NAME').",
                    file=sys.stderr,
                )
                return 1
            question = QUESTION.format(table=f"pravega.{quote_all((namespace, 'sensor_agg'))}")
            spark = open_session()
            try:
                with run_pipeline(spark, namespace, keep=keep or not stays):
                    answers = {
                        "PySpark": ask_in_pyspark(spark, namespace, question),
                        "the SQL shell": ask_in_sql_shell(question, scratch),
                        "JDBC": ask_over_jdbc(question, scratch),
                    }
                    with drop_streaming_tables(spark, namespace, keep=keep or not stays):
                        same = run_as_stream(spark, namespace, Path(scratch))
            finally:
                spark.stop()
    show_step(f"Done in {time.monotonic() - began:.0f} s, without the time of setting up and compiling")
    if len({tuple(rows) for rows in answers.values()}) != 1:
        print(f"The front ends do not agree: {answers}", file=sys.stderr)
        return 1
    if not same:
        print("The stream has not written what the batch has written.", file=sys.stderr)
        return 1
    print("The same rows through " + ", ".join(answers) + ", and through a stream that was killed in the middle.")
    print(NEXT_IN_A_CONTAINER if Path(__file__).is_relative_to("/opt/pyspark-pravega") else NEXT)
    return 0


def find_existing_names(namespace: str) -> list[str]:
    """Return the existing names among those that the pipeline will make, as users see them."""
    found = []
    with connect(read_client_config(resolve(env=os.environ))) as pravega:
        for name in TABLES:
            shown = quote_all((namespace, name))
            stream = Stream(namespace, hyphenate(name))
            if pravega.controller.stream_exists(stream):
                found.append(f"the stream {shown}")
            if has_schemas(pravega, namespace, stream.name):
                found.append(f"the schema group {shown}")
    return found


def has_schemas(pravega: Pravega, namespace: str, name: str) -> bool:
    """Return whether there is a schema group for a stream; it may be there before the stream."""
    if pravega.config.registry_uri is None:
        return False
    try:
        pravega.registry(namespace).group(name)
    except SchemaNotFoundError:
        return False
    return True


def show_step(text: str) -> None:
    """Show what comes next."""
    print(f"\n=== {text}", flush=True)


@contextmanager
def open_servers(scratch: Path) -> Iterator[Mapping[str, str]]:
    """Yield the environment variables that lead to a Pravega that runs during the `with` block."""
    if os.environ.get("PRAVEGA_CONTROLLER_URI"):
        show_step(f"Using the Pravega of the environment, {os.environ['PRAVEGA_CONTROLLER_URI']}")
        yield {}
        return
    show_step("Starting Pravega and the schema registry (a minute; the first time this downloads 46 MB)")
    with LocalCluster.start(scratch / "cluster", report=print, end_with_parent=True) as cluster:
        yield {
            "PRAVEGA_CONTROLLER_URI": cluster.info.controller_uri,
            "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.info.registry_uri),
        }
        show_step("Stopping Pravega and the schema registry")


def open_session() -> SparkSession:
    """Start PySpark with Pravega in it."""
    builder = SparkSession.builder.master("local[2]").appName("demo")
    for key, value in CONFS.items():
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()


@contextmanager
def run_pipeline(spark: SparkSession, namespace: str, *, keep: bool) -> Iterator[None]:
    """Run sensor_pipeline.sql in a namespace. At the end, drop exactly what this made, unless `keep`."""
    show_step("PySpark: running examples/sensor_pipeline.sql")
    scope = f"pravega.{quote_all((namespace,))}"
    made: list[str] = []
    new_scope = not spark.catalog.databaseExists(scope)
    try:
        for statement in split_statements(PIPELINE):
            statement = statement.replace("pravega.iot", scope)
            print(f"\n{statement};")
            began = time.monotonic()
            spark.sql(statement.replace("'examples/", f"'{EXAMPLES}/"))
            print(f"-- {time.monotonic() - began:.1f} s", flush=True)
            if created := re.match(r"CREATE TABLE (\S+)", statement):
                made.append(f"TABLE {created[1]}")
            if new_scope and statement.startswith("CREATE NAMESPACE"):
                made.append(f"NAMESPACE {scope}")
        yield
    finally:
        for what in [] if keep else sorted(made, reverse=True):  # tables before their namespace
            print(f"DROP {what};", flush=True)
            try:
                spark.sql(f"DROP {what}")
            except PySparkException as error:  # the rest is dropped anyway
                print(f"demo: it is left there: {error}", file=sys.stderr)
        spark.catalog.dropTempView("temperatures")


def ask_in_pyspark(spark: SparkSession, namespace: str, question: str) -> Rows:
    """Look at the result and ask the question."""
    select = f"SELECT * FROM pravega.{quote_all((namespace, 'sensor_agg'))} ORDER BY date, location LIMIT 6"
    show_step(f"PySpark: {select}")
    spark.sql(select).show()
    print(question)
    frame = spark.sql(question)
    frame.show()
    return [tuple(str(value) for value in row) for row in frame.collect()]


def ask_in_sql_shell(question: str, scratch: str) -> Rows:
    """Ask the question in spark-sql."""
    show_step(f'pyspark-pravega sql -e "{question}"')
    print("-- starts another Spark: half a minute", flush=True)
    return show_table(read_output([*COMMAND, "sql", *build_arguments(), "-e", question], scratch))


def ask_over_jdbc(question: str, scratch: str) -> Rows:
    """Ask the question in beeline, connected to a Thrift server."""
    port = find_free_port()
    show_step(f"pyspark-pravega thriftserver --port {port}")
    print("-- starts another Spark: half a minute", flush=True)
    log = Path(scratch, "thriftserver.log")
    began = time.monotonic()
    with log.open("w") as file:
        command = [*COMMAND, "thriftserver", "--host", "localhost", "--port", str(port), *build_arguments()]
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=scratch)
    try:
        while not is_listening(port):
            if server.poll() is not None or time.monotonic() - began > LISTENING_WITHIN:
                sys.exit(f"The Thrift server did not start:\n{log.read_text()}")
            time.sleep(0.5)
        print(f"-- listens after {time.monotonic() - began:.1f} s")
        url = f"jdbc:hive2://localhost:{port}"
        show_step(f'pyspark-pravega beeline -u {url} -e "{question};"')
        print("-- connects: half a minute", flush=True)
        options = ["--silent=true", "--outputformat=tsv2", "--showHeader=false"]
        return show_table(read_output([*COMMAND, "beeline", *options, "-u", url, "-e", f"{question};"], scratch))
    finally:
        server.terminate()
        server.wait()


@contextmanager
def drop_streaming_tables(spark: SparkSession, namespace: str, *, keep: bool) -> Iterator[None]:
    """At the end, drop what sensor_stream.sql makes, unless `keep`."""
    try:
        yield
    finally:
        for name in () if keep else STREAM_TABLES:
            what = f"TABLE IF EXISTS pravega.{quote_all((namespace, name))}"
            print(f"DROP {what};", flush=True)
            spark.sql(f"DROP {what}")


def run_as_stream(spark: SparkSession, namespace: str, scratch: Path) -> bool:
    """Run sensor_stream.sql, kill it in the middle, run it to the end; return whether all days are as in the batch."""
    scope = f"pravega.{quote_all((namespace,))}"
    job = write_streaming_job(scope, scratch)
    show_step("pyspark-pravega run examples/sensor_stream.sql")
    comparison = COMPARISON.format(scope=scope)
    print(job.read_text().partition("SET pravega")[2].partition("\n\n")[2].strip())

    log = scratch / "stream.log"

    def days() -> int:
        return spark.table(f"{scope}.sensor_daily").count() if "started" in log.read_text() else 0

    every = spark.sql(f"SELECT * FROM {scope}.sensor_agg WHERE date < '2010-12-31'").count()
    # The micro-batch after the one that ends a day writes its row. A query that is killed between the two writes
    # the row only with the next readings: the last file comes when it is started again.
    runs = (
        (range(FILES - 1), signal.SIGKILL, 1, "killed with SIGKILL"),
        ([FILES - 1], signal.SIGINT, every, "started again, stopped with SIGINT"),
    )
    for numbers, stop, enough, what in runs:
        write_readings(scratch / "readings", numbers)
        print(f"-- streams until {enough} of the {every} days are there: a minute", flush=True)
        began = time.monotonic()
        with start_streaming(job, log) as program:
            while (found := days()) < enough:
                if program.poll() is not None or time.monotonic() - began > STREAMED_WITHIN:
                    sys.exit(f"The stream has written {found} days:\n{log.read_text()}")
                time.sleep(0.2)
            os.killpg(program.pid, stop)  # the program, Spark's JVM and all that it has started
            program.wait()
        seconds = time.monotonic() - began
        print(f"-- {days()} of the {every} days that were over, after {seconds:.1f} s; {what}", flush=True)
    compared = spark.sql(comparison).first()
    assert compared is not None
    rows, in_batch, in_stream, readings, equal = compared
    print(f"-- {in_stream} days of {readings:,} readings from the stream, {in_batch} from the batch: {equal} are equal")
    return bool(rows == in_batch == in_stream == equal == every)


def write_streaming_job(scope: str, scratch: Path) -> Path:
    """Write the script for this run, which reads the files of a folder that is empty at first."""
    files = scratch / "readings"
    files.mkdir()
    text = STREAM.read_text().replace("pravega.iot", scope).replace("'checkpoints'", f"'{scratch / 'checkpoints'}'")
    job = scratch / "sensor_stream.sql"
    job.write_text(text.replace(f"'examples/{READINGS.name}'", f"'{files}'"))
    return job


def write_readings(files: Path, numbers: Iterable[int]) -> None:
    """Write some of the files of readings into a folder, numbered in the order of their times."""
    heading, *lines = READINGS.read_text().splitlines()
    for number in numbers:
        part = lines[len(lines) * number // FILES : len(lines) * (number + 1) // FILES]
        new = files / f".{number}"
        new.write_text("\n".join([heading, *part]) + "\n")
        os.utime(new, (number, number))  # Spark takes them in this order
        new.rename(files / f"{number}.csv")


@contextmanager
def start_streaming(job: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a script in the background, in its own process group, and kill what is left of that at the end."""
    command = [*COMMAND, "run", "--master", "local[2]", *build_arguments(), str(job)]
    with log.open("wb") as out:
        program = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent, start_new_session=True)
    try:
        yield program
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def split_statements(path: Path) -> list[str]:
    """Split a SQL file; a statement ends with `;` at the end of a line."""
    lines = (line for line in path.read_text().splitlines() if not line.startswith("--"))
    return [text.strip() for text in re.split(r";\s*\n", "\n".join(lines) + "\n") if text.strip()]


def build_arguments() -> list[str]:
    """Return CONFS as arguments of Spark's programs."""
    return [part for key, value in CONFS.items() for part in ("--conf", f"{key}={value}")]


def read_output(command: list[str], cwd: str) -> str:
    """Run a program to its end; its messages are shown only when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[2:4])} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def show_table(text: str) -> Rows:
    """Show the tab-separated rows of a program's output and return them."""
    # beeline puts its prompt before the first row.
    lines = (re.sub(r"^\d+: jdbc:\S+> ", "", line) for line in text.splitlines())
    rows = [tuple(line.split("\t")) for line in lines if "\t" in line]
    for row in rows:
        print("  ".join(f"{value:<15}" for value in row))
    return rows


def find_free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Return whether a server accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("localhost", port)) == 0


NEXT = """
Where to go next (.venv/bin/... in this checkout):
  pyspark-pravega local start               a Pravega that stays
  eval "$(pyspark-pravega local env)"       point this shell at it
  pyspark-pravega sql                       the SQL shell; also: pyspark, submit, thriftserver, beeline
  pyspark-pravega doctor                    when something does not work
  docs/                                     streaming, options, guarantees
"""
NEXT_IN_A_CONTAINER = """
Where to go next, beside the services of docker/compose.yaml:
  docker compose -f docker/compose.yaml exec thriftserver pyspark-pravega sql      the SQL shell
  docker compose -f docker/compose.yaml exec thriftserver pyspark-pravega doctor   when something does not work
  docs/deployment.md#containers                                                    what else the image runs
"""

if __name__ == "__main__":
    sys.exit(main())
