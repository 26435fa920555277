"""Models a JSON Schema with all references resolved: what the mapping, the reader and the writer walk."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import DataType

from .schema_parts import TYPES


@dataclass(frozen=True)
class Node:
    nullable: bool = field(default=True, kw_only=True)
    """Whether the column is: its value may be null, or missing."""
    takes_null: bool = field(default=True, kw_only=True)
    """Whether the schema allows null as the value."""
    comment: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    default: Any = field(default=None, kw_only=True)
    """What a column of ours has where its property is missing, as JSON; defaults of others are remarks."""


@dataclass(frozen=True)
class Scalar(Node):
    type: DataType
    foreign: bool = False
    """The schema is by another program, and so its numbers are never strings such as "NaN"."""


@dataclass(frozen=True)
class Anything(Node):
    """A value of no particular type, read as a string: strings as they are, other values as their JSON text."""

    types: frozenset[str] = TYPES
    """What the schema allows, by the names of JSON Schema."""


@dataclass(frozen=True)
class Array(Node):
    items: Node


@dataclass(frozen=True)
class Map(Node):
    values: Node


@dataclass(frozen=True)
class Object(Node):
    properties: Mapping[str, Node]
    required: Set[str] = frozenset()
    """The properties that may not be missing, whether or not they may be null."""


@dataclass(frozen=True)
class Schema:
    """A parsed schema text."""

    root: Node
    unread: tuple[str, ...]
    """What it says of values that are in no column, a sentence for each."""
    rules: str | None
    """The first of its keywords that the columns' types do not promise, with its place; None if they promise all."""
