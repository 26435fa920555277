"""Find and change single options among the arguments of spark-submit and its relatives.

Which tokens are Spark's is decided as Spark's launcher does (org.apache.spark.launcher.SparkSubmitOptionParser):
an option takes the next token as its value; the first other token is the program, whose own arguments follow
and must stay untouched. The SQL shell and the servers have no program and may mix their options with Spark's.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from pyspark_pravega.spark.catalog_conf import hide_secret
from pyspark_pravega.spark.home import find_conf_directory

_WITH_VALUE = frozenset(
    "--archives --class --conf -c --deploy-mode --driver-class-path --driver-cores --driver-default-class-path "
    "--driver-java-options --driver-library-path --driver-memory --executor-cores --executor-memory "
    "--extra-properties-file --files --jars --keytab --kill --master --remote --name --num-executors --packages "
    "--exclude-packages --principal --properties-file --proxy-user --py-files --queue --repositories --status "
    "--total-executor-cores".split()
)
JAVA_OPTION_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables from which the driver's Java takes options, besides its command line."""
JAVA_OPTIONS_CONF = "spark.driver.defaultJavaOptions"
"""Spark puts these options in front of `spark.driver.extraJavaOptions`, which is left to the user."""

_SHELL_WITH_VALUE = frozenset("-e -f -i -d --database --define --hiveconf --hivevar".split())
_SWITCHES = frozenset("--help -h --supervise --usage-error --verbose -v --version --load-spark-defaults".split())


