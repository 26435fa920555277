"""Changes whether a table's events are read with a header, if the events that are there agree."""

from __future__ import annotations

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.tail import read_tail
from pyspark_pravega.datasource.scan.snapshot import take_snapshot
from pyspark_pravega.datasource.tables.stream_table import Kind, StreamTable
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.formats.core.framing import encoding_ids

_TAIL = 64 * 1024
"""Bytes at the end of each segment whose events are looked at."""


def check_framing(pravega: Pravega, table: StreamTable, framing: str) -> None:
    """Raise InvalidOptionError unless the newest events of each segment are framed so, or there are none.

    A writer without headers, such as one of Java's serializers that was told so, registers its schema all the same.
    """
    if find_format(table.format).registry_format is None or table.kind is not Kind.EVENTS or not table.schema_version:
        raise InvalidOptionError("'framing' is fixed when such a table is created. Create another table.")
    pieces = take_snapshot(
        pravega, table.stream, start=None, end=None, fail_on_data_loss=False, settled=lambda measure: measure(None)
    )
    for piece in pieces:
        tail = read_tail(pravega.segments, table.stream, piece.segment_id, piece.start, piece.end, _TAIL)
        if tail is None or not len(tail.starts):
            continue
        ids, _ = encoding_ids(EventBuffer(tail.data, tail.starts, tail.lengths))
        if not ((ids >= 0) == (framing == "registry")).all():
            said = "have no header" if framing == "registry" else "have the header of the schema registry"
            raise InvalidOptionError(
                f"'framing'='{framing}' does not fit: the newest events of its stream {said}, and could not be read "
                "any more. Leave it as it is, or create another table."
            )
