"""Requests about views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .replies import ViewDefinition


@dataclass(frozen=True)
class ListViews:
    """The names of the views of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class PutView:
    """CREATE VIEW and ALTER VIEW: whether a view of this name may be made, and whether one may be replaced.

    `streaming`: the query reads a STREAM. No reply.
    """

    namespace: tuple[str, ...]
    name: str
    view: ViewDefinition
    make: bool
    replace: bool
    streaming: bool


@dataclass(frozen=True)
class RenameView:
    """ALTER VIEW ... RENAME TO another name, maybe in another namespace; no reply."""

    namespace: tuple[str, ...]
    name: str
    new_namespace: tuple[str, ...]
    new_name: str


@dataclass(frozen=True)
class DropView:
    """DROP VIEW: whether there was one."""

    namespace: tuple[str, ...]
    name: str


ViewRequest: TypeAlias = ListViews | PutView | RenameView | DropView
"""Requests about views."""
