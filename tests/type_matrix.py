"""Writes the matrix of types, of tables of changes, into the page that is its argument: docs/debezium/reference.md."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark_pravega.formats.changes.encodings.matrix import MATRIX, Target

_BEGIN, _END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"


def write_markdown() -> str:
    """Return the matrix as a Markdown table. A dash stands for a bad event."""
    targets = list(Target)
    lines = [
        "| event's type | " + " | ".join(target.value for target in targets) + " |",
        "|---|" + "---|" * len(targets),
    ]
    for semantic, row in MATRIX.items():
        cells = [row[target].value if target in row else "-" for target in targets]
        lines.append(f"| {semantic.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def insert_matrix(page: str) -> str:
    """Return a page with the matrix between its markers. Raises ValueError if it has none."""
    return insert_table(page, _BEGIN, _END, write_markdown())


def insert_table(page: str, begin: str, end: str, table: str) -> str:
    """Return a page with a table between two markers. Raises ValueError if it has none."""
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"the page lacks {begin.strip()} or {end.strip()}")
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert_matrix(path.read_text()))
