"""Compacts tables of changes by itself, after commits, once they have as many bytes of changes as the table allows.

A row of the commit log says how large the stream was after the last compaction, and what lies before its cut is removed
after the next one: queries that began before a compaction can still read what they have planned. Several drivers may
compact a table at the same time, which is right, and only takes longer.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark_pravega.client.key_value.key_value_table import Entry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import encode_row
from pyspark_pravega.datasource.insert.ledger import compute_row_number
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from .compaction import compact, measure, truncate_unless_held

LOG = logging.getLogger(__name__)
_AFTER_LOOK_SECONDS, _AFTER_FAILURE_SECONDS = 1.0, 300.0
"""Pauses: a look at a stream of many segments asks for each of them, and a compaction that fails has read all rows."""
_NUMBER = compute_row_number("compaction")


@dataclass(frozen=True)
class LastCompaction:
    """The cut of the last compaction, None if there was none, and the `size` of the stream after it, in bytes."""

    cut: StreamCut | None = None
    size: int = 0

    @classmethod
    def find_in(cls, stored: Entry | None, origin: int) -> LastCompaction:
        """Read it from its row; one about an older stream of the name does not count."""
        row = {} if stored is None else json.loads(stored.value)
        return cls(StreamCut.from_text(row["cut"]), row["size"]) if row.get("origin") == origin else cls()

    def make_row(self, _stored: Entry | None, origin: int) -> bytes:
        """Return its row."""
        assert self.cut is not None
        return encode_row({"cut": self.cut.to_text(), "size": self.size, "origin": origin})


class AutomaticCompactions:
    """The compactions of one service, at most one of a table at a time; thread-safe."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._next: dict[Stream, float] = {}
        """When each table is looked at again, by the monotonic clock; never while it is compacted."""

    def consider(self, catalog: Catalog, table: StreamTable) -> None:
        """Compact a table after a commit, if its property asks for that and is due. Does not wait for it."""
        text = table.settings.get(o.COMPACT_AFTER.key)
        most = None if text is None else o.COMPACT_AFTER.type.parse(text)
        if most is None:
            return
        with self._lock:
            if time.monotonic() < self._next.get(table.stream, 0.0):
                return
            self._next[table.stream] = math.inf
        arguments = (catalog, table.stream, most, catalog.hold())
        threading.Thread(target=self._compact, args=arguments, name="compaction", daemon=True).start()

    def _compact(self, catalog: Catalog, stream: Stream, most: int, release: Callable[[], None]) -> None:
        pause = _AFTER_FAILURE_SECONDS
        try:
            compact_if_due(catalog, stream, most)
            pause = _AFTER_LOOK_SECONDS
        except PravegaError as error:
            LOG.warning("Stream %s was not compacted, which is tried again in %d s: %s", stream, pause, error)
        finally:
            with self._lock:
                self._next[stream] = time.monotonic() + pause
            release()


def compact_if_due(catalog: Catalog, stream: Stream, most: int) -> None:
    """Compact a table if its stream has grown by more than so many bytes since it was compacted last.

    Raises the errors of `compact`.
    """
    log = CommitLog(catalog.pravega, stream)
    last = log.read_companion(_NUMBER, LastCompaction.find_in)
    if measure(catalog, stream) - last.size < most:
        return
    done = compact(catalog, load_table(catalog.pravega, stream).table, truncate=False)
    held_by = None if last.cut is None else truncate_unless_held(catalog, last.cut)
    size = measure(catalog, stream)
    log.replace_companion(_NUMBER, LastCompaction(done.cut, size).make_row)
    LOG.info(
        "Stream %s was compacted: %d rows, %d bytes before and %d after it%s.",
        stream,
        done.rows,
        done.bytes_before,
        size,
        "" if held_by is None else f"; consumer {held_by} holds older changes",
    )
