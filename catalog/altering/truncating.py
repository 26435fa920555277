"""TRUNCATE TABLE: a table loses the rows that it has now."""

from __future__ import annotations

from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import UnsupportedOperationError

from ..storage.catalogs import Catalog
from ..storage.spelling import name_table


def truncate(catalog: Catalog, table: StreamTable) -> None:
    """Remove all events that a table has now; a commit at the same time is removed or kept as a whole.

    In a key-value table the entries are removed, one after the other. Raises UnsupportedOperationError for tables whose
    rows are not all the events of a stream, StreamSealedError.
    """
    refuse_to_truncate(catalog, table, "TRUNCATE TABLE", "DELETE without WHERE")
    find_table_kind(table).truncate(catalog.pravega, table)


def refuse_to_truncate(catalog: Catalog, table: StreamTable, *statements: str) -> None:
    """Raise UnsupportedOperationError, which names the statements, if a table's events cannot be removed."""
    whole = catalog.named(*(table.asked.called or (table.stream.scope, table.stream.name)))
    refused = find_table_kind(table).refusal_to_truncate(name_table(catalog, table), whole)
    if refused is not None:
        verb = "is" if len(statements) == 1 else "are"
        raise UnsupportedOperationError(f"{' and '.join(statements)} {verb} not possible on {refused}")
