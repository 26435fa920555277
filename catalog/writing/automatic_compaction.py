"""Compacts tables of changes by itself, after commits, once they have as many bytes of changes as the table allows.

A row of the commit log says where the last compaction began and ended. Queries read from there on, and what lies before
is removed after the next one. Several drivers may compact a table at once: it is done twice, or fails in one.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from pyspark_pravega.client.consumers.consumer import count_bytes_after
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.last_compaction import ROW_NUMBER, LastCompaction
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from .compaction import compact, measure, truncate_unless_held

LOG = logging.getLogger(__name__)
_AFTER_LOOK_SECONDS, _AFTER_FAILURE_SECONDS = 1.0, 300.0
"""Pauses: a look at a stream of many segments asks for each of them, and a compaction that fails has read all rows."""


class AutomaticCompactions:
    """The compactions of one service, at most one of a table at a time; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[tuple[str, Stream], float] = {}
        """When each table is looked at again, by the monotonic clock; never while it is compacted."""

    def consider(self, catalog: Catalog, table: StreamTable) -> None:
        """Compact a table after a commit, if its property asks for that and is due. Does not wait for it."""
        text = table.settings.get(o.COMPACT_AFTER.key)
        most = None if text is None else o.COMPACT_AFTER.type.parse(text)
        if most is None:
            return
        key = catalog.pravega.config.controller_uri, table.stream
        with self._lock:
            if time.monotonic() < self._next.get(key, 0.0):
                return
            self._next[key] = math.inf
        arguments = (catalog, key, most, catalog.hold())
        threading.Thread(target=self._compact, args=arguments, name="compaction", daemon=True).start()

    def _compact(self, catalog: Catalog, key: tuple[str, Stream], most: int, release: Callable[[], None]) -> None:
        _, stream = key
        pause = _AFTER_FAILURE_SECONDS
        try:
            compact_if_due(catalog, stream, most)
            pause = _AFTER_LOOK_SECONDS
        except PravegaError as error:
            LOG.warning("Stream %s was not compacted, which is tried again in %d s: %s", stream, pause, error)
        finally:
            with self._lock:
                self._next[key] = time.monotonic() + pause
            release()


def compact_if_due(catalog: Catalog, stream: Stream, most: int) -> None:
    """Compact a table if its stream has grown by more than so many bytes since it was compacted last.

    Raises the errors of `compact`.
    """
    log = CommitLog(catalog.pravega, stream)
    last = log.read_companion(ROW_NUMBER, LastCompaction.find_in)
    grown = measure(catalog, stream) if last is None else count_bytes_after(catalog.pravega, last.end)
    if grown is not None and grown < most:
        return
    done = compact(catalog, stream, truncate=False)
    # Noted first: whatever becomes of the truncation, the rows are not repeated before that many bytes have come again.
    log.replace_companion(ROW_NUMBER, LastCompaction(done.cut, find_end_now(catalog.pravega, stream).cut).make_row)
    held_by = None if last is None else truncate_unless_held(catalog, last.cut)
    held = "" if held_by is None else f"; consumer {held_by} holds older changes"
    sizes = f"{done.bytes_before} bytes before and {done.bytes_after} after it"
    LOG.info("Stream %s was compacted: %d rows, %s%s.", stream, done.rows, sizes, held)
