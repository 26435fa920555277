"""The names by which programs outside of this repository, such as comparisons with other connectors, use the client."""

from __future__ import annotations


def test_the_appender_and_the_framing_of_events_have_their_old_names() -> None:
    from pyspark_pravega.client import append, event_frames
    from pyspark_pravega.client.segments.append import SegmentAppender
    from pyspark_pravega.client.segments.event_frames import frame

    assert append.SegmentAppender is SegmentAppender and event_frames.frame is frame
