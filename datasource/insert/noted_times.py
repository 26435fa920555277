"""What writes note of event time with Pravega: how far their rows have come, under the name of their writer.

A noted time is the promise that the writer's later rows are not older. Its rows may be out of order by the delay of the
table, so the latest time among them, less the delay, is noted. A streaming query with a watermark of Spark's knows more
of its rows: it notes no later time than that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pyarrow as pa

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, PravegaError

from ..positions.snapshot import measure_tail
from ..tables.named_columns import find_latest_time
from ..tables.stream_table import StreamTable
from .ledger import Epoch

LOG = logging.getLogger(__name__)

INSERTS = "pyspark-pravega"
"""The writer that notes the event times of INSERTs, and is removed after each."""


class ReachedTime:
    """The time that the rows of a task have reached: the latest in the column of event times, less the delay."""

    def __init__(self, table: StreamTable) -> None:
        self._column, self._delay = table.event_time, table.event_time_delay
        self._latest: int | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows into account."""
        if self._column is not None and (time := find_latest_time(batch.column(self._column))) is not None:
            self._latest = time if self._latest is None else max(self._latest, time)

    @property
    def millis(self) -> int | None:
        """Return the time in milliseconds since 1970; None without times, or without a column of times."""
        return None if self._latest is None else self._latest - self._delay


def choose_noted_time(
    reached: Iterable[int | None], writer: str | None, watermark: int | None
) -> tuple[str, int] | None:
    """Return the name under which a write notes event time, and the time; None if it has nothing to note.

    `reached` are the times of its tasks. `writer` is None for an INSERT. `watermark` is Spark's, of a micro-batch whose
    query has one: 0 as long as it has not begun.
    """
    times = [time for time in reached if time is not None]
    if not times or watermark == 0:
        return None
    time = max(times) if watermark is None else min(max(times), watermark)
    return (INSERTS if writer is None else f"{INSERTS}-{writer.replace(' ', '-')}"), time


def note_stored(pravega: Pravega, stream: Stream, reached: Iterable[int | None], epoch: Epoch | None) -> None:
    """Note the time of a write without a transaction, whose rows are all stored, for the end of the stream.

    `epoch` is its micro-batch, if it is one. An error leaves the time as it was: the rows are there already.
    """
    writer, watermark = (None, None) if epoch is None else (epoch.writer, epoch.watermark)
    noted = choose_noted_time(reached, writer, watermark)
    if noted is None:
        return
    name, time = noted
    try:
        try:
            position = measure_tail(pravega, stream)
            pravega.controller.note_time(name, position, time)
            # A controller that looks for watermarks between these two steps forgets the stream until told again.
            pravega.controller.note_time(name, position, time)
        except InvalidOptionError as error:
            LOG.debug("The time of a writer never goes back: %s", error)
        if name == INSERTS:
            remove_inserts(pravega, stream)
    except PravegaError as error:
        LOG.warning("Stream %s: the event time of a write was not noted: %s", stream, error)


def remove_inserts(pravega: Pravega, stream: Stream) -> None:
    """Remove the writer of INSERTs: the time that it noted counts, and no watermark will wait for a later one."""
    pravega.controller.remove_writer(INSERTS, stream)
