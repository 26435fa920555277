"""Runs the cells of a notebook in a kernel of this Python: `run_notebook.py NOTEBOOK RESULT`. Needs nbclient."""

from __future__ import annotations

import sys

import nbformat
from nbclient import NotebookClient


def main(notebook: str, result: str) -> None:
    """Write the notebook with its results. Raises CellExecutionError for an error that a cell's tags do not expect."""
    cells = nbformat.read(notebook, as_version=4)
    nbformat.validate(cells)
    NotebookClient(cells, timeout=300, kernel_name="python3").execute()
    nbformat.write(cells, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
