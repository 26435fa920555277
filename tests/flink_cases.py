"""Statements of Flink SQL with what they become, from `tests/data/flink`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parent / "data" / "flink"
DECLARED = (DIRECTORY / "declared.sql").read_text()
"""The tables that all cases use, with rows."""


@dataclass(frozen=True)
class Case:
    """Statements of Flink and of Spark; `runs`: the statements can be run on a server."""

    name: str
    flink: str
    spark: str
    runs: bool


def cases() -> list[Case]:
    """Return the cases of the file in their order."""
    found = []
    for part in re.split(r"^-- == ", (DIRECTORY / "cases.sql").read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        flink, _, spark = rest.partition("\n-- ->\n")
        found.append(Case(name.removesuffix(" (not run)"), flink, spark.strip(), not name.endswith("(not run)")))
    return found
