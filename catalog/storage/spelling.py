"""How SQL spells the names of scopes and streams: `_` also means `-`, unless the conf `names` is `exact`.

No server of Pravega makes a scope or a stream with `_` in its name, except its own, whose names begin with it; and
SQL takes `-` only in backticks. So the name alone says what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate, is_internal, underscore

from .connections import Catalog
from .naming import get_scope


def resolve_scope(catalog: Catalog, namespace: Sequence[str]) -> str:
    """Return the scope that a namespace means. Raises the errors of `get_scope`."""
    return spell_for_pravega(catalog, get_scope(namespace, catalog.name))


def resolve_stream(catalog: Catalog, namespace: Sequence[str], name: str) -> Stream:
    """Return the stream that a table's identifier means. Raises the errors of `get_scope`."""
    return Stream(resolve_scope(catalog, namespace), spell_for_pravega(catalog, name))


def spell_for_pravega(catalog: Catalog, name: str) -> str:
    """Return the name in Pravega of what SQL calls by this name."""
    other = hyphenate(name)
    return other if other != name and _is_spelled_for_sql(catalog) else name


def spell_for_sql(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Return names of scopes, or of a scope's streams, as SQL spells them, without those that belong to Pravega."""
    spelled = underscore if _is_spelled_for_sql(catalog) else str
    return sorted(spelled(name) for name in names if not is_internal(name))


def name_table(catalog: Catalog, table: StreamTable) -> str:
    """Return the name of a table for messages and plans, spelled as in the statement that loaded it."""
    name = find_table_kind(table).name_of(table)
    if table.called is None:
        return catalog.named(table.stream.scope, name)
    scope, called = table.called
    return catalog.named(scope, called + name.removeprefix(table.stream.name))


def name_table_and_stream(catalog: Catalog, table: StreamTable) -> str:
    """Return the name of a table for errors, with its stream if that has another name."""
    return add_stream_name(name_table(catalog, table), table.called, table.stream)


def add_stream_name(name: str, called: Sequence[str] | None, stream: Stream) -> str:
    """Return the name of a table, followed by its stream if SQL calls that by another name."""
    return name if called is None or tuple(called) == (stream.scope, stream.name) else f"{name} (stream {stream})"


def _is_spelled_for_sql(catalog: Catalog) -> bool:
    return not catalog.by_options and catalog.options().get(o.SPELLING) == "sql"
