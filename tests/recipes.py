"""The recipes of docs/recipes.md as programs: the blocks of code below a heading, with what the page shows for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.tutorial import Step, steps_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipes.md"


def recipe(title: str, *, namespace: str, directory: Path, others: Mapping[str, str] | None = None) -> list[Step]:
    """Return the blocks of a recipe, with a namespace for `iot`, a directory for `/data`, and what `others` say."""
    [text] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"\biot(?=[./\"'])", namespace, text)
    for name, of_the_test in {"/data": str(directory), **(others or {})}.items():
        text = text.replace(name, of_the_test)
    return list(steps_of(text))


def run_sql(spark: SparkSession, step: Step) -> None:
    """Run the statements of a block, and compare the rows of the last one with those that the page shows."""
    rows = [spark.sql(each).collect() for each in re.sub(r"--.*", "", step.code).split(";") if each.strip()][-1]
    if step.output:
        assert "".join(" ".join(map(str, row)) + "\n" for row in rows) == step.output


def run_python(step: Step, names: dict[str, Any]) -> None:
    """Run a block; what it prints is for the test to compare."""
    exec(step.code, names)
