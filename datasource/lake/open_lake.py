"""Opens the lake of a table for one statement, or for the micro-batches of a query."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Hashable, Iterator
from typing import Protocol, runtime_checkable

import pyspark.sql.types as T

from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import InvalidOptionError, LakeError, PermissionDeniedError, UnsupportedOperationError
from pyspark_pravega.formats.core.defaults import is_read_as_default
from pyspark_pravega.formats.core.format import Format, find_format
from pyspark_pravega.formats.core.spark_types import list_fields
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import compute_row_number, encode_row
from ..positions.identity import identify, is_same_stream
from ..positions.lake_history import History
from ..tables.open_table import OpenTable
from ..tables.stream_table import StreamTable
from ..workers.connections import hash_config
from .iceberg import LakeTable

LOG = logging.getLogger(__name__)

IGNORE, ONLY = "ignore", "only"
"""Values of the read option `lake`: read what the stream has alone, or what the lake has alone."""
BELIEVED_SECONDS = 30.0
"""How long micro-batches believe what they know of a lake: events are in the stream too, or in newer files."""
_RECENT: Recent[Hashable, tuple[float, LakeTable | None]] = Recent()
"""Lakes as they were loaded, with the time by the monotonic clock."""
_ROW_NUMBER = compute_row_number("lake")


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
            f"or the environment variable {o.LAKE_CATALOG.env}, which does not count beside an address that an option "
            "gives. Or read what the stream has alone with the read option 'lake'='ignore'."
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
        if name is None and asked == ONLY:
            raise InvalidOptionError(f"Stream {opened.stream} has no lake. Leave 'lake'='{asked}' out.")
        return None
    if opened.table.event_type is not None:
        raise UnsupportedOperationError(
            f"Stream {opened.stream} has a lake, in which its events are not told apart by their types. Read what the "
            "stream has alone with the read option 'lake'='ignore'."
        )
    catalog = require_catalog(opened, name)
    key, now = (hash_config(opened.pravega.config), catalog, name, opened.stream), time.monotonic()
    known = _RECENT.find(key)
    if known is None or known[0] < now - oldest:
        try:
            known = now, _load(opened, catalog, name)
        except LakeError as error:
            if not oldest or known is None:
                raise
            LOG.warning("What is known of the lake of stream %s stays valid for now: %s", opened.stream, error)
        _RECENT.put(key, known)
    if known[1] is None and asked == ONLY:
        raise InvalidOptionError(
            f"The lake of stream {opened.stream} has nothing yet. Call the procedure tier, or leave 'lake' out."
        )
    return known[1]


def find_history(opened: OpenTable, *, oldest: float = 0.0) -> History | None:
    """Return what the lake of a table has, None without a lake; raises the errors of `open_lake`."""
    lake = open_lake(opened, oldest=oldest)
    return None if lake is None else lake.history


@runtime_checkable
class DefaultingFormat(Format, Protocol):
    """A format in which a column may have a value in events without it."""

    def can_be_missing(self, schema_text: str, column: str) -> bool:
        """Return whether a column is null in events without it."""
        ...


def check_defaults(table: StreamTable, columns: T.StructType, lake: LakeTable) -> None:
    """Raise UnsupportedOperationError for a column that a lake lacks, and that may have a value in its events."""
    format, known = find_format(table.format), set(lake.columns)
    for column in columns:
        if known.issuperset(_list_names(column.name, column.dataType)):
            continue
        has_value = not column.nullable or is_read_as_default(column)
        if isinstance(format, DefaultingFormat) and table.schema_text is not None:
            has_value |= not format.can_be_missing(table.schema_text, column.name)
        if has_value:
            raise UnsupportedOperationError(
                f"Column {column.name}, or a field in it, was added to a table whose lake {lake.name} has events "
                "without it, and may have a value in these: a default, or that of a former name. Leave it out, or read "
                "what the stream has alone with 'lake'='ignore'."
            )


def _list_names(name: str, data_type: T.DataType) -> Iterator[str]:
    """Yield the name of a column and those of its fields, as a lake spells them."""
    yield name
    for part in list_fields(data_type):
        yield from _list_names(f"{name}.{part.name}", part.dataType)


def _load(opened: OpenTable, catalog: str, name: str) -> LakeTable | None:
    lake = load_lake(opened, catalog, name)
    if lake is None or lake.history is None:
        return None
    check_identity(opened, lake, lake.history)
    lake.check_complete()
    lake.check_columns(opened.table.schema.names)
    return lake


def load_lake(opened: OpenTable, catalog: str, name: str) -> LakeTable | None:
    """Load the lake of a stream; None if there is none. Raises LakeError if it lacks the events that it has had."""
    lake = LakeTable.load(catalog, name)
    if (lake is None or lake.history is None) and _is_filled(opened, name):
        lake = LakeTable.load(catalog, name)  # another tiering may have just filled it
        if lake is None or lake.history is None:
            raise LakeError(
                f"Stream {opened.stream} has had events in the lake's table {name}, which is not in this catalog any "
                "more, or is empty. Check the confs 'spark.sql.catalog.<name>.lake.*', or restore the table. Read what "
                "the stream has alone with 'lake'='ignore'. ALTER TABLE ... SET TBLPROPERTIES ('lake'='...') with "
                "another name begins a lake without these events."
            )
    return lake


def note_filled(opened: OpenTable, name: str) -> None:
    """Note in the commit log that a lake has events of a stream, before these may be removed from the stream."""
    if _is_filled(opened, name):
        return
    log = CommitLog(opened.pravega, opened.stream)
    row = encode_row({"lake": name, "identity": identify(opened.pravega, opened.stream)})
    try:
        log.make_ready()
        log.replace_companion(_ROW_NUMBER, lambda *_: row)
    except PermissionDeniedError as error:
        LOG.warning("If lake %s of stream %s is lost, nothing will tell so: %s", name, opened.stream, error)


def _is_filled(opened: OpenTable, name: str) -> bool:
    """Return whether the commit log notes that a lake of this name has events, as far as this user may read it."""
    try:
        stored = CommitLog(opened.pravega, opened.stream).find_companion(_ROW_NUMBER)
    except PermissionDeniedError as error:
        LOG.debug("Whether lake %s has had events is not known: %s", name, error)
        return False
    row = {} if stored is None else json.loads(stored.value)
    return row.get("lake") == name and is_same_stream(row["identity"], identify(opened.pravega, opened.stream))


def check_identity(opened: OpenTable, lake: LakeTable, history: History) -> None:
    """Raise LakeError if a lake has the events of another stream."""
    stream = opened.stream
    if history.cut.stream != stream or not is_same_stream(history.identity, identify(opened.pravega, stream)):
        raise LakeError(
            f"The lake's table {lake.name} has the events of another stream than {stream}: of {history.cut.stream}, "
            "of one that was dropped, or of one of another cluster. Give this table another lake by ALTER TABLE ... "
            "SET TBLPROPERTIES ('lake'='...'), or read what the stream has alone with 'lake'='ignore'."
        )
