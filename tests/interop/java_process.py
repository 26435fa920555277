"""A Java program of the tests: sources on the jars of a lock file, asked by JSON lines."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark_pravega.local.jars import cache
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import Java, find_java
from pyspark_pravega.local.servers import make_server_environment

_HERE = Path(__file__).parent
_PATIENCE_S = 180.0
_CHUNK_BYTES = 1 << 20


class JavaError(Exception):
    """Java refused a request; the text is its exception."""


class JavaProcess:
    """The running program."""

    def __init__(
        self, main: str, lock: str, log: Path, *, more: Sequence[Path] = (), options: Sequence[str] = ()
    ) -> None:
        """Start it; needs a JDK. What Java has to say besides its answers goes into the file `log`.

        Args:
            main: a source file beside this one, or a class `folder.Name` whose package is the sources of a folder
                beside this one; those are compiled beside the log.
            lock: name of the file that lists its jars, beside this one.
            log: the file of its standard error.
            more: what else belongs to the class path.
            options: more options of the JVM.
        """
        java = find_java()
        jars = [*more, *cache.provide_class_path(read_lock(_HERE / lock), java=java, report=print)]
        if not main.endswith(".java"):
            classes, folder = log.parent / "classes", _HERE / main.partition(".")[0]
            compile_sources(java, jars, sorted(folder.glob("*.java")), classes)
            jars.append(classes)
        command: list[str | Path] = [java.executable, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-XX:-UsePerfData", "-Dfile.encoding=UTF-8", *options, "-cp", os.pathsep.join(map(str, jars))]
        command.append(_HERE / main if main.endswith(".java") else main)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                # The Java client would take credentials from the environment.
                env=make_server_environment(),
            )
        self._log = log
        self._unread = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._process.kill()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            JavaError: the answer is an exception, or there is none.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError as broken:
            raise self._gone() from broken
        answer: dict[str, Any] = json.loads(self._answer_line())
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer

    def _answer_line(self) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + _PATIENCE_S
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise JavaError(f"no answer within {_PATIENCE_S:.0f} s; see {self._log}")
            chunk = os.read(self._process.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                raise self._gone()
            self._unread += chunk
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    def _gone(self) -> JavaError:
        code = self._process.wait()
        return JavaError(f"Java ended with exit code {code}:\n{self._log.read_text(errors='replace')[-4000:]}")


def compile_sources(java: Java, jars: Sequence[Path], sources: Sequence[Path], classes: Path) -> None:
    """Compile sources into a directory of classes."""
    command: list[str | Path] = [java.executable, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", classes]
    command += ["-encoding", "UTF-8", "-cp", os.pathsep.join(map(str, jars)), *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JavaError(done.stderr[-4000:])
