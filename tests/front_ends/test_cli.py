"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyspark_pravega import __version__
from pyspark_pravega.commands.cli import main
from pyspark_pravega.spark.home import CATALOG_CLASS


def run(*arguments: str, **environment: str | None) -> Result:
    unset = {"PRAVEGA_CONTROLLER_URI": None, "PRAVEGA_SCHEMA_REGISTRY_URI": None, "PRAVEGA_TRUST_STORE": None}
    return CliRunner(env={**unset, **environment}).invoke(main, arguments)


def test_help_lists_every_command() -> None:
    shown = run("--help").output
    own = ("local", "run", "conf", "doctor", "show", "ui", "metrics", "consumers", "translate")
    for command in (*own, "sql", "thriftserver", "connect-server", "beeline", "pyspark", "submit", "pipelines"):
        assert f"\n  {command} " in shown, command
    assert __version__ in run("--version").output


def test_conf_prints_lines_for_spark_defaults() -> None:
    shown = run("conf", "--controller-uri", "tcp://h:1").output.splitlines()
    pairs = dict(line.split(None, 1) for line in shown)
    assert pairs["spark.sql.catalog.pravega"] == CATALOG_CLASS
    assert pairs["spark.sql.catalog.pravega.controller-uri"] == "tcp://h:1"
    assert pairs["spark.pyspark.python"] == sys.executable
    assert pairs["spark.python.daemon.module"] == "pyspark_pravega.datasource.worker_daemon"
    assert Path(pairs["spark.jars"]).is_file()


def test_conf_takes_the_environment_and_refers_to_its_secrets() -> None:
    login = {"pravega_client_auth_method": "Basic", "pravega_client_auth_token": "c3dvcmRmaXNo"}
    shown = run("conf", "--catalog", "p", "--arguments", PRAVEGA_CONTROLLER_URI="tls://h:1", **login).output
    assert "--conf spark.sql.catalog.p.controller-uri=tls://h:1" in shown
    assert "--conf spark.sql.catalog.p.security.auth-type=Basic" in shown
    assert "'spark.sql.catalog.p.security.auth-token=${env:pravega_client_auth_token}'" in shown
    assert "c3dvcmRmaXNo" not in shown


def test_jar_prints_one_path() -> None:
    assert Path(run("jar").output.strip()).is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conf", "--controller-uri", "tcp://me:secret@h:1"), "must not hold credentials"),
        (("conf", "--catalog", "a-b"), "[PRAVEGA_INVALID_NAME]"),
        (("sql", "--catalog", "system"), "is Spark's own"),
        (("sql", "--controller-uri", ""), "it is empty"),
        (("sql", "-e", "SELECT 1", "--controller-uri", "tcp://me:secret@h:1"), "must not hold credentials"),
        (("sql", "-e", "SELECT 1", "--controller-uri"), "Option '--controller-uri' requires an argument"),
        (("thriftserver", "--port", "port"), "is not a valid integer"),
        (("thriftserver", "--master", "local", "--port=port"), "is not a valid integer"),
        (("run", "--master", "local[1]"), "Name the script"),
        (("run", "job.sql", "--catalog", "system"), "is Spark's own"),
        (("run", "--mastr", "local[1]", "job.sql"), "no option '--mastr'. Did you mean '--master'?"),
        (("run", "--conf", "--x=1", "job.sql", "--chek"), "no option '--chek'. Did you mean '--check'?"),
        (("run", "job.sql", "--controler-uri=tcp://me:secret@h:1"), "r-uri'. Did you mean '--controller-uri'"),
        (("run", "--nothing-like-it", "job.sql"), "'--nothing-like-it'. Valid options are those of --help"),
        (("run", "job.sql", "--verbose", "other.sql"), "'job.sql' and 'other.sql' are two"),
        (("sequel",), "No such command 'sequel'"),
    ],
)
def test_mistakes_are_one_message_and_an_exit_code(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in result.output and "Traceback" not in result.output and "secret" not in result.output


def test_pipelines_name_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = run("pipelines", "run")
    assert result.exit_code != 0
    assert "[PRAVEGA_SETUP_FAILED]" in result.output
    assert 'pip install "pyspark[connect]" "pandas<3" pyyaml' in result.output


def test_translate_says_what_it_did_by_its_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "flink.sql"
    for text, code, said in (
        ("SHOW FUNCTIONS", 0, "1 statement; not translated: 0, to check: 0, notes: 0"),
        ("ADD JAR 'x'", 3, ":1: NOT TRANSLATED: ADD JAR has no equivalent in a script."),
        ("SELECT 'open", 1, "[PRAVEGA_INVALID_SCRIPT]"),
        ("-- nothing", 1, "has no statement"),
    ):
        script.write_text(text)
        result = run("translate", str(script))
        assert result.exit_code == code and said in result.stderr, result.stderr
        assert bool(result.stdout) == (code != 1)
    assert run("translate", "--catalog", "a-b", str(script)).exit_code == 1
    assert run("translate", str(tmp_path / "missing.sql")).exit_code == 2
    assert CliRunner().invoke(main, ["translate", "-"], input="SELECT 1").stdout == "SELECT\n  1;\n"


def test_a_table_without_a_namespace_is_answered_in_words_of_the_shell() -> None:
    for command in ("head", "schema", "history", "lag"):
        assert run("show", command, "daily").output.splitlines()[-1] == (
            f"Error: 'daily' has no namespace. Write main show {command} <namespace>.daily; `pyspark-pravega show "
            "tables` lists the tables of all namespaces."
        )
