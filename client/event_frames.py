"""Keep the name by which programs outside of the project import the framing of events."""

from .segments.event_frames import frame

__all__ = ["frame"]
