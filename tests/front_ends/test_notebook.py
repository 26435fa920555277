"""The tutorial as a notebook: it is that of the page, and a Jupyter kernel runs it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests import tutorial
from tests.tutorial_notebook import NOTEBOOK, notebook, program

Cell = dict[str, Any]


def read_cells(file: Path, kind: str) -> list[Cell]:
    """The cells of a kind in a notebook."""
    return [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == kind]


def join_text(cell: Cell) -> str:
    """What is written in a cell."""
    return "".join(cell["source"])


def test_the_notebook_is_up_to_date() -> None:
    assert NOTEBOOK.read_text() == notebook(), "run `make examples/notebook/tutorial.ipynb`"


def test_its_cells_are_the_program_of_the_page() -> None:
    """`test_the_tutorial` runs the page's; the notebook has one more, which makes the session."""
    code = read_cells(NOTEBOOK, "code")
    session, *others = map(join_text, code)
    assert "configure(SparkSession.builder).getOrCreate()" in session
    assert others == [step.code.rstrip("\n") for step in tutorial.program() if not tutorial.needs_lake(step)]
    for cell in code:
        ast.parse(join_text(cell))
        assert cell["outputs"] == [] and cell["execution_count"] is None
    with_errors = [join_text(cell) for cell in code if cell["metadata"] == {"tags": ["raises-exception"]}]
    assert with_errors == ['spark.sql("SELECT * FROM pravega.tutorial.readings").show()']


def test_each_table_of_the_page_is_made_once() -> None:
    made = re.findall(r"CREATE TABLE (\S+)", "".join(step.code for step in tutorial.program()))
    assert len(made) == len(set(made)) == 4


def test_its_text_has_commands_but_no_results_of_cells() -> None:
    text = "\n".join(map(join_text, read_cells(NOTEBOOK, "markdown")))
    assert "<!--" not in text and "pyspark-pravega local start" in text
    shown = [step.output for step in program() if step.output]
    assert shown and not any(output in text for output in shown)
    pages = re.findall(r"\(`(docs/[^`]+)`\)", text)
    assert pages and all((NOTEBOOK.parents[2] / page).exists() for page in pages)
    assert all(link.startswith("https:") for link in re.findall(r"\]\(([^)]+)\)", text))


@pytest.mark.notebook
@pytest.mark.timeout(600)
def test_a_kernel_runs_it(cluster: ClusterInfo, spark: SparkSession, tmp_path: Path) -> None:
    """All cells, in a namespace of another name that is as long; their results are those of the page."""
    namespace = f"n{uuid.uuid4().hex}"[: len("tutorial")]
    file, result = tmp_path / "tutorial.ipynb", tmp_path / "result.ipynb"
    whole = json.loads(NOTEBOOK.read_text())
    for cell in whole["cells"]:
        cell["source"] = [line.replace("tutorial", namespace) for line in cell["source"]]
    file.write_text(json.dumps(whole))
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
        # Kernels and histories of the user who runs this.
        "HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    }
    command = [sys.executable, str(Path(__file__).with_name("run_notebook.py")), str(file), str(result)]
    try:
        done = subprocess.run(command, env={**os.environ, **servers}, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        code = read_cells(result, "code")
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
        assert cluster.controller_uri in _read_printed(code[0]) and str(cluster.registry_uri) in _read_printed(code[0])
        for cell, step in zip(code[1:], program()[1:], strict=True):
            expected = step.output.replace("tutorial", namespace).strip()
            if expected.startswith("[PRAVEGA_"):
                (error,) = [output for output in cell["outputs"] if output["output_type"] == "error"]
                assert expected in error["evalue"]
            else:
                assert _read_printed(cell).strip() == expected
        assert not spark.sql(f"SHOW NAMESPACES IN pravega LIKE '{namespace}'").count()
    finally:
        spark.sql(f"DROP NAMESPACE IF EXISTS pravega.{namespace} CASCADE")


def _read_printed(cell: Cell) -> str:
    streams = [output for output in cell["outputs"] if output["output_type"] == "stream" and output["name"] == "stdout"]
    return "".join("".join(stream["text"]) for stream in streams)
