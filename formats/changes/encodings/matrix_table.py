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
    """Return a page with the table between its markers. Raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks {BEGIN.strip()} or {END.strip()}")
    return f"{before}{BEGIN}\n{markdown()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_matrix(path.read_text()))
