"""Opens the lake of a table for one statement, or for the micro-batches of a query."""

from __future__ import annotations

import time
from collections.abc import Hashable

import pyspark.sql.types as T

from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import InvalidOptionError, LakeError, UnsupportedOperationError
from pyspark_pravega.formats.core.defaults import is_read_as_default
from pyspark_pravega.sql import options as o

from ..positions.identity import identify, is_same_stream
from ..positions.lake_history import History
from ..tables.open_table import OpenTable
from .iceberg import LakeTable

IGNORE, ONLY = "ignore", "only"
"""Values of the read option `lake`: read what the stream has alone, or what the lake has alone."""
BELIEVED_SECONDS = 30.0
"""How long micro-batches believe what they know of a lake: events are in the stream too, or in newer files."""
_RECENT: Recent[Hashable, tuple[float, LakeTable | None]] = Recent()
"""Lakes as they were loaded, with the time by the monotonic clock."""


def find_lake_name(opened: OpenTable) -> str | None:
    """Return the name of the lake's table of a table, None if it has no lake."""
    return opened.table.scan_properties.get(o.LAKE.key)


def require_catalog(opened: OpenTable, name: str) -> str:
    """Return the settings of the lake's catalog. Raises InvalidOptionError if there are none."""
    settings = opened.options.get(o.LAKE_CATALOG)
    if settings is None:
        raise InvalidOptionError(
            f"Stream {opened.stream} has the lake '{name}', and the confs of its catalog are not set. Set "
            "'spark.sql.catalog.<name>.lake.type', 'spark.sql.catalog.<name>.lake.uri' and what else pyiceberg needs, "
            "or read what the stream has alone with the read option 'lake'='ignore'."
        )
    return settings


def open_lake(opened: OpenTable, *, oldest: float = 0.0) -> LakeTable | None:
    """Return the lake of a table with what it has now, or had at most `oldest` seconds ago.

    Returns None for a table without a lake, for a lake that has nothing yet, and with 'lake'='ignore'. Raises
    InvalidOptionError without the confs of the lake, LakeError if the lake cannot be used, lacks rows, or belongs to
    another stream, and UnsupportedOperationError for a part of a stream.
    """
    name = find_lake_name(opened)
    asked = opened.options.get(o.LAKE)
    if name is None or asked == IGNORE:
        if name is None and asked is not None:
            raise InvalidOptionError(f"Stream {opened.stream} has no lake. Leave 'lake'='{asked}' out.")
        return None
    if opened.table.event_type is not None:
        raise UnsupportedOperationError(
            f"Stream {opened.stream} has a lake, in which its events are not told apart by their types. Read what the "
            "stream has alone with the read option 'lake'='ignore'."
        )
    catalog = require_catalog(opened, name)
    key, now = (catalog, name, opened.stream), time.monotonic()
    known = _RECENT.find(key)
    if known is None or known[0] < now - oldest:
        lake = LakeTable.load(catalog, name)
        if lake is not None and lake.history is not None:
            check_identity(opened, lake, lake.history)
            lake.check_complete()
        else:
            lake = None
        known = now, lake
        _RECENT.put(key, known)
    if known[1] is None and asked == ONLY:
        raise InvalidOptionError(
            f"The lake of stream {opened.stream} has nothing yet. Call the procedure tier, or leave 'lake' out."
        )
    return known[1]


def check_defaults(columns: T.StructType, lake: LakeTable) -> None:
    """Raise UnsupportedOperationError for a column that a lake lacks, and whose value in its events is not null."""
    for column in columns:
        if column.name not in lake.columns and is_read_as_default(column):
            raise UnsupportedOperationError(
                f"Column {column.name} was added with a default to a table whose lake {lake.name} has events without "
                "it, and files cannot have that value in their rows. Leave the column out, read what the stream has "
                "alone with 'lake'='ignore', or give the table a new lake."
            )


def look_again(opened: OpenTable) -> bool:
    """Load the lake of a table again: it may have what was removed from the stream. Return whether there is one."""
    return open_lake(opened) is not None


def check_identity(opened: OpenTable, lake: LakeTable, history: History) -> None:
    """Raise LakeError if a lake has the events of another stream."""
    stream = opened.stream
    if history.cut.stream != stream or not is_same_stream(history.identity, identify(opened.pravega, stream)):
        raise LakeError(
            f"The lake's table {lake.name} has the events of another stream than {stream}: of {history.cut.stream}, "
            "of one that was dropped, or of one of another cluster. Give this table another lake by ALTER TABLE ... "
            "SET TBLPROPERTIES ('lake'='...'), or read what the stream has alone with 'lake'='ignore'."
        )
