"""Names the streams that are read as one: those of a list, or those of a scope whose names match a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, ScopeNotFoundError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate, is_internal

from .table_name import TableName


@dataclass(frozen=True)
class Member:
    """A stream, or a part of one, that is read with others as one."""

    stream: Stream
    part: str | None = None

    @classmethod
    def parse(cls, text: str, scope: str) -> Member:
        """Read `name`, `name$part` or `scope/name`. Names without a scope are in `scope`.

        Raises InvalidOptionError for a text that cannot name a stream.
        """
        given, slash, rest = text.rpartition("/")
        name = TableName.parse(rest)
        if not name.stream or name.part == "" or "/" in given or (slash and not given):
            raise InvalidOptionError(
                f"'{shorten(text)}' in '{o.STREAMS.key}' is not a stream. Write the name of a stream in the same "
                "scope, or scope/stream."
            )
        return cls(Stream(hyphenate(given) if slash else scope, hyphenate(name.stream)), name.part)

    def name_in(self, scope: str) -> str:
        """Return the shortest text that `parse` reads with this scope. It names the member in checkpoints."""
        name = str(TableName(self.stream.name, self.part))
        return name if self.stream.scope == scope else f"{self.stream.scope}/{name}"


@dataclass(frozen=True)
class MemberChoice:
    """Which streams are read as one: the `listed` ones, or those of the scope that match the pattern."""

    scope: str
    listed: Sequence[Member]
    pattern: str | None

    @classmethod
    def of(cls, options: o.Options, scope: str) -> MemberChoice:
        """Read the options that name several streams; their table is in `scope`. Raises InvalidOptionError."""
        listed = [Member.parse(text, scope) for text in options.get(o.STREAMS) or ()]
        twice = [member for member in listed if listed.count(member) > 1]
        if twice:
            raise InvalidOptionError(
                f"'{o.STREAMS.key}' names stream {twice[0].stream} twice. Name each stream once: its events would be "
                "read twice."
            )
        return cls(scope, listed, options.get(o.PATTERN_OF_STREAMS))

    def find(self, pravega: Pravega) -> list[str]:
        """Return the names of the members: as listed, or those that match the pattern now."""
        if self.pattern is None:
            return [member.name_in(self.scope) for member in self.listed]
        found = pravega.controller.list_streams(self.scope)
        return [name for name in found if not is_internal(name) and re.fullmatch(self.pattern, name)]

    def find_existing(self, pravega: Pravega) -> list[str]:
        """Return the names of the members whose streams exist now."""
        if self.pattern is not None:
            return self.find(pravega)
        there = {scope: set(_list_streams(pravega, scope)) for scope in {one.stream.scope for one in self.listed}}
        return [one.name_in(self.scope) for one in self.listed if one.stream.name in there[one.stream.scope]]


def _list_streams(pravega: Pravega, scope: str) -> Sequence[str]:
    try:
        return pravega.controller.list_streams(scope)
    except ScopeNotFoundError:
        return ()
