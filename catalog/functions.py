"""What the functions of the catalog have to know."""

from __future__ import annotations

from pyspark_pravega.client.stream import Stream, segment_name

from .connections import Catalog
from .replies import KeySpace


def key_space(catalog: Catalog, stream: Stream) -> KeySpace:
    """Return which segment takes the events of which part of the key space. Raises StreamNotFoundError."""
    segments = sorted(catalog.pravega.controller.current_segments(stream), key=lambda segment: segment.max_key)
    names = tuple(segment_name(stream, segment.segment_id) for segment in segments)
    return KeySpace(names, tuple(repr(segment.max_key) for segment in segments))
