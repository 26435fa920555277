"""Fetches jars with the Ivy that ships with pyspark.

Neither Maven nor the address of a repository is needed: by default Ivy's own `central` is used. An Ivy settings file
names a user's mirror, as with `spark.jars.ivySettings`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pyspark_pravega.errors import SetupError, describe_os_error

from ..java import Java
from .lock_file import Artifact

SETTINGS_VARIABLE = "PYSPARK_PRAVEGA_IVY_SETTINGS"
"""The environment variable that names an Ivy settings file; the command line option takes precedence."""

RETRIEVE_PATTERN = "[organisation]/[artifact]-[revision](-[classifier]).[ext]"

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" timeoutConstraint="patient"/>
  </resolvers>
</ivysettings>
"""
_DOWNLOADED = re.compile(r"\[SUCCESSFUL ?\]")
_COMPLAINT = re.compile(r"UNRESOLVED|not found|FAILED|WARN|ERROR|Exception", re.IGNORECASE)
_USER_INFO = re.compile(r"//[^/\s@]+@")
_PROGRESS_STEP = 10
_KEPT_LINES = 15


def retrieve(
    artifacts: Sequence[Artifact], directory: Path, *, java: Java, settings: Path | None, report: Callable[[str], None]
) -> None:
    """Fetch the artifacts, without their dependencies, into `directory` at their `relative_path`; verify nothing.

    `directory` is also Ivy's working directory, and keeps what an interrupted run has downloaded for the next one.
    `settings` is a user's Ivy settings file, None stands for Ivy's own `central`. `report` receives progress, one line
    at a time. Raises SetupError if Ivy is missing, cannot be run, or does not find an artifact.
    """
    directory.mkdir(parents=True, exist_ok=True)
    module = directory / "ivy.xml"
    module.write_text(_format_module(artifacts), encoding="utf-8")
    command = [str(java.executable)]
    if settings is None:
        settings = directory / "ivysettings.xml"
        settings.write_text(_SETTINGS, encoding="utf-8")
        # Otherwise Ivy creates ~/.ivy2, on which a user's settings may rely, but not these.
        command.append(f"-Divy.default.ivy.user.dir={directory / 'home'}")
    elif not settings.is_file():
        raise SetupError(
            f"the Ivy settings file {settings} does not exist: correct --ivy-settings or {SETTINGS_VARIABLE}"
        )
    command += ["-jar", str(find_ivy_jar()), "-settings", str(settings), "-ivy", str(module)]
    command += ["-cache", str(directory / "cache"), "-retrieve", str(directory / RETRIEVE_PATTERN)]
    status, complaints = _run(command, directory, len(artifacts), report)
    if status != 0:
        said = "\n  ".join(complaints) or "nothing"
        raise SetupError(
            f"Ivy could not fetch all of {len(artifacts)} jars (exit code {status}). It said:\n  {said}\n"
            "Check the network connection, or name a mirror by an Ivy settings file: --ivy-settings FILE or "
            f"{SETTINGS_VARIABLE}=FILE (behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... "
            "-Dhttps.proxyPort=...')"
        )


def find_ivy_jar() -> Path:
    """Return the Ivy jar among pyspark's jars. Raises SetupError if pyspark is not installed, or has none."""
    places: list[Path] = []
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        places += [Path(location, "jars") for location in spec.submodule_search_locations]
    if home := os.environ.get("SPARK_HOME"):
        places.append(Path(home, "jars"))
    for directory in places:
        if jars := sorted(directory.glob("ivy-[0-9]*.jar")):
            return jars[-1]
    raise SetupError(
        f"no ivy-*.jar in {', '.join(map(str, places)) or 'pyspark (it is not installed)'}: "
        "install pyspark with its jars (pip install pyspark), or set SPARK_HOME to a Spark distribution"
    )


def _format_module(artifacts: Sequence[Artifact]) -> str:
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '  <info organisation="pyspark-pravega" module="jars" revision="1"/>',
        '  <configurations><conf name="default"/></configurations>',
        "  <dependencies>",
    ]
    for artifact in artifacts:
        name, _, ending = (artifact.classifier or "").partition(".")
        type = f'type="jar" ext={quoteattr(ending or "jar")}' + (f" m:classifier={quoteattr(name)}" if name else "")
        # Without the explicit <artifact>, odd packagings in a POM ("bundle") would decide type and suffix.
        lines.append(
            f"    <dependency org={quoteattr(artifact.group)} name={quoteattr(artifact.name)} "
            f'rev={quoteattr(artifact.version)} transitive="false" conf="default->default">'
            f"<artifact name={quoteattr(artifact.name)} {type}/></dependency>"
        )
    lines += ["  </dependencies>", "</ivy-module>", ""]
    return "\n".join(lines)


def _run(command: Sequence[str], directory: Path, count: int, report: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run Ivy to its end; return its exit code and its last lines that look like errors."""
    complaints: list[str] = []
    fetched = 0
    try:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise SetupError(f"Ivy could not be started with {command[0]}: {describe_os_error(error)}") from error
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if _DOWNLOADED.search(line):
                    fetched += 1
                    if fetched % _PROGRESS_STEP == 0 and fetched < count:
                        report(f"fetched {fetched} of {count} jars")
                elif _COMPLAINT.search(line):
                    # Addresses may carry a user's repository password.
                    complaints.append(_USER_INFO.sub("//", line.strip()))
        except BaseException:
            process.kill()
            raise
    return process.returncode, complaints[-_KEPT_LINES:]
