"""Merges the tables of several streams into one that a query reads, if their columns fit each other.

The streams are those of a list, or those of a scope whose names match a pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import DifferentSchemasError, InvalidOptionError, ScopeNotFoundError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate, is_internal
from pyspark_pravega.sql.option_types import find_matches

from .hidden_columns import ORIGIN_COLUMNS
from .stream_table import KindName, StreamTable, TableName
from .table_settings import OF_LAKE


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
        scope_text, slash, rest = text.rpartition("/")
        name = TableName.parse(rest)
        if not name.stream or name.part == "" or "/" in scope_text or (slash and not scope_text):
            raise InvalidOptionError(
                f"'{shorten(text)}' in '{o.STREAMS.key}' is not a stream. Write the name of a stream in the same "
                "scope, or scope/stream."
            )
        return cls(Stream(hyphenate(scope_text) if slash else scope, hyphenate(name.stream)), name.part)

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
        names = pravega.controller.list_streams(self.scope)
        return find_matches(self.pattern, [name for name in names if not is_internal(name)])

    def find_existing(self, pravega: Pravega) -> list[str]:
        """Return the names of the members whose streams exist now."""
        if self.pattern is not None:
            return self.find(pravega)
        streams = {scope: set(_list_streams(pravega, scope)) for scope in {one.stream.scope for one in self.listed}}
        return [one.name_in(self.scope) for one in self.listed if one.stream.name in streams[one.stream.scope]]


def _list_streams(pravega: Pravega, scope: str) -> Sequence[str]:
    try:
        return pravega.controller.list_streams(scope)
    except ScopeNotFoundError:
        return ()


_STREAM, _COMMENT = ORIGIN_COLUMNS["_stream"]
STREAM_COLUMN = StructField(_STREAM.name, _STREAM.dataType, _STREAM.nullable, {"comment": _COMMENT})
"""The last column of several streams that options name, unless the streams have one of that name."""


def merge_tables(stream: Stream, members: Sequence[StreamTable]) -> StreamTable:
    """Return the table of several streams. `stream` is a scope, and the name of the table or what named the members.

    Columns come in the order of the first stream that has them. A column is null in the rows of a stream that lacks it.
    Raises DifferentSchemasError naming the stream and the column that do not fit the others.
    """
    _check_same(members, "format", lambda table: table.format)
    _check_same(members, "kind", lambda table: table.kind.value)
    first = members[0]
    return StreamTable(
        stream=stream,
        format=first.format,
        framing=first.framing,
        schema=_merge_columns(members),
        kind=KindName.MERGED,
        scan_properties=_find_common_properties(members),
        members=tuple(members),
    )


def add_stream_column(merged: StreamTable) -> StreamTable:
    """Return the table of several streams that options name, which has the streams' names as a column."""
    if STREAM_COLUMN.name in {name.lower() for name in merged.schema.fieldNames()}:
        return merged
    return replace(merged, schema=StructType([*merged.schema, STREAM_COLUMN]))


def describe_origin(members: Sequence[StreamTable], member: StreamTable) -> dict[str, str]:
    """Return the values of the ORIGIN_COLUMNS for a member's events, without columns that `members` have themselves."""
    taken = {name for one in members for name in one.schema.fieldNames()}
    values = {"_stream": member.stream.name, "_scope": member.stream.scope}
    return {name: text for name, text in values.items() if name not in taken}


def check_member(merged: StreamTable, member: StreamTable) -> None:
    """Raise DifferentSchemasError if a stream does not fit those that a query reads already."""
    _check_same([*merged.members, member], "format", lambda table: table.format)
    fields = {field.name: field for field in member.schema}
    origin = describe_origin(merged.members, member)
    for name in origin:
        if name in fields:
            raise DifferentSchemasError(
                f"Stream {member.stream} has a column {name}, a name that the query uses to tell the streams apart. "
                + _advise_leaving_out(member.stream)
            )
    for field in merged.schema:
        if field.name in origin:
            continue
        own_field = fields.get(field.name)
        if own_field is None and not field.nullable:
            raise make_missing_column_error(field, member)
        if own_field is not None and own_field.dataType != field.dataType:
            raise DifferentSchemasError(
                f"Column {field.name} is {own_field.dataType.simpleString()} in stream {member.stream}, but "
                f"{field.dataType.simpleString()} in the others. {_advise_leaving_out(member.stream)}"
            )


