"""Run docs/tutorial.md of an export with the package that is installed: its commands, its Python, its question by JDBC.

python tools/release/run_tutorial.py FOLDER
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def main(source: Path) -> None:
    """Start a Pravega, run the tutorial, and stop the Pravega. Ends with a sentence at the first other result."""
    tutorial = _load_tutorial(source)
    subprocess.run(["pyspark-pravega", "local", "start"], check=True)
    try:
        exported = subprocess.run(
            ["pyspark-pravega", "local", "env"], text=True, capture_output=True, check=True
        ).stdout
        os.environ.update(re.findall(r"^export (\w+)=['\"]?(.*?)['\"]?$", exported, re.MULTILINE))
        _run_program(tutorial)
    finally:
        subprocess.run(["pyspark-pravega", "local", "stop"], check=True)


def _load_tutorial(source: Path) -> ModuleType:
    path = source / "tests" / "tutorial.py"
    specification = importlib.util.spec_from_file_location("tutorial", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["tutorial"] = module
    specification.loader.exec_module(module)
    return module


def _run_program(tutorial: ModuleType) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    import pyspark_pravega

    assert "site-packages" in pyspark_pravega.__file__, pyspark_pravega.__file__
    spark = pyspark_pravega.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    here: dict[str, Any] = {"spark": spark}
    *program, clean_up = tutorial.program()
    for step in program:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(step.code, here)
        except PySparkException as error:
            printed.write(str(error))
        found, expected = printed.getvalue().strip(), step.output.strip()
        if found != expected and not (expected.startswith("[PRAVEGA_") and found.startswith(expected)):
            sys.exit(f"{step.code}\nhas printed\n{found}\ninstead of\n{expected}")
    _ask_by_jdbc(next(step for step in tutorial.commands() if "beeline" in step.code))
    exec(clean_up.code, here)


def _ask_by_jdbc(question: Any) -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    command = ["pyspark-pravega", "thriftserver", "--port", str(port)]
    with subprocess.Popen(command) as thrift_server:
        try:
            asked = question.code.replace("localhost:10000", f"localhost:{port}")
            for _ in range(120):
                done = subprocess.run(shlex.split(asked), text=True, capture_output=True)
                if done.returncode == 0:
                    break
            answer = re.sub(r"^\d: jdbc:\S+> ", "", done.stdout)  # beeline's prompt
            if answer.strip() != question.output.strip():
                sys.exit(f"{asked}\nhas printed\n{answer}\n{done.stderr}")
        finally:
            thrift_server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
