"""Procedures on the segments of a stream: seal the stream, scale it, and truncate it."""

from __future__ import annotations

from itertools import pairwise

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType

from pyspark_pravega.client.consumers.consumer import count_bytes_after, lies_before, list_consumers
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.tiering import lies_within
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.lake.open_lake import find_history, find_lake_name
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, StreamSealedError
from pyspark_pravega.sql import options as o

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from ..tables.stream_tables import load_if_table, refuse_to_truncate
from .positions import find_point
from .procedure import DRY_RUN, TABLE, Call, parameter, procedure

_RIGHTS = "READ_UPDATE on the stream"
_DIGITS = 9
"""Borders of segments that agree in this many digits are the same."""


@procedure(
    "Ends a stream: it can be read, but takes no more events. Open transactions are aborted. It cannot be undone.",
    (TABLE, DRY_RUN),
    (
        column("stream_cut", StringType(), "where the stream ends", nullable=False),
        column("waiting_commits", IntegerType(), "in the queue of commits, just before; they fail", nullable=False),
        column("sealed", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def seal_stream(call: Call) -> Rows:
    pravega, stream = call.catalog.pravega, call.find_stream()
    controller = pravega.controller
    if not controller.current_segments(stream):
        raise StreamSealedError(f"Stream {stream} is sealed already.")
    log = CommitLog(pravega, stream)
    head = log.head()
    waiting = 0 if head is None else len(head.queue)
    sealed = not call.is_set(DRY_RUN)
    if sealed:
        controller.seal_stream(stream, log.remind)
    yield measure_tail(pravega, stream).to_text(), waiting, sealed


@procedure(
    "Gives a stream another number of segments, with equal parts of the key space.",
    (TABLE, parameter("segments", "how many it should have", IntegerType()), DRY_RUN),
    (
        column("segments_before", IntegerType(), "that took events", nullable=False),
        column("segments", IntegerType(), "that take events afterwards", nullable=False),
        column("sealed", IntegerType(), "segments that end; one that has its part already stays", nullable=False),
        column("created", IntegerType(), "segments that take their place", nullable=False),
        column("scaled", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def scale_stream(call: Call) -> Rows:
    pravega, stream = call.catalog.pravega, call.find_stream()
    number = int(call.require("segments"))
    least = pravega.controller.stream_configuration(stream).scaling.min_segments
    if not least <= number <= o.MOST_SEGMENTS:
        raise InvalidOptionError(
            f"'segments' => {number} is out of range. Give a number from {least:,} to {o.MOST_SEGMENTS:,}: the table "
            f"property '{o.SCALING_MIN_SEGMENTS.key}' sets the least that the stream may have."
        )
    current = pravega.controller.current_segments(stream)
    if not current:
        raise StreamSealedError(f"Stream {stream} is sealed, and has no segments that take events.")
    sealed, ranges = plan_scaling(current, number)
    scaled = bool(sealed) and not call.is_set(DRY_RUN)
    if scaled:
        pravega.controller.scale_stream(stream, sealed, ranges)
    yield len(current), number, len(sealed), len(ranges), scaled


def plan_scaling(current: list[SegmentRange], number: int) -> tuple[list[int], list[tuple[float, float]]]:
    """Return the segments to seal and the key ranges of new ones, so that there are `number` equal ones.

    Segments that have one of the ranges stay, even if the server has rounded their borders differently.
    """
    borders = {round(border, _DIGITS): border for segment in current for border in (segment.min_key, segment.max_key)}
    equal = [borders.get(round(index / number, _DIGITS), index / number) for index in range(number + 1)]
    ranges = list(pairwise(equal))
    kept = {(segment.min_key, segment.max_key) for segment in current} & set(ranges)
    sealed = [segment.segment_id for segment in current if (segment.min_key, segment.max_key) not in kept]
    return sealed, [key_range for key_range in ranges if key_range not in kept]


@procedure(
    "Removes the events before a position for good.",
    (
        TABLE,
        parameter("before", "a version, whose events are removed too; a tag, a stream cut, or 'tail' for all events"),
        DRY_RUN,
    ),
    (
        column("stream_cut", StringType(), "where the stream begins after it", nullable=False),
        column("removed_bytes", LongType(), "of events before it"),
        column("left_bytes", LongType(), "of events after it"),
        column("consumers_passed", LongType(), "consumers that have not read all of that", nullable=False),
        column("truncated", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def truncate_stream(call: Call) -> Rows:
    pravega, stream = call.catalog.pravega, call.find_stream()
    if (loaded := load_if_table(call.catalog, stream)) is not None:
        refuse_to_truncate(call.catalog, loaded.table, "truncate_stream")
    before = call.require("before")
    cut, head = find_point(pravega, stream, "before", before).cut, pravega.controller.head(stream)
    if loaded is not None:
        _check_lake(call.catalog, loaded.table, cut)
    try:
        pravega.controller.list_segments_between(head, cut)
    except InvalidOptionError:
        raise InvalidOptionError(
            f"'before' => '{before[:80]}' lies before the head of stream {stream}, at least in part: events up to "
            "there are already removed. Give a later position."
        ) from None
    left, total = count_bytes_after(pravega, cut), count_bytes_after(pravega, head)
    removed = None if left is None or total is None else total - left
    positions = (consumer.position for consumer in list_consumers(pravega, stream))
    passed = sum(position is not None and lies_before(pravega, position, cut) for position in positions)
    truncated = not call.is_set(DRY_RUN) and cut != head
    if truncated:
        pravega.controller.truncate_stream(cut)
    yield cut.to_text(), removed, left, passed, truncated


def _check_lake(catalog: Catalog, table: StreamTable, cut: StreamCut) -> None:
    """Raise InvalidOptionError if the lake of a table does not have all events before a cut yet."""
    opened = catalog.open_table(table)
    if find_lake_name(opened) is None:
        return
    history = find_history(opened)
    if history is None or not lies_within(cut, history.cut):
        raise InvalidOptionError(
            f"The lake of stream {cut.stream} does not have all events before that position yet. Call tier first."
        )
