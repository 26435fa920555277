"""Java's Avro, of the version that Spark has, as the other side of a test. `AvroResolution.java` has the requests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.servers import make_server_environment

_PROGRAM = Path(__file__).parents[2] / "interop" / "java" / "AvroResolution.java"
_JARS = ("avro-1", "jackson-core-2", "jackson-databind-2", "jackson-annotations-2", "slf4j-api-2", "commons-compress-1")


class JavaAvro:
    """The Java process."""

    def __init__(self) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        paths = [next(jars.glob(f"{name}*.jar")) for name in _JARS]
        command: list[str | Path] = [find_java().executable, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Dfile.encoding=UTF-8", "-cp", os.pathsep.join(map(str, paths)), _PROGRAM]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=make_server_environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the answers to cases."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(cases).encode() + b"\n")
        self._process.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answers
