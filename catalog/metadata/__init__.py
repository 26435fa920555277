"""Metadata tables: what can be known about a stream, as rows."""
