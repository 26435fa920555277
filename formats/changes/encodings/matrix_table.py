"""Prints the matrix of event types and Spark types for docs/debezium/reference.md.

    python -m pyspark_pravega.formats.changes.encodings.matrix_table docs/debezium/reference.md

replaces what stands between the markers BEGIN and END in the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .matrix import MATRIX, Target

BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"


def markdown() -> str:
    """Return the table. A dash stands for a bad event."""
    targets = list(Target)
    lines = [
        "| event's type | " + " | ".join(target.value for target in targets) + " |",
        "|---|" + "---|" * len(targets),
    ]
    for semantic, row in MATRIX.items():
        cells = [row[target].value if target in row else "-" for target in targets]
        lines.append(f"| {semantic.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_matrix(page: str) -> str:
    """Return a page with the matrix between its markers. Raises ValueError if it has none."""
    return with_table(page, BEGIN, END, markdown())


def with_table(page: str, begin: str, end: str, table: str) -> str:
    """Return a page with a table between two markers. Raises ValueError if it has none."""
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"the page lacks {begin.strip()} or {end.strip()}")
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_matrix(path.read_text()))
