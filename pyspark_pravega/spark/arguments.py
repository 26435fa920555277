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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _Part:
    """One or two arguments that belong together: an option, with its value if it takes one, or another word."""

    name: str
    value: str | None = None
    joined: bool = False

    def tokens(self) -> list[str]:
        if self.value is None:
            return [self.name]
        return [f"{self.name}={self.value}"] if self.joined else [self.name, self.value]


def _split(
    arguments: Sequence[str], *, mixed: bool, ours: Collection[str] = ()
) -> tuple[Sequence[_Part], Sequence[str]]:
    """Split arguments into the parts before a program, and the program with its own arguments.

    Mixed arguments have no program: every word is a part. `ours` are further options that take a value.
    """
    parts: list[_Part] = []
    remaining = iter(arguments)
    for argument in remaining:
        name, joined, value = argument.partition("=")
        if joined and name.startswith("--") and (name in _WITH_VALUE or name in ours):
            parts.append(_Part(name, value, joined=True))
        elif argument in _WITH_VALUE or argument in ours:
            parts.append(_Part(argument, next(remaining, None)))
        elif mixed or argument in _SWITCHES:
            parts.append(_Part(argument))
        else:
            return parts, [argument, *remaining]
    return parts, []


def _join(parts: Iterable[_Part]) -> list[str]:
    return [token for part in parts for token in part.tokens()]


@dataclass(frozen=True)
class SparkArguments:
    """Arguments of one of Spark's programs, with the Spark and the environment in which it runs."""

    arguments: Sequence[str]
    mixed: bool
    """Whether the program accepts its own options among Spark's."""
    environment: Mapping[str, str]
    spark_home: Path

    def add_jar(self, jar: Path) -> SparkArguments:
        """Add a jar to the class path, and keep every jar that was there: `--jars` would replace all of them."""
        return self._set_option("--jars", join_jars(self.find_setting("--jars", "spark.jars"), jar))

    def add_driver_class_path(self, jar: Path) -> SparkArguments:
        """Add a jar to the class path with which the driver starts, after the user's own entries.

        The Thrift server looks for a session's catalog without the jars of `--jars`.
        """
        before = self.find_setting("--driver-class-path", "spark.driver.extraClassPath")
        paths = [path for path in before.split(os.pathsep) if path]
        return self._set_option("--driver-class-path", os.pathsep.join(dict.fromkeys([*paths, str(jar)])))

    def find_conf(self, key: str) -> str:
        """Return a conf as Spark would use it, from these arguments or its defaults; empty if it is not set."""
        return self.find_setting("", key)

    def find_setting(self, option: str, conf: str) -> str:
        """Return what Spark would use: the option, its conf, or the conf's line in the defaults, in that order."""
        options = self._list_options()
        if option in options:
            return options[option][-1]
        confs = [text for name in ("--conf", "-c") for text in options.get(name, []) if text.startswith(f"{conf}=")]
        if confs:
            return confs[-1].removeprefix(f"{conf}=")
        defaults = find_conf_directory(self.environment, self.spark_home) / "spark-defaults.conf"
        return _read_property(Path(options.get("--properties-file", [str(defaults)])[-1]), conf)

    def find_option_value(self, option: str) -> str:
        """Return the value of one of Spark's options; empty if it is not given."""
        return self._list_options().get(option, [""])[-1]

    def find_switches(self) -> set[str]:
        """Return Spark's options without a value that are given."""
        parts, _ = _split(self.arguments, mixed=self.mixed, ours=_SHELL_WITH_VALUE if self.mixed else ())
        return {part.name for part in parts} & _SWITCHES

    def _list_options(self) -> dict[str, list[str]]:
        """Return the values of Spark's options by name, each in the order given."""
        values: dict[str, list[str]] = {}
        for part in _split(self.arguments, mixed=self.mixed)[0]:
            if part.name in _WITH_VALUE and part.value is not None:
                values.setdefault(part.name, []).append(part.value)
        return values

    def _set_option(self, option: str, text: str) -> SparkArguments:
        """Replace the values of an option, or put it in front."""
        if option not in self._list_options():
            return replace(self, arguments=[option, text, *self.arguments])
        changed = _rewrite(self.arguments, self.mixed, lambda name, value: text if name == option else value)
        return replace(self, arguments=changed)


def take_options(arguments: Sequence[str], names: Collection[str], *, mixed: bool) -> tuple[list[str], list[str]]:
    """Take options that are not Spark's out of the arguments; return them as name, value, ..., and the rest.

    Options after the program of `submit` belong to it, and stay. A name at the very end comes without a value.
    """
    parts, program = _split(arguments, mixed=mixed, ours={*names, *(_SHELL_WITH_VALUE if mixed else ())})
    taken = [text for part in parts if part.name in names for text in (part.name, part.value) if text is not None]
    return taken, [*_join(part for part in parts if part.name not in names), *program]


def list_leading_options(arguments: Sequence[str], *, without: Collection[str]) -> list[str]:
    """Return Spark's options before the program, except some that take a value."""
    leading = itertools.takewhile(lambda part: part.name.startswith("-"), _split(arguments, mixed=True)[0])
    return _join(part for part in leading if part.name not in without)


def split_mixed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the mixed arguments of a server into Spark's and the server's, each in order."""
    parts, _ = _split(arguments, mixed=True, ours=_SHELL_WITH_VALUE)
    of_spark = [part for part in parts if part.name in _WITH_VALUE or part.name in _SWITCHES]
    return _join(of_spark), _join(part for part in parts if part not in of_spark)


def take_program(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take the first argument that is neither an option of Spark's nor its value; return it and the rest."""
    parts = list(_split(arguments, mixed=True)[0])
    program = next((part for part in parts if not part.name.startswith("-")), None)
    if program is None:
        return None, _join(parts)
    parts.remove(program)
    return program.name, _join(parts)


def find_unknown_option(arguments: Sequence[str], ours: Collection[str]) -> tuple[str, str | None] | None:
    """Find the first option that is neither Spark's nor one of `ours`; return its name, and the most similar one.

    Returns None if there is none. Whether such an option takes a value is unknown, so the program may follow it.
    """
    names = {*_WITH_VALUE, *_SWITCHES, *ours}
    for part in _split(arguments, mixed=True)[0]:
        name = part.name.partition("=")[0]
        if name.startswith("-") and name not in names:
            return name, next(iter(difflib.get_close_matches(name, sorted(names), 1)), None)
    return None


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


def _rewrite(arguments: Sequence[str], mixed: bool, change: Callable[[str, str], str]) -> list[str]:
    """Pass every valued option of Spark through `change(name, value)`."""
    parts, program = _split(arguments, mixed=mixed)
    changed = [
        part
        if part.value is None or part.name not in _WITH_VALUE
        else replace(part, value=change(part.name, part.value))
        for part in parts
    ]
    return [*_join(changed), *program]


def _read_property(path: Path, key: str) -> str:
    """Read one key of a Java properties file in the form of spark-defaults.conf; empty if it is missing."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    values = re.findall(rf"^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE)
    return str(values[-1]) if values else ""
