"""The stream of a reader group, `_RG<name>`, in which Java's readers agree on who reads what.

The controller creates it empty, and Java's tools cannot handle an empty one. So a consumer writes the record that Java
writes when it creates the group, and writes it again at every move, with the position that it has reached. Java takes
the last such record for the state of a group without readers, and computes the number of unread bytes from it. The
record also keeps the consumer's position, since the controller does not say where a subscriber is.
"""

from __future__ import annotations

import struct
import uuid

import pyarrow as pa

from pyspark_pravega.errors import ProtocolError, StreamNotFoundError

from .. import Pravega
from ..controller.reader_group_calls import ReaderGroup
from ..segments.append import SegmentAppender
from ..segments.event_frames import frame
from ..segments.tail import read_tail
from ..stream import Stream, make_segment_name
from ..stream_cut import StreamCut
from ..wire.versioned import VersionedWriter, encode_versioned
from .group_progress import GroupProgress, fold_records

_INITIAL = 1
"""How a record begins that holds a whole state; other records change a state."""

_STATE = 0
"""The number of the type 'state' among Java's types that a record can hold."""

_MOST_BYTES = 256 * 1024
"""The size in bytes above which the stream is truncated at its last record."""


class GroupLog:
    """The stream of one reader group."""

    def __init__(self, pravega: Pravega, scope: str, name: str) -> None:
        self._pravega = pravega
        self._stream = Stream(scope, f"_RG{name}")

    def read(self) -> GroupProgress | None:
        """Return the state of the group; None if there is none yet. Raises StreamNotFoundError."""
        segment_id, start, end = self._segment()
        window = read_tail(self._pravega.segments, self._stream, segment_id, start, end, end - start)
        if window is None:
            return None
        data = memoryview(window.data)
        pieces = zip(window.starts, window.lengths, strict=True)
        return fold_records([bytes(data[begin : begin + length]) for begin, length in pieces])

    def write(self, group: ReaderGroup, position: StreamCut) -> None:
        """Write a state without readers that begins at a position."""
        segment_id, start, end = self._segment()
        block = frame(pa.array([encode_state(group, position)], pa.large_binary()))
        with SegmentAppender(self._pravega.segments, self._stream, segment_id, uuid.uuid4()) as appender:
            appender.append(block, 1)
            appender.flush()
            written = appender.ranges
        if written and end - start > _MOST_BYTES:
            # Java's clients that are behind continue at the first whole state.
            self._pravega.controller.truncate_stream(StreamCut(self._stream, {segment_id: written[0][0]}))

    def _segment(self) -> tuple[int, int, int]:
        """Return the only segment, with its first byte and its end. Raises StreamNotFoundError."""
        segments = self._pravega.controller.current_segments(self._stream)
        if not segments:  # sealed: the controller is deleting the stream
            raise StreamNotFoundError(f"stream '{self._stream}' of a reader group is being deleted right now")
        if len(segments) != 1:
            raise ProtocolError(f"stream '{self._stream}' of a reader group has {len(segments)} segments, not one")
        segment_id = segments[0].segment_id
        info = self._pravega.segments.segment_infos(self._stream, [segment_id])[segment_id]
        return segment_id, info.start_offset, info.write_offset


def encode_state(group: ReaderGroup, position: StreamCut) -> bytes:
    """Return a record as Java's `ReaderGroupManager` writes it when it creates a group (`ReaderGroupStateInit`)."""
    names = {make_segment_name(position.stream, segment): offset for segment, offset in position.positions.items()}
    first, second, third = VersionedWriter(), VersionedWriter(), VersionedWriter()
    first.block(_encode_configuration(group))
    first.mapping(names, first.text, lambda offset: first.pack("q", offset))
    first.mapping({}, first.text, first.compact_int)

    def write_segment(name: str) -> None:
        second.text(name)
        second.pack("dd", -1.0, -1.0)  # any range of keys

    second.mapping(names, write_segment, lambda offset: second.pack("q", offset))
    third.pack("?", False)
    state = encode_versioned([first.getvalue(), second.getvalue(), third.getvalue()], type=_STATE)
    return struct.pack(">i", _INITIAL) + state


def _encode_configuration(group: ReaderGroup) -> bytes:
    starts = {str(start.stream): _encode_cut(start) for start in group.starts}
    first, second, third = VersionedWriter(), VersionedWriter(), VersionedWriter()
    for revision in (first, second):
        revision.pack("qq", group.checkpoints_ms, group.refresh_ms)
        revision.mapping(starts, revision.text, revision.block)
        revision.mapping(dict.fromkeys(starts, b""), revision.text, revision.block)  # no ends
    second.pack("i", group.outstanding_checkpoints)
    third.compact_int(group.holding.value)
    third.pack("q", group.generation)
    third.uuid(group.id)
    return encode_versioned([first.getvalue(), second.getvalue(), third.getvalue()])


def _encode_cut(cut: StreamCut) -> bytes:
    if not cut.positions:
        return b""
    writer = VersionedWriter()
    writer.text(str(cut.stream))
    writer.mapping(cut.positions, writer.compact_long, writer.compact_signed_long)
    return encode_versioned([writer.getvalue()], version=1)
