"""What schema texts of several formats have in common: annotations of ours, the column of other roots, a limit."""

from __future__ import annotations

from typing import Any

SPARK_TYPE = "spark.type"
"""The exact Spark type of a column whose type in the text is coarser."""

SPARK_MAP = "spark.map"
"""The Spark type of a map whose keys are not strings: entries in a list. Only tables of changes have such columns."""

SPARK_METADATA = "spark.metadata"
"""The metadata of a column, without its comment."""

ROOT_COLUMN = "value"
"""The column of a schema whose root is no record."""

LARGEST_SCHEMA = 10_000
"""Types that a schema may have when all names are replaced by what they stand for; a few lines of text can stand for
billions."""


def split_comment(metadata: dict[str, Any] | None) -> tuple[str | None, dict[str, Any]]:
    """Return a column's comment, and the rest of its metadata."""
    rest = dict(metadata or {})
    comment = rest.get("comment")
    if not isinstance(comment, str):
        return None, rest
    del rest["comment"]
    return comment, rest
