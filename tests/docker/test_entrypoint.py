"""The container's entrypoint, run without a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).resolve().parents[2] / "docker" / "entrypoint.sh"


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(ENTRYPOINT), *arguments],
        text=True,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **environment},
    )


def test_any_program_can_be_run() -> None:
    done = run("sh", "-c", "echo $1; exit 3", "sh", "a b")
    assert (done.stdout, done.returncode) == ("a b\n", 3)


def test_commands_of_ours_need_no_prefix() -> None:
    assert run("jar").stdout.strip().endswith("pyspark-pravega-adapter.jar")
    assert "no controller" not in run("conf").stderr


@pytest.mark.parametrize("arguments", [(), ("thriftserver",), ("--conf", "spark.ui.enabled=false")])
def test_the_default_is_the_jdbc_server(arguments: tuple[str, ...]) -> None:
    # There is no such port, which ends the server before it starts.
    assert "70000 is not in the range" in run(*arguments, THRIFT_PORT="70000").stderr


def test_the_demo_is_the_one_of_the_examples() -> None:
    done = run("demo", EXAMPLES_DIR="/nowhere", PYSPARK_PYTHON=sys.executable)
    assert "/nowhere/demo.py" in done.stderr