def make_missing_column_error(field: StructField, member: StreamTable) -> DifferentSchemasError:
    """Return the error for a stream without a column that is NOT NULL."""
    return DifferentSchemasError(
        f"Column {field.name} is NOT NULL, and stream {member.stream} has no such column. "
        + _advise_leaving_out(member.stream)
    )


def _merge_columns(members: Sequence[StreamTable]) -> StructType:
    names: dict[str, str] = {}
    for member in members:
        for name in member.schema.fieldNames():
            if names.setdefault(name.lower(), name) != name:
                raise DifferentSchemasError(
                    f"Column {name} of stream {member.stream} is spelled {names[name.lower()]} in another stream. "
                    + _advise_leaving_out(member.stream)
                )
    return StructType([_merge_column(name, members) for name in names.values()])


def _merge_column(name: str, members: Sequence[StreamTable]) -> StructField:
    having = [member for member in members if name in member.schema.fieldNames()]
    _check_same(having, f"column {name}", lambda table: table.schema[name].dataType.simpleString())
    first = having[0].schema[name]
    for member in having:
        if member.schema[name].dataType != first.dataType:  # nested values may be null in one only
            raise DifferentSchemasError(
                f"Column {name} is {member.schema[name].dataType.json()} in stream {member.stream}, but "
                f"{first.dataType.json()} in stream {having[0].stream}. {_advise_leaving_out(member.stream)}"
            )
    lacking = [member for member in members if member not in having]
    demanding = [member for member in having if not member.schema[name].nullable]
    if lacking and demanding:
        raise DifferentSchemasError(
            f"Column {name} is NOT NULL in stream {demanding[0].stream}, and stream {lacking[0].stream} has no such "
            f"column. {_advise_leaving_out(lacking[0].stream)}"
        )
    nullable = any(member.schema[name].nullable for member in having)
    return StructField(name, first.dataType, nullable, first.metadata)


def _check_same(members: Sequence[StreamTable], what: str, value: Callable[[StreamTable], str]) -> None:
    """Raise DifferentSchemasError if there are several values; names a stream with the rarest one."""
    counts = Counter(map(value, members))
    if len(counts) < 2:
        return
    [(usual, _), *_, (odd, _)] = counts.most_common()
    of_odd = next(member.stream for member in members if value(member) == odd)
    of_usual = next(member.stream for member in members if value(member) == usual)
    others = f" and {counts[usual] - 1} more" if counts[usual] > 1 else ""
    raise DifferentSchemasError(
        f"Streams that are read as one must fit each other: {what} is {odd} in stream {of_odd}, but {usual} in stream "
        f"{of_usual}{others}. {_advise_leaving_out(of_odd)}"
    )


def _advise_leaving_out(stream: Stream) -> str:
    """Return the advice for a stream that does not fit the others."""
    return (
        f"Leave stream {stream} out of 'streams', or give another 'pattern', and read it in a separate query; or "
        "give it columns that fit."
    )


def _find_common_properties(members: Sequence[StreamTable]) -> dict[str, str]:
    """Return the properties that count for all members; each has a lake of its own."""
    listed = [{**member.scan_properties} for member in members]
    for properties in listed:
        for option in OF_LAKE:
            properties.pop(option.key, None)
    for member, properties in zip(members, listed, strict=True):
        if properties != listed[0]:
            raise InvalidOptionError(
                f"Stream {member.stream} has the table properties {properties}, and stream {members[0].stream} has "
                f"{listed[0]}. Streams that are read as one must have the same: "
                "change them with ALTER TABLE ... SET TBLPROPERTIES, or leave one of the streams out."
            )
    return listed[0]
