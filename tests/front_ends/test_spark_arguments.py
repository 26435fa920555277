"""Arguments of spark-submit: what is changed, and above all what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_pravega.spark.arguments import SparkArguments, hide_secrets, take_options

JAR = Path("/opt/adapter.jar")
PASSWORD = "spark.sql.catalog.pravega.security.password"
VARIABLE = "SPARK_SQL_CATALOG_PRAVEGA_SECURITY_PASSWORD"


def with_jar(*arguments: str, mixed: bool = False, home: Path = Path("/nowhere"), **environment: str) -> list[str]:
    return list(SparkArguments(arguments, mixed, environment, home).add_jar(JAR).arguments)


def test_the_jar_comes_first() -> None:
    assert with_jar("--master", "local[2]", "job.py", "x") == [
        "--jars", "/opt/adapter.jar", "--master", "local[2]", "job.py", "x",
    ]  # fmt: skip


def test_jars_of_the_user_are_kept() -> None:
    assert with_jar("--jars", "a.jar,b.jar", "job.py") == ["--jars", "a.jar,b.jar,/opt/adapter.jar", "job.py"]
    assert with_jar("--jars=a.jar", "job.py") == ["--jars=a.jar,/opt/adapter.jar", "job.py"]
    assert with_jar("--jars", "/opt/adapter.jar") == ["--jars", "/opt/adapter.jar"]
    assert with_jar("--conf", "spark.jars=a.jar") == ["--jars", "a.jar,/opt/adapter.jar", "--conf", "spark.jars=a.jar"]


@pytest.mark.parametrize("line", ["spark.jars a.jar", "spark.jars=a.jar", " spark.jars : a.jar  ", "spark.jars\ta.jar"])
def test_jars_of_the_defaults_are_kept(tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"# spark.jars no.jar\nspark.jars.packages g:a:1\n{line}\n")
    expected = ["--jars", "a.jar,/opt/adapter.jar"]
    assert with_jar(home=tmp_path) == expected
    assert with_jar(SPARK_CONF_DIR=str(tmp_path / "conf")) == expected
    file = ["--properties-file", str(tmp_path / "conf" / "spark-defaults.conf")]
    assert with_jar(*file) == expected + file


def test_arguments_of_the_program_are_left_alone() -> None:
    program = ["job.py", "--jars", "mine.jar", "--conf", f"{PASSWORD}=x"]
    assert with_jar("--verbose", *program) == ["--jars", "/opt/adapter.jar", "--verbose", *program]
    assert hide_secrets(program, mixed=False) == (program, {})


def test_the_shells_mix_their_options_with_those_of_spark() -> None:
    assert with_jar("-e", "SELECT 1", "--jars", "a.jar", mixed=True) == [
        "-e", "SELECT 1", "--jars", "a.jar,/opt/adapter.jar",
    ]  # fmt: skip


def test_the_class_path_of_the_driver_is_joined(tmp_path: Path) -> None:
    def joined(*arguments: str) -> list[str]:
        return list(SparkArguments(arguments, True, {}, tmp_path).add_driver_class_path(JAR).arguments)

    assert joined("-x") == ["--driver-class-path", "/opt/adapter.jar", "-x"]
    assert joined("--driver-class-path", "a.jar:b") == ["--driver-class-path", "a.jar:b:/opt/adapter.jar"]
    assert joined("--driver-class-path=/opt/adapter.jar") == ["--driver-class-path=/opt/adapter.jar"]
    conf = ["--conf", "spark.driver.extraClassPath=a.jar"]
    assert joined(*conf) == ["--driver-class-path", "a.jar:/opt/adapter.jar", *conf]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraClassPath /etc/hive\n")
    assert joined() == ["--driver-class-path", "/etc/hive:/opt/adapter.jar"]


def test_options_that_are_not_sparks_are_found_among_its_arguments() -> None:
    names = {"--uri", "--port"}

    def taken(arguments: str, mixed: bool) -> tuple[str, str]:
        ours, rest = take_options(arguments.split(), names, mixed=mixed)
        return " ".join(ours), " ".join(rest)

    assert taken("--uri u -e S --port=1 --uri=v", mixed=True) == ("--uri u --port 1 --uri v", "-e S")
    assert taken("-e --uri --conf --port --uri", mixed=True) == ("--uri", "-e --uri --conf --port")
    assert taken("--master=m --uri u --verbose --port 1 job.py --uri v", mixed=False) == (
        "--uri u --port 1", "--master=m --verbose job.py --uri v",
    )  # fmt: skip


def test_secret_confs_move_to_the_environment() -> None:
    shown, secrets = hide_secrets(
        ["--conf", f"{PASSWORD}=hun=ter2", "--conf=spark.sql.catalog.b.security.auth-token=t", "-c", "spark.x=1"],
        mixed=True,
    )
    assert shown == [
        "--conf", f"{PASSWORD}=${{env:{VARIABLE}}}",
        "--conf=spark.sql.catalog.b.security.auth-token=${env:SPARK_SQL_CATALOG_B_SECURITY_AUTH_TOKEN}",
        "-c", "spark.x=1",
    ]  # fmt: skip
    assert secrets == {VARIABLE: "hun=ter2", "SPARK_SQL_CATALOG_B_SECURITY_AUTH_TOKEN": "t"}


def test_a_reference_stays_a_reference() -> None:
    arguments = ["--conf", f"{PASSWORD}=${{env:MINE}}"]
    assert hide_secrets(arguments, mixed=True) == (arguments, {})
