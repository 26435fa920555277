"""TRUNCATE TABLE: a stream begins where it ends now."""

from __future__ import annotations

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.key_value.entry_write import remove_entries
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError

from ..storage.catalogs import Catalog
from ..storage.spelling import name_table

_TRIES = 5


def truncate(catalog: Catalog, table: StreamTable) -> None:
    """Remove all events that a table has now; a commit at the same time is removed or kept as a whole.

    In a key-value table the entries are removed, one after the other. Raises UnsupportedOperationError for tables whose
    rows are not all the events of a stream, StreamSealedError.
    """
    kind = find_table_kind(table)
    if not (kind.of_stream or kind.is_merged):
        remove_entries(catalog.pravega, table)
        return
    refuse_to_truncate(catalog, table, "TRUNCATE TABLE", "DELETE without WHERE")
    _truncate(catalog, table)


def refuse_to_truncate(catalog: Catalog, table: StreamTable, *statements: str) -> None:
    """Raise UnsupportedOperationError, which names the statements, if a table's events cannot be removed."""
    whole = catalog.named(*(table.asked.called or (table.stream.scope, table.stream.name)))
    refused = find_table_kind(table).refusal_to_truncate(name_table(catalog, table), whole)
    if refused is not None:
        verb = "is" if len(statements) == 1 else "are"
        raise UnsupportedOperationError(f"{' and '.join(statements)} {verb} not possible on {refused}")


def _truncate(catalog: Catalog, table: StreamTable) -> None:
    controller, stream = catalog.pravega.controller, table.stream
    log = CommitLog(catalog.pravega, stream)
    for tries in range(1, _TRIES + 1):
        # The server accepts any offsets. These are the ends of segments, which never lie within an event: the server
        # appends and merges whole events. Nor do they divide a transaction.
        cut: StreamCut = log.measure_settled(lambda version: version or measure_tail(catalog.pravega, stream))
        head = controller.head(stream)
        if cut == head:
            return
        try:
            controller.truncate_stream(cut)
            return
        except InvalidOptionError:
            # Retention or another program truncates at the same time, perhaps behind the cut.
            if tries == _TRIES or controller.head(stream) == head:
                raise
