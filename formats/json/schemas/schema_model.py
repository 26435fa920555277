"""Models a JSON Schema with all references resolved, for the mapping, the reader and the writer."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import DataType

from .schema_parts import TYPES


@dataclass(frozen=True)
class Node:
    nullable: bool = field(default=True, kw_only=True)
    """Whether the column is nullable: its value may be null or missing."""
    takes_null: bool = field(default=True, kw_only=True)
    """Whether the schema allows null as the value."""
    comment: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    default: Any = field(default=None, kw_only=True)
    """The value of a missing property, as JSON, in a schema of this project. Defaults of other schemas do not count."""


@dataclass(frozen=True)
class Scalar(Node):
    type: DataType
    foreign: bool = False
    """Whether another program made the schema, so that its numbers are never strings such as "NaN"."""


@dataclass(frozen=True)
class Anything(Node):
    """A value of no particular type, read as a string: strings as they are, other values as their JSON text."""

    types: frozenset[str] = TYPES
    """The types that the schema allows, by their names in JSON Schema."""
    variant: bool = False
    """Whether its column is a VARIANT."""


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
    """The properties that must be present, whether or not they may be null."""


@dataclass(frozen=True)
class Schema:
    """A parsed schema text."""

    root: Node
    unread: tuple[str, ...]
    """Sentences about values that no column shows."""
    rules: str | None
    """The first keyword that the columns' types do not guarantee, with its place; None if they guarantee all."""
