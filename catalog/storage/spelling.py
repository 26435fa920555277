"""How SQL spells the names of scopes and streams: `_` also means `-`, unless the conf `names` is `exact`.

No server of Pravega makes a scope or a stream with `_` in its name, but for its own, whose names begin with it; and SQL
takes no `-` outside of backticks. So what a name means is told by the name alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate, is_internal, underscore

from .connections import Catalog
from .naming import scope_of


def scope_named(catalog: Catalog, namespace: Sequence[str]) -> str:
    """Return the scope that a namespace means. Raises the errors of `scope_of`."""
    return as_in_pravega(catalog, scope_of(namespace, catalog.name))


def stream_named(catalog: Catalog, namespace: Sequence[str], name: str) -> Stream:
    """Return the stream that a table's identifier means. Raises the errors of `scope_of`."""
    return Stream(scope_named(catalog, namespace), as_in_pravega(catalog, name))


def as_in_pravega(catalog: Catalog, name: str) -> str:
    """Return the name in Pravega of what SQL calls by this name."""
    other = hyphenate(name)
    return other if other != name and _as_in_sql(catalog) else name


def listed(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Return all scopes, or all streams of a scope, as SQL spells them, without those that belong to Pravega."""
    spelled = underscore if _as_in_sql(catalog) else str
    return sorted(spelled(name) for name in names if not is_internal(name))


def table_name(catalog: Catalog, table: StreamTable) -> str:
    """Return how messages and plans name a table: as the statement did that loaded it."""
    name = find_table_kind(table).name_of(table)
    if table.called is None:
        return catalog.named(table.stream.scope, name)
    scope, called = table.called
    return catalog.named(scope, called + name.removeprefix(table.stream.name))


def subject(catalog: Catalog, table: StreamTable) -> str:
    """Return how errors name a table: its stream too, where that has another name."""
    return with_stream(table_name(catalog, table), table.called, table.stream)


def with_stream(name: str, called: Sequence[str] | None, stream: Stream) -> str:
    """Return the name of a table, and that of its stream if it is not what SQL calls it."""
    return name if called is None or tuple(called) == (stream.scope, stream.name) else f"{name} (stream {stream})"


def _as_in_sql(catalog: Catalog) -> bool:
    return not catalog.by_options and catalog.options().get(o.SPELLING) == "sql"
