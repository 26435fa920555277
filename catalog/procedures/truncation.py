"""The procedure that truncates a stream."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from pyspark_pravega.client.consumers.consumer import bytes_between, list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.errors import InvalidOptionError, SchemaNotFoundError, UnsupportedOperationError

from ..connections import Catalog
from ..metadata.table import Rows, column
from ..truncating import check_kind
from .positions import point_of_argument
from .procedure import DRY_RUN, TABLE, Procedure, is_set, parameter, required, stream_of


def _truncate_stream(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    pravega, stream = catalog.pravega, stream_of(catalog, arguments)
    _check_kind(catalog, stream)
    before = required(arguments, "before")
    cut, head = point_of_argument(pravega, stream, "before", before).cut, pravega.controller.head(stream)
    try:
        pravega.controller.segments_between(head, cut)
    except InvalidOptionError:
        raise InvalidOptionError(
            f"'before' => '{before[:80]}' lies before the head of stream {stream}, in part at least: events up to "
            "there were removed before. Give a later position."
        ) from None
    left, there = bytes_between(pravega, cut), bytes_between(pravega, head)
    removed = None if left is None or there is None else there - left
    passed = sum(_is_before(catalog, each.position, cut) for each in list_consumers(pravega, stream))
    truncated = not is_set(arguments, DRY_RUN) and cut != head
    if truncated:
        pravega.controller.truncate_stream(cut)
    yield cut.to_text(), removed, left, passed, truncated


def _check_kind(catalog: Catalog, stream: Stream) -> None:
    """Refuse tables of changes. Streams that cannot be read as tables, or not as one, are none."""
    try:
        table = load_table(catalog.pravega, stream).table
    except (SchemaNotFoundError, UnsupportedOperationError):
        return
    check_kind(catalog, table, "truncate_stream is")


def _is_before(catalog: Catalog, position: StreamCut | None, cut: StreamCut) -> bool:
    """Tell whether a consumer's position lies before a cut, in part at least, and is known."""
    if position is None or position == cut:
        return False
    behind, left = bytes_between(catalog.pravega, position), bytes_between(catalog.pravega, cut)
    return behind is not None and left is not None and behind > left


TRUNCATE_STREAM = Procedure(
    "truncate_stream",
    "Removes the events before a position for good.",
    (
        TABLE,
        parameter("before", "a version, whose events are removed too; a tag, a stream cut, or 'tail' for all events"),
        DRY_RUN,
    ),
    StructType(
        [
            column("stream_cut", StringType(), "where the stream begins after it", nullable=False),
            column("removed_bytes", LongType(), "of events before it"),
            column("left_bytes", LongType(), "of events behind it"),
            column("consumers_passed", LongType(), "consumers that have not read all of that", nullable=False),
            column("truncated", BooleanType(), "whether it was done", nullable=False),
        ]
    ),
    "READ_UPDATE on the stream",
    _truncate_stream,
)
