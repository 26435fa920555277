"""Prints the tutorial as a notebook: `python -m tests.tutorial_notebook > examples/notebook/tutorial.ipynb`.

Blocks of Python are cells; Jupyter shows their results, so the page's are left out. Blocks for the shell stay text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests import tutorial
from tests.tutorial import Step

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "notebook" / "tutorial.ipynb"
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n.*?^```$)?", re.MULTILINE | re.DOTALL)


def program() -> list[Step]:
    """Return the notebook's steps in Python, with the output that the page promises for each."""
    return [step for step in tutorial.steps_of(tutorial.notebook_text()) if step.language == "python"]


def notebook() -> str:
    """Return the whole file, without results, as Jupyter writes it."""
    text = _pages_by_name(tutorial.notebook_text())
    cells: list[dict[str, Any]] = []
    steps = iter(program())
    end = 0
    for block in _BLOCK.finditer(text):
        _add_text(cells, text[end : block.start()])
        _add_code(cells, next(steps))
        end = block.end()
    _add_text(cells, text[end:])
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _add_text(cells: list[dict[str, Any]], text: str) -> None:
    if text.strip():
        cells.append({"cell_type": "markdown", **_common(cells, text)})


def _add_code(cells: list[dict[str, Any]], step: Step) -> None:
    cell = {"cell_type": "code", "execution_count": None, **_common(cells, step.code), "outputs": []}
    if step.output.startswith("[PRAVEGA_"):
        # "Run all" goes on behind an error that belongs to the tutorial.
        cell["metadata"] = {"tags": ["raises-exception"]}
    cells.append(cell)


def _common(cells: list[dict[str, Any]], text: str) -> dict[str, Any]:
    return {"id": f"cell-{len(cells) + 1}", "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}


def _pages_by_name(text: str) -> str:
    """Name other pages by their files: a notebook is copied to where a link would lead nowhere."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)[^)]*\)", r"\1 (`docs/\2`)", text)


if __name__ == "__main__":
    print(notebook(), end="")
