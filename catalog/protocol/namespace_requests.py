"""Requests about namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class DefaultNamespace:
    """The namespace that `USE <catalog>` selects, as a list of its parts."""


@dataclass(frozen=True)
class ListNamespaces:
    """The names of all namespaces."""


@dataclass(frozen=True)
class NamespaceExists:
    """Whether there is a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class LoadNamespace:
    """The properties of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class CreateNamespace:
    """CREATE NAMESPACE."""

    namespace: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class NamespaceChange:
    """A property of ALTER NAMESPACE and its value (None: unset)."""

    property: str
    value: str | None


@dataclass(frozen=True)
class AlterNamespace:
    """ALTER NAMESPACE."""

    namespace: tuple[str, ...]
    changes: tuple[NamespaceChange, ...]


@dataclass(frozen=True)
class DropNamespace:
    """DROP NAMESPACE: whether there was one."""

    namespace: tuple[str, ...]
    cascade: bool


NamespaceRequest: TypeAlias = (
    DefaultNamespace
    | ListNamespaces
    | NamespaceExists
    | LoadNamespace
    | CreateNamespace
    | AlterNamespace
    | DropNamespace
)
"""Requests about namespaces."""
