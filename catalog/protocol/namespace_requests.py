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
class OfNamespace:
    """A request about a namespace, or about what is in it."""

    namespace: tuple[str, ...]


class NamespaceExists(OfNamespace):
    """Whether there is a namespace."""


class LoadNamespace(OfNamespace):
    """The properties of a namespace."""


@dataclass(frozen=True)
class CreateNamespace(OfNamespace):
    """CREATE NAMESPACE."""

    properties: Mapping[str, str]


@dataclass(frozen=True)
class NamespaceChange:
    """A property of ALTER NAMESPACE and its value (None: unset)."""

    property: str
    value: str | None


@dataclass(frozen=True)
class AlterNamespace(OfNamespace):
    """ALTER NAMESPACE."""

    changes: tuple[NamespaceChange, ...]


@dataclass(frozen=True)
class DropNamespace(OfNamespace):
    """DROP NAMESPACE: whether there was one."""

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
