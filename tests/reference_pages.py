"""The parts of pages in docs/ that are made from code: the options, and the conditions of errors.

python -m tests.reference_pages docs/options.md
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark_pravega import errors
from pyspark_pravega.sql.option_types import Option, SettableAs
from pyspark_pravega.sql.options import OPTIONS, connection_options, property_options, query_options
from tests.type_matrix import insert_table

_SECTIONS: dict[str, Callable[[Option[Any]], bool]] = {
    "Connection": lambda option: option.connection,
    "Table properties": lambda option: SettableAs.PROPERTY in option.allowed,
    "Scripts": lambda option: SettableAs.SCRIPT in option.allowed,
    "Catalog, reading and writing": lambda option: True,
}


def list_conditions() -> list[type[errors.PravegaError]]:
    """Every class of `errors`, sorted by condition. Classes elsewhere share the condition of their base."""
    kinds = [errors.PravegaError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    ours = f"{errors.__name__}."
    return sorted((kind for kind in kinds if kind.__module__.startswith(ours)), key=lambda kind: kind.condition)


def read_meanings() -> dict[str, str]:
    """What each option means, by its key: the text below its declaration."""
    meanings = {}
    for module in (connection_options, property_options, query_options):
        for declared, below in pairwise(ast.parse(inspect.getsource(module)).body):
            if isinstance(declared, ast.Assign) and isinstance(below, ast.Expr):
                option = getattr(module, ast.unparse(declared.targets[0]))
                if isinstance(option, Option):
                    meanings[option.key] = " ".join(ast.literal_eval(below.value).split())
    return meanings


def write_options() -> str:
    """A table for each section."""
    left, meanings = list(OPTIONS.values()), read_meanings()
    sections = []
    for title, belongs in _SECTIONS.items():
        chosen = [option for option in left if belongs(option)]
        left = [option for option in left if option not in chosen]
        head = f"## {title}\n\n| key | type | default | where | meaning |\n|---|---|---|---|---|\n"
        sections.append(head + "".join(_write_row(option, meanings[option.key]) for option in chosen))
    return "\n".join(sections)


def _write_row(option: Option[Any], meaning: str) -> str:
    where = option.allowed.describe() + (f", environment `{option.env}`" if option.env else "")
    cells = (
        f"`{option.key}`",
        option.type.name,
        option.default_text or "",
        where,
        meaning + (" Secret." if option.secret else ""),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def write_conditions() -> str:
    """A section for each error."""
    return "\n".join(_write_condition(kind) for kind in list_conditions())


def _write_condition(kind: type[errors.PravegaError]) -> str:
    cause, cure = (textwrap.fill(text, 120, break_on_hyphens=False) for text in (str(inspect.getdoc(kind)), kind.cure))
    return f"### {kind.condition}\n\n{cause}\n\n{cure}\n\nSQLSTATE `{kind.sql_state}`.\n"


_PARTS = {"options.md": ("options", write_options), "troubleshooting.md": ("conditions", write_conditions)}


def renew_page(path: Path) -> str:
    """The text of a page, with its part of now between its markers. Raises ValueError if it has none."""
    name, write = _PARTS[path.name]
    return insert_table(path.read_text(), f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n", write())


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renew_page(page))
