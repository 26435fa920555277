"""`configure`: in processes of their own, because a driver can be started once a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.spark.home import CATALOG_CLASS

BEGIN = """\
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark_pravega import configure
from pyspark_pravega.errors import PravegaError
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
"""


def run(tmp_path: Path, program: str, *command: str, **environment: str) -> str:
    script = tmp_path / "program.py"
    script.write_text(BEGIN + program)
    done = subprocess.run(
        [sys.executable, *command, str(script)],
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "log").write_text(done.stderr)
    return done.stdout


def test_a_session_has_catalog_jar_and_interpreter_and_no_secret_on_a_command_line(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        'login = {"security_username": "u", "security_password": "swordfish"}\n'
        'spark = configure(builder, controller_uri="tcp://h:1", request_timeout="5s", **login).getOrCreate()\n'
        'for key in ("spark.sql.catalog.pravega", "spark.sql.catalog.pravega.controller-uri",\n'
        '            "spark.sql.catalog.pravega.request-timeout", "spark.jars",\n'
        '            "spark.sql.catalog.pravega.security.password"):\n'
        "    print(spark.conf.get(key))\n"
        "print(spark.sparkContext.pythonExec)\n"
        'lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.parent.exists()]\n'
        'print([line for line in lines if b"swordfish" in line])\n'
        'print(os.environ["SPARK_SQL_CATALOG_PRAVEGA_SECURITY_PASSWORD"])\n'
        "try:\n"
        "    spark.sql('SELECT nothing')\n"
        "except Exception:\n"
        "    pass\n",
    ).splitlines()
    # Java's own line cannot be turned off. Neither Spark's profile nor PySpark's JSON of the error is told of.
    assert [line for line in (tmp_path / "log").read_text().splitlines() if "incubator" not in line] == []
    assert shown[:3] == [CATALOG_CLASS, "tcp://h:1", "5s"]
    assert shown[3].endswith("pyspark-pravega-adapter.jar")
    assert shown[4:] == ["${env:SPARK_SQL_CATALOG_PRAVEGA_SECURITY_PASSWORD}", sys.executable, "[]", "swordfish"]


def test_several_catalogs_and_what_the_user_has_set(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        'builder = builder.config("spark.jars", "file:///tmp")\n'
        'os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.python.daemon.module=mine pyspark-shell"\n'
        'configure(builder, catalog="a")\n'
        'print("spark.python.daemon.module" in builder._options)\n'
        'del os.environ["PYSPARK_SUBMIT_ARGS"]\n'
        'configure(builder, catalog="b", **{"security.validate-hostname": False})\n'
        "print(builder._options)\n",
    )
    assert "'spark.sql.catalog.a': 'io.github" in shown and "'spark.sql.catalog.b': 'io.github" in shown
    assert "'spark.sql.catalog.b.security.validate-hostname': 'false'" in shown
    assert shown.count("pyspark-pravega-adapter.jar") == 1 and "'spark.jars': 'file:///tmp,/" in shown
    assert shown.startswith("False\n")  # a daemon module of the user's is kept
    assert "'spark.python.daemon.module': 'pyspark_pravega.datasource.worker_daemon'" in shown


MISTAKES = {
    'configure(builder, controler_uri="x")': "Did you mean 'controller-uri'?",
    "configure(builder, read_window=1)": "allowed: 64k to 256m",
    'configure(builder, catalog="my-catalog")': "[PRAVEGA_INVALID_NAME]",
    "configure(builder, scope=1.5)": "is a float",
    "builder.getOrCreate(); configure(builder)": "Call configure() before the first getOrCreate()",
}


def test_mistakes_are_answered_with_a_sentence(tmp_path: Path) -> None:
    attempt = "try:\n    {}\nexcept PravegaError as error:\n    print(error)\nelse:\n    print('no error')\n"
    shown = run(tmp_path, "".join(attempt.format(call) for call in MISTAKES)).splitlines()
    assert len(shown) == len(MISTAKES)
    for line, message in zip(shown, MISTAKES.values(), strict=True):
        assert message in line


@pytest.mark.faults
def test_jars_of_the_environment_and_of_the_defaults_are_kept(tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))  # an empty archive
    program = 'print("JARS", configure(builder).getOrCreate().conf.get("spark.jars"))\n'
    shown = run(tmp_path, program, PYSPARK_SUBMIT_ARGS=f"--jars {jar} pyspark-shell")
    assert "mine.jar" in shown and shown.count("pyspark-pravega-adapter.jar") == 1
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars {jar}\n")
    shown = run(tmp_path, program, SPARK_CONF_DIR=str(tmp_path))
    assert "mine.jar" in shown and shown.count("pyspark-pravega-adapter.jar") == 1


@pytest.mark.long
def test_configure_inside_a_submitted_program_keeps_the_jars_of_the_command_line(tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))  # an empty archive
    program = 'print("JARS", configure(builder).getOrCreate().conf.get("spark.jars"))\n'
    submit = ["-m", "pyspark_pravega", "submit", "--master", "local[1]", "--jars", str(jar)]
    jars = next(line for line in run(tmp_path, program, *submit).splitlines() if line.startswith("JARS"))
    assert "mine.jar" in jars and jars.count("pyspark-pravega-adapter.jar") == 1
