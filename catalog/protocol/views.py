"""Requests about views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .replies import ViewDefinition
from .tables import Identifier, NamingRequest


@dataclass(frozen=True)
class ListViews:
    """The names of the views of a namespace."""

    namespace: tuple[str, ...]


@dataclass(frozen=True)
class PutView(NamingRequest):
    """CREATE VIEW and ALTER VIEW: whether a view of this name may be made, and whether one may be replaced.

    `streaming`: the query reads a STREAM. No reply.
    """

    view: ViewDefinition
    make: bool
    replace: bool
    streaming: bool


@dataclass(frozen=True)
class RenameView(NamingRequest):
    """ALTER VIEW ... RENAME TO another name, maybe in another namespace; no reply."""

    new_namespace: tuple[str, ...]
    new_name: str

    @property
    def new(self) -> Identifier:
        """Return the new name as one value."""
        return Identifier(self.new_namespace, self.new_name)


@dataclass(frozen=True)
class DropView(NamingRequest):
    """DROP VIEW: whether there was one."""


ViewRequest: TypeAlias = ListViews | PutView | RenameView | DropView
"""Requests about views."""
