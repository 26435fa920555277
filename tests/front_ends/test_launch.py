"""Launching Spark's programs: the command lines, and that they really run."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.errors import InvalidNameError, InvalidOptionError, SetupError
from pyspark_pravega.spark.home import CATALOG_CLASS, find_adapter_jar
from pyspark_pravega.spark.launch import PROGRAMS, Launch, plan
from pyspark_pravega.spark.logging import PROFILE

COMMAND = [sys.executable, "-m", "pyspark_pravega"]


def plan_launch(name: str, *arguments: str, settings: dict[str, str] | None = None, **environment: str) -> Launch:
    return plan(name, arguments, catalog="pravega", settings=settings or {}, environment=environment)


def test_every_program_exists_in_the_installed_spark() -> None:
    for name in PROGRAMS:
        assert os.access(plan_launch(name).command[0], os.X_OK), name


def test_the_catalog_is_configured_before_the_users_own_confs() -> None:
    launch = plan_launch("sql", "--conf", "a=b", "-e", "SELECT 1", settings={"controller-uri": "tcp://h:1"})
    command = list(launch.command)
    assert command[1:3] == ["--conf", f"spark.sql.catalog.pravega={CATALOG_CLASS}"]
    assert "spark.sql.catalog.pravega.controller-uri=tcp://h:1" in command
    assert command[-4:] == ["--conf", "a=b", "-e", "SELECT 1"]
    assert command[command.index("--jars") + 1] == str(find_adapter_jar())


def test_the_thrift_server_is_ours_with_its_own_arguments_behind_sparks(tmp_path: Path) -> None:
    conf = "spark.sql.thriftServer.catalogMetadata.enabled"
    mixed = ("--hiveconf", "a=b", "--master", "local", "--verbose", "--hiveconf", "c=d", "--conf", "e=f")
    command = plan_launch("thriftserver", *mixed).command
    assert command[1:3] == ("--class", "io.github.pysparkpravega.thriftserver.BrowsableThriftServer")
    of_server = command.index("spark-internal")
    assert command[of_server - 5 : of_server] == ("--master", "local", "--verbose", "--conf", "e=f")
    assert command[of_server + 1 :] == ("--hiveconf", "a=b", "--hiveconf", "c=d")
    assert f"{conf}=true" in command
    (tmp_path / "spark-defaults.conf").write_text(f"{conf} false\n")
    assert f"{conf}=true" not in plan_launch("thriftserver", SPARK_CONF_DIR=str(tmp_path)).command


def test_the_memory_of_sparks_servers_is_that_of_the_thrift_server() -> None:
    command = plan_launch("thriftserver", "--driver-memory", "2g", SPARK_DAEMON_MEMORY="3g").command
    assert [command[at + 1] for at, part in enumerate(command) if part == "--driver-memory"] == ["3g", "2g"]
    assert "--driver-memory" not in plan_launch("connect-server", SPARK_DAEMON_MEMORY="3g").command


def test_the_shell_shows_progress_on_a_terminal_only() -> None:
    conf = "spark.ui.showConsoleProgress"
    ask = [sys.executable, "-c", f"from pyspark_pravega.spark.launch import *; print(PROGRAMS['sql'].confs['{conf}'])"]
    ours, terminal = pty.openpty()
    shown = [
        subprocess.run(ask, stdout=subprocess.PIPE, stderr=stderr, check=True, text=True).stdout.strip()
        for stderr in (terminal, subprocess.PIPE)
    ]
    os.close(ours)
    os.close(terminal)
    assert shown == ["true", "false"]
    assert f"{conf}={PROGRAMS['sql'].confs[conf]}" in plan_launch("sql").command
    assert plan_launch("sql", "--conf", f"{conf}=true").command[-1] == f"{conf}=true"


def test_this_interpreter_runs_the_workers_unless_the_user_chose_one() -> None:
    assert plan_launch("pyspark").environment["PYSPARK_PYTHON"] == sys.executable
    chosen = plan_launch("pyspark", PYSPARK_PYTHON="/usr/bin/python3.11", PYSPARK_DRIVER_PYTHON="jupyter").environment
    assert (chosen["PYSPARK_PYTHON"], chosen["PYSPARK_DRIVER_PYTHON"]) == ("/usr/bin/python3.11", "jupyter")
    assert plan_launch("pyspark", PYSPARK_PYTHON="p").environment["PYSPARK_DRIVER_PYTHON"] == "p"


def test_a_daemon_module_of_the_user_is_kept(tmp_path: Path) -> None:
    ours = "spark.python.daemon.module=pyspark_pravega.datasource.worker_daemon"
    assert ours in plan_launch("sql").command
    assert ours not in plan_launch("sql", "--conf", "spark.python.daemon.module=mine").command
    (tmp_path / "spark-defaults.conf").write_text("spark.python.daemon.module mine\n")
    assert ours not in plan_launch("sql", SPARK_CONF_DIR=str(tmp_path)).command


def test_programs_log_warnings_only_unless_the_user_says_something_else(tmp_path: Path) -> None:
    def profile(name: str, *arguments: str, **environment: str) -> str:
        return plan_launch(name, *arguments, settings=None, **environment).environment.get("SPARK_SUBMIT_OPTS", "")

    ours = f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    assert PROFILE.is_file()
    for name in ("sql", "pyspark", "shell", "submit", "thriftserver", "connect-server"):
        assert profile(name) == ours
        assert profile(name, "--verbose") == ""
    assert profile("submit", "job.py", "--verbose") == profile("sql", "-e", "--verbose") == ours
    assert profile("sql", SPARK_SUBMIT_OPTS="-Xss4m") == f"-Xss4m {ours}"
    assert profile("sql", SPARK_SUBMIT_OPTS=f"-Xss4m {ours}") == f"-Xss4m {ours}", "of a session that starts a command"
    own = "-Dlog4j.configurationFile=mine.xml"
    assert profile("sql", "--driver-java-options", own) == ""
    assert profile("sql", "--conf", f"spark.driver.extraJavaOptions={own}") == ""
    assert profile("sql", JAVA_TOOL_OPTIONS=own) == profile("sql", LOG4J_CONFIGURATION_FILE="mine.xml") == ""
    assert profile("sql", "--conf", "spark.log.structuredLogging.enabled=true") == ""
    (tmp_path / "log4j2.properties").touch()
    assert profile("sql", SPARK_CONF_DIR=str(tmp_path)) == ""
    assert profile("sql", "--driver-class-path", f"a.jar:{tmp_path}") == ""


def test_the_server_that_pipelines_start_gets_the_catalog_too() -> None:
    arguments = ("--remote", "local[2]", "--conf", "a=b c", "run", "--spec", "spark-pipeline.yml")
    launch = plan_launch("pipelines", *arguments, settings={"security.username": "u", "security.password": "swordfish"})
    assert launch.command[-3:] == ("run", "--spec", "spark-pipeline.yml") and "--remote" in launch.command
    server = shlex.split(launch.environment["PYSPARK_SUBMIT_ARGS"])
    assert f"spark.sql.catalog.pravega={CATALOG_CLASS}" in server and "a=b c" in server
    assert server[server.index("--driver-class-path") + 1] == str(find_adapter_jar())
    assert server[-1] == "pyspark-shell" and not {"run", "--spec", "--remote", "local[2]"} & set(server)
    assert "swordfish" not in " ".join([*launch.command, *server])


def test_beeline_gets_its_arguments_only() -> None:
    assert plan_launch("beeline", "-u", "jdbc:hive2://h:1").command[1:] == ("-u", "jdbc:hive2://h:1")


def test_no_secret_is_on_the_command_line_or_printed() -> None:
    launch = plan_launch(
        "sql",
        "--conf",
        "spark.sql.catalog.other.security.auth-token=swordfish1",
        settings={"security.username": "u", "security.password": "swordfish2"},
    )
    assert "swordfish" not in " ".join(launch.command) + repr(launch)
    assert {"swordfish1", "swordfish2"} <= set(launch.environment.values())


def test_wrong_settings_fail_before_spark_starts() -> None:
    with pytest.raises(InvalidOptionError, match="Did you mean 'controller-uri'"):
        plan_launch("sql", settings={"controler-uri": "tcp://h:1"})
    with pytest.raises(InvalidNameError, match="catalog name 'a.b'"):
        plan("sql", [], catalog="a.b", settings={}, environment={})
    with pytest.raises(InvalidNameError, match="Spark's own"):
        plan("sql", [], catalog="spark_catalog", settings={}, environment={})
    with pytest.raises(SetupError, match=r"bin/spark-submit is missing. Correct or unset SPARK_HOME"):
        plan_launch("sql", SPARK_HOME="/nowhere")


AT_LENGTH = [pytest.param(name, marks=pytest.mark.long) for name in ("submit", "sql")]


@pytest.mark.parametrize("name", ["pyspark", "beeline", *AT_LENGTH])
def test_the_program_itself_answers_its_own_options(name: str) -> None:
    option = {"beeline": "--help"}.get(name, "--version")
    shown = subprocess.run([*COMMAND, name, option], text=True, capture_output=True, stdin=subprocess.DEVNULL)
    text = shown.stdout + shown.stderr
    assert ("beeline" if name == "beeline" else "version 4.3") in text.lower(), text


def test_a_submitted_program_gets_arguments_exit_code_and_adapter(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import sys, os\n"
        "from pyspark import SparkConf\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "print('ARGUMENTS', sys.argv[1:], sys.executable)\n"
        "print('JARS', spark.sparkContext.getConf().get('spark.jars'))\n"
        "spark.sparkContext._jvm.java.lang.Class.forName(\n"
        "    spark.conf.get('spark.sql.catalog.pravega'), True,\n"
        "    spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader())\n"
        # A worker of which Spark needs no more ends without a word.
        "from pyspark.sql.functions import udf\n"
        "rows = spark.range(0, 1_000_000, 1, 1).where(udf(lambda number: True, 'boolean', useArrow=False)('id'))\n"
        "print('ROWS', len(rows.limit(3).collect()))\n"
        "sys.exit(7)\n"
    )
    command = [*COMMAND, "submit", "--controller-uri", "tcp://h:1", "--master", "local[1]"]
    command += ["--conf", "spark.ui.enabled=false", "job.py", "--jars", "x"]
    done = subprocess.run(command, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert f"ARGUMENTS ['--jars', 'x'] {sys.executable}" in done.stdout
    assert "pyspark-pravega-adapter.jar" in done.stdout and "ROWS 3" in done.stdout
    # The first is Java's own and cannot be turned off, the others are for machines whose name leads nowhere.
    known = ("incubator modules", "hostname", "SPARK_LOCAL_IP")
    logged = [line for line in done.stderr.splitlines() if not any(word in line for word in known)]
    assert logged == []