def add_jar(
    arguments: Sequence[str], jar: Path, *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> list[str]:
    """Add a jar to the class path, and keep every jar that was there: `--jars` would replace all of them."""
    jars = join_jars(find_jars(arguments, mixed=mixed, environment=environment, spark_home=spark_home), jar)
    if "--jars" in _list_options(arguments, mixed):
        return _rewrite(arguments, mixed, lambda name, value: jars if name == "--jars" else value)
    return ["--jars", jars, *arguments]


def add_driver_class_path(
    arguments: Sequence[str], jar: Path, *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> list[str]:
    """Add a jar to the class path with which the driver starts, after the user's own entries.

    The Thrift server looks for a session's catalog without the jars of `--jars`.
    """
    conf = "spark.driver.extraClassPath"
    before = _find_setting(arguments, "--driver-class-path", conf, mixed, environment, spark_home)
    paths = [path for path in before.split(os.pathsep) if path]
    joined = os.pathsep.join(paths if str(jar) in paths else [*paths, str(jar)])
    if "--driver-class-path" in _list_options(arguments, mixed):
        return _rewrite(arguments, mixed, lambda name, value: joined if name == "--driver-class-path" else value)
    return ["--driver-class-path", joined, *arguments]


def take_options(arguments: Sequence[str], names: Collection[str], *, mixed: bool) -> tuple[list[str], list[str]]:
    """Take options that are not Spark's out of the arguments; return them as name, value, ..., and the rest.

    Options after the program of `submit` belong to it, and stay. A name at the very end comes without a value.
    """
    taken: list[str] = []
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name, joined, value = argument.partition("=")
        if name in names:
            taken += [name, value] if joined else [name, *itertools.islice(remaining, 1)]
        else:
            rest.append(argument)
            if argument in _WITH_VALUE or (mixed and argument in _SHELL_WITH_VALUE):
                rest += itertools.islice(remaining, 1)
            elif not mixed and argument not in _SWITCHES and name not in _WITH_VALUE:
                break
    return taken, [*rest, *remaining]


def list_leading_options(arguments: Sequence[str], *, without: Collection[str]) -> list[str]:
    """Return Spark's options before the program, except some that take a value."""
    result: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            break
        part = [argument, *itertools.islice(remaining, 1)] if argument in _WITH_VALUE else [argument]
        result += [] if argument.partition("=")[0] in without else part
    return result


def split_mixed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the mixed arguments of a server into Spark's and the server's, each in order."""
    of_spark: list[str] = []
    of_server: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        part = [argument]
        if argument in _WITH_VALUE or argument in _SHELL_WITH_VALUE:
            part += itertools.islice(remaining, 1)
        spark = argument in _SWITCHES or argument.partition("=")[0] in _WITH_VALUE
        (of_spark if spark else of_server).extend(part)
    return of_spark, of_server


def take_program(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take the first argument that is neither an option of Spark's nor its value; return it and the rest."""
    rest = list(arguments)
    index = 0
    while index < len(rest):
        if rest[index] in _WITH_VALUE:
            index += 2
        elif rest[index].startswith("-"):
            index += 1
        else:
            return rest.pop(index), rest
    return None, rest


def find_unknown_option(arguments: Sequence[str], ours: Collection[str]) -> tuple[str, str | None] | None:
    """Find the first option that is neither Spark's nor one of `ours`; return its name, and the most similar one.

    Returns None if there is none. Whether such an option takes a value is unknown, so the program may follow it.
    """
    names = {*_WITH_VALUE, *_SWITCHES, *ours}
    remaining = iter(arguments)
    for argument in remaining:
        name = argument.partition("=")[0]
        if argument in _WITH_VALUE:
            next(remaining, None)
        elif argument.startswith("-") and name not in names:
            return name, next(iter(difflib.get_close_matches(name, sorted(names), 1)), None)
    return None


def find_jars(arguments: Sequence[str], *, mixed: bool, environment: Mapping[str, str], spark_home: Path) -> str:
    """Return the jars that Spark would use with these arguments, separated by commas."""
    return _find_setting(arguments, "--jars", "spark.jars", mixed, environment, spark_home)


def find_conf(
    key: str, arguments: Sequence[str], *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> str:
    """Return a conf as Spark would use it, from these arguments or its defaults; empty if it is not set."""
    return _find_setting(arguments, "", key, mixed, environment, spark_home)


def find_setting(
    option: str, conf: str, arguments: Sequence[str], *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> str:
    """Return the value of one of Spark's options, else of the equivalent conf; empty if neither is set."""
    return _find_setting(arguments, option, conf, mixed, environment, spark_home)


def find_option_value(option: str, arguments: Sequence[str], *, mixed: bool) -> str:
    """Return the value of one of Spark's options; empty if it is not given."""
    return _list_options(arguments, mixed).get(option, [""])[-1]


def find_switches(arguments: Sequence[str], *, mixed: bool) -> set[str]:
    """Return Spark's options without a value that are given."""
    switches: set[str] = set()
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _SWITCHES:
            switches.add(argument)
        elif argument in _WITH_VALUE or (mixed and argument in _SHELL_WITH_VALUE):
            next(remaining, None)
        elif not mixed and argument.partition("=")[0] not in _WITH_VALUE:
            break
    return switches


def join_jars(before: str, jar: Path) -> str:
    """Add a jar to a comma-separated list unless it is there, even as the URI that Spark makes of a path."""
    jars = [path for path in before.split(",") if path]
    if not any(path in (str(jar), f"file:{jar}", f"file://{jar}") for path in jars):
        jars.append(str(jar))
    return ",".join(jars)


def hide_secrets(arguments: Sequence[str], *, mixed: bool) -> tuple[list[str], dict[str, str]]:
    """Move secret confs of catalogs into environment variables, which other users cannot see."""
    secrets: dict[str, str] = {}

    def hide(name: str, value: str) -> str:
        key, separator, text = value.partition("=")
        if name not in ("--conf", "-c") or not separator:
            return value
        shown, moved = hide_secret(key, text)
        secrets.update(moved)
        return f"{key}={shown}"

    return _rewrite(arguments, mixed, hide), secrets


def _find_setting(
    arguments: Sequence[str], option: str, conf: str, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> str:
    """Return what Spark would use: the option, its conf, or the conf's line in the defaults, in that order."""
    options = _list_options(arguments, mixed)
    if option in options:
        return options[option][-1]
    confs = [value for name in ("--conf", "-c") for value in options.get(name, []) if value.startswith(f"{conf}=")]
    if confs:
        return confs[-1].removeprefix(f"{conf}=")
    defaults = find_conf_directory(environment, spark_home) / "spark-defaults.conf"
    file = options.get("--properties-file", [str(defaults)])[-1]
    return _read_property(Path(file), conf)


def _list_options(arguments: Sequence[str], mixed: bool) -> dict[str, list[str]]:
    """Return the values of Spark's options by name, each in the order given."""
    values: dict[str, list[str]] = {}

    def look(name: str, value: str) -> str:
        values.setdefault(name, []).append(value)
        return value

    _rewrite(arguments, mixed, look)
    return values


def _rewrite(arguments: Sequence[str], mixed: bool, change: Callable[[str, str], str]) -> list[str]:
    """Pass every valued option of Spark through `change(name, value)`."""
    result = list(arguments)
    index = 0
    while index < len(result):
        joined = re.fullmatch(r"(--[^=]+)=(.+)", result[index], re.DOTALL)
        if result[index] in _WITH_VALUE and index + 1 < len(result):
            result[index + 1] = change(result[index], result[index + 1])
            index += 1
        elif joined and joined[1] in _WITH_VALUE:
            result[index] = f"{joined[1]}={change(joined[1], joined[2])}"
        elif result[index] not in _SWITCHES and not mixed:
            break
        index += 1
    return result


def _read_property(path: Path, key: str) -> str:
    """Read one key of a Java properties file in the form of spark-defaults.conf; empty if it is missing."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    values = re.findall(rf"^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE)
    return str(values[-1]) if values else ""
