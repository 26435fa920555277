"""Segment stores: connections to them, and the bytes of segments, read and appended."""
