"""The arguments of spark-submit and its relatives: finding and changing single options among them.

Which tokens are Spark's is decided as Spark's launcher does (org.apache.spark.launcher.SparkSubmitOptionParser):
an option takes the next token as its value; the first other token is the program, whose own arguments follow
and must stay untouched. The SQL shell and the servers have no program and may mix their options with Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark_pravega.catalog_conf import hide_secret

_WITH_VALUE = frozenset(
    "--archives --class --conf -c --deploy-mode --driver-class-path --driver-cores --driver-default-class-path "
    "--driver-java-options --driver-library-path --driver-memory --executor-cores --executor-memory "
    "--extra-properties-file --files --jars --keytab --kill --master --remote --name --num-executors --packages "
    "--exclude-packages --principal --properties-file --proxy-user --py-files --queue --repositories --status "
    "--total-executor-cores".split()
)
_SWITCHES = frozenset("--help -h --supervise --usage-error --verbose -v --version --load-spark-defaults".split())


def add_jar(
    arguments: Sequence[str], jar: Path, *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> list[str]:
    """Add a jar to the class path, keeping every jar that was there: `--jars` would replace all of them."""
    found: dict[str, str] = {}

    def look(name: str, value: str) -> str:
        if name == "--jars" or value.startswith("spark.jars="):
            found["--jars" if name == "--jars" else "conf"] = value.removeprefix("spark.jars=")
        elif name == "--properties-file":
            found["file"] = value
        return value

    _rewrite(arguments, mixed, look)
    before = found.get("--jars", found.get("conf"))
    if before is None:
        folder = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
        before = _property(Path(found.get("file", folder / "spark-defaults.conf")), "spark.jars")
    jars = ",".join(dict.fromkeys([*filter(None, before.split(",")), str(jar)]))
    if "--jars" in found:
        return _rewrite(arguments, mixed, lambda name, value: jars if name == "--jars" else value)
    return ["--jars", jars, *arguments]


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


def _property(path: Path, key: str) -> str:
    """Read one key of a Java properties file as spark-defaults.conf is written; empty when it is not there."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    values = re.findall(rf"^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE)
    return str(values[-1]) if values else ""
