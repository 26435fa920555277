"""How SQL spells the names of scopes and streams: `_` also means `-`, unless the conf `names` is `exact`.

No server of Pravega makes a scope or a stream with `_` in its name, except its own, whose names begin with it; and
SQL takes `-` only in backticks. So the name alone says what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable, TableName
from pyspark_pravega.errors import InvalidNameError, ScopeNotFoundError
from pyspark_pravega.sql import identifiers
from pyspark_pravega.sql import options as o

from ..protocol.table_requests import Identifier
from .catalogs import Catalog
from .reporting import prefix_errors


@dataclass(frozen=True)
class Address:
    """Where a name leads, to a stream, a key-value table or a row of its scope, and what a statement calls it."""

    stream: Stream
    """The scope and the name in Pravega."""
    called: tuple[str, str]
    """Both as the statement spells them."""
    shown: str
    """The whole name for messages."""
    part: str | None = None
    """The part of the stream that is meant, as in a `TableName`."""

    @property
    def about(self) -> str:
        """Return the name for errors, with the stream if that has another name."""
        return _add_stream_name(self.shown, self.called, self.stream)

    def note_spelling(self, table: StreamTable) -> StreamTable:
        """Return the table with how the statement calls it, if Pravega spells it differently."""
        return table if self.called == (self.stream.scope, self.stream.name) else table.as_asked(called=self.called)


def find_address(catalog: Catalog, identifier: Identifier, *, new: bool = False) -> Address:
    """Return where a table's identifier leads; the name of a `new` one has no parts.

    Raises the errors of `resolve_scope`.
    """
    name = TableName(identifier.name) if new else TableName.parse(identifier.name)
    stream = resolve_stream(catalog, identifier.namespace, name.stream)
    return Address(stream, (identifier.namespace[0], name.stream), catalog.named(*identifier.parts), name.part)


def resolve_scope(catalog: Catalog, namespace: Sequence[str]) -> str:
    """Return the scope that a namespace means.

    Raises ScopeNotFoundError for several parts and for a name too long to exist, InvalidNameError without any part.
    """
    if not namespace:
        raise InvalidNameError(
            f"No namespace is given and none is selected. Write {catalog.name}.<namespace>, or "
            f"{catalog.name}.<namespace>.<table> for a table; or select a namespace with USE "
            f"{catalog.name}.<namespace>. A namespace is a Pravega scope."
        )
    if len(namespace) > 1:
        raise ScopeNotFoundError(
            f"There is no namespace {identifiers.quote_all(namespace)}: a namespace is one Pravega scope."
        )
    if len(namespace[0]) > identifiers.MAX_SCOPE_NAME:
        raise ScopeNotFoundError(
            f"There is no namespace `{namespace[0][:40]}...`: its name has {len(namespace[0]):,} characters, "
            f"that of a Pravega scope at most {identifiers.MAX_SCOPE_NAME}."
        )
    return spell_for_pravega(catalog, namespace[0])


def check_scope_exists(catalog: Catalog, namespace: Sequence[str], scope: str) -> None:
    """Raise ScopeNotFoundError unless the scope that a namespace means exists."""
    if not catalog.pravega.controller.scope_exists(scope):
        raise ScopeNotFoundError(f"There is no scope {identifiers.quote_all(namespace)}.")


def resolve_stream(catalog: Catalog, namespace: Sequence[str], name: str) -> Stream:
    """Return the stream that a table's identifier means. Raises the errors of `resolve_scope`."""
    return Stream(resolve_scope(catalog, namespace), spell_table_for_pravega(catalog, name))


def spell_table_for_pravega(catalog: Catalog, name: str) -> str:
    """Return the name of the stream that a table's name means."""
    return spell_for_pravega(catalog, name, identifiers.hyphenate_table)


def spell_for_pravega(catalog: Catalog, name: str, spell: Callable[[str], str] = identifiers.hyphenate) -> str:
    """Return the name in Pravega of what SQL calls by this name."""
    other = spell(name)
    return other if other != name and _is_spelled_for_sql(catalog) else name


def spell_for_sql(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Return the names of scopes or streams as SQL spells them, without Pravega's own."""
    spelled = identifiers.replace_hyphens if _is_spelled_for_sql(catalog) else str
    return sorted(spelled(name) for name in names if not identifiers.is_internal(name))


def name_table(catalog: Catalog, table: StreamTable) -> str:
    """Return the name of a table for messages and plans, spelled as in the statement that loaded it."""
    name = find_table_kind(table).name_of(table)
    if table.asked.called is None:
        return catalog.named(table.stream.scope, name)
    scope, called = table.asked.called
    return catalog.named(scope, called + name.removeprefix(table.stream.name))


def name_table_and_stream(catalog: Catalog, table: StreamTable) -> str:
    """Return the name of a table for errors, with its stream if that has another name."""
    return _add_stream_name(name_table(catalog, table), table.asked.called, table.stream)


def prefix_table(catalog: Catalog, table: StreamTable) -> AbstractContextManager[None]:
    """Begin the message of an error in the body with the name of a table."""
    return prefix_errors("Table", name_table_and_stream(catalog, table))


def _add_stream_name(name: str, called: Sequence[str] | None, stream: Stream) -> str:
    return name if called is None or tuple(called) == (stream.scope, stream.name) else f"{name} (stream {stream})"


def _is_spelled_for_sql(catalog: Catalog) -> bool:
    return not catalog.by_options and catalog.options().get(o.SPELLING) == "sql"
