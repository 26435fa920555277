"""ALTER TABLE of a table of several streams: which streams it is, and the comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..protocol import TableChange
from ..protocol.replies import TableDescription
from ..storage.connections import Catalog
from ..storage.naming import prefix_errors
from ..storage.scope_table import RowKind, ScopeTable
from ..storage.spelling import add_stream_name
from ..tables.merged_tables import check_properties, describe, load_streams, make_row

_OTHER = {o.STREAMS.key: o.PATTERN_OF_STREAMS.key, o.PATTERN_OF_STREAMS.key: o.STREAMS.key}


def alter_merged(
    catalog: Catalog, stream: Stream, row: Mapping[str, Any], called: tuple[str, str], changes: Sequence[TableChange]
) -> TableDescription:
    """Change the properties of a table of several streams, of which `row` is kept.

    Raises UnsupportedOperationError for other changes, InvalidOptionError, and the errors of `load_streams`.
    """
    shown = catalog.named(*called)
    asked = _read_changes(changes, shown)
    made: list[tuple[StreamTable, Mapping[str, Any]]] = []

    def changed(before: Mapping[str, Any]) -> Mapping[str, Any]:
        if before.get("id") != row["id"]:
            raise StreamNotFoundError(f"There is no table {shown} any more.")
        given: dict[str, str | None] = {**before["properties"], "comment": before["comment"]}
        for key, value in asked:
            given[key] = value
            if value is not None and _OTHER.get(key) in before["properties"]:
                given[_OTHER[key]] = None
        comment = given.pop("comment")
        kept = {key: text for key, text in given.items() if text is not None}
        properties = check_properties(catalog, kept, stream.scope)
        table = load_streams(catalog, stream, properties)
        made.append((table, {**before, **make_row(table, properties, comment)}))
        return made[-1][1]

    with prefix_errors("Table", add_stream_name(shown, called, stream)):
        ScopeTable(catalog.pravega, stream.scope).change(RowKind.SEVERAL_STREAMS, stream.name, changed)
    table, new = made[-1]
    return describe(catalog, table, new, called)


def _read_changes(changes: Sequence[TableChange], shown: str) -> list[tuple[str, str | None]]:
    """Return the keys and new values (None: removed) of properties. Raises UnsupportedOperationError for others."""
    asked = []
    for change in changes:
        if change.kind not in ("SetProperty", "RemoveProperty") or change.property in ("location", "collation"):
            raise UnsupportedOperationError(MergedStreams.refusal("ALTER TABLE", shown))
        option = o.find_option(str(change.property))
        asked.append((str(change.property) if option is None else option.key, change.value))
    return asked
