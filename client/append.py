"""Keep the name by which programs outside of the project import the appender of segments."""

from .segments.append import SegmentAppender

__all__ = ["SegmentAppender"]
