"""Batch scans: from a snapshot of a stream to the rows of its events."""
