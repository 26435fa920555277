"""Says what each version of a schema changed: its columns, and the lines of its text."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.formats.core.format import find_registry_format

_MOST_LINES = 400


@dataclass(frozen=True)
class Change:
    """A line of a difference: `sign` is `+`, `-`, `~` for a column that changed, or a space."""

    sign: str
    text: str


@dataclass(frozen=True)
class ShownSchema:
    """A version of a schema, with what it changed from the version before it of the same type."""

    version: int
    type: str
    format: str
    columns: Sequence[Change]
    lines: Sequence[Change]
    problem: str | None
    """Why its columns cannot be told."""


def compare_versions(rows: Sequence[Mapping[str, Any]]) -> list[ShownSchema]:
    """Compare rows of the metadata table `schemas`, each with the one before of its type; return the newest first."""
    schemas: list[ShownSchema] = []
    before: dict[str, tuple[dict[str, str], list[str]]] = {}
    for row in sorted(rows, key=lambda row: row["schema_id"]):
        columns, problem = _describe_columns(row["format"], row["schema"])
        lines = _split_text(row["schema"])
        old_columns, old_lines = before.get(row["type"], ({}, []))
        schemas.append(
            ShownSchema(
                version=row["version"],
                type=row["type"],
                format=row["format"],
                columns=list(_compare_columns(old_columns, columns)),
                lines=list(_compare_lines(old_lines, lines)),
                problem=problem,
            )
        )
        before[row["type"]] = columns, lines
    return schemas[::-1]


def _describe_columns(registry_format: str, text: str | None) -> tuple[dict[str, str], str | None]:
    if text is None:
        return {}, f"Schemas of the format {registry_format} are not known here."
    try:
        schema = find_registry_format(registry_format).spark_schema(text)
    except PravegaError as error:
        return {}, error.sentence
    return dict(_flatten("", schema)), None


def _flatten(path: str, schema: StructType) -> Iterator[tuple[str, str]]:
    """Yield the columns and the fields within them, each with its type as one line."""
    for field in schema:
        name = f"{path}{field.name}"
        inner, shown = _find_inner(field.dataType)
        comment = (field.metadata or {}).get("comment")
        yield name, f"{shown}{'' if field.nullable else ' NOT NULL'}{f' COMMENT {comment}' if comment else ''}"
        if inner is not None:
            yield from _flatten(f"{name}.", inner)


def _find_inner(type: DataType) -> tuple[StructType | None, str]:
    """Return the fields within a type, which get lines of their own, and the text of the type without them."""
    if isinstance(type, StructType):
        return type, "STRUCT"
    if isinstance(type, ArrayType):
        inner, shown = _find_inner(type.elementType)
        return inner, f"ARRAY<{shown}>"
    if isinstance(type, MapType):
        inner, shown = _find_inner(type.valueType)
        return inner, f"MAP<{type.keyType.simpleString().upper()}, {shown}>"
    return None, type.simpleString().upper()


def _compare_columns(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for name, type in new.items():
        if name not in old:
            yield Change("+", f"{name} {type}")
        elif old[name] != type:
            yield Change("~", f"{name} {old[name]} → {type}")
    yield from (Change("-", f"{name} {type}") for name, type in old.items() if name not in new)


def _split_text(text: str | None) -> list[str]:
    """Return the lines of a schema's text; none for texts other than JSON, such as Protobuf's descriptors."""
    try:
        return json.dumps(json.loads(text or ""), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return []


def _compare_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    if not old:
        lines = [Change(" ", line) for line in new]
    else:
        marked = difflib.unified_diff(old, new, n=2, lineterm="")
        lines = [Change(line[0], line[1:]) for line in marked if not line.startswith(("---", "+++"))]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield Change(" ", f"... {len(lines) - _MOST_LINES:,} more lines")
